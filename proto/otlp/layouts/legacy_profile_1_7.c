/* SPDX-License-Identifier: Apache-2.0 */
/*
 * 1.5 and 1.7: one profile measures several types at once, samples name a slice of the profile's own list of
 * locations, times are int64, and there are comments (profiles.proto at v1.5.0, v1.7.0). In 1.5 the tables
 * are in the profile too.
 */
#include "proto/otlp/layouts/legacy_parts.h"

/* pprof's profilers have up to four; each costs a pass over the samples, and a profile of its own. */
#define TYPES_MAX 64u

/* Field numbers of Profile that differ; sample_type is 1 and sample 2 in both. */
struct profile_fields {
    uint32_t path; /* location_indices */
    uint32_t time, duration, period_type, period, comments, default_type, id, dropped, format, payload, attrs;
    uint32_t attributes; /* KeyValue: only in 1.4, which is 1.5 otherwise */
};
static const struct profile_fields fields_1_5 = {5, 11, 12, 13, 14, 15, 16, 17, 19, 20, 21, 22, 18};
static const struct profile_fields fields_1_7 = {3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 0};

struct value_type {
    uint64_t type, unit; /* old numbers of strings */
};

struct old_profile {
    struct value_type types[TYPES_MAX], period_type;
    uint32_t n_types;
    bool has_period_type;
    uint64_t time, duration, period, default_type, dropped;
    struct bytes id, format, payload;
};

static uint32_t string_at(const struct legacy *t, uint64_t i)
{
    return numbers_at(&t->source.to[TABLE_STRING], i);
}

/* --- Reading */

static int read_value_type(struct legacy *t, const struct wire_field *field, struct value_type *ret)
{
    struct wire_reader in = wire_reader(field->bytes);
    struct wire_field f;
    int r;
    if (field->type != WIRE_LEN)
        return legacy_wrong_type(t, field, "Profile");
    while ((r = wire_next(&in, &f)) == 0) {
        if (f.number > 2) /* aggregation_temporality: 1.9 dropped it */
            continue;
        if (f.type != WIRE_VARINT)
            return legacy_wrong_type(t, &f, "ValueType");
        *(f.number == 1 ? &ret->type : &ret->unit) = f.value;
    }
    return legacy_ended(t, r, &in, "ValueType");
}

/* A field that is one number, or one slice, by its own number; false when it is another. */
static bool read_scalar(struct old_profile *p, const struct profile_fields *fields,
                        const struct wire_field *f)
{
    const struct {
        uint32_t number;
        uint64_t *value;
        struct bytes *bytes;
    } scalars[] = {
        {fields->time, &p->time, NULL},       {fields->duration, &p->duration, NULL},
        {fields->period, &p->period, NULL},   {fields->default_type, &p->default_type, NULL},
        {fields->dropped, &p->dropped, NULL}, {fields->id, NULL, &p->id},
        {fields->format, NULL, &p->format},   {fields->payload, NULL, &p->payload},
    };
    for (size_t i = 0; i < ARRAY_LEN(scalars); i++) {
        if (scalars[i].number != f->number || f->type != (scalars[i].value ? WIRE_VARINT : WIRE_LEN))
            continue;
        if (scalars[i].value)
            *scalars[i].value = f->value;
        else
            *scalars[i].bytes = f->bytes;
        return true;
    }
    return false;
}

static int read_list(struct legacy *t, struct old_profile *p, const struct profile_fields *fields,
                     const struct wire_field *f)
{
    uint32_t number;
    if (f->number == 1) {
        if (p->n_types == TYPES_MAX)
            return legacy_malformed(t, f->from, "more than 64 sample types in a Profile");
        return read_value_type(t, f, &p->types[p->n_types++]);
    }
    if (f->number == 2)
        return f->type == WIRE_LEN ? 0 : legacy_wrong_type(t, f, "Profile");
    if (f->number == fields->period_type) {
        p->has_period_type = true;
        return read_value_type(t, f, &p->period_type);
    }
    if (f->number == fields->path)
        return legacy_indices(t, f, &t->source.to[TABLE_LOCATION], &t->path, "Profile");
    if (f->number == fields->comments)
        return legacy_indices(t, f, &t->source.to[TABLE_STRING], &t->comments, "Profile");
    if (f->number == fields->attrs)
        return legacy_indices(t, f, &t->source.to[TABLE_ATTRIBUTE], &t->of_profile, "Profile");
    if (f->number == fields->attributes && f->type == WIRE_LEN) {
        int r = legacy_attribute(t, f->bytes, &number);
        return r != 0 ? r : numbers_add(t, &t->of_profile, number);
    }
    /* what is left: tables of 1.5, which are read already; fields that release did not have; or a scalar with
     * another wire type */
    if (f->number < fields->time || f->number > fields->attrs || f->number == 18)
        return 0;
    return legacy_wrong_type(t, f, "Profile");
}

