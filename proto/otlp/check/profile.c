/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>

#include "proto/otlp/check/parts.h"

#define PROFILE_ID_SIZE 16u

/* Nanoseconds since 1970: the years 2000 and 2100. */
#define YEAR_2000 946684800000000000u
#define YEAR_2100 4102444800000000000u

enum shape {
    SHAPE_NONE, /* there was no sample yet */
    SHAPE_VALUES,
    SHAPE_TIMESTAMPS,
    SHAPE_BOTH,
    SHAPE_EMPTY,
};

static const char *shape_name(int shape)
{
    static const char *const names[] = {"", "values", "timestamps", "values and timestamps", "neither"};
    return names[shape];
}

/* ---- a profile ---------------------------------------------------------------------------------- */

/* What is of interest of a profile's own fields. */
struct fields_of_profile {
    struct bytes id, payload, format;
    bool has_type, has_period_type;
    int64_t period;
    uint64_t time, duration;
};

/* Whether a ValueType names both. */
static bool is_named(const struct check *c, struct bytes b)
{
    struct wire_reader r = wire_reader(b);
    struct wire_field f;
    uint32_t string[ROWS_VALUE_TYPE] = {0};
    for (uint32_t row; (row = check_next(c, MESSAGE_VALUE_TYPE, &r, &f)) != NOWHERE;)
        string[row] = check_index(f.value);
    return check_string(c, string[ROW_VALUE_TYPE_TYPE_STRINDEX]).n > 0 &&
           check_string(c, string[ROW_VALUE_TYPE_UNIT_STRINDEX]).n > 0;
}

static void read_profile(struct check *c, struct bytes message, struct fields_of_profile *p)
{
    struct wire_reader r = wire_reader(message);
    struct wire_field f;
    vec_clear(&c->list);
    for (uint32_t row; (row = check_next(c, MESSAGE_PROFILE, &r, &f)) != NOWHERE;)
        switch (row) {
        case ROW_PROFILE_SAMPLE_TYPE: p->has_type = is_named(c, f.bytes); break;
        case ROW_PROFILE_PERIOD_TYPE: p->has_period_type = true; break;
        case ROW_PROFILE_PERIOD: p->period = (int64_t)f.value; break;
        case ROW_PROFILE_TIME_UNIX_NANO: p->time = f.value; break;
        case ROW_PROFILE_DURATION_NANO: p->duration = f.value; break;
        case ROW_PROFILE_PROFILE_ID: p->id = f.bytes; break;
        case ROW_PROFILE_ORIGINAL_PAYLOAD: p->payload = f.bytes; break;
        case ROW_PROFILE_ORIGINAL_PAYLOAD_FORMAT: p->format = f.bytes; break;
        case ROW_PROFILE_ATTRIBUTE_INDICES: check_list(c, &f); break;
        default: break;
        }
}

static void id(struct check *c, struct bytes id)
{
    if (id.n == 0)
        return;
    if (id.n != PROFILE_ID_SIZE)
        check_found(c, CHECK_PROFILE_ID, "profile_id", NOWHERE, "%zu bytes", id.n);
    else if (check_is_zeros(id))
        check_found(c, CHECK_PROFILE_ID_ZERO, "profile_id", NOWHERE, "%s", "");
    else if (check_set_add(c, &c->profile_ids, id) != NOWHERE)
        check_found(c, CHECK_PROFILE_ID_TWICE, "profile_id", NOWHERE, "%s", "");
}

static void payload(struct check *c, const struct fields_of_profile *p)
{
    if ((p->payload.n > 0) != (p->format.n > 0))
        check_found(c, CHECK_PAYLOAD_PAIR, p->payload.n > 0 ? "original_payload" : "original_payload_format",
                    NOWHERE, "%s", "alone");
    if (p->format.n > 0 && !bytes_is(p->format, "pprof") && !bytes_is(p->format, "jfr") &&
        !bytes_is(p->format, "linux_perf"))
        check_found(c, CHECK_PAYLOAD_FORMAT, "original_payload_format", NOWHERE, "%.*s",
                    (int)min_of(p->format.n, (size_t)64), (const char *)p->format.p);
}

static void times(struct check *c, const struct fields_of_profile *p)
{
    if (p->duration > UINT64_MAX - p->time)
        check_found(c, CHECK_TIME_OVERFLOW, "duration_nano", NOWHERE, "%" PRIu64 " from %" PRIu64,
                    p->duration, p->time);
    if (p->time > 0 && (p->time < YEAR_2000 || p->time > YEAR_2100))
        check_found(c, CHECK_TIME_UNIT, "time_unix_nano", NOWHERE, "%" PRIu64, p->time);
}

void check_profile(struct check *c, struct bytes message)
{
    struct fields_of_profile p = {0};
    read_profile(c, message, &p);
    check_attribute_list(c, PLACE_PROFILE);
    c->profile.begins = p.time;
    c->profile.ends = p.duration > UINT64_MAX - p.time ? UINT64_MAX : p.time + p.duration;
    c->profile.shape = SHAPE_NONE;
    id(c, p.id);
    payload(c, &p);
    times(c, &p);
    if (!p.has_type)
        check_found(c, CHECK_SAMPLE_TYPE, "sample_type", NOWHERE, "%s", "");
    if (p.period < 0)
        check_found(c, CHECK_PERIOD, "period", NOWHERE, "%" PRId64, p.period);
    if (p.period != 0 && !p.has_period_type)
        check_found(c, CHECK_PERIOD_TYPE, "period_type", NOWHERE, "%s", "");
}

