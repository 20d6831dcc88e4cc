/* SPDX-License-Identifier: Apache-2.0 */
/* needs: proto/schema */
#include "proto/otlp/write/subset.h"

#include "tests/lib/unit.h"
#include "tests/unit/proto/otlp/view/handmade.h"

enum { EMPTY, TYPE, UNIT_OF_IT, NAME, SAMPLES, COUNT, STRINGS };
static const char *const strings[STRINGS] = {"", "alloc-space", "by-tes", "a-name", "samples", "count"};

/* Locations 1 (a line), 2 (blank), 3 (three lines inlined), 4 (an address alone). */
static void put_dictionary(struct wire_writer *w, const uint32_t *stack, uint32_t n)
{
    IN(w, 2)
    {
        wire_put_bytes(w, 2, bytes_of("", 0));
        IN(w, 2) IN(w, 3) wire_put_uint(w, 1, 1);
        IN(w, 2) wire_put_uint(w, 9, 0);
        IN(w, 2)
        {
            for (int i = 0; i < 3; i++)
                IN(w, 3) wire_put_uint(w, 1, 1);
        }
        IN(w, 2) wire_put_uint(w, 2, 0x1234);
        wire_put_bytes(w, 3, bytes_of("", 0));
        IN(w, 3) wire_put_uint(w, 1, NAME);
        wire_put_bytes(w, 4, bytes_of("", 0));
        for (int i = 0; i < STRINGS; i++)
            put_str(w, 5, strings[i]);
        wire_put_bytes(w, 7, bytes_of("", 0));
        IN(w, 7) wire_put_packed32(w, 1, stack, n);
    }
}

static void put_attr(struct wire_writer *w, const char *key, const char *text, int64_t number)
{
    IN(w, 1)
    {
        put_str(w, 1, key);
        IN(w, 2)
        {
            if (text)
                put_str(w, 1, text);
            else
                wire_put_int(w, 3, number);
        }
    }
}

struct sample {
    int64_t values[3];
    uint32_t n_values;
    uint64_t times[3];
    uint32_t n_times;
};

/* A profile from 1000 to 1500. */
static void put_profile(struct wire_writer *w, uint32_t type, uint32_t unit, const struct sample *sample)
{
    IN(w, 1) wire_put_uint(w, 1, type), wire_put_uint(w, 2, unit);
    IN(w, 2)
    {
        wire_put_uint(w, 1, 1);
        if (sample->n_values)
            wire_put_packed64(w, 4, sample->values, sample->n_values);
        if (sample->n_times)
            wire_put_packed_fixed64(w, 5, sample->times, sample->n_times);
    }
    wire_put_fixed64(w, 3, 1000);
    wire_put_uint(w, 4, 500);
}

static const struct sample one = {.values = {7}, .n_values = 1};

/* All of it in that form; the caller's to free. */
static Request *shaped(struct made *m, const struct subset_form *form)
{
    ck_assert_msg(made_decode(m) == 0, "%s", m->e.text);
    cleanup(arena_release) struct arena scratch = ARENA_INIT(NULL);
    cleanup(buffer_release) struct buffer out = BUFFER_INIT(0);
    struct subset *s = unit_made(subset_new(&m->v, NULL, &scratch));
    ck_assert_int_eq(subset_shape(s, form, &scratch), 0);
    ck_assert_int_eq(subset_write(s, NULL, 0, m->v.sample.n, &out), 0);
    Request *q = unit_made(request_unpack(out.p, out.n));
    return q;
}

static const Profile *profile_of(const Request *q)
{
    return q->resource_profiles[0]->scope_profiles[0]->profiles[0];
}

/* ---- what is measured ---- */

static Request *with_sample(uint32_t type, uint32_t unit, const struct sample *sample,
                            const struct subset_form *form)
{
    cleanup(made_end) struct made m;
    struct wire_writer *w = made_begin(&m);
    IN(w, 1) IN(w, 2) IN(w, 2) put_profile(w, type, unit, sample);
    put_dictionary(w, (uint32_t[]){1}, 1);
    Request *q = shaped(&m, form);
    return q;
}

UNIT(hyphens_go_from_types_and_from_nothing_else)
{
    for (int plain = 0; plain < 2; plain++) {
        Request *q = with_sample(TYPE, UNIT_OF_IT, &one, &(const struct subset_form){.plain_types = plain});
        char **string = q->dictionary->string_table;
        const Profile *p = profile_of(q);
        ck_assert_str_eq(string[p->sample_type->type_strindex], plain ? "alloc_space" : "alloc-space");
        ck_assert_str_eq(string[p->sample_type->unit_strindex], plain ? "by_tes" : "by-tes");
        ck_assert_str_eq(string[q->dictionary->function_table[1]->name_strindex], "a-name");
        request_free(q);
    }
}

