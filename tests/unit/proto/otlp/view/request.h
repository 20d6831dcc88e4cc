/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For tests of profiles: what a request *means*, as text, from our view and from protobuf-c's objects. Two
 * requests mean the same if the texts are equal, however their tables are ordered and numbered.
 */
#ifndef TESTS_UNIT_PROTO_OTLP_VIEW_REQUEST_H
#define TESTS_UNIT_PROTO_OTLP_VIEW_REQUEST_H

#include <check.h>
#include <inttypes.h>
#include <stdlib.h>

#include "proto/base/buffer.h"
#include "proto/base/macros.h"
#include "proto/otlp/view/profiles.h"
#include "proto/schema/profiles_service.pb-c.h"

typedef Opentelemetry__Proto__Collector__Profiles__V1development__ExportProfilesServiceRequest Request;
typedef Opentelemetry__Proto__Profiles__V1development__ProfilesDictionary Dictionary;
typedef Opentelemetry__Proto__Profiles__V1development__ResourceProfiles ResourceProfiles;
typedef Opentelemetry__Proto__Profiles__V1development__ScopeProfiles ScopeProfiles;
typedef Opentelemetry__Proto__Profiles__V1development__Profile Profile;
typedef Opentelemetry__Proto__Profiles__V1development__Sample Sample;
typedef Opentelemetry__Proto__Profiles__V1development__Location Location;
typedef Opentelemetry__Proto__Profiles__V1development__Mapping Mapping;
typedef Opentelemetry__Proto__Profiles__V1development__Function Function;
typedef Opentelemetry__Proto__Profiles__V1development__KeyValueAndUnit KeyValueAndUnit;
typedef Opentelemetry__Proto__Common__V1__KeyValue KeyValue;
typedef Opentelemetry__Proto__Common__V1__AnyValue AnyValue;

#define request_unpack(p, n)                                                                                \
    opentelemetry__proto__collector__profiles__v1development__export_profiles_service_request__unpack(NULL, \
                                                                                                      n, p)
#define request_free(r)                                                                                       \
    opentelemetry__proto__collector__profiles__v1development__export_profiles_service_request__free_unpacked( \
        r, NULL)

static inline void hex(struct buffer *out, const void *p, size_t n)
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < n; i++) {
        uint8_t byte = ((const uint8_t *)p)[i];
        buffer_add(out, (const char[]){digits[byte >> 4], digits[byte & 15]}, 2);
    }
}

static inline void text(struct buffer *out, const void *p, size_t n)
{
    buffer_add_str(out, "'");
    for (const char *at = p, *end = n ? at + n : at, *feed; at < end; at = feed) {
        feed = memchr(at, '\n', (size_t)(end - at));
        feed = feed ? feed : end;
        buffer_add(out, at, (size_t)(feed - at));
        if (feed < end) { /* a line of the text is one thing: names may have line feeds */
            buffer_add_str(out, "|");
            feed++;
        }
    }
    buffer_add_str(out, "' ");
}

/* --- from our view */

static inline void view_value(struct buffer *out, const struct attr_value *v)
{
    buffer_printf(out, "%d:", (int)v->kind);
    switch (v->kind) {
    case ATTR_EMPTY: break;
    case ATTR_BOOL: buffer_printf(out, "%d", v->boolean); break;
    case ATTR_INT: buffer_printf(out, "%" PRId64, v->integer); break;
    case ATTR_DOUBLE: buffer_printf(out, "%.17g", v->real); break;
    default: hex(out, v->text.p, v->text.n);
    }
    buffer_add_str(out, " ");
}

static inline void view_string(struct buffer *out, const struct profiles *p, uint32_t i)
{
    struct bytes s = profiles_string(p, i);
    text(out, s.p, s.n);
}

static inline void view_attrs(struct buffer *out, const struct profiles *p, uint32_t from, uint32_t to)
{
    buffer_add_str(out, "[");
    for (; from < to; from++) {
        uint32_t a = p->attr_index.attribute[from];
        view_string(out, p, p->attribute.key[a]);
        view_value(out, &p->attribute.value[a]);
        view_string(out, p, p->attribute.unit[a]);
    }
    buffer_add_str(out, "] ");
}

