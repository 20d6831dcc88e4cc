/* SPDX-License-Identifier: Apache-2.0 */
/* needs: proto/otlp/view proto/schema */
/* Older wire layouts under the same package name are recognised by the wire types of their fields, and read
 * as what they are (test_legacy.c); 1.10 in its ambiguous forms is read as 1.10. */
#include <stdio.h>

#include "proto/base/macros.h"
#include "tests/lib/unit.h"
#include "tests/unit/proto/otlp/view/handmade.h"

#define IN_PROFILE(w) IN(w, 1) IN(w, 2) IN(w, 2)

static int made_decode_of(struct made *m, const struct profiles_producer *producer)
{
    m->body = padded(m->b.p, m->b.n);
    return profiles_decode_of(&m->v, bytes_of(m->body, m->b.n), producer, &profiles_limits_default, &m->e);
}

static void recognised(struct made *m, const char *name)
{
    int r = made_decode(m);
    ck_assert_msg(r == 0, "%s: condition %d: %s", name, r, m->e.text);
    ck_assert_str_eq(profiles_layout_name(m->v.layout), name);
    ck_assert_str_eq(m->e.text, "");
    made_end(m);
}

static void accepted(struct made *m, uint32_t rejected)
{
    int r = made_decode(m);
    ck_assert_msg(r == 0, "condition %d: %s", r, m->e.text);
    ck_assert_int_eq(m->v.layout, PROFILES_LAYOUT_1_10);
    ck_assert_uint_eq(m->v.rejected.samples, rejected);
    made_end(m);
}

/* Sample of 1.5 and 1.7: locations_start_index, locations_length, value, attribute_indices, link_index,
 * timestamps. */
static void put_sample_1_7(struct wire_writer *w)
{
    IN(w, 2)
    {
        wire_put_uint(w, 1, 0);
        wire_put_uint(w, 2, 2);
        wire_put_packed64(w, 3, (int64_t[]){1}, 1);
        wire_put_packed32(w, 4, (uint32_t[]){0}, 1);
    }
}

UNIT(layout_1_5)
{
    struct made m;
    struct wire_writer *w = made_begin(&m);
    IN_PROFILE(w)
    {
        IN(w, 1) wire_put_uint(w, 1, 1);
        put_sample_1_7(w);
        IN(w, 3) wire_put_uint(w, 1, 4096);             /* mapping_table */
        IN(w, 4) wire_put_uint(w, 2, 77);               /* location_table */
        wire_put_packed32(w, 5, (uint32_t[]){0, 0}, 2); /* location_indices */
        put_str(w, 10, "");                             /* string_table */
        put_str(w, 10, "cpu");
        wire_put_uint(w, 11, 12345); /* time_nanos */
    }
    recognised(&m, "1.5");
}

UNIT(layout_1_7)
{
    for (int with_values = 0; with_values < 2; with_values++) {
        struct made m;
        struct wire_writer *w = made_begin(&m);
        IN_PROFILE(w)
        {
            IN(w, 1) wire_put_uint(w, 1, 1);
            if (with_values) {
                put_sample_1_7(w);
            } else {
                IN(w, 2) /* decodes as 1.10 without complaint: stack 0, attribute 2 */
                {
                    wire_put_uint(w, 1, 0);
                    wire_put_uint(w, 2, 2);
                }
            }
            if (!with_values)
                wire_put_packed32(w, 3, (uint32_t[]){1, 0}, 2); /* location_indices */
            wire_put_uint(w, 4, 12345);                         /* time_nanos */
            wire_put_uint(w, 5, 99);                            /* duration_nanos */
        }
        IN(w, 2)
        {
            put_str(w, 5, "");
            IN(w, 6) put_str(w, 1, "key"); /* KeyValue */
            IN(w, 7)                       /* AttributeUnit */
            {
                wire_put_uint(w, 1, 1);
                wire_put_uint(w, 2, 2);
            }
        }
        recognised(&m, "1.7");
    }
}

/* Sample of 1.8 and 1.9: stack, values, attributes, link, timestamps. */
static void put_sample_1_9(struct wire_writer *w, bool attrs, bool link, uint32_t n_times)
{
    IN(w, 2)
    {
        wire_put_uint(w, 1, 1);
        wire_put_packed64(w, 2, (int64_t[]){100, 200}, n_times ? n_times : 1);
        if (attrs)
            wire_put_packed32(w, 3, (uint32_t[]){1}, 1);
        if (link)
            wire_put_uint(w, 4, 1);
        wire_put_packed_fixed64(w, 5, (uint64_t[]){5, 6}, n_times);
    }
}