UNIT(times_are_brought_into_their_profile)
{
    const struct sample s = {.values = {1, 2, 3}, .n_values = 3, .times = {999, 1200, 1501}, .n_times = 3};
    Request *q = with_sample(TYPE, UNIT_OF_IT, &s, &(const struct subset_form){.clamps = true});
    const Sample *have = profile_of(q)->samples[0];
    ck_assert_uint_eq(have->n_timestamps_unix_nano, 3);
    ck_assert_uint_eq(have->timestamps_unix_nano[0], 1000);
    ck_assert_uint_eq(have->timestamps_unix_nano[1], 1200);
    ck_assert_uint_eq(have->timestamps_unix_nano[2], 1500);
    ck_assert_uint_eq(have->n_values, 3);
    ck_assert_int_eq(have->values[2], 3);
    request_free(q);
}

UNIT(a_profile_that_ends_behind_all_time_holds_every_later_one)
{
    cleanup(made_end) struct made m;
    struct wire_writer *w = made_begin(&m);
    IN(w, 1) IN(w, 2) IN(w, 2)
    {
        IN(w, 2)
        {
            wire_put_uint(w, 1, 1);
            wire_put_packed_fixed64(w, 5, (uint64_t[]){5, UINT64_MAX - 1}, 2);
        }
        wire_put_fixed64(w, 3, 1000);
        wire_put_uint(w, 4, UINT64_MAX);
    }
    put_dictionary(w, (uint32_t[]){1}, 1);
    Request *q = shaped(&m, &(const struct subset_form){.clamps = true});
    ck_assert_uint_eq(profile_of(q)->samples[0]->timestamps_unix_nano[0], 1000);
    ck_assert_uint_eq(profile_of(q)->samples[0]->timestamps_unix_nano[1], UINT64_MAX - 1);
    request_free(q);
}

UNIT(what_a_sample_is_worth_is_one_value_where_that_is_wanted)
{
    static const struct {
        struct sample sample;
        bool is_count;
        struct subset_form form;
        uint32_t values, times;
        int64_t first;
    } cases[] = {
        {{{2, 3}, 2, {0}, 0}, false, {.sums = true}, 1, 0, 5},
        {{{2, 3}, 2, {1100, 1200}, 2}, false, {.sums = true}, 2, 2, 2}, /* a time each: no sum */
        {{{2, 3}, 2, {1100, 1200}, 2}, false, {.untimed = true}, 1, 0, 5},
        {{{4}, 1, {0}, 0}, false, {.untimed = true}, 1, 0, 4},
        {{{4}, 1, {1100}, 1}, false, {.untimed = true}, 1, 0, 4},
        {{{0}, 0, {1100, 1200}, 2}, false, {.untimed = true}, 1, 0, 2},
        {{{0}, 0, {1100, 1200}, 2}, true, {.untimed = true}, 0, 2, 0}, /* samples/count may */
        {{{2, 3}, 2, {0}, 0}, false, {.clamps = true}, 2, 0, 2},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Request *q = with_sample(cases[i].is_count ? SAMPLES : TYPE, cases[i].is_count ? COUNT : UNIT_OF_IT,
                                 &cases[i].sample, &cases[i].form);
        const Sample *have = profile_of(q)->samples[0];
        ck_assert_msg(have->n_values == cases[i].values, "%zu: %zu values", i, have->n_values);
        ck_assert_msg(have->n_timestamps_unix_nano == cases[i].times, "%zu: %zu times", i,
                      have->n_timestamps_unix_nano);
        ck_assert_int_eq(have->n_values ? have->values[0] : 0, cases[i].first);
        request_free(q);
    }
}

/* ---- stacks ---- */

static uint32_t locations(const uint32_t *stack, uint32_t n, const struct subset_form *form)
{
    cleanup(made_end) struct made m;
    struct wire_writer *w = made_begin(&m);
    IN(w, 1) IN(w, 2) IN(w, 2) put_profile(w, TYPE, UNIT_OF_IT, &one);
    put_dictionary(w, stack, n);
    Request *q = shaped(&m, form);
    const uint32_t found = (uint32_t)q->dictionary->stack_table[1]->n_location_indices;
    if (found > 0) /* from the leaf: what is cut is the root */
        ck_assert_uint_eq(
            q->dictionary->location_table[q->dictionary->stack_table[1]->location_indices[0]]->n_lines,
            stack[0] == 3   ? 3
            : stack[0] == 1 ? 1
                            : 0);
    request_free(q);
    return found;
}

