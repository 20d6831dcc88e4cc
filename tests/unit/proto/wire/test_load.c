/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/base/rng.h"
#include "proto/wire/load.h"
#include "proto/wire/writer.h"
#include "tests/lib/unit.h"

UNIT(varints_of_every_length)
{
    cleanup(buffer_release) struct buffer b = BUFFER_INIT(0);
    for (int shift = 0; shift < 64; shift++)
        for (int below = 0; below < 2; below++) {
            struct wire_writer w = wire_writer(&b);
            uint64_t v = ((uint64_t)1 << shift) - (uint64_t)below, got;
            b.n = 0;
            wire_put_varint(&w, v);
            size_t n = b.n;
            ck_assert_int_eq(buffer_add(&b, (uint8_t[WIRE_LOAD_PADDING]){0xff}, WIRE_LOAD_PADDING), 0);
            ck_assert_ptr_eq(wire_load_varint(b.p, &got), b.p + n);
            ck_assert_uint_eq(got, v);
            ck_assert_ptr_eq(wire_load_varint_long(b.p, &got), b.p + n);
            ck_assert_uint_eq(got, v);
        }
    memset(b.p, 0xff, b.n);
    uint64_t got;
    ck_assert_ptr_eq(wire_load_varint(b.p, &got), WIRE_BAD);
    ck_assert_ptr_eq(wire_load_varint_long(b.p, &got), WIRE_BAD);
    b.p[9] = 2; /* a 65th bit */
    ck_assert_ptr_eq(wire_load_varint(b.p, &got), WIRE_BAD);
    b.p[9] = 1;
    ck_assert_ptr_eq(wire_load_varint(b.p, &got), b.p + 10);
    ck_assert_uint_eq(got, UINT64_MAX);
}

/* Lists of n values below `limit`, through all readers, in buffers of exactly the promised size. */
static void compare(struct rng *rng, uint32_t n, uint64_t limit)
{
    cleanup(buffer_release) struct buffer b = BUFFER_INIT(0);
    struct wire_writer w = wire_writer(&b);
    autofree uint32_t *want = malloc((n + 1) * sizeof *want);
    ck_assert_int_eq(buffer_add(&b, "\x2a", 1), 0); /* the byte before the list */
    for (uint32_t i = 0; i < n; i++) {
        uint64_t v = rng_next(rng) % limit;
        want[i] = wire_saturate32(v);
        wire_put_varint(&w, v);
    }
    size_t len = b.n - 1;
    autofree uint8_t *list = malloc(1 + len + WIRE_LOAD_PADDING);
    memcpy(list, b.p, 1 + len);
    memset(list + 1 + len, 0x80 | (int)rng_next(rng), WIRE_LOAD_PADDING); /* what follows must not matter */
    wire_packed_reader *reader[WIRE_PACKED_READERS + 2] = {wire_load_packed32, wire_load_packed32_short};
    for (uint32_t k = 0; k < WIRE_PACKED_READERS; k++)
        reader[k + 2] = wire_packed32_reader(k);
    for (size_t k = 0; reader[k]; k++) {
        uint32_t *got = malloc((len + WIRE_PACKED_SLACK) * sizeof *got), count = 0;
        ck_assert_ptr_eq(reader[k](list + 1, list + 1 + len, got, &count), list + 1 + len);
        ck_assert_uint_eq(count, n);
        ck_assert(n == 0 || memcmp(got, want, n * sizeof *got) == 0);
        if (len > 0) { /* the last byte says that more follows */
            list[len] |= 0x80;
            ck_assert_ptr_eq(reader[k](list + 1, list + 1 + len, got, &(uint32_t){0}), WIRE_BAD);
            list[len] &= 0x7f;
        }
        free(got);
    }
}

UNIT(packed_lists_of_every_length_and_width)
{
    static const uint64_t limits[] = {100,       128, 200, 1000, 16384, 17000, 1u << 21, (uint64_t)1 << 33,
                                      UINT64_MAX};
    struct rng rng;
    rng_seed(&rng, 11);
    for (size_t i = 0; i < ARRAY_LEN(limits); i++)
        for (uint32_t n = 0; n < 200; n++)
            compare(&rng, n, limits[i]);
}
