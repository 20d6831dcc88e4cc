/* SPDX-License-Identifier: Apache-2.0 */
/* needs: dep_deflate dep_lz4 */
#include <errno.h>
#include <lz4frame.h>
#include <malloc.h>
#include <stdlib.h>
#include <zstd.h>

#include "proto/base/library/library.h"
#include "proto/coding/coding.h"
#include "proto/base/room.h"
#include "tests/lib/unit.h"

#define EXTRA 64u
#define LIMIT (1u << 20)

static struct coding_decoder *decoder(void)
{
    struct coding_decoder *d = unit_made(coding_decoder_new());
    return d;
}

/* Text that compresses, but not to nothing. */
static struct buffer text(size_t n)
{
    struct buffer b = {0};
    for (uint32_t i = 0; b.n < n; i++)
        ck_assert_int_eq(buffer_printf(&b, "frame_%u;", i * 2654435761u % 977), 0);
    b.n = n;
    return b;
}

static struct buffer packed(enum coding c, struct bytes in)
{
    struct coding_encoder *e = coding_encoder_new(c, 0);
    struct buffer out = {0};
    ck_assert_ptr_nonnull(e);
    ck_assert_int_eq(coding_encode(e, in, &out), 0);
    coding_encoder_free(e);
    return out;
}

/* Decodes with a fresh decoder and buffer; checks the budget and, when it worked, the bytes and the headroom.
 */
static int unpack_limited(enum coding c, struct bytes in, size_t limit, const struct buffer *want)
{
    struct budget budget = BUDGET_INIT(64 << 20, NULL);
    struct coding_decoder *d = decoder();
    struct buffer out = {0};
    int r = coding_decode(d, c, in, limit, EXTRA, &budget, &out);
    if (r == 0) {
        ck_assert(bytes_eq(buffer_bytes(&out), buffer_bytes(want)));
        ck_assert_uint_ge(out.cap - out.n, EXTRA);
        memset(out.p + out.n, 0xa5, EXTRA);
    } else {
        ck_assert_uint_eq(out.n, 0);
    }
    ck_assert_uint_eq(atomic_load(&budget.used), out.cap);
    room_release(&out, &budget);
    ck_assert_uint_eq(atomic_load(&budget.used), 0);
    coding_decoder_free(d);
    return r;
}

static const enum coding codings[] = {CODING_IDENTITY, CODING_GZIP,   CODING_DEFLATE,
                                      CODING_ZSTD,     CODING_SNAPPY, CODING_LZ4};

UNIT(names_are_known_in_any_case)
{
    ck_assert_int_eq(coding_parse(BYTES_LIT("gzip")), CODING_GZIP);
    ck_assert_int_eq(coding_parse(BYTES_LIT(" GZip ")), CODING_GZIP);
    ck_assert_int_eq(coding_parse(BYTES_LIT("x-gzip")), CODING_GZIP);
    ck_assert_int_eq(coding_parse(BYTES_LIT("deflate")), CODING_DEFLATE);
    ck_assert_int_eq(coding_parse(BYTES_LIT("zstd")), CODING_ZSTD);
    ck_assert_int_eq(coding_parse(BYTES_LIT("identity")), CODING_IDENTITY);
    ck_assert_int_eq(coding_parse(BYTES_LIT("")), CODING_IDENTITY);
    ck_assert_int_eq(coding_parse(BYTES_LIT("br")), CODING_UNKNOWN);
    ck_assert_int_eq(coding_parse(BYTES_LIT("gzip, gzip")), CODING_UNKNOWN);
    ck_assert_int_eq(coding_parse(BYTES_LIT("zlib")), CODING_DEFLATE);
    ck_assert_int_eq(coding_parse(BYTES_LIT("Snappy")), CODING_SNAPPY);
    ck_assert_int_eq(coding_parse(BYTES_LIT("x-snappy-framed")), CODING_SNAPPY);
    ck_assert_int_eq(coding_parse(BYTES_LIT("lz4")), CODING_LZ4);
    ck_assert_str_eq(coding_name(CODING_ZSTD), "zstd");
    ck_assert_str_eq(coding_name(CODING_SNAPPY), "snappy");
    ck_assert_str_eq(coding_name(CODING_UNKNOWN), "unknown");
}