static inline void view_key_values(struct buffer *out, const struct profiles *p, uint32_t from, uint32_t to)
{
    buffer_add_str(out, "{");
    for (; from < to; from++) {
        const struct attr *a = &p->key_value.attr[from];
        text(out, a->key.p, a->key.n);
        view_value(out, &a->value);
    }
    buffer_add_str(out, "} ");
}

static inline void view_location(struct buffer *out, const struct profiles *p, uint32_t i)
{
    uint32_t m = p->location.mapping[i];
    buffer_printf(out, "    @%" PRIx64 " map %" PRIx64 "-%" PRIx64 "+%" PRIx64 " ", p->location.address[i],
                  p->mapping.memory_start[m], p->mapping.memory_limit[m], p->mapping.file_offset[m]);
    view_string(out, p, p->mapping.filename[m]);
    view_attrs(out, p, p->mapping.attrs_at[m], p->mapping.attrs_at[m + 1]);
    view_attrs(out, p, p->location.attrs_at[i], p->location.attrs_at[i + 1]);
    for (uint32_t k = p->location.lines_at[i]; k < p->location.lines_at[i + 1]; k++) {
        uint32_t f = p->line.function[k];
        buffer_printf(out, "%" PRId64 ":%" PRId64 " %" PRId64 " ", p->line.line[k], p->line.column[k],
                      p->function.start_line[f]);
        view_string(out, p, p->function.name[f]);
        view_string(out, p, p->function.system_name[f]);
        view_string(out, p, p->function.filename[f]);
    }
    buffer_add_str(out, "\n");
}

static inline void view_sample(struct buffer *out, const struct profiles *p, uint32_t i)
{
    static const uint8_t zero[16];
    uint32_t stack = p->sample.stack[i], link = p->sample.link[i];
    if (stack == PROFILES_REJECTED) {
        buffer_add_str(out, "  rejected\n");
        return;
    }
    buffer_printf(out, "  sample %" PRIu32 " %" PRIu32 " %" PRId64 " ", p->sample.n_values[i],
                  p->sample.n_timestamps[i], p->sample.value_sum[i]);
    hex(out, p->link.trace_at[link] ? p->body.p + p->link.trace_at[link] : zero, 16);
    hex(out, p->link.span_at[link] ? p->body.p + p->link.span_at[link] : zero, 8);
    view_attrs(out, p, p->sample.attrs_at[i], p->sample.attrs_at[i + 1]);
    buffer_add_str(out, "\n");
    for (uint32_t k = p->stack.locations_at[stack]; k < p->stack.locations_at[stack + 1]; k++)
        view_location(out, p, p->stack_location.location[k]);
}

static inline void view_text(struct buffer *out, const struct profiles *p)
{
    for (uint32_t i = 0; i < p->profile.n; i++) {
        uint32_t s = p->profile.scope[i], r = p->scope.resource[s];
        buffer_add_str(out, "profile ");
        view_key_values(out, p, p->resource.attrs_at[r], p->resource.attrs_at[r + 1]);
        text(out, p->resource.schema_url[r].p, p->resource.schema_url[r].n);
        text(out, p->scope.name[s].p, p->scope.name[s].n);
        text(out, p->scope.version[s].p, p->scope.version[s].n);
        view_key_values(out, p, p->scope.attrs_at[s], p->scope.attrs_at[s + 1]);
        text(out, p->scope.schema_url[s].p, p->scope.schema_url[s].n);
        view_string(out, p, p->profile.type[i]);
        view_string(out, p, p->profile.unit[i]);
        view_string(out, p, p->profile.period_type[i]);
        view_string(out, p, p->profile.period_unit[i]);
        buffer_printf(out, "%" PRId64 " %" PRIu64 " %" PRIu64 " ", p->profile.period[i],
                      p->profile.time_unix_nano[i], p->profile.duration_nano[i]);
        hex(out, p->profile.profile_id[i].p, p->profile.profile_id[i].n);
        view_attrs(out, p, p->profile.attrs_at[i], p->profile.attrs_at[i + 1]);
        buffer_add_str(out, "\n");
        for (uint32_t k = p->profile.samples_at[i]; k < p->profile.samples_at[i + 1]; k++)
            view_sample(out, p, k);
    }
    ck_assert_int_eq(buffer_add(out, "", 1), 0);
}

