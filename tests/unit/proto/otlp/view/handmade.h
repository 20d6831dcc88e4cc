/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For tests of profiles: requests written field by field, so that a test can write what no library would.
 */
#ifndef TESTS_UNIT_PROTO_OTLP_VIEW_HANDMADE_H
#define TESTS_UNIT_PROTO_OTLP_VIEW_HANDMADE_H

#include <check.h>

#include "proto/otlp/view/profiles.h"
#include "proto/wire/writer.h"
#include "tests/unit/proto/otlp/view/request.h"

/* The block is the inside of the length-delimited field `field`; nests. */
#define IN(w, field)           IN_NAMED(w, field, __COUNTER__)
#define IN_NAMED(w, field, id) IN_UNIQUE(w, field, id)
#define IN_UNIQUE(w, field, id)                                                          \
    for (size_t mark_##id##_ = wire_begin((w), (field)), once_##id##_ = 1; once_##id##_; \
         once_##id##_ = 0, wire_end((w), mark_##id##_))

struct made {
    struct buffer b;
    struct wire_writer w;
    struct profiles v;
    struct error e;
    uint8_t *body;
};

static inline struct wire_writer *made_begin(struct made *m)
{
    *m = (struct made){.e = {""}};
    ck_assert_int_eq(profiles_init(&m->v, NULL), 0);
    m->w = wire_writer(&m->b);
    return &m->w;
}

static inline int made_decode_limited(struct made *m, const struct profiles_limits *limits)
{
    ck_assert_int_eq(m->w.failed, 0);
    free(m->body);
    m->body = padded(m->b.p, m->b.n);
    m->e.text[0] = '\0';
    return profiles_decode(&m->v, bytes_of(m->body, m->b.n), limits, &m->e);
}

static inline int made_decode(struct made *m)
{
    return made_decode_limited(m, &profiles_limits_default);
}

static inline void made_end(struct made *m)
{
    profiles_release(&m->v);
    buffer_release(&m->b);
    free(m->body);
}

static inline void put_str(struct wire_writer *w, uint32_t field, const char *s)
{
    wire_put_bytes(w, field, bytes_str(s));
}

/* A dictionary of two entries in each table: the zero entry and one more; five strings. */
static inline void put_tables(struct wire_writer *w)
{
    wire_put_bytes(w, 1, bytes_of("", 0));
    IN(w, 1)
    {
        wire_put_uint(w, 1, 0x1000);
        wire_put_uint(w, 2, 0x2000);
        wire_put_uint(w, 4, 2);
    }
    wire_put_bytes(w, 2, bytes_of("", 0));
    IN(w, 2)
    {
        wire_put_uint(w, 1, 1);
        wire_put_uint(w, 2, 0xffffffff81000000u);
        IN(w, 3)
        {
            wire_put_uint(w, 1, 1);
            wire_put_uint(w, 2, 42);
        }
        wire_put_packed32(w, 4, (uint32_t[]){1}, 1);
    }
    wire_put_bytes(w, 3, bytes_of("", 0));
    IN(w, 3)
    {
        wire_put_uint(w, 1, 1);
        wire_put_uint(w, 3, 2);
        wire_put_uint(w, 4, 40);
    }
    wire_put_bytes(w, 4, bytes_of("", 0));
    IN(w, 4)
    {
        put_str(w, 1, "0123456789abcdef");
        put_str(w, 2, "01234567");
    }
    put_str(w, 5, "");
    put_str(w, 5, "main");
    put_str(w, 5, "main.c");
    put_str(w, 5, "cpu");
    put_str(w, 5, "nanoseconds");
    wire_put_bytes(w, 6, bytes_of("", 0));
    IN(w, 6)
    {
        wire_put_uint(w, 1, 3);
        IN(w, 2) put_str(w, 1, "value");
    }
    wire_put_bytes(w, 7, bytes_of("", 0));
    IN(w, 7) wire_put_packed32(w, 1, (uint32_t[]){1}, 1);
}

/* A good sample: stack 1, attribute 1, link 1, value 7. */
static inline void put_sample(struct wire_writer *w)
{
    IN(w, 2)
    {
        wire_put_uint(w, 1, 1);
        wire_put_packed32(w, 2, (uint32_t[]){1}, 1);
        wire_put_uint(w, 3, 1);
        wire_put_packed64(w, 4, (int64_t[]){7}, 1);
    }
}

#endif
