/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ResourceProfiles → resources, scopes, profiles and samples. Samples have a run beside the general reader,
 * for the reasons given in dictionary.c.
 */
#include <errno.h>

#include "proto/otlp/view/run.h"
#include "proto/otlp/view/value.h"

#define PROFILE_ID_SIZE 16u

/* Field numbers up to here are 1.10's own; of those behind, older layouts had some (reference/gateway.md
 * §2.3). */
enum { SAMPLE_FIELD_MAX = 5, PROFILE_FIELD_MAX = 11, PROFILE_OLDER_MAX = 22, SAMPLE_OLDER_MAX = 6 };

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

/* The body of a packed list field, or NULL if that is not next. */
static inline __attribute__((always_inline)) const uint8_t *list_begin(const uint8_t *p, const uint8_t *q,
                                                                       uint32_t number,
                                                                       const uint8_t **ret_end)
{
    uint64_t n;
    if (p >= q || *p != WIRE_TAG(number, WIRE_LEN))
        return NULL;
    p = wire_load_varint(p + 1, &n);
    if (unlikely(p > q || n > (uint64_t)(q - p)))
        return NULL;
    *ret_end = p + n;
    return p;
}

static inline __attribute__((always_inline)) const uint8_t *take_attrs(const uint8_t *p, const uint8_t *q,
                                                                       uint32_t *index, uint32_t cap,
                                                                       struct row *s)
{
    const uint8_t *end, *list = list_begin(p, q, 2, &end);
    if (!list)
        return p;
    if (unlikely((size_t)(end - list) > cap - s->n_attrs))
        return WIRE_BAD;
    return wire_load_packed32_short(list, end, index, &s->n_attrs);
}

static inline __attribute__((always_inline)) const uint8_t *take_values(const uint8_t *p, const uint8_t *q,
                                                                        struct row *s)
{
    const uint8_t *end, *list = list_begin(p, q, 4, &end);
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
    const uint8_t *end, *list = list_begin(p, q, 5, &end);
    if (!list)
        return p;
    s->n_timestamps += (uint32_t)((end - list) / 8);
    return (end - list) % 8 == 0 ? end : WIRE_BAD;
}

/* Parts of the run below; they break at what is longer. */
#define TAKE_STACK()                          \
    if (*p == WIRE_TAG(1, WIRE_VARINT)) {     \
        stack = p[1];                         \
        p += 2;                               \
        if (stack >= 0x80) {                  \
            stack = (stack & 0x7f) | *p << 7; \
            if (unlikely(*p++ >= 0x80))       \
                break;                        \
        }                                     \
    }
