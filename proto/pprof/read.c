/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One pass over the fields of the profile takes the strings, since all other messages refer to them, and
 * remembers where the others are that are no samples; then come mappings, functions and what the profile has
 * once; then locations, which refer to these. Samples, the largest part by far, are read one at a time
 * afterwards.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "proto/base/macros.h"
#include "proto/pprof/fields.h"
#include "proto/pprof/pprof.h"

void pprof_init(struct pprof *p, struct budget *budget)
{
    *p = (struct pprof){0};
    p->strings.budget = p->types.budget = p->mappings.budget = p->functions.budget = budget;
    p->locations.budget = p->lines.budget = p->comments.budget = budget;
    p->stack.budget = p->labels.budget = p->entries.budget = budget;
    p->mapping_ids.places.budget = p->function_ids.places.budget = p->location_ids.places.budget = budget;
}

void pprof_release(struct pprof *p)
{
    vec_release(&p->strings);
    vec_release(&p->types);
    vec_release(&p->mappings);
    vec_release(&p->functions);
    vec_release(&p->locations);
    vec_release(&p->lines);
    vec_release(&p->comments);
    vec_release(&p->stack);
    vec_release(&p->labels);
    vec_release(&p->entries);
    idmap_release(&p->mapping_ids.places);
    idmap_release(&p->function_ids.places);
    idmap_release(&p->location_ids.places);
}

static void clear(struct pprof *p, struct bytes body)
{
    vec_clear(&p->strings);
    vec_clear(&p->types);
    vec_clear(&p->mappings);
    vec_clear(&p->functions);
    vec_clear(&p->locations);
    vec_clear(&p->lines);
    vec_clear(&p->comments);
    vec_clear(&p->entries);
    pprof_ids_clear(&p->mapping_ids);
    pprof_ids_clear(&p->function_ids);
    pprof_ids_clear(&p->location_ids);
    p->body = body;
    p->drop_frames = p->keep_frames = p->doc_url = p->default_type = p->n_samples = 0;
    p->period_type = (struct pprof_type){0};
    p->most_lines = 1;
    p->period = p->time_nanos = p->duration_nanos = 0;
}

/* ---- one message ------------------------------------------------------------------------------ */

/* The message being read, for errors: "location[3]", or "sample[3].label[1]". */
struct place {
    const struct pprof_message *message;
    uint32_t number;
    const struct place *in;
};

static int fail(struct error *e, const struct place *at, const char *field, const char *what)
{
    error_set(e, 0, "%s[%u]%s%s: %s", at->message->name, at->number, field ? "." : "", field ? field : "",
              what);
    if (at->in)
        error_prefix(e, 0, "%s[%u].", at->in->message->name, at->in->number);
    return PPROF_MALFORMED;
}

static int fail_reference(struct error *e, const struct place *at, const char *field, uint64_t id)
{
    char what[64];
    snprintf(what, sizeof what, "there is no %" PRIu64, id);
    return fail(e, at, field, what);
}

/* Puts the value of a field where it belongs in `base`. */
static int take(const struct pprof *p, const struct pprof_field *field, uint64_t value, void *base,
                const struct place *at, struct error *e)
{
    void *to = (uint8_t *)base + field->offset;
    switch (field->kind) {
    case PPROF_U64: *(uint64_t *)to = value; return 0;
    case PPROF_I64: *(int64_t *)to = (int64_t)value; return 0;
    case PPROF_FLAG: *(bool *)to = value != 0; return 0;
    case PPROF_STRING:
        if (value >= p->strings.n)
            return fail_reference(e, at, field->name, value);
        *(uint32_t *)to = (uint32_t)value;
        return 0;
    /* A mapping that is not there is none: google/pprof's reader takes such profiles, and they exist. */
    case PPROF_MAPPING: *(uint32_t *)to = pprof_ids_place(&p->mapping_ids, value); return 0;
    case PPROF_FUNCTION:
        *(uint32_t *)to = pprof_ids_place(&p->function_ids, value);
        return *(uint32_t *)to || value == 0 ? 0 : fail_reference(e, at, field->name, value);
    case PPROF_UNKNOWN:
    case PPROF_OTHER: return 0;
    }
    return 0;
}

/* A scalar field of a message; anything else is passed over. */
static inline int take_field(const struct pprof *p, const struct wire_field *f, void *base,
                             const struct place *at, struct error *e)
{
    const struct pprof_message *m = at->message;
    if (f->number >= m->n_fields || m->fields[f->number].kind == PPROF_UNKNOWN ||
        m->fields[f->number].kind == PPROF_OTHER)
        return 0;
    if (f->type != WIRE_VARINT)
        return fail(e, at, m->fields[f->number].name, "no varint");
    return take(p, &m->fields[f->number], f->value, base, at, e);
}