UNIT(deep_stacks_lose_their_root_and_inlined_frames_count)
{
    static const uint32_t stack[] = {1, 3, 1, 4};
    static const uint32_t want[] = {4, 1, 1, 1, 2, 3, 4, 4}; /* by frames_max; 0: all */
    for (uint32_t max = 0; max < 8; max++)
        ck_assert_msg(locations(stack, 4, &(const struct subset_form){.frames_max = max}) == want[max], "%u",
                      max);
}

UNIT(blank_frames_go_where_nobody_can_have_them)
{
    static const uint32_t stack[] = {1, 2, 4, 2};
    ck_assert_uint_eq(locations(stack, 4, &(const struct subset_form){.frames_max = 0}), 4);
    ck_assert_uint_eq(locations(stack, 4, &(const struct subset_form){.no_blank_frames = true}), 2);
}

/* ---- resources ---- */

static const char *attribute(const Request *q, const char *key)
{
    for (size_t i = 0; i < q->resource_profiles[0]->resource->n_attributes; i++) {
        const KeyValue *kv = q->resource_profiles[0]->resource->attributes[i];
        if (strcmp(kv->key, key) == 0)
            return kv->value ? kv->value->string_value : NULL;
    }
    return NULL;
}

/* Of a resource with these texts (NULL: not there), process.pid 42 and an unknown field. */
static Request *with_resource(const char *service, const char *name, const char *executable,
                              const struct subset_form *form)
{
    cleanup(made_end) struct made m;
    struct wire_writer *w = made_begin(&m);
    IN(w, 1)
    {
        IN(w, 1)
        {
            if (service)
                put_attr(w, "service.name", service, 0);
            if (name)
                put_attr(w, "process.executable.name", name, 0);
            if (executable)
                put_attr(w, "process.executable.path", executable, 0);
            put_attr(w, "process.pid", NULL, -42);
            wire_put_uint(w, 2, 5);
        }
        IN(w, 2) IN(w, 2) put_profile(w, TYPE, UNIT_OF_IT, &one);
    }
    put_dictionary(w, (uint32_t[]){1}, 1);
    Request *q = shaped(&m, form);
    return q;
}

UNIT(a_resource_is_called_by_its_executable)
{
    static const struct {
        const char *service, *name, *path, *want;
    } cases[] = {
        {"shop", "java", "/usr/bin/jvm", "shop"},
        {NULL, "java", "/usr/bin/jvm", "java"},
        {NULL, NULL, "/usr/bin/jvm", "jvm"},
        {NULL, NULL, "jvm", "jvm"},
        {"", "java", NULL, "java"},
        {NULL, NULL, NULL, "unknown_service"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Request *q = with_resource(cases[i].service, cases[i].name, cases[i].path,
                                   &(const struct subset_form){.names_service = true});
        unsigned names = 0; /* a key is there once */
        for (size_t k = 0; k < q->resource_profiles[0]->resource->n_attributes; k++)
            names += strcmp(q->resource_profiles[0]->resource->attributes[k]->key, "service.name") == 0;
        ck_assert_uint_eq(names, 1);
        ck_assert_str_eq(attribute(q, "service.name"), cases[i].want);
        ck_assert_uint_eq(q->resource_profiles[0]->resource->dropped_attributes_count, 5);
        request_free(q);
    }
}

UNIT(attributes_are_left_out_or_made_text_by_name)
{
    static const char *const pid[] = {"x", "process.pid", NULL};
    Request *q = with_resource("shop", NULL, NULL, &(const struct subset_form){.without = pid});
    ck_assert_uint_eq(q->resource_profiles[0]->resource->n_attributes, 1);
    ck_assert_str_eq(attribute(q, "service.name"), "shop");
    ck_assert_uint_eq(q->resource_profiles[0]->resource->dropped_attributes_count, 5);
    request_free(q);
    q = with_resource("shop", NULL, NULL, &(const struct subset_form){.texts = pid});
    ck_assert_str_eq(attribute(q, "process.pid"), "-42");
    ck_assert_str_eq(attribute(q, "service.name"), "shop");
    request_free(q);
}