UNIT(the_list_names_every_coding)
{
    char list[] = CODING_LIST, *save = NULL;
    uint32_t seen = 0;
    for (char *name = strtok_r(list, ",", &save); name; name = strtok_r(NULL, ",", &save)) {
        enum coding c = coding_parse(bytes_str(name));
        ck_assert_str_eq(coding_name(c), name);
        seen |= 1u << c;
    }
    ck_assert_uint_eq(seen, (1u << CODING_UNKNOWN) - 1);
}

UNIT(what_was_encoded_comes_back)
{
    const size_t sizes[] = {0, 1, 100, 4096, 70000, LIMIT};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
        for (size_t c = 0; c < sizeof codings / sizeof *codings; c++) {
            cleanup(buffer_release) struct buffer plain = text(sizes[s]),
                                                  in = packed(codings[c], buffer_bytes(&plain));
            ck_assert_int_eq(unpack_limited(codings[c], buffer_bytes(&in), LIMIT, &plain), 0);
        }
}

UNIT(the_limit_is_exact)
{
    cleanup(buffer_release) struct buffer plain = text(50000);
    for (size_t c = 0; c < sizeof codings / sizeof *codings; c++) {
        cleanup(buffer_release) struct buffer in = packed(codings[c], buffer_bytes(&plain));
        ck_assert_int_eq(unpack_limited(codings[c], buffer_bytes(&in), 50000, &plain), 0);
        ck_assert_int_eq(unpack_limited(codings[c], buffer_bytes(&in), 49999, &plain), CODING_TOO_LARGE);
        ck_assert_int_eq(unpack_limited(codings[c], buffer_bytes(&in), 0, &plain), CODING_TOO_LARGE);
    }
}

UNIT(every_cut_is_refused_and_so_is_garbage_behind)
{
    cleanup(buffer_release) struct buffer plain = text(3000);
    for (size_t c = 1; c < sizeof codings / sizeof *codings; c++) {
        cleanup(buffer_release) struct buffer in = packed(codings[c], buffer_bytes(&plain));
        for (size_t n = 0; n < in.n; n++) {
            if (codings[c] == CODING_SNAPPY && (n == 0 || n == 10))
                continue; /* a stream has no end mark: nothing, and the identifier alone, are empty streams */
            /* A gzip cut may end in four bytes that look like a size above the limit; refused is refused. */
            int r = unpack_limited(codings[c], bytes_of(in.p, n), LIMIT, &plain);
            ck_assert_msg(r == CODING_CORRUPT || r == CODING_TOO_LARGE, "%s cut at %zu gave %d",
                          coding_name(codings[c]), n, r);
        }
        buffer_add(&in, "\0\0\0\0", 4);
        ck_assert_int_eq(unpack_limited(codings[c], buffer_bytes(&in), LIMIT, &plain), CODING_CORRUPT);
    }
}

UNIT(streams_of_several_parts_are_joined)
{
    cleanup(buffer_release) struct buffer plain = text(40000);
    for (size_t c = 1; c < sizeof codings / sizeof *codings; c++) {
        if (codings[c] == CODING_DEFLATE)
            continue;
        /* A large part first: the last one's size, which gzip's guess reads, is then far too small. */
        cleanup(buffer_release) struct buffer in = packed(codings[c], bytes_of(plain.p, 39000));
        cleanup(buffer_release) struct buffer empty = packed(codings[c], bytes_of(NULL, 0));
        cleanup(buffer_release) struct buffer rest = packed(codings[c], bytes_of(plain.p + 39000, 1000));
        buffer_add_bytes(&in, buffer_bytes(&empty));
        buffer_add_bytes(&in, buffer_bytes(&rest));
        ck_assert_int_eq(unpack_limited(codings[c], buffer_bytes(&in), LIMIT, &plain), 0);
        ck_assert_int_eq(unpack_limited(codings[c], buffer_bytes(&in), 40000, &plain), 0);
        ck_assert_int_eq(unpack_limited(codings[c], buffer_bytes(&in), 39999, &plain), CODING_TOO_LARGE);
    }
}

UNIT(a_lie_in_gzips_size_is_corrupt_however_large)
{
    cleanup(buffer_release) struct buffer plain = text(10000), in = packed(CODING_GZIP, buffer_bytes(&plain));
    memset(in.p + in.n - 4, 0xff, 4);
    ck_assert_int_eq(unpack_limited(CODING_GZIP, buffer_bytes(&in), LIMIT, &plain), CODING_CORRUPT);
    memset(in.p + in.n - 4, 0, 4);
    ck_assert_int_eq(unpack_limited(CODING_GZIP, buffer_bytes(&in), LIMIT, &plain), CODING_CORRUPT);
}