/* Reads a message of scalars into `base`, which is zero. */
static int read_message(const struct pprof *p, struct bytes body, void *base, const struct place *at,
                        struct error *e)
{
    struct wire_reader reader = wire_reader(body);
    struct wire_field f;
    int r, wire;
    while ((wire = wire_next_short(&reader, &f)) == 0)
        if ((r = take_field(p, &f, base, at, e)) != 0)
            return r;
    return wire == WIRE_MALFORMED ? fail(e, at, NULL, "no protobuf message, or cut off") : 0;
}

static int add_id(struct pprof_ids *ids, uint64_t id, const struct place *at, struct error *e)
{
    int r = pprof_ids_add(ids, id);
    return r == PPROF_ID_TAKEN ? fail(e, at, "id", id ? "another entry has it" : "0 is no id") : r;
}

/* ---- the profile ------------------------------------------------------------------------------ */

/* A field of the profile with a message in it is of type LEN. */
static int expect_message(const struct wire_field *f, struct error *e)
{
    return f->type == WIRE_LEN
               ? 0
               : error_set(e, PPROF_MALFORMED, "%s: no message", pprof_profile.fields[f->number].name);
}

typedef int each_field(struct pprof *p, const struct wire_field *f, struct error *e);

/* All are well-formed. */
static int each_entry(struct pprof *p, each_field *pass, struct error *e)
{
    struct wire_field f;
    int r = 0;
    for (uint32_t i = 0; i < p->entries.n && r == 0; i++) {
        struct wire_reader reader = {p->entries.p[i], p->body.p + p->body.n};
        r = wire_next_short(&reader, &f);
        r = r != 0 ? r : pass(p, &f, e);
    }
    return r;
}

static int each(struct pprof *p, each_field *pass, struct error *e)
{
    struct wire_reader reader = wire_reader(p->body);
    struct wire_field f;
    int r = 0, wire;
    while (r == 0 && (wire = wire_next_short(&reader, &f)) == 0) {
        r = pass(p, &f, e);
        mapping_used(p->pages, (size_t)(reader.p - f.from));
    }
    if (r == 0 && wire == WIRE_MALFORMED)
        r = error_set(e, PPROF_MALFORMED, "no pprof, or cut off: no protobuf from byte %zu on",
                      (size_t)(reader.p - p->body.p));
    return r;
}

static int read_strings(struct pprof *p, const struct wire_field *f, struct error *e)
{
    if (likely(f->number == PROFILE_SAMPLE)) {
        p->n_samples++;
        return 0;
    }
    if (f->number != PROFILE_STRING_TABLE)
        return vec_append(&p->entries, f->from);
    int r = expect_message(f, e);
    if (r == 0 && p->strings.n == 0 && f->bytes.n > 0)
        r = error_set(e, PPROF_MALFORMED, "string_table[0]: not empty");
    return r != 0 ? r : vec_append(&p->strings, f->bytes);
}

static int read_type(struct pprof *p, const struct wire_field *f, struct error *e)
{
    struct pprof_type type = {0};
    struct place at = {&pprof_value_type, p->types.n};
    if (p->types.n == PPROF_TYPES_MAX)
        return error_set(e, PPROF_MALFORMED, "sample_type: more than %u", PPROF_TYPES_MAX);
    int r = read_message(p, f->bytes, &type, &at, e);
    return r != 0 ? r : vec_append(&p->types, type);
}

static int read_mapping(struct pprof *p, const struct wire_field *f, struct error *e)
{
    struct pprof_mapping mapping = {0};
    struct place at = {&pprof_mapping, p->mappings.n};
    int r = read_message(p, f->bytes, &mapping, &at, e);
    if (r == 0)
        r = add_id(&p->mapping_ids, mapping.id, &at, e);
    return r != 0 ? r : vec_append(&p->mappings, mapping);
}

static int read_function(struct pprof *p, const struct wire_field *f, struct error *e)
{
    struct pprof_function function = {0};
    struct place at = {&pprof_function, p->functions.n};
    int r = read_message(p, f->bytes, &function, &at, e);
    if (r == 0)
        r = add_id(&p->function_ids, function.id, &at, e);
    return r != 0 ? r : vec_append(&p->functions, function);
}

