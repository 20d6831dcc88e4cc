/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From kept samples to the least request that holds them:
 *
 * 1. what they reach is marked, from samples and profiles over stacks, locations, mappings, functions and
 * attributes down to strings, table by table, so that each entry is looked at once (struct renumber keeps the
 * marks);
 * 2. what is marked is numbered in the table's order, and what the mark of thinning needs is put behind;
 * 3. tree and dictionary are written with the new numbers (subset_encode.c). What the columns do not hold
 * (values, timestamps, a profile's other fields) is copied from the request as it stands there: where is
 * found once, by subset_new.
 */
#include <errno.h>

#include "proto/base/macros.h"
#include "proto/otlp/write/subset_parts.h"
#include "proto/wire/reader.h"

bool subset_keeps_profile(const struct subset *s, uint32_t profile, bool *ret_whole)
{
    uint32_t from = s->p->profile.samples_at[profile], to = s->p->profile.samples_at[profile + 1];
    bool any = false;
    *ret_whole = from >= s->from && to <= s->to;
    for (uint32_t i = max_of(from, s->from); i < min_of(to, s->to); i++) {
        bool this = subset_keeps(s, i);
        any |= this;
        *ret_whole &= this;
    }
    return any;
}

/* --- What is reached: from samples and profiles down to strings, each entry once */

static void use_attrs(struct subset *s, uint32_t from, uint32_t to)
{
    for (; from < to; from++)
        renumber_reach(&s->attribute, s->p->attr_index.attribute[from]);
}

/* A text that says what is measured. */
static void reach_type(struct subset *s, uint32_t string)
{
    renumber_reach(&s->string, string);
    if (s->types)
        subset_add(s->types, string);
}

static void reach_from_samples(struct subset *s)
{
    const struct profiles *p = s->p;
    for (uint32_t i = s->first; i < s->end; i++) {
        bool whole;
        if (!subset_keeps_profile(s, i, &whole))
            continue;
        reach_type(s, p->profile.type[i]);
        reach_type(s, p->profile.unit[i]);
        reach_type(s, p->profile.period_type[i]);
        reach_type(s, p->profile.period_unit[i]);
        use_attrs(s, p->profile.attrs_at[i], p->profile.attrs_at[i + 1]);
    }
    for (uint32_t i = s->from; i < s->to; i++) {
        if (!subset_keeps(s, i))
            continue;
        renumber_reach(&s->stack, p->sample.stack[i]);
        renumber_reach(&s->link, p->sample.link[i]);
        use_attrs(s, p->sample.attrs_at[i], p->sample.attrs_at[i + 1]);
    }
}

static void reach_from_stacks(struct subset *s)
{
    const struct profiles *p = s->p;
    for (EACH_REACHED(i, &s->stack))
        for (uint32_t k = p->stack.locations_at[i]; k < p->stack.locations_at[i + 1]; k++)
            renumber_reach(&s->location, p->stack_location.location[k]);
    for (EACH_REACHED(i, &s->location)) {
        renumber_reach(&s->mapping, p->location.mapping[i]);
        for (uint32_t k = p->location.lines_at[i]; k < p->location.lines_at[i + 1]; k++)
            renumber_reach(&s->function, p->line.function[k]);
        use_attrs(s, p->location.attrs_at[i], p->location.attrs_at[i + 1]);
    }
    for (EACH_REACHED(i, &s->mapping)) {
        renumber_reach(&s->string, p->mapping.filename[i]);
        use_attrs(s, p->mapping.attrs_at[i], p->mapping.attrs_at[i + 1]);
    }
    for (EACH_REACHED(i, &s->function)) {
        renumber_reach(&s->string, p->function.name[i]);
        renumber_reach(&s->string, p->function.system_name[i]);
        renumber_reach(&s->string, p->function.filename[i]);
    }
    for (EACH_REACHED(i, &s->attribute)) {
        renumber_reach(&s->string, p->attribute.key[i]);
        renumber_reach(&s->string, p->attribute.unit[i]);
    }
}

static void renumber_all(struct subset *s, void (*verb)(struct renumber *r))
{
    verb(&s->string);
    verb(&s->mapping);
    verb(&s->location);
    verb(&s->function);
    verb(&s->link);
    verb(&s->attribute);
    verb(&s->stack);
}

static void reach_zero(struct renumber *r)
{
    renumber_reach(r, 0);
}

/* The string that is the mark's key becomes used; or it gets a number behind all others. */
static void number_all(struct subset *s)
{
    bool has_key = s->mark && s->mark_string < s->p->string.n;
    if (has_key)
        renumber_reach(&s->string, s->mark_string);
    renumber_all(s, renumber_assign);
    s->mark_key = has_key ? s->string.to[s->mark_string] : s->string.n_new;
    s->mark_attribute = s->attribute.n_new;
}

/* --- The whole */

/* Adds a field to the stretches, or to the last of them. -ENOMEM: no memory. */
static int add_stretch(struct subset *s, bool joins, const uint8_t *p, size_t n, struct arena *memory)
{
    if (joins) {
        s->own[s->n_own - 1].n += n;
        return 0;
    }
    if (s->n_own == s->cap_own) {
        uint32_t cap = s->cap_own ? 2 * s->cap_own : 64;
        struct stretch *more = arena_alloc(memory, cap * sizeof *more);
        if (!more)
            return -ENOMEM;
        if (s->n_own > 0)
            memcpy(more, s->own, s->n_own * sizeof *more);
        s->own = more;
        s->cap_own = cap;
    }
    s->own[s->n_own++] = (struct stretch){p, n};
    return 0;
}

/* Where a profile's samples are, and its other fields as stretches. */
static int index_profile(struct subset *s, uint32_t i, struct arena *memory)
{
    enum { NOTHING, PLAIN, PAYLOAD } was = NOTHING;
    struct wire_reader in = wire_reader(s->p->profile.raw[i]);
    struct wire_field f;
    uint32_t sample = s->p->profile.samples_at[i];
    while (wire_next(&in, &f) == 0) {
        if (f.number == PROFILE_SAMPLES)
            s->samples[sample++] = f.bytes;
        if (f.number == PROFILE_SAMPLES || f.number == PROFILE_SAMPLE_TYPE ||
            f.number == PROFILE_PERIOD_TYPE || f.number == PROFILE_ATTRIBUTE_INDICES) {
            was = NOTHING;
            continue;
        }
        bool joins = was == (subset_is_payload(f.number) ? PAYLOAD : PLAIN);
        was = subset_is_payload(f.number) ? PAYLOAD : PLAIN;
        if (add_stretch(s, joins, f.from, (size_t)(in.p - f.from), memory) < 0)
            return -ENOMEM;
    }
    return 0;
}

static int index_profiles(struct subset *s, struct arena *memory)
{
    const struct profiles *p = s->p;
    s->samples = arena_calloc(memory, p->sample.n, sizeof *s->samples);
    s->own_at = arena_calloc(memory, (size_t)p->profile.n + 1, sizeof *s->own_at);
    if (!s->samples || !s->own_at)
        return -ENOMEM;
    for (uint32_t i = 0; i < p->profile.n; i++) {
        if (index_profile(s, i, memory) < 0)
            return -ENOMEM;
        s->own_at[i + 1] = s->n_own;
    }
    return 0;
}

/* The longest list any owner has: attr_index is one pool with bounds per owner, so all of it is an upper
 * limit. */
static int subset_init(struct subset *s, struct arena *memory)
{
    const struct profiles *p = s->p;
    struct {
        struct renumber *table;
        uint32_t n;
    } tables[] = {{&s->string, p->string.n},     {&s->mapping, p->mapping.n}, {&s->location, p->location.n},
                  {&s->function, p->function.n}, {&s->link, p->link.n},       {&s->attribute, p->attribute.n},
                  {&s->stack, p->stack.n}};
    for (size_t i = 0; i < ARRAY_LEN(tables); i++)
        if (renumber_init(tables[i].table, tables[i].n, memory) < 0)
            return -ENOMEM;
    s->attrs = arena_alloc(memory, ((size_t)p->attr_index.n + 1) * sizeof *s->attrs);
    while (s->mark && s->mark_string < p->string.n &&
           !bytes_eq(profiles_string(p, s->mark_string), s->mark->key))
        s->mark_string++;
    if (!s->attrs || index_profiles(s, memory) < 0)
        return -ENOMEM;
    return subset_find_unknown(s, memory);
}

struct subset *subset_new(const struct profiles *p, const struct subset_mark *mark, struct arena *memory)
{
    struct subset *s = arena_calloc(memory, 1, sizeof *s);
    if (!s)
        return NULL;
    static const struct subset_form as_it_is;
    s->p = p;
    s->mark = mark;
    s->form = &as_it_is;
    return subset_init(s, memory) == 0 ? s : NULL;
}

int subset_write(struct subset *s, const uint64_t *keep, uint32_t from, uint32_t to, struct buffer *out)
{
    size_t was = out->n;
    s->keep = keep;
    s->from = from;
    s->to = min_of(to, s->p->sample.n);
    s->first = profiles_profile_of(s->p, from);
    s->end = from < s->to ? profiles_profile_of(s->p, s->to - 1) + 1 : s->first;
    s->w = wire_writer(out);
    renumber_all(s, reach_zero);
    reach_from_samples(s);
    reach_from_stacks(s);
    number_all(s);
    subset_encode(s);
    renumber_all(s, renumber_forget);
    if (s->w.failed < 0)
        out->n = was;
    return s->w.full ? SUBSET_TOO_LARGE : s->w.failed;
}

int profiles_subset(const struct profiles *p, const uint64_t *keep, const struct subset_mark *mark,
                    struct arena *scratch, struct buffer *out)
{
    struct subset *s = subset_new(p, mark, scratch);
    return s ? subset_write(s, keep, 0, p->sample.n, out) : -ENOMEM;
}