UNIT(layout_1_9_with_attributes_link_neither_or_timestamps)
{
    for (int code = 0; code < 8; code++) {
        struct made m;
        struct wire_writer *w = made_begin(&m);
        IN(w, 2) put_tables(w);
        IN_PROFILE(w)
        {
            wire_put_fixed64(w, 3, 12345);
            put_str(w, 7, "0123456789abcdef");
            put_sample_1_9(w, code & 1, code & 2, code & 4 ? 2 : 0);
        }
        recognised(&m, "1.9");
    }
}

UNIT(layout_1_8)
{
    for (int code = 0; code < 4; code++) {
        struct made m;
        struct wire_writer *w = made_begin(&m);
        IN(w, 2) put_tables(w);
        IN_PROFILE(w)
        {
            wire_put_fixed64(w, 3, 12345);
            put_sample_1_9(w, code & 1, false, code & 2 ? 1 : 0);
            put_str(w, 8, "0123456789abcdef"); /* profile_id */
            wire_put_packed32(w, 12, (uint32_t[]){1}, 1);
        }
        recognised(&m, "1.8");
    }
}

/* The next free numbers of 1.10 had a meaning in 1.8 and 1.7; that is no evidence of them. */
UNIT(fields_of_a_release_to_come_are_passed_over)
{
    for (int code = 0; code < 6; code++) {
        struct made m;
        struct wire_writer *w = made_begin(&m);
        IN(w, 2) put_tables(w);
        IN_PROFILE(w)
        {
            IN(w, 1)
            {
                wire_put_uint(w, 1, 3);
                wire_put_uint(w, 3, 2); /* ValueType: aggregation_temporality of 1.8 */
            }
            IN(w, 2)
            {
                wire_put_uint(w, 1, 1);
                if (code & 1)
                    wire_put_packed32(w, 2, (uint32_t[]){1}, 1);
                wire_put_packed_fixed64(w, 5, (uint64_t[]){5, 6}, 2);
                if (code < 4)
                    wire_put_packed32(w, 6, (uint32_t[]){9, 8}, 2); /* Sample: timestamps of 1.7 */
                else
                    wire_put_uint(w, 6, 5);
            }
            if (code & 2)
                wire_put_packed32(w, 12, (uint32_t[]){1}, 1); /* Profile: attributes of 1.8 */
            else
                put_str(w, 12, "text");
        }
        accepted(&m, 0);
    }
}

/* As the eBPF profiler sends them: a time, attributes, no values. */
static void put_timed(struct wire_writer *w, uint32_t n_times)
{
    IN(w, 2)
    {
        wire_put_uint(w, 1, 1);
        wire_put_packed32(w, 2, (uint32_t[]){1, 2, 3}, 3);
        wire_put_packed_fixed64(w, 5, (uint64_t[]){5, 6}, n_times);
    }
}

/* Two more attributes, of other keys. */
static void put_more_attributes(struct wire_writer *w)
{
    IN(w, 6) wire_put_uint(w, 1, 1);
    IN(w, 6) wire_put_uint(w, 1, 2);
}

UNIT(a_sample_without_times_among_others_is_rejected_by_itself)
{
    for (uint32_t others = 0; others < 5; others++) { /* alone its attributes tell: nobody else has them */
        cleanup(made_end) struct made m;
        struct wire_writer *w = made_begin(&m);
        IN(w, 2)
        {
            put_tables(w);
            put_more_attributes(w);
        }
        IN_PROFILE(w)
        {
            put_timed(w, 0);
            for (uint32_t i = 0; i < others; i++)
                put_timed(w, 1 + i % 2);
        }
        int r = made_decode(&m);
        ck_assert_msg(r == 0, "%u: %s", others, m.e.text);
        ck_assert_int_eq(m.v.layout, PROFILES_LAYOUT_1_10);
        ck_assert_uint_eq(m.v.rejected.samples, 1);
        ck_assert_str_eq(m.v.rejected.first.text,
                         "resource_profiles[0].scope_profiles[0].profiles[0].samples[0]: "
                         "neither values nor timestamps");
    }
}

/* A sample of 1.10 among those of 1.9, and the other way round. */
UNIT(the_odd_one_does_not_decide)
{
    for (int code = 0; code < 2; code++) {
        cleanup(made_end) struct made m;
        struct wire_writer *w = made_begin(&m);
        IN(w, 2) put_tables(w);
        IN_PROFILE(w)
        {
            for (int i = 0; i < 4; i++)
                if ((i == 2) == (code == 0))
                    put_sample(w);
                else
                    put_sample_1_9(w, true, true, 0);
        }
        int r = made_decode(&m);
        ck_assert_msg(r == 0, "%s", m.e.text);
        ck_assert_str_eq(profiles_layout_name(m.v.layout), code == 0 ? "1.9" : "1.10");
        ck_assert_uint_eq(m.v.rejected.samples, 1);
        ck_assert_uint_eq(m.v.sample.stack[2], PROFILES_REJECTED);
        ck_assert_msg(strstr(m.v.rejected.first.text, "of Sample has wire type"), "%s",
                      m.v.rejected.first.text);
        ck_assert_int_eq(m.v.sample.value_sum[1], (code == 0 ? 100 : 7));
    }
}

