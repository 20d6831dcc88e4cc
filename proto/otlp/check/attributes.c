/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attributes in both forms: entries of attribute_table, which lists refer to, and keys with values in
 * resources, scopes and values. Of an entry what lists want to know is looked up once.
 */

#include "proto/otlp/check/parts.h"

#define SHOWN 64u /* bytes of a key or value in a finding */

#define SHOW(b) (int)min_of((b).n, (size_t)SHOWN), (b).p ? (const char *)(b).p : ""

/* ---- values ------------------------------------------------------------------------------------ */

/* By row of AnyValue, which are in the order of its numbers. */
static const uint8_t kinds[ROWS_ANY_VALUE] = {
    [ROW_ANY_VALUE_STRING_VALUE] = KIND_STRING, [ROW_ANY_VALUE_BOOL_VALUE] = KIND_BOOL,
    [ROW_ANY_VALUE_INT_VALUE] = KIND_INT,       [ROW_ANY_VALUE_DOUBLE_VALUE] = KIND_DOUBLE,
    [ROW_ANY_VALUE_ARRAY_VALUE] = KIND_ARRAY,   [ROW_ANY_VALUE_KVLIST_VALUE] = KIND_MAP,
    [ROW_ANY_VALUE_BYTES_VALUE] = KIND_BYTES,   [ROW_ANY_VALUE_STRING_VALUE_STRINDEX] = KIND_STRING,
};

/* The last one set, and its bytes or what it refers to. */
static enum check_kind read_value(const struct check *c, struct bytes value, struct bytes *ret_text)
{
    struct wire_reader r = wire_reader(value);
    struct wire_field f;
    enum check_kind kind = KIND_NONE;
    *ret_text = bytes_of(NULL, 0);
    for (uint32_t row; (row = check_next(c, MESSAGE_ANY_VALUE, &r, &f)) != NOWHERE;) {
        kind = kinds[row];
        *ret_text = row == ROW_ANY_VALUE_STRING_VALUE_STRINDEX ? check_string(c, check_index(f.value))
                    : f.type == WIRE_LEN                       ? f.bytes
                                                               : bytes_of(NULL, 0);
    }
    return kind;
}

/* An array's kind by that of its elements; an empty one may be of any. */
static enum check_kind kind_of_array(const struct check *c, struct bytes array, enum check_kind wanted)
{
    struct wire_reader r = wire_reader(array);
    struct wire_field f;
    struct bytes text;
    while (check_next(c, MESSAGE_ARRAY_VALUE, &r, &f) != NOWHERE) {
        const enum check_kind kind = read_value(c, f.bytes, &text);
        if (kind != (wanted == KIND_INTS ? KIND_INT : KIND_STRING))
            return KIND_ARRAY;
    }
    return wanted;
}

/* ---- what holds of a key and its value, wherever they are --------------------------------------- */

static bool is_hex(struct bytes b)
{
    size_t i = 0;
    while (i < b.n && bytes_hex_value(b.p[i]) >= 0)
        i++;
    return b.n > 0 && i == b.n;
}

static bool is_build_id(struct bytes key, struct bytes id)
{
    if (bytes_is(key, "process.executable.build_id.go"))
        return id.n > 0;
    return is_hex(id) && (id.n == 32 || bytes_is(key, "process.executable.build_id.gnu"));
}

/* Keys of templates end with a name that others chose. */
static bool is_of_template(struct bytes key)
{
    return memmem(key.p, key.n, ".label.", 7) || memmem(key.p, key.n, ".annotation.", 12) ||
           bytes_starts(key, "process.environment_variable.");
}

static bool is_well_formed(struct bytes key)
{
    for (size_t i = 0; i < key.n; i++)
        if (key.p[i] <= ' ' || key.p[i] == 0x7f || (key.p[i] >= 'A' && key.p[i] <= 'Z'))
            return is_of_template(key);
    return key.p[0] != '.' && key.p[key.n - 1] != '.';
}

static void convention(struct check *c, const struct check_name *name, struct bytes value)
{
    struct bytes text;
    enum check_kind kind = read_value(c, value, &text);
    if (name->instead) {
        check_found(c, CHECK_CONVENTION_OLD, NULL, NOWHERE, "%s is now %s", name->name, name->instead);
        return;
    }
    if (kind == KIND_ARRAY)
        kind = kind_of_array(c, text, (enum check_kind)name->kind);
    if (kind != name->kind && kind != KIND_NONE)
        check_found(c, CHECK_CONVENTION_TYPE, NULL, NOWHERE, "%s is %s, not %s", name->name,
                    check_kind_name((enum check_kind)name->kind), check_kind_name(kind));
    else if (bytes_starts(bytes_str(name->name), "process.executable.build_id.") &&
             !is_build_id(bytes_str(name->name), text))
        check_found(c, CHECK_BUILD_ID_FORM, NULL, NOWHERE, "%s \"%.*s\"", name->name, SHOW(text));
    else if (strcmp(name->name, "profile.frame.type") == 0 && !check_is_frame_type(text))
        check_found(c, CHECK_FRAME_TYPE, NULL, NOWHERE, "\"%.*s\"", SHOW(text));
}