static int read_comments(struct pprof *p, const struct wire_field *f, struct error *e)
{
    struct wire_rest rest = {0};
    uint64_t string;
    int r = 0, wire;
    while (r == 0 && (wire = wire_next_repeated(f, WIRE_VARINT, &rest, &string)) == 0)
        r = p->comments.n == PPROF_COMMENTS_MAX
                ? error_set(e, PPROF_MALFORMED, "comment: more than %u", PPROF_COMMENTS_MAX)
            : string < p->strings.n
                ? vec_append(&p->comments, (uint32_t)string)
                : error_set(e, PPROF_MALFORMED, "comment[%u]: there is no %" PRIu64, p->comments.n, string);
    if (r == 0 && wire == WIRE_MALFORMED)
        r = error_set(e, PPROF_MALFORMED, "comment[%u]: no varint", p->comments.n);
    return r;
}

static int read_tables(struct pprof *p, const struct wire_field *f, struct error *e)
{
    static const struct place profile = {&pprof_profile, 0}, period_type = {&pprof_value_type, 0, &profile};
    switch (f->number) {
    case PROFILE_SAMPLE_TYPE:
    case PROFILE_MAPPING:
    case PROFILE_FUNCTION:
    case PROFILE_PERIOD_TYPE: {
        int r = expect_message(f, e);
        return r != 0                             ? r
               : f->number == PROFILE_SAMPLE_TYPE ? read_type(p, f, e)
               : f->number == PROFILE_MAPPING     ? read_mapping(p, f, e)
               : f->number == PROFILE_FUNCTION    ? read_function(p, f, e)
                                               : read_message(p, f->bytes, &p->period_type, &period_type, e);
    }
    case PROFILE_COMMENT: return read_comments(p, f, e);
    case PROFILE_TIME_NANOS:
        if (p->time_nanos)
            return error_set(e, PPROF_MALFORMED,
                             "time_nanos: a second one: these are profiles one behind the other");
        /* fall through */
    default: return take_field(p, f, p, &profile, e);
    }
}

static int read_location(struct pprof *p, const struct wire_field *profile_field, struct error *e)
{
    if (profile_field->number != PROFILE_LOCATION)
        return 0;
    struct pprof_location location = {.line = p->lines.n};
    struct place at = {&pprof_location, p->locations.n};
    struct wire_reader reader = wire_reader(profile_field->bytes);
    struct wire_field f;
    int wire, r = expect_message(profile_field, e);
    while (r == 0 && (wire = wire_next_short(&reader, &f)) == 0) {
        struct pprof_line line = {0};
        struct place inner = {&pprof_line, location.n_lines, &at};
        if (f.number != LOCATION_LINE) {
            r = take_field(p, &f, &location, &at, e);
        } else if (f.type != WIRE_LEN) {
            r = fail(e, &inner, NULL, "no message");
        } else {
            r = read_message(p, f.bytes, &line, &inner, e);
            if (r == 0 && line.function == 0)
                r = fail(e, &inner, "function_id", "none");
            location.n_lines++;
            r = r != 0 ? r : vec_append(&p->lines, line);
        }
    }
    if (r == 0 && wire == WIRE_MALFORMED)
        r = fail(e, &at, NULL, "no protobuf message, or cut off");
    if (r == 0)
        r = add_id(&p->location_ids, location.id, &at, e);
    p->most_lines = max_of(p->most_lines, location.n_lines);
    return r != 0 ? r : vec_append(&p->locations, location);
}

int pprof_read(struct pprof *p, struct bytes body, struct error *e)
{
    clear(p, body);
    int r = body.n ? each(p, read_strings, e) : error_set(e, PPROF_MALFORMED, "empty");
    if (r == 0 && p->strings.n == 0)
        r = vec_append(&p->strings, (struct bytes){0}); /* index 0 is "" also where nothing says so */
    r = r != 0 ? r : each_entry(p, read_tables, e);
    r = r != 0 ? r : each_entry(p, read_location, e);
    if (r == 0 && p->types.n == 0)
        r = error_set(e, PPROF_MALFORMED, "sample_type: none");
    return r;
}

bool pprof_is_likely(struct bytes body)
{
    struct wire_reader reader = wire_reader(body);
    struct wire_field f;
    while (wire_next(&reader, &f) == 0) {
        if (f.number == PROFILE_STRING_TABLE)
            return f.type == WIRE_LEN;
        /* What was cut off has no strings, which writers put last. No field of ResourceProfiles is a varint.
         */
        if (f.number == PROFILE_SAMPLE_TYPE && f.type == WIRE_LEN && f.bytes.n > 0 &&
            (f.bytes.p[0] == WIRE_TAG(1, WIRE_VARINT) || f.bytes.p[0] == WIRE_TAG(2, WIRE_VARINT)))
            return true;
    }
    return false;
}

/* ---- samples ---------------------------------------------------------------------------------- */

