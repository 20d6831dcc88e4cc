/* SPDX-License-Identifier: Apache-2.0 */
/*
 * 1.5 and 1.7: one profile measures several types at once, samples name a slice of the profile's own list of
 * locations, times are int64, and there are comments (profiles.proto at v1.5.0, v1.7.0). In 1.5 the tables
 * are in the profile too.
 */
#include "proto/otlp/layouts/legacy_parts.h"

/* pprof's profilers have up to four; each costs a pass over the samples, and a profile of its own. */
#define TYPES_MAX 64u

struct value_type {
    uint64_t type, unit; /* old numbers of strings */
};

struct old_profile {
    struct value_type types[TYPES_MAX], period_type;
    uint32_t n_types;
    bool has_period_type;
    uint64_t number[ROWS_PROFILE];   /* by row: the scalars, */
    struct bytes text[ROWS_PROFILE]; /* and those that are slices */
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
        if (f.number > VALUE_TYPE_HIGHEST) /* aggregation_temporality: 1.9 dropped it */
            continue;
        if (f.type != WIRE_VARINT)
            return legacy_wrong_type(t, &f, "ValueType");
        *(f.number == VALUE_TYPE_TYPE_STRINDEX ? &ret->type : &ret->unit) = f.value;
    }
    return legacy_ended(t, r, &in, "ValueType");
}

static int read_sample_type(struct legacy *t, struct old_profile *p, const struct wire_field *f)
{
    if (p->n_types == TYPES_MAX)
        return legacy_malformed(t, f->from, "more than 64 sample types in a Profile");
    return read_value_type(t, f, &p->types[p->n_types++]);
}

/* KeyValue, in the profile itself: only in 1.4, which is 1.5 otherwise. */
static int read_attribute(struct legacy *t, const struct wire_field *f)
{
    uint32_t number;
    int r = f->type == WIRE_LEN ? legacy_attribute(t, f->bytes, &number) : 0;
    return r != 0 || f->type != WIRE_LEN ? r : numbers_add(t, &t->of_profile, number);
}

static int read_field(struct legacy *t, struct old_profile *p, const struct wire_field *f)
{
    const struct field *row = field_numbered(t->from, MESSAGE_PROFILE, f->number);
    if (!row) /* that release did not have it */
        return 0;
    uint32_t i = (uint32_t)(row - fields_of(MESSAGE_PROFILE).row);
    const struct numbers *to = row->table != 0 ? &t->source.to[table_of(row)] : NULL;
    switch (i) {
    case ROW_PROFILE_SAMPLE_TYPES: return read_sample_type(t, p, f);
    case ROW_PROFILE_PERIOD_TYPE: p->has_period_type = true; return read_value_type(t, f, &p->period_type);
    case ROW_PROFILE_LOCATION_INDICES: return legacy_indices(t, f, to, &t->path, "Profile");
    case ROW_PROFILE_COMMENT_STRINDICES: return legacy_indices(t, f, to, &t->comments, "Profile");
    case ROW_PROFILE_ATTRIBUTE_INDICES: return legacy_indices(t, f, to, &t->of_profile, "Profile");
    case ROW_PROFILE_ATTRIBUTES: return read_attribute(t, f);
    default: break;
    }
    if (row->repeated && i != ROW_PROFILE_SAMPLE) /* tables of 1.5, which are read already */
        return 0;
    if (f->type != field_wire(row))
        return legacy_wrong_type(t, f, "Profile");
    if (f->type == WIRE_LEN)
        p->text[i] = f->bytes;
    else
        p->number[i] = f->value;
    return 0;
}