#define TAKE_TIMESTAMPS()                              \
    if (*p == WIRE_TAG(5, WIRE_LEN)) {                 \
        if (unlikely(p[1] & 0x87 || p + p[1] + 2 > q)) \
            break;                                     \
        n_timestamps += p[1] / 8u;                     \
        p += 2 + p[1];                                 \
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
        if (from[0] != WIRE_TAG(2, WIRE_LEN) || !short_entry(from[1]) || q > end)
            break;
        TAKE_TIMESTAMPS(); /* descending */
        TAKE_STACK();      /* ascending */
        if (likely(p < q) && *p == WIRE_TAG(2, WIRE_LEN)) {
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
    uint64_t seen_values = 0, seen_link = 0;
    const uint8_t *p, *q;
    while (i < cap && (p = list_begin(from, end, 2, &q)) != NULL && likely(q - p > HOLLOW_BYTES)) {
        struct row s = {.n_attrs = n_attrs};
        p = take_varint(p, q, 1, &s.stack); /* ascending: 1 2 3 4 5 */
        p = take_attrs(p, q, view.attr_index.attribute, cap_attrs, &s);
        p = take_varint(p, q, 3, &s.link);
        p = take_timestamps(p, q, &s); /* descending: 5 4 3 2 1 */
        p = take_values(p, q, &s);
        p = take_varint(p, q, 3, &s.link);
        p = take_attrs(p, q, view.attr_index.attribute, cap_attrs, &s);
        p = take_varint(p, q, 1, &s.stack);
        p = take_timestamps(p, q, &s);
        if (unlikely(p != q))
            break;
        sample_store(&view, i++, n_attrs, &s);
        seen_values |= s.n_values;
        seen_link |= s.link;
        n_attrs = s.n_attrs;
        from = q;
    }
    d->p->sample.n = i;
    d->p->attr_index.n = n_attrs;
    d->surely_1_10 |=
        seen_values | seen_link; /* 4 as a list, 3 as a number: older layouts have them the other way */
    return from;
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

/* Field 4 as a number: a link of 1.8 and 1.9, or a value of 1.10 from a writer that does not pack. The first
 * packs field 2 and has field 4 at most once (reference/gateway.md §2.3, rule 4, with what protobuf demands
 * of readers). */
static int sample_any(struct decode *d, struct bytes message)
{
    struct wire_reader in = wire_reader(message);
    struct wire_field f;
    struct row s = {0};
    uint32_t attrs_at = d->p->attr_index.n, n_loose_values = 0;
    bool packs = false;
    int r;
    while ((r = wire_load_next(&in, &f)) == 0) {
        switch (WIRE_TAG(f.number, f.type)) {
        case WIRE_TAG(1, WIRE_VARINT): s.stack = f.value; break;
        case WIRE_TAG(2, WIRE_LEN):
            packs = true;
            r = any_attrs(d, &f);
            break;
        case WIRE_TAG(2, WIRE_VARINT): r = any_attrs(d, &f); break;
        case WIRE_TAG(3, WIRE_VARINT):
            s.link = f.value;
            d->surely_1_10 |= f.value != 0;
            break;
        case WIRE_TAG(4, WIRE_LEN):
            d->surely_1_10 |= f.bytes.n > 0;
            r = any_values(d, &f, &s);
            break;
        case WIRE_TAG(4, WIRE_VARINT):
            n_loose_values++;
            r = any_values(d, &f, &s);
            break;
        case WIRE_TAG(5, WIRE_LEN):
        case WIRE_TAG(5, WIRE_I64): r = any_timestamps(d, &f, &s); break;
        default:
            if (f.number <= SAMPLE_FIELD_MAX)
                r = decode_wrong_type(d, &f, "Sample");
            d->maybe_older |= f.number <= SAMPLE_OLDER_MAX;
        }
        if (r != 0)
            return r;
    }
    if (r != WIRE_END)
        return decode_malformed(d, in.p, "malformed Sample");
    d->maybe_older |= packs && n_loose_values == 1;
    sample_store(d->p, d->p->sample.n++, attrs_at, &s);
    return 0;
}

static int value_type(struct decode *d, struct bytes message, uint64_t *type, uint64_t *unit)
{
    struct wire_reader in = wire_reader(message);
    struct wire_field f;
    int r;
    while ((r = wire_load_next(&in, &f)) == 0) {
        d->maybe_older |= f.number == 3; /* aggregation_temporality, up to 1.8 */
        if (f.number > 2)
            continue;
        if (f.type != WIRE_VARINT)
            return decode_wrong_type(d, &f, "ValueType");
        *(f.number == 1 ? type : unit) = f.value;
    }
    return r == WIRE_END ? 0 : decode_malformed(d, in.p, "malformed ValueType");
}

struct profile_row {
    uint64_t type, unit, period_type, period_unit, period, time, duration;
    struct bytes id;
};

static int profile_field(struct decode *d, const struct wire_field *f, struct profile_row *w)
{
    int r;
    switch (WIRE_TAG(f->number, f->type)) {
    case WIRE_TAG(1, WIRE_LEN): return value_type(d, f->bytes, &w->type, &w->unit);
    case WIRE_TAG(2, WIRE_LEN):
        r = decode_entry(d, f->bytes, HOLLOW_BYTES);
        if (r == 0)
            r = profiles_room(d->p, GROUP_SAMPLE, d->p->sample.n);
        return r != 0 ? r : sample_any(d, f->bytes);
    case WIRE_TAG(3, WIRE_I64): w->time = f->value; return 0;
    case WIRE_TAG(4, WIRE_VARINT): w->duration = f->value; return 0;
    case WIRE_TAG(5, WIRE_LEN): return value_type(d, f->bytes, &w->period_type, &w->period_unit);
    case WIRE_TAG(6, WIRE_VARINT): w->period = f->value; return 0;
    case WIRE_TAG(7,
                  WIRE_LEN): /* of another size it is no id; nobody is served by losing the samples for it */
        w->id = f->bytes.n == PROFILE_ID_SIZE ? f->bytes : (struct bytes){0};
        d->maybe_older |= f->bytes.n != PROFILE_ID_SIZE && f->bytes.n != 0;
        return 0;
    case WIRE_TAG(8, WIRE_VARINT):
    case WIRE_TAG(9, WIRE_LEN):
    case WIRE_TAG(10, WIRE_LEN): return 0;
    default: break;
    }
    if (f->number == 11)
        return decode_indices(d, GROUP_PROFILE_ATTR, &d->m->profile_attr, f, "Profile");
    if (f->number <= PROFILE_FIELD_MAX)
        return decode_wrong_type(d, f, "Profile");
    d->maybe_older |= f->number <= PROFILE_OLDER_MAX;
    return 0;
}

static int profile_any(struct decode *d, struct bytes message, uint32_t scope)
{
    struct wire_reader in = wire_reader(message);
    struct wire_field f;
    struct profile_row w = {0};
    struct profiles *v = d->p;
    uint32_t i = v->profile.n, attrs_at = d->m->profile_attr.n;
    int r = decode_entry(d, message, HOLLOW_BYTES);
    if (r == 0)
        r = profiles_room(v, GROUP_PROFILE, i);
    if (r != 0)
        return r;
    v->profile.samples_at[i] = v->sample.n;
    while (in.p < in.end) {
        if (*in.p == WIRE_TAG(2, WIRE_LEN)) {
            const uint8_t *was = in.p;
            r = profiles_room(v, GROUP_SAMPLE, v->sample.n);
            if (r != 0)
                return r;
            in.p = sample_run_short(d, in.p, in.end);
            if (in.p == was)
                in.p = sample_run(d, in.p, in.end);
            if (in.p != was)
                continue;
        }
        if (wire_load_next(&in, &f) != 0)
            return decode_malformed(d, in.p, "malformed Profile");
        r = profile_field(d, &f, &w);
        if (r != 0)
            return r;
    }
    v->profile.scope[i] = scope;
    v->profile.type[i] = wire_saturate32(w.type);
    v->profile.unit[i] = wire_saturate32(w.unit);
    v->profile.period_type[i] = wire_saturate32(w.period_type);
    v->profile.period_unit[i] = wire_saturate32(w.period_unit);
    v->profile.period[i] = (int64_t)w.period;
    v->profile.time_unix_nano[i] = w.time;
    v->profile.duration_nano[i] = w.duration;
    v->profile.profile_id[i] = w.id;
    v->profile.raw[i] = message;
    v->profile.attrs_at[i] = attrs_at;
    v->profile.n++;
    return 0;
}

/* Scopes and resources may come behind what they hold, and in pieces: only their bytes are kept here. */
static int add_piece(struct decode *d, struct bytes *raw, struct bytes piece)
{
    struct bytes joined = profiles_join(d->p, *raw, piece);
    if (!joined.p)
        return PROFILES_OVER_BUDGET;
    *raw = joined;
    return 0;
}

static int scope_profiles(struct decode *d, struct bytes message, uint32_t resource)
{
    struct wire_reader in = wire_reader(message);
    struct wire_field f;
    struct profiles *v = d->p;
    uint32_t i = v->scope.n;
    int r = decode_entry(d, message, HOLLOW_BYTES);
    if (r == 0)
        r = profiles_room(v, GROUP_SCOPE, i);
    if (r != 0)
        return r;
    v->scope.n++;
    v->scope.resource[i] = resource;
    v->scope.name[i] = v->scope.version[i] = v->scope.schema_url[i] = (struct bytes){0};
    v->scope.attrs_at[i] = 0;
    d->m->scope_raw[i] = bytes_of(message.p, 0);
    while ((r = wire_load_next(&in, &f)) == 0) {
        switch (WIRE_TAG(f.number, f.type)) {
        case WIRE_TAG(1, WIRE_LEN): r = add_piece(d, &d->m->scope_raw[i], f.bytes); break;
        case WIRE_TAG(2, WIRE_LEN): r = profile_any(d, f.bytes, i); break;
        case WIRE_TAG(3, WIRE_LEN): v->scope.schema_url[i] = f.bytes; break;
        default:
            if (f.number <= 3)
                r = decode_wrong_type(d, &f, "ScopeProfiles");
        }
        if (r != 0)
            return r;
    }
    return r == WIRE_END ? 0 : decode_malformed(d, in.p, "malformed ScopeProfiles");
}

int decode_resource_profiles(struct decode *d, struct bytes message)
{
    struct wire_reader in = wire_reader(message);
    struct wire_field f;
    struct profiles *v = d->p;
    uint32_t i = v->resource.n;
    int r = decode_entry(d, message, HOLLOW_BYTES);
    if (r == 0)
        r = profiles_room(v, GROUP_RESOURCE, i);
    if (r != 0)
        return r;
    v->resource.n++;
    v->resource.raw[i] = bytes_of(message.p, 0);
    v->resource.schema_url[i] = (struct bytes){0};
    while ((r = wire_load_next(&in, &f)) == 0) {
        switch (WIRE_TAG(f.number, f.type)) {
        case WIRE_TAG(1, WIRE_LEN): r = add_piece(d, &v->resource.raw[i], f.bytes); break;
        case WIRE_TAG(2, WIRE_LEN): r = scope_profiles(d, f.bytes, i); break;
        case WIRE_TAG(3, WIRE_LEN): v->resource.schema_url[i] = f.bytes; break;
        default:
            if (f.number <= 3)
                r = decode_wrong_type(d, &f, "ResourceProfiles");
        }
        if (r != 0)
            return r;
    }
    return r == WIRE_END ? 0 : decode_malformed(d, in.p, "malformed ResourceProfiles");
}

/* --- Attributes of resources and scopes, when all strings are known */

/* A reference into the string table: false when it dangles. */
static bool resolve(const struct profiles *p, uint64_t index, struct bytes *ret)
{
    if (index >= p->string.n)
        return false;
    *ret = profiles_string(p, (uint32_t)index);
    return true;
}

static int key_value(struct decode *d, struct bytes message, bool *dangling)
{
    struct wire_reader in = wire_reader(message);
    struct wire_field f;
    struct attr a = {0};
    uint64_t key_index = 0, reference = INDEX_NONE, piece;
    int r = decode_entry(d, message, HOLLOW_BYTES);
    if (r != 0)
        return r;
    while ((r = wire_load_next(&in, &f)) == 0) {
        switch (WIRE_TAG(f.number, f.type)) {
        case WIRE_TAG(1, WIRE_LEN): a.key = f.bytes; break;
        case WIRE_TAG(2, WIRE_LEN):
            r = decode_any_value(d, f.bytes, &a.value, &piece);
            if (piece != INDEX_NONE || f.bytes.n > 0)
                reference = piece;
            break;
        case WIRE_TAG(3, WIRE_VARINT): key_index = f.value; break;
        default:
            if (f.number <= 3)
                r = decode_wrong_type(d, &f, "KeyValue");
        }
        if (r != 0)
            return r;
    }
    if (r != WIRE_END)
        return decode_malformed(d, in.p, "malformed KeyValue");
    d->surely_1_10 |= key_index != 0;
    if (key_index != 0 && !resolve(d->p, key_index, &a.key)) /* 0 is "not set" */
        *dangling = true;
    if (reference != INDEX_NONE && !resolve(d->p, reference, &a.value.text))
        *dangling = true;
    r = profiles_room(d->p, GROUP_KEY_VALUE, d->p->key_value.n);
    if (r == 0)
        d->p->key_value.attr[d->p->key_value.n++] = a;
    return r;
}

/* `attributes_field` is 1 in Resource, 3 in InstrumentationScope, whose name and version come before. */
static int owner(struct decode *d, struct bytes message, uint32_t attributes_field, struct bytes *name,
                 struct bytes *version, bool *dangling)
{
    struct wire_reader in = wire_reader(message);
    struct wire_field f;
    int r;
    while ((r = wire_load_next(&in, &f)) == 0) {
        if (f.number == attributes_field && f.type == WIRE_LEN)
            r = key_value(d, f.bytes, dangling);
        else if (f.number == attributes_field || (f.number < attributes_field && f.type != WIRE_LEN))
            r = decode_wrong_type(d, &f, attributes_field == 1 ? "Resource" : "InstrumentationScope");
        else if (f.number < attributes_field)
            *(f.number == 1 ? name : version) = f.bytes;
        if (r != 0)
            return r;
    }
    return r == WIRE_END ? 0 : decode_malformed(d, in.p, "malformed Resource or InstrumentationScope");
}

int decode_scopes(struct decode *d, uint8_t *resource_bad, uint8_t *scope_bad, bool *ret_dangling)
{
    struct profiles *v = d->p;
    v->key_value.n = 0;
    *ret_dangling = false;
    for (uint32_t i = 0; i < v->resource.n; i++) {
        bool dangling = false;
        v->resource.attrs_at[i] = v->key_value.n;
        int r = owner(d, v->resource.raw[i], 1, NULL, NULL, &dangling);
        if (r != 0)
            return r;
        if (resource_bad)
            resource_bad[i] = dangling;
        *ret_dangling |= dangling;
    }
    v->resource.attrs_at[v->resource.n] = v->key_value.n;
    for (uint32_t i = 0; i < v->scope.n; i++) {
        bool dangling = false;
        v->scope.attrs_at[i] = v->key_value.n;
        int r = owner(d, d->m->scope_raw[i], 3, &v->scope.name[i], &v->scope.version[i], &dangling);
        if (r != 0)
            return r;
        if (scope_bad)
            scope_bad[i] = dangling;
        *ret_dangling |= dangling;
    }
    v->scope.attrs_at[v->scope.n] = v->key_value.n;
    return 0;
}
