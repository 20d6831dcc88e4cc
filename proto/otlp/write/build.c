/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/otlp/write/build.h"

#include <errno.h>
#include <stdlib.h>

#include "proto/base/intern.h"
#include "proto/base/macros.h"
#include "proto/otlp/view/value.h"
#include "proto/wire/writer.h"

/* The tables in the order of their field numbers in ProfilesDictionary. An entry is its encoded message, so
 * "the same content" is "the same bytes", and the table is the list of them in order of arrival. */
enum { MAPPING, LOCATION, FUNCTION, LINK, STRING, ATTRIBUTE, STACK, TABLES };

/* What is open in the tree, from the outside in. */
enum { NOTHING, RESOURCE, SCOPE, PROFILE, LEVELS };

/* Bytes of a buffer that build_begin keeps; a request is usually a tenth of it. */
#define KEEP_MAX (1u << 20)

/* Bytes of tags and lengths around an entry or an open level, at most. */
#define FRAME_MAX 16u

struct build {
    struct intern table[TABLES];
    struct buffer entry; /* an entry being encoded */
    struct buffer tree;  /* resource_profiles, encoded */
    struct wire_writer w;
    size_t mark[LEVELS];
    int open;
    size_t entries; /* bytes of all tables' entries */
    uint32_t n_samples;
    int failed;
};

/* --- Life */

static uint32_t add(struct build *b, int table, struct bytes entry)
{
    if (b->failed < 0)
        return 0;
    uint32_t n = b->table[table].n, i = intern_add(&b->table[table], entry);
    if (i == INTERN_NONE) {
        b->failed = -ENOMEM;
        return 0;
    }
    if (i == n)
        b->entries += entry.n + FRAME_MAX;
    return i;
}

/* profiles.proto: an unset link SHOULD be zero bytes of the right length. */
static const uint8_t no_trace[16], no_span[8];

void build_begin(struct build *b)
{
    for (int i = 0; i < TABLES; i++)
        intern_clear(&b->table[i]);
    buffer_clear(&b->tree, KEEP_MAX);
    buffer_clear(&b->entry, KEEP_MAX);
    b->w = wire_writer(&b->tree);
    b->open = NOTHING;
    b->entries = 0;
    b->n_samples = 0;
    b->failed = 0;
    for (int i = 0; i < TABLES; i++)
        if (i != LINK)
            add(b, i, BYTES_LIT("")); /* the zero message has no fields */
    build_link(b, no_trace, no_span);
}

struct build *build_new(struct budget *budget)
{
    struct build *b = calloc(1, sizeof *b);
    if (!b)
        return NULL;
    for (int i = 0; i < TABLES; i++)
        b->table[i] = (struct intern)INTERN_INIT(budget);
    build_begin(b);
    return b->failed < 0 ? build_free(b) : b;
}

struct build *build_free(struct build *b)
{
    if (!b)
        return NULL;
    for (int i = 0; i < TABLES; i++)
        intern_release(&b->table[i]);
    buffer_release(&b->entry);
    buffer_release(&b->tree);
    free(b);
    return NULL;
}

size_t build_size(const struct build *b)
{
    return b->tree.n + b->entries + (LEVELS + 1) * FRAME_MAX;
}

uint32_t build_samples(const struct build *b)
{
    return b->n_samples;
}

/* --- The dictionary */

static struct wire_writer entry_writer(struct build *b)
{
    b->entry.n = 0;
    struct wire_writer w = wire_writer(&b->entry);
    w.failed = b->failed;
    return w;
}

static uint32_t entry_add(struct build *b, int table, const struct wire_writer *w)
{
    if (w->failed < 0 && b->failed == 0)
        b->failed = w->failed;
    return add(b, table, buffer_bytes(&b->entry));
}

uint32_t build_string(struct build *b, struct bytes s)
{
    return add(b, STRING, s);
}

