/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/otlp/write/subset.h"

#include <errno.h>

#include "proto/base/macros.h"
#include "proto/otlp/view/value.h"
#include "proto/otlp/write/renumber.h"
#include "proto/wire/reader.h"
#include "proto/wire/writer.h"

/* A stretch of a profile's message. */
struct stretch {
    const uint8_t *p;
    size_t n;
};

struct subset {
    const struct profiles *p;
    const struct subset_mark *mark;
    struct renumber string, mapping, location, function, link, attribute, stack;
    uint32_t mark_string;  /* of the mark's key in the view; p->string.n: it has none */
    uint32_t *attrs;       /* room for the longest list of attributes, and one more */
    struct bytes *samples; /* [sample]: its message */
    struct stretch *own;   /* what profiles have beside samples and what is renumbered, in order */
    uint32_t *own_at;      /* [profile], and one more */
    uint32_t n_own, cap_own;
    /* of the piece being written */
    const uint64_t *keep;
    uint32_t from, to;   /* samples */
    uint32_t first, end; /* profiles that have them */
    struct wire_writer w;
    uint32_t mark_key,
        mark_attribute; /* numbers in the new request, of the key's string and the added attribute */
};

static bool kept(const struct subset *s, uint32_t sample)
{
    return sample >= s->from && sample < s->to && s->p->sample.stack[sample] != PROFILES_REJECTED &&
           (!s->keep || subset_has(s->keep, sample));
}

