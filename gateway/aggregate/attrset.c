/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/aggregate/attrset.h"

#include <errno.h>
#include <stdlib.h>

#include "proto/base/macros.h"

/* A byte that is no UTF-8 becomes so many (U+FFFD). */
#define REPLACEMENT_LEN 3u

/* Before each attribute's key and value bytes. */
struct entry_head {
    uint32_t key_len, value_len;
    uint32_t kind;
};

const struct attr attrset_overflow = {
    .key = {(const uint8_t *)"otel.metric.overflow", sizeof "otel.metric.overflow" - 1},
    .value = {.kind = ATTR_BOOL, .boolean = true},
};

static struct bytes value_bytes(const struct attr_value *v)
{
    switch (v->kind) {
    case ATTR_STRING:
    case ATTR_BYTES:
    case ATTR_ARRAY:
    case ATTR_KVLIST: return v->text;
    case ATTR_BOOL: return bytes_of(&v->boolean, sizeof v->boolean);
    case ATTR_INT: return bytes_of(&v->integer, sizeof v->integer);
    case ATTR_DOUBLE: return bytes_of(&v->real, sizeof v->real);
    case ATTR_EMPTY: break;
    }
    return (struct bytes){0};
}

/* Bounds of a set that is being written. */
struct bounds {
    size_t max;    /* bytes of a value */
    uint64_t *cut; /* values that were longer */
};

/* The value as far as it is within the bounds. *kind may become EMPTY. */
static struct bytes bounded_value(const struct attr_value *v, const struct bounds *b, uint32_t *kind)
{
    struct bytes value = value_bytes(v);
    *kind = v->kind;
    if (value.n <= b->max)
        return value;
    ++*b->cut;
    if (v->kind == ATTR_STRING)
        value = bytes_cut(value, b->max);
    else if (v->kind == ATTR_BYTES)
        value.n = b->max;
    else
        *kind = ATTR_EMPTY;
    return *kind == ATTR_EMPTY ? (struct bytes){0} : value;
}

static int add_entry(struct buffer *out, const struct attr *attr, const struct bounds *b)
{
    struct entry_head head = {.key_len = (uint32_t)attr->key.n};
    struct bytes value = bounded_value(&attr->value, b, &head.kind);
    if (value.n > UINT32_MAX / REPLACEMENT_LEN || attr->key.n > UINT32_MAX / REPLACEMENT_LEN)
        return -E2BIG;
    size_t head_at = out->n;
    int r = buffer_add(out, &head, sizeof head);
    if (r < 0 || (r = buffer_add_bytes(out, attr->key)) < 0)
        return r;
    size_t value_at = out->n;
    r = head.kind == ATTR_STRING ? buffer_add_utf8(out, value) : buffer_add_bytes(out, value);
    if (r < 0)
        return r;
    if (head.kind == ATTR_STRING) /* mending makes it longer */
        out->n = value_at + bytes_cut(bytes_from(buffer_bytes(out), value_at), b->max).n;
    head.value_len = (uint32_t)(out->n - value_at);
    memcpy(out->p + head_at, &head, sizeof head);
    return 0;
}

static int by_key_then_place(const void *a, const void *b)
{
    const struct attr *const *x = a, *const *y = b;
    int r = bytes_compare((*x)->key, (*y)->key);
    return r ?: order_of(*x, *y);
}

static int encode_valid(struct buffer *out, const struct attr *attrs, uint32_t n, const struct bounds *b)
{
    const struct attr *sorted[ATTRSET_MAX];
    bool in_order = true;
    for (uint32_t i = 0; i < n; i++) {
        sorted[i] = &attrs[i];
        in_order &= i == 0 || bytes_compare(attrs[i - 1].key, attrs[i].key) < 0;
    }
    if (!in_order)
        qsort(sorted, n, sizeof *sorted, by_key_then_place);

    size_t before = out->n;
    for (uint32_t i = 0; i < n; i++) {
        if (i > 0 && bytes_eq(sorted[i - 1]->key, sorted[i]->key))
            continue;
        int r = add_entry(out, sorted[i], b);
        if (r < 0) {
            out->n = before;
            return r;
        }
    }
    return 0;
}

/* Keys are mended before they are sorted: two that become equal by it must be seen as one. */
static int encode_mended(struct buffer *out, const struct attr *attrs, uint32_t n, const struct bounds *b)
{
    struct attr mended[ATTRSET_MAX];
    size_t end[ATTRSET_MAX];
    cleanup(buffer_release) struct buffer keys = BUFFER_INIT(0);
    int r = 0;
    for (uint32_t i = 0; r == 0 && i < n; i++) {
        r = buffer_add_utf8(&keys, attrs[i].key);
        end[i] = keys.n;
    }
    for (uint32_t i = 0; r == 0 && i < n; i++) {
        size_t from = i ? end[i - 1] : 0;
        mended[i] = (struct attr){bytes_of(keys.p ? keys.p + from : NULL, end[i] - from), attrs[i].value};
    }
    if (r == 0)
        r = encode_valid(out, mended, n, b);
    return r;
}

int attrset_encode_cut(struct buffer *out, const struct attr *attrs, uint32_t n, size_t max, uint64_t *cut)
{
    const struct bounds b = {max, cut};
    if (n > ATTRSET_MAX)
        return -E2BIG;
    for (uint32_t i = 0; i < n; i++)
        if (!bytes_is_utf8(attrs[i].key))
            return encode_mended(out, attrs, n, &b);
    return encode_valid(out, attrs, n, &b);
}

int attrset_encode(struct buffer *out, const struct attr *attrs, uint32_t n)
{
    uint64_t none;
    return attrset_encode_cut(out, attrs, n, SIZE_MAX, &none);
}

bool attrset_next(struct bytes *rest, struct attr *ret)
{
    struct entry_head head;
    if (rest->n < sizeof head)
        return false;
    memcpy(&head, rest->p, sizeof head);
    const uint8_t *key = rest->p + sizeof head, *value = key + head.key_len;
    *ret = (struct attr){.key = bytes_of(key, head.key_len), .value = {.kind = head.kind}};
    switch (ret->value.kind) {
    case ATTR_BOOL: memcpy(&ret->value.boolean, value, sizeof ret->value.boolean); break;
    case ATTR_INT: memcpy(&ret->value.integer, value, sizeof ret->value.integer); break;
    case ATTR_DOUBLE: memcpy(&ret->value.real, value, sizeof ret->value.real); break;
    case ATTR_STRING:
    case ATTR_BYTES:
    case ATTR_ARRAY:
    case ATTR_KVLIST: ret->value.text = bytes_of(value, head.value_len); break;
    case ATTR_EMPTY: break;
    }
    size_t used = sizeof head + head.key_len + head.value_len;
    *rest = bytes_of(rest->p + used, rest->n - used);
    return true;
}

static uint32_t count(struct bytes set)
{
    struct entry_head head;
    uint32_t n = 0;
    for (size_t at = 0; set.n - at >= sizeof head; n++) {
        memcpy(&head, set.p + at, sizeof head);
        at += sizeof head + head.key_len + head.value_len;
    }
    return n;
}

int attrset_decode(struct bytes set, struct arena *arena, const struct attr **ret, uint32_t *ret_n)
{
    const uint32_t n = count(set);
    struct attr *attrs = arena_alloc(arena, n * sizeof *attrs);
    struct bytes copy = arena_copy(arena, set);
    if (!attrs || !copy.p)
        return -ENOMEM;
    for (uint32_t i = 0; i < n; i++)
        attrset_next(&copy, &attrs[i]);
    *ret = attrs;
    *ret_n = n;
    return 0;
}
