/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For tests of layouts: one message of a request changed, and what a sample then says by the .proto file of
 * its release. Knows nothing of how our reader tells layouts apart or translates them.
 */
#ifndef TESTS_UNIT_PROTO_OTLP_LAYOUTS_MUTATE_H
#define TESTS_UNIT_PROTO_OTLP_LAYOUTS_MUTATE_H

#include "proto/base/macros.h"
#include "proto/base/rng.h"
#include "proto/otlp/layouts/layout.h"
#include "proto/wire/reader.h"
#include "proto/wire/writer.h"

/* --- What a sample says */

/* What the fields of Sample are, by number; profiles.proto at v1.5.0, v1.7.0, v1.8.0, v1.9.0, v1.10.0. */
enum role {
    ROLE_NONE,
    ROLE_STACK,
    ROLE_LENGTH,
    ROLE_ATTRS,
    ROLE_LINK,
    ROLE_VALUES,
    ROLE_TIMES,
    ROLE_VARINT_TIMES
};
static const uint8_t roles[PROFILES_LAYOUTS][8] = {
    [PROFILES_LAYOUT_1_5] = {0, ROLE_STACK, ROLE_LENGTH, ROLE_VALUES, ROLE_ATTRS, ROLE_LINK,
                             ROLE_VARINT_TIMES},
    [PROFILES_LAYOUT_1_7] = {0, ROLE_STACK, ROLE_LENGTH, ROLE_VALUES, ROLE_ATTRS, ROLE_LINK,
                             ROLE_VARINT_TIMES},
    [PROFILES_LAYOUT_1_8] = {0, ROLE_STACK, ROLE_VALUES, ROLE_ATTRS, ROLE_LINK, ROLE_TIMES},
    [PROFILES_LAYOUT_1_9] = {0, ROLE_STACK, ROLE_VALUES, ROLE_ATTRS, ROLE_LINK, ROLE_TIMES},
    [PROFILES_LAYOUT_1_10] = {0, ROLE_STACK, ROLE_ATTRS, ROLE_LINK, ROLE_VALUES, ROLE_TIMES},
};

/* How far the indices of a sample reach. */
struct reach {
    uint64_t stacks, attrs, links; /* up to 1.7 stacks are steps of the profile's path */
};

struct truth {
    bool good; /* else it is to be rejected */
    uint32_t n_values, n_times, n_attrs;
    int64_t sum;
    uint64_t stack;
};

static inline bool is_number_list(enum role role)
{
    return role == ROLE_ATTRS || role == ROLE_VALUES || role == ROLE_VARINT_TIMES;
}

static inline bool type_is_right(enum role role, enum wire_type type)
{
    if (role == ROLE_NONE)
        return true;
    if (role == ROLE_TIMES)
        return type == WIRE_LEN || type == WIRE_I64;
    return type == WIRE_VARINT || (is_number_list(role) && type == WIRE_LEN);
}

static inline void truth_number(struct truth *t, enum role role, uint64_t v, const struct reach *reach)
{
    if (role == ROLE_VALUES) {
        int64_t sum;
        if (__builtin_add_overflow(t->sum, (int64_t)v, &sum))
            sum = (int64_t)v > 0 ? INT64_MAX : INT64_MIN;
        t->sum = sum;
        t->n_values++;
    } else if (role == ROLE_ATTRS) {
        t->good &= v < reach->attrs;
        t->n_attrs++;
    } else {
        t->n_times++;
    }
}

static inline struct truth truth_of(enum profiles_layout layout, struct bytes sample,
                                    const struct reach *reach)
{
    struct truth t = {.good = true};
    struct wire_reader in = wire_reader(sample);
    struct wire_field f;
    uint64_t v, length = 0;
    while (wire_next(&in, &f) == 0) {
        enum role role = f.number < 8 ? (enum role)roles[layout][f.number] : ROLE_NONE;
        struct wire_rest rest = {0};
        t.good &= type_is_right(role, f.type);
        if (!t.good)
            return t;
        if (role == ROLE_STACK)
            t.stack = f.value;
        else if (role == ROLE_LENGTH)
            length = f.value;
        else if (role == ROLE_LINK)
            t.good &= f.value < reach->links;
        else if (role == ROLE_TIMES)
            t.n_times += f.type == WIRE_LEN ? (uint32_t)f.bytes.n / 8 : 1;
        else
            while (is_number_list(role) && wire_next_repeated(&f, WIRE_VARINT, &rest, &v) == 0)
                truth_number(&t, role, v, reach);
    }
    bool slices = layout <= PROFILES_LAYOUT_1_7;
    t.good &= t.n_values + t.n_times > 0;
    t.good &= slices ? length == 0 || (t.stack <= reach->stacks && length <= reach->stacks - t.stack)
                     : t.stack < reach->stacks;
    return t;
}

/* --- Changing a message */