static bool profile_kept(const struct subset *s, uint32_t profile, bool *ret_whole)
{
    uint32_t from = s->p->profile.samples_at[profile], to = s->p->profile.samples_at[profile + 1];
    bool any = false;
    *ret_whole = from >= s->from && to <= s->to;
    for (uint32_t i = max_of(from, s->from); i < min_of(to, s->to); i++) {
        bool this = kept(s, i);
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

static void reach_from_samples(struct subset *s)
{
    const struct profiles *p = s->p;
    for (uint32_t i = s->first; i < s->end; i++) {
        bool whole;
        if (!profile_kept(s, i, &whole))
            continue;
        renumber_reach(&s->string, p->profile.type[i]);
        renumber_reach(&s->string, p->profile.unit[i]);
        renumber_reach(&s->string, p->profile.period_type[i]);
        renumber_reach(&s->string, p->profile.period_unit[i]);
        use_attrs(s, p->profile.attrs_at[i], p->profile.attrs_at[i + 1]);
    }
    for (uint32_t i = s->from; i < s->to; i++) {
        if (!kept(s, i))
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

/* --- The dictionary */

static bool is_mark(const struct subset *s, uint32_t attribute)
{
    return s->mark && bytes_eq(profiles_string(s->p, s->p->attribute.key[attribute]), s->mark->key);
}

static bool has_mark(const struct subset *s, uint32_t from, uint32_t to)
{
    while (from < to && !is_mark(s, s->p->attr_index.attribute[from]))
        from++;
    return from < to;
}

/* The list [from, to) in new numbers as field `field`, with the mark behind it when asked for. */
static void write_attrs(struct subset *s, uint32_t field, uint32_t from, uint32_t to, bool mark)
{
    uint32_t n = 0;
    for (; from < to; from++)
        s->attrs[n++] = s->attribute.to[s->p->attr_index.attribute[from]];
    if (mark)
        s->attrs[n++] = s->mark_attribute;
    wire_put_packed32(&s->w, field, s->attrs, n);
}

static void write_mappings_and_locations(struct subset *s)
{
    const struct profiles *p = s->p;
    struct wire_writer *w = &s->w;
    for (EACH_REACHED(i, &s->mapping)) {
        size_t mark = wire_begin(w, 1);
        wire_put_uint_nonzero(w, 1, p->mapping.memory_start[i]);
        wire_put_uint_nonzero(w, 2, p->mapping.memory_limit[i]);
        wire_put_uint_nonzero(w, 3, p->mapping.file_offset[i]);
        wire_put_uint_nonzero(w, 4, s->string.to[p->mapping.filename[i]]);
        write_attrs(s, 5, p->mapping.attrs_at[i], p->mapping.attrs_at[i + 1], false);
        wire_end(w, mark);
    }
    for (EACH_REACHED(i, &s->location)) {
        size_t mark = wire_begin(w, 2);
        wire_put_uint_nonzero(w, 1, s->mapping.to[p->location.mapping[i]]);
        wire_put_uint_nonzero(w, 2, p->location.address[i]);
        for (uint32_t k = p->location.lines_at[i]; k < p->location.lines_at[i + 1]; k++) {
            size_t line = wire_begin(w, 3);
            wire_put_uint_nonzero(w, 1, s->function.to[p->line.function[k]]);
            wire_put_int_nonzero(w, 2, p->line.line[k]);
            wire_put_int_nonzero(w, 3, p->line.column[k]);
            wire_end(w, line);
        }
        write_attrs(s, 4, p->location.attrs_at[i], p->location.attrs_at[i + 1], false);
        wire_end(w, mark);
    }
}

/* profiles.proto, Link: an id that is not set SHOULD be written as zero bytes rather than left out. */
static void write_links(struct subset *s)
{
    static const uint8_t zero[16];
    for (EACH_REACHED(i, &s->link)) {
        size_t mark = wire_begin(&s->w, 4);
        uint64_t trace = s->p->link.trace_at[i], span = s->p->link.span_at[i];
        wire_put_bytes(&s->w, 1, bytes_of(trace ? s->p->body.p + trace : zero, 16));
        wire_put_bytes(&s->w, 2, bytes_of(span ? s->p->body.p + span : zero, 8));
        wire_end(&s->w, mark);
    }
}

static struct attr_value mark_value(const struct subset *s, const struct attr_value *was)
{
    double before = 1;
    if (was && was->kind == ATTR_DOUBLE)
        before = was->real;
    else if (was && was->kind == ATTR_INT)
        before = (double)was->integer;
    return (struct attr_value){.kind = ATTR_DOUBLE, .real = before * s->mark->probability};
}

static void write_attribute(struct subset *s, uint32_t key, const struct attr_value *value, uint32_t unit)
{
    size_t mark = wire_begin(&s->w, 6);
    wire_put_uint_nonzero(&s->w, 1, key);
    if (value->kind != ATTR_EMPTY) {
        size_t any = wire_begin(&s->w, 2);
        value_write(&s->w, s->p, value);
        wire_end(&s->w, any);
    }
    wire_put_uint_nonzero(&s->w, 3, unit);
    wire_end(&s->w, mark);
}

static void write_attributes(struct subset *s)
{
    const struct profiles *p = s->p;
    for (EACH_REACHED(i, &s->attribute)) {
        struct attr_value value =
            is_mark(s, i) ? mark_value(s, &p->attribute.value[i]) : p->attribute.value[i];
        write_attribute(s, s->string.to[p->attribute.key[i]], &value, s->string.to[p->attribute.unit[i]]);
    }
    if (s->mark) {
        struct attr_value value = mark_value(s, NULL);
        write_attribute(s, s->mark_key, &value, 0);
    }
}

static void write_stacks(struct subset *s)
{
    const struct profiles *p = s->p;
    for (EACH_REACHED(i, &s->stack)) {
        size_t mark = wire_begin(&s->w, 7);
        uint32_t from = p->stack.locations_at[i], to = p->stack.locations_at[i + 1];
        size_t list = from < to ? wire_begin(&s->w, 1) : 0;
        for (uint32_t k = from; k < to; k++)
            wire_put_varint(&s->w, s->location.to[p->stack_location.location[k]]);
        if (from < to)
            wire_end(&s->w, list);
        wire_end(&s->w, mark);
    }
}

static void write_dictionary(struct subset *s)
{
    const struct profiles *p = s->p;
    size_t mark = wire_begin(&s->w, 2);
    write_mappings_and_locations(s);
    for (EACH_REACHED(i, &s->function)) {
        size_t function = wire_begin(&s->w, 3);
        wire_put_uint_nonzero(&s->w, 1, s->string.to[p->function.name[i]]);
        wire_put_uint_nonzero(&s->w, 2, s->string.to[p->function.system_name[i]]);
        wire_put_uint_nonzero(&s->w, 3, s->string.to[p->function.filename[i]]);
        wire_put_int_nonzero(&s->w, 4, p->function.start_line[i]);
        wire_end(&s->w, function);
    }
    write_links(s);
    for (EACH_REACHED(i, &s->string))
        wire_put_bytes(&s->w, 5, profiles_string(p, i));
    if (s->mark && s->mark_key == s->string.n_new)
        wire_put_bytes(&s->w, 5, s->mark->key);
    write_attributes(s);
    write_stacks(s);
    wire_end(&s->w, mark);
}

/* --- The tree */

/* Values and timestamps are not in the columns: they are copied from the sample's own bytes. */
static void write_sample(struct subset *s, uint32_t i, struct bytes message, bool profile_marked)
{
    const struct profiles *p = s->p;
    uint32_t from = p->sample.attrs_at[i], to = p->sample.attrs_at[i + 1];
    struct wire_reader in = wire_reader(message);
    struct wire_field f;
    size_t mark = wire_begin(&s->w, 2);
    bool marked = s->mark && !s->mark->on_profiles && !profile_marked && !has_mark(s, from, to);
    wire_put_uint_nonzero(&s->w, 1, s->stack.to[p->sample.stack[i]]);
    write_attrs(s, 2, from, to, marked);
    wire_put_uint_nonzero(&s->w, 3, s->link.to[p->sample.link[i]]);
    while (wire_next(&in, &f) == 0)
        if (f.number == 4 || f.number == 5)
            wire_put_raw(&s->w, bytes_of(f.from, (size_t)(in.p - f.from)));
    wire_end(&s->w, mark);
}

static void write_value_type(struct subset *s, uint32_t field, uint32_t type, uint32_t unit)
{
    if (type == 0 && unit == 0)
        return;
    size_t mark = wire_begin(&s->w, field);
    wire_put_uint_nonzero(&s->w, 1, s->string.to[type]);
    wire_put_uint_nonzero(&s->w, 2, s->string.to[unit]);
    wire_end(&s->w, mark);
}

/* profiles.proto, message Profile */
enum { PROFILE_PAYLOAD_FORMAT = 9, PROFILE_PAYLOAD = 10, PROFILE_ATTRIBUTES = 11 };

static bool is_payload(uint32_t field)
{
    return field == PROFILE_PAYLOAD_FORMAT || field == PROFILE_PAYLOAD;
}

static void write_profile(struct subset *s, uint32_t i, bool whole)
{
    const struct profiles *p = s->p;
    uint32_t from = p->profile.attrs_at[i], to = p->profile.attrs_at[i + 1];
    bool has = has_mark(s, from, to);
    size_t mark = wire_begin(&s->w, 2);
    write_value_type(s, 1, p->profile.type[i], p->profile.unit[i]);
    for (uint32_t k = max_of(p->profile.samples_at[i], s->from);
         k < min_of(p->profile.samples_at[i + 1], s->to); k++)
        if (kept(s, k))
            write_sample(s, k, s->samples[k], has);
    for (uint32_t k = s->own_at[i]; k < s->own_at[i + 1]; k++) {
        struct wire_reader in = wire_reader(bytes_of(s->own[k].p, s->own[k].n));
        struct wire_field f;
        /* A stretch is of payload or it is not. */
        if (whole || wire_next(&in, &f) != 0 || !is_payload(f.number))
            wire_put_raw(&s->w, bytes_of(s->own[k].p, s->own[k].n));
    }
    write_value_type(s, 5, p->profile.period_type[i], p->profile.period_unit[i]);
    write_attrs(s, PROFILE_ATTRIBUTES, from, to, s->mark && s->mark->on_profiles && !has);
    wire_end(&s->w, mark);
}

/* A Resource or InstrumentationScope: its own bytes, unless they refer to the string table. */
static void write_owner(struct subset *s, struct bytes message, enum value_shape shape)
{
    if (message.n == 0)
        return;
    if (!value_has_reference(message, shape)) {
        wire_put_bytes(&s->w, 1, message);
        return;
    }
    size_t mark = wire_begin(&s->w, 1);
    value_write_inline(&s->w, s->p, message, shape);
    wire_end(&s->w, mark);
}

static void write_tree(struct subset *s)
{
    const struct profiles *p = s->p;
    uint32_t resource = UINT32_MAX, scope = UINT32_MAX; /* what is open */
    size_t resource_mark = 0, scope_mark = 0;
    for (uint32_t i = s->first; i < s->end; i++) {
        bool whole;
        if (!profile_kept(s, i, &whole))
            continue;
        uint32_t to_scope = p->profile.scope[i], to_resource = p->scope.resource[to_scope];
        if (scope != UINT32_MAX && scope != to_scope)
            wire_end(&s->w, scope_mark);
        if (resource != UINT32_MAX && resource != to_resource)
            wire_end(&s->w, resource_mark);
        if (resource != to_resource) {
            resource = to_resource;
            resource_mark = wire_begin(&s->w, 1);
            write_owner(s, p->resource.raw[resource], SHAPE_RESOURCE);
            wire_put_bytes_nonempty(&s->w, 3, p->resource.schema_url[resource]);
        }
        if (scope != to_scope) {
            scope = to_scope;
            scope_mark = wire_begin(&s->w, 2);
            write_owner(s, profiles_scope_raw(p, scope), SHAPE_SCOPE);
            wire_put_bytes_nonempty(&s->w, 3, p->scope.schema_url[scope]);
        }
        write_profile(s, i, whole);
    }
    if (scope != UINT32_MAX) {
        wire_end(&s->w, scope_mark);
        wire_end(&s->w, resource_mark);
    }
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
        if (f.number == 2)
            s->samples[sample++] = f.bytes;
        if (f.number == 2 || f.number == 1 || f.number == 5 || f.number == PROFILE_ATTRIBUTES) {
            was = NOTHING;
            continue;
        }
        bool joins = was == (is_payload(f.number) ? PAYLOAD : PLAIN);
        was = is_payload(f.number) ? PAYLOAD : PLAIN;
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
    return s->attrs ? index_profiles(s, memory) : -ENOMEM;
}

struct subset *subset_new(const struct profiles *p, const struct subset_mark *mark, struct arena *memory)
{
    struct subset *s = arena_calloc(memory, 1, sizeof *s);
    if (!s)
        return NULL;
    s->p = p;
    s->mark = mark;
    return subset_init(s, memory) == 0 ? s : NULL;
}

/* The profile that has a sample, or the next one's if it has none. */
static uint32_t profile_of(const struct profiles *p, uint32_t sample)
{
    uint32_t low = 0, high = p->profile.n;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (p->profile.samples_at[middle + 1] <= sample)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

int subset_write(struct subset *s, const uint64_t *keep, uint32_t from, uint32_t to, struct buffer *out)
{
    size_t was = out->n;
    s->keep = keep;
    s->from = from;
    s->to = min_of(to, s->p->sample.n);
    s->first = profile_of(s->p, from);
    s->end = from < s->to ? profile_of(s->p, s->to - 1) + 1 : s->first;
    s->w = wire_writer(out);
    renumber_all(s, reach_zero);
    reach_from_samples(s);
    reach_from_stacks(s);
    number_all(s);
    write_tree(s);
    write_dictionary(s);
    renumber_all(s, renumber_forget);
    if (s->w.failed < 0)
        out->n = was;
    return s->w.failed;
}

int profiles_subset(const struct profiles *p, const uint64_t *keep, const struct subset_mark *mark,
                    struct arena *scratch, struct buffer *out)
{
    struct subset *s = subset_new(p, mark, scratch);
    return s ? subset_write(s, keep, 0, p->sample.n, out) : -ENOMEM;
}
