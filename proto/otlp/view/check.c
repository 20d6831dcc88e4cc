/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every index against its table.
 *
 * In a good request that is one pass over each column for "is any out of range", without a branch per entry.
 * Only when something is wrong are the bad entries marked, from strings upwards to stacks, and the samples
 * that reach one rejected.
 */
#include <inttypes.h>
#include <stdio.h>

#include "proto/otlp/layouts/fields.h"
#include "proto/otlp/view/decode.h"
#include "proto/otlp/view/frames.h"

/* Whether any of n indices is not below `limit`, which is below 2^31 as every count is. Then an index is good
 * exactly if its own top bit is clear and that of index - limit is set: two operations and no comparison.
 * Eight at a time (gcc vector extension: SSE2, AVX2, NEON, or plain C). Columns have slack behind them, whose
 * content is anything: the last eight are masked. */
static inline __attribute__((always_inline)) bool any_outside_by_8(const uint32_t *index, uint32_t n,
                                                                   uint32_t limit)
{
    typedef uint32_t eight __attribute__((vector_size(32)));
    const eight lane = {0, 1, 2, 3, 4, 5, 6, 7};
    eight bad = {0}, limits = bad + limit, v; /* of `bad` the top bits count */
    uint32_t i = 0;
    for (; i + 8 <= n; i += 8) {
        memcpy(&v, index + i, sizeof v);
        bad |= v | ~(v - limits);
    }
    if (i < n) {
        memcpy(&v, index + i, sizeof v);
        bad |= (v | ~(v - limits)) & (lane - (n - i)); /* top bit: lane < n - i */
    }
    uint64_t pairs[4];
    memcpy(pairs, &bad, sizeof pairs);
    return ((pairs[0] | pairs[1] | pairs[2] | pairs[3]) & 0x8000000080000000u) != 0;
}

_Static_assert(COLUMN_SLACK >= 8, "whole vectors are read");

static bool any_outside_portable(const uint32_t *index, uint32_t n, uint32_t limit)
{
    return any_outside_by_8(index, n, limit);
}

#if defined(__x86_64__)

__attribute__((target("avx2"))) static bool any_outside_avx2(const uint32_t *index, uint32_t n,
                                                             uint32_t limit)
{
    return any_outside_by_8(index, n, limit);
}

static bool (*any_outside)(const uint32_t *index, uint32_t n, uint32_t limit) = any_outside_portable;

/* Before main, so that no thread sees it change. */
__attribute__((constructor)) static void any_outside_choose(void)
{
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx2"))
        any_outside = any_outside_avx2;
}

#else
#define any_outside any_outside_portable
#endif

/* profiles.proto, Sample: at least one value or timestamp. Fewer of one than of the other is against the text
 * too, but such samples are counted by the consumers there are, and nothing in them is ambiguous to us. */
static bool sample_is_empty(const struct profiles *v, uint32_t i)
{
    return (v->sample.n_values[i] | v->sample.n_timestamps[i]) == 0;
}

/* The columns of indices, and which table each is one of. Besides there are sample.stack, by which a sample
 * is rejected, and references of values. */
/* clang-format off */
#define INDICES(EACH) \
    EACH(mapping, filename, string) \
    EACH(function, name, string) EACH(function, system_name, string) EACH(function, filename, string) \
    EACH(attribute, key, string) EACH(attribute, unit, string) \
    EACH(location, mapping, mapping) EACH(line, function, function) EACH(stack_location, location, location) \
    EACH(attr_index, attribute, attribute) EACH(sample, link, link) \
    EACH(profile, type, string) EACH(profile, unit, string) \
    EACH(profile, period_type, string) EACH(profile, period_unit, string)
/* clang-format on */

bool check_all_good(const struct decode *d)
{
    const struct profiles *v = d->p;
    const struct profiles_memory *m = d->m;
    bool bad = any_outside(m->reference.string, m->reference.n, v->string.n);
    bad |= any_outside(v->sample.stack, v->sample.n, v->stack.n);
#define EACH(table, column, to) bad |= any_outside(v->table.column, v->table.n, v->to.n);
    INDICES(EACH)
#undef EACH
    for (uint32_t i = 0; i < v->sample.n; i++)
        bad |= sample_is_empty(v, i);
    return !bad;
}

static void resolve_references(struct profiles *v, const struct profiles_memory *m)
{
    for (uint32_t i = 0; i < m->reference.n; i++)
        if (m->reference.string[i] < v->string.n)
            v->attribute.value[m->reference.attribute[i]].text = profiles_string(v, m->reference.string[i]);
}

