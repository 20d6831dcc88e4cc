/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/otlp/write/build.h"

#include <errno.h>
#include <stdlib.h>

#include "proto/base/intern.h"
#include "proto/base/macros.h"
#include "proto/otlp/layouts/fields.h"
#include "proto/otlp/view/value.h"
#include "proto/wire/writer.h"

/* Table t is field t + 1 of ProfilesDictionary. An entry is its encoded message, so
 * "the same content" is "the same bytes", and the table is the list of them in order of arrival. */
enum {
    MAPPING = DICTIONARY_MAPPING_TABLE - 1,
    LOCATION = DICTIONARY_LOCATION_TABLE - 1,
    FUNCTION = DICTIONARY_FUNCTION_TABLE - 1,
    LINK = DICTIONARY_LINK_TABLE - 1,
    STRING = DICTIONARY_STRING_TABLE - 1,
    ATTRIBUTE = DICTIONARY_ATTRIBUTE_TABLE - 1,
    STACK = DICTIONARY_STACK_TABLE - 1,
    TABLES = DICTIONARY_HIGHEST
};

/* What is open in the tree, from the outside in. */
enum { NOTHING, RESOURCE, SCOPE, PROFILE, LEVELS };

/* Bytes of a buffer that build_begin keeps; a request is usually a tenth of it. */
#define KEEP_MAX (1u << 20)

/* Bytes of tags and lengths around an entry or an open level, at most. */
#define FRAME_MAX 16u

struct build {
    struct intern table[TABLES];
    struct buffer entry;  /* an entry being encoded */
    struct buffer tree;   /* resource_profiles, encoded */
    struct wire_writer w; /* to `tree`, or to what build_into gave */
    size_t begun;         /* where the tree begins in that */
    size_t mark[LEVELS];
    int open;
    size_t entries; /* bytes of the dictionary */
    bool keeps_equal;
    int failed;
};

/* --- Life */

static bool keeps_equal(const struct build *b, int table)
{
    return b->keeps_equal && (table == MAPPING || table == LOCATION || table == FUNCTION);
}

/* In its table: with its tag, which is of one byte, and its length. */
static size_t entry_size(struct bytes entry)
{
    return 1 + wire_varint_size(entry.n) + entry.n;
}

static uint32_t add(struct build *b, int table, struct bytes entry)
{
    if (b->failed < 0)
        return 0;
    struct intern *t = &b->table[table];
    uint32_t n = t->n, i = keeps_equal(b, table) ? intern_append(t, entry) : intern_add(t, entry);
    if (i == INTERN_NONE) {
        b->failed = -ENOMEM;
        return 0;
    }
    if (i == n)
        b->entries += entry_size(entry);
    return i;
}

void build_keep_equal(struct build *b)
{
    b->keeps_equal = true;
}

void build_begin(struct build *b)
{
    for (int i = 0; i < TABLES; i++)
        intern_clear(&b->table[i]);
    buffer_clear(&b->tree, KEEP_MAX);
    buffer_clear(&b->entry, KEEP_MAX);
    b->w = wire_writer(&b->tree);
    b->begun = 0;
    b->open = NOTHING;
    b->entries = 0;
    b->failed = 0;
    for (int i = 0; i < TABLES; i++)
        add(b, i, BYTES_LIT("")); /* the zero message has no fields */
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
    return b->w.out->n - b->begun + b->entries + (LEVELS + 1) * FRAME_MAX;
}

/* --- The dictionary */

static struct wire_writer entry_writer(struct build *b)
{
    b->entry.n = 0;
    struct wire_writer w = wire_writer(&b->entry);
    w.failed = b->failed;
    return w;
}

