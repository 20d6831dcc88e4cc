/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/otlp/layouts/legacy_parts.h"

#include <errno.h>
#include <stdlib.h>

/* What one entry takes in an intern's own lists, which its arena does not charge: a slice, a hash and a slot,
 * each with the slack of doubling. */
#define ENTRY_COST 64u

/* Where 1.7 has its tables in ProfilesDictionary, and 1.5 in Profile. */
struct table_fields {
    uint32_t of[TABLES], unit;
};
static const struct table_fields fields_1_5 = {{[TABLE_MAPPING] = 3,
                                                [TABLE_LOCATION] = 4,
                                                [TABLE_FUNCTION] = 6,
                                                [TABLE_LINK] = 9,
                                                [TABLE_STRING] = 10,
                                                [TABLE_ATTRIBUTE] = 7},
                                               8};
static const struct table_fields fields_1_7 = {{[TABLE_MAPPING] = 1,
                                                [TABLE_LOCATION] = 2,
                                                [TABLE_FUNCTION] = 3,
                                                [TABLE_LINK] = 4,
                                                [TABLE_STRING] = 5,
                                                [TABLE_ATTRIBUTE] = 6},
                                               7};

/* --- Lists of numbers */

#define NUMBERS_FIRST 32u
#define NUMBERS_MAX   (UINT32_MAX / 4)

int numbers_add(struct legacy *t, struct numbers *list, uint32_t number)
{
    if (list->n == list->cap) {
        uint32_t cap = list->cap ? list->cap * 2 : NUMBERS_FIRST;
        size_t more = (size_t)(cap - list->cap) * sizeof *list->v;
        if (list->cap > NUMBERS_MAX || !budget_charge(&t->budget, more))
            return PROFILES_OVER_BUDGET;
        uint32_t *v = realloc(list->v, cap * sizeof *v);
        if (!v) {
            budget_refund(&t->budget, more);
            return -ENOMEM;
        }
        list->v = v;
        list->cap = cap;
    }
    list->v[list->n++] = number;
    return 0;
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
        return t->ew.failed == -ENOMEM ? -ENOMEM : PROFILES_OVER_BUDGET;
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
        if (f.number > 2)
            continue;
        if (f.type != WIRE_VARINT)
            return legacy_wrong_type(t, &f, "AttributeUnit");
        *(f.number == 1 ? &key : &unit) = f.value;
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
    return id < t->unit.n ? t->unit.v[id] : 0;
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
        if (f.number > 2)
            continue;
        if (f.type != WIRE_LEN)
            return legacy_wrong_type(t, &f, "KeyValue");
        if (f.number == 1)
            key = f.bytes;
        else
            wire_put_bytes(&t->ew, 2, f.bytes); /* pieces of it merge behind as they would have here */
    }
    r = legacy_ended(t, r, &in, "KeyValue");
    if (r == 0)
        r = legacy_string(t, key, &key_number);
    if (r != 0)
        return r;
    wire_put_uint_nonzero(&t->ew, 1, key_number);
    wire_put_uint_nonzero(&t->ew, 3, unit_of(t, key_number));
    return legacy_entry_add(t, TABLE_ATTRIBUTE, ret);
}

int legacy_comment_attribute(struct legacy *t, uint32_t key, uint32_t *ret)
{
    size_t size = 64;
    for (uint32_t i = 0; i < t->comments.n; i++)
        if (t->comments.v[i] != NOWHERE)
            size += intern_get(&t->table[TABLE_STRING], t->comments.v[i]).n + 64;
    /* Comments may repeat one long text, and equal attributes are held once: few bytes could ask for much. */
    t->comment_bytes += size;
    if (t->comment_bytes > t->limits->column_bytes)
        return PROFILES_OVER_BUDGET;
    int r = legacy_entry_begin(t, size);
    if (r != 0)
        return r;
    wire_put_uint(&t->ew, 1, key);
    size_t value = wire_begin(&t->ew, 2), array = wire_begin(&t->ew, 5);
    for (uint32_t i = 0; i < t->comments.n; i++) {
        if (t->comments.v[i] == NOWHERE) /* what only informs is not worth a refusal */
            continue;
        size_t text = wire_begin(&t->ew, 1);
        wire_put_bytes(&t->ew, 1, intern_get(&t->table[TABLE_STRING], t->comments.v[i]));
        wire_end(&t->ew, text);
    }
    wire_end(&t->ew, array);
    wire_end(&t->ew, value);
    return legacy_entry_add(t, TABLE_ATTRIBUTE, ret);
}