/* --- Something is bad: which */

struct marks {
    uint8_t *attribute, *function, *mapping, *location, *stack, *resource, *scope;
    uint8_t *memory;
    size_t n;
};

static int marks_make(struct profiles *v, struct marks *k)
{
    k->n = (size_t)v->attribute.n + v->function.n + v->mapping.n + v->location.n + v->stack.n +
           v->resource.n + v->scope.n;
    k->memory = profiles_scratch(v, k->n);
    if (!k->memory)
        return PROFILES_OVER_BUDGET;
    k->attribute = k->memory;
    k->function = k->attribute + v->attribute.n;
    k->mapping = k->function + v->function.n;
    k->location = k->mapping + v->mapping.n;
    k->stack = k->location + v->location.n;
    k->resource = k->stack + v->stack.n;
    k->scope = k->resource + v->resource.n;
    return 0;
}

/* The first of the indices [from, to) that is outside its table or names a marked entry; `to` when none is.
 */
static uint32_t first_bad(const uint32_t *index, uint32_t from, uint32_t to, uint32_t limit,
                          const uint8_t *marked)
{
    while (from < to && index[from] < limit && !marked[index[from]])
        from++;
    return from;
}

static bool bad_attrs(const struct profiles *v, const struct marks *k, uint32_t from, uint32_t to)
{
    return first_bad(v->attr_index.attribute, from, to, v->attribute.n, k->attribute) < to;
}

static void mark_tables(const struct profiles *v, const struct profiles_memory *m, struct marks *k)
{
    for (uint32_t i = 0; i < v->attribute.n; i++)
        k->attribute[i] = v->attribute.key[i] >= v->string.n || v->attribute.unit[i] >= v->string.n;
    for (uint32_t i = 0; i < m->reference.n; i++)
        k->attribute[m->reference.attribute[i]] |= m->reference.string[i] >= v->string.n;
    for (uint32_t i = 0; i < v->function.n; i++)
        k->function[i] = v->function.name[i] >= v->string.n || v->function.system_name[i] >= v->string.n ||
                         v->function.filename[i] >= v->string.n;
    for (uint32_t i = 0; i < v->mapping.n; i++)
        k->mapping[i] = v->mapping.filename[i] >= v->string.n ||
                        bad_attrs(v, k, v->mapping.attrs_at[i], v->mapping.attrs_at[i + 1]);
    for (uint32_t i = 0; i < v->location.n; i++)
        k->location[i] = v->location.mapping[i] >= v->mapping.n || k->mapping[v->location.mapping[i]] ||
                         first_bad(v->line.function, v->location.lines_at[i], v->location.lines_at[i + 1],
                                   v->function.n, k->function) < v->location.lines_at[i + 1] ||
                         bad_attrs(v, k, v->location.attrs_at[i], v->location.attrs_at[i + 1]);
    for (uint32_t i = 0; i < v->stack.n; i++)
        k->stack[i] =
            first_bad(v->stack_location.location, v->stack.locations_at[i], v->stack.locations_at[i + 1],
                      v->location.n, k->location) < v->stack.locations_at[i + 1] ||
            frames_is_deep(v, i);
}

/* --- Why, in words; each returns false when there is nothing to complain about */

static bool say(struct error *e, const char *what, uint32_t index, const char *table, uint32_t n)
{
    if (index < n)
        return false;
    error_set(e, 0, "%s %" PRIu32 " is outside of %s (%" PRIu32 " entries)", what, index, table, n);
    return true;
}

static bool explain_attrs(const struct profiles *v, const struct marks *k, uint32_t from, uint32_t to,
                          struct error *e)
{
    uint32_t at = first_bad(v->attr_index.attribute, from, to, v->attribute.n, k->attribute);
    if (at == to)
        return false;
    uint32_t i = v->attr_index.attribute[at];
    if (say(e, "attribute_indices entry", i, "attribute_table", v->attribute.n))
        return true;
    if (!say(e, "key_strindex", v->attribute.key[i], "string_table", v->string.n) &&
        !say(e, "unit_strindex", v->attribute.unit[i], "string_table", v->string.n))
        error_set(e, 0, "string_value_strindex is outside of string_table (%" PRIu32 " entries)",
                  v->string.n);
    error_prefix(e, 0, "attribute_table[%" PRIu32 "]: ", i);
    return true;
}

