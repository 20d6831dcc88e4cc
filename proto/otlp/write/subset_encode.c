/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/base/macros.h"
#include "proto/otlp/view/value.h"
#include "proto/otlp/write/subset_parts.h"
#include "proto/wire/reader.h"

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

/* The location's own bytes, where there may be something that we do not know. */
static struct wire_reader raw_location(const struct subset *s, uint32_t i)
{
    const struct subset_raw *raw = &s->raw_entry[DICTIONARY_LOCATION_TABLE];
    return wire_reader(i < raw->n ? raw->at[i] : bytes_of(NULL, 0));
}

static struct bytes next_line(struct wire_reader *location)
{
    struct wire_field f;
    while (wire_next(location, &f) == 0)
        if (f.number == LOCATION_LINES)
            return f.bytes;
    return bytes_of(NULL, 0);
}

static void write_mappings_and_locations(struct subset *s)
{
    const struct profiles *p = s->p;
    struct wire_writer *w = &s->w;
    for (EACH_REACHED(i, &s->mapping)) {
        size_t mark = wire_begin(w, DICTIONARY_MAPPING_TABLE);
        wire_put_uint_nonzero(w, MAPPING_MEMORY_START, p->mapping.memory_start[i]);
        wire_put_uint_nonzero(w, MAPPING_MEMORY_LIMIT, p->mapping.memory_limit[i]);
        wire_put_uint_nonzero(w, MAPPING_FILE_OFFSET, p->mapping.file_offset[i]);
        wire_put_uint_nonzero(w, MAPPING_FILENAME_STRINDEX, s->string.to[p->mapping.filename[i]]);
        write_attrs(s, MAPPING_ATTRIBUTE_INDICES, p->mapping.attrs_at[i], p->mapping.attrs_at[i + 1], false);
        subset_put_unknown_of(s, &s->raw_entry[DICTIONARY_MAPPING_TABLE], i, MAPPING_HIGHEST);
        wire_end(w, mark);
    }
    for (EACH_REACHED(i, &s->location)) {
        size_t mark = wire_begin(w, DICTIONARY_LOCATION_TABLE);
        wire_put_uint_nonzero(w, LOCATION_MAPPING_INDEX, s->mapping.to[p->location.mapping[i]]);
        wire_put_uint_nonzero(w, LOCATION_ADDRESS, p->location.address[i]);
        struct wire_reader raw = raw_location(s, i);
        for (uint32_t k = p->location.lines_at[i]; k < p->location.lines_at[i + 1]; k++) {
            size_t line = wire_begin(w, LOCATION_LINES);
            wire_put_uint_nonzero(w, LINE_FUNCTION_INDEX,
                                  s->function.to[p->line.function[k]] << s->form->functions_twice);
            wire_put_int_nonzero(w, LINE_LINE, p->line.line[k]);
            wire_put_int_nonzero(w, LINE_COLUMN, p->line.column[k]);
            subset_put_unknown(s, next_line(&raw), LINE_HIGHEST);
            wire_end(w, line);
        }
        write_attrs(s, LOCATION_ATTRIBUTE_INDICES, p->location.attrs_at[i], p->location.attrs_at[i + 1],
                    false);
        subset_put_unknown_of(s, &s->raw_entry[DICTIONARY_LOCATION_TABLE], i, LOCATION_HIGHEST);
        wire_end(w, mark);
    }
}

/* profiles.proto, Link: an id that is not set SHOULD be written as zero bytes rather than left out. Entry 0,
 * which says that there is no link, is empty all the same: Parca refuses requests where it is not. */
