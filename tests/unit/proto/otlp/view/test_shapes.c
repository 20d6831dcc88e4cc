/* SPDX-License-Identifier: Apache-2.0 */
/* needs: proto/schema */
/* Locations read by their shapes, and the same ones field by field. */
#include <string.h>

#include "proto/base/rng.h"
#include "proto/otlp/view/memory.h"
#include "tests/lib/unit.h"
#include "tests/unit/proto/otlp/view/handmade.h"

#define FUNCTIONS 300u
#define LOCATIONS 80u

static uint32_t below(struct rng *r, uint32_t n)
{
    return (uint32_t)(rng_next(r) >> 33) % n;
}

/* Of any length; a short one mostly, which is in its table. */
static uint64_t number(struct rng *r, uint32_t table)
{
    return below(r, 8) ? below(r, table) : rng_next(r) >> below(r, 64);
}

static void put_line(struct wire_writer *w, struct rng *r)
{
    bool descending = below(r, 2);
    IN(w, 3)
    {
        if (!descending)
            wire_put_uint(w, 1, number(r, FUNCTIONS));
        if (below(r, 4))
            wire_put_uint(w, 2, number(r, 5000));
        if (below(r, 16) == 0)
            wire_put_uint(w, 3, number(r, 80));
        if (descending && below(r, 8))
            wire_put_uint(w, 1, number(r, FUNCTIONS));
    }
}

static void put_attributes(struct wire_writer *w, struct rng *r)
{
    uint32_t list[3] = {(uint32_t)number(r, 2), (uint32_t)number(r, 2), 1};
    wire_put_packed32(w, 4, list, below(r, 8) ? 1 : below(r, 4));
}

static void put_field(struct wire_writer *w, struct rng *r, uint32_t field)
{
    switch (field) {
    case 1: wire_put_uint(w, 1, number(r, 2)); break;
    case 2: wire_put_uint(w, 2, number(r, 1u << 31)); break;
    case 3: put_line(w, r); break;
    case 4: put_attributes(w, r); break;
    default: wire_put_uint(w, field, 1);
    }
}

/* As writers put them, ascending or descending and some left out; now and then anything. */
static void put_location(struct wire_writer *w, struct rng *r)
{
    uint32_t how = below(r, 16);
    IN(w, 2) for (uint32_t i = 1; i <= 4; i++)
    {
        uint32_t field = how == 0 ? 1 + below(r, 5) : how % 2 ? i : 5 - i;
        if (how < 2 || how > 6 || i % 4 != how % 4)
            put_field(w, r, field);
    }
}

static void put_request_of(struct wire_writer *w, struct rng *r)
{
    IN(w, 2)
    {
        put_tables(w);
        for (uint32_t i = 0; i < FUNCTIONS; i++)
            IN(w, 3) wire_put_uint(w, 1, 1);
        for (uint32_t i = 0; i < LOCATIONS; i++)
            put_location(w, r);
    }
}

#define SAME(column, n) ck_assert_mem_eq(a->column, b->column, (n) * sizeof *a->column)

static void same_locations(const struct profiles *a, const struct profiles *b)
{
    ck_assert_uint_eq(a->location.n, b->location.n);
    ck_assert_uint_eq(a->line.n, b->line.n);
    ck_assert_uint_eq(a->attr_index.n, b->attr_index.n);
    SAME(location.mapping, a->location.n);
    SAME(location.address, a->location.n);
    SAME(location.lines_at, a->location.n + 1);
    SAME(location.attrs_at, a->location.n + 1);
    SAME(line.function, a->line.n);
    SAME(line.line, a->line.n);
    SAME(line.column, a->line.n);
    SAME(attr_index.attribute, a->attr_index.n);
}

/* The same body with and without shapes, in views that live on. */
static void same_decoding(struct profiles *shaped, struct profiles *plain, struct bytes body)
{
    struct error e = {""}, other = {""};
    plain->memory->shapes.n = 0;
    int r = profiles_decode(shaped, body, &profiles_limits_default, &e);
    ck_assert_int_eq(profiles_decode(plain, body, &profiles_limits_default, &other), r);
    ck_assert_str_eq(e.text, other.text);
    if (r == 0)
        same_locations(shaped, plain);
}

UNIT(a_location_is_the_same_by_its_shape_and_field_by_field)
{
    cleanup(profiles_release) struct profiles shaped, plain;
    struct rng r = {20261124};
    ck_assert_int_eq(profiles_init(&shaped, NULL), 0);
    ck_assert_int_eq(profiles_init(&plain, NULL), 0);
    bool used = shaped.memory->shapes.n > 0;
    uint32_t most = 0;
    for (uint32_t round = 0; round < unit_rounds(2000); round++) {
        cleanup(buffer_release) struct buffer b = BUFFER_INIT(0);
        struct wire_writer w = wire_writer(&b);
        put_request_of(&w, &r);
        ck_assert(!w.failed);
        autofree uint8_t *body = padded(b.p, b.n);
        if (round % 4 == 3)
            body[below(&r, (uint32_t)b.n)] ^= (uint8_t)(1u << below(&r, 8));
        same_decoding(&shaped, &plain, bytes_of(body, b.n));
        most = max_of(most, shaped.memory->shapes.n);
    }
    ck_assert(!used || most == SHAPES);
}

/* What is read of an entry must not reach what only the next one says. */
UNIT(a_location_that_ends_early_has_a_shape_of_its_own)
{
    static const uint8_t entries[] = {0x12, 0x0a, 0x22, 0x01, 0x01, 0x1a,
                                      0x02, 0x08, 0x05, 0x10, 0x07, 0x12, /* its last field is the next tag */
                                      0x12, 0x09, 0x22, 0x01, 0x01, 0x1a,
                                      0x02, 0x08, 0x05, 0x10, 0x07, 0x12, /* … of a shorter entry */
                                      0x05, 0x10, 0x81, 0x02, 0x08, 0x01};
    cleanup(profiles_release) struct profiles shaped, plain;
    cleanup(buffer_release) struct buffer b = BUFFER_INIT(0);
    struct wire_writer w = wire_writer(&b);
    IN(&w, 2) ck_assert_int_eq(buffer_add(&b, entries, sizeof entries), 0);
    autofree uint8_t *body = padded(b.p, b.n);
    ck_assert_int_eq(profiles_init(&shaped, NULL), 0);
    ck_assert_int_eq(profiles_init(&plain, NULL), 0);
    same_decoding(&shaped, &plain, bytes_of(body, b.n));
}
