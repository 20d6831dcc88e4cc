/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/coding/gzip_stream.h"

#include <errno.h>

#include "proto/coding/coding.h"
#include "tests/lib/unit.h"

UNIT(pieces_of_any_size_are_one_member)
{
    static const size_t sizes[] = {1, 7, 4096, 100000, 0};
    cleanup(buffer_release) struct buffer plain = BUFFER_INIT(0);
    for (uint32_t i = 0; i < 60000; i++)
        buffer_printf(&plain, "metric_%u{job=\"%x\"} %u\n", i % 50, i * 2654435761u, i);
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        struct gzip_stream *g = unit_made(gzip_stream_new());
        cleanup(buffer_release) struct buffer packed = BUFFER_INIT(0), again = BUFFER_INIT(0);
        size_t step = sizes[s] ? sizes[s] : plain.n, n = sizes[s] == 1 ? 5000 : plain.n;
        for (size_t at = 0; at < n; at += step) {
            size_t piece = n - at < step ? n - at : step;
            ck_assert_int_eq(gzip_stream_add(g, bytes_of(plain.p + at, piece), false, &packed), 0);
        }
        ck_assert_int_eq(gzip_stream_add(g, (struct bytes){0}, true, &packed), 0);
        struct coding_decoder *d = unit_made(coding_decoder_new());
        ck_assert_int_eq(coding_decode(d, CODING_GZIP, buffer_bytes(&packed), n, 0, NULL, &again), 0);
        ck_assert(again.n == n && memcmp(again.p, plain.p, n) == 0);
        coding_decoder_free(d);
        gzip_stream_free(g);
    }
}

UNIT(an_empty_stream_is_a_member_and_a_full_buffer_is_said)
{
    struct gzip_stream *g = unit_made(gzip_stream_new());
    struct buffer packed = BUFFER_INIT(0);
    ck_assert_int_eq(gzip_stream_add(g, (struct bytes){0}, true, &packed), 0);
    ck_assert_uint_eq(packed.n, 20); /* RFC 1952: head of 10, an empty block of 2, tail of 8 */
    gzip_stream_free(g);
    buffer_release(&packed);
    g = unit_made(gzip_stream_new());
    packed.max = 100;
    ck_assert_int_eq(gzip_stream_add(g, BYTES_LIT("text"), true, &packed), -ENOBUFS);
    gzip_stream_free(g);
    buffer_release(&packed);
}
