/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/wire/writer.h"

#include <string.h>

void wire_put_varint(struct wire_writer *w, uint64_t v)
{
    uint8_t *p = wire_room(w, WIRE_VARINT_MAX);
    if (p)
        wire_filled(w, wire_store_varint(p, v));
}

void wire_put_uint(struct wire_writer *w, uint32_t field, uint64_t v)
{
    uint8_t *p = wire_room(w, 2 * WIRE_VARINT_MAX);
    if (p)
        wire_filled(w, wire_store_varint(wire_store_varint(p, WIRE_TAG(field, WIRE_VARINT)), v));
}

void wire_put_int(struct wire_writer *w, uint32_t field, int64_t v)
{
    wire_put_uint(w, field, (uint64_t)v);
}

void wire_put_fixed64(struct wire_writer *w, uint32_t field, uint64_t v)
{
    uint8_t *p = wire_room(w, WIRE_VARINT_MAX + 8);
    if (p)
        wire_filled(w, wire_store_fixed64(wire_store_varint(p, WIRE_TAG(field, WIRE_I64)), v));
}

void wire_put_double(struct wire_writer *w, uint32_t field, double v)
{
    uint64_t bits;
    memcpy(&bits, &v, sizeof bits);
    wire_put_fixed64(w, field, bits);
}

void wire_put_raw(struct wire_writer *w, struct bytes fields)
{
    uint8_t *p = fields.n > 0 ? wire_room(w, fields.n) : NULL;
    if (!p)
        return;
    memcpy(p, fields.p, fields.n);
    wire_filled(w, p + fields.n);
}

void wire_put_bytes(struct wire_writer *w, uint32_t field, struct bytes v)
{
    uint8_t *p = v.n <= SIZE_MAX - 2 * WIRE_VARINT_MAX ? wire_room(w, 2 * WIRE_VARINT_MAX + v.n) : NULL;
    if (!p)
        return;
    wire_filled(w, wire_store_bytes(p, field, v));
}

void wire_put_uint_nonzero(struct wire_writer *w, uint32_t field, uint64_t v)
{
    if (v != 0)
        wire_put_uint(w, field, v);
}

void wire_put_int_nonzero(struct wire_writer *w, uint32_t field, int64_t v)
{
    if (v != 0)
        wire_put_int(w, field, v);
}

void wire_put_fixed64_nonzero(struct wire_writer *w, uint32_t field, uint64_t v)
{
    if (v != 0)
        wire_put_fixed64(w, field, v);
}

void wire_put_bytes_nonempty(struct wire_writer *w, uint32_t field, struct bytes v)
{
    if (v.n > 0)
        wire_put_bytes(w, field, v);
}

void wire_put_packed32(struct wire_writer *w, uint32_t field, const uint32_t *v, size_t n)
{
    size_t mark = n > 0 ? wire_begin(w, field) : 0;
    uint8_t *p = n > 0 ? wire_room(w, n * 5) : NULL;
    if (!p)
        return;
    for (size_t i = 0; i < n; i++)
        p = wire_store_varint(p, v[i]);
    wire_filled(w, p);
    wire_end(w, mark);
}

void wire_put_packed64(struct wire_writer *w, uint32_t field, const int64_t *v, size_t n)
{
    size_t mark = n > 0 ? wire_begin(w, field) : 0;
    uint8_t *p = n > 0 ? wire_room(w, n * WIRE_VARINT_MAX) : NULL;
    if (!p)
        return;
    for (size_t i = 0; i < n; i++)
        p = wire_store_varint(p, (uint64_t)v[i]);
    wire_filled(w, p);
    wire_end(w, mark);
}

void wire_put_packed_fixed64(struct wire_writer *w, uint32_t field, const uint64_t *v, size_t n)
{
    uint8_t *p = n > 0 ? wire_room(w, 2 * WIRE_VARINT_MAX + n * 8) : NULL;
    if (!p)
        return;
    p = wire_store_varint(wire_store_varint(p, WIRE_TAG(field, WIRE_LEN)), n * 8);
    for (size_t i = 0; i < n; i++)
        p = wire_store_fixed64(p, v[i]);
    wire_filled(w, p);
}

void wire_put_packed_double(struct wire_writer *w, uint32_t field, const double *v, size_t n)
{
    uint8_t *p = n > 0 ? wire_room(w, 2 * WIRE_VARINT_MAX + n * 8) : NULL;
    if (!p)
        return;
    p = wire_store_varint(wire_store_varint(p, WIRE_TAG(field, WIRE_LEN)), n * 8);
    for (size_t i = 0; i < n; i++) {
        uint64_t bits;
        memcpy(&bits, &v[i], sizeof bits);
        p = wire_store_fixed64(p, bits);
    }
    wire_filled(w, p);
}

size_t wire_begin(struct wire_writer *w, uint32_t field)
{
    uint8_t *p = wire_room(w, WIRE_VARINT_MAX + 1);
    if (!p)
        return 0;
    p = wire_store_varint(p, WIRE_TAG(field, WIRE_LEN));
    *p++ = 0; /* the length's first byte */
    wire_filled(w, p);
    return w->out->n;
}

void wire_end(struct wire_writer *w, size_t mark)
{
    if (w->failed < 0)
        return;
    size_t n = w->out->n - mark;
    uint32_t more = wire_varint_size(n) - 1;
    if (more > 0) {
        if (!wire_room(w, more))
            return;
        memmove(w->out->p + mark + more, w->out->p + mark, n);
        w->out->n += more;
    }
    wire_store_varint(w->out->p + mark - 1, n);
}
