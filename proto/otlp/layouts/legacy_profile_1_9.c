/* SPDX-License-Identifier: Apache-2.0 */
/*
 * 1.8 and 1.9: the tables are those of 1.10, Sample has other numbers, and Profile has in 1.8
 * (profiles.proto at v1.8.0, v1.9.0).
 */
#include "proto/otlp/layouts/legacy_parts.h"

/* The field again, under another number. */
static void put_as(struct wire_writer *w, uint32_t number, const struct wire_field *f)
{
    switch (f->type) {
    case WIRE_VARINT: wire_put_uint(w, number, f->value); break;
    case WIRE_I64: wire_put_fixed64(w, number, f->value); break;
    case WIRE_LEN: wire_put_bytes(w, number, f->bytes); break;
    case WIRE_SGROUP: /* nor a group */
        wire_put_varint(w, WIRE_TAG(number, WIRE_SGROUP));
        wire_put_raw(w, f->bytes);
        wire_put_varint(w, WIRE_TAG(number, WIRE_EGROUP));
        break;
    default: { /* I32: no message here has one, and the decoder will say so */
        uint8_t v[4] = {(uint8_t)f->value, (uint8_t)(f->value >> 8), (uint8_t)(f->value >> 16),
                        (uint8_t)(f->value >> 24)};
        wire_put_varint(w, WIRE_TAG(number, WIRE_I32));
        wire_put_raw(w, bytes_of(v, sizeof v));
    }
    }
}

/* A message as field `number`, without the fields that 1.10 does not have: Sample; ValueType, whose
 * aggregation_temporality 1.9 dropped. */
static int put_message(struct legacy *t, uint32_t number, enum message m, struct bytes message)
{
    struct wire_reader in = wire_reader(message);
    struct wire_field f;
    int r;
    size_t mark = wire_begin(&t->w, number);
    while ((r = wire_next(&in, &f)) == 0)
        if (f.number < FIELD_NUMBERS && t->renumber[m][f.number] > 0)
            put_as(&t->w, t->renumber[m][f.number], &f);
    wire_end(&t->w, mark);
    return legacy_ended(t, r, &in, m == MESSAGE_SAMPLE ? "Sample" : "ValueType");
}

/* The dictionary's strings, the first time a comment refers to them. */
static int read_comments(struct legacy *t, const struct wire_field *f)
{
    if (!t->strings_read) {
        int r = legacy_read_strings(t, t->dictionary, DICTIONARY_STRING_TABLE);
        if (r != 0)
            return r;
        t->strings_read = true;
    }
    return legacy_indices(t, f, &t->source.to[TABLE_STRING], &t->comments, "Profile");
}

static int count_dictionary(struct legacy *t)
{
    struct wire_reader in = wire_reader(t->dictionary);
    struct wire_field f;
    int r;
    t->n_strings = t->n_attributes = 0;
    while ((r = wire_next(&in, &f)) == 0) {
        t->n_strings += f.number == DICTIONARY_STRING_TABLE;
        t->n_attributes += f.number == DICTIONARY_ATTRIBUTE_TABLE;
    }
    return legacy_ended(t, r, &in, "ProfilesDictionary");
}

/* The comments as an attribute, behind those the dictionary has: its key is the one string we add. Entry 0 of
 * t->table[TABLE_ATTRIBUTE] is not written, because the dictionary has its own or is given one. */
static int put_comments(struct legacy *t)
{
    uint32_t number;
    int r = t->table[TABLE_ATTRIBUTE].n > 1 ? 0 : count_dictionary(t);
    if (r == 0)
        r = legacy_comment_attribute(t, max_of(t->n_strings, 1u), &number);
    if (r == 0)
        r = legacy_room(t, t->out, 64);
    if (r != 0)
        return r;
    number += max_of(t->n_attributes, 1u) - 1;
    wire_put_packed32(&t->w, PROFILE_ATTRIBUTE_INDICES, &number, 1);
    return 0;
}

static int put_field(struct legacy *t, const struct wire_field *f)
{
    int r = legacy_room(t, t->out, f->bytes.n + 256); /* numbers stay as long */
    if (r != 0)
        return r;
    if (t->from == PROFILES_LAYOUT_1_8 && f->number == PROFILE_COMMENT_STRINDICES_1_8 &&
        (f->type == WIRE_LEN || f->type == WIRE_VARINT))
        return read_comments(t, f);
    uint32_t to = f->number < FIELD_NUMBERS ? t->renumber[MESSAGE_PROFILE][f->number] : 0;
    if (f->type == WIRE_LEN && to == PROFILE_SAMPLES)
        return put_message(t, to, MESSAGE_SAMPLE, f->bytes);
    if (f->type == WIRE_LEN && (to == PROFILE_SAMPLE_TYPE || to == PROFILE_PERIOD_TYPE))
        return put_message(t, to, MESSAGE_VALUE_TYPE, f->bytes);
    if (to > 0) /* the others had no meaning in that release */
        put_as(&t->w, to, f);
    return 0;
}

int legacy_profile_1_9(struct legacy *t, struct bytes message)
{
    struct wire_reader in = wire_reader(message);
    struct wire_field f;
    int r = legacy_room(t, t->out, 64);
    if (r != 0)
        return r;
    size_t mark = wire_begin(&t->w, SCOPE_PROFILES_PROFILES);
    t->comments.n = 0;
    while ((r = wire_next(&in, &f)) == 0) {
        r = put_field(t, &f);
        if (r != 0)
            return r;
    }
    r = legacy_ended(t, r, &in, "Profile");
    if (r == 0 && t->comments.n > 0)
        r = put_comments(t);
    if (r == 0)
        r = legacy_room(t, t->out, 64);
    if (r == 0)
        wire_end(&t->w, mark);
    return r;
}

static int put_added(struct legacy *t)
{
    const struct intern *added = &t->table[TABLE_ATTRIBUTE];
    if (added->n <= 1)
        return 0;
    if (t->n_strings == 0)
        wire_put_bytes(&t->w, DICTIONARY_STRING_TABLE, BYTES_LIT(""));
    wire_put_bytes(&t->w, DICTIONARY_STRING_TABLE, BYTES_LIT(LEGACY_COMMENT_KEY));
    if (t->n_attributes == 0)
        wire_put_bytes(&t->w, DICTIONARY_ATTRIBUTE_TABLE, BYTES_LIT(""));
    for (uint32_t i = 1; i < added->n; i++) {
        struct bytes entry = intern_get(added, i);
        int r = legacy_room(t, t->out, entry.n + 64);
        if (r != 0)
            return r;
        wire_put_bytes(&t->w, DICTIONARY_ATTRIBUTE_TABLE, entry);
    }
    return 0;
}

int legacy_write_dictionary_1_9(struct legacy *t)
{
    if (t->dictionary.n == 0 && t->table[TABLE_ATTRIBUTE].n <= 1)
        return 0;
    int r = legacy_room(t, t->out, t->dictionary.n + 256);
    if (r != 0)
        return r;
    size_t mark = wire_begin(&t->w, REQUEST_DICTIONARY);
    wire_put_raw(&t->w, t->dictionary);
    r = put_added(t);
    if (r == 0)
        r = legacy_room(t, t->out, 64);
    if (r == 0)
        wire_end(&t->w, mark);
    return r;
}