static const struct pprof_field sample_fields[] = {
    [1] = {"location_id", PPROF_OTHER, 0}, [2] = {"value", PPROF_OTHER, 0}, [3] = {"label", PPROF_OTHER, 0}};
static const struct pprof_message sample_message = {"sample", sample_fields, ARRAY_LEN(sample_fields)};

/* The varint at the front of [*p, end), of at most four bytes, which nearly all are; false: it is longer, or
 * cut off. */
static inline bool take_short_varint(const uint8_t **p, const uint8_t *end, uint64_t *ret)
{
    const uint8_t *at = *p;
    uint64_t value = 0;
    for (uint32_t shift = 0; shift < 28 && at < end; shift += 7) {
        value |= (uint64_t)(*at & 0x7f) << shift;
        if (*at++ < 0x80) {
            *ret = value;
            *p = at;
            return true;
        }
    }
    return false;
}

/* A packed list's ids as far as they are short: what is left in *f is for the general way. */
static int read_packed_stack(struct pprof *p, struct wire_field *f, const struct place *at, struct error *e)
{
    const uint8_t *from = f->bytes.p, *end = f->bytes.p + f->bytes.n;
    uint64_t id;
    int r = f->bytes.n <= UINT32_MAX ? vec_reserve(&p->stack, (uint64_t)p->stack.n + f->bytes.n) : -ENOMEM;
    while (r == 0 && take_short_varint(&from, end, &id)) {
        uint32_t place = pprof_ids_place(&p->location_ids, id);
        p->stack.p[p->stack.n] = place;
        p->stack.n += place != 0;
        r = place ? 0 : fail_reference(e, at, "location_id", id);
    }
    f->bytes = bytes_of(from, (size_t)(end - from));
    return r;
}

static int read_stack(struct pprof *p, struct wire_field *f, const struct place *at, struct error *e)
{
    if (f->type == WIRE_LEN && f->bytes.n > 0) {
        int packed = read_packed_stack(p, f, at, e);
        if (packed != 0 || f->bytes.n == 0)
            return packed;
    }
    struct wire_rest rest = {0};
    uint64_t id;
    int wire, r = 0;
    while (r == 0 && (wire = wire_next_repeated(f, WIRE_VARINT, &rest, &id)) == 0) {
        uint32_t place = pprof_ids_place(&p->location_ids, id);
        r = place ? vec_append(&p->stack, place) : fail_reference(e, at, "location_id", id);
    }
    return r == 0 && wire == WIRE_MALFORMED ? fail(e, at, "location_id", "no varint") : r;
}

static int read_values(struct pprof *p, struct wire_field *f, uint32_t *n, const struct place *at,
                       struct error *e)
{
    if (f->type == WIRE_LEN) { /* as above: what is short at once */
        const uint8_t *from = f->bytes.p, *end = f->bytes.p + f->bytes.n;
        uint64_t short_value;
        while (*n < p->types.n && take_short_varint(&from, end, &short_value))
            p->values[(*n)++] = (int64_t)short_value;
        f->bytes = bytes_of(from, (size_t)(end - from));
    }
    struct wire_rest rest = {0};
    uint64_t value;
    int wire, r = 0;
    while (r == 0 && (wire = wire_next_repeated(f, WIRE_VARINT, &rest, &value)) == 0) {
        if (*n == p->types.n)
            r = fail(e, at, "value", "more than there are sample types");
        else
            p->values[(*n)++] = (int64_t)value;
    }
    return r == 0 && wire == WIRE_MALFORMED ? fail(e, at, "value", "no varint") : r;
}

static int read_label(struct pprof *p, const struct wire_field *f, const struct place *at, struct error *e)
{
    struct pprof_label label = {0};
    struct place inner = {&pprof_label, p->labels.n, at};
    int r = f->type == WIRE_LEN ? read_message(p, f->bytes, &label, &inner, e)
                                : fail(e, &inner, NULL, "no message");
    return r != 0 ? r : vec_append(&p->labels, label);
}

/* One that is a single packed list may be given as it stands; what came before a second one is read then. */
static int take_stack(struct pprof *p, struct wire_field *f, const uint8_t *end, bool may_be_packed,
                      struct bytes *packed, const struct place *at, struct error *e)
{
    int r = 0;
    if (may_be_packed && !packed->p && p->stack.n == 0 && f->bytes.n > 0 &&
        f->from[0] == WIRE_TAG(SAMPLE_LOCATION_ID, WIRE_LEN)) {
        *packed = bytes_of(f->from, (size_t)(end - f->from));
        return 0;
    }
    if (packed->p) {
        struct wire_reader reader = wire_reader(*packed);
        struct wire_field first;
        *packed = (struct bytes){0};
        r = wire_next(&reader, &first);
        r = r != 0 ? r : read_stack(p, &first, at, e);
    }
    return r != 0 ? r : read_stack(p, f, at, e);
}