/* Everything but the samples. */
static int read_profile(struct legacy *t, struct bytes message, struct old_profile *p)
{
    struct wire_reader in = wire_reader(message);
    struct wire_field f;
    uint32_t key, number;
    int r;
    t->path.n = t->comments.n = t->of_profile.n = 0;
    while ((r = wire_next(&in, &f)) == 0) {
        r = read_field(t, p, &f);
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
        wire_put_packed32(&t->ew, STACK_LOCATION_INDICES, t->path.p + from, n);
    return legacy_entry_add(t, TABLE_STACK, ret);
}

/* --- Writing: one profile for each type, all with the same samples, of which each takes its value */

struct old_sample {
    uint64_t from, n; /* of the path */
    uint32_t link;
};

/* One with a field of another type becomes one whose stack leads nowhere, which the view rejects by itself.
 */
static int read_sample(struct legacy *t, struct bytes message, struct old_sample *s)
{
    struct wire_reader in = wire_reader(message);
    struct wire_field f;
    bool unreadable = false;
    int r;
    t->attrs.n = 0;
    while ((r = wire_next(&in, &f)) == 0) {
        const struct field *row = field_numbered(t->from, MESSAGE_SAMPLE, f.number);
        if (!row)
            continue;
        if (!field_takes(row, f.type)) {
            unreadable = true;
            continue;
        }
        switch (f.number) {
        case SAMPLE_LOCATIONS_START_INDEX_1_7: s->from = f.value; break;
        case SAMPLE_LOCATIONS_LENGTH_1_7: s->n = f.value; break;
        case SAMPLE_LINK_INDEX_1_7: s->link = numbers_at(&t->source.to[TABLE_LINK], f.value); break;
        case SAMPLE_ATTRIBUTE_INDICES_1_7:
            r = legacy_indices(t, &f, &t->source.to[TABLE_ATTRIBUTE], &t->attrs, "Sample");
            break;
        default: break;
        }
        if (r != 0)
            return r;
    }
    if (unreadable) {
        s->from = UINT64_MAX;
        s->n = 1;
    }
    return legacy_ended(t, r, &in, "Sample");
}

/* Whether it is the field `number`, a list of numbers. */
static bool is_list(const struct wire_field *f, uint32_t number)
{
    return f->number == number && (f->type == WIRE_LEN || f->type == WIRE_VARINT);
}

/* Values: of several types the one at `only`. */
static int write_values(struct legacy *t, struct bytes message, bool all, uint32_t only)
{
    struct wire_reader in = wire_reader(message);
    struct wire_field f;
    uint64_t value;
    uint32_t i = 0;
    int r = WIRE_END;
    size_t mark = wire_begin(&t->w, SAMPLE_VALUES);
    while (r == WIRE_END && wire_next(&in, &f) == 0) {
        struct wire_rest rest = {0};
        while (is_list(&f, SAMPLE_VALUE_1_7) && (r = wire_next_repeated(&f, WIRE_VARINT, &rest, &value)) == 0)
            if (i++ == only || all)
                wire_put_varint(&t->w, value);
    }
    wire_end(&t->w, mark);
    return r == WIRE_END ? 0 : legacy_malformed(t, f.from, "malformed Sample.value");
}

/* Varints until 1.7, eight bytes each from 1.8 on. */
static int write_timestamps(struct legacy *t, struct bytes message)
{
    struct wire_reader in = wire_reader(message);
    struct wire_field f;
    uint64_t v;
    int r = WIRE_END;
    size_t mark = wire_begin(&t->w, SAMPLE_TIMESTAMPS_UNIX_NANO);
    while (r == WIRE_END && wire_next(&in, &f) == 0) {
        struct wire_rest rest = {0};
        while (is_list(&f, SAMPLE_TIMESTAMPS_VARINT_1_7) &&
               (r = wire_next_repeated(&f, WIRE_VARINT, &rest, &v)) == 0) {
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
    size_t mark = wire_begin(&t->w, PROFILE_SAMPLES);
    wire_put_uint_nonzero(&t->w, SAMPLE_STACK_INDEX, t->stacks.p[i]);
    wire_put_packed32(&t->w, SAMPLE_ATTRIBUTE_INDICES, t->attrs.p, t->attrs.n);
    wire_put_uint_nonzero(&t->w, SAMPLE_LINK_INDEX, s.link);
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
        if (f.number == PROFILE_SAMPLE_1_7)
            r = write_sample(t, f.bytes, i++, n_types, type);
    return r;
}

static void write_value_type(struct legacy *t, uint32_t field, const struct value_type *type)
{
    size_t mark = wire_begin(&t->w, field);
    wire_put_uint_nonzero(&t->w, VALUE_TYPE_TYPE_STRINDEX, string_at(t, type->type));
    wire_put_uint_nonzero(&t->w, VALUE_TYPE_UNIT_STRINDEX, string_at(t, type->unit));
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
    const struct bytes id = p->text[ROW_PROFILE_PROFILE_ID],
                       format = p->text[ROW_PROFILE_ORIGINAL_PAYLOAD_FORMAT],
                       payload = p->text[ROW_PROFILE_ORIGINAL_PAYLOAD];
    size_t mark = wire_begin(&t->w, SCOPE_PROFILES_PROFILES);
    if (p->n_types > 0)
        write_value_type(t, PROFILE_SAMPLE_TYPE, &p->types[type]);
    r = write_samples(t, message, p->n_types, type);
    if (r == 0)
        r = legacy_room(t, t->out, id.n + format.n + payload.n + 5 * (size_t)t->of_profile.n + 512);
    if (r != 0)
        return r;
    wire_put_fixed64_nonzero(&t->w, PROFILE_TIME_UNIX_NANO, p->number[ROW_PROFILE_TIME_NANOS]);
    wire_put_uint_nonzero(&t->w, PROFILE_DURATION_NANO, p->number[ROW_PROFILE_DURATION_NANOS]);
    if (p->has_period_type)
        write_value_type(t, PROFILE_PERIOD_TYPE, &p->period_type);
    wire_put_uint_nonzero(&t->w, PROFILE_PERIOD, p->number[ROW_PROFILE_PERIOD]);
    wire_put_uint_nonzero(&t->w, PROFILE_DROPPED_ATTRIBUTES_COUNT,
                          p->number[ROW_PROFILE_DROPPED_ATTRIBUTES_COUNT]);
    if (first) {
        wire_put_bytes_nonempty(&t->w, PROFILE_PROFILE_ID, id);
        wire_put_bytes_nonempty(&t->w, PROFILE_ORIGINAL_PAYLOAD_FORMAT, format);
        wire_put_bytes_nonempty(&t->w, PROFILE_ORIGINAL_PAYLOAD, payload);
    }
    wire_put_packed32(&t->w, PROFILE_ATTRIBUTE_INDICES, t->of_profile.p, t->of_profile.n);
    wire_end(&t->w, mark);
    return 0;
}

/* The type a reader should show first. 1.7 has its index, 1.5 its name. */
static uint32_t default_type(const struct legacy *t, const struct old_profile *p)
{
    uint64_t index = p->number[ROW_PROFILE_DEFAULT_TYPE_INDEX],
             name = p->number[ROW_PROFILE_DEFAULT_TYPE_STRINDEX];
    for (uint32_t i = 0; i < p->n_types && name != 0; i++)
        if (string_at(t, p->types[i].type) == string_at(t, name))
            return i;
    return index < p->n_types ? (uint32_t)index : 0;
}

int legacy_profile_1_7(struct legacy *t, struct bytes message)
{
    struct old_profile p = {0};
    int r = t->from == PROFILES_LAYOUT_1_5 ? legacy_read_source(t, message) : 0;
    if (r == 0)
        r = read_profile(t, message, &p);
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
