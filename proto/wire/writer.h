/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A protobuf writer that appends to a buffer.
 *
 * Failure is remembered: after the first one (memory, or the buffer's maximum) nothing more is written and
 * the writer's `failed` is the reason, to be looked at once at the end; who wants nothing half-written cuts
 * the buffer back. Scalar functions write their field also when the value is 0: proto3 lets a writer leave
 * zeros out, and the caller knows whether the field has presence (oneof members do).
 */
#ifndef PROTO_WIRE_WRITER_H
#define PROTO_WIRE_WRITER_H

#include <endian.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "proto/base/buffer.h"
#include "proto/base/macros.h"
#include "proto/wire/wire.h"

struct wire_writer {
    struct buffer *out;
    int failed; /* 0, -ENOMEM or -ENOBUFS */
    bool full;  /* it failed because of the buffer's maximum */
};

static inline struct wire_writer wire_writer(struct buffer *out)
{
    return (struct wire_writer){.out = out};
}

void wire_put_varint(struct wire_writer *w, uint64_t v);               /* bare, without a tag */
void wire_put_uint(struct wire_writer *w, uint32_t field, uint64_t v); /* uint32, uint64, bool, enum */
void wire_put_int(struct wire_writer *w, uint32_t field,
                  int64_t v); /* int32, int64: a negative takes ten bytes */
void wire_put_fixed64(struct wire_writer *w, uint32_t field, uint64_t v);
void wire_put_double(struct wire_writer *w, uint32_t field, double v);
void wire_put_bytes(struct wire_writer *w, uint32_t field,
                    struct bytes v);                           /* string, bytes, or an encoded message */
void wire_put_raw(struct wire_writer *w, struct bytes fields); /* fields that are encoded already */

/* For fields that the caller encodes: room for n bytes behind what is written, NULL where it failed; and
 * where what was put there ends. */
static inline uint8_t *wire_room(struct wire_writer *w, size_t n)
{
    const struct buffer *out = w->out;
    if (likely(w->failed == 0 && out->p && out->max == 0 && n <= out->cap - out->n))
        return out->p + out->n;
    if (unlikely(w->failed < 0))
        return NULL;
    w->failed = buffer_reserve(w->out, n);
    if (likely(w->failed == 0))
        return w->out->p + w->out->n;
    w->full = buffer_is_short_of(w->out, n);
    return NULL;
}
static inline void wire_filled(struct wire_writer *w, const uint8_t *end)
{
    w->out->n = (size_t)(end - w->out->p);
}

/* What is put there: bytes of a varint, of a number of eight bytes, of a field of bytes. They return its end.
 */
static inline uint8_t *wire_store_varint(uint8_t *p, uint64_t v)
{
    while (v >= 0x80) {
        *p++ = (uint8_t)(v | 0x80);
        v >>= 7;
    }
    *p++ = (uint8_t)v;
    return p;
}
static inline uint8_t *wire_store_fixed64(uint8_t *p, uint64_t v)
{
    v = htole64(v);
    memcpy(p, &v, sizeof v);
    return p + sizeof v;
}
static inline uint8_t *wire_store_bytes(uint8_t *p, uint32_t field, struct bytes v)
{
    p = wire_store_varint(wire_store_varint(p, WIRE_TAG(field, WIRE_LEN)), v.n);
    if (v.n > 0)
        memcpy(p, v.p, v.n);
    return p + v.n;
}

/* The same, but nothing for the zero value. */
void wire_put_uint_nonzero(struct wire_writer *w, uint32_t field, uint64_t v);
void wire_put_int_nonzero(struct wire_writer *w, uint32_t field, int64_t v);
void wire_put_fixed64_nonzero(struct wire_writer *w, uint32_t field, uint64_t v);
void wire_put_bytes_nonempty(struct wire_writer *w, uint32_t field, struct bytes v);

/* Packed lists; nothing for n = 0. */
void wire_put_packed32(struct wire_writer *w, uint32_t field, const uint32_t *v, size_t n);
void wire_put_packed64(struct wire_writer *w, uint32_t field, const int64_t *v, size_t n);
void wire_put_packed_fixed64(struct wire_writer *w, uint32_t field, const uint64_t *v, size_t n);
void wire_put_packed_double(struct wire_writer *w, uint32_t field, const double *v, size_t n);

/* A nested message whose length is not known yet: begin, write its fields, end. The length takes one byte
 * until end knows better, and then the message is moved: cheap for the many short ones, once per level for
 * the few long ones. Messages end in the reverse order of their beginning. */
size_t wire_begin(struct wire_writer *w, uint32_t field); /* returns the mark for wire_end */
void wire_end(struct wire_writer *w, size_t mark);

/* Bytes a varint takes: 1 … 10. */
static inline uint32_t wire_varint_size(uint64_t v)
{
    return (uint32_t)(70 - __builtin_clzll(v | 1)) / 7;
}

#endif
