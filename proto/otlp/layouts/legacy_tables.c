/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tables of 1.5 and 1.7 → those of 1.10.
 *
 * A table is read when those it refers to are: each entry is read by fields.def (which numbers it has in that
 * layout, what is an index and into what), its indices are replaced, it is written with the numbers of 1.10
 * and added to a set of encoded entries; what number it got stands for its old index from then on. Flags that
 * 1.10 has no field for become attributes.
 */
#include "proto/otlp/layouts/legacy_parts.h"

#include <stdio.h>

/* What one entry takes in an intern's own lists, which its arena does not charge: a slice, a hash and a slot,
 * each with the slack of doubling. */
#define ENTRY_COST 64u

/* --- Lists of numbers */

int numbers_add(struct legacy *t, struct numbers *list, uint32_t number)
{
    list->budget = &t->budget;
    return vec_append(list, number) == 0 ? 0 : PROFILES_OVER_BUDGET;
}

int legacy_indices(struct legacy *t, const struct wire_field *f, const struct numbers *to,
                   struct numbers *list, const char *message)
{
    struct wire_rest rest = {0};
    uint64_t index;
    int r;
    if (f->type != WIRE_VARINT && f->type != WIRE_LEN)
        return legacy_wrong_type(t, f, message);
    while ((r = wire_next_repeated(f, WIRE_VARINT, &rest, &index)) == 0) {
        r = numbers_add(t, list, numbers_at(to, index));
        if (r != 0)
            return r;
    }
    return r == WIRE_END ? 0 : legacy_malformed(t, f->from, "malformed packed list");
}

/* --- Entries */

int legacy_entry_begin(struct legacy *t, size_t size)
{
    t->entry.n = 0;
    return legacy_room(t, &t->entry, size + 64); /* what a writer asks for beyond what it writes */
}

static int intern(struct legacy *t, struct intern *table, struct bytes entry, uint32_t *ret)
{
    uint32_t was = table->n, id = intern_add(table, entry);
    if (id == INTERN_NONE)
        return PROFILES_OVER_BUDGET;
    if (table->n > was) {
        if (!budget_charge(&t->budget, ENTRY_COST))
            return PROFILES_OVER_BUDGET;
        t->entries_charged += ENTRY_COST;
    }
    *ret = id;
    return 0;
}

int legacy_entry_add(struct legacy *t, enum legacy_table table, uint32_t *ret)
{
    if (t->ew.failed < 0)
        return t->ew.full ? PROFILES_OVER_BUDGET : t->ew.failed;
    return intern(t, &t->table[table], buffer_bytes(&t->entry), ret);
}

int legacy_string(struct legacy *t, struct bytes s, uint32_t *ret)
{
    return intern(t, &t->table[TABLE_STRING], s, ret);
}

/* --- Attributes and their units */

struct unit_key {
    uint32_t source, key;
};

static struct bytes unit_key_bytes(const struct unit_key *k)
{
    return bytes_of(k, sizeof *k);
}

/* AttributeUnit: the first one of a key holds. */
static int read_unit(struct legacy *t, struct bytes message)
{
    struct wire_reader in = wire_reader(message);
    struct wire_field f;
    uint64_t key = 0, unit = 0;
    int r;
    while ((r = wire_next(&in, &f)) == 0) {
        if (f.number > ATTRIBUTE_UNIT_HIGHEST_OLD)
            continue;
        if (f.type != WIRE_VARINT)
            return legacy_wrong_type(t, &f, "AttributeUnit");
        *(f.number == ATTRIBUTE_UNIT_KEY_STRINDEX_1_7 ? &key : &unit) = f.value;
    }
    r = legacy_ended(t, r, &in, "AttributeUnit");
    if (r != 0)
        return r;
    const struct unit_key k = {t->source.id, numbers_at(&t->source.to[TABLE_STRING], key)};
    uint32_t n = t->unit_key.n, id;
    r = intern(t, &t->unit_key, unit_key_bytes(&k), &id);
    if (r != 0 || id < n)
        return r;
    return numbers_add(t, &t->unit, numbers_at(&t->source.to[TABLE_STRING], unit));
}

static uint32_t unit_of(const struct legacy *t, uint32_t key)
{
    const struct unit_key k = {t->source.id, key};
    uint32_t id = intern_find(&t->unit_key, unit_key_bytes(&k));
    return id < t->unit.n ? t->unit.p[id] : 0;
}