static void write_links(struct subset *s)
{
    static const uint8_t zero[16];
    for (EACH_REACHED(i, &s->link)) {
        if (i == 0) {
            wire_put_bytes(&s->w, DICTIONARY_LINK_TABLE, BYTES_LIT(""));
            continue;
        }
        size_t mark = wire_begin(&s->w, DICTIONARY_LINK_TABLE);
        uint64_t trace = s->p->link.trace_at[i], span = s->p->link.span_at[i];
        wire_put_bytes(&s->w, LINK_TRACE_ID, bytes_of(trace ? s->p->body.p + trace : zero, 16));
        wire_put_bytes(&s->w, LINK_SPAN_ID, bytes_of(span ? s->p->body.p + span : zero, 8));
        subset_put_unknown_of(s, &s->raw_entry[DICTIONARY_LINK_TABLE], i, LINK_HIGHEST);
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

/* `own`: its number in the view; UINT32_MAX: it was not there. */
static void write_attribute(struct subset *s, uint32_t own, uint32_t key, const struct attr_value *value,
                            uint32_t unit)
{
    size_t mark = wire_begin(&s->w, DICTIONARY_ATTRIBUTE_TABLE);
    wire_put_uint_nonzero(&s->w, KEY_VALUE_AND_UNIT_KEY_STRINDEX, key);
    value_write(&s->w, s->p, KEY_VALUE_AND_UNIT_VALUE, value);
    wire_put_uint_nonzero(&s->w, KEY_VALUE_AND_UNIT_UNIT_STRINDEX, unit);
    subset_put_unknown_of(s, &s->raw_entry[DICTIONARY_ATTRIBUTE_TABLE], own, KEY_VALUE_AND_UNIT_HIGHEST);
    wire_end(&s->w, mark);
}

static void write_attributes(struct subset *s)
{
    const struct profiles *p = s->p;
    for (EACH_REACHED(i, &s->attribute)) {
        char room[24];
        const struct bytes key = profiles_string(p, p->attribute.key[i]);
        const struct attr_value value = is_mark(s, i) ? mark_value(s, &p->attribute.value[i])
                                                      : subset_value(s, key, &p->attribute.value[i], room);
        write_attribute(s, i, s->string.to[p->attribute.key[i]], &value, s->string.to[p->attribute.unit[i]]);
    }
    if (s->mark) {
        struct attr_value value = mark_value(s, NULL);
        write_attribute(s, UINT32_MAX, s->mark_key, &value, 0);
    }
}

static void write_stacks(struct subset *s)
{
    const struct profiles *p = s->p;
    for (EACH_REACHED(i, &s->stack)) {
        size_t mark = wire_begin(&s->w, DICTIONARY_STACK_TABLE);
        uint32_t from = p->stack.locations_at[i],
                 to = subset_stack_end(s, from, p->stack.locations_at[i + 1]);
        size_t list = from < to ? wire_begin(&s->w, STACK_LOCATION_INDICES) : 0;
        for (uint32_t k = from; k < to; k++)
            if (!subset_is_blank(s, p->stack_location.location[k]))
                wire_put_varint(&s->w, s->location.to[p->stack_location.location[k]]);
        if (from < to)
            wire_end(&s->w, list);
        subset_put_unknown_of(s, &s->raw_entry[DICTIONARY_STACK_TABLE], i, STACK_HIGHEST);
        wire_end(&s->w, mark);
    }
}

static void write_function(struct subset *s, uint32_t i)
{
    const struct profiles *p = s->p;
    size_t function = wire_begin(&s->w, DICTIONARY_FUNCTION_TABLE);
    wire_put_uint_nonzero(&s->w, FUNCTION_NAME_STRINDEX, s->string.to[p->function.name[i]]);
    wire_put_uint_nonzero(&s->w, FUNCTION_SYSTEM_NAME_STRINDEX, s->string.to[p->function.system_name[i]]);
    wire_put_uint_nonzero(&s->w, FUNCTION_FILENAME_STRINDEX, s->string.to[p->function.filename[i]]);
    wire_put_int_nonzero(&s->w, FUNCTION_START_LINE, p->function.start_line[i]);
    subset_put_unknown_of(s, &s->raw_entry[DICTIONARY_FUNCTION_TABLE], i, FUNCTION_HIGHEST);
    wire_end(&s->w, function);
}

static void write_dictionary(struct subset *s)
{
    size_t mark = wire_begin(&s->w, REQUEST_DICTIONARY);
    write_mappings_and_locations(s);
    for (EACH_REACHED(i, &s->function))
        for (uint32_t times = s->form->functions_twice && i > 0 ? 2 : 1; times > 0; times--)
            write_function(s, i);
    write_links(s);
    for (EACH_REACHED(i, &s->string))
        subset_put_string(s, i);
    if (s->mark && s->mark_key == s->string.n_new)
        wire_put_bytes(&s->w, DICTIONARY_STRING_TABLE, s->mark->key);
    write_attributes(s);
    write_stacks(s);
    subset_put_unknown_in(s, s->p->body, REQUEST_DICTIONARY, DICTIONARY_HIGHEST);
    wire_end(&s->w, mark);
}

/* --- The tree */

/* Values and timestamps are not in the columns: they are copied from the sample's own bytes. */
static void write_observations(struct subset *s, uint32_t profile, uint32_t i, struct bytes message)
{
    struct wire_reader in = wire_reader(message);
    struct wire_field f;
    if (s->mark && s->mark->values) {
        wire_put_packed64(&s->w, SAMPLE_VALUES, &s->mark->values[i], 1);
        return;
    }
    if (subset_put_worth(s, profile, i, message))
        return;
    while (wire_next(&in, &f) == 0)
        if (f.number == SAMPLE_VALUES || f.number == SAMPLE_TIMESTAMPS_UNIX_NANO)
            wire_put_raw(&s->w, bytes_of(f.from, (size_t)(in.p - f.from)));
}

static void write_sample(struct subset *s, uint32_t profile, uint32_t i, struct bytes message,
                         bool profile_marked)
{
    const struct profiles *p = s->p;
    uint32_t from = p->sample.attrs_at[i], to = p->sample.attrs_at[i + 1];
    size_t mark = wire_begin(&s->w, PROFILE_SAMPLES);
    bool marked = s->mark && !s->mark->on_profiles && !profile_marked && !has_mark(s, from, to);
    wire_put_uint_nonzero(&s->w, SAMPLE_STACK_INDEX, s->stack.to[p->sample.stack[i]]);
    write_attrs(s, SAMPLE_ATTRIBUTE_INDICES, from, to, marked);
    wire_put_uint_nonzero(&s->w, SAMPLE_LINK_INDEX, s->link.to[p->sample.link[i]]);
    write_observations(s, profile, i, message);
    if (p->unknown_fields > 0)
        subset_put_unknown(s, message, SAMPLE_HIGHEST);
    wire_end(&s->w, mark);
}

/* Also an empty one, which says the same as none: backends read what it says without asking whether it is
 * there. */
static void write_value_type(struct subset *s, uint32_t profile, uint32_t field, uint32_t type, uint32_t unit)
{
    size_t mark = wire_begin(&s->w, field);
    wire_put_uint_nonzero(&s->w, VALUE_TYPE_TYPE_STRINDEX, s->string.to[type]);
    wire_put_uint_nonzero(&s->w, VALUE_TYPE_UNIT_STRINDEX, s->string.to[unit]);
    subset_put_unknown_in(s, s->p->profile.raw[profile], field, VALUE_TYPE_HIGHEST);
    wire_end(&s->w, mark);
}

/* Of the kept samples from *at on as many as a profile may have. */
static void write_profile(struct subset *s, uint32_t i, bool whole, uint32_t *at)
{
    const struct profiles *p = s->p;
    uint32_t from = p->profile.attrs_at[i], to = p->profile.attrs_at[i + 1];
    bool has = has_mark(s, from, to);
    size_t mark = wire_begin(&s->w, SCOPE_PROFILES_PROFILES);
    write_value_type(s, i, PROFILE_SAMPLE_TYPE, p->profile.type[i], p->profile.unit[i]);
    const uint32_t end = min_of(p->profile.samples_at[i + 1], s->to);
    uint32_t room = s->form->samples_max ? s->form->samples_max : UINT32_MAX;
    for (; *at < end && room > 0; ++*at)
        if (subset_keeps(s, *at)) {
            write_sample(s, i, *at, s->samples[*at], has);
            room--;
        }
    while (*at < end && !subset_keeps(s, *at))
        ++*at;
    for (uint32_t k = s->own_at[i]; k < s->own_at[i + 1]; k++) {
        struct wire_reader in = wire_reader(bytes_of(s->own[k].p, s->own[k].n));
        struct wire_field f;
        /* A stretch is of payload or it is not. */
        if (whole || wire_next(&in, &f) != 0 || !subset_is_payload(f.number))
            wire_put_raw(&s->w, bytes_of(s->own[k].p, s->own[k].n));
    }
    write_value_type(s, i, PROFILE_PERIOD_TYPE, p->profile.period_type[i], p->profile.period_unit[i]);
    write_attrs(s, PROFILE_ATTRIBUTE_INDICES, from, to, s->mark && s->mark->on_profiles && !has);
    wire_end(&s->w, mark);
}

static void write_profiles(struct subset *s, uint32_t i, bool whole)
{
    uint32_t at = max_of(s->p->profile.samples_at[i], s->from);
    const uint32_t end = min_of(s->p->profile.samples_at[i + 1], s->to);
    while (at < end)
        write_profile(s, i, whole && end - at <= (s->form->samples_max ? s->form->samples_max : UINT32_MAX),
                      &at);
}

/* A Resource or InstrumentationScope: its own bytes, unless they refer to the string table; also an empty
 * one, as write_value_type. */
static void write_owner(struct subset *s, uint32_t field, struct bytes message, enum value_shape shape)
{
    if (!value_has_reference(message, shape)) {
        wire_put_bytes(&s->w, field, message);
        return;
    }
    size_t mark = wire_begin(&s->w, field);
    value_write_inline(&s->w, s->p, message, shape);
    wire_end(&s->w, mark);
}

static void write_resource(struct subset *s, uint32_t resource)
{
    struct buffer *out = s->w.out;
    const size_t was = out->n, mark = wire_begin(&s->w, RESOURCE_PROFILES_RESOURCE);
    if (subset_put_resource(s, resource)) {
        wire_end(&s->w, mark);
        return;
    }
    out->n = was;
    write_owner(s, RESOURCE_PROFILES_RESOURCE, s->p->resource.raw[resource], SHAPE_RESOURCE);
}

/* A name that is given comes last, and so is the one that counts (protobuf: "last one wins"). */
static void write_scope(struct subset *s, uint32_t scope)
{
    const struct bytes raw = profiles_scope_raw(s->p, scope);
    if (!s->form->scope_name) {
        write_owner(s, SCOPE_PROFILES_SCOPE, raw, SHAPE_SCOPE);
        return;
    }
    size_t mark = wire_begin(&s->w, SCOPE_PROFILES_SCOPE);
    value_write_inline(&s->w, s->p, raw, SHAPE_SCOPE);
    wire_put_bytes(&s->w, SCOPE_NAME, bytes_str(s->form->scope_name));
    wire_end(&s->w, mark);
}

static void write_tree(struct subset *s)
{
    const struct profiles *p = s->p;
    uint32_t resource = UINT32_MAX, scope = UINT32_MAX; /* what is open */
    size_t resource_mark = 0, scope_mark = 0;
    for (uint32_t i = s->first; i < s->end; i++) {
        bool whole;
        if (!subset_keeps_profile(s, i, &whole))
            continue;
        uint32_t to_scope = p->profile.scope[i], to_resource = p->scope.resource[to_scope];
        if (scope != UINT32_MAX && scope != to_scope)
            wire_end(&s->w, scope_mark);
        if (resource != UINT32_MAX && resource != to_resource)
            wire_end(&s->w, resource_mark);
        if (resource != to_resource) {
            resource = to_resource;
            resource_mark = wire_begin(&s->w, REQUEST_RESOURCE_PROFILES);
            write_resource(s, resource);
            wire_put_bytes_nonempty(&s->w, RESOURCE_PROFILES_SCHEMA_URL, p->resource.schema_url[resource]);
            subset_put_unknown_of(s, &s->raw_resource, resource, RESOURCE_PROFILES_HIGHEST);
        }
        if (scope != to_scope) {
            scope = to_scope;
            scope_mark = wire_begin(&s->w, RESOURCE_PROFILES_SCOPE_PROFILES);
            write_scope(s, scope);
            wire_put_bytes_nonempty(&s->w, SCOPE_PROFILES_SCHEMA_URL, p->scope.schema_url[scope]);
            subset_put_unknown_of(s, &s->raw_scope, scope, SCOPE_PROFILES_HIGHEST);
        }
        write_profiles(s, i, whole);
    }
    if (scope != UINT32_MAX) {
        wire_end(&s->w, scope_mark);
        wire_end(&s->w, resource_mark);
    }
}

void subset_encode(struct subset *s)
{
    write_tree(s);
    write_dictionary(s);
    if (s->p->unknown_fields > 0)
        subset_put_unknown(s, s->p->body, REQUEST_HIGHEST);
}