/* 256 MiB of zeros in about 256 KiB: refused, and never more than the limit held. */
UNIT(a_bomb_costs_no_more_than_the_limit)
{
    cleanup(buffer_release) struct buffer zeros = {.p = calloc(1, 64 << 20), .n = 64 << 20, .cap = 64 << 20};
    ck_assert_ptr_nonnull(zeros.p);
    for (size_t c = 1; c < sizeof codings / sizeof *codings; c++) {
        struct buffer bomb = {0}, part = packed(codings[c], buffer_bytes(&zeros)), none = {0};
        for (int i = 0; i < 4; i++)
            buffer_add_bytes(&bomb, buffer_bytes(&part));
        struct budget budget = BUDGET_INIT(2 << 20, NULL);
        struct coding_decoder *d = decoder();
        ck_assert_int_eq(coding_decode(d, codings[c], buffer_bytes(&bomb), LIMIT, EXTRA, &budget, &none),
                         CODING_TOO_LARGE);
        room_release(&none, &budget);
        coding_decoder_free(d);
        buffer_release(&part);
        buffer_release(&bomb);
    }
}

/* A frame says how large its blocks may be, and so much is paid for while it is decoded, whatever it holds.
 */
UNIT(lz4_is_paid_for_by_its_blocks)
{
    static const char skippable[] = "\x5a\x2a\x4d\x18\x03\0\0\0abc";
    cleanup(buffer_release) struct buffer plain = text(300000);
    ck_assert_int_eq(library_load(&library_lz4, NULL), 0);
    for (int size = LZ4F_max64KB; size <= LZ4F_max4MB; size++)
        for (int linked = 0; linked < 2; linked++) {
            const LZ4F_preferences_t how = {
                .frameInfo = {.blockSizeID = (LZ4F_blockSizeID_t)size,
                              .blockMode = linked ? LZ4F_blockLinked : LZ4F_blockIndependent,
                              .contentChecksumFlag = LZ4F_contentChecksumEnabled}};
            cleanup(buffer_release) struct buffer in = {0}, out = {0};
            ck_assert_int_eq(buffer_add(&in, skippable, sizeof skippable - 1), 0);
            LZ4F_cctx *context;
            ck_assert(!LZ4F_isError(LZ4F_createCompressionContext(&context, LZ4F_VERSION)));
            ck_assert_int_eq(buffer_reserve(&in, LZ4F_compressFrameBound(plain.n, &how)), 0);
            in.n += LZ4F_compressBegin(context, in.p + in.n, in.cap - in.n, &how);
            in.n += LZ4F_compressUpdate(context, in.p + in.n, in.cap - in.n, plain.p, plain.n, NULL);
            in.n += LZ4F_compressEnd(context, in.p + in.n, in.cap - in.n, NULL);
            LZ4F_freeCompressionContext(context);
            ck_assert_int_eq(unpack_limited(CODING_LZ4, buffer_bytes(&in), LIMIT, &plain), 0);
            in.p[in.n - 1] ^= 1;
            ck_assert_int_eq(unpack_limited(CODING_LZ4, buffer_bytes(&in), LIMIT, &plain), CODING_CORRUPT);
            in.p[in.n - 1] ^= 1;
            struct budget budget = BUDGET_INIT((2u << 20) + (128u << 10), NULL);
            struct coding_decoder *d = decoder();
            ck_assert_int_eq(coding_decode(d, CODING_LZ4, buffer_bytes(&in), LIMIT, EXTRA, &budget, &out),
                             size < LZ4F_max1MB ? 0 : CODING_OVER_BUDGET);
            ck_assert_uint_eq(coding_decoder_parts(d), size < LZ4F_max1MB ? 2 : 1);
            room_release(&out, &budget);
            ck_assert_uint_eq(atomic_load(&budget.used), 0);
            coding_decoder_free(d);
        }
}