int legacy_attribute(struct legacy *t, struct bytes key_value, uint32_t *ret)
{
    struct wire_reader in = wire_reader(key_value);
    struct wire_field f;
    struct bytes key = BYTES_LIT("");
    uint32_t key_number;
    int r = legacy_entry_begin(t, legacy_grown(key_value.n));
    if (r != 0)
        return r;
    while ((r = wire_next(&in, &f)) == 0) {
        if (f.number > KEY_VALUE_VALUE) /* key_strindex came with 1.10 */
            continue;
        if (f.type != WIRE_LEN)
            return legacy_wrong_type(t, &f, "KeyValue");
        if (f.number == KEY_VALUE_KEY)
            key = f.bytes;
        else
            wire_put_bytes(&t->ew, KEY_VALUE_AND_UNIT_VALUE,
                           f.bytes); /* pieces of it merge behind as they would have here */
    }
    r = legacy_ended(t, r, &in, "KeyValue");
    if (r == 0)
        r = legacy_string(t, key, &key_number);
    if (r != 0)
        return r;
    wire_put_uint_nonzero(&t->ew, KEY_VALUE_AND_UNIT_KEY_STRINDEX, key_number);
    wire_put_uint_nonzero(&t->ew, KEY_VALUE_AND_UNIT_UNIT_STRINDEX, unit_of(t, key_number));
    return legacy_entry_add(t, TABLE_ATTRIBUTE, ret);
}

int legacy_comment_attribute(struct legacy *t, uint32_t key, uint32_t *ret)
{
    size_t size = 64;
    for (uint32_t i = 0; i < t->comments.n; i++)
        if (t->comments.p[i] != NOWHERE)
            size += intern_get(&t->table[TABLE_STRING], t->comments.p[i]).n + 64;
    /* Comments may repeat one long text, and equal attributes are held once: few bytes could ask for much. */
    t->comment_bytes += size;
    if (t->comment_bytes > t->limits->column_bytes)
        return PROFILES_OVER_BUDGET;
    int r = legacy_entry_begin(t, size);
    if (r != 0)
        return r;
    wire_put_uint(&t->ew, KEY_VALUE_AND_UNIT_KEY_STRINDEX, key);
    size_t value = wire_begin(&t->ew, KEY_VALUE_AND_UNIT_VALUE);
    size_t array = wire_begin(&t->ew, ANY_VALUE_ARRAY_VALUE);
    for (uint32_t i = 0; i < t->comments.n; i++) {
        if (t->comments.p[i] == NOWHERE) /* what only informs is not worth a refusal */
            continue;
        size_t text = wire_begin(&t->ew, ARRAY_VALUE_VALUES);
        wire_put_bytes(&t->ew, ANY_VALUE_STRING_VALUE, intern_get(&t->table[TABLE_STRING], t->comments.p[i]));
        wire_end(&t->ew, text);
    }
    wire_end(&t->ew, array);
    wire_end(&t->ew, value);
    return legacy_entry_add(t, TABLE_ATTRIBUTE, ret);
}

/* Adds the attribute `key` = true to t->attrs, unless it is there. */
static int add_flag(struct legacy *t, struct bytes key)
{
    uint32_t key_number, number;
    int r = legacy_entry_begin(t, 64);
    if (r == 0)
        r = legacy_string(t, key, &key_number);
    if (r != 0)
        return r;
    wire_put_uint(&t->ew, KEY_VALUE_AND_UNIT_KEY_STRINDEX, key_number);
    size_t value = wire_begin(&t->ew, KEY_VALUE_AND_UNIT_VALUE);
    wire_put_uint(&t->ew, ANY_VALUE_BOOL_VALUE, 1);
    wire_end(&t->ew, value);
    r = legacy_entry_add(t, TABLE_ATTRIBUTE, &number);
    if (r != 0)
        return r;
    for (uint32_t i = 0; i < t->attrs.n; i++)
        if (t->attrs.p[i] == number)
            return 0;
    return numbers_add(t, &t->attrs, number);
}

/* --- Entries by fields.def: Mapping, Function, Location, and Line in it */

enum { ROWS_MAX = ROWS_MAPPING };
_Static_assert((int)ROWS_MAX >= (int)ROWS_LOCATION && (int)ROWS_MAX >= (int)ROWS_FUNCTION &&
                   (int)ROWS_MAX >= (int)ROWS_LINE,
               "it has the most");

static const char *const names[MESSAGES] = {[MESSAGE_MAPPING] = "Mapping",
                                            [MESSAGE_LOCATION] = "Location",
                                            [MESSAGE_FUNCTION] = "Function",
                                            [MESSAGE_LINE] = "Line"};