static void key_and_value(struct check *c, struct bytes key, struct bytes value)
{
    const struct check_name *name = check_name(key);
    if (key.n == 0)
        check_found(c, CHECK_KEY_EMPTY, NULL, NOWHERE, "%s", "");
    else if (!is_well_formed(key))
        check_found(c, CHECK_KEY_FORM, NULL, NOWHERE, "%.*s", SHOW(key));
    if (name)
        convention(c, name, value);
}

/* UCUM's symbol for what is often written as a word, or NULL. */
static const char *ucum_of(struct bytes unit)
{
    static const char *const words[][2] = {
        {"bytes", "By"},        {"byte", "By"},   {"nanoseconds", "ns"}, {"microseconds", "us"},
        {"milliseconds", "ms"}, {"seconds", "s"}, {"second", "s"},       {"minutes", "min"},
        {"hours", "h"},         {"percent", "%"}, {"kilobytes", "kBy"},  {"megabytes", "MBy"},
        {"count", "1"},         {"hertz", "Hz"},  {"KB", "kBy"},         {"MB", "MBy"},
        {"kb", "kBy"},
    };
    for (size_t i = 0; i < ARRAY_LEN(words); i++)
        if (bytes_is(unit, words[i][0]))
            return words[i][1];
    return NULL;
}

/* ---- entries of attribute_table ----------------------------------------------------------------- */

void check_attributes_of_table(struct check *c)
{
    const uint32_t n = c->table[DICTIONARY_ATTRIBUTE_TABLE].at.n;
    c->attribute = check_column(c, n, sizeof *c->attribute);
    if (!c->attribute)
        return;
    for (uint32_t i = 0; i < n; i++) {
        struct check_attribute *a = &c->attribute[i];
        struct wire_reader r = wire_reader(check_entry(c, DICTIONARY_ATTRIBUTE_TABLE, i));
        struct wire_field f;
        struct bytes text;
        uint32_t key = 0;
        for (uint32_t row; (row = check_next(c, MESSAGE_KEY_VALUE_AND_UNIT, &r, &f)) != NOWHERE;) {
            if (row == ROW_KEY_VALUE_AND_UNIT_KEY_STRINDEX)
                key = check_index(f.value);
            else if (row == ROW_KEY_VALUE_AND_UNIT_VALUE)
                a->kind = (uint8_t)read_value(c, f.bytes, &text);
        }
        const struct check_table *strings = &c->table[DICTIONARY_STRING_TABLE];
        a->key = key < strings->at.n ? check_same(strings, key) : NOWHERE;
        a->name = check_name(check_string(c, key));
    }
}

void check_key_value_and_unit(struct check *c, struct bytes message)
{
    struct wire_reader r = wire_reader(message);
    struct wire_field f;
    struct bytes value = bytes_of(NULL, 0);
    uint32_t key = 0, unit = 0;
    for (uint32_t row; (row = check_next(c, MESSAGE_KEY_VALUE_AND_UNIT, &r, &f)) != NOWHERE;) {
        if (row == ROW_KEY_VALUE_AND_UNIT_KEY_STRINDEX)
            key = check_index(f.value);
        else if (row == ROW_KEY_VALUE_AND_UNIT_VALUE)
            value = f.bytes;
        else
            unit = check_index(f.value);
    }
    key_and_value(c, check_string(c, key), value);
    const struct bytes word = check_string(c, unit);
    const char *ucum = ucum_of(word);
    if (ucum)
        check_found(c, CHECK_UNIT, "unit_strindex", NOWHERE, "%.*s is %s", SHOW(word), ucum);
}

/* ---- lists of them ------------------------------------------------------------------------------ */

static void place(struct check *c, const struct check_attribute *a, enum check_place place, uint32_t i)
{
    if (a->name && a->name->place != PLACE_ANYWHERE && a->name->place != place)
        check_found(c, CHECK_CONVENTION_PLACE, "attribute_indices", i, "%s describes %s, not %s",
                    a->name->name, check_place_name((enum check_place)a->name->place),
                    check_place_name(place));
    if (place == PLACE_SAMPLE && a->kind == KIND_DOUBLE)
        check_found(c, CHECK_FLOAT, "attribute_indices", i, "%s", "");
}

void check_attribute_list(struct check *c, enum check_place of)
{
    const uint32_t n = c->table[DICTIONARY_ATTRIBUTE_TABLE].at.n;
    for (uint32_t i = 0; i < c->list.n; i++) {
        if (c->list.p[i] >= n)
            continue;
        const struct check_attribute *a = &c->attribute[c->list.p[i]];
        place(c, a, of, i);
        if (c->list.n == 1 || a->key == NOWHERE)
            continue;
        const struct bytes key = bytes_of(&a->key, sizeof a->key);
        if (check_set_add(c, &c->set, key) == NOWHERE)
            continue;
        const struct bytes name = check_string(c, a->key);
        check_found(c, CHECK_ATTRIBUTE_KEYS, "attribute_indices", i, "%.*s", SHOW(name));
    }
    check_set_clear(&c->set);
}