enum change {
    CHANGE_ADD,     /* a field that this release does not have: what follows means the same */
    CHANGE_REPACK,  /* lists of a sample, number by number or together: the same */
    CHANGE_REVERSE, /* the order of the fields: the same */
    CHANGE_DROP,
    CHANGE_RETYPE,
    CHANGE_DUPLICATE,
    CHANGE_WILD, /* a number becomes any other */
    CHANGE_EMPTY,
    CHANGES
};

/* Where the message is: field numbers from the request down. */
enum target {
    TARGET_SAMPLE,
    TARGET_PROFILE,
    TARGET_SAMPLE_TYPE,
    TARGET_REQUEST,
    TARGET_RESOURCE_PROFILES,
    TARGET_RESOURCE,
    TARGET_SCOPE_PROFILES,
    TARGET_SCOPE,
    TARGET_DICTIONARY,
    TARGET_MAPPING,
    TARGET_LOCATION,
    TARGET_LINE,
    TARGET_FUNCTION,
    TARGET_LINK,
    TARGET_ATTRIBUTE,
    TARGET_STACK,
    TARGETS
};

/* The first number that no release up to this one gave: by target, in 1.5, 1.7, 1.8, 1.9, 1.10. */
static const struct {
    uint8_t path[5];
    uint8_t next[5];
} targets[TARGETS] = {
    [TARGET_SAMPLE] = {{1, 2, 2, 2}, {7, 7, 6, 6, 6}},
    [TARGET_PROFILE] = {{1, 2, 2}, {23, 15, 13, 12, 12}},
    [TARGET_SAMPLE_TYPE] = {{1, 2, 2, 1}, {4, 4, 4, 3, 3}},
    [TARGET_REQUEST] = {{0}, {3, 3, 3, 3, 3}},
    [TARGET_RESOURCE_PROFILES] = {{1}, {4, 4, 4, 4, 4}},
    [TARGET_RESOURCE] = {{1, 1}, {4, 4, 4, 4, 4}},
    [TARGET_SCOPE_PROFILES] = {{1, 2}, {4, 4, 4, 4, 4}},
    [TARGET_SCOPE] = {{1, 2, 1}, {5, 5, 5, 5, 5}},
    [TARGET_DICTIONARY] = {{2}, {8, 8, 8, 8, 8}},
    [TARGET_MAPPING] = {{2, 1}, {10, 10, 6, 6, 6}},
    [TARGET_LOCATION] = {{2, 2}, {6, 6, 5, 5, 5}},
    [TARGET_LINE] = {{2, 2, 3}, {4, 4, 4, 4, 4}},
    [TARGET_FUNCTION] = {{2, 3}, {5, 5, 5, 5, 5}},
    [TARGET_LINK] = {{2, 4}, {3, 3, 3, 3, 3}},
    [TARGET_ATTRIBUTE] = {{2, 6}, {4, 4, 4, 4, 4}},
    [TARGET_STACK] = {{2, 7}, {3, 3, 2, 2, 2}},
};

struct mutation {
    enum profiles_layout layout;
    enum target target;
    enum change change;
    struct rng *rng;
    bool done;
    uint32_t at[5];        /* which of each level it was */
    struct buffer changed; /* the message afterwards */
};

static inline uint32_t upto(struct rng *rng, uint32_t n)
{
    return (uint32_t)(rng_next(rng) >> 33) % n;
}

/* Any field of any type. */
static inline void put_any_field(struct wire_writer *w, uint32_t number, struct rng *rng)
{
    static const uint32_t few[] = {1, 2, 3};
    const uint64_t value = rng_next(rng) >> upto(rng, 64);
    switch (upto(rng, 7)) {
    case 0: wire_put_uint(w, number, upto(rng, 4)); break;
    case 1: wire_put_uint(w, number, value); break;
    case 2: wire_put_fixed64(w, number, value); break;
    case 3: wire_put_bytes(w, number, BYTES_LIT("sixteen letters!")); break;
    case 4: wire_put_packed32(w, number, few, 1 + upto(rng, 3)); break;
    case 5: /* a group */
        wire_put_varint(w, WIRE_TAG(number, WIRE_SGROUP));
        wire_put_uint(w, 1, value);
        wire_put_varint(w, WIRE_TAG(number, WIRE_EGROUP));
        break;
    default: wire_put_varint(w, WIRE_TAG(number, WIRE_I32)); wire_put_raw(w, bytes_of("abcd", 4));
    }
}

static inline void put_retyped(struct wire_writer *w, const struct wire_field *f, struct rng *rng)
{
    if (f->type == WIRE_VARINT && upto(rng, 2))
        wire_put_bytes(w, f->number, upto(rng, 2) ? BYTES_LIT("\x01") : BYTES_LIT("\x01\x02"));
    else if (f->type == WIRE_VARINT || f->type == WIRE_LEN)
        wire_put_fixed64(w, f->number, 1);
    else
        wire_put_uint(w, f->number, 1);
}