/* Its numbers by row; its indices of attributes behind those in t->attrs. */
static int read_numbers(struct legacy *t, enum message m, struct bytes message, uint64_t v[ROWS_MAX])
{
    const struct fields rows = fields_of(m);
    struct wire_reader in = wire_reader(message);
    struct wire_field f;
    int r;
    memset(v, 0, ROWS_MAX * sizeof *v);
    while ((r = wire_next(&in, &f)) == 0) {
        const struct field *row = field_numbered(t->from, m, f.number);
        if (!row || (row->type == FIELD_MESSAGE && f.type == WIRE_LEN)) /* lines: when the rest is known */
            continue;
        if (row->repeated && row->table != 0)
            r = legacy_indices(t, &f, &t->source.to[table_of(row)], &t->attrs, names[m]);
        else if (f.type != field_wire(row))
            r = legacy_wrong_type(t, &f, names[m]);
        else /* an index that had presence is "none" where it is missing, and any other the first entry */
            v[row - rows.row] = row->optional ? numbers_at(&t->source.to[table_of(row)], f.value) : f.value;
        if (r != 0)
            return r;
    }
    return legacy_ended(t, r, &in, names[m]);
}

/* has_functions and the like, as attributes by pprof's names for them. */
static int add_flags(struct legacy *t, enum message m, const uint64_t v[ROWS_MAX])
{
    const struct fields rows = fields_of(m);
    int r = 0;
    for (uint32_t i = 0; r == 0 && i < rows.n; i++) {
        char key[64];
        if (v[i] == 0 || rows.row[i].number[PROFILES_LAYOUT_1_10] > 0)
            continue;
        int n = snprintf(key, sizeof key, "pprof.%s.%.*s", m == MESSAGE_MAPPING ? "mapping" : "location",
                         BYTES_FMT(rows.row[i].proto));
        r = add_flag(t, bytes_of(key, (size_t)n));
    }
    return r;
}

static void write_number(struct legacy *t, const struct field *row, uint64_t v)
{
    if (row->table != 0 && !row->optional)
        v = numbers_at(&t->source.to[table_of(row)], v);
    wire_put_uint_nonzero(&t->ew, row->number[PROFILES_LAYOUT_1_10], v);
}

static int write_lines(struct legacy *t, struct bytes location)
{
    const struct fields rows = fields_of(MESSAGE_LINE);
    struct wire_reader in = wire_reader(location);
    struct wire_field f;
    int r = 0;
    while (r == 0 && wire_next(&in, &f) == 0) {
        uint64_t v[ROWS_MAX];
        if (f.number != LOCATION_LINE_1_7)
            continue;
        r = read_numbers(t, MESSAGE_LINE, f.bytes, v);
        size_t mark = wire_begin(&t->ew, LOCATION_LINES);
        for (uint32_t i = 0; i < rows.n; i++)
            write_number(t, &rows.row[i], v[i]);
        wire_end(&t->ew, mark);
    }
    return r;
}

static int read_entry(struct legacy *t, enum message m, enum legacy_table table, struct bytes message,
                      uint32_t *ret)
{
    const struct fields rows = fields_of(m);
    uint64_t v[ROWS_MAX];
    t->attrs.n = 0;
    int r = read_numbers(t, m, message, v);
    if (r == 0)
        r = add_flags(t, m, v);
    if (r == 0)
        r = legacy_entry_begin(t, legacy_grown(message.n));
    for (uint32_t i = 0; r == 0 && i < rows.n; i++) {
        const struct field *row = &rows.row[i];
        if (row->number[PROFILES_LAYOUT_1_10] == 0)
            continue;
        if (row->type == FIELD_MESSAGE)
            r = write_lines(t, message);
        else if (row->repeated)
            wire_put_packed32(&t->ew, row->number[PROFILES_LAYOUT_1_10], t->attrs.p, t->attrs.n);
        else
            write_number(t, row, v[i]);
    }
    return r != 0 ? r : legacy_entry_add(t, table, ret);
}

/* Link: an id of zero bytes is an id that is not set. */
static bool is_zero(struct bytes id)
{
    for (size_t i = 0; i < id.n; i++)
        if (id.p[i] != 0)
            return false;
    return true;
}

static int read_link(struct legacy *t, struct bytes message, uint32_t *ret)
{
    struct wire_reader in = wire_reader(message);
    struct wire_field f;
    struct bytes trace = {0}, span = {0};
    int r;
    while ((r = wire_next(&in, &f)) == 0) {
        if (f.number > LINK_HIGHEST)
            continue;
        if (f.type != WIRE_LEN)
            return legacy_wrong_type(t, &f, "Link");
        *(f.number == LINK_TRACE_ID ? &trace : &span) = f.bytes;
    }
    r = legacy_ended(t, r, &in, "Link");
    if (r == 0)
        r = legacy_entry_begin(t, legacy_grown(message.n));
    if (r != 0)
        return r;
    if (!is_zero(trace) || !is_zero(span)) {
        wire_put_bytes(&t->ew, LINK_TRACE_ID, trace);
        wire_put_bytes(&t->ew, LINK_SPAN_ID, span);
    }
    return legacy_entry_add(t, TABLE_LINK, ret);
}