uint32_t build_attribute(struct build *b, struct bytes key, const struct attr_value *value, uint32_t unit)
{
    uint32_t key_index = build_string(b, key);
    struct wire_writer w = entry_writer(b);
    wire_put_uint_nonzero(&w, 1, key_index);
    if (value->kind != ATTR_EMPTY) {
        size_t mark = wire_begin(&w, 2);
        value_write(&w, NULL, value);
        wire_end(&w, mark);
    }
    wire_put_uint_nonzero(&w, 3, unit);
    return entry_add(b, ATTRIBUTE, &w);
}

uint32_t build_attribute_text(struct build *b, const char *key, struct bytes value)
{
    return build_attribute(b, bytes_str(key), &(struct attr_value){.kind = ATTR_STRING, .text = value}, 0);
}

uint32_t build_attribute_int(struct build *b, const char *key, int64_t value)
{
    return build_attribute(b, bytes_str(key), &(struct attr_value){.kind = ATTR_INT, .integer = value}, 0);
}

uint32_t build_mapping(struct build *b, const struct build_mapping *m)
{
    struct wire_writer w = entry_writer(b);
    wire_put_uint_nonzero(&w, 1, m->memory_start);
    wire_put_uint_nonzero(&w, 2, m->memory_limit);
    wire_put_uint_nonzero(&w, 3, m->file_offset);
    wire_put_uint_nonzero(&w, 4, m->filename);
    wire_put_packed32(&w, 5, m->attrs, m->n_attrs);
    return entry_add(b, MAPPING, &w);
}

uint32_t build_function(struct build *b, const struct build_function *f)
{
    struct wire_writer w = entry_writer(b);
    wire_put_uint_nonzero(&w, 1, f->name);
    wire_put_uint_nonzero(&w, 2, f->system_name);
    wire_put_uint_nonzero(&w, 3, f->filename);
    wire_put_int_nonzero(&w, 4, f->start_line);
    return entry_add(b, FUNCTION, &w);
}

uint32_t build_location(struct build *b, const struct build_location *l)
{
    struct wire_writer w = entry_writer(b);
    wire_put_uint_nonzero(&w, 1, l->mapping);
    wire_put_uint_nonzero(&w, 2, l->address);
    for (uint32_t i = 0; i < l->n_lines; i++) {
        size_t mark = wire_begin(&w, 3);
        wire_put_uint_nonzero(&w, 1, l->lines[i].function);
        wire_put_int_nonzero(&w, 2, l->lines[i].line);
        wire_put_int_nonzero(&w, 3, l->lines[i].column);
        wire_end(&w, mark);
    }
    wire_put_packed32(&w, 4, l->attrs, l->n_attrs);
    return entry_add(b, LOCATION, &w);
}

uint32_t build_stack(struct build *b, const uint32_t *locations, uint32_t n)
{
    struct wire_writer w = entry_writer(b);
    wire_put_packed32(&w, 1, locations, n);
    return entry_add(b, STACK, &w);
}

uint32_t build_link(struct build *b, const uint8_t trace_id[16], const uint8_t span_id[8])
{
    struct wire_writer w = entry_writer(b);
    wire_put_bytes(&w, 1, bytes_of(trace_id, sizeof no_trace));
    wire_put_bytes(&w, 2, bytes_of(span_id, sizeof no_span));
    return entry_add(b, LINK, &w);
}

/* --- The tree */

/* Closes what is open from `level` inwards. */
static void close_from(struct build *b, int level)
{
    for (; b->open >= level; b->open--)
        wire_end(&b->w, b->mark[b->open]);
}

/* Opens a `level` message; its field number in its parent is 1 for a resource and 2 for the others. A child
 * without a parent is a caller's error, which must not become a malformed request. */
static bool open_level(struct build *b, int level)
{
    close_from(b, level);
    if (b->open != level - 1 && b->failed == 0)
        b->failed = -EINVAL;
    if (b->failed < 0 || b->w.failed < 0)
        return false;
    b->mark[level] = wire_begin(&b->w, level == RESOURCE ? 1 : 2);
    b->open = level;
    return true;
}