/* ---- a sample ----------------------------------------------------------------------------------- */

struct fields_of_sample {
    uint32_t stack, link;
    uint32_t n_values, n_timestamps;
};

static uint32_t how_many(const struct wire_field *f, enum wire_type single)
{
    struct wire_rest rest = {0};
    uint64_t v;
    uint32_t n = 0;
    while (wire_next_repeated(f, single, &rest, &v) == 0)
        n++;
    return n;
}

static void timestamps(struct check *c, const struct wire_field *f, uint32_t first)
{
    struct wire_rest rest = {0};
    uint64_t v;
    for (uint32_t i = first; wire_next_repeated(f, WIRE_I64, &rest, &v) == 0; i++)
        if (v < c->profile.begins || v >= c->profile.ends)
            check_found(c, CHECK_TIMESTAMP_RANGE, "timestamps_unix_nano", i,
                        "%" PRIu64 ", not in [%" PRIu64 ", %" PRIu64 ")", v, c->profile.begins,
                        c->profile.ends);
}

static void read_sample(struct check *c, struct bytes message, struct fields_of_sample *s)
{
    struct wire_reader r = wire_reader(message);
    struct wire_field f;
    vec_clear(&c->list);
    for (uint32_t row; (row = check_next(c, MESSAGE_SAMPLE, &r, &f)) != NOWHERE;)
        switch (row) {
        case ROW_SAMPLE_STACK_INDEX: s->stack = check_index(f.value); break;
        case ROW_SAMPLE_LINK_INDEX: s->link = check_index(f.value); break;
        case ROW_SAMPLE_ATTRIBUTE_INDICES: check_list(c, &f); break;
        case ROW_SAMPLE_VALUES: s->n_values += how_many(&f, WIRE_VARINT); break;
        case ROW_SAMPLE_TIMESTAMPS_UNIX_NANO:
            timestamps(c, &f, s->n_timestamps);
            s->n_timestamps += how_many(&f, WIRE_I64);
            break;
        default: break;
        }
}

/* The rules of profcheck: each sample by itself, then beside the first one. */
static void shape(struct check *c, const struct fields_of_sample *s)
{
    int shape = SHAPE_EMPTY;
    if (s->n_values > 0 && s->n_timestamps > 0) {
        shape = SHAPE_BOTH;
        if (s->n_values != s->n_timestamps)
            check_found(c, CHECK_SAMPLE_LENGTHS, NULL, NOWHERE, "%u values, %u timestamps", s->n_values,
                        s->n_timestamps);
    } else if (s->n_values > 0) {
        shape = SHAPE_VALUES;
        if (s->n_values > 1)
            check_found(c, CHECK_SAMPLE_VALUES, "values", NOWHERE, "%u", s->n_values);
    } else if (s->n_timestamps > 0) {
        shape = SHAPE_TIMESTAMPS;
    } else {
        check_found(c, CHECK_SAMPLE_EMPTY, NULL, NOWHERE, "%s", "");
    }
    if (c->profile.shape == SHAPE_NONE)
        c->profile.shape = shape;
    else if (c->profile.shape != shape)
        check_found(c, CHECK_SAMPLE_SHAPE, NULL, NOWHERE, "%s, where the first has %s", shape_name(shape),
                    shape_name(c->profile.shape));
}

/* Stack, link and the set of attributes; equal entries are one. */
static void identity(struct check *c, const struct fields_of_sample *s)
{
    for (uint32_t i = 0; i < c->list.n; i++)
        c->list.p[i] = check_same(&c->table[DICTIONARY_ATTRIBUTE_TABLE], c->list.p[i]);
    check_list_sort(c);
    if (check_failed(c, vec_append(&c->list, check_same(&c->table[DICTIONARY_STACK_TABLE], s->stack))) ||
        check_failed(c, vec_append(&c->list, check_same(&c->table[DICTIONARY_LINK_TABLE], s->link))))
        return;
    const struct bytes key = bytes_of(c->list.p, c->list.n * sizeof *c->list.p);
    if (check_set_has(&c->profile.samples, key)) {
        check_found(c, CHECK_SAMPLE_IDENTITY, NULL, NOWHERE, "%s", "");
        return;
    }
    const struct bytes kept = arena_copy(&c->identities, key);
    if (kept.p)
        check_set_add(c, &c->profile.samples, kept);
    else
        c->is_out = true;
}

void check_sample(struct check *c, struct bytes message)
{
    struct fields_of_sample s = {0};
    read_sample(c, message, &s);
    check_attribute_list(c, PLACE_SAMPLE);
    shape(c, &s);
    if (s.stack == 0)
        check_found(c, CHECK_SAMPLE_STACK, "stack_index", NOWHERE, "%s", "");
    identity(c, &s);
}
