/* SPDX-License-Identifier: Apache-2.0 */
/* needs: proto/coding proto/otlp/view */
#include <errno.h>

#include "proto/base/room.h"
#include "proto/convert/from_parca.h"
#include "proto/convert/to_folded.h"
#include "tests/lib/sweep.h"
#include "tests/lib/unit.h"
#include "tests/unit/proto/arrow/seed.h"

UNIT(rows_become_samples_of_their_resources)
{
    static const char *const names[] = {"lz4", "zstd", "plain"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        struct buffer out = BUFFER_INIT(0), folded = BUFFER_INIT(0);
        struct from_parca *c = unit_made(from_parca_new(NULL));
        struct profiles view;
        struct error e = {""};
        ck_assert_int_eq(profiles_init(&view, NULL), 0);
        for (int again = 0; again < 2; again++) {
            out.n = 0;
            ck_assert_msg(from_parca(c, seed(names[i]), NULL, &out, &e) == 0, "%s", e.text);
        }
        int r =
            profiles_decode_as(&view, buffer_bytes(&out), PROFILES_LAYOUT_1_10, &profiles_limits_default, &e);
        ck_assert_msg(r == 0 && view.rejected.samples == 0, "%s", e.text);
        ck_assert_uint_eq(view.resource.n, 2);
        ck_assert_uint_eq(view.profile.n, 3);
        ck_assert(bytes_is(profiles_string(&view, view.profile.type[1]), "off_cpu"));
        ck_assert_int_eq(view.profile.period[0], 52631578);
        ck_assert_int_eq(to_folded(&view, &folded), 0);
        ck_assert(buffer_add_str(&folded, "") == 0 && buffer_add(&folded, "", 1) == 0);
        ck_assert_msg(strstr((char *)folded.p, "main;handle_a_request_with_a_long_name;"), "%s",
                      (char *)folded.p);
        buffer_release(&folded);
        buffer_release(&out);
        profiles_release(&view);
        from_parca_free(c);
    }
}

UNIT(nothing_but_agents_rows_is_taken)
{
    struct buffer out = BUFFER_INIT(1u << 20);
    struct from_parca *c = unit_made(from_parca_new(NULL));
    struct error e = {""};
    ck_assert_int_eq(from_parca(c, BYTES_LIT("ARROW1\0\0"), NULL, &out, &e), FROM_PARCA_MALFORMED);
    ck_assert(strstr(e.text, "does not begin as one"));
    ck_assert_int_eq(from_parca(c, BYTES_LIT(""), NULL, &out, &e), 0);
    out.n = 0; /* a request without a profile */
    struct bytes ipc = seed("plain");
    uint8_t *at = memmem(seed_bytes, ipc.n, "stacktrace", 11) /* with its NUL: not stacktrace_id */;
    at[9] = 'x';
    ck_assert_int_eq(from_parca(c, ipc, NULL, &out, &e), FROM_PARCA_MALFORMED);
    ck_assert_msg(strstr(e.text, "no column stacktrace"), "%s", e.text);
    out.max = 200;
    ck_assert_int_eq(from_parca(c, seed("lz4"), NULL, &out, &e), FROM_PARCA_TOO_LARGE);
    ck_assert_uint_eq(out.n, 0);
    buffer_release(&out);
    from_parca_free(c);
}

OOM_SWEEP(no_memory_for_rows)
{
    struct budget budget = BUDGET_INIT(32u << 20, NULL);
    struct buffer out = BUFFER_INIT(0);
    struct error e = {""};
    sweep_pause();
    const struct bytes ipc = seed("plain");
    sweep_resume();
    struct from_parca *c = from_parca_new(&budget);
    const int r = c ? from_parca(c, ipc, NULL, &out, &e) : -ENOMEM;
    ck_assert(r == 0 || (r == -ENOMEM && out.n == 0));
    room_release(&out, &budget);
    from_parca_free(c);
    ck_assert_uint_eq(budget.used, 0);
}
