#include "proto/otlp/subset.h"

#include <errno.h>

#include "proto/base/macros.h"
#include "proto/otlp/profiles_value.h"
#include "proto/wire/reader.h"
#include "proto/wire/writer.h"

/* For each table: first whether an entry is reached (1), then its number in the new request. Entry 0 is
 * always reached and stays 0; of the others, those not reached keep 0 too and are told apart by `used`. */
struct renumber {
    uint32_t *to;
    uint8_t *used;
    uint32_t n, n_new;
};

struct subset {
    const struct profiles *p;
    const uint64_t *keep;
    const struct subset_mark *mark;
    struct wire_writer w;
    struct renumber string, mapping, location, function, link, attribute, stack;
    uint32_t mark_key,
        mark_attribute; /* numbers in the new request, of the key's string and the added attribute */
    uint32_t *attrs;    /* room for the longest list of attributes, and one more */
};

static bool kept(const struct subset *s, uint32_t sample)
{
    return s->p->sample.stack[sample] != PROFILES_REJECTED && (!s->keep || subset_has(s->keep, sample));
}

static bool profile_kept(const struct subset *s, uint32_t profile, bool *ret_whole)
{
    bool any = false;
    *ret_whole = true;
    for (uint32_t i = s->p->profile.samples_at[profile]; i < s->p->profile.samples_at[profile + 1]; i++) {
        bool this = kept(s, i);
        any |= this;
        *ret_whole &= this;
    }
    return any;
}

/* --- What is reached: from samples and profiles down to strings, one pass over each table */

static int renumber_init(struct renumber *r, uint32_t n, struct arena *scratch)
{
    r->n = n;
    r->to = arena_calloc(scratch, n, sizeof *r->to);
    r->used = arena_calloc(scratch, n, 1);
    if (!r->to || !r->used)
        return -ENOMEM;
    r->used[0] = 1;
    return 0;
}

static void renumber_assign(struct renumber *r)
{
    for (uint32_t i = 0; i < r->n; i++)
        if (r->used[i])
            r->to[i] = r->n_new++;
}

static void use_attrs(struct subset *s, uint32_t from, uint32_t to)
{
    for (; from < to; from++)
        s->attribute.used[s->p->attr_index.attribute[from]] = 1;
}

static void reach_from_samples(struct subset *s)
{
    const struct profiles *p = s->p;
    for (uint32_t i = 0; i < p->profile.n; i++) {
        bool whole;
        if (!profile_kept(s, i, &whole))
            continue;
        s->string.used[p->profile.type[i]] = s->string.used[p->profile.unit[i]] = 1;
        s->string.used[p->profile.period_type[i]] = s->string.used[p->profile.period_unit[i]] = 1;
        use_attrs(s, p->profile.attrs_at[i], p->profile.attrs_at[i + 1]);
    }
    for (uint32_t i = 0; i < p->sample.n; i++) {
        if (!kept(s, i))
            continue;
        s->stack.used[p->sample.stack[i]] = 1;
        s->link.used[p->sample.link[i]] = 1;
        use_attrs(s, p->sample.attrs_at[i], p->sample.attrs_at[i + 1]);
    }
}

static void reach_from_stacks(struct subset *s)
{
    const struct profiles *p = s->p;
    for (uint32_t i = 0; i < p->stack.n; i++)
        for (uint32_t k = p->stack.locations_at[i]; s->stack.used[i] && k < p->stack.locations_at[i + 1]; k++)
            s->location.used[p->stack_location.location[k]] = 1;
    for (uint32_t i = 0; i < p->location.n; i++) {
        if (!s->location.used[i])
            continue;
        s->mapping.used[p->location.mapping[i]] = 1;
        for (uint32_t k = p->location.lines_at[i]; k < p->location.lines_at[i + 1]; k++)
            s->function.used[p->line.function[k]] = 1;
        use_attrs(s, p->location.attrs_at[i], p->location.attrs_at[i + 1]);
    }
    for (uint32_t i = 0; i < p->mapping.n; i++) {
        if (!s->mapping.used[i])
            continue;
        s->string.used[p->mapping.filename[i]] = 1;
        use_attrs(s, p->mapping.attrs_at[i], p->mapping.attrs_at[i + 1]);
    }
    for (uint32_t i = 0; i < p->function.n; i++)
        if (s->function.used[i])
            s->string.used[p->function.name[i]] = s->string.used[p->function.system_name[i]] =
                s->string.used[p->function.filename[i]] = 1;
    for (uint32_t i = 0; i < p->attribute.n; i++)
        if (s->attribute.used[i])
            s->string.used[p->attribute.key[i]] = s->string.used[p->attribute.unit[i]] = 1;
}

/* The string that is the mark's key becomes used; or it gets a number behind all others. */
static void number_mark_key(struct subset *s)
{
    uint32_t i = 0;
    while (i < s->p->string.n && !bytes_eq(profiles_string(s->p, i), s->mark->key))
        i++;
    if (i < s->p->string.n)
        s->string.used[i] = 1;
    renumber_assign(&s->string);
    s->mark_key = i < s->p->string.n ? s->string.to[i] : s->string.n_new;
}