UNIT(a_spent_budget_is_said_so)
{
    cleanup(buffer_release) struct buffer plain = text(100000);
    for (size_t c = 0; c < sizeof codings / sizeof *codings; c++) {
        struct buffer in = packed(codings[c], buffer_bytes(&plain)), out = {0};
        struct budget budget = BUDGET_INIT(50000, NULL);
        struct coding_decoder *d = decoder();
        ck_assert_int_eq(coding_decode(d, codings[c], buffer_bytes(&in), LIMIT, EXTRA, &budget, &out),
                         CODING_OVER_BUDGET);
        room_release(&out, &budget);
        ck_assert_uint_eq(atomic_load(&budget.used), 0);
        coding_decoder_free(d);
        buffer_release(&in);
    }
}

UNIT(a_zstd_frame_that_does_not_tell_its_size_is_decoded)
{
    cleanup(buffer_release) struct buffer plain = text(300000), in = {0};
    ck_assert_int_eq(buffer_reserve(&in, ZSTD_compressBound(plain.n)), 0);
    ZSTD_CCtx *z = ZSTD_createCCtx();
    ZSTD_CCtx_setParameter(z, ZSTD_c_contentSizeFlag, 0);
    ZSTD_CCtx_setParameter(z, ZSTD_c_checksumFlag, 1);
    in.n = ZSTD_compress2(z, in.p, in.cap, plain.p, plain.n);
    ck_assert(!ZSTD_isError(in.n));
    ck_assert(ZSTD_getFrameContentSize(in.p, in.n) == ZSTD_CONTENTSIZE_UNKNOWN);
    ck_assert_int_eq(unpack_limited(CODING_ZSTD, buffer_bytes(&in), 300000, &plain), 0);
    ck_assert_int_eq(unpack_limited(CODING_ZSTD, buffer_bytes(&in), 299999, &plain), CODING_TOO_LARGE);
    in.p[in.n - 1] ^= 1;
    ck_assert_int_eq(unpack_limited(CODING_ZSTD, buffer_bytes(&in), 300000, &plain), CODING_CORRUPT);
    ZSTD_freeCCtx(z);
}

/* The window is what has come out already, so nothing but the output and fixed tables is allocated. */
UNIT(a_large_zstd_window_costs_nothing_beside_the_output)
{
    cleanup(buffer_release) struct buffer plain = text(900000), in = {0};
    ck_assert_int_eq(buffer_reserve(&in, ZSTD_compressBound(plain.n)), 0);
    ZSTD_CCtx *z = ZSTD_createCCtx();
    ZSTD_CCtx_setParameter(z, ZSTD_c_contentSizeFlag, 0);
    ZSTD_CCtx_setParameter(z, ZSTD_c_windowLog, 23);
    ZSTD_outBuffer to = {in.p, in.cap, 0};
    ZSTD_inBuffer from = {plain.p, plain.n, 0};
    ZSTD_compressStream2(z, &to, &from,
                         ZSTD_e_flush); /* without the end in sight, the window stays as asked */
    ck_assert_uint_eq(ZSTD_compressStream2(z, &to, &from, ZSTD_e_end), 0);
    in.n = to.pos;
    ZSTD_freeCCtx(z);
    ck_assert_uint_eq(in.p[4] & 0x20, 0); /* not a single segment: */
    ck_assert_uint_eq(in.p[5], 13 << 3);  /* a window of 8 MiB */

    struct budget budget = BUDGET_INIT(2 << 20, NULL);
    struct coding_decoder *d = decoder();
    struct buffer out = {0};
    struct mallinfo2 was = mallinfo2();
    ck_assert_int_eq(coding_decode(d, CODING_ZSTD, buffer_bytes(&in), LIMIT, EXTRA, &budget, &out), 0);
    struct mallinfo2 is = mallinfo2();
    ck_assert(bytes_eq(buffer_bytes(&out), buffer_bytes(&plain)));
    ck_assert_uint_le(is.uordblks + is.hblkhd - was.uordblks - was.hblkhd, out.cap + (256 << 10));
    room_release(&out, &budget);
    coding_decoder_free(d);
}

UNIT(a_zstd_frame_that_claims_what_its_bytes_cannot_be_is_corrupt)
{
    const uint8_t frame[] = {0x28, 0xb5, 0x2f, 0xfd, 0xa0, 0,
                             0,    8,    0,    0x01, 0x00, 0x00}; /* 512 KiB of nothing */
    struct buffer nothing = {0};
    ck_assert_int_eq(unpack_limited(CODING_ZSTD, bytes_of(frame, sizeof frame), LIMIT, &nothing),
                     CODING_CORRUPT);
}