static uint32_t entry_add(struct build *b, int table, struct wire_writer *w)
{
    /* One of many that say nothing still says so: readers bound messages that are empty. Fields 1 and 2 of
     * all three are numbers. */
    if (b->entry.n == 0 && keeps_equal(b, table)) {
        wire_put_uint(w, 1, 0);
        wire_put_uint(w, 2, 0);
    }
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
    wire_put_uint_nonzero(&w, KEY_VALUE_AND_UNIT_KEY_STRINDEX, key_index);
    value_write(&w, NULL, KEY_VALUE_AND_UNIT_VALUE, value);
    wire_put_uint_nonzero(&w, KEY_VALUE_AND_UNIT_UNIT_STRINDEX, unit);
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
    wire_put_uint_nonzero(&w, MAPPING_MEMORY_START, m->memory_start);
    wire_put_uint_nonzero(&w, MAPPING_MEMORY_LIMIT, m->memory_limit);
    wire_put_uint_nonzero(&w, MAPPING_FILE_OFFSET, m->file_offset);
    wire_put_uint_nonzero(&w, MAPPING_FILENAME_STRINDEX, m->filename);
    wire_put_packed32(&w, MAPPING_ATTRIBUTE_INDICES, m->attrs, m->n_attrs);
    return entry_add(b, MAPPING, &w);
}

uint32_t build_function(struct build *b, const struct build_function *f)
{
    struct wire_writer w = entry_writer(b);
    wire_put_uint_nonzero(&w, FUNCTION_NAME_STRINDEX, f->name);
    wire_put_uint_nonzero(&w, FUNCTION_SYSTEM_NAME_STRINDEX, f->system_name);
    wire_put_uint_nonzero(&w, FUNCTION_FILENAME_STRINDEX, f->filename);
    wire_put_int_nonzero(&w, FUNCTION_START_LINE, f->start_line);
    return entry_add(b, FUNCTION, &w);
}

uint32_t build_location(struct build *b, const struct build_location *l)
{
    struct wire_writer w = entry_writer(b);
    wire_put_uint_nonzero(&w, LOCATION_MAPPING_INDEX, l->mapping);
    wire_put_uint_nonzero(&w, LOCATION_ADDRESS, l->address);
    for (uint32_t i = 0; i < l->n_lines; i++) {
        size_t mark = wire_begin(&w, LOCATION_LINES);
        wire_put_uint_nonzero(&w, LINE_FUNCTION_INDEX, l->lines[i].function);
        wire_put_int_nonzero(&w, LINE_LINE, l->lines[i].line);
        wire_put_int_nonzero(&w, LINE_COLUMN, l->lines[i].column);
        wire_end(&w, mark);
    }
    wire_put_packed32(&w, LOCATION_ATTRIBUTE_INDICES, l->attrs, l->n_attrs);
    return entry_add(b, LOCATION, &w);
}

uint32_t build_stack(struct build *b, const uint32_t *locations, uint32_t n)
{
    struct wire_writer w = entry_writer(b);
    wire_put_packed32(&w, STACK_LOCATION_INDICES, locations, n);
    return entry_add(b, STACK, &w);
}

uint32_t build_stack_encoded(struct build *b, struct bytes fields, bool stays, bool *ret_is_new)
{
    struct intern *t = &b->table[STACK];
    const uint32_t n = t->n;
    if (b->failed < 0 || !stays) {
        const uint32_t i = add(b, STACK, fields);
        *ret_is_new = t->n > n;
        return i;
    }
    const uint32_t i = intern_add_slice(t, fields);
    *ret_is_new = t->n > n;
    if (i == INTERN_NONE)
        b->failed = -ENOMEM;
    b->entries += *ret_is_new ? entry_size(fields) : 0;
    return i == INTERN_NONE ? 0 : i;
}

uint32_t build_link(struct build *b, const uint8_t trace_id[16], const uint8_t span_id[8])
{
    static const uint8_t zero[16];
    if (memcmp(trace_id, zero, 16) == 0 && memcmp(span_id, zero, 8) == 0)
        return 0;
    struct wire_writer w = entry_writer(b);
    wire_put_bytes(&w, LINK_TRACE_ID, bytes_of(trace_id, 16));
    wire_put_bytes(&w, LINK_SPAN_ID, bytes_of(span_id, 8));
    return entry_add(b, LINK, &w);
}

/* --- The tree */

/* Closes what is open from `level` inwards. */
static void close_from(struct build *b, int level)
{
    for (; b->open >= level; b->open--)
        wire_end(&b->w, b->mark[b->open]);
}

/* Whether memory is out: of the tree's writer that is asked before a level is missed that could not be
 * opened. */
static bool has_failed(struct build *b)
{
    b->failed = b->failed ? b->failed : b->w.failed;
    return b->failed < 0;
}