static void put_attrs(struct wire_writer *w, uint32_t field, const struct attr *attrs, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        size_t mark = wire_begin(w, field);
        wire_put_bytes(w, 1, attrs[i].key);
        if (attrs[i].value.kind != ATTR_EMPTY) {
            size_t value = wire_begin(w, 2);
            value_write(w, NULL, &attrs[i].value);
            wire_end(w, value);
        }
        wire_end(w, mark);
    }
}

void build_resource(struct build *b, const struct attr *attrs, uint32_t n_attrs, struct bytes schema_url)
{
    if (!open_level(b, RESOURCE))
        return;
    size_t mark = wire_begin(&b->w, 1);
    put_attrs(&b->w, 1, attrs, n_attrs);
    wire_end(&b->w, mark);
    wire_put_bytes_nonempty(&b->w, 3, schema_url);
}

void build_scope(struct build *b, struct bytes name, struct bytes version, const struct attr *attrs,
                 uint32_t n_attrs, struct bytes schema_url)
{
    if (!open_level(b, SCOPE))
        return;
    size_t mark = wire_begin(&b->w, 1);
    wire_put_bytes_nonempty(&b->w, 1, name);
    wire_put_bytes_nonempty(&b->w, 2, version);
    put_attrs(&b->w, 3, attrs, n_attrs);
    wire_end(&b->w, mark);
    wire_put_bytes_nonempty(&b->w, 3, schema_url);
}

static void put_value_type(struct wire_writer *w, uint32_t field, uint32_t type, uint32_t unit)
{
    if (type == 0 && unit == 0)
        return;
    size_t mark = wire_begin(w, field);
    wire_put_uint_nonzero(w, 1, type);
    wire_put_uint_nonzero(w, 2, unit);
    wire_end(w, mark);
}

void build_profile(struct build *b, const struct build_profile *p)
{
    struct wire_writer *w = &b->w;
    if (!open_level(b, PROFILE))
        return;
    put_value_type(w, 1, p->type, p->unit);
    wire_put_fixed64_nonzero(w, 3, p->time_unix_nano);
    wire_put_uint_nonzero(w, 4, p->duration_nano);
    put_value_type(w, 5, p->period_type, p->period_unit);
    wire_put_int_nonzero(w, 6, p->period);
    if (p->profile_id)
        wire_put_bytes(w, 7, bytes_of(p->profile_id, 16));
    wire_put_packed32(w, 11, p->attrs, p->n_attrs);
}

void build_sample(struct build *b, const struct build_sample *s)
{
    struct wire_writer *w = &b->w;
    if (b->open != PROFILE && b->failed == 0)
        b->failed = -EINVAL;
    if (b->failed < 0)
        return;
    size_t mark = wire_begin(w, 2);
    wire_put_uint_nonzero(w, 1, s->stack);
    wire_put_packed32(w, 2, s->attrs, s->n_attrs);
    wire_put_uint_nonzero(w, 3, s->link);
    wire_put_packed64(w, 4, s->values, s->n_values);
    wire_put_packed_fixed64(w, 5, s->timestamps, s->n_timestamps);
    wire_end(w, mark);
    b->n_samples++;
}

/* --- The end */

static void put_dictionary(const struct build *b, struct wire_writer *w)
{
    size_t mark = wire_begin(w, 2);
    for (uint32_t table = 0; table < TABLES; table++)
        for (uint32_t i = 0; i < b->table[table].n; i++)
            wire_put_bytes(w, table + 1, intern_get(&b->table[table], i));
    wire_end(w, mark);
}

int build_finish(struct build *b, struct buffer *out)
{
    close_from(b, RESOURCE);
    if (b->failed == 0)
        b->failed = b->w.failed;
    if (b->failed < 0)
        return b->failed;
    struct wire_writer w = wire_writer(out);
    size_t was = out->n;
    wire_put_raw(&w, buffer_bytes(&b->tree));
    put_dictionary(b, &w);
    if (w.failed < 0)
        out->n = was;
    return w.failed;
}