UNIT(skippable_zstd_frames_are_passed_over)
{
    struct buffer plain = text(5000), in = {0};
    const uint8_t skippable[] = {0x53, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 'a', 'b', 'c'};
    struct buffer part = packed(CODING_ZSTD, bytes_of(plain.p, 2000)),
                  rest = packed(CODING_ZSTD, bytes_of(plain.p + 2000, 3000));
    buffer_add(&in, skippable, sizeof skippable);
    buffer_add_bytes(&in, buffer_bytes(&part));
    buffer_add(&in, skippable, sizeof skippable);
    buffer_add_bytes(&in, buffer_bytes(&rest));
    buffer_add(&in, skippable, sizeof skippable);
    ck_assert_int_eq(unpack_limited(CODING_ZSTD, buffer_bytes(&in), LIMIT, &plain), 0);
    in.n--;
    ck_assert_int_eq(unpack_limited(CODING_ZSTD, buffer_bytes(&in), LIMIT, &plain), CODING_CORRUPT);
    buffer_release(&in);
    buffer_release(&part);
    buffer_release(&rest);
    buffer_release(&plain);
}

/* What is passed on as it came must be one part: other receivers read no more. */
UNIT(parts_are_counted)
{
    static const uint8_t skippable[] = {0x53, 0x2a, 0x4d, 0x18, 0, 0, 0, 0};
    struct coding_decoder *d = decoder();
    cleanup(buffer_release) struct buffer plain = text(500), out = {0};
    for (size_t c = 1; c < sizeof codings / sizeof *codings; c++) {
        struct buffer in = packed(codings[c], buffer_bytes(&plain)),
                      one = packed(codings[c], buffer_bytes(&plain));
        bool has_parts = codings[c] == CODING_GZIP || codings[c] == CODING_ZSTD;
        for (uint32_t parts = 1; parts <= (has_parts ? 3u : 1u); parts++) {
            ck_assert_int_eq(coding_decode(d, codings[c], buffer_bytes(&in), LIMIT, 0, NULL, &out), 0);
            ck_assert_uint_eq(coding_decoder_parts(d), parts);
            buffer_add_bytes(&in, buffer_bytes(&one));
        }
        buffer_release(&in);
        if (codings[c] == CODING_ZSTD) {
            buffer_add(&one, skippable, sizeof skippable);
            ck_assert_int_eq(coding_decode(d, CODING_ZSTD, buffer_bytes(&one), LIMIT, 0, NULL, &out), 0);
            ck_assert_uint_eq(coding_decoder_parts(d), 2);
        }
        buffer_release(&one);
    }
    coding_decoder_free(d);
}

UNIT(a_dictionary_is_refused_and_said_so)
{
    static const char samples[] = "frame_1;frame_2;frame_3;frame_4;frame_5;frame_6;frame_7;frame_8;";
    /* An empty frame of dictionary 7, and a zlib stream with FDICT. */
    const uint8_t zstd[] = {0x28, 0xb5, 0x2f, 0xfd, 0x01, 0x58, 0x07, 0x01, 0x00, 0x00};
    const uint8_t zlib[] = {0x78, 0xbb, 0x11, 0x22, 0x33, 0x44, 0x03, 0x00, 0x00, 0x00, 0x00, 0x01};
    struct buffer nothing = {0}, good = packed(CODING_ZSTD, BYTES_LIT(samples)),
                  two = packed(CODING_ZSTD, BYTES_LIT("x"));
    ck_assert_int_eq(unpack_limited(CODING_ZSTD, bytes_of(zstd, sizeof zstd), LIMIT, &nothing),
                     CODING_CORRUPT);
    ck_assert_ptr_nonnull(strstr(coding_explain(CODING_ZSTD, bytes_of(zstd, sizeof zstd)), "dictionary"));
    ck_assert_int_eq(unpack_limited(CODING_DEFLATE, bytes_of(zlib, sizeof zlib), LIMIT, &nothing),
                     CODING_CORRUPT);
    ck_assert_ptr_nonnull(strstr(coding_explain(CODING_DEFLATE, bytes_of(zlib, sizeof zlib)), "dictionary"));
    buffer_add(&two, zstd, sizeof zstd); /* the second frame is the one */
    ck_assert_ptr_nonnull(strstr(coding_explain(CODING_ZSTD, buffer_bytes(&two)), "dictionary"));
    ck_assert_ptr_null(coding_explain(CODING_ZSTD, buffer_bytes(&good)));
    ck_assert_ptr_null(coding_explain(CODING_ZSTD, bytes_of(zstd, 3)));
    ck_assert_ptr_null(coding_explain(CODING_GZIP, buffer_bytes(&good)));
    buffer_release(&good);
    buffer_release(&two);
}

