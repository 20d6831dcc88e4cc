/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Profile.samples. Two runs beside the general reader, for the reasons given in dictionary.c.
 */

#include "proto/otlp/view/run.h"

/* Σ that stops at the ends of its range. */
static inline int64_t add_saturating(int64_t a, int64_t b)
{
    int64_t sum;
    return likely(!__builtin_add_overflow(a, b, &sum)) ? sum : b > 0 ? INT64_MAX : INT64_MIN;
}

/* One sample being read. */
struct row {
    uint64_t stack, link;
    uint32_t n_values, n_timestamps, n_attrs; /* n_attrs: of the pool, behind the sample's last */
    int64_t sum;
};

static inline __attribute__((always_inline)) void sample_store(struct profiles *v, uint32_t i,
                                                               uint32_t attrs_at, const struct row *s)
{
    v->sample.stack[i] = wire_saturate32(s->stack);
    v->sample.link[i] = wire_saturate32(s->link);
    v->sample.attrs_at[i] = attrs_at;
    v->sample.n_values[i] = s->n_values;
    v->sample.n_timestamps[i] = s->n_timestamps;
    v->sample.value_sum[i] = s->sum;
}

/* --- The run. `p` is the position, `q` the end of the sample; each part takes its field if it is next. */

static inline __attribute__((always_inline)) const uint8_t *take_varint(const uint8_t *p, const uint8_t *q,
                                                                        uint32_t number, uint64_t *ret)
{
    return p < q && *p == WIRE_TAG(number, WIRE_VARINT) ? wire_load_varint(p + 1, ret) : p;
}

static inline __attribute__((always_inline)) const uint8_t *take_attrs(const uint8_t *p, const uint8_t *q,
                                                                       uint32_t *index, uint32_t cap,
                                                                       struct row *s)
{
    const uint8_t *end, *list = entry_begin(p, q, SAMPLE_ATTRIBUTE_INDICES, &end);
    if (!list)
        return p;
    if (unlikely((size_t)(end - list) > cap - s->n_attrs))
        return WIRE_BAD;
    return wire_load_packed32_short(list, end, index, &s->n_attrs);
}

static inline __attribute__((always_inline)) const uint8_t *take_values(const uint8_t *p, const uint8_t *q,
                                                                        struct row *s)
{
    const uint8_t *end, *list = entry_begin(p, q, SAMPLE_VALUES, &end);
    if (!list)
        return p;
    for (p = list; p < end; s->n_values++) {
        uint64_t v;
        p = wire_load_varint_long(p, &v);
        s->sum = add_saturating(s->sum, (int64_t)v);
    }
    return p == end ? p : WIRE_BAD;
}

static inline __attribute__((always_inline)) const uint8_t *take_timestamps(const uint8_t *p,
                                                                            const uint8_t *q, struct row *s)
{
    const uint8_t *end, *list = entry_begin(p, q, SAMPLE_TIMESTAMPS_UNIX_NANO, &end);
    if (!list)
        return p;
    s->n_timestamps += (uint32_t)((end - list) / 8);
    return (end - list) % 8 == 0 ? end : WIRE_BAD;
}

/* Parts of the run below; they break at what is longer. */
#define TAKE_STACK()                                       \
    if (*p == WIRE_TAG(SAMPLE_STACK_INDEX, WIRE_VARINT)) { \
        stack = p[1];                                      \
        p += 2;                                            \
        if (stack >= 0x80) {                               \
            stack = (stack & 0x7f) | *p << 7;              \
            if (unlikely(*p++ >= 0x80))                    \
                break;                                     \
        }                                                  \
    }
#define TAKE_TIMESTAMPS()                                        \
    if (*p == WIRE_TAG(SAMPLE_TIMESTAMPS_UNIX_NANO, WIRE_LEN)) { \
        if (unlikely(p[1] & 0x87 || p + p[1] + 2 > q))           \
            break;                                               \
        n_timestamps += p[1] / 8u;                               \
        p += 2 + p[1];                                           \
    }

/* Samples without values and link, with at most eight attributes below 128 and short lengths, as the eBPF
 * profiler sends nearly all: as many as follow each other, with their fields in ascending or descending
 * order. Whether a field ends in time is asked before and behind what is long, and after the last one: what
 * was read of what follows makes the answer no, and the padding covers it. */
static const uint8_t *sample_run_short(struct decode *d, const uint8_t *from, const uint8_t *end)
{
    struct profiles view = *d->p; /* column pointers the compiler may keep in registers */
    uint32_t i = view.sample.n, cap = d->m->cap[GROUP_SAMPLE];
    uint32_t n_attrs = view.attr_index.n, cap_attrs = d->m->cap[GROUP_ATTR_INDEX];
    for (; i < cap && cap_attrs - n_attrs >= 8; i++) {
        const uint8_t *q = from + 2 + from[1], *p = from + 2;
        uint32_t stack = 0, n_timestamps = 0, n = 0;
        if (from[0] != WIRE_TAG(PROFILE_SAMPLES, WIRE_LEN) || !short_entry(from[1]) || q > end)
            break;
        TAKE_TIMESTAMPS(); /* descending */
        TAKE_STACK();      /* ascending */
        if (likely(p < q) && *p == WIRE_TAG(SAMPLE_ATTRIBUTE_INDICES, WIRE_LEN)) {
            n = p[1];
            if (unlikely(n > 8 || n == 0 || wire_load64(p + 2) & 0x8080808080808080u >> (64 - 8 * n)))
                break;
            wire_widen8(p + 2, view.attr_index.attribute + n_attrs);
            p += 2 + n;
        }
        TAKE_STACK(); /* descending */
        if (p < q)
            TAKE_TIMESTAMPS(); /* ascending */
        if (unlikely(p != q))
            break;
        view.sample.stack[i] = stack;
        view.sample.link[i] = 0;
        view.sample.attrs_at[i] = n_attrs;
        view.sample.n_values[i] = 0;
        view.sample.n_timestamps[i] = n_timestamps;
        view.sample.value_sum[i] = 0;
        n_attrs += n;
        from = q;
    }
    d->p->sample.n = i;
    d->p->attr_index.n = n_attrs;
    return from;
}

