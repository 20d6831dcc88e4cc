/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/look/slice.h"

#include <stdlib.h>

#include "proto/base/macros.h"
#include "proto/wire/load.h"

#define VARINT_MAX  10u
#define HEAD_FIELDS 6u

static int by_place(const void *a, const void *b)
{
    const struct look_pair *x = a, *y = b;
    return order_of(x->series, y->series) ?: order_of(x->node, y->node);
}

void look_pairs_merge(look_pairs *pairs)
{
    struct look_pair *p = pairs->p;
    uint32_t n = 0;
    if (pairs->n == 0)
        return;
    qsort(p, pairs->n, sizeof *p, by_place);
    for (uint32_t i = 1; i < pairs->n; i++) {
        if (by_place(&p[n], &p[i]) != 0) {
            p[++n] = p[i];
            continue;
        }
        p[n].value = look_add(p[n].value, p[i].value);
        p[n].seen = look_add(p[n].seen, p[i].seen);
        p[n].kept = look_add(p[n].kept, p[i].kept);
    }
    pairs->n = n + 1;
}

/* There is room. */
static void put(struct buffer *out, uint64_t v)
{
    for (; v > 0x7f; v >>= 7)
        out->p[out->n++] = (uint8_t)v | 0x80;
    out->p[out->n++] = (uint8_t)v;
}

static int get_long(struct bytes *from, uint64_t *ret)
{
    const uint32_t n = (uint32_t)min_of(from->n, (size_t)VARINT_MAX);
    const uint8_t *p = from->p;
    uint64_t v = 0;
    for (uint32_t i = 0, shift = 0; i < n; i++, shift += 7) {
        v |= (uint64_t)(p[i] & 0x7f) << shift;
        if (p[i] < 0x80) {
            *ret = v;
            *from = bytes_of(p + i + 1, from->n - i - 1);
            return 0;
        }
    }
    return LOOK_SLICE_DAMAGED;
}

/* Differences are mostly of one byte, nanoseconds of four. */
static inline int get(struct bytes *from, uint64_t *ret)
{
    if (likely(from->n > 0 && from->p[0] < 0x80)) {
        *ret = *from->p++;
        from->n--;
        return 0;
    }
    const uint64_t w = likely(from->n >= sizeof w) ? wire_load64(from->p) : UINT64_MAX;
    const uint32_t length = wire_varint_length(w);
    if (unlikely(length == 0))
        return get_long(from, ret);
    *ret = wire_varint_value(w, length);
    *from = bytes_from(*from, length);
    return 0;
}

static uint32_t size_of(uint64_t v)
{
    return (70 - (uint32_t)__builtin_clzll(v | 1)) / 7;
}

static uint32_t end_of_series(const look_pairs *pairs, uint32_t from)
{
    uint32_t to = from;
    while (to < pairs->n && pairs->p[to].series == pairs->p[from].series)
        to++;
    return to;
}

/* What all values are multiples of. */
static uint64_t unit_of(const struct look_pair *p, uint32_t n)
{
    uint64_t unit = 0;
    for (uint32_t i = 0; i < n; i++)
        for (uint64_t v = p[i].value, rest; v > 0; v = rest) {
            rest = unit % v;
            unit = v;
        }
    return max_of(unit, (uint64_t)1);
}

static void put_head(const struct look_pair *p, uint32_t n, uint64_t unit, uint32_t before,
                     struct buffer *out)
{
    uint64_t total = 0, kept = 0, seen = 0, bytes = 0;
    for (uint32_t i = 0; i < n; i++) {
        total = look_add(total, p[i].value);
        kept = look_add(kept, p[i].kept);
        seen = look_add(seen, p[i].seen);
        bytes += size_of(p[i].node - (i > 0 ? p[i - 1].node : 0)) + size_of(p[i].value / unit);
    }
    put(out, p->series - before);
    put(out, total);
    put(out, kept);
    put(out, seen);
    put(out, unit);
    put(out, bytes);
}

int look_slice_write(const look_pairs *pairs, struct buffer *out)
{
    uint32_t n_series = 0;
    for (uint32_t i = 0; i < pairs->n; i = end_of_series(pairs, i))
        n_series++;
    int r = buffer_reserve(out, VARINT_MAX * (1 + (uint64_t)HEAD_FIELDS * n_series + 2ull * pairs->n));
    if (r < 0)
        return r;
    put(out, n_series);
    for (uint32_t i = 0, to, before = 0; i < pairs->n; before = pairs->p[i].series, i = to) {
        to = end_of_series(pairs, i);
        put_head(&pairs->p[i], to - i, unit_of(&pairs->p[i], to - i), before, out);
    }
    for (uint32_t i = 0, to; i < pairs->n; i = to) {
        to = end_of_series(pairs, i);
        const uint64_t unit = unit_of(&pairs->p[i], to - i);
        for (uint32_t k = i; k < to; k++) {
            put(out, pairs->p[k].node - (k > i ? pairs->p[k - 1].node : 0));
            put(out, pairs->p[k].value / unit);
        }
    }
    return 0;
}

int look_sections_begin(struct bytes slice, struct look_sections *ret)
{
    uint64_t n, unused;
    if (get(&slice, &n) != 0 || n > slice.n)
        return LOOK_SLICE_DAMAGED;
    *ret = (struct look_sections){.head = slice, .left = (uint32_t)n};
    for (uint64_t i = 0; i < HEAD_FIELDS * n; i++)
        if (get(&slice, &unused) != 0)
            return LOOK_SLICE_DAMAGED;
    ret->body = slice;
    return 0;
}

int look_sections_next(struct look_sections *s, struct look_section *ret)
{
    uint64_t more, bytes;
    if (s->left-- == 0) {
        s->left = 0;
        return LOOK_SLICE_END;
    }
    if (get(&s->head, &more) != 0 || get(&s->head, &ret->total) != 0 || get(&s->head, &ret->kept) != 0 ||
        get(&s->head, &ret->seen) != 0 || get(&s->head, &ret->unit) != 0 || get(&s->head, &bytes) != 0 ||
        bytes > s->body.n || more > UINT32_MAX - s->series)
        return LOOK_SLICE_DAMAGED;
    ret->series = s->series += (uint32_t)more;
    ret->pairs = bytes_of(s->body.p, bytes);
    s->body = bytes_from(s->body, bytes);
    return 0;
}

static uint64_t times(uint64_t value, uint64_t unit)
{
    uint64_t product;
    return __builtin_mul_overflow(value, unit, &product) ? UINT64_MAX : product;
}

void look_pairs_add(const struct look_section *section, uint64_t *values, uint32_t n)
{
    struct bytes pairs = section->pairs;
    uint64_t more, value;
    for (uint64_t node = 0; pairs.n > 0; values[node] = look_add(values[node], times(value, section->unit)))
        if (get(&pairs, &more) != 0 || get(&pairs, &value) != 0 || more >= n || (node += more) >= n)
            return;
}

int look_pairs_next(struct look_section *section, uint32_t *node, uint64_t *ret_value)
{
    struct bytes *pairs = &section->pairs;
    uint64_t more, value;
    if (pairs->n == 0)
        return LOOK_SLICE_END;
    if (get(pairs, &more) != 0 || get(pairs, &value) != 0 || more > UINT32_MAX - *node)
        return LOOK_SLICE_DAMAGED;
    *node += (uint32_t)more;
    *ret_value = times(value, section->unit);
    return 0;
}
