/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>

#include "proto/wire/reader.h"
#include "proto/wire/writer.h"
#include "tests/lib/unit.h"

UNIT(what_is_written_is_read)
{
    cleanup(buffer_release) struct buffer b = BUFFER_INIT(0);
    struct wire_writer w = wire_writer(&b);
    for (int shift = 0; shift < 64; shift++) {
        b.n = 0;
        uint64_t v = (uint64_t)1 << shift;
        wire_put_varint(&w, v);
        ck_assert_uint_eq(b.n, wire_varint_size(v));
        b.n = 0;
        wire_put_uint(&w, 5, v - 1);
        wire_put_int(&w, 70000, -(int64_t)(v >> 1));
        wire_put_fixed64(&w, 3, v);
        wire_put_double(&w, 4, 1.5);
        struct wire_reader r = wire_reader(buffer_bytes(&b));
        struct wire_field f;
        ck_assert_int_eq(wire_next(&r, &f), 0);
        ck_assert_uint_eq(f.value, v - 1);
        ck_assert_int_eq(wire_next(&r, &f), 0);
        ck_assert_uint_eq(f.number, 70000);
        ck_assert_int_eq((int64_t)f.value, -(int64_t)(v >> 1));
        ck_assert_int_eq(wire_next(&r, &f), 0);
        ck_assert_uint_eq(f.value, v);
        ck_assert_int_eq(wire_next(&r, &f), 0);
        ck_assert_uint_eq(f.value, 0x3ff8000000000000u);
        ck_assert_int_eq(wire_next(&r, &f), WIRE_END);
    }
    ck_assert_uint_eq(wire_varint_size(0), 1);
    ck_assert_uint_eq(wire_varint_size(UINT64_MAX), 10);
}

UNIT(lengths_are_patched_behind_the_fact)
{
    static const uint8_t text[70000];
    for (size_t n = 0; n < sizeof text; n = n * 3 + 125) {
        cleanup(buffer_release) struct buffer b = BUFFER_INIT(0);
        struct wire_writer w = wire_writer(&b);
        size_t outer = wire_begin(&w, 1), inner = wire_begin(&w, 2);
        wire_put_raw(&w, bytes_of(text, n));
        wire_end(&w, inner);
        wire_put_uint(&w, 3, 7);
        wire_end(&w, outer);
        ck_assert_int_eq(w.failed, 0);
        struct wire_reader r = wire_reader(buffer_bytes(&b));
        struct wire_field f;
        ck_assert_int_eq(wire_next(&r, &f), 0);
        ck_assert_int_eq(wire_next(&r, &(struct wire_field){0}), WIRE_END);
        r = wire_reader(f.bytes);
        ck_assert_int_eq(wire_next(&r, &f), 0);
        ck_assert_uint_eq(f.bytes.n, n);
        ck_assert_int_eq(wire_next(&r, &f), 0);
        ck_assert_uint_eq(f.value, 7);
    }
}

UNIT(failure_is_remembered)
{
    cleanup(buffer_release) struct buffer b = BUFFER_INIT(64);
    struct wire_writer w = wire_writer(&b);
    size_t mark = wire_begin(&w, 1);
    for (int i = 0; i < 100; i++)
        wire_put_uint(&w, 1, 300);
    ck_assert_int_eq(w.failed, -ENOBUFS);
    size_t n = b.n;
    wire_end(&w, mark);
    wire_put_bytes(&w, 1, BYTES_LIT(""));
    wire_put_packed32(&w, 1, (uint32_t[]){1}, 1);
    wire_put_packed64(&w, 1, (int64_t[]){1}, 1);
    wire_put_packed_fixed64(&w, 1, (uint64_t[]){1}, 1);
    ck_assert_uint_eq(b.n, n);
    ck_assert_uint_le(n, 64);
}

UNIT(zeros_and_empty_lists_can_be_left_out)
{
    cleanup(buffer_release) struct buffer b = BUFFER_INIT(0);
    struct wire_writer w = wire_writer(&b);
    wire_put_uint_nonzero(&w, 1, 0);
    wire_put_int_nonzero(&w, 1, 0);
    wire_put_fixed64_nonzero(&w, 1, 0);
    wire_put_bytes_nonempty(&w, 1, BYTES_LIT(""));
    wire_put_packed32(&w, 1, NULL, 0);
    wire_put_packed64(&w, 1, NULL, 0);
    wire_put_packed_fixed64(&w, 1, NULL, 0);
    ck_assert_uint_eq(b.n, 0);
    wire_put_uint(&w, 1, 0);
    ck_assert_uint_eq(b.n, 2);
}