/* Adds the attribute `key` = true to t->attrs, unless it is there. */
static int add_flag(struct legacy *t, const char *key)
{
    uint32_t key_number, number;
    int r = legacy_entry_begin(t, 64);
    if (r == 0)
        r = legacy_string(t, bytes_str(key), &key_number);
    if (r != 0)
        return r;
    wire_put_uint(&t->ew, 1, key_number);
    size_t value = wire_begin(&t->ew, 2);
    wire_put_uint(&t->ew, 2, 1);
    wire_end(&t->ew, value);
    r = legacy_entry_add(t, TABLE_ATTRIBUTE, &number);
    if (r != 0)
        return r;
    for (uint32_t i = 0; i < t->attrs.n; i++)
        if (t->attrs.v[i] == number)
            return 0;
    return numbers_add(t, &t->attrs, number);
}

/* --- The tables of 1.5 and 1.7, whose entries are the same messages. Each function: one entry → its number.
 */

static int read_string(struct legacy *t, struct bytes s, uint32_t *ret)
{
    return legacy_string(t, s, ret);
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
    struct bytes id[2] = {{0}, {0}};
    int r;
    while ((r = wire_next(&in, &f)) == 0) {
        if (f.number > 2)
            continue;
        if (f.type != WIRE_LEN)
            return legacy_wrong_type(t, &f, "Link");
        id[f.number - 1] = f.bytes;
    }
    r = legacy_ended(t, r, &in, "Link");
    if (r == 0)
        r = legacy_entry_begin(t, legacy_grown(message.n));
    if (r != 0)
        return r;
    if (!is_zero(id[0]) || !is_zero(id[1])) {
        wire_put_bytes(&t->ew, 1, id[0]);
        wire_put_bytes(&t->ew, 2, id[1]);
    }
    return legacy_entry_add(t, TABLE_LINK, ret);
}

static int read_mapping(struct legacy *t, struct bytes message, uint32_t *ret)
{
    static const char *const flags[] = {"pprof.mapping.has_functions", "pprof.mapping.has_filenames",
                                        "pprof.mapping.has_line_numbers", "pprof.mapping.has_inline_frames"};
    struct wire_reader in = wire_reader(message);
    struct wire_field f;
    uint64_t v[10] = {0}; /* by field number */
    int r;
    t->attrs.n = 0;
    while ((r = wire_next(&in, &f)) == 0) {
        if (f.number == 5) {
            r = legacy_indices(t, &f, &t->source.to[TABLE_ATTRIBUTE], &t->attrs, "Mapping");
            if (r != 0)
                return r;
        } else if (f.number < ARRAY_LEN(v)) {
            if (f.type != WIRE_VARINT)
                return legacy_wrong_type(t, &f, "Mapping");
            v[f.number] = f.value;
        }
    }
    r = legacy_ended(t, r, &in, "Mapping");
    for (uint32_t i = 0; r == 0 && i < ARRAY_LEN(flags); i++)
        if (v[6 + i] != 0)
            r = add_flag(t, flags[i]);
    if (r == 0)
        r = legacy_entry_begin(t, legacy_grown(message.n));
    if (r != 0)
        return r;
    wire_put_uint_nonzero(&t->ew, 1, v[1]);
    wire_put_uint_nonzero(&t->ew, 2, v[2]);
    wire_put_uint_nonzero(&t->ew, 3, v[3]);
    wire_put_uint_nonzero(&t->ew, 4, numbers_at(&t->source.to[TABLE_STRING], v[4]));
    wire_put_packed32(&t->ew, 5, t->attrs.v, t->attrs.n);
    return legacy_entry_add(t, TABLE_MAPPING, ret);
}

static int read_function(struct legacy *t, struct bytes message, uint32_t *ret)
{
    struct wire_reader in = wire_reader(message);
    struct wire_field f;
    uint64_t v[5] = {0}; /* by field number */
    int r;
    while ((r = wire_next(&in, &f)) == 0) {
        if (f.number >= ARRAY_LEN(v))
            continue;
        if (f.type != WIRE_VARINT)
            return legacy_wrong_type(t, &f, "Function");
        v[f.number] = f.value;
    }
    r = legacy_ended(t, r, &in, "Function");
    if (r == 0)
        r = legacy_entry_begin(t, legacy_grown(message.n));
    if (r != 0)
        return r;
    for (uint32_t i = 1; i <= 3; i++) /* name, system name, filename */
        wire_put_uint_nonzero(&t->ew, i, numbers_at(&t->source.to[TABLE_STRING], v[i]));
    wire_put_uint_nonzero(&t->ew, 4, v[4]);
    return legacy_entry_add(t, TABLE_FUNCTION, ret);
}

/* As field 3 of the location being written. Index 0 is the first function, also when the field is not there:
 * it had no presence. */
static int write_line(struct legacy *t, struct bytes message)
{
    struct wire_reader in = wire_reader(message);
    struct wire_field f;
    uint64_t v[4] = {0}; /* by field number */
    int r;
    while ((r = wire_next(&in, &f)) == 0) {
        if (f.number >= ARRAY_LEN(v))
            continue;
        if (f.type != WIRE_VARINT)
            return legacy_wrong_type(t, &f, "Line");
        v[f.number] = f.value;
    }
    size_t mark = wire_begin(&t->ew, 3);
    wire_put_uint_nonzero(&t->ew, 1, numbers_at(&t->source.to[TABLE_FUNCTION], v[1]));
    wire_put_uint_nonzero(&t->ew, 2, v[2]);
    wire_put_uint_nonzero(&t->ew, 3, v[3]);
    wire_end(&t->ew, mark);
    return legacy_ended(t, r, &in, "Line");
}

