/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/wire/reader.h"
#include "proto/wire/writer.h"
#include "tests/lib/unit.h"

#include "proto/base/macros.h"
#include "proto/wire/load.h"

static int load_next(struct wire_reader *r, struct wire_field *ret)
{
    return wire_load_next(r, ret);
}

UNIT(every_wire_type_is_read)
{
    static const uint8_t message[] = {
        0x08, 0x96, 0x01,                         /* 1: 150 */
        0x11, 1,    2,    3,    4,    5, 6, 7, 8, /* 2: fixed64 */
        0x1a, 3,    'a',  'b',  'c',              /* 3: "abc" */
        0x25, 1,    2,    3,    4,                /* 4: fixed32 */
        0xfa, 0xff, 0xff, 0xff, 0x0f, 0,          /* 2^29 - 1: "" */
    };
    struct wire_reader r = wire_reader(bytes_of(message, sizeof message));
    struct wire_field f;
    ck_assert_int_eq(wire_next(&r, &f), 0);
    ck_assert_uint_eq(f.number, 1);
    ck_assert_uint_eq(f.value, 150);
    ck_assert_int_eq(wire_next(&r, &f), 0);
    ck_assert_uint_eq(f.value, 0x0807060504030201u);
    ck_assert_int_eq(wire_next(&r, &f), 0);
    ck_assert(bytes_is(f.bytes, "abc"));
    ck_assert_ptr_eq(f.from, message + 12);
    ck_assert_int_eq(wire_next(&r, &f), 0);
    ck_assert_uint_eq(f.value, 0x04030201u);
    ck_assert_int_eq(wire_next(&r, &f), 0);
    ck_assert_uint_eq(f.number, WIRE_FIELD_MAX);
    ck_assert_uint_eq(f.bytes.n, 0);
    ck_assert_int_eq(wire_next(&r, &f), WIRE_END);
}

UNIT(a_group_is_one_field)
{
    static const uint8_t message[] = {
        0x0b, 0x08, 0x0c, 0x12, 2, 0x0c, 0x0c, 0x13, 0x1b, 0x1c, 0x14, 0x0c, /* 1: 1, 2, a group in a group */
        0x10, 7,                                                             /* 2: 7 */
        0x1b, 0x1c,                                                          /* 3: an empty group */
    };
    for (int padded = 0; padded < 2; padded++) {
        uint8_t bytes[sizeof message + WIRE_LOAD_PADDING] = {0};
        memcpy(bytes, message, sizeof message);
        struct wire_reader r = wire_reader(bytes_of(bytes, sizeof message));
        struct wire_field f;
        int (*next)(struct wire_reader *, struct wire_field *) = padded ? load_next : wire_next;
        ck_assert_int_eq(next(&r, &f), 0);
        ck_assert_uint_eq(f.number, 1);
        ck_assert_int_eq(f.type, WIRE_SGROUP);
        ck_assert(bytes_eq(f.bytes, bytes_of(bytes + 1, 10)));
        ck_assert_int_eq(next(&r, &f), 0);
        ck_assert_uint_eq(f.value, 7);
        ck_assert_int_eq(next(&r, &f), 0);
        ck_assert_uint_eq(f.number, 3);
        ck_assert_uint_eq(f.bytes.n, 0);
        ck_assert_int_eq(next(&r, &f), WIRE_END);
    }
}

/* A megabyte of beginnings is no megabyte of stack. */
UNIT(groups_nest_as_deep_as_messages_may)
{
    for (uint32_t depth = WIRE_DEPTH_MAX - 1; depth <= 1000 * WIRE_DEPTH_MAX; depth += depth) {
        autofree uint8_t *bytes = unit_made(calloc(2 * depth + WIRE_LOAD_PADDING, 1));
        struct wire_field f;
        memset(bytes, 0x0b, depth);
        memset(bytes + depth, 0x0c, depth);
        struct wire_reader r = wire_reader(bytes_of(bytes, 2 * depth)), again = r;
        int want = depth <= WIRE_DEPTH_MAX ? 0 : WIRE_MALFORMED;
        ck_assert_int_eq(wire_next(&r, &f), want);
        ck_assert_int_eq(load_next(&again, &f), want);
    }
}

