/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/forward/split.h"

#include <errno.h>

#include "proto/otlp/write/subset.h"
#include "proto/wire/reader.h"
#include "proto/wire/writer.h"

/* What a message or list takes beside its content: a tag of one byte and a length up to 2^21 or 2^28. */
#define HEAD_SMALL 4u
#define HEAD       5u
/* What the request always has: the dictionary's head and the zero entries of seven tables; rounded up. */
#define REQUEST_FIXED 64u
/* Sample: a list of attributes that was not packed becomes packed, its head, and the mark in it. */
#define SAMPLE_EXTRA 16u
/* AnyValue around a number, and around bytes. */
#define VALUE_FIXED 16u

/* Steps an honest request takes: about one a byte written, and what is written is not many times what came,
 * dictionaries several times included. */
#define STEPS_PER_BYTE 16u
#define STEPS_MIN      (1u << 20)

/* Estimates are from above: this much over the limit (1/4) it is worth building a sample to see. */
#define DOUBT(limit) ((limit) / 4)

static uint32_t *stamps(struct arena *scratch, uint32_t n)
{
    return arena_calloc(scratch, n, sizeof(uint32_t));
}

/* Sizes of the samples' messages, which the columns do not say. */
static void measure_samples(struct split *s)
{
    const struct profiles *v = s->view;
    for (uint32_t i = 0; i < v->profile.n; i++) {
        struct wire_reader in = wire_reader(v->profile.raw[i]);
        struct wire_field f;
        uint32_t sample = v->profile.samples_at[i], end = v->profile.samples_at[i + 1];
        while (wire_next(&in, &f) == 0 && sample < end)
            if (f.number == 2 && f.type == WIRE_LEN)
                s->size[sample++] = (uint32_t)(in.p - f.from);
    }
}

int split_init(struct split *s, const struct profiles *view, const uint64_t *keep, size_t limit, size_t mark,
               struct arena *scratch)
{
    *s = (struct split){.view = view, .keep = keep, .limit = limit, .mark = mark};
    s->steps = (uint64_t)view->body.n * STEPS_PER_BYTE + STEPS_MIN;
    s->string = stamps(scratch, view->string.n);
    s->mapping = stamps(scratch, view->mapping.n);
    s->location = stamps(scratch, view->location.n);
    s->function = stamps(scratch, view->function.n);
    s->link = stamps(scratch, view->link.n);
    s->attribute = stamps(scratch, view->attribute.n);
    s->stack = stamps(scratch, view->stack.n);
    s->resource = stamps(scratch, view->resource.n);
    s->scope = stamps(scratch, view->scope.n);
    s->size = stamps(scratch, view->sample.n);
    if (!s->string || !s->mapping || !s->location || !s->function || !s->link || !s->attribute || !s->stack ||
        !s->resource || !s->scope || !s->size)
        return -ENOMEM;
    measure_samples(s);
    return 0;
}

/* ---- what entries take that the range does not have yet ------------------------------------ */

static bool is_new(struct split *s, uint32_t *stamp, uint32_t i)
{
    s->steps -= s->steps > 0;
    if (stamp[i] == s->piece)
        return false;
    stamp[i] = s->piece;
    return true;
}

/* Numbers only become smaller. */
static size_t number(uint64_t v)
{
    return 1 + wire_varint_size(v);
}

static void add_string(struct split *s, uint32_t i)
{
    if (is_new(s, s->string, i))
        s->bytes += HEAD + profiles_string(s->view, i).n;
}

static void add_attrs(struct split *s, uint32_t from, uint32_t to)
{
    const struct profiles *v = s->view;
    for (s->bytes += HEAD; from < to && s->bytes <= s->limit + DOUBT(s->limit); from++) {
        uint32_t i = v->attr_index.attribute[from];
        s->bytes += wire_varint_size(i);
        if (!is_new(s, s->attribute, i))
            continue;
        const struct attr_value *value = &v->attribute.value[i];
        bool text = value->kind == ATTR_STRING || value->kind == ATTR_ARRAY || value->kind == ATTR_KVLIST ||
                    value->kind == ATTR_BYTES;
        s->bytes += HEAD + number(v->attribute.key[i]) + number(v->attribute.unit[i]) + VALUE_FIXED +
                    (text ? value->text.n : 0);
        add_string(s, v->attribute.key[i]);
        add_string(s, v->attribute.unit[i]);
    }
}