/* Opens a `level` message. A child without a parent is a caller's error, which must not become a malformed
 * request. */
static bool open_level(struct build *b, int level)
{
    static const uint32_t field[] = {[RESOURCE] = REQUEST_RESOURCE_PROFILES,
                                     [SCOPE] = RESOURCE_PROFILES_SCOPE_PROFILES,
                                     [PROFILE] = SCOPE_PROFILES_PROFILES};
    close_from(b, level);
    if (!has_failed(b) && b->open != level - 1)
        b->failed = -EINVAL;
    if (b->failed < 0)
        return false;
    b->mark[level] = wire_begin(&b->w, field[level]);
    b->open = level;
    return true;
}

static void put_attrs(struct wire_writer *w, uint32_t field, const struct attr *attrs, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        value_write_pair(w, NULL, field, attrs[i].key, &attrs[i].value);
}

void build_resource(struct build *b, const struct attr *attrs, uint32_t n_attrs, struct bytes schema_url)
{
    if (!open_level(b, RESOURCE))
        return;
    size_t mark = wire_begin(&b->w, RESOURCE_PROFILES_RESOURCE);
    put_attrs(&b->w, RESOURCE_ATTRIBUTES, attrs, n_attrs);
    wire_end(&b->w, mark);
    wire_put_bytes_nonempty(&b->w, RESOURCE_PROFILES_SCHEMA_URL, schema_url);
}

void build_scope(struct build *b, struct bytes name, struct bytes version, const struct attr *attrs,
                 uint32_t n_attrs, struct bytes schema_url)
{
    if (!open_level(b, SCOPE))
        return;
    size_t mark = wire_begin(&b->w, SCOPE_PROFILES_SCOPE);
    wire_put_bytes_nonempty(&b->w, SCOPE_NAME, name);
    wire_put_bytes_nonempty(&b->w, SCOPE_VERSION, version);
    put_attrs(&b->w, SCOPE_ATTRIBUTES, attrs, n_attrs);
    wire_end(&b->w, mark);
    wire_put_bytes_nonempty(&b->w, SCOPE_PROFILES_SCHEMA_URL, schema_url);
}

static void put_value_type(struct wire_writer *w, uint32_t field, uint32_t type, uint32_t unit)
{
    size_t mark = wire_begin(w, field);
    wire_put_uint_nonzero(w, VALUE_TYPE_TYPE_STRINDEX, type);
    wire_put_uint_nonzero(w, VALUE_TYPE_UNIT_STRINDEX, unit);
    wire_end(w, mark);
}

void build_profile(struct build *b, const struct build_profile *p)
{
    struct wire_writer *w = &b->w;
    if (!open_level(b, PROFILE))
        return;
    put_value_type(w, PROFILE_SAMPLE_TYPE, p->type, p->unit);
    wire_put_fixed64_nonzero(w, PROFILE_TIME_UNIX_NANO, p->time_unix_nano);
    wire_put_uint_nonzero(w, PROFILE_DURATION_NANO, p->duration_nano);
    put_value_type(w, PROFILE_PERIOD_TYPE, p->period_type, p->period_unit);
    wire_put_int_nonzero(w, PROFILE_PERIOD, p->period);
    if (p->profile_id)
        wire_put_bytes(w, PROFILE_PROFILE_ID, bytes_of(p->profile_id, 16));
    wire_put_packed32(w, PROFILE_ATTRIBUTE_INDICES, p->attrs, p->n_attrs);
}

/* A sample of one value and few attributes, which nearly all are, is less than 128 bytes: all its lengths are
 * one byte, and it is written at once. */
#define SHORT_ATTRS 12u
#define SHORT_MAX   (SHORT_ATTRS * 5u + 2u + 6u + 6u + 2u + WIRE_VARINT_MAX)
_Static_assert(SHORT_MAX < 128, "a length is one byte");