/* 1.9 without attributes and links differs from 1.10 in meaning only: what is impossible there decides. */
UNIT(values_that_are_no_attributes_are_values)
{
    cleanup(made_end) struct made m;
    struct wire_writer *w = made_begin(&m);
    IN(w, 2) put_tables(w);
    IN_PROFILE(w)
    {
        put_sample(w); /* of 1.10 */
        for (int i = 0; i < 3; i++)
            put_sample_1_9(w, false, false, 2);
    }
    ck_assert_msg(made_decode(&m) == 0, "%s", m.e.text);
    ck_assert_str_eq(profiles_layout_name(m.v.layout), "1.9");
    ck_assert_int_eq(m.v.sample.value_sum[3], 300);
}

UNIT(values_need_not_be_packed)
{
    for (int64_t value = 7; value < 300; value += 99) {
        cleanup(made_end) struct made m;
        struct wire_writer *w = made_begin(&m);
        IN(w, 2) put_tables(w);
        IN_PROFILE(w)
        {
            IN(w, 2)
            {
                wire_put_uint(w, 1, 1);
                wire_put_packed32(w, 2, (uint32_t[]){1}, 1);
                wire_put_int(w, 4, value);
            }
        }
        ck_assert_msg(made_decode(&m) == 0, "%s", m.e.text);
        ck_assert_str_eq(profiles_layout_name(m.v.layout), "1.10");
        ck_assert_int_eq(m.v.sample.value_sum[0], value);
    }
}

/* The same request, small and odd, of who sends 1.9, who sends 1.10, and of nobody known. */
UNIT(what_is_known_of_the_producer_counts)
{
    static const struct profiles_producer producers[] = {
        {PROFILES_LAYOUT_UNKNOWN, 0}, {PROFILES_LAYOUT_1_9, 8}, {PROFILES_LAYOUT_1_10, 8}};
    static const char *const want[] = {"1.10", "1.9", "1.10"};
    for (size_t i = 0; i < ARRAY_LEN(producers); i++) {
        struct made m;
        struct wire_writer *w = made_begin(&m);
        IN(w, 2)
        {
            put_tables(w);
            put_more_attributes(w);
        }
        IN_PROFILE(w) put_timed(w, 0);
        ck_assert_msg(made_decode_of(&m, &producers[i]) == 0, "%s", m.e.text);
        ck_assert_str_eq(profiles_layout_name(m.v.layout), want[i]);
        ck_assert_uint_eq(m.v.rejected.samples, i != 1);
        ck_assert(!m.v.told && !m.v.contradicts);
        made_end(&m);
        w = made_begin(&m);
        IN(w, 2) put_tables(w);
        IN_PROFILE(w)
        {
            for (int k = 0; k < 3; k++) /* and what is plain enough is what it is */
                put_sample(w);
        }
        ck_assert_msg(made_decode_of(&m, &producers[i]) == 0, "%s", m.e.text);
        ck_assert_str_eq(profiles_layout_name(m.v.layout), "1.10");
        ck_assert_int_eq(m.v.contradicts, i == 1);
        ck_assert(m.v.told);
        made_end(&m);
    }
}

/* {stack, attributes, timestamps} with as many of the one as of the other: 1.9's values and timestamps? */
static void put_ambiguous(struct wire_writer *w, uint32_t first, uint32_t second)
{
    IN(w, 2)
    {
        wire_put_uint(w, 1, 1);
        wire_put_packed32(w, 2, (uint32_t[]){first, second}, 2);
        wire_put_packed_fixed64(w, 5, (uint64_t[]){5, 6}, 2);
    }
}

/* A small request, after a thousand of another layout under the same names. One sample may be the odd one. */
UNIT(a_producer_that_was_upgraded_is_believed_at_once)
{
    static const struct profiles_producer before = {PROFILES_LAYOUT_1_9, 32};
    for (int n = 1; n <= 4; n++) {
        cleanup(made_end) struct made m;
        struct wire_writer *w = made_begin(&m);
        IN(w, 2) put_tables(w);
        IN_PROFILE(w)
        {
            for (int k = 0; k < n; k++)
                put_sample(w);
        }
        ck_assert_msg(made_decode_of(&m, &before) == 0, "%s", m.e.text);
        ck_assert_str_eq(profiles_layout_name(m.v.layout), n == 1 ? "1.9" : "1.10");
        ck_assert(m.v.contradicts && m.v.told);
    }
}