static void add_function(struct split *s, uint32_t i)
{
    const struct profiles *v = s->view;
    if (!is_new(s, s->function, i))
        return;
    s->bytes += HEAD_SMALL + number(v->function.name[i]) + number(v->function.system_name[i]) +
                number(v->function.filename[i]) + number((uint64_t)v->function.start_line[i]);
    add_string(s, v->function.name[i]);
    add_string(s, v->function.system_name[i]);
    add_string(s, v->function.filename[i]);
}

static void add_mapping(struct split *s, uint32_t i)
{
    const struct profiles *v = s->view;
    if (!is_new(s, s->mapping, i))
        return;
    s->bytes += HEAD + number(v->mapping.memory_start[i]) + number(v->mapping.memory_limit[i]) +
                number(v->mapping.file_offset[i]) + number(v->mapping.filename[i]);
    add_string(s, v->mapping.filename[i]);
    add_attrs(s, v->mapping.attrs_at[i], v->mapping.attrs_at[i + 1]);
}

static void add_location(struct split *s, uint32_t i)
{
    const struct profiles *v = s->view;
    if (!is_new(s, s->location, i))
        return;
    s->bytes += HEAD + number(v->location.mapping[i]) + number(v->location.address[i]);
    add_mapping(s, v->location.mapping[i]);
    for (uint32_t k = v->location.lines_at[i];
         k < v->location.lines_at[i + 1] && s->bytes <= s->limit + DOUBT(s->limit); k++) {
        s->bytes += HEAD_SMALL + number(v->line.function[k]) + number((uint64_t)v->line.line[k]) +
                    number((uint64_t)v->line.column[k]);
        add_function(s, v->line.function[k]);
    }
    add_attrs(s, v->location.attrs_at[i], v->location.attrs_at[i + 1]);
}

static void add_stack(struct split *s, uint32_t i)
{
    const struct profiles *v = s->view;
    if (!is_new(s, s->stack, i))
        return;
    s->bytes += 2 * HEAD;
    for (uint32_t k = v->stack.locations_at[i];
         k < v->stack.locations_at[i + 1] && s->bytes <= s->limit + DOUBT(s->limit); k++) {
        s->bytes += wire_varint_size(v->stack_location.location[k]);
        add_location(s, v->stack_location.location[k]);
    }
}

/* ---- the tree ------------------------------------------------------------------------------ */

enum { PROFILE_PAYLOAD_FORMAT = 9, PROFILE_PAYLOAD = 10 }; /* profiles.proto, message Profile */

/* A profile's own fields, and of its payload how much they are. Remembered: a large profile is in range after
 * range. */
static void measure_profile(struct split *s, uint32_t profile)
{
    struct wire_reader in = wire_reader(s->view->profile.raw[profile]);
    struct wire_field f;
    if (s->measured == profile + 1)
        return;
    s->measured = profile + 1;
    s->own_bytes = 8 * HEAD;
    s->payload_bytes = 0;
    while (wire_next(&in, &f) == 0) {
        size_t n = (size_t)(in.p - f.from);
        if (f.number == PROFILE_PAYLOAD_FORMAT || f.number == PROFILE_PAYLOAD)
            s->payload_bytes += n;
        else if (f.number != 2)
            s->own_bytes += n;
    }
}

static void add_scope(struct split *s, uint32_t scope)
{
    const struct profiles *v = s->view;
    if (!is_new(s, s->scope, scope))
        return;
    s->bytes += 5 * HEAD + v->scope.name[scope].n + v->scope.version[scope].n + v->scope.schema_url[scope].n;
    for (uint32_t k = v->scope.attrs_at[scope]; k < v->scope.attrs_at[scope + 1]; k++)
        s->bytes += 2 * HEAD + VALUE_FIXED + v->key_value.attr[k].key.n + v->key_value.attr[k].value.text.n;
}