static int write_lines(struct legacy *t, struct bytes location)
{
    struct wire_reader in = wire_reader(location);
    struct wire_field f;
    int r = 0;
    while (r == 0 && wire_next(&in, &f) == 0)
        if (f.number == 3)
            r = write_line(t, f.bytes);
    return r;
}

static int read_location(struct legacy *t, struct bytes message, uint32_t *ret)
{
    struct wire_reader in = wire_reader(message);
    struct wire_field f;
    uint32_t mapping = 0;
    uint64_t address = 0;
    bool folded = false;
    int r;
    t->attrs.n = 0;
    while ((r = wire_next(&in, &f)) == 0) {
        switch (WIRE_TAG(f.number, f.type)) {
        case WIRE_TAG(1, WIRE_VARINT): mapping = numbers_at(&t->source.to[TABLE_MAPPING], f.value); break;
        case WIRE_TAG(2, WIRE_VARINT): address = f.value; break;
        case WIRE_TAG(3, WIRE_LEN): break; /* when the rest is known */
        case WIRE_TAG(4, WIRE_VARINT): folded = f.value != 0; break;
        default:
            if (f.number == 5)
                r = legacy_indices(t, &f, &t->source.to[TABLE_ATTRIBUTE], &t->attrs, "Location");
            else if (f.number < 5)
                r = legacy_wrong_type(t, &f, "Location");
        }
        if (r != 0)
            return r;
    }
    r = legacy_ended(t, r, &in, "Location");
    if (r == 0 && folded)
        r = add_flag(t, "pprof.location.is_folded");
    if (r == 0)
        r = legacy_entry_begin(t, legacy_grown(message.n));
    if (r != 0)
        return r;
    wire_put_uint_nonzero(&t->ew, 1, mapping);
    wire_put_uint_nonzero(&t->ew, 2, address);
    r = write_lines(t, message);
    if (r != 0)
        return r;
    wire_put_packed32(&t->ew, 4, t->attrs.v, t->attrs.n);
    return legacy_entry_add(t, TABLE_LOCATION, ret);
}

/* --- All tables of a message: each needs the numbers of those before it */

static int read_table(struct legacy *t, struct bytes message, uint32_t number, enum legacy_table table,
                      int (*entry)(struct legacy *, struct bytes, uint32_t *))
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
        r = entry(t, f.bytes, &id);
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
    return read_table(t, message, number, TABLE_STRING, read_string);
}

int legacy_read_source(struct legacy *t, struct bytes message)
{
    const struct table_fields *fields = t->from == PROFILES_LAYOUT_1_5 ? &fields_1_5 : &fields_1_7;
    t->source.id++;
    int r = legacy_read_strings(t, message, fields->of[TABLE_STRING]);
    if (r == 0)
        r = read_units(t, message, fields->unit);
    if (r == 0)
        r = read_table(t, message, fields->of[TABLE_ATTRIBUTE], TABLE_ATTRIBUTE, legacy_attribute);
    if (r == 0)
        r = read_table(t, message, fields->of[TABLE_LINK], TABLE_LINK, read_link);
    if (r == 0)
        r = read_table(t, message, fields->of[TABLE_MAPPING], TABLE_MAPPING, read_mapping);
    if (r == 0)
        r = read_table(t, message, fields->of[TABLE_FUNCTION], TABLE_FUNCTION, read_function);
    if (r == 0)
        r = read_table(t, message, fields->of[TABLE_LOCATION], TABLE_LOCATION, read_location);
    return r;
}

int legacy_write_dictionary(struct legacy *t)
{
    static const uint8_t zero[16];
    int r = legacy_room(t, t->out, 256);
    if (r != 0)
        return r;
    size_t dictionary = wire_begin(&t->w, 2);
    for (uint32_t table = 0; table < TABLES; table++)
        for (uint32_t i = 0; i < t->table[table].n; i++) {
            struct bytes entry = intern_get(&t->table[table], i);
            r = legacy_room(t, t->out, entry.n + 128);
            if (r != 0)
                return r;
            if (table == TABLE_LINK && i == 0) { /* profiles.proto: SHOULD be zero bytes rather than absent */
                size_t link = wire_begin(&t->w, TABLE_LINK + 1);
                wire_put_bytes(&t->w, 1, bytes_of(zero, 16));
                wire_put_bytes(&t->w, 2, bytes_of(zero, 8));
                wire_end(&t->w, link);
            } else {
                wire_put_bytes(&t->w, table + 1, entry);
            }
        }
    r = legacy_room(t, t->out, 64);
    if (r == 0)
        wire_end(&t->w, dictionary);
    return r;
}
