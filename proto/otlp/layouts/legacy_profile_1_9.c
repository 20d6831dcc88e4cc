/* SPDX-License-Identifier: Apache-2.0 */
/*
 * 1.8 and 1.9: the tables are those of 1.10, Sample has other numbers, and Profile has in 1.8
 * (profiles.proto at v1.8.0, v1.9.0).
 */
#include "proto/otlp/layouts/legacy_parts.h"

/* ProfilesDictionary, 1.8 … 1.10 */
enum { DICTIONARY_STRING = 5, DICTIONARY_ATTRIBUTE = 6 };

/* Profile of 1.8 has comment_strindices at 7, and everything behind it one higher than 1.9 and 1.10. */
enum { PROFILE_SAMPLE = 2, PROFILE_COMMENTS_1_8 = 7, PROFILE_ATTRIBUTES = 11 };

/* The field again, under another number. */
static void put_as(struct wire_writer *w, uint32_t number, const struct wire_field *f)
{
    switch (f->type) {
    case WIRE_VARINT: wire_put_uint(w, number, f->value); break;
    case WIRE_I64: wire_put_fixed64(w, number, f->value); break;
    case WIRE_LEN: wire_put_bytes(w, number, f->bytes); break;
    default: { /* I32: no message here has one, and the decoder will say so */
        uint8_t v[4] = {(uint8_t)f->value, (uint8_t)(f->value >> 8), (uint8_t)(f->value >> 16),
                        (uint8_t)(f->value >> 24)};
        wire_put_varint(w, WIRE_TAG(number, WIRE_I32));
        wire_put_raw(w, bytes_of(v, sizeof v));
    }
    }
}

static int put_sample(struct legacy *t, struct bytes message)
{
    /* stack_index, values, attribute_indices, link_index, timestamps_unix_nano */
    static const uint8_t to[] = {0, 1, 4, 2, 3, 5};
    struct wire_reader in = wire_reader(message);
    struct wire_field f;
    int r;
    size_t mark = wire_begin(&t->w, PROFILE_SAMPLE);
    while ((r = wire_next(&in, &f)) == 0)
        if (f.number < sizeof to)
            put_as(&t->w, to[f.number], &f);
    wire_end(&t->w, mark);
    return legacy_ended(t, r, &in, "Sample");
}

/* Without aggregation_temporality, which 1.9 dropped. */
static int put_value_type(struct legacy *t, uint32_t number, struct bytes message)
{
    struct wire_reader in = wire_reader(message);
    struct wire_field f;
    int r;
    size_t mark = wire_begin(&t->w, number);
    while ((r = wire_next(&in, &f)) == 0)
        if (f.number <= 2)
            put_as(&t->w, f.number, &f);
    wire_end(&t->w, mark);
    return legacy_ended(t, r, &in, "ValueType");
}

/* The dictionary's strings, the first time a comment refers to them. */
static int read_comments(struct legacy *t, const struct wire_field *f)
{
    if (!t->strings_read) {
        int r = legacy_read_strings(t, t->dictionary, DICTIONARY_STRING);
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
        t->n_strings += f.number == DICTIONARY_STRING;
        t->n_attributes += f.number == DICTIONARY_ATTRIBUTE;
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
    wire_put_packed32(&t->w, PROFILE_ATTRIBUTES, &number, 1);
    return 0;
}

static int put_field(struct legacy *t, const struct wire_field *f)
{
    int r = legacy_room(t, t->out, (f->type == WIRE_LEN ? f->bytes.n : 0) + 256); /* numbers stay as long */
    if (r != 0)
        return r;
    if (f->number == PROFILE_SAMPLE && f->type == WIRE_LEN)
        return put_sample(t, f->bytes);
    if ((f->number == 1 || f->number == 5) && f->type == WIRE_LEN)
        return put_value_type(t, f->number, f->bytes);
    if (t->from == PROFILES_LAYOUT_1_8 && f->number == PROFILE_COMMENTS_1_8)
        return read_comments(t, f);
    uint32_t to = f->number - (t->from == PROFILES_LAYOUT_1_8 && f->number > PROFILE_COMMENTS_1_8);
    if (to <= PROFILE_ATTRIBUTES) /* those behind had no meaning in that release */
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
    size_t mark = wire_begin(&t->w, 2);
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
        wire_put_bytes(&t->w, DICTIONARY_STRING, BYTES_LIT(""));
    wire_put_bytes(&t->w, DICTIONARY_STRING, BYTES_LIT(LEGACY_COMMENT_KEY));
    if (t->n_attributes == 0)
        wire_put_bytes(&t->w, DICTIONARY_ATTRIBUTE, BYTES_LIT(""));
    for (uint32_t i = 1; i < added->n; i++) {
        struct bytes entry = intern_get(added, i);
        int r = legacy_room(t, t->out, entry.n + 64);
        if (r != 0)
            return r;
        wire_put_bytes(&t->w, DICTIONARY_ATTRIBUTE, entry);
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
    size_t mark = wire_begin(&t->w, 2);
    wire_put_raw(&t->w, t->dictionary);
    r = put_added(t);
    if (r == 0)
        r = legacy_room(t, t->out, 64);
    if (r == 0)
        wire_end(&t->w, mark);
    return r;
}