static inline void put_repacked(struct wire_writer *w, const struct wire_field *f, struct bytes raw,
                                enum profiles_layout layout)
{
    enum role role = f->number < 8 ? (enum role)roles[layout][f->number] : ROLE_NONE;
    struct wire_rest rest = {0};
    uint64_t v;
    if (f->type == WIRE_LEN && is_number_list(role)) {
        while (wire_next_repeated(f, WIRE_VARINT, &rest, &v) == 0)
            wire_put_uint(w, f->number, v);
    } else if (f->type == WIRE_LEN && role == ROLE_TIMES) {
        while (wire_next_repeated(f, WIRE_I64, &rest, &v) == 0)
            wire_put_fixed64(w, f->number, v);
    } else if (f->type == WIRE_VARINT && is_number_list(role)) {
        wire_put_packed64(w, f->number, (const int64_t[]){(int64_t)f->value}, 1);
    } else {
        wire_put_raw(w, raw);
    }
}

enum { FIELDS_MAX = 4096 };

/* The message with one field dropped, say. Fields that are messages in a list are left alone: what is changed
 * is one message. */
static inline void put_changed(struct wire_writer *w, struct bytes message, struct mutation *m)
{
    static struct wire_field f[FIELDS_MAX];
    static struct bytes raw[FIELDS_MAX];
    uint32_t n = 0, own[FIELDS_MAX], n_own = 0;
    struct wire_reader in = wire_reader(message);
    while (n < FIELDS_MAX && wire_next(&in, &f[n]) == 0) {
        raw[n] = bytes_of(f[n].from, (size_t)(in.p - f[n].from));
        bool holds = (m->target == TARGET_PROFILE && f[n].number == 2) ||
                     (m->target == TARGET_DICTIONARY && f[n].number != 5) ||
                     m->target == TARGET_RESOURCE_PROFILES || m->target == TARGET_SCOPE_PROFILES ||
                     m->target == TARGET_REQUEST;
        if (!holds)
            own[n_own++] = n;
        n++;
    }
    const struct bytes rest = bytes_of(in.p, (size_t)(in.end - in.p));
    const uint32_t which = n_own > 0 ? own[upto(m->rng, n_own)] : UINT32_MAX;
    const uint32_t where = upto(m->rng, n + 1);
    const uint32_t number = targets[m->target].next[m->layout - PROFILES_LAYOUT_1_5] +
                            (const uint32_t[]){0, 0, 0, 1, 2, 9, 1000}[upto(m->rng, 7)];
    for (uint32_t i = 0; i < n && m->change != CHANGE_EMPTY; i++) {
        const uint32_t k = m->change == CHANGE_REVERSE ? n - 1 - i : i;
        if (m->change == CHANGE_ADD && where == i)
            put_any_field(w, number, m->rng);
        if (m->change == CHANGE_REPACK)
            put_repacked(w, &f[k], raw[k], m->layout);
        else if (k != which || m->change <= CHANGE_REVERSE)
            wire_put_raw(w, raw[k]);
        else if (m->change == CHANGE_RETYPE)
            put_retyped(w, &f[k], m->rng);
        else if (m->change == CHANGE_WILD && f[k].type == WIRE_VARINT)
            wire_put_uint(w, f[k].number, rng_next(m->rng) >> upto(m->rng, 64));
        else if (m->change == CHANGE_DUPLICATE || m->change == CHANGE_WILD)
            wire_put_raw(w, raw[k]);
        if (k == which && m->change == CHANGE_DUPLICATE)
            wire_put_raw(w, raw[k]);
    }
    if (m->change == CHANGE_ADD && where == n)
        put_any_field(w, number, m->rng);
    if (m->change != CHANGE_EMPTY)
        wire_put_raw(w, rest);
}

/* The message at `level` of the way to the target, with the target in it changed. */
static inline void put_mutated(struct wire_writer *w, struct bytes message, uint32_t level,
                               struct mutation *m)
{
    const uint32_t number = targets[m->target].path[level];
    struct wire_reader in = wire_reader(message);
    struct wire_field f;
    if (number == 0) {
        struct wire_writer changed = wire_writer(&m->changed);
        m->changed.n = 0;
        put_changed(&changed, message, m);
        wire_put_raw(w, buffer_bytes(&m->changed));
        m->done = true;
        return;
    }
    uint32_t n = 0, i = 0;
    while (wire_next(&in, &f) == 0)
        n += f.number == number && f.type == WIRE_LEN;
    const uint32_t which = n > 0 ? upto(m->rng, n) : 0;
    in = wire_reader(message);
    while (wire_next(&in, &f) == 0) {
        if (f.number != number || f.type != WIRE_LEN || i++ != which) {
            wire_put_raw(w, bytes_of(f.from, (size_t)(in.p - f.from)));
            continue;
        }
        m->at[level] = which;
        size_t mark = wire_begin(w, number);
        put_mutated(w, f.bytes, level + 1, m);
        wire_end(w, mark);
    }
}

#endif
