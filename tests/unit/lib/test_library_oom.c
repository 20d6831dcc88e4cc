/* SPDX-License-Identifier: Apache-2.0 */
/* needs: proto/coding dep_deflate */
#include <errno.h>
#include <libdeflate.h>
#include <stdlib.h>
#include <string.h>

#include "proto/coding/coding.h"
#include "tests/lib/unit.h"

#ifdef PG_OOM
#include "tests/lib/oom.h"

static uint32_t places_of(const struct oom_places *p, const char *name)
{
    static const char *const names[] = LIBRARY_OOM_NAMES;
    uint32_t n = 0;
    for (uint32_t i = 0; i < p->n; i++)
        n += p->library[i] >= 0 && strcmp(names[p->library[i]], name) == 0;
    return n;
}

static int encode(enum coding c, struct buffer *out)
{
    struct coding_encoder *e = coding_encoder_new(c, 0);
    int r = e ? coding_encode(e, BYTES_LIT("some text, some text"), out) : -ENOMEM;
    coding_encoder_free(e);
    return r;
}

static int decode(enum coding c, struct bytes in)
{
    struct coding_decoder *d = coding_decoder_new();
    struct buffer out = {0};
    int r = d ? coding_decode(d, c, in, 1000, 0, NULL, &out) : -ENOMEM;
    coding_decoder_free(d);
    buffer_release(&out);
    return r;
}

UNIT(what_a_library_takes_for_our_code_is_a_place_and_its_failure_arrives)
{
    library_oom_begin();
    oom_look_at_libraries(true);
    const struct {
        enum coding coding;
        const char *library;
    } of[] = {{CODING_GZIP, "deflate"}, {CODING_ZSTD, "zstd"}};
    for (uint32_t i = 0; i < 2; i++) {
        struct oom_places *p = unit_made(oom_places_new());
        struct buffer packed = {0};
        ck_assert_int_eq(encode(of[i].coding, &packed), 0);
        /* From one line, since that is part of a place: first with all the memory it wants, then without
         * each. */
        for (int k = -1; k < (int)p->n; k++) {
            if (k < 0)
                oom_record(p);
            else
                oom_fail(p->place[k], false);
            int r = decode(of[i].coding, buffer_bytes(&packed));
            uint32_t failures = oom_failures();
            oom_stop();
            ck_assert_int_eq(r, k < 0 ? 0 : -ENOMEM);
            ck_assert(k < 0 || failures == 1);
        }
        ck_assert_uint_gt(places_of(p, of[i].library), 0);
        ck_assert_uint_eq(places_of(p, i == 0 ? "zstd" : "deflate"), 0);
        buffer_release(&packed);
    }
}

UNIT(what_a_test_asks_of_a_library_itself_is_none)
{
    library_oom_begin();
    oom_look_at_libraries(true);
    struct oom_places *p = unit_made(oom_places_new());
    oom_record(p);
    struct libdeflate_decompressor *d = libdeflate_alloc_decompressor();
    oom_stop();
    ck_assert_ptr_nonnull(d);
    libdeflate_free_decompressor(d);
    ck_assert_uint_eq(p->n, 0);
}

UNIT(what_a_library_cannot_stand_is_left_out)
{
    static const char *const names[] = LIBRARY_OOM_NAMES;
    for (int i = 0; i < (int)LIBRARY_OOM_N; i++) {
        ck_assert(library_oom_is_fatal(i, BY_REALLOC) == (strcmp(names[i], "uv") == 0));
        ck_assert(library_oom_is_fatal(i, BY_STRDUP) == (strcmp(names[i], "json-c") == 0));
        ck_assert(!library_oom_is_fatal(i, BY_MALLOC) && !library_oom_is_fatal(i, BY_CALLOC));
    }
}
#else
UNIT(what_a_library_takes_for_our_code_is_a_place_and_its_failure_arrives)
{
    unit_skip("only builds with AddressSanitizer can let allocations fail");
}
#endif