UNIT(thousands_of_parts_are_refused)
{
    const enum coding with_parts[] = {CODING_GZIP, CODING_ZSTD};
    for (size_t c = 0; c < 2; c++) {
        struct buffer part = packed(with_parts[c], BYTES_LIT("")), in = {0}, nothing = {0};
        for (int i = 0; i < 4096; i++)
            buffer_add_bytes(&in, buffer_bytes(&part));
        ck_assert_int_eq(unpack_limited(with_parts[c], buffer_bytes(&in), LIMIT, &nothing), 0);
        buffer_add_bytes(&in, buffer_bytes(&part));
        ck_assert_int_eq(unpack_limited(with_parts[c], buffer_bytes(&in), LIMIT, &nothing), CODING_CORRUPT);
        buffer_release(&part);
        buffer_release(&in);
    }
}

/* RFC 9659: a window of 16 MiB is asked for by a few bytes of header; it must not be given. */
UNIT(a_zstd_window_above_8_mib_is_refused)
{
    const uint8_t frame[] = {0x28, 0xb5, 0x2f, 0xfd, 0x00, 14 << 3, 0x01, 0x00, 0x00};
    const uint8_t fits[] = {0x28, 0xb5, 0x2f, 0xfd, 0x00, 13 << 3, 0x01, 0x00, 0x00};
    struct buffer nothing = {0};
    ck_assert_int_eq(unpack_limited(CODING_ZSTD, bytes_of(fits, sizeof fits), LIMIT, &nothing), 0);
    ck_assert_int_eq(unpack_limited(CODING_ZSTD, bytes_of(frame, sizeof frame), LIMIT, &nothing),
                     CODING_CORRUPT);
    ck_assert_ptr_nonnull(strstr(coding_explain(CODING_ZSTD, bytes_of(frame, sizeof frame)), "window"));
    ck_assert_ptr_null(coding_explain(CODING_ZSTD, bytes_of(fits, sizeof fits)));
}

UNIT(one_decoder_and_one_buffer_serve_many_bodies_without_growing)
{
    struct coding_decoder *d = decoder();
    cleanup(buffer_release) struct buffer out = {0}, plain = text(20000),
                                          in = packed(CODING_GZIP, buffer_bytes(&plain));
    const uint8_t *first = NULL;
    for (int i = 0; i < 100; i++) {
        out.n = 0;
        ck_assert_int_eq(coding_decode(d, CODING_GZIP, buffer_bytes(&in), LIMIT, EXTRA, NULL, &out), 0);
        ck_assert(bytes_eq(buffer_bytes(&out), buffer_bytes(&plain)));
        if (!first)
            first = out.p;
        ck_assert_ptr_eq(first, out.p);
    }
    coding_decoder_free(d);
}

UNIT(output_is_appended)
{
    struct coding_decoder *d = decoder();
    cleanup(buffer_release) struct buffer out = {0}, in = packed(CODING_ZSTD, BYTES_LIT("tail"));
    ck_assert_int_eq(room_make(&out, 4, NULL), 0);
    buffer_add(&out, "head", 4);
    ck_assert_int_eq(coding_decode(d, CODING_ZSTD, buffer_bytes(&in), 4, 0, NULL, &out), 0);
    ck_assert(bytes_is(buffer_bytes(&out), "headtail"));
    ck_assert_int_eq(coding_decode(d, CODING_UNKNOWN, buffer_bytes(&in), 4, 0, NULL, &out), -EINVAL);
    ck_assert_uint_eq(out.n, 8);
    coding_decoder_free(d);
}

/* A frame of blocks that repeat one byte: four bytes a block (RFC 8878 §3.1.1.2.2), no size in its head. */
static struct buffer repeated(uint32_t blocks, uint32_t n)
{
    static const uint8_t head[] = {0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x58};
    struct buffer b = {0};
    buffer_add(&b, head, sizeof head);
    for (uint32_t i = 1; i <= blocks; i++) {
        uint32_t h = (i == blocks) | 1u << 1 | n << 3;
        buffer_add(&b, (uint8_t[]){(uint8_t)h, (uint8_t)(h >> 8), (uint8_t)(h >> 16), 0}, 4);
    }
    return b;
}