static void put_short_sample(struct wire_writer *w, const struct build_sample *s)
{
    uint8_t *all = wire_room(w, SHORT_MAX + 2);
    if (!all)
        return;
    uint8_t *p = all + 2;
    all[0] = WIRE_TAG(PROFILE_SAMPLES, WIRE_LEN);
    if (s->stack) {
        *p++ = WIRE_TAG(SAMPLE_STACK_INDEX, WIRE_VARINT);
        p = wire_store_varint(p, s->stack);
    }
    if (s->n_attrs) {
        uint8_t *length = p + 1;
        *p = WIRE_TAG(SAMPLE_ATTRIBUTE_INDICES, WIRE_LEN);
        p += 2;
        for (uint32_t i = 0; i < s->n_attrs; i++)
            p = wire_store_varint(p, s->attrs[i]);
        *length = (uint8_t)(p - length - 1);
    }
    if (s->link) {
        *p++ = WIRE_TAG(SAMPLE_LINK_INDEX, WIRE_VARINT);
        p = wire_store_varint(p, s->link);
    }
    uint8_t *length = p + 1;
    *p = WIRE_TAG(SAMPLE_VALUES, WIRE_LEN);
    p = wire_store_varint(p + 2, (uint64_t)s->values[0]);
    *length = (uint8_t)(p - length - 1);
    all[1] = (uint8_t)(p - all - 2);
    wire_filled(w, p);
}

void build_sample(struct build *b, const struct build_sample *s)
{
    struct wire_writer *w = &b->w;
    if (!has_failed(b) && b->open != PROFILE)
        b->failed = -EINVAL;
    if (b->failed < 0)
        return;
    if (s->n_values == 1 && s->n_timestamps == 0 && s->n_attrs <= SHORT_ATTRS) {
        put_short_sample(w, s);
        return;
    }
    size_t mark = wire_begin(w, PROFILE_SAMPLES);
    wire_put_uint_nonzero(w, SAMPLE_STACK_INDEX, s->stack);
    wire_put_packed32(w, SAMPLE_ATTRIBUTE_INDICES, s->attrs, s->n_attrs);
    wire_put_uint_nonzero(w, SAMPLE_LINK_INDEX, s->link);
    wire_put_packed64(w, SAMPLE_VALUES, s->values, s->n_values);
    wire_put_packed_fixed64(w, SAMPLE_TIMESTAMPS_UNIX_NANO, s->timestamps, s->n_timestamps);
    wire_end(w, mark);
}

/* --- The end */

void build_into(struct build *b, struct buffer *out)
{
    b->w = wire_writer(out);
    b->begun = out->n;
    hash_table_release(&b->table[STACK].table); /* which stack is which nobody asks any more: megabytes */
}

/* Bytes of a piece, about: they are in the second cache when they are written. */
#define PIECE (64u << 10)

/* Its length is known: it need not be moved when it is there. put may be NULL: it stays where it is written.
 */
static int put_dictionary(const struct build *b, struct wire_writer *w, build_put *put, void *user)
{
    int r = 0;
    wire_put_varint(w, WIRE_TAG(REQUEST_DICTIONARY, WIRE_LEN));
    wire_put_varint(w, b->entries);
    for (uint32_t table = 0; table < TABLES; table++)
        for (uint32_t i = 0; i < b->table[table].n && r == 0; i++) {
            wire_put_bytes(w, table + 1, intern_get(&b->table[table], i));
            if (put && w->out->n >= PIECE && w->failed == 0) {
                r = put(user, buffer_bytes(w->out));
                w->out->n = 0;
            }
        }
    return r != 0 ? r : w->failed;
}

int build_finish(struct build *b, struct buffer *out)
{
    bool is_there = b->w.out == out;
    size_t was = is_there ? b->begun : out->n;
    close_from(b, RESOURCE);
    int r = has_failed(b) ? b->failed : 0;
    struct wire_writer w = wire_writer(out);
    if (r == 0 && !is_there)
        wire_put_raw(&w, buffer_bytes(&b->tree));
    r = r < 0 ? r : put_dictionary(b, &w, NULL, NULL);
    if (r < 0)
        out->n = was;
    return r;
}

int build_finish_pieces(struct build *b, struct buffer *out, build_put *put, void *user)
{
    close_from(b, RESOURCE);
    int r = has_failed(b) ? b->failed : put(user, bytes_from(buffer_bytes(out), b->begun));
    struct wire_writer w = wire_writer(out);
    out->n = 0;
    r = r != 0 ? r : put_dictionary(b, &w, put, user);
    if (r == 0 && out->n > 0)
        r = put(user, buffer_bytes(out));
    out->n = 0;
    return r;
}