/* ---- keys with values ---------------------------------------------------------------------------- */

struct fields_of_key_value {
    struct bytes key, value;
    bool has_both;
};

static struct fields_of_key_value read_key_value(const struct check *c, struct bytes message)
{
    struct fields_of_key_value ret = {0};
    struct wire_reader r = wire_reader(message);
    struct wire_field f;
    struct bytes key = bytes_of(NULL, 0);
    uint32_t index = 0;
    for (uint32_t row; (row = check_next(c, MESSAGE_KEY_VALUE, &r, &f)) != NOWHERE;) {
        if (row == ROW_KEY_VALUE_KEY)
            key = f.bytes;
        else if (row == ROW_KEY_VALUE_KEY_STRINDEX)
            index = check_index(f.value);
        else
            ret.value = f.bytes;
    }
    ret.key = key.n > 0 ? key : check_string(c, index);
    ret.has_both = key.n > 0 && index > 0;
    return ret;
}

void check_key_values(struct check *c, struct bytes message)
{
    const enum message kind = c->frame[c->depth - 1].message;
    const bool is_resource = kind == MESSAGE_RESOURCE;
    struct check_set *set = is_resource ? &c->resource_keys : &c->set;
    struct wire_reader r = wire_reader(message);
    struct wire_field f;
    bool has_service = false;
    check_set_clear(set);
    const uint32_t attributes = kind == MESSAGE_RESOURCE ? ROW_RESOURCE_ATTRIBUTES
                                : kind == MESSAGE_SCOPE  ? ROW_SCOPE_ATTRIBUTES
                                                         : ROW_KEY_VALUE_LIST_VALUES;
    for (uint32_t row, i = 0; (row = check_next(c, kind, &r, &f)) != NOWHERE;) {
        if (row != attributes)
            continue;
        const struct fields_of_key_value kv = read_key_value(c, f.bytes);
        if (kv.key.n > 0 && check_set_add(c, set, kv.key) != NOWHERE)
            check_found(c, CHECK_KEYS, kind == MESSAGE_KEY_VALUE_LIST ? "values" : "attributes", i, "%.*s",
                        SHOW(kv.key));
        has_service |= bytes_is(kv.key, "service.name");
        i++;
    }
    if (is_resource && !has_service)
        check_found(c, CHECK_NO_SERVICE, NULL, NOWHERE, "%s", "");
    if (!is_resource)
        check_set_clear(set);
}

static void place_of_key_value(struct check *c, struct bytes key)
{
    const enum message parent = c->frame[c->depth - 2].message;
    const struct check_attribute a = {.name = check_name(key)};
    if (!a.name || a.name->place == PLACE_ANYWHERE || (parent != MESSAGE_RESOURCE && parent != MESSAGE_SCOPE))
        return;
    const enum check_place here = parent == MESSAGE_RESOURCE ? PLACE_RESOURCE : PLACE_SCOPE;
    if (a.name->place != here)
        check_found(c, CHECK_CONVENTION_PLACE, NULL, NOWHERE, "%s describes %s, not %s", a.name->name,
                    check_place_name((enum check_place)a.name->place), check_place_name(here));
}

void check_key_value(struct check *c, struct bytes message)
{
    const struct fields_of_key_value kv = read_key_value(c, message);
    if (kv.has_both)
        check_found(c, CHECK_KEY_BOTH, NULL, NOWHERE, "%.*s", SHOW(kv.key));
    if (c->frame[c->depth - 2].message == MESSAGE_KEY_VALUE_LIST)
        return; /* keys of a map are its writer's own */
    key_and_value(c, kv.key, kv.value);
    place_of_key_value(c, kv.key);
}

/* ---- entities ------------------------------------------------------------------------------------ */

void check_entity(struct check *c, struct bytes message)
{
    struct wire_reader r = wire_reader(message);
    struct wire_field f;
    struct bytes type = bytes_of(NULL, 0);
    uint32_t ids = 0, descriptions = 0;
    for (uint32_t row; (row = check_next(c, MESSAGE_ENTITY_REF, &r, &f)) != NOWHERE;) {
        const bool is_id = row == ROW_ENTITY_REF_ID_KEYS;
        if (row == ROW_ENTITY_REF_TYPE)
            type = f.bytes;
        if (!is_id && row != ROW_ENTITY_REF_DESCRIPTION_KEYS)
            continue;
        const uint32_t i = is_id ? ids++ : descriptions++;
        if (!check_set_has(&c->resource_keys, f.bytes))
            check_found(c, CHECK_ENTITY_KEY, is_id ? "id_keys" : "description_keys", i, "%.*s",
                        SHOW(f.bytes));
    }
    if (type.n == 0 || ids == 0)
        check_found(c, CHECK_ENTITY_FORM, NULL, NOWHERE, "%s", type.n == 0 ? "no type" : "no id_keys");
}
