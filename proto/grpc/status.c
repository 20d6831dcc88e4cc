/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/grpc/status.h"

#include "proto/base/clock.h"

/* Protobuf wire types (protobuf.dev "Message Structure"). */
enum { WIRE_VARINT = 0, WIRE_FIXED64 = 1, WIRE_BYTES = 2, WIRE_FIXED32 = 5 };

/* ---- writing ------------------------------------------------------------------------------- */

#define VARINT_MAX 10u

/* Sizes first, from the inside out: a nested message is written after its length. */
static size_t varint_size(uint64_t v)
{
    size_t n = 1;
    while (v >>= 7)
        n++;
    return n;
}

static size_t bytes_size(size_t n)
{
    return 1 + varint_size(n) + n;
}

static uint8_t *put_varint(uint8_t *to, uint64_t v)
{
    while (v > 0x7f) {
        *to++ = (uint8_t)(v | 0x80);
        v >>= 7;
    }
    *to++ = (uint8_t)v;
    return to;
}

static uint8_t *put_head(uint8_t *to, unsigned field, size_t n)
{
    *to++ = (uint8_t)(field << 3 | WIRE_BYTES);
    return put_varint(to, n);
}

static uint8_t *put_bytes(uint8_t *to, unsigned field, struct bytes b)
{
    to = put_head(to, field, b.n);
    if (b.n > 0)
        memcpy(to, b.p, b.n);
    return to + b.n;
}

static uint8_t *put_number(uint8_t *to, unsigned field, uint64_t v)
{
    *to++ = (uint8_t)(field << 3 | WIRE_VARINT);
    return put_varint(to, v);
}

/* google.protobuf.Any{type_url = 1, value = 2}; the value follows and is the caller's. */
static uint8_t *put_any(uint8_t *to, struct bytes type, size_t value)
{
    to = put_head(to, 3, bytes_size(type.n) + bytes_size(value));
    to = put_bytes(to, 1, type);
    return put_head(to, 2, value);
}

static size_t any_size(struct bytes type, size_t value)
{
    return bytes_size(bytes_size(type.n) + bytes_size(value));
}

int grpc_status_encode(const struct grpc_status *s, struct buffer *out)
{
    const struct bytes retry_type = BYTES_LIT(GRPC_TYPE_RETRY_INFO),
                       bad_type = BYTES_LIT(GRPC_TYPE_BAD_REQUEST);
    uint64_t seconds = s->retry_ns / NSEC_PER_SEC, nanos = s->retry_ns % NSEC_PER_SEC;
    size_t duration = (seconds ? 1 + varint_size(seconds) : 0) + (nanos ? 1 + varint_size(nanos) : 0);
    size_t violation = bytes_size(s->field.n) + bytes_size(s->description.n);

    size_t most = 1 + VARINT_MAX + bytes_size(s->message.n);
    if (s->has_retry)
        most += any_size(retry_type, bytes_size(duration));
    if (s->has_violation)
        most += any_size(bad_type, bytes_size(violation));
    int r = buffer_reserve(out, most);
    if (r < 0)
        return r;

    uint8_t *to = out->p + out->n;
    if (s->code != 0)
        to = put_number(to, 1, (uint64_t)(int64_t)s->code);
    if (s->message.n > 0)
        to = put_bytes(to, 2, s->message);
    if (s->has_retry) {
        to = put_any(to, retry_type, bytes_size(duration)); /* RetryInfo{retry_delay = 1} */
        to = put_head(to, 1, duration);                     /* Duration{seconds = 1, nanos = 2} */
        if (seconds)
            to = put_number(to, 1, seconds);
        if (nanos)
            to = put_number(to, 2, nanos);
    }
    if (s->has_violation) {
        to = put_any(to, bad_type, bytes_size(violation)); /* BadRequest{field_violations = 1} */
        to = put_head(to, 1, violation);                   /* FieldViolation{field = 1, description = 2} */
        to = put_bytes(to, 1, s->field);
        to = put_bytes(to, 2, s->description);
    }
    out->n = (size_t)(to - out->p);
    return 0;
}

/* ---- reading ------------------------------------------------------------------------------- */

struct field {
    uint32_t number;
    unsigned wire;
    uint64_t value;     /* VARINT */
    struct bytes bytes; /* BYTES */
};

static bool get_varint(struct bytes *in, uint64_t *ret)
{
    uint64_t v = 0;
    for (unsigned i = 0; i < VARINT_MAX && i < in->n; i++) {
        v |= (uint64_t)(in->p[i] & 0x7f) << (7 * i);
        if (in->p[i] & 0x80)
            continue;
        *in = bytes_of(in->p + i + 1, in->n - i - 1);
        *ret = v;
        return true;
    }
    return false;
}