UNIT(malformed_fields_are_refused)
{
    static const struct bytes bad[] = {
        BYTES_LIT("\x08"),                                             /* a tag alone */
        BYTES_LIT("\x08\x80"),                                         /* varint without an end */
        BYTES_LIT("\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"), /* eleven bytes */
        BYTES_LIT("\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02"),     /* a 65th bit */
        BYTES_LIT("\x00\x00"),                                         /* field 0 */
        BYTES_LIT("\x80\x80\x80\x80\x10\x00"),                         /* field 2^29 */
        BYTES_LIT("\x0b"),                                             /* a group without an end */
        BYTES_LIT("\x0b\x14"),                                         /* with another's */
        BYTES_LIT("\x0b\x13\x0c\x14"),                                 /* crossed */
        BYTES_LIT("\x0b\x08\x0c"),                                     /* with half a field */
        BYTES_LIT("\x0c"),                                             /* an end alone */
        BYTES_LIT("\x0e"),                                             /* wire types 6 and 7 do not exist */
        BYTES_LIT("\x0f"),
        BYTES_LIT("\x09\x01\x02\x03\x04\x05\x06\x07"), /* seven bytes of eight */
        BYTES_LIT("\x0d\x01\x02\x03"),
        BYTES_LIT("\x0a\x02\x01"),                                 /* one byte of two */
        BYTES_LIT("\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"), /* 2^64 - 1 bytes */
    };
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct wire_reader r = wire_reader(bad[i]);
        struct wire_field f;
        ck_assert_msg(wire_next(&r, &f) == WIRE_MALFORMED, "case %zu", i);
        ck_assert_ptr_eq(r.p, bad[i].p);
    }
}

static void collect(struct bytes message, enum wire_type single, uint64_t *got, size_t *n, int *end)
{
    struct wire_reader r = wire_reader(message);
    struct wire_field f;
    *n = 0;
    while ((*end = wire_next(&r, &f)) == 0) {
        struct wire_rest rest = {0};
        while ((*end = wire_next_repeated(&f, single, &rest, &got[*n])) == 0)
            ++*n;
        if (*end != WIRE_END)
            return;
    }
}

UNIT(repeated_integers_are_read_packed_or_not)
{
    uint64_t got[8];
    size_t n;
    int end;
    collect(BYTES_LIT("\x08\x05\x0a\x03\x01\xac\x02\x08\x07"), WIRE_VARINT, got, &n, &end);
    ck_assert_int_eq(end, WIRE_END);
    ck_assert_uint_eq(n, 4);
    ck_assert_uint_eq(got[0] * 1000000 + got[1] * 100000 + got[2] * 10 + got[3], 5103007);
    collect(BYTES_LIT("\x0a\x08\x01\0\0\0\0\0\0\0\x09\x02\0\0\0\0\0\0\0"), WIRE_I64, got, &n, &end);
    ck_assert_int_eq(end, WIRE_END);
    ck_assert_uint_eq(n, 2);
    ck_assert_uint_eq(got[1], 2);
    collect(BYTES_LIT("\x0a\x07\x01\0\0\0\0\0\0"), WIRE_I64, got, &n, &end);
    ck_assert_int_eq(end, WIRE_MALFORMED);
    collect(BYTES_LIT("\x0a\x01\x80"), WIRE_VARINT, got, &n, &end);
    ck_assert_int_eq(end, WIRE_MALFORMED);
    collect(BYTES_LIT("\x0d\x01\0\0\0"), WIRE_VARINT, got, &n, &end);
    ck_assert_int_eq(end, WIRE_MALFORMED);
}

/* message Tree { repeated Tree child = 1; int32 n = 2; } */
static const struct wire_known tree_fields[] = {{1, WIRE_LEN, 0}, {2, WIRE_VARINT, -1}};
static const struct wire_shape tree[] = {{tree_fields, ARRAY_LEN(tree_fields)}};

UNIT(nesting_is_checked_without_recursion)
{
    cleanup(buffer_release) struct buffer b = BUFFER_INIT(0);
    for (uint32_t depth = 1; depth <= WIRE_DEPTH_MAX + 5; depth++) {
        struct wire_writer w = wire_writer(&b);
        size_t mark[WIRE_DEPTH_MAX + 5];
        b.n = 0;
        for (uint32_t i = 1; i < depth; i++) {
            wire_put_uint(&w, 2, i);
            mark[i] = wire_begin(&w, 1);
        }
        for (uint32_t i = depth; i-- > 1;) {
            wire_end(&w, mark[i]);
            wire_put_bytes(&w, 1, BYTES_LIT(""));
        }
        int want = depth <= 64 ? 0 : WIRE_TOO_DEEP;
        /* with a sibling at each level, one level more is needed inside of the deepest */
        ck_assert_int_eq(wire_check(buffer_bytes(&b), tree, 0, 64), want);
        ck_assert_int_eq(wire_check(buffer_bytes(&b), tree, 0, UINT32_MAX),
                         depth <= WIRE_DEPTH_MAX ? 0 : WIRE_TOO_DEEP);
    }
    ck_assert_int_eq(wire_check(BYTES_LIT(""), tree, 0, 0), WIRE_TOO_DEEP);
    ck_assert_int_eq(wire_check(BYTES_LIT("\x0a\x02\x0a\x01"), tree, 0, 9),
                     WIRE_MALFORMED); /* child past parent */
    ck_assert_int_eq(wire_check(BYTES_LIT("\x0a\x02\x12\x00"), tree, 0, 9),
                     WIRE_MALFORMED);                                           /* wrong wire type */
    ck_assert_int_eq(wire_check(BYTES_LIT("\x1a\x02\xff\xff"), tree, 0, 9), 0); /* unknown: not looked into */
}
