/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A subset in another form: what readers need that refuse, misread or drop what the protocol allows. Which of
 * them needs what stands with who chooses the form (gateway/export/otlp/backend.c).
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "proto/base/macros.h"
#include "proto/otlp/view/value.h"
#include "proto/otlp/write/subset_parts.h"
#include "proto/wire/reader.h"

int subset_shape(struct subset *s, const struct subset_form *form, struct arena *memory)
{
    const struct profiles *p = s->p;
    uint32_t n_times = 0;
    s->form = form;
    if (form->plain_types &&
        !(s->types = arena_calloc(memory, (size_t)p->string.n / 64 + 1, sizeof *s->types)))
        return -ENOMEM;
    for (uint32_t i = 0; form->clamps && i < p->sample.n; i++)
        n_times = max_of(n_times, p->sample.n_timestamps[i]);
    if (n_times > 0 && !(s->times = arena_alloc(memory, n_times * sizeof *s->times)))
        return -ENOMEM;
    return 0;
}

static bool is_one_of(struct bytes text, const char *const *list)
{
    for (; list && *list; list++)
        if (bytes_is(text, *list))
            return true;
    return false;
}

/* ---- strings and stacks ---- */

void subset_put_string(struct subset *s, uint32_t i)
{
    const struct bytes text = profiles_string(s->p, i);
    const bool is_type = s->types && subset_has(s->types, i);
    wire_put_bytes(&s->w, DICTIONARY_STRING_TABLE, text);
    if (!is_type || s->w.failed)
        return;
    for (uint8_t *c = s->w.out->p + s->w.out->n - text.n; c < s->w.out->p + s->w.out->n; c++)
        *c = *c == '-' ? '_' : *c;
}

bool subset_is_blank(const struct subset *s, uint32_t location)
{
    const struct profiles *p = s->p;
    return s->form->no_blank_frames && p->location.address[location] == 0 &&
           p->location.lines_at[location] == p->location.lines_at[location + 1];
}

uint32_t subset_stack_end(const struct subset *s, uint32_t from, uint32_t to)
{
    const struct profiles *p = s->p;
    uint32_t frames = 0;
    if (s->form->frames_max == 0)
        return to;
    for (; from < to; from++) {
        const uint32_t i = p->stack_location.location[from];
        const uint32_t lines = p->location.lines_at[i + 1] - p->location.lines_at[i];
        frames += max_of(lines, 1u);
        if (frames > s->form->frames_max)
            break;
    }
    return from;
}

/* ---- samples ---- */

static bool is_count_of_samples(const struct subset *s, uint32_t profile)
{
    const struct profiles *p = s->p;
    return bytes_is(profiles_string(p, p->profile.type[profile]), "samples") &&
           bytes_is(profiles_string(p, p->profile.unit[profile]), "count");
}

/* The timestamps, none of them before the profile or behind its end. */
static void put_clamped(struct subset *s, uint32_t profile, uint32_t sample, struct bytes message)
{
    const uint64_t begin = s->p->profile.time_unix_nano[profile];
    uint64_t end, value;
    if (__builtin_add_overflow(begin, s->p->profile.duration_nano[profile], &end))
        end = UINT64_MAX;
    struct wire_reader in = wire_reader(message);
    struct wire_field f;
    uint32_t n = 0;
    while (wire_next(&in, &f) == 0) {
        struct wire_rest rest = {0};
        if (f.number == SAMPLE_VALUES)
            wire_put_raw(&s->w, bytes_of(f.from, (size_t)(in.p - f.from)));
        while (f.number == SAMPLE_TIMESTAMPS_UNIX_NANO && n < s->p->sample.n_timestamps[sample] &&
               wire_next_repeated(&f, WIRE_I64, &rest, &value) == 0)
            s->times[n++] = max_of(begin, min_of(value, end));
    }
    wire_put_packed_fixed64(&s->w, SAMPLE_TIMESTAMPS_UNIX_NANO, s->times, n);
}

bool subset_put_worth(struct subset *s, uint32_t profile, uint32_t sample, struct bytes message)
{
    const uint32_t values = s->p->sample.n_values[sample], times = s->p->sample.n_timestamps[sample];
    const int64_t worth = profiles_sample_value(s->p, sample);
    const bool is_plain = times == 0 && values == 1;
    const bool is_count = values == 0 && is_count_of_samples(s, profile);
    if ((s->form->untimed && !is_plain && !is_count) || (s->form->sums && values > 1 && times == 0)) {
        wire_put_packed64(&s->w, SAMPLE_VALUES, &worth, 1);
        return true;
    }
    if (!s->form->clamps || times == 0)
        return false;
    put_clamped(s, profile, sample, message);
    return true;
}

/* ---- attributes ---- */

struct attr_value subset_value(const struct subset *s, struct bytes key, const struct attr_value *value,
                               char *room)
{
    if (value->kind != ATTR_INT || !is_one_of(key, s->form->texts))
        return *value;
    const int n = snprintf(room, 24, "%" PRId64, value->integer);
    return (struct attr_value){.kind = ATTR_STRING, .text = bytes_of(room, (size_t)n)};
}

static void put_attribute(struct subset *s, struct bytes key, const struct attr_value *value)
{
    char room[24];
    const struct attr_value written = subset_value(s, key, value, room);
    value_write_pair(&s->w, s->p, RESOURCE_ATTRIBUTES, key, &written);
}

static struct bytes text_of(const struct subset *s, uint32_t resource, const char *key)
{
    const struct profiles *p = s->p;
    for (uint32_t i = p->resource.attrs_at[resource]; i < p->resource.attrs_at[resource + 1]; i++) {
        const struct attr *a = &p->key_value.attr[i];
        if (a->value.kind == ATTR_STRING && bytes_is(a->key, key))
            return a->value.text;
    }
    return bytes_of(NULL, 0);
}

/* The executable's name, or the last part of its path. */
static struct bytes executable_of(const struct subset *s, uint32_t resource)
{
    struct bytes name = text_of(s, resource, "process.executable.name");
    if (name.n == 0)
        name = text_of(s, resource, "process.executable.path");
    const uint8_t *slash = name.n ? memrchr(name.p, '/', name.n) : NULL;
    return slash ? bytes_from(name, (size_t)(slash + 1 - name.p)) : name;
}

bool subset_put_resource(struct subset *s, uint32_t resource)
{
    const struct profiles *p = s->p;
    const struct subset_form *form = s->form;
    if (!form->without && !form->texts && !form->names_service)
        return false;
    const bool is_nameless = form->names_service && text_of(s, resource, "service.name").n == 0;
    for (uint32_t i = p->resource.attrs_at[resource]; i < p->resource.attrs_at[resource + 1]; i++) {
        const struct bytes key = p->key_value.attr[i].key; /* a name without text goes: keys are unique */
        if (!is_one_of(key, form->without) && !(is_nameless && bytes_is(key, "service.name")))
            put_attribute(s, key, &p->key_value.attr[i].value);
    }
    if (is_nameless) {
        const struct bytes executable = executable_of(s, resource);
        put_attribute(s, BYTES_LIT("service.name"),
                      &(struct attr_value){.kind = ATTR_STRING,
                                           .text =
                                               executable.n > 0 ? executable : BYTES_LIT("unknown_service")});
    }
    struct wire_reader in = wire_reader(p->resource.raw[resource]);
    struct wire_field f;
    while (wire_next(&in, &f) == 0)
        if (f.number != RESOURCE_ATTRIBUTES)
            wire_put_raw(&s->w, bytes_of(f.from, (size_t)(in.p - f.from)));
    return true;
}