static void number_all(struct subset *s)
{
    renumber_assign(&s->mapping);
    renumber_assign(&s->location);
    renumber_assign(&s->function);
    renumber_assign(&s->link);
    renumber_assign(&s->attribute);
    renumber_assign(&s->stack);
    if (s->mark)
        number_mark_key(s);
    else
        renumber_assign(&s->string);
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
    for (uint32_t i = 0; i < p->mapping.n; i++) {
        if (!s->mapping.used[i])
            continue;
        size_t mark = wire_begin(w, 1);
        wire_put_uint_nonzero(w, 1, p->mapping.memory_start[i]);
        wire_put_uint_nonzero(w, 2, p->mapping.memory_limit[i]);
        wire_put_uint_nonzero(w, 3, p->mapping.file_offset[i]);
        wire_put_uint_nonzero(w, 4, s->string.to[p->mapping.filename[i]]);
        write_attrs(s, 5, p->mapping.attrs_at[i], p->mapping.attrs_at[i + 1], false);
        wire_end(w, mark);
    }
    for (uint32_t i = 0; i < p->location.n; i++) {
        if (!s->location.used[i])
            continue;
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
    for (uint32_t i = 0; i < s->p->link.n; i++) {
        if (!s->link.used[i])
            continue;
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
    for (uint32_t i = 0; i < p->attribute.n; i++) {
        if (!s->attribute.used[i])
            continue;
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
    for (uint32_t i = 0; i < p->stack.n; i++) {
        if (!s->stack.used[i])
            continue;
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
    for (uint32_t i = 0; i < p->function.n; i++) {
        if (!s->function.used[i])
            continue;
        size_t function = wire_begin(&s->w, 3);
        wire_put_uint_nonzero(&s->w, 1, s->string.to[p->function.name[i]]);
        wire_put_uint_nonzero(&s->w, 2, s->string.to[p->function.system_name[i]]);
        wire_put_uint_nonzero(&s->w, 3, s->string.to[p->function.filename[i]]);
        wire_put_int_nonzero(&s->w, 4, p->function.start_line[i]);
        wire_end(&s->w, function);
    }
    write_links(s);
    for (uint32_t i = 0; i < p->string.n; i++)
        if (s->string.used[i])
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

static void write_profile(struct subset *s, uint32_t i, bool whole)
{
    const struct profiles *p = s->p;
    uint32_t from = p->profile.attrs_at[i], to = p->profile.attrs_at[i + 1],
             sample = p->profile.samples_at[i];
    bool has = has_mark(s, from, to);
    struct wire_reader in = wire_reader(p->profile.raw[i]);
    struct wire_field f;
    size_t mark = wire_begin(&s->w, 2);
    write_value_type(s, 1, p->profile.type[i], p->profile.unit[i]);
    while (wire_next(&in, &f) == 0) {
        bool payload = f.number == PROFILE_PAYLOAD_FORMAT || f.number == PROFILE_PAYLOAD;
        if (f.number == 2) {
            if (kept(s, sample))
                write_sample(s, sample, f.bytes, has);
            sample++;
        } else if (f.number != 1 && f.number != 5 && f.number != PROFILE_ATTRIBUTES && (whole || !payload)) {
            wire_put_raw(&s->w, bytes_of(f.from, (size_t)(in.p - f.from)));
        }
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
    for (uint32_t i = 0; i < p->profile.n; i++) {
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

/* The longest list any owner has: attr_index is one pool with bounds per owner, so all of it is an upper
 * limit. */
static int subset_init(struct subset *s, struct arena *scratch)
{
    const struct profiles *p = s->p;
    int r = renumber_init(&s->string, p->string.n, scratch);
    if (r == 0)
        r = renumber_init(&s->mapping, p->mapping.n, scratch);
    if (r == 0)
        r = renumber_init(&s->location, p->location.n, scratch);
    if (r == 0)
        r = renumber_init(&s->function, p->function.n, scratch);
    if (r == 0)
        r = renumber_init(&s->link, p->link.n, scratch);
    if (r == 0)
        r = renumber_init(&s->attribute, p->attribute.n, scratch);
    if (r == 0)
        r = renumber_init(&s->stack, p->stack.n, scratch);
    if (r < 0)
        return r;
    s->attrs = arena_alloc(scratch, ((size_t)p->attr_index.n + 1) * sizeof *s->attrs);
    return s->attrs ? 0 : -ENOMEM;
}

int profiles_subset(const struct profiles *p, const uint64_t *keep, const struct subset_mark *mark,
                    struct arena *scratch, struct buffer *out)
{
    struct subset s = {.p = p, .keep = keep, .mark = mark, .w = wire_writer(out)};
    size_t was = out->n;
    int r = subset_init(&s, scratch);
    if (r < 0)
        return r;
    reach_from_samples(&s);
    reach_from_stacks(&s);
    number_all(&s);
    write_tree(&s);
    write_dictionary(&s);
    if (s.w.failed < 0)
        out->n = was;
    return s.w.failed;
}