static bool explain_function(const struct profiles *v, uint32_t i, struct error *e)
{
    if (!say(e, "name_strindex", v->function.name[i], "string_table", v->string.n) &&
        !say(e, "system_name_strindex", v->function.system_name[i], "string_table", v->string.n) &&
        !say(e, "filename_strindex", v->function.filename[i], "string_table", v->string.n))
        return false;
    error_prefix(e, 0, "function_table[%" PRIu32 "]: ", i);
    return true;
}

static void explain_location(const struct profiles *v, const struct marks *k, uint32_t i, struct error *e)
{
    uint32_t mapping = v->location.mapping[i], end = v->location.lines_at[i + 1];
    uint32_t line = first_bad(v->line.function, v->location.lines_at[i], end, v->function.n, k->function);
    if (say(e, "mapping_index", mapping, "mapping_table", v->mapping.n)) {
        /* said */
    } else if (k->mapping[mapping]) {
        if (!say(e, "filename_strindex", v->mapping.filename[mapping], "string_table", v->string.n))
            explain_attrs(v, k, v->mapping.attrs_at[mapping], v->mapping.attrs_at[mapping + 1], e);
        error_prefix(e, 0, "mapping_table[%" PRIu32 "]: ", mapping);
    } else if (line < end) {
        if (!say(e, "function_index", v->line.function[line], "function_table", v->function.n))
            explain_function(v, v->line.function[line], e);
    } else {
        explain_attrs(v, k, v->location.attrs_at[i], v->location.attrs_at[i + 1], e);
    }
    error_prefix(e, 0, "location_table[%" PRIu32 "]: ", i);
}

/* The field that makes a message unreadable: a known one, with another wire type. */
static bool explain_misfit(enum message m, const char *name, struct bytes message, struct error *e)
{
    struct wire_reader in = wire_reader(message);
    struct wire_field f;
    while (wire_next(&in, &f) == 0) {
        const struct field *known = field_numbered(PROFILES_LAYOUT_1_10, m, f.number);
        if (!known || field_takes(known, f.type))
            continue;
        error_set(e, 0, "field %" PRIu32 " of %s has wire type %d", f.number, name, (int)f.type);
        return true;
    }
    return false;
}

/* Sample i of a profile, in its bytes. */
static struct bytes sample_bytes(struct bytes profile, uint32_t i)
{
    struct wire_reader in = wire_reader(profile);
    struct wire_field f;
    while (wire_next(&in, &f) == 0)
        if (f.number == PROFILE_SAMPLES && f.type == WIRE_LEN && i-- == 0)
            return f.bytes;
    return (struct bytes){0};
}

static bool explain_profile_misfit(struct bytes profile, struct error *e)
{
    struct wire_reader in = wire_reader(profile);
    struct wire_field f;
    if (explain_misfit(MESSAGE_PROFILE, "Profile", profile, e))
        return true;
    while (wire_next(&in, &f) == 0)
        if ((f.number == PROFILE_SAMPLE_TYPE || f.number == PROFILE_PERIOD_TYPE) &&
            explain_misfit(MESSAGE_VALUE_TYPE, "ValueType", f.bytes, e))
            return true;
    return false;
}

static void explain_sample(const struct profiles *v, const struct marks *k, uint32_t profile, uint32_t i,
                           struct error *e)
{
    uint32_t stack = v->sample.stack[i];
    if (stack == UNREADABLE &&
        explain_misfit(MESSAGE_SAMPLE, "Sample",
                       sample_bytes(v->profile.raw[profile], i - v->profile.samples_at[profile]), e))
        return;
    if (say(e, "stack_index", stack, "stack_table", v->stack.n) ||
        say(e, "link_index", v->sample.link[i], "link_table", v->link.n) ||
        explain_attrs(v, k, v->sample.attrs_at[i], v->sample.attrs_at[i + 1], e))
        return;
    if (!k->stack[stack]) {
        error_set(e, 0, "neither values nor timestamps");
        return;
    }
    uint32_t end = v->stack.locations_at[stack + 1];
    uint32_t at =
        first_bad(v->stack_location.location, v->stack.locations_at[stack], end, v->location.n, k->location);
    uint32_t location = at < end ? v->stack_location.location[at] : 0;
    if (at == end)
        error_set(e, 0, "more than %u frames", PROFILES_STACK_FRAMES_MAX);
    else if (!say(e, "location_indices entry", location, "location_table", v->location.n))
        explain_location(v, k, location, e);
    error_prefix(e, 0, "stack_table[%" PRIu32 "]: ", stack);
}