static int read_sample(struct pprof *p, const struct wire_field *sample, bool may_be_packed,
                       struct bytes *packed, const struct place *at, struct error *e)
{
    struct wire_reader reader = wire_reader(sample->bytes);
    struct wire_field f;
    uint32_t n_values = 0;
    int wire, r = expect_message(sample, e);
    vec_clear(&p->stack);
    vec_clear(&p->labels);
    while (r == 0 && (wire = wire_next_short(&reader, &f)) == 0)
        r = f.number == SAMPLE_LOCATION_ID ? take_stack(p, &f, reader.p, may_be_packed, packed, at, e)
            : f.number == SAMPLE_VALUE     ? read_values(p, &f, &n_values, at, e)
            : f.number == SAMPLE_LABEL     ? read_label(p, &f, at, e)
                                           : 0;
    if (r == 0 && wire == WIRE_MALFORMED)
        r = fail(e, at, NULL, "no protobuf message, or cut off");
    if (r == 0 && n_values != p->types.n)
        r = fail(e, at, "value", "fewer than there are sample types");
    return r;
}

struct pprof_samples pprof_samples(const struct pprof *p)
{
    return (struct pprof_samples){.reader = wire_reader(p->body)};
}

/* Frames at `place` (+ 1): a location without lines is one, else each line is. */
static uint32_t frames_at(const struct pprof *p, uint32_t place)
{
    return max_of(p->locations.p[place - 1].n_lines, 1u);
}

/* Whether so many locations may have more frames than a stack is taken with. */
static bool may_be_deep(const struct pprof *p, size_t locations)
{
    return (uint64_t)locations * p->most_lines > PPROF_STACK_FRAMES_MAX;
}

static int check_frames(uint64_t frames, const struct place *at, struct error *e)
{
    char what[64];
    if (frames <= PPROF_STACK_FRAMES_MAX)
        return 0;
    snprintf(what, sizeof what, "more than %u frames", PPROF_STACK_FRAMES_MAX);
    return fail(e, at, "location_id", what);
}

static int check_stack(const struct pprof *p, const struct place *at, struct error *e)
{
    uint64_t frames = 0;
    for (uint32_t i = 0; may_be_deep(p, p->stack.n) && i < p->stack.n; i++)
        frames += frames_at(p, p->stack.p[i]);
    return check_frames(frames, at, e);
}

int pprof_next(struct pprof *p, struct pprof_samples *at, struct pprof_sample *ret, struct error *e)
{
    struct wire_field f;
    while (wire_next_short(&at->reader, &f) == 0) {
        mapping_used(p->pages, (size_t)(at->reader.p - f.from));
        if (f.number != PROFILE_SAMPLE)
            continue;
        struct place place = {&sample_message, at->n++};
        struct bytes packed = {0};
        int r = read_sample(p, &f, at->packed && !p->location_ids.is_free, &packed, &place, e);
        if (r == 0)
            r = check_stack(p, &place, e);
        *ret = (struct pprof_sample){p->stack.p, p->stack.n, p->values, p->labels.p, p->labels.n, packed};
        return r;
    }
    return PPROF_END;
}

int pprof_check_packed(const struct pprof *p, const struct pprof_samples *at, struct bytes packed,
                       struct error *e)
{
    const struct place place = {&sample_message, at->n - 1};
    struct wire_reader reader = wire_reader(packed);
    struct wire_field f;
    uint64_t id = 0;
    int wire = wire_next_short(&reader, &f);
    if (wire != 0)
        return fail(e, &place, "location_id", "no varint");
    const uint8_t *from = f.bytes.p, *end = f.bytes.p + f.bytes.n;
    const bool counts = may_be_deep(p, f.bytes.n);
    uint64_t frames = 0;
    reader = wire_reader(f.bytes);
    while (wire == 0 && from < end) {
        if (!take_short_varint(&from, end, &id)) {
            reader.p = from;
            wire = wire_next_varint(&reader, &id);
            from = reader.p;
        }
        const uint32_t location = wire == 0 ? pprof_ids_place(&p->location_ids, id) : 0;
        if (wire == 0 && location == 0)
            return fail_reference(e, &place, "location_id", id);
        if (counts && wire == 0)
            frames += frames_at(p, location);
    }
    return wire == 0 ? check_frames(frames, &place, e) : fail(e, &place, "location_id", "no varint");
}
