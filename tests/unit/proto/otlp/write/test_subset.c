/* SPDX-License-Identifier: Apache-2.0 */
/* needs: proto/schema */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>

#include "proto/base/rng.h"
#include "proto/otlp/write/subset.h"
#include "tests/lib/unit.h"
#include "tests/unit/proto/otlp/view/handmade.h"

static void subset(const struct profiles *v, const uint64_t *keep, const struct subset_mark *mark,
                   struct buffer *out)
{
    cleanup(arena_release) struct arena scratch = ARENA_INIT(NULL);
    ck_assert_int_eq(profiles_subset(v, keep, mark, &scratch, out), 0);
}

/* The samples' paragraphs of a meaning, with the profile's before each: what a subset may take away. */
static void only_kept(const char *all, const uint64_t *keep, struct buffer *out)
{
    cleanup(buffer_release) struct buffer profile = BUFFER_INIT(0);
    uint32_t sample = 0;
    bool keeping = false;
    for (const char *line = all; *line; line = strchr(line, '\n') + 1) {
        size_t n = (size_t)(strchr(line, '\n') - line) + 1;
        if (strncmp(line, "profile", 7) == 0) {
            profile.n = 0;
            buffer_add(&profile, line, n);
            keeping = false;
        } else if (strncmp(line, "  sample", 8) == 0) {
            keeping = subset_has(keep, sample++);
            if (keeping && profile.n > 0) {
                buffer_add(out, profile.p, profile.n);
                profile.n = 0;
            }
        }
        if (line[0] == ' ' && keeping)
            buffer_add(out, line, n);
    }
    ck_assert_int_eq(buffer_add(out, "", 1), 0);
}

/* No dictionary table of a subset has an entry that nothing reaches: decode it, take everything, and it stays
 * as it is. */
static void is_minimal(const struct buffer *out)
{
    cleanup(profiles_release) struct profiles v;
    autofree uint8_t *body = padded(out->p, out->n);
    struct error e = {""};
    cleanup(buffer_release) struct buffer again = BUFFER_INIT(0);
    ck_assert_int_eq(profiles_init(&v, NULL), 0);
    ck_assert_msg(profiles_decode(&v, bytes_of(body, out->n), &profiles_limits_default, &e) == 0, "%s",
                  e.text);
    subset(&v, NULL, NULL, &again);
    ck_assert(bytes_eq(buffer_bytes(&again), bytes_of(out->p, out->n)));
}