/* Everything but the samples. */
static int read_profile(struct legacy *t, struct bytes message, const struct profile_fields *fields,
                        struct old_profile *p)
{
    struct wire_reader in = wire_reader(message);
    struct wire_field f;
    uint32_t key, number;
    int r;
    t->path.n = t->comments.n = t->of_profile.n = 0;
    while ((r = wire_next(&in, &f)) == 0) {
        r = read_scalar(p, fields, &f) ? 0 : read_list(t, p, fields, &f);
        if (r != 0)
            return r;
    }
    r = legacy_ended(t, r, &in, "Profile");
    if (r != 0 || t->comments.n == 0)
        return r;
    r = legacy_string(t, BYTES_LIT(LEGACY_COMMENT_KEY), &key);
    if (r == 0)
        r = legacy_comment_attribute(t, key, &number);
    return r != 0 ? r : numbers_add(t, &t->of_profile, number);
}

/* --- Stacks: a slice of the profile's path becomes an entry of the stack table */

static int find_stack(struct legacy *t, uint64_t from, uint64_t n, uint32_t *ret)
{
    if (n > 0 && (from > t->path.n || n > t->path.n - from)) {
        *ret = NOWHERE;
        return 0;
    }
    /* Slices may overlap, so that few bytes can ask for many steps: no more than would fit if each sample had
     * its own stack. */
    t->path_steps += n;
    if (t->path_steps > t->limits->column_bytes / sizeof(uint32_t))
        return PROFILES_OVER_BUDGET;
    int r = legacy_entry_begin(t, legacy_grown(n));
    if (r != 0)
        return r;
    if (n > 0)
        wire_put_packed32(&t->ew, 1, t->path.v + from, n);
    return legacy_entry_add(t, TABLE_STACK, ret);
}

/* --- Writing: one profile for each type, all with the same samples, of which each takes its value */

struct old_sample {
    uint64_t from, n; /* of the path */
    uint32_t link;
};

static int read_sample(struct legacy *t, struct bytes message, struct old_sample *s)
{
    struct wire_reader in = wire_reader(message);
    struct wire_field f;
    int r;
    t->attrs.n = 0;
    while ((r = wire_next(&in, &f)) == 0) {
        switch (WIRE_TAG(f.number, f.type)) {
        case WIRE_TAG(1, WIRE_VARINT): s->from = f.value; break;
        case WIRE_TAG(2, WIRE_VARINT): s->n = f.value; break;
        case WIRE_TAG(5, WIRE_VARINT): s->link = numbers_at(&t->source.to[TABLE_LINK], f.value); break;
        default:
            if (f.number == 4)
                r = legacy_indices(t, &f, &t->source.to[TABLE_ATTRIBUTE], &t->attrs, "Sample");
            else if (f.number != 3 && f.number <= 5)
                r = legacy_wrong_type(t, &f, "Sample");
        }
        if (r != 0)
            return r;
    }
    return legacy_ended(t, r, &in, "Sample");
}

/* Values, field 3: of several types the one at `only`. */
static int write_values(struct legacy *t, struct bytes message, bool all, uint32_t only)
{
    struct wire_reader in = wire_reader(message);
    struct wire_field f;
    uint64_t value;
    uint32_t i = 0;
    int r = WIRE_END;
    size_t mark = wire_begin(&t->w, 4);
    while (r == WIRE_END && wire_next(&in, &f) == 0) {
        struct wire_rest rest = {0};
        while (f.number == 3 && (r = wire_next_repeated(&f, WIRE_VARINT, &rest, &value)) == 0)
            if (i++ == only || all)
                wire_put_varint(&t->w, value);
    }
    wire_end(&t->w, mark);
    return r == WIRE_END ? 0 : legacy_malformed(t, f.from, "malformed Sample.value");
}

/* Field 6: varints until 1.7, eight bytes each from 1.8 on. */
static int write_timestamps(struct legacy *t, struct bytes message)
{
    struct wire_reader in = wire_reader(message);
    struct wire_field f;
    uint64_t v;
    int r = WIRE_END;
    size_t mark = wire_begin(&t->w, 5);
    while (r == WIRE_END && wire_next(&in, &f) == 0) {
        struct wire_rest rest = {0};
        while (f.number == 6 && (r = wire_next_repeated(&f, WIRE_VARINT, &rest, &v)) == 0) {
            uint8_t fixed[8];
            for (int i = 0; i < 8; i++)
                fixed[i] = (uint8_t)(v >> (8 * i));
            wire_put_raw(&t->w, bytes_of(fixed, sizeof fixed));
        }
    }
    wire_end(&t->w, mark);
    return r == WIRE_END ? 0 : legacy_malformed(t, f.from, "malformed Sample.timestamps_unix_nano");
}