/* Whether a profile cannot be used at all: its meaning or its origin is missing. */
static bool profile_is_bad(const struct profiles *v, const struct marks *k, uint32_t i, struct error *e)
{
    uint32_t scope = v->profile.scope[i];
    if (v->profile.type[i] == UNREADABLE && explain_profile_misfit(v->profile.raw[i], e))
        return true;
    if (k->scope[scope] || k->resource[v->scope.resource[scope]]) {
        error_set(e, 0, "%s: a string reference is outside of string_table (%" PRIu32 " entries)",
                  k->scope[scope] ? "scope" : "resource", v->string.n);
        return true;
    }
    return say(e, "sample_type.type_strindex", v->profile.type[i], "string_table", v->string.n) ||
           say(e, "sample_type.unit_strindex", v->profile.unit[i], "string_table", v->string.n) ||
           say(e, "period_type.type_strindex", v->profile.period_type[i], "string_table", v->string.n) ||
           say(e, "period_type.unit_strindex", v->profile.period_unit[i], "string_table", v->string.n) ||
           explain_attrs(v, k, v->profile.attrs_at[i], v->profile.attrs_at[i + 1], e);
}

static bool sample_is_bad(const struct profiles *v, const struct marks *k, uint32_t i)
{
    return sample_is_empty(v, i) || v->sample.stack[i] >= v->stack.n || k->stack[v->sample.stack[i]] ||
           v->sample.link[i] >= v->link.n ||
           bad_attrs(v, k, v->sample.attrs_at[i], v->sample.attrs_at[i + 1]);
}

/* "resource_profiles[0].scope_profiles[0].profiles[2]" before the words in *e. */
static void prefix_path(const struct profiles *v, uint32_t profile, const char *sample, struct error *e)
{
    uint32_t scope = v->profile.scope[profile], resource = v->scope.resource[scope], scope_at = 0,
             profile_at = 0;
    for (uint32_t i = scope; i > 0 && v->scope.resource[i - 1] == resource; i--)
        scope_at++;
    for (uint32_t i = profile; i > 0 && v->profile.scope[i - 1] == scope; i--)
        profile_at++;
    error_prefix(e, 0, "resource_profiles[%" PRIu32 "].scope_profiles[%" PRIu32 "].profiles[%" PRIu32 "]%s: ",
                 resource, scope_at, profile_at, sample);
}

static void reject(struct profiles *v, const struct marks *k)
{
    for (uint32_t i = 0; i < v->profile.n; i++) {
        struct error why = {""};
        uint32_t from = v->profile.samples_at[i], to = v->profile.samples_at[i + 1],
                 was = v->rejected.samples;
        bool whole = profile_is_bad(v, k, i, &why);
        if (whole && v->rejected.first.text[0] == '\0') {
            prefix_path(v, i, "", &why);
            v->rejected.first = why;
        }
        for (uint32_t s = from; s < to; s++) {
            if (!whole && !sample_is_bad(v, k, s))
                continue;
            if (v->rejected.first.text[0] == '\0') {
                char name[32];
                snprintf(name, sizeof name, ".samples[%" PRIu32 "]", s - from);
                explain_sample(v, k, i, s, &why);
                prefix_path(v, i, name, &why);
                v->rejected.first = why;
            }
            v->sample.stack[s] = PROFILES_REJECTED;
            v->rejected.samples++;
        }
        v->rejected.profiles += whole || v->rejected.samples > was;
    }
}

static void clear_outside(uint32_t *index, uint32_t n, uint32_t limit)
{
    for (uint32_t i = 0; i < n; i++)
        if (index[i] >= limit)
            index[i] = 0;
}

static void neutralize(struct profiles *v)
{
#define EACH(table, column, to) clear_outside(v->table.column, v->table.n, v->to.n);
    INDICES(EACH)
#undef EACH
}

int check_indices(struct decode *d, bool good)
{
    struct profiles *v = d->p;
    bool dangling;
    if (likely(good && !frames_any_deep(v))) {
        if (d->m->reference.n > 0)
            resolve_references(v, d->m);
        return frames_bound(v, d->e);
    }
    struct marks k;
    int r = marks_make(v, &k);
    if (r != 0)
        return r;
    const uint32_t unknown_fields = v->unknown_fields;
    r = decode_scopes(d, k.resource, k.scope, &dangling);
    v->unknown_fields = unknown_fields; /* this was the second look */
    if (r == 0) {
        mark_tables(v, d->m, &k);
        reject(v, &k);
        resolve_references(v, d->m);
        neutralize(v);
    }
    profiles_scratch_free(v, k.memory, k.n);
    return r == 0 ? frames_bound(v, d->e) : r;
}