/* Memory is bounded, not how far a body unfolds: the same sample again and again packs a thousandfold. */
UNIT(a_body_that_unfolds_a_thousandfold_is_decoded)
{
    struct buffer zeros = {.p = calloc(1, 4 << 20), .n = 4 << 20, .cap = 4 << 20}, out = {0};
    ck_assert_ptr_nonnull(zeros.p);
    struct buffer in = packed(CODING_ZSTD, buffer_bytes(&zeros));
    struct budget budget = BUDGET_INIT(8 << 20, NULL);
    struct coding_decoder *d = decoder();
    ck_assert_uint_gt(zeros.n, in.n * 1000);
    ck_assert_int_eq(coding_decode(d, CODING_ZSTD, buffer_bytes(&in), 64 << 20, EXTRA, &budget, &out), 0);
    ck_assert(bytes_eq(buffer_bytes(&out), buffer_bytes(&zeros)));
    room_release(&out, &budget);
    coding_decoder_free(d);
    buffer_release(&in);
    buffer_release(&zeros);
}

/* What blocks say is enough: nothing is allocated for 8 KB that mean 256 MiB, and what fits is made at once.
 */
UNIT(zstd_blocks_are_counted_before_they_are_read)
{
    struct buffer bomb = repeated(2000, 128 << 10), fits = repeated(2000, 1000), out = {0};
    struct budget budget = BUDGET_INIT(64 << 20, NULL);
    struct coding_decoder *d = decoder();
    ck_assert_int_eq(coding_decode(d, CODING_ZSTD, buffer_bytes(&bomb), 64 << 20, EXTRA, &budget, &out),
                     CODING_TOO_LARGE);
    ck_assert_uint_le(out.cap, 64 << 10);
    ck_assert_int_eq(coding_decode(d, CODING_ZSTD, buffer_bytes(&fits), 64 << 20, EXTRA, &budget, &out), 0);
    ck_assert_uint_eq(out.n, 2000 * 1000);
    ck_assert_uint_le(out.cap, 2000 * 1000 + EXTRA + (16 << 10));
    for (size_t cut = 1; cut < 20; cut++) { /* heads that are not whole */
        out.n = 0;
        ck_assert_int_eq(coding_decode(d, CODING_ZSTD, bytes_of(fits.p, fits.n - cut), 64 << 20, EXTRA,
                                       &budget, &out),
                         CODING_CORRUPT);
    }
    room_release(&out, &budget);
    coding_decoder_free(d);
    buffer_release(&bomb);
    buffer_release(&fits);
}

/* Flushed after every few bytes: by its blocks it could be a hundred times what it is. */
UNIT(a_zstd_frame_of_many_short_blocks_takes_little_more_than_it_is)
{
    struct buffer plain = text(600000), in = {0}, out = {0};
    ck_assert_int_eq(buffer_reserve(&in, 4 * plain.n), 0);
    ZSTD_CCtx *z = ZSTD_createCCtx();
    ZSTD_CCtx_setParameter(z, ZSTD_c_contentSizeFlag, 0);
    ZSTD_outBuffer to = {in.p, in.cap, 0};
    for (size_t at = 0; at < plain.n; at += 1000) {
        ZSTD_inBuffer from = {plain.p + at, 1000, 0};
        ck_assert(!ZSTD_isError(ZSTD_compressStream2(z, &to, &from, ZSTD_e_flush)));
    }
    ck_assert_uint_eq(ZSTD_compressStream2(z, &to, &(ZSTD_inBuffer){0}, ZSTD_e_end), 0);
    ZSTD_freeCCtx(z);
    in.n = to.pos;
    struct budget budget = BUDGET_INIT(64 << 20, NULL);
    struct coding_decoder *d = decoder();
    ck_assert_int_eq(coding_decode(d, CODING_ZSTD, buffer_bytes(&in), 64 << 20, EXTRA, &budget, &out), 0);
    ck_assert(bytes_eq(buffer_bytes(&out), buffer_bytes(&plain)));
    ck_assert_uint_le(out.cap, 65 * in.n + (128 << 10));
    room_release(&out, &budget);
    coding_decoder_free(d);
    buffer_release(&in);
    buffer_release(&plain);
}