UNIT(any_subset_of_a_capture_means_what_was_kept)
{
    cleanup(profiles_release) struct profiles v;
    struct rng rng;
    rng_seed(&rng, 3);
    ck_assert_int_eq(profiles_init(&v, NULL), 0);
    static const char *const names[] = {"connector/ebpf-mixed-0003.pb", "connector/rand-01.pb",
                                        "connector/synth-multi.pb", "connector/ebpf-java-0003.pb"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        for (int percent = 0; percent <= 100; percent += 25) {
            size_t n;
            autofree unsigned char *data = unit_data(names[i], &n);
            ck_assert_int_eq(profiles_decode(&v, bytes_of(data, n), &profiles_limits_default, NULL), 0);
            autofree uint64_t *keep = calloc(SUBSET_WORDS(v.sample.n), sizeof *keep);
            for (uint32_t s = 0; s < v.sample.n; s++)
                if (rng_next(&rng) % 100 < (uint64_t)percent)
                    subset_add(keep, s);
            cleanup(buffer_release) struct buffer out = BUFFER_INIT(0), want = BUFFER_INIT(0);
            subset(&v, percent == 100 ? NULL : keep, NULL, &out);
            autofree char *all = bytes_meaning(data, n, true), *have = bytes_meaning(out.p, out.n, true);
            only_kept(all, keep, &want);
            same_meaning(names[i], have, (char *)want.p);
            if (percent == 100)
                same_meaning(names[i], have, all);
            if (percent == 0)
                ck_assert_str_eq(have, "");
            is_minimal(&out);
        }
}

UNIT(a_part_has_a_smaller_dictionary)
{
    cleanup(profiles_release) struct profiles v;
    size_t n;
    autofree unsigned char *data = unit_data("connector/ebpf-mixed-0003.pb", &n);
    ck_assert_int_eq(profiles_init(&v, NULL), 0);
    ck_assert_int_eq(profiles_decode(&v, bytes_of(data, n), &profiles_limits_default, NULL), 0);
    autofree uint64_t *keep = calloc(SUBSET_WORDS(v.sample.n), sizeof *keep);
    subset_add(keep, 5);
    cleanup(buffer_release) struct buffer out = BUFFER_INIT(0);
    subset(&v, keep, NULL, &out);
    ck_assert_uint_lt(out.n, n / 20);
    Request *q = unit_made(request_unpack(out.p, out.n));
    ck_assert_uint_eq(q->n_resource_profiles, 1);
    ck_assert_uint_eq(q->dictionary->n_stack_table, 2);
    ck_assert_uint_eq(q->dictionary->n_link_table, 1);
    ck_assert_uint_eq(q->dictionary->link_table[0]->trace_id.len, 0);
    ck_assert_uint_eq(q->dictionary->link_table[0]->span_id.len, 0);
    ck_assert_str_eq(q->dictionary->string_table[0], "");
    request_free(q);
}

static void put_thin(struct wire_writer *w)
{
    IN(w, 2)
    {
        put_tables(w);
        put_str(w, 5, "kept");
        IN(w, 6) /* from a gateway before us */
        {
            wire_put_uint(w, 1, 5);
            IN(w, 2) wire_put_double(w, 4, 0.5);
        }
    }
    IN(w, 1) IN(w, 2) IN(w, 2)
    {
        put_sample(w);
        IN(w, 2)
        {
            wire_put_uint(w, 1, 1);
            wire_put_packed32(w, 2, (uint32_t[]){1, 2}, 2);
            wire_put_packed64(w, 4, (int64_t[]){9}, 1);
        }
        put_str(w, 9, "pprof");
        put_str(w, 10, "payload");
    }
}

/* What came left out is written empty; so is entry 0 of a link table that came with zeros in it. */
UNIT(what_is_empty_is_there)
{
    cleanup(made_end) struct made m;
    put_thin(made_begin(&m));
    ck_assert_msg(made_decode(&m) == 0, "%s", m.e.text);
    cleanup(buffer_release) struct buffer out = BUFFER_INIT(0);
    subset(&m.v, NULL, NULL, &out);
    Request *q = unit_made(request_unpack(out.p, out.n));
    ck_assert_uint_eq(q->dictionary->link_table[0]->trace_id.len, 0);
    ck_assert_ptr_nonnull(q->resource_profiles[0]->resource);
    ck_assert_ptr_nonnull(q->resource_profiles[0]->scope_profiles[0]->scope);
    ck_assert_ptr_nonnull(q->resource_profiles[0]->scope_profiles[0]->profiles[0]->sample_type);
    ck_assert_ptr_nonnull(q->resource_profiles[0]->scope_profiles[0]->profiles[0]->period_type);
    request_free(q);
}

UNIT(a_sample_can_be_worth_something_else)
{
    cleanup(made_end) struct made m;
    put_thin(made_begin(&m));
    ck_assert_msg(made_decode(&m) == 0, "%s", m.e.text);
    const int64_t worth[] = {70, 90};
    struct subset_mark mark = {BYTES_LIT("kept"), 0.1, true, worth};
    cleanup(buffer_release) struct buffer out = BUFFER_INIT(0);
    subset(&m.v, NULL, &mark, &out);
    Request *q = unit_made(request_unpack(out.p, out.n));
    const Profile *profile = q->resource_profiles[0]->scope_profiles[0]->profiles[0];
    for (size_t i = 0; i < profile->n_samples; i++) {
        ck_assert_uint_eq(profile->samples[i]->n_values, 1);
        ck_assert_uint_eq(profile->samples[i]->n_timestamps_unix_nano, 0);
        ck_assert_int_eq(profile->samples[i]->values[0], worth[i]);
    }
    request_free(q);
}

UNIT(the_mark_is_added_once_and_multiplies)
{
    for (int on_profiles = 0; on_profiles < 2; on_profiles++) {
        cleanup(made_end) struct made m;
        put_thin(made_begin(&m));
        ck_assert_msg(made_decode(&m) == 0, "%s", m.e.text);
        struct buffer out = BUFFER_INIT(0);
        const struct subset_mark mark = {BYTES_LIT("kept"), 0.25, on_profiles};
        subset(&m.v, NULL, &mark, &out);
        Request *q = unit_made(request_unpack(out.p, out.n));
        Profile *p = q->resource_profiles[0]->scope_profiles[0]->profiles[0];
        ck_assert_uint_eq(p->n_attribute_indices, on_profiles ? 1 : 0);
        ck_assert_uint_eq(p->samples[0]->n_attribute_indices, on_profiles ? 1 : 2);
        ck_assert_uint_eq(p->samples[1]->n_attribute_indices, 2);
        const KeyValueAndUnit *was = q->dictionary->attribute_table[p->samples[1]->attribute_indices[1]];
        const KeyValueAndUnit *added =
            q->dictionary->attribute_table[on_profiles ? p->attribute_indices[0]
                                                       : p->samples[0]->attribute_indices[1]];
        ck_assert_str_eq(q->dictionary->string_table[was->key_strindex], "kept");
        ck_assert_str_eq(q->dictionary->string_table[added->key_strindex], "kept");
        ck_assert_double_eq(was->value->double_value, 0.125);
        ck_assert_double_eq(added->value->double_value, 0.25);
        ck_assert_str_eq(p->original_payload_format, "pprof"); /* nothing was lost */
        request_free(q);
        buffer_release(&out);
        uint64_t keep[1] = {1};
        subset(&m.v, keep, &mark, &out);
        q = unit_made(request_unpack(out.p, out.n));
        p = q->resource_profiles[0]->scope_profiles[0]->profiles[0];
        ck_assert_uint_eq(p->n_samples, 1);
        ck_assert_str_eq(p->original_payload_format, "");
        ck_assert_uint_eq(p->original_payload.len, 0);
        request_free(q);
        buffer_release(&out);
    }
}

UNIT(references_become_inline)
{
    cleanup(made_end) struct made m;
    struct wire_writer *w = made_begin(&m);
    IN(w, 1)
    {
        IN(w, 1) IN(w, 1)
        {
            wire_put_uint(w, 3, 1);
            IN(w, 2)
            IN(w, 6) IN(w, 1) /* a kvlist with { key_strindex: 2, value: { string_value_strindex: 3 } } */
            {
                wire_put_uint(w, 3, 2);
                IN(w, 2) wire_put_uint(w, 8, 3);
            }
        }
        IN(w, 2) IN(w, 2) put_sample(w);
    }
    IN(w, 2) put_tables(w);
    ck_assert_msg(made_decode(&m) == 0, "%s", m.e.text);
    cleanup(buffer_release) struct buffer out = BUFFER_INIT(0);
    subset(&m.v, NULL, NULL, &out);
    Request *q = unit_made(request_unpack(out.p, out.n));
    const KeyValue *kv = q->resource_profiles[0]->resource->attributes[0];
    ck_assert_str_eq(kv->key, "main");
    ck_assert_int_eq(kv->key_strindex, 0);
    ck_assert_str_eq(kv->value->kvlist_value->values[0]->key, "main.c");
    ck_assert_str_eq(kv->value->kvlist_value->values[0]->value->string_value, "cpu");
    request_free(q);
}

UNIT(rejected_samples_are_left_out)
{
    cleanup(made_end) struct made m;
    struct wire_writer *w = made_begin(&m);
    IN(w, 2) put_tables(w);
    IN(w, 1) IN(w, 2) IN(w, 2)
    {
        IN(w, 2)
        {
            wire_put_uint(w, 1, 99);
            wire_put_packed64(w, 4, (int64_t[]){1}, 1);
        }
        put_sample(w);
    }
    ck_assert_int_eq(made_decode(&m), 0);
    ck_assert_uint_eq(m.v.rejected.samples, 1);
    cleanup(buffer_release) struct buffer out = BUFFER_INIT(0);
    subset(&m.v, NULL, NULL, &out);
    Request *q = unit_made(request_unpack(out.p, out.n));
    const Profile *p = q->resource_profiles[0]->scope_profiles[0]->profiles[0];
    ck_assert_uint_eq(p->n_samples, 1);
    ck_assert_int_eq(p->samples[0]->values[0], 7);
    request_free(q);
}

UNIT(nothing_is_added_when_the_buffer_is_full)
{
    cleanup(made_end) struct made m;
    put_thin(made_begin(&m));
    ck_assert_int_eq(made_decode(&m), 0);
    cleanup(buffer_release) struct buffer out = BUFFER_INIT(100);
    cleanup(arena_release) struct arena scratch = ARENA_INIT(NULL);
    ck_assert_int_eq(buffer_add_str(&out, "before"), 0);
    ck_assert_int_eq(profiles_subset(&m.v, NULL, NULL, &scratch, &out), SUBSET_TOO_LARGE);
    ck_assert_uint_eq(out.n, 6);
    struct budget none = BUDGET_INIT(10, NULL);
    cleanup(arena_release) struct arena poor = ARENA_INIT(&none);
    ck_assert_int_eq(profiles_subset(&m.v, NULL, NULL, &poor, &out), -ENOMEM);
}
