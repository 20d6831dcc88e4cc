/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/wire/reader.h"

#include "proto/base/macros.h"

static int next_long_varint(const uint8_t **p, const uint8_t *end, uint64_t *ret)
{
    uint64_t v = 0;
    const uint8_t *at = *p;
    for (uint32_t i = 0; i < WIRE_VARINT_MAX && at < end; i++, at++) {
        if (i == WIRE_VARINT_MAX - 1 && *at > 1) /* bits beyond the 64th */
            return WIRE_MALFORMED;
        v |= (uint64_t)(*at & 0x7f) << (7 * i);
        if (*at < 0x80) {
            *p = at + 1;
            *ret = v;
            return 0;
        }
    }
    return WIRE_MALFORMED;
}

/* One byte inline: nearly all tags, and most lengths and indices. */
static inline int next_varint(const uint8_t **p, const uint8_t *end, uint64_t *ret)
{
    if (likely(*p < end && **p < 0x80)) {
        *ret = *(*p)++;
        return 0;
    }
    return next_long_varint(p, end, ret);
}

/* Of a field that is no group. */
static inline int next_payload(const uint8_t **p, const uint8_t *end, struct wire_field *f)
{
    size_t left = (size_t)(end - *p);
    switch (f->type) {
    case WIRE_VARINT: return next_varint(p, end, &f->value);
    case WIRE_I64:
        if (left < 8)
            return WIRE_MALFORMED;
        f->value = wire_load64(*p);
        *p += 8;
        return 0;
    case WIRE_I32:
        if (left < 4)
            return WIRE_MALFORMED;
        f->value =
            (uint64_t)(*p)[0] | (uint64_t)(*p)[1] << 8 | (uint64_t)(*p)[2] << 16 | (uint64_t)(*p)[3] << 24;
        *p += 4;
        return 0;
    case WIRE_LEN: {
        uint64_t n;
        if (next_varint(p, end, &n) != 0 || n > (uint64_t)(end - *p))
            return WIRE_MALFORMED;
        f->bytes = bytes_of(*p, n);
        *p += n;
        return 0;
    }
    default: return WIRE_MALFORMED;
    }
}

static inline int next_tag(const uint8_t **p, const uint8_t *end, struct wire_field *f)
{
    uint64_t tag;
    if (next_varint(p, end, &tag) != 0 || tag >> 3 == 0 || tag >> 3 > WIRE_FIELD_MAX)
        return WIRE_MALFORMED;
    f->number = (uint32_t)(tag >> 3);
    f->type = (enum wire_type)(tag & 7);
    return 0;
}

bool wire_skip_group(const uint8_t **p, const uint8_t *end, uint32_t number, struct bytes *ret)
{
    uint32_t open[WIRE_DEPTH_MAX] = {number}; /* each must end under its own number */
    const uint8_t *from = *p, *at = from;
    for (uint32_t n = 1; n > 0;) {
        struct wire_field f;
        *ret = bytes_of(from, (size_t)(at - from));
        if (next_tag(&at, end, &f) != 0)
            return false;
        if (f.type == WIRE_SGROUP && n < WIRE_DEPTH_MAX)
            open[n++] = f.number;
        else if (f.type == WIRE_SGROUP || (f.type == WIRE_EGROUP && f.number != open[--n]))
            return false;
        else if (f.type != WIRE_EGROUP && next_payload(&at, end, &f) != 0)
            return false;
    }
    *p = at;
    return true;
}

int wire_next(struct wire_reader *r, struct wire_field *ret)
{
    if (r->p == r->end)
        return WIRE_END;
    const uint8_t *p = r->p;
    struct wire_field f = {.from = p};
    if (next_tag(&p, r->end, &f) != 0)
        return WIRE_MALFORMED;
    if (f.type == WIRE_SGROUP ? !wire_skip_group(&p, r->end, f.number, &f.bytes)
                              : next_payload(&p, r->end, &f) != 0)
        return WIRE_MALFORMED;
    r->p = p;
    *ret = f;
    return 0;
}

int wire_next_varint(struct wire_reader *r, uint64_t *ret)
{
    return r->p == r->end ? WIRE_END : next_varint(&r->p, r->end, ret);
}

int wire_next_repeated(const struct wire_field *f, enum wire_type single, struct wire_rest *rest,
                       uint64_t *ret)
{
    if (f->type == single && single != WIRE_LEN) {
        if (rest->state++ > 0)
            return WIRE_END;
        *ret = f->value;
        return 0;
    }
    if (f->type != WIRE_LEN)
        return WIRE_MALFORMED;
    if (rest->state++ == 0)
        rest->reader = wire_reader(f->bytes);
    if (single == WIRE_VARINT)
        return wire_next_varint(&rest->reader, ret);
    if (rest->reader.p == rest->reader.end)
        return WIRE_END;
    if (rest->reader.end - rest->reader.p < 8)
        return WIRE_MALFORMED;
    *ret = wire_load64(rest->reader.p);
    rest->reader.p += 8;
    return 0;
}

static const struct wire_known *find_known(const struct wire_shape *shape, uint32_t number)
{
    for (uint32_t i = 0; i < shape->n_known; i++)
        if (shape->known[i].number == number)
            return &shape->known[i];
    return NULL;
}

int wire_check(struct bytes message, const struct wire_shape *shapes, int shape, uint32_t depth)
{
    struct {
        const uint8_t *end;
        int shape;
    } stack[WIRE_DEPTH_MAX];
    if (depth > WIRE_DEPTH_MAX)
        depth = WIRE_DEPTH_MAX;
    if (depth == 0)
        return WIRE_TOO_DEEP;
    struct wire_reader r = wire_reader(message);
    stack[0].end = r.end;
    stack[0].shape = shape;
    for (uint32_t n = 1; n > 0;) {
        struct wire_field f;
        r.end = stack[n - 1].end;
        int got = wire_next(&r, &f);
        if (got == WIRE_END) {
            n--; /* the reader stands right behind the nested message: go on with its parent */
            continue;
        }
        if (got != 0)
            return got;
        const struct wire_known *known = find_known(&shapes[stack[n - 1].shape], f.number);
        if (!known)
            continue;
        if (known->type != f.type)
            return WIRE_MALFORMED;
        if (known->shape < 0)
            continue;
        if (n == depth)
            return WIRE_TOO_DEEP;
        r.p = f.bytes.p;
        stack[n].end = f.bytes.p + f.bytes.n;
        stack[n].shape = (uint8_t)known->shape;
        n++;
    }
    return 0;
}

bool wire_find(struct wire_reader *r, uint32_t number, struct bytes *ret)
{
    struct wire_field f;
    while (wire_next(r, &f) == 0)
        if (f.number == number && f.type == WIRE_LEN) {
            *ret = f.bytes;
            return true;
        }
    return false;
}

struct bytes wire_first(struct bytes message, uint32_t number)
{
    struct wire_reader r = wire_reader(message);
    struct bytes found = {0};
    return wire_find(&r, number, &found) ? found : bytes_of("", 0);
}