/* From the tag of a sample on; stops before the first one that is not of the expected shape. */
static const uint8_t *sample_run(struct decode *d, const uint8_t *from, const uint8_t *end)
{
    struct profiles view = *d->p; /* column pointers the compiler may keep in registers */
    uint32_t i = view.sample.n, cap = d->m->cap[GROUP_SAMPLE];
    uint32_t n_attrs = view.attr_index.n, cap_attrs = d->m->cap[GROUP_ATTR_INDEX];
    const uint8_t *p, *q;
    while (i < cap && (p = entry_begin(from, end, PROFILE_SAMPLES, &q)) != NULL &&
           likely(q - p > HOLLOW_BYTES)) {
        struct row s = {.n_attrs = n_attrs};
        p = take_varint(p, q, SAMPLE_STACK_INDEX, &s.stack); /* ascending: 1 2 3 4 5 */
        p = take_attrs(p, q, view.attr_index.attribute, cap_attrs, &s);
        p = take_varint(p, q, SAMPLE_LINK_INDEX, &s.link);
        p = take_timestamps(p, q, &s); /* descending: 5 4 3 2 1 */
        p = take_values(p, q, &s);
        p = take_varint(p, q, SAMPLE_LINK_INDEX, &s.link);
        p = take_attrs(p, q, view.attr_index.attribute, cap_attrs, &s);
        p = take_varint(p, q, SAMPLE_STACK_INDEX, &s.stack);
        p = take_timestamps(p, q, &s);
        if (unlikely(p != q))
            break;
        sample_store(&view, i++, n_attrs, &s);
        n_attrs = s.n_attrs;
        from = q;
    }
    d->p->sample.n = i;
    d->p->attr_index.n = n_attrs;
    return from;
}

const uint8_t *decode_sample_run(struct decode *d, const uint8_t *from, const uint8_t *end)
{
    const uint8_t *to = sample_run_short(d, from, end);
    return to != from ? to : sample_run(d, from, end);
}

/* --- The general reader */

static int any_values(struct decode *d, const struct wire_field *f, struct row *s)
{
    struct wire_rest rest = {0};
    uint64_t v;
    int r;
    while ((r = wire_next_repeated(f, WIRE_VARINT, &rest, &v)) == 0) {
        s->sum = add_saturating(s->sum, (int64_t)v);
        s->n_values++;
    }
    return r == WIRE_END ? 0 : decode_malformed(d, f->from, "malformed Sample.values");
}

static int any_timestamps(struct decode *d, const struct wire_field *f, struct row *s)
{
    if (f->type == WIRE_LEN && f->bytes.n % 8 != 0)
        return decode_malformed(d, f->from, "malformed Sample.timestamps_unix_nano");
    s->n_timestamps += f->type == WIRE_LEN ? (uint32_t)(f->bytes.n / 8) : 1;
    return 0;
}

static int any_attrs(struct decode *d, const struct wire_field *f)
{
    struct index_pool pool = {.n = d->p->attr_index.n, .index = d->p->attr_index.attribute};
    int r = decode_indices(d, GROUP_ATTR_INDEX, &pool, f, "Sample");
    d->p->attr_index.n = pool.n;
    return r;
}

int decode_sample(struct decode *d, struct bytes message)
{
    struct wire_reader in = wire_reader(message);
    struct wire_field f;
    struct row s = {0};
    uint32_t attrs_at = d->p->attr_index.n;
    bool two = false, loose_four = false, unreadable = false;
    int r;
    while ((r = wire_load_next(&in, &f)) == 0) {
        switch (WIRE_TAG(f.number, f.type)) {
        case WIRE_TAG(SAMPLE_STACK_INDEX, WIRE_VARINT): s.stack = f.value; break;
        case WIRE_TAG(SAMPLE_ATTRIBUTE_INDICES, WIRE_LEN):
        case WIRE_TAG(SAMPLE_ATTRIBUTE_INDICES, WIRE_VARINT):
            two = true;
            r = any_attrs(d, &f);
            break;
        case WIRE_TAG(SAMPLE_LINK_INDEX, WIRE_VARINT): s.link = f.value; break;
        case WIRE_TAG(SAMPLE_VALUES, WIRE_VARINT):
            loose_four = true;
            r = any_values(d, &f, &s);
            break;
        case WIRE_TAG(SAMPLE_VALUES, WIRE_LEN): r = any_values(d, &f, &s); break;
        case WIRE_TAG(SAMPLE_TIMESTAMPS_UNIX_NANO, WIRE_LEN):
        case WIRE_TAG(SAMPLE_TIMESTAMPS_UNIX_NANO, WIRE_I64): r = any_timestamps(d, &f, &s); break;
        default:
            r = f.number <= SAMPLE_HIGHEST ? decode_misfit(d, &f, "Sample", &unreadable) : decode_unknown(d);
        }
        if (r != 0)
            return r;
    }
    if (r != WIRE_END)
        return decode_malformed(d, in.p, "malformed Sample");
    d->doubt |= two && loose_four; /* values and a link of 1.9? */
    if (unreadable) {
        s = (struct row){.stack = UNREADABLE};
        d->p->attr_index.n = attrs_at;
    }
    sample_store(d->p, d->p->sample.n++, attrs_at, &s);
    return 0;
}
