/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A bounded reader of one protobuf message: field after field, over bytes somebody else owns. It needs no
 * padding and never recurses: a nested message is a slice, for which the caller starts another reader.
 */
#ifndef PROTO_WIRE_READER_H
#define PROTO_WIRE_READER_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/base/bytes.h"
#include "proto/base/macros.h"
#include "proto/wire/wire.h"

struct wire_reader {
    const uint8_t *p, *end;
};

struct wire_field {
    uint32_t number; /* 1 … WIRE_FIELD_MAX */
    enum wire_type type;
    uint64_t value;      /* VARINT, I64, I32 (zero-extended) */
    struct bytes bytes;  /* LEN; SGROUP: the fields between its tags */
    const uint8_t *from; /* where the field's tag begins, so that [from, reader.p) is the whole field */
};

static inline struct wire_reader wire_reader(struct bytes message)
{
    return (struct wire_reader){message.p, message.p ? message.p + message.n : message.p};
}

/* The next field, a whole group included. 0, WIRE_END, or WIRE_MALFORMED (then the reader stays where it is).
 */
int wire_next(struct wire_reader *r, struct wire_field *ret);

/* The same, at once for what nearly all fields are: a tag and a length or number of one byte each. */
static inline int wire_next_short(struct wire_reader *r, struct wire_field *ret)
{
    if (likely(r->end - r->p >= 2 && r->p[0] < 0x80 && r->p[0] >= 0x08 && r->p[1] < 0x80)) {
        const uint8_t *from = r->p;
        const size_t n = from[1];
        if ((from[0] & 7) == WIRE_VARINT) {
            *ret = (struct wire_field){from[0] >> 3, WIRE_VARINT, n, {0}, from};
            r->p += 2;
            return 0;
        }
        if ((from[0] & 7) == WIRE_LEN && n <= (size_t)(r->end - from) - 2) {
            *ret = (struct wire_field){from[0] >> 3, WIRE_LEN, 0, bytes_of(from + 2, n), from};
            r->p += 2 + n;
            return 0;
        }
    }
    return wire_next(r, ret);
}

/* The next LEN field with this number; false: no further one, or what follows is malformed. */
bool wire_find(struct wire_reader *r, uint32_t number, struct bytes *ret);

/* The first one of a message; empty, and .p not NULL, if it has none. */
struct bytes wire_first(struct bytes message, uint32_t number);

/* Passes over the fields of group `number`, whose tag was read, and its end: *p goes behind that, and
 * *ret is what was between. False: no such end before `end`, or more than WIRE_DEPTH_MAX inside one another.
 */
bool wire_skip_group(const uint8_t **p, const uint8_t *end, uint32_t number, struct bytes *ret);

/* The next varint, for the inside of a packed list. 0, WIRE_END, WIRE_MALFORMED. */
int wire_next_varint(struct wire_reader *r, uint64_t *ret);

/* An iterator over a repeated integer field, packed or not: the values that `f` carries, one call each.
 * `rest` is the caller's; zeroed before the first call for a field. 0, WIRE_END, or WIRE_MALFORMED, also for
 * a wire type that is neither LEN nor `single` (WIRE_VARINT, WIRE_I64). protobuf.dev: a parser must accept
 * both forms. */
struct wire_rest {
    struct wire_reader reader;
    int state;
};
int wire_next_repeated(const struct wire_field *f, enum wire_type single, struct wire_rest *rest,
                       uint64_t *ret);

/* Checks nested messages without decoding them. A shape lists the known fields of a message kind with their
 * wire types and what LEN fields hold; unknown fields are skipped. Shapes refer to each other, so they may be
 * recursive; the walk is not. */
struct wire_known {
    uint8_t number, type;
    int8_t shape; /* index of the nested message's shape, or -1: plain bytes */
};
struct wire_shape {
    const struct wire_known *known;
    uint32_t n_known;
};

/* Walks `message` as shapes[shape]; `depth` is how many messages may be inside one another, this one
 * included, and no more than WIRE_DEPTH_MAX: its stack is on the C stack (2 KB). 0, WIRE_MALFORMED (also: a
 * known field with another wire type), WIRE_TOO_DEEP. */
int wire_check(struct bytes message, const struct wire_shape *shapes, int shape, uint32_t depth);

#endif