/* --- from protobuf-c's objects; `exact` adds each value and timestamp, which the view does not have */

static inline void message_value(struct buffer *out, const AnyValue *v)
{
    static const int kind[] = {ATTR_EMPTY, ATTR_STRING, ATTR_BOOL,  ATTR_INT,   ATTR_DOUBLE,
                               ATTR_ARRAY, ATTR_KVLIST, ATTR_BYTES, ATTR_STRING};
    uint8_t packed[4096];
    size_t n;
    buffer_printf(out, "%d:", v ? kind[v->value_case] : ATTR_EMPTY);
    switch (v ? (int)v->value_case : 0) {
    case 1: hex(out, v->string_value, strlen(v->string_value)); break;
    case 2: buffer_printf(out, "%d", v->bool_value); break;
    case 3: buffer_printf(out, "%" PRId64, v->int_value); break;
    case 4: buffer_printf(out, "%.17g", v->double_value); break;
    case 5:
    case 6:
        ck_assert_uint_le(protobuf_c_message_get_packed_size(&v->array_value->base), sizeof packed);
        n = protobuf_c_message_pack(&v->array_value->base, packed);
        hex(out, packed, n);
        break;
    case 7: hex(out, v->bytes_value.data, v->bytes_value.len); break;
    default: break;
    }
    buffer_add_str(out, " ");
}

static inline void message_string(struct buffer *out, const Dictionary *d, int32_t i)
{
    const char *s = d && d->n_string_table > 0 ? d->string_table[i] : "";
    text(out, s, strlen(s));
}

static inline void message_attrs(struct buffer *out, const Dictionary *d, const int32_t *index, size_t n)
{
    buffer_add_str(out, "[");
    for (size_t i = 0; i < n; i++) {
        const KeyValueAndUnit *a = d->attribute_table[index[i]];
        message_string(out, d, a->key_strindex);
        message_value(out, a->value);
        message_string(out, d, a->unit_strindex);
    }
    buffer_add_str(out, "] ");
}

static inline void message_key_values(struct buffer *out, KeyValue *const *kv, size_t n)
{
    buffer_add_str(out, "{");
    for (size_t i = 0; i < n; i++) {
        text(out, kv[i]->key, strlen(kv[i]->key));
        message_value(out, kv[i]->value);
    }
    buffer_add_str(out, "} ");
}

static inline void message_location(struct buffer *out, const Dictionary *d, const Location *l)
{
    const Mapping *m = d->mapping_table[l->mapping_index];
    buffer_printf(out, "    @%" PRIx64 " map %" PRIx64 "-%" PRIx64 "+%" PRIx64 " ", l->address,
                  m->memory_start, m->memory_limit, m->file_offset);
    message_string(out, d, m->filename_strindex);
    message_attrs(out, d, m->attribute_indices, m->n_attribute_indices);
    message_attrs(out, d, l->attribute_indices, l->n_attribute_indices);
    for (size_t i = 0; i < l->n_lines; i++) {
        const Function *f = d->function_table[l->lines[i]->function_index];
        buffer_printf(out, "%" PRId64 ":%" PRId64 " %" PRId64 " ", l->lines[i]->line, l->lines[i]->column,
                      f->start_line);
        message_string(out, d, f->name_strindex);
        message_string(out, d, f->system_name_strindex);
        message_string(out, d, f->filename_strindex);
    }
    buffer_add_str(out, "\n");
}

static inline void message_sample(struct buffer *out, const Dictionary *d, const Sample *s, bool exact)
{
    static const uint8_t zero[16];
    const Opentelemetry__Proto__Profiles__V1development__Link *link =
        d->n_link_table > 0 ? d->link_table[s->link_index] : NULL;
    int64_t sum = 0;
    for (size_t i = 0; i < s->n_values; i++)
        sum += s->values[i];
    buffer_printf(out, "  sample %zu %zu %" PRId64 " ", s->n_values, s->n_timestamps_unix_nano, sum);
    hex(out, link && link->trace_id.len == 16 ? link->trace_id.data : zero, 16);
    hex(out, link && link->span_id.len == 8 ? link->span_id.data : zero, 8);
    message_attrs(out, d, s->attribute_indices, s->n_attribute_indices);
    for (size_t i = 0; exact && i < s->n_values; i++)
        buffer_printf(out, "v%" PRId64 " ", s->values[i]);
    for (size_t i = 0; exact && i < s->n_timestamps_unix_nano; i++)
        buffer_printf(out, "t%" PRIu64 " ", s->timestamps_unix_nano[i]);
    buffer_add_str(out, "\n");
    const Opentelemetry__Proto__Profiles__V1development__Stack *stack =
        d->n_stack_table > 0 ? d->stack_table[s->stack_index] : NULL;
    for (size_t i = 0; stack && i < stack->n_location_indices; i++)
        message_location(out, d, d->location_table[stack->location_indices[i]]);
}