UNIT(ambiguous_samples_are_decided_by_their_attributes)
{
    for (int code = 0; code < 3; code++) {
        struct made m;
        struct wire_writer *w = made_begin(&m);
        IN(w, 2)
        {
            put_tables(w);
            IN(w, 6) wire_put_uint(w, 1, 4); /* a second attribute, of another key */
            IN(w, 6) wire_put_uint(w, 1, 4); /* and a third of the same */
        }
        IN_PROFILE(w) put_ambiguous(w, code == 1 ? 3 : 1, code == 2 ? 50 : 2);
        if (code == 0)
            accepted(&m, 0); /* valid, and the keys differ */
        else
            recognised(&m, "1.9"); /* one key twice; no such attribute */
    }
}

UNIT(certain_evidence_for_1_10_wins)
{
    struct made m;
    struct wire_writer *w = made_begin(&m);
    IN(w, 2) put_tables(w);
    IN_PROFILE(w)
    {
        put_sample(w); /* values in field 4 */
        put_ambiguous(w, 50, 60);
        IN(w, 2) wire_put_packed32(w, 2, (uint32_t[]){1}, 1); /* nothing but attributes: rejected by itself */
        wire_put_uint(w, 12, 3);                              /* a field of a release to come */
    }
    accepted(&m, 2);
}

UNIT(fewer_timestamps_than_attributes_is_1_10)
{
    struct made m;
    struct wire_writer *w = made_begin(&m);
    IN(w, 2) put_tables(w);
    IN_PROFILE(w)
    {
        IN(w, 2)
        {
            wire_put_packed_fixed64(w, 5, (uint64_t[]){5}, 1);
            wire_put_packed32(w, 2, (uint32_t[]){1, 0}, 2);
            wire_put_uint(w, 1, 1);
        }
    }
    accepted(&m, 0);
}

UNIT(a_request_without_dictionary_is_1_10_unless_it_shows_tables)
{
    struct made m;
    struct wire_writer *w = made_begin(&m);
    IN_PROFILE(w)
    {
        IN(w, 2) wire_put_packed64(w, 4, (int64_t[]){1}, 1);
    }
    accepted(&m, 0);
    w = made_begin(&m);
    IN_PROFILE(w)
    {
        IN(w, 2) wire_put_packed_fixed64(w, 5, (uint64_t[]){5}, 1);
    }
    accepted(&m, 0);
}

UNIT(unpacked_1_10_is_not_taken_for_1_9)
{
    struct made m;
    struct wire_writer *w = made_begin(&m);
    IN(w, 2) put_tables(w);
    IN_PROFILE(w)
    {
        IN(w, 2)
        {
            wire_put_uint(w, 1, 1);
            wire_put_uint(w, 2, 1);
            wire_put_uint(w, 4, 100);
        }
    }
    accepted(&m, 0);
}

UNIT(a_sample_with_a_field_of_another_type_is_rejected_by_itself)
{
    cleanup(made_end) struct made m;
    struct wire_writer *w = made_begin(&m);
    IN(w, 2) put_tables(w);
    IN_PROFILE(w)
    {
        for (int i = 0; i < 5; i++)
            put_sample(w);
        IN(w, 2)
        {
            wire_put_uint(w, 1, 1);
            put_str(w, 3, "x");
        }
    }
    ck_assert_msg(made_decode(&m) == 0, "%s", m.e.text);
    ck_assert_uint_eq(m.v.rejected.samples, 1);
    ck_assert_uint_eq(m.v.rejected.profiles, 1);
    ck_assert_str_eq(m.v.rejected.first.text,
                     "resource_profiles[0].scope_profiles[0].profiles[0].samples[5]: "
                     "field 3 of Sample has wire type 2");
}

UNIT(a_profile_with_a_field_of_another_type_is_rejected_by_itself)
{
    for (int code = 0; code < 3; code++) {
        cleanup(made_end) struct made m;
        struct wire_writer *w = made_begin(&m);
        IN(w, 2) put_tables(w);
        IN_PROFILE(w)
        {
            put_sample(w);
            put_sample(w);
        }
        IN_PROFILE(w)
        {
            put_sample(w);
            if (code == 0)
                put_str(w, 8, "x");
            else if (code == 1)
                wire_put_fixed64(w, 11, 1);
            else
                IN(w, 5) put_str(w, 1, "x");
        }
        static const char *const words[] = {
            "resource_profiles[1].scope_profiles[0].profiles[0]: field 8 of Profile has wire type 2",
            "resource_profiles[1].scope_profiles[0].profiles[0]: field 11 of Profile has wire type 1",
            "resource_profiles[1].scope_profiles[0].profiles[0]: field 1 of ValueType has wire type 2"};
        ck_assert_msg(made_decode(&m) == 0, "%s", m.e.text);
        ck_assert_uint_eq(m.v.rejected.samples, 1);
        ck_assert_str_eq(m.v.rejected.first.text, words[code]);
    }
}