static void add_profile(struct split *s, uint32_t profile)
{
    const struct profiles *v = s->view;
    uint32_t scope = v->profile.scope[profile], resource = v->scope.resource[scope];
    measure_profile(s, profile);
    s->bytes += s->own_bytes;
    add_scope(s, scope);
    if (is_new(s, s->resource, resource))
        s->bytes += 3 * HEAD + v->resource.raw[resource].n + v->resource.schema_url[resource].n;
    add_string(s, v->profile.type[profile]);
    add_string(s, v->profile.unit[profile]);
    add_string(s, v->profile.period_type[profile]);
    add_string(s, v->profile.period_unit[profile]);
    add_attrs(s, v->profile.attrs_at[profile], v->profile.attrs_at[profile + 1]);
}

static void add_sample(struct split *s, uint32_t sample)
{
    const struct profiles *v = s->view;
    s->bytes += s->size[sample] + SAMPLE_EXTRA;
    add_stack(s, v->sample.stack[sample]);
    if (is_new(s, s->link, v->sample.link[sample]))
        s->bytes += HEAD_SMALL + 18 + 10;
    add_attrs(s, v->sample.attrs_at[sample], v->sample.attrs_at[sample + 1]);
}

/* ---- ranges -------------------------------------------------------------------------------- */

static bool is_kept(const struct split *s, uint32_t sample)
{
    return s->view->sample.stack[sample] != PROFILES_REJECTED && (!s->keep || subset_has(s->keep, sample));
}

/* What is being measured: the profile it came to, and whether all of that is in the range so far. */
struct walk {
    uint32_t profile;
    bool opened, whole;
};

/* Adds one sample, and its profile if it is the first of it. With the last sample of a profile that is in the
 * range as a whole, its payload is too. */
static void walk_sample(struct split *s, struct walk *w, uint32_t sample)
{
    const struct profiles *v = s->view;
    if (!w->opened) {
        add_profile(s, w->profile);
        w->opened = true;
    }
    add_sample(s, sample);
    if (w->whole && sample + 1 == v->profile.samples_at[w->profile + 1])
        s->bytes += s->payload_bytes; /* of the profile measured last: this one */
}

static void walk_to(struct split *s, struct walk *w, uint32_t sample)
{
    const struct profiles *v = s->view;
    while (sample >= v->profile.samples_at[w->profile + 1]) {
        w->profile++;
        w->opened = false;
        w->whole = true;
    }
}

/* The profile that has the sample: mostly the present one or one of the next. */
static void find_profile(struct split *s, uint32_t sample)
{
    const struct profiles *v = s->view;
    if (v->profile.samples_at[s->profile] > sample)
        s->profile = 0;
    while (sample >= v->profile.samples_at[s->profile + 1])
        s->profile++;
}

enum split_cut split_next(struct split *s, uint32_t *from, uint32_t *to)
{
    const uint32_t n = s->view->sample.n;
    while (s->next < n && !is_kept(s, s->next))
        s->next++;
    *from = s->next;
    *to = n;
    if (s->next == n)
        return SPLIT_END;
    if (s->steps == 0)
        return SPLIT_GIVEN_UP;
    find_profile(s, s->next);
    struct walk w = {.profile = s->profile, .whole = s->next == s->view->profile.samples_at[s->profile]};
    s->piece++;
    s->bytes = REQUEST_FIXED + s->mark;
    uint32_t i;
    for (i = s->next; i < n; i++) {
        walk_to(s, &w, i);
        if (!is_kept(s, i)) {
            w.whole = false;
            continue;
        }
        walk_sample(s, &w, i);
        if (s->bytes > s->limit)
            break;
    }
    if (i == s->next) { /* not even the first */
        s->next = *to = i + 1;
        return s->bytes > s->limit + DOUBT(s->limit) ? SPLIT_TOO_LARGE : SPLIT_RANGE;
    }
    s->next = *to = i;
    return SPLIT_RANGE;
}