static inline void message_profile(struct buffer *out, const Request *q, const ResourceProfiles *r,
                                   const ScopeProfiles *s, const Profile *p, bool exact)
{
    const Dictionary *d = q->dictionary;
    buffer_add_str(out, "profile ");
    message_key_values(out, r->resource ? r->resource->attributes : NULL,
                       r->resource ? r->resource->n_attributes : 0);
    text(out, r->schema_url, strlen(r->schema_url));
    text(out, s->scope ? s->scope->name : "", s->scope ? strlen(s->scope->name) : 0);
    text(out, s->scope ? s->scope->version : "", s->scope ? strlen(s->scope->version) : 0);
    message_key_values(out, s->scope ? s->scope->attributes : NULL, s->scope ? s->scope->n_attributes : 0);
    text(out, s->schema_url, strlen(s->schema_url));
    message_string(out, d, p->sample_type ? p->sample_type->type_strindex : 0);
    message_string(out, d, p->sample_type ? p->sample_type->unit_strindex : 0);
    message_string(out, d, p->period_type ? p->period_type->type_strindex : 0);
    message_string(out, d, p->period_type ? p->period_type->unit_strindex : 0);
    buffer_printf(out, "%" PRId64 " %" PRIu64 " %" PRIu64 " ", p->period, p->time_unix_nano,
                  p->duration_nano);
    hex(out, p->profile_id.data, p->profile_id.len);
    message_attrs(out, d, p->attribute_indices, p->n_attribute_indices);
    buffer_add_str(out, "\n");
    for (size_t i = 0; i < p->n_samples; i++)
        message_sample(out, d, p->samples[i], exact);
}

static inline void message_text(struct buffer *out, const Request *q, bool exact)
{
    for (size_t i = 0; i < q->n_resource_profiles; i++)
        for (size_t j = 0; j < q->resource_profiles[i]->n_scope_profiles; j++) {
            const ScopeProfiles *s = q->resource_profiles[i]->scope_profiles[j];
            for (size_t k = 0; k < s->n_profiles; k++)
                message_profile(out, q, q->resource_profiles[i], s, s->profiles[k], exact);
        }
    ck_assert_int_eq(buffer_add(out, "", 1), 0);
}

/* --- both ways from bytes */

/* A padded heap copy: what profiles_decode asks for. */
static inline uint8_t *padded(const void *p, size_t n)
{
    uint8_t *copy = unit_made(calloc(1, n + PROFILES_PADDING));
    if (n > 0)
        memcpy(copy, p, n);
    return copy;
}

static inline char *bytes_meaning(const void *p, size_t n, bool exact)
{
    struct buffer out = BUFFER_INIT(0);
    size_t len;
    Request *q = unit_made(request_unpack((const uint8_t *)p, n));
    message_text(&out, q, exact);
    request_free(q);
    return (char *)buffer_take(&out, &len);
}

/* ck_assert_str_eq cannot print such long texts: shows where they part. */
static inline void same_meaning(const char *what, const char *have, const char *want)
{
    size_t i = 0;
    if (strcmp(have, want) == 0)
        return;
    while (have[i] && have[i] == want[i])
        i++;
    size_t from = i < 60 ? 0 : i - 60;
    ck_assert_msg(have[i] == want[i], "%s differs at %zu: \"%.120s\" instead of \"%.120s\"", what, i,
                  have + from, want + from);
}

static inline char *view_meaning(const struct profiles *p)
{
    struct buffer out = BUFFER_INIT(0);
    size_t len;
    view_text(&out, p);
    return (char *)buffer_take(&out, &len);
}

#endif