/* --- All tables of a message: each needs the numbers of those before it */

static int read_any(struct legacy *t, enum legacy_table table, struct bytes entry, uint32_t *ret)
{
    switch (table) {
    case TABLE_STRING: return legacy_string(t, entry, ret);
    case TABLE_ATTRIBUTE: return legacy_attribute(t, entry, ret);
    case TABLE_LINK: return read_link(t, entry, ret);
    case TABLE_MAPPING: return read_entry(t, MESSAGE_MAPPING, table, entry, ret);
    case TABLE_FUNCTION: return read_entry(t, MESSAGE_FUNCTION, table, entry, ret);
    default: return read_entry(t, MESSAGE_LOCATION, table, entry, ret);
    }
}

static int read_table(struct legacy *t, struct bytes message, uint32_t number, enum legacy_table table)
{
    struct wire_reader in = wire_reader(message);
    struct wire_field f;
    uint32_t id;
    int r;
    t->source.to[table].n = 0;
    while ((r = wire_next(&in, &f)) == 0) {
        if (f.number != number)
            continue;
        if (f.type != WIRE_LEN)
            return legacy_wrong_type(t, &f,
                                     t->from == PROFILES_LAYOUT_1_5 ? "Profile" : "ProfilesDictionary");
        r = read_any(t, table, f.bytes, &id);
        if (r == 0)
            r = numbers_add(t, &t->source.to[table], id);
        if (r != 0)
            return r;
    }
    return legacy_ended(t, r, &in, "message with tables");
}

static int read_units(struct legacy *t, struct bytes message, uint32_t number)
{
    struct wire_reader in = wire_reader(message);
    struct wire_field f;
    int r = 0;
    while (r == 0 && wire_next(&in, &f) == 0)
        if (f.number == number)
            r = f.type == WIRE_LEN ? read_unit(t, f.bytes) : legacy_wrong_type(t, &f, "attribute_units");
    return r;
}

int legacy_read_strings(struct legacy *t, struct bytes message, uint32_t number)
{
    return read_table(t, message, number, TABLE_STRING);
}

int legacy_read_source(struct legacy *t, struct bytes message)
{
    static const struct {
        enum legacy_table table;
        uint8_t in_profile, in_dictionary; /* of 1.5, of 1.7 */
    } order[] = {
        {TABLE_ATTRIBUTE, PROFILE_ATTRIBUTE_TABLE_1_5, DICTIONARY_ATTRIBUTE_TABLE_KEYED_1_7},
        {TABLE_LINK, PROFILE_LINK_TABLE_1_5, DICTIONARY_LINK_TABLE_1_7},
        {TABLE_MAPPING, PROFILE_MAPPING_TABLE_1_5, DICTIONARY_MAPPING_TABLE_1_7},
        {TABLE_FUNCTION, PROFILE_FUNCTION_TABLE_1_5, DICTIONARY_FUNCTION_TABLE_1_7},
        {TABLE_LOCATION, PROFILE_LOCATION_TABLE_1_5, DICTIONARY_LOCATION_TABLE_1_7},
    };
    bool in_profile = t->from == PROFILES_LAYOUT_1_5;
    t->source.id++;
    int r =
        legacy_read_strings(t, message, in_profile ? PROFILE_STRING_TABLE_1_5 : DICTIONARY_STRING_TABLE_1_7);
    if (r == 0)
        r = read_units(t, message, in_profile ? PROFILE_ATTRIBUTE_UNITS_1_5 : DICTIONARY_ATTRIBUTE_UNITS_1_7);
    for (size_t i = 0; r == 0 && i < ARRAY_LEN(order); i++)
        r = read_table(t, message, in_profile ? order[i].in_profile : order[i].in_dictionary, order[i].table);
    return r;
}

int legacy_write_dictionary(struct legacy *t)
{
    int r = legacy_room(t, t->out, 256);
    if (r != 0)
        return r;
    size_t dictionary = wire_begin(&t->w, REQUEST_DICTIONARY);
    for (uint32_t table = 0; table < TABLES; table++)
        for (uint32_t i = 0; i < t->table[table].n; i++) {
            struct bytes entry = intern_get(&t->table[table], i);
            r = legacy_room(t, t->out, entry.n + 128);
            if (r != 0)
                return r;
            wire_put_bytes(&t->w, table + 1, entry);
        }
    r = legacy_room(t, t->out, 64);
    if (r == 0)
        wire_end(&t->w, dictionary);
    return r;
}