/* Sample i of the profile. Its stack is looked up once, for the first type. */
static int write_sample(struct legacy *t, struct bytes message, uint32_t i, uint32_t n_types, uint32_t type)
{
    struct old_sample s = {0};
    uint32_t stack;
    int r = read_sample(t, message, &s);
    if (r == 0 && i == t->stacks.n) {
        r = find_stack(t, s.from, s.n, &stack);
        if (r == 0)
            r = numbers_add(t, &t->stacks, stack);
    }
    if (r == 0)
        r = legacy_room(t, t->out, legacy_grown(message.n));
    if (r != 0)
        return r;
    size_t mark = wire_begin(&t->w, 2);
    wire_put_uint_nonzero(&t->w, 1, t->stacks.v[i]);
    wire_put_packed32(&t->w, 2, t->attrs.v, t->attrs.n);
    wire_put_uint_nonzero(&t->w, 3, s.link);
    r = write_values(t, message, n_types <= 1, type);
    if (r == 0)
        r = write_timestamps(t, message);
    wire_end(&t->w, mark);
    return r;
}

static int write_samples(struct legacy *t, struct bytes message, uint32_t n_types, uint32_t type)
{
    struct wire_reader in = wire_reader(message);
    struct wire_field f;
    uint32_t i = 0;
    int r = 0;
    while (r == 0 && wire_next(&in, &f) == 0)
        if (f.number == 2)
            r = write_sample(t, f.bytes, i++, n_types, type);
    return r;
}

static void write_value_type(struct legacy *t, uint32_t field, const struct value_type *type)
{
    size_t mark = wire_begin(&t->w, field);
    wire_put_uint_nonzero(&t->w, 1, string_at(t, type->type));
    wire_put_uint_nonzero(&t->w, 2, string_at(t, type->unit));
    wire_end(&t->w, mark);
}

/* `first`: of the profiles that this one becomes. A profile_id names one, and readers may drop what comes
 * twice under it; the original payload is kept once. */
static int write_profile(struct legacy *t, struct bytes message, const struct old_profile *p, uint32_t type,
                         bool first)
{
    int r = legacy_room(t, t->out, 128);
    if (r != 0)
        return r;
    size_t mark = wire_begin(&t->w, 2);
    if (p->n_types > 0)
        write_value_type(t, 1, &p->types[type]);
    r = write_samples(t, message, p->n_types, type);
    if (r == 0)
        r = legacy_room(t, t->out, p->id.n + p->format.n + p->payload.n + 5 * (size_t)t->of_profile.n + 512);
    if (r != 0)
        return r;
    wire_put_fixed64_nonzero(&t->w, 3, p->time);
    wire_put_uint_nonzero(&t->w, 4, p->duration);
    if (p->has_period_type)
        write_value_type(t, 5, &p->period_type);
    wire_put_uint_nonzero(&t->w, 6, p->period);
    wire_put_uint_nonzero(&t->w, 8, p->dropped);
    if (first) {
        wire_put_bytes_nonempty(&t->w, 7, p->id);
        wire_put_bytes_nonempty(&t->w, 9, p->format);
        wire_put_bytes_nonempty(&t->w, 10, p->payload);
    }
    wire_put_packed32(&t->w, 11, t->of_profile.v, t->of_profile.n);
    wire_end(&t->w, mark);
    return 0;
}

/* The type a reader should show first. 1.7 has its index, 1.5 its name. */
static uint32_t default_type(const struct legacy *t, const struct old_profile *p)
{
    if (t->from == PROFILES_LAYOUT_1_7)
        return p->default_type < p->n_types ? (uint32_t)p->default_type : 0;
    for (uint32_t i = 0; i < p->n_types && p->default_type != 0; i++)
        if (string_at(t, p->types[i].type) == string_at(t, p->default_type))
            return i;
    return 0;
}

int legacy_profile_1_7(struct legacy *t, struct bytes message)
{
    struct old_profile p = {0};
    const struct profile_fields *fields = t->from == PROFILES_LAYOUT_1_5 ? &fields_1_5 : &fields_1_7;
    int r = t->from == PROFILES_LAYOUT_1_5 ? legacy_read_source(t, message) : 0;
    if (r == 0)
        r = read_profile(t, message, fields, &p);
    if (r != 0)
        return r;
    /* "Tools should show the first profile" is how 1.10 says which type is the default one. */
    uint32_t first = default_type(t, &p);
    t->stacks.n = 0;
    r = write_profile(t, message, &p, first, true);
    for (uint32_t i = 0; r == 0 && i < p.n_types; i++)
        if (i != first)
            r = write_profile(t, message, &p, i, false);
    return r;
}