static bool skip(struct bytes *in, size_t n)
{
    if (n > in->n)
        return false;
    *in = bytes_of(in->p + n, in->n - n);
    return true;
}

/* The next field of a message: 1, 0 at its end, -1 when it is malformed (groups are: none of these messages
 * has any). */
static int get_field(struct bytes *in, struct field *f)
{
    uint64_t tag, n;
    if (in->n == 0)
        return 0;
    if (!get_varint(in, &tag) || tag > UINT32_MAX || tag >> 3 == 0)
        return -1;
    f->number = (uint32_t)(tag >> 3);
    f->wire = (unsigned)(tag & 7);
    switch (f->wire) {
    case WIRE_VARINT: return get_varint(in, &f->value) ? 1 : -1;
    case WIRE_FIXED64: return skip(in, 8) ? 1 : -1;
    case WIRE_FIXED32: return skip(in, 4) ? 1 : -1;
    case WIRE_BYTES:
        if (!get_varint(in, &n) || n > in->n)
            return -1;
        f->bytes = bytes_of(in->p, (size_t)n);
        return skip(in, (size_t)n) ? 1 : -1;
    default: return -1;
    }
}

/* The bytes of field `number` (the first, or the last where protobuf says that the last one wins); false:
 * malformed. */
static bool find_bytes(struct bytes in, uint32_t number, bool last, bool *ret_found, struct bytes *ret)
{
    struct field f;
    int r;
    *ret_found = false;
    *ret = (struct bytes){0};
    while ((r = get_field(&in, &f)) > 0) {
        if (f.number == number && f.wire == WIRE_BYTES && (last || !*ret_found)) {
            *ret = f.bytes;
            *ret_found = true;
        }
    }
    return r == 0;
}

/* A longer wait than this (google.protobuf.Duration's own bound is 10 000 years) is no advice. */
#define DELAY_SECONDS_MAX 86400u

static bool read_retry(struct bytes in, struct grpc_status *s)
{
    struct bytes duration;
    bool found;
    if (!find_bytes(in, 1, true, &found, &duration))
        return false;
    struct field f;
    int64_t seconds = 0, nanos = 0;
    int r;
    while ((r = get_field(&duration, &f)) > 0) {
        if (f.wire == WIRE_VARINT && f.number == 1)
            seconds = (int64_t)f.value;
        else if (f.wire == WIRE_VARINT && f.number == 2)
            nanos = (int64_t)f.value;
    }
    if (r < 0)
        return false;
    s->has_retry = true;
    if (seconds >= 0 && seconds <= DELAY_SECONDS_MAX && nanos >= 0 && nanos < NSEC_PER_SEC)
        s->retry_ns = (uint64_t)seconds * NSEC_PER_SEC + (uint64_t)nanos;
    return true;
}

static bool read_bad_request(struct bytes in, struct grpc_status *s)
{
    struct bytes violation;
    bool found;
    if (!find_bytes(in, 1, false, &s->has_violation, &violation))
        return false;
    return find_bytes(violation, 1, true, &found, &s->field) &&
           find_bytes(violation, 2, true, &found, &s->description);
}

static bool read_detail(struct bytes any, struct grpc_status *s)
{
    struct bytes type, value;
    bool found;
    if (!find_bytes(any, 1, true, &found, &type) || !find_bytes(any, 2, true, &found, &value))
        return false;
    /* Any's comments: what counts is the name after the last '/'. */
    type = bytes_after_last(type, '/');
    if (!s->has_retry && bytes_is(type, "google.rpc.RetryInfo"))
        return read_retry(value, s);
    if (!s->has_violation && bytes_is(type, "google.rpc.BadRequest"))
        return read_bad_request(value, s);
    return true;
}

int grpc_status_decode(struct bytes in, struct grpc_status *ret)
{
    struct grpc_status s = {0};
    struct field f;
    int r;
    while ((r = get_field(&in, &f)) > 0) {
        if (f.number == 1 && f.wire == WIRE_VARINT)
            s.code = (int32_t)f.value;
        else if (f.number == 2 && f.wire == WIRE_BYTES)
            s.message = f.bytes;
        else if (f.number == 3 && f.wire == WIRE_BYTES && !read_detail(f.bytes, &s))
            r = -1;
        if (r < 0)
            break;
    }
    *ret = r == 0 ? s : (struct grpc_status){0};
    return r == 0 ? 0 : GRPC_STATUS_MALFORMED;
}
