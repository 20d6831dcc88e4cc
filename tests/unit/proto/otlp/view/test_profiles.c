/* SPDX-License-Identifier: Apache-2.0 */
/* needs: proto/schema */
#include <errno.h>

#include "tests/lib/unit.h"
#include "tests/unit/proto/otlp/view/handmade.h"

/* One resource, one scope, one profile; BODY is inside of the Profile. */
#define IN_PROFILE(w)        IN(w, 1) IN_SCOPE_PROFILES(w)
#define IN_SCOPE_PROFILES(w) IN(w, 2) IN(w, 2)

/* A dictionary, and a profile with the samples that `put` writes. */
static void put_request(struct wire_writer *w, void (*put)(struct wire_writer *))
{
    IN(w, 2) put_tables(w);
    IN_PROFILE(w) put(w);
}

UNIT(an_empty_message_is_a_valid_request)
{
    cleanup(made_end) struct made m;
    made_begin(&m);
    ck_assert_int_eq(made_decode(&m), 0);
    ck_assert_int_eq(m.v.layout, PROFILES_LAYOUT_UNKNOWN);
    ck_assert_uint_eq(m.v.sample.n, 0);
    ck_assert_uint_eq(m.v.string.n, 1);
    ck_assert_uint_eq(m.v.stack.n, 1);
    ck_assert_uint_eq(m.v.stack.locations_at[1], 0);
    ck_assert_uint_eq(m.v.mapping.attrs_at[1], 0);
    ck_assert_int_eq(profiles_decode(&m.v, (struct bytes){0}, &profiles_limits_default, NULL), 0);
    ck_assert_uint_eq(profiles_string(&m.v, 0).n, 0);
}

UNIT(a_small_request_fills_every_column)
{
    cleanup(made_end) struct made m;
    put_request(made_begin(&m), put_sample);
    ck_assert_msg(made_decode(&m) == 0, "%s", m.e.text);
    ck_assert_int_eq(m.v.layout, PROFILES_LAYOUT_1_10);
    ck_assert_uint_eq(m.v.sample.n, 1);
    ck_assert_uint_eq(m.v.sample.stack[0], 1);
    ck_assert_uint_eq(m.v.sample.link[0], 1);
    ck_assert_int_eq(m.v.sample.value_sum[0], 7);
    ck_assert_uint_eq(m.v.location.address[1], 0xffffffff81000000u);
    ck_assert_int_eq(m.v.line.line[0], 42);
    ck_assert_int_eq(m.v.function.start_line[1], 40);
    ck_assert_int_eq(memcmp(m.body + m.v.link.trace_at[1], "0123456789abcdef", 16), 0);
    ck_assert_uint_eq(m.v.link.trace_at[0], 0);
    autofree char *ours = view_meaning(&m.v), *theirs = bytes_meaning(m.b.p, m.b.n, false);
    same_meaning("the view", ours, theirs);
}

/* A dictionary whose table t (0: none) has that message, and nothing else, as its first entry. */
static bool has_entry_0(uint32_t t, uint32_t field, bool is_text)
{
    cleanup(made_end) struct made m;
    struct wire_writer *w = made_begin(&m);
    IN(w, 1) IN(w, 2) IN(w, 2) put_sample(w);
    IN(w, 2)
    {
        for (uint32_t i = 1; i <= 7; i++) {
            if (i != t)
                wire_put_bytes(w, i, bytes_of("", 0));
            else if (i == 5)
                put_str(w, 5, "main");
            else if (is_text)
                IN(w, i) put_str(w, field, "0123456789abcdef");
            else
                IN(w, i) wire_put_uint(w, field, 1);
        }
        put_tables(w);
    }
    ck_assert_msg(made_decode(&m) == 0, "%s", m.e.text);
    return profiles_has_entry_0(&m.v);
}

UNIT(an_entry_where_none_may_be_is_seen_in_every_table)
{
    static const struct {
        uint32_t table, field;
        bool is_text;
    } real[] = {{1, 1}, {1, 2}, {1, 3}, {1, 4},       {1, 5}, {2, 1}, {2, 2}, {2, 4}, {3, 1},
                {3, 2}, {3, 3}, {3, 4}, {4, 1, true}, {5, 0}, {6, 1}, {6, 3}, {7, 1}};
    ck_assert(!has_entry_0(0, 0, false));
    for (size_t i = 0; i < sizeof real / sizeof *real; i++)
        ck_assert_msg(has_entry_0(real[i].table, real[i].field, real[i].is_text), "table %u, field %u",
                      real[i].table, real[i].field);
}

UNIT(tables_that_are_not_there_and_ids_of_zeros_have_no_entry_0)
{
    cleanup(made_end) struct made m;
    struct wire_writer *w = made_begin(&m);
    static const char zeros[16];
    IN(w, 1) IN(w, 2) IN(w, 2) IN(w, 2) wire_put_packed64(w, 4, (int64_t[]){7}, 1);
    IN(w, 2) IN(w, 4)
    {
        wire_put_bytes(w, 1, bytes_of(zeros, 16));
        wire_put_bytes(w, 2, bytes_of(zeros, 8));
    }
    ck_assert_msg(made_decode(&m) == 0, "%s", m.e.text);
    ck_assert(!profiles_has_entry_0(&m.v));
}

/* The fields of one message in any order: all permutations of a sample's five. */
static void put_sample_field(struct wire_writer *w, int field)
{
    switch (field) {
    case 0: wire_put_uint(w, 1, 1); break;
    case 1: wire_put_packed32(w, 2, (uint32_t[]){1}, 1); break;
    case 2: wire_put_uint(w, 3, 1); break;
    case 3: wire_put_packed64(w, 4, (int64_t[]){300, -5}, 2); break;
    case 4: wire_put_packed_fixed64(w, 5, (uint64_t[]){8, 9}, 2); break;
    }
}

UNIT(fields_come_in_any_order)
{
    for (int code = 0; code < 120; code++) {
        int order[5] = {0, 1, 2, 3, 4}, rest = code;
        for (int i = 5; i > 1; i--) {
            int k = rest % i, t = order[k];
            rest /= i;
            order[k] = order[i - 1];
            order[i - 1] = t;
        }
        cleanup(made_end) struct made m;
        struct wire_writer *w = made_begin(&m);
        bool dictionary_first = code % 2;
        if (dictionary_first)
            IN(w, 2) put_tables(w);
        IN_PROFILE(w)
        {
            IN(w, 2) for (int i = 0; i < 5; i++) put_sample_field(w, order[i]);
        }
        if (!dictionary_first)
            IN(w, 2) put_tables(w);
        ck_assert_msg(made_decode(&m) == 0, "%s", m.e.text);
        ck_assert_uint_eq(m.v.sample.n, 1);
        ck_assert_uint_eq(m.v.sample.stack[0], 1);
        ck_assert_uint_eq(m.v.sample.link[0], 1);
        ck_assert_uint_eq(m.v.sample.attrs_at[1] - m.v.sample.attrs_at[0], 1);
        ck_assert_uint_eq(m.v.sample.n_values[0], 2);
        ck_assert_uint_eq(m.v.sample.n_timestamps[0], 2);
        ck_assert_int_eq(m.v.sample.value_sum[0], 295);
    }
}

/* Tables interleaved, descending fields, unpacked lists, unknown fields: the general readers, against the
 * oracle. */
static void put_unusual(struct wire_writer *w)
{
    for (uint32_t i = 0; i < 300; i++) {
        IN(w, 7)
        {
            wire_put_uint(w, 1, i % 3);
            wire_put_uint(w, 1, i);
            wire_put_uint(w, 90, 1);
        }
        IN(w, 2)
        {
            wire_put_uint(w, 4, 0);
            wire_put_packed32(w, 4, (uint32_t[]){0, 0}, 2);
            IN(w, 3)
            {
                put_str(w, 17, "unknown");
                wire_put_uint(w, 3, i);
                wire_put_uint(w, 1, i);
            }
            wire_put_uint(w, 2, 1000 + i);
            wire_put_uint(w, 1, i);
        }
        IN(w, 1)
        {
            wire_put_uint(w, 5, 0);
            wire_put_uint(w, 4, i);
            wire_put_uint(w, 1, 5000 + i);
        }
        IN(w, 3)
        {
            wire_put_uint(w, 4, i);
            wire_put_uint(w, 4, i + 1); /* the last one wins */
            wire_put_fixed64(w, 77, 3);
            wire_put_uint(w, 2, i);
        }
        put_str(w, 5, i == 0 ? "" : "text");
    }
    wire_put_bytes(w, 6, bytes_of("", 0));
}

UNIT(unusual_writers_are_understood)
{
    cleanup(made_end) struct made m;
    struct wire_writer *w = made_begin(&m);
    IN(w, 2) put_unusual(w);
    IN_PROFILE(w)
    {
        for (uint32_t i = 0; i < 200; i++)
            IN(w, 2)
            {
                wire_put_uint(w, 4, i);
                wire_put_uint(w, 4, 1);
                wire_put_fixed64(w, 5, i);
                wire_put_packed_fixed64(w, 5, (uint64_t[]){1, 2}, 2);
                wire_put_uint(w, 1, i);
                wire_put_uint(w, 200, 5);
            }
    }
    ck_assert_msg(made_decode(&m) == 0, "%s", m.e.text);
    ck_assert_uint_eq(m.v.rejected.samples, 0);
    autofree char *ours = view_meaning(&m.v), *theirs = bytes_meaning(m.b.p, m.b.n, false);
    same_meaning("the view", ours, theirs);
}

UNIT(pieces_of_one_message_are_merged)
{
    cleanup(made_end) struct made m;
    struct wire_writer *w = made_begin(&m);
    IN(w, 2)
    {
        put_str(w, 5, "");
        put_str(w, 5, "cpu");
    }
    IN(w, 1)
    {
        wire_put_raw(w, bytes_of("\x12\x00", 2)); /* an empty ScopeProfiles */
        IN(w, 2)
        {
            IN(w, 1) put_str(w, 1, "scope");
            wire_put_bytes(w, 2, bytes_of("\x0a\x02\x08\x01\x0a\x02\x10\x02", 8)); /* sample_type twice */
            IN(w, 1) put_str(w, 2, "1.0");
        }
        for (int i = 0; i < 2; i++)
            IN(w, 1)
            {
                IN(w, 1)
                {
                    put_str(w, 1, i ? "b" : "a");
                    IN(w, 2) put_str(w, 1, "x");
                }
            }
    }
    IN(w, 2) put_str(w, 5, "ns"); /* a second dictionary: its tables are appended */
    ck_assert_msg(made_decode(&m) == 0, "%s", m.e.text);
    ck_assert_uint_eq(m.v.string.n, 3);
    ck_assert_uint_eq(m.v.profile.type[0], 1);
    ck_assert_uint_eq(m.v.profile.unit[0], 2);
    ck_assert_uint_eq(m.v.resource.attrs_at[1], 2);
    ck_assert(bytes_is(m.v.key_value.attr[1].key, "b"));
    ck_assert_uint_eq(m.v.scope.n, 2);
    ck_assert(bytes_is(m.v.scope.name[1], "scope"));
    ck_assert(bytes_is(m.v.scope.version[1], "1.0"));
}

UNIT(references_are_resolved)
{
    cleanup(made_end) struct made m;
    struct wire_writer *w = made_begin(&m);
    IN(w, 1)
    {
        IN(w, 1)
        {
            IN(w, 1)
            {
                wire_put_uint(w, 3, 1);
                IN(w, 2) wire_put_uint(w, 8, 2);
            }
            IN(w, 1)
            {
                put_str(w, 1, "inline");
                wire_put_uint(w, 3, 0); /* not set */
            }
        }
        IN_SCOPE_PROFILES(w) put_sample(w);
    }
    IN(w, 2)
    {
        put_tables(w);
        IN(w, 6)
        {
            wire_put_uint(w, 1, 3);
            IN(w, 2)
            wire_put_uint(w, 8, 4);
        }
    }
    ck_assert_msg(made_decode(&m) == 0, "%s", m.e.text);
    ck_assert_uint_eq(m.v.key_value.n, 2);
    ck_assert(bytes_is(m.v.key_value.attr[0].key, "main"));
    ck_assert_int_eq(m.v.key_value.attr[0].value.kind, ATTR_STRING);
    ck_assert(bytes_is(m.v.key_value.attr[0].value.text, "main.c"));
    ck_assert(bytes_is(m.v.key_value.attr[1].key, "inline"));
    ck_assert_int_eq(m.v.attribute.value[2].kind, ATTR_STRING);
    ck_assert(bytes_is(m.v.attribute.value[2].text, "nanoseconds"));
}

/* A map of one list, with keys and texts by their numbers in the table or as themselves. */
static void put_map(struct wire_writer *w, const char *const *table)
{
    IN(w, 6)
    IN(w, 1)
    {
        if (table)
            put_str(w, 1, table[0]);
        else
            wire_put_uint(w, 3, 1);
        IN(w, 2)
        IN(w, 5)
        {
            for (uint32_t i = 1; i < 4; i++)
                IN(w, 1)
                {
                    if (table)
                        put_str(w, 1, table[i]);
                    else
                        wire_put_uint(w, 8, i + 1);
                }
            IN(w, 1) put_str(w, 1, "inline");
            IN(w, 1) wire_put_uint(w, 3, 7);
        }
    }
}

/* Whoever keeps a resource's list has no string table: equal lists are equal bytes, whatever the tables. */
UNIT(references_inside_lists_of_a_resource_are_resolved)
{
    char longer[300] = "", longest[40000] = "";
    memset(longer, 'l', sizeof longer - 1);
    memset(longest, 'L', sizeof longest - 1);
    const char *const table[] = {"key", longer, longest, "short"};
    cleanup(buffer_release) struct buffer want = BUFFER_INIT(0);
    struct wire_writer want_w = wire_writer(&want);
    put_map(&want_w, table);
    cleanup(made_end) struct made m;
    struct wire_writer *w = made_begin(&m);
    IN(w, 1)
    {
        IN(w, 1)
        IN(w, 1)
        {
            put_str(w, 1, "a");
            IN(w, 2) put_map(w, NULL);
        }
        IN(w, 2)
        {
            IN(w, 1) IN(w, 3) IN(w, 2) put_map(w, NULL);
            IN(w, 2) put_sample(w);
        }
    }
    IN(w, 2)
    {
        put_str(w, 5, "");
        for (uint32_t i = 0; i < 4; i++)
            put_str(w, 5, table[i]);
    }
    ck_assert_msg(made_decode(&m) == 0, "%s", m.e.text);
    ck_assert_uint_eq(m.v.key_value.n, 2);
    for (uint32_t i = 0; i < 2; i++) {
        cleanup(buffer_release) struct buffer have = BUFFER_INIT(0);
        struct wire_writer have_w = wire_writer(&have);
        ck_assert_int_eq(m.v.key_value.attr[i].value.kind, ATTR_KVLIST);
        wire_put_bytes(&have_w, 6, m.v.key_value.attr[i].value.text);
        ck_assert(bytes_eq(buffer_bytes(&have), buffer_bytes(&want)));
    }
}

/* Five bytes that stand for 40,000 each are paid for as those, and are no more than so many together. */
UNIT(a_list_of_references_to_a_long_text_is_bounded)
{
    static const struct {
        uint32_t references;
        size_t column_bytes;
        int result;
    } cases[] = {{10, 1u << 20, 0},
                 {100, 1u << 20, PROFILES_OVER_BUDGET},
                 {100, 256u << 20, 0},
                 {1000, 256u << 20, PROFILES_TOO_LARGE}};
    char text[40000] = "";
    memset(text, 'x', sizeof text - 1);
    for (size_t k = 0; k < ARRAY_LEN(cases); k++) {
        const struct profiles_limits limits = {.column_bytes = cases[k].column_bytes, .depth = 64};
        cleanup(made_end) struct made m;
        struct wire_writer *w = made_begin(&m);
        IN(w, 1)
        IN(w, 1)
        IN(w, 1)
        IN(w, 2)
        IN(w, 5)
        for (uint32_t i = 0; i < cases[k].references; i++)
            IN(w, 1) wire_put_uint(w, 8, 1);
        IN(w, 2)
        {
            put_str(w, 5, "");
            put_str(w, 5, text);
        }
        ck_assert_int_eq(made_decode_limited(&m, &limits), cases[k].result);
        ck_assert_int_eq(strstr(m.e.text, "refer to texts") != NULL, cases[k].result == PROFILES_TOO_LARGE);
    }
}

/* Each kind of index out of range: a request with a good sample and one that reaches the bad index. */
enum bad {
    STACK,
    LINK,
    SAMPLE_ATTR,
    STACK_LOCATION,
    LOCATION_MAPPING,
    LINE_FUNCTION,
    LOCATION_ATTR,
    FUNCTION_NAME,
    FUNCTION_SYSTEM,
    FUNCTION_FILE,
    MAPPING_FILE,
    MAPPING_ATTR,
    ATTR_KEY,
    ATTR_UNIT,
    ATTR_VALUE,
    EMPTY,
    BADS
};

static const char *const bad_words[BADS] = {
    "stack_index",          "link_index",        "attribute_indices entry", "location_indices entry",
    "mapping_index",        "function_index",    "attribute_indices entry", "name_strindex",
    "system_name_strindex", "filename_strindex", "filename_strindex",       "attribute_indices entry",
    "key_strindex",         "unit_strindex",     "string_value_strindex",   "neither values nor timestamps",
};

/* Entry 2 of each table leads to the bad index `x`, if `bad` says so; a sample of stack 2 reaches them all.
 */
static void put_bad_tables(struct wire_writer *w, enum bad bad, int64_t x)
{
    put_tables(w);
    IN(w, 6)
    {
        wire_put_int(w, 1, bad == ATTR_KEY ? x : 3);
        IN(w, 2)
        wire_put_int(w, 8, bad == ATTR_VALUE ? x : 1);
        wire_put_int(w, 3, bad == ATTR_UNIT ? x : 0);
    }
    IN(w, 1)
    {
        wire_put_int(w, 4, bad == MAPPING_FILE ? x : 2);
        wire_put_int(w, 5, bad == MAPPING_ATTR ? x : 1);
    }
    IN(w, 3)
    {
        wire_put_int(w, 1, bad == FUNCTION_NAME ? x : 1);
        wire_put_int(w, 2, bad == FUNCTION_SYSTEM ? x : 1);
        wire_put_int(w, 3, bad == FUNCTION_FILE ? x : 2);
    }
    IN(w, 2)
    {
        wire_put_int(w, 1, bad == LOCATION_MAPPING ? x : 2);
        IN(w, 3)
        wire_put_int(w, 1, bad == LINE_FUNCTION ? x : 2);
        wire_put_int(w, 4, bad == LOCATION_ATTR ? x : 2);
    }
    IN(w, 7) wire_put_int(w, 1, bad == STACK_LOCATION ? x : 2);
}

UNIT(a_bad_index_rejects_its_sample_alone)
{
    for (int bad = 0; bad < BADS; bad++)
        for (int negative = 0; negative < 2; negative++) {
            int64_t x = negative ? -1 : 99;
            cleanup(made_end) struct made m;
            struct wire_writer *w = made_begin(&m);
            IN_PROFILE(w)
            {
                put_sample(w);
                IN(w, 2)
                {
                    wire_put_int(w, 1, bad == STACK ? x : 2);
                    wire_put_int(w, 2, bad == SAMPLE_ATTR ? x : 1);
                    wire_put_int(w, 3, bad == LINK ? x : 1);
                    if (bad != EMPTY)
                        wire_put_packed64(w, 4, (int64_t[]){1}, 1);
                }
            }
            IN(w, 2) put_bad_tables(w, (enum bad)bad, x);
            ck_assert_msg(made_decode(&m) == 0, "%d: %s", bad, m.e.text);
            ck_assert_uint_eq(m.v.rejected.samples, 1);
            ck_assert_uint_eq(m.v.rejected.profiles, 1);
            ck_assert_uint_eq(m.v.sample.stack[0], 1);
            ck_assert_uint_eq(m.v.sample.stack[1], PROFILES_REJECTED);
            ck_assert_msg(strstr(m.v.rejected.first.text, bad_words[bad]) != NULL, "%s",
                          m.v.rejected.first.text);
            ck_assert_msg(bytes_starts(bytes_str(m.v.rejected.first.text),
                                       "resource_profiles[0].scope_profiles[0].profiles[0].samples[1]: "),
                          "%s", m.v.rejected.first.text);
            char *all = view_meaning(&m.v); /* reads every index that is left */
            free(all);
            for (uint32_t i = 0; i < m.v.location.n; i++) {
                cleanup(buffer_release) struct buffer out = BUFFER_INIT(0);
                view_location(&out, &m.v, i);
            }
        }
}

UNIT(a_bad_profile_index_rejects_the_profile)
{
    for (int bad = 0; bad < 5; bad++) {
        cleanup(made_end) struct made m;
        struct wire_writer *w = made_begin(&m);
        IN(w, 2) put_tables(w);
        IN(w, 1)
        {
            IN_SCOPE_PROFILES(w) put_sample(w);
            IN_SCOPE_PROFILES(w)
            {
                IN(w, 1)
                {
                    wire_put_uint(w, 1, bad == 0 ? 5 : 4);
                    wire_put_uint(w, 2, bad == 1 ? 5 : 4);
                }
                IN(w, 5)
                {
                    wire_put_uint(w, 1, bad == 2 ? 5 : 4);
                    wire_put_uint(w, 2, bad == 3 ? 5 : 4);
                }
                wire_put_uint(w, 11, bad == 4 ? 2 : 1);
                put_sample(w);
                put_sample(w);
            }
        }
        ck_assert_msg(made_decode(&m) == 0, "%s", m.e.text);
        ck_assert_uint_eq(m.v.rejected.samples, 2);
        ck_assert_uint_eq(m.v.rejected.profiles, 1);
        ck_assert_msg(bytes_starts(bytes_str(m.v.rejected.first.text),
                                   "resource_profiles[0].scope_profiles[1].profiles[0]: "),
                      "%s", m.v.rejected.first.text);
    }
}

UNIT(truncation_is_a_condition_at_every_byte)
{
    cleanup(made_end) struct made m;
    put_request(made_begin(&m), put_sample);
    int malformed = 0;
    for (size_t n = 0; n < m.b.n; n++) {
        autofree uint8_t *body = padded(m.b.p, n);
        struct error e = {""};
        int r = profiles_decode(&m.v, bytes_of(body, n), &profiles_limits_default, &e);
        ck_assert_msg(r == 0 || r == PROFILES_MALFORMED || r == PROFILES_UNSUPPORTED, "%zu: %d", n, r);
        ck_assert_msg((r == 0) == (e.text[0] == '\0'), "%zu: %d %s", n, r, e.text);
        if (r != 0)
            ck_assert_uint_eq(m.v.sample.n + m.v.profile.n + m.v.string.n, 0);
        malformed += r == PROFILES_MALFORMED;
    }
    ck_assert_int_gt(malformed, 50);
}

/* AnyValue { array { AnyValue { array … } } } */
static void put_nested(struct wire_writer *w, uint32_t levels)
{
    size_t mark[2][200];
    ck_assert_uint_le(levels, 200);
    for (uint32_t i = 0; i < levels; i++) {
        mark[0][i] = wire_begin(w, 5);
        mark[1][i] = wire_begin(w, 1);
    }
    wire_put_uint(w, 3, 1);
    for (uint32_t i = levels; i-- > 0;) {
        wire_end(w, mark[1][i]);
        wire_end(w, mark[0][i]);
    }
}

UNIT(nested_values_are_limited)
{
    for (uint32_t levels = 1; levels < 120; levels++)
        for (int in_resource = 0; in_resource < 2; in_resource++) {
            cleanup(made_end) struct made m;
            struct wire_writer *w = made_begin(&m);
            if (in_resource)
                IN(w, 1)
                {
                    IN(w, 1)
                    IN(w, 1)
                    IN(w, 2) put_nested(w, levels);
                }
            else
                IN(w, 2) IN(w, 6) IN(w, 2) put_nested(w, levels);
            int r = made_decode(&m); /* 64 messages: an AnyValue, then two a level */
            ck_assert_msg(r == (levels <= 31 ? 0 : PROFILES_MALFORMED), "%u levels: %d %s", levels, r,
                          m.e.text);
            if (r != 0)
                ck_assert_ptr_nonnull(strstr(m.e.text, "too deep"));
        }
}

/* Two bytes can be all there is to say: a function's name, a mapping's, an attribute's key, a stack of one
 * frame whose writer does not pack. */
UNIT(a_hundred_thousand_entries_of_one_number_are_data)
{
    static const uint32_t table[] = {3, 1, 6, 7};
    static const char *const entry[] = {"\x08\x01", "\x20\x01", "\x08\x01", "\x08\x01"};
    for (size_t k = 0; k < sizeof table / sizeof *table; k++) {
        cleanup(made_end) struct made m;
        struct wire_writer *w = made_begin(&m);
        IN(w, 2)
        {
            put_tables(w);
            for (uint32_t i = 0; i < 100000; i++)
                put_str(w, table[k], entry[k]);
        }
        IN(w, 1) IN(w, 2) IN(w, 2) put_sample(w);
        ck_assert_msg(made_decode(&m) == 0, "%u: %s", table[k], m.e.text);
        ck_assert_uint_eq(m.v.function.n + m.v.mapping.n + m.v.attribute.n + m.v.stack.n, 100008);
        ck_assert_uint_eq(m.v.rejected.samples, 0);
    }
}

/* A body of `n` messages of n_bytes bytes (nothing, or field 15 that is 0) of one kind: the tables; lines,
 * scopes, resources; profiles, samples; attributes. */
enum { FLOOD_KINDS = 13 };
static void put_flood(struct wire_writer *w, size_t kind, uint32_t n, size_t n_bytes)
{
    static const uint32_t field[FLOOD_KINDS] = {1, 2, 3, 4, 5, 6, 7, 3, 2, 1, 2, 2, 1};
    cleanup(buffer_release) struct buffer flood = BUFFER_INIT(0);
    struct wire_writer f = wire_writer(&flood);
    for (uint32_t i = 0; i < n; i++)
        wire_put_bytes(&f, field[kind], bytes_of("\x78\x00", n_bytes));
    switch (kind) {
    default: wire_put_bytes(w, 2, buffer_bytes(&flood)); break;
    case 7: IN(w, 2) wire_put_bytes(w, 2, buffer_bytes(&flood)); break;
    case 8: wire_put_bytes(w, 1, buffer_bytes(&flood)); break;
    case 9: wire_put_raw(w, buffer_bytes(&flood)); break;
    case 10: IN(w, 1) wire_put_bytes(w, 2, buffer_bytes(&flood)); break;
    case 11: IN_PROFILE(w) wire_put_raw(w, buffer_bytes(&flood)); break;
    case 12: IN(w, 1) wire_put_bytes(w, 1, buffer_bytes(&flood)); break;
    }
    ck_assert_int_eq(f.failed, 0);
}

UNIT(floods_of_tiny_messages_hit_the_limit)
{
    for (size_t kind = 0; kind < FLOOD_KINDS; kind++) {
        cleanup(made_end) struct made m;
        put_flood(made_begin(&m), kind, 60000, 0);
        const struct profiles_limits small = {.column_bytes = 128u << 10, .depth = 64};
        ck_assert_int_eq(made_decode_limited(&m, &small), PROFILES_OVER_BUDGET);
        ck_assert_uint_le(profiles_memory_used(&m.v), small.column_bytes);
        int r = made_decode(&m); /* and with the usual limit there is nothing wrong with it */
        ck_assert_msg(r == 0, "%zu: %d %s", kind, r, m.e.text);
    }
}

/* 2^16 of all kinds together, as documented; the columns then take a few megabytes, whatever the body does.
 */
UNIT(more_messages_that_hold_nothing_are_refused)
{
    for (size_t kind = 0; kind < FLOOD_KINDS; kind++)
        for (size_t n_bytes = 0; n_bytes <= 2; n_bytes += 2) {
            if (n_bytes > 0 && (kind == 4 || kind == 7))
                continue; /* a string of two characters, a line with a number: those are something */
            struct made m;
            put_flood(made_begin(&m), kind, 65536, n_bytes);
            ck_assert_msg(made_decode(&m) == 0, "%zu: %s", kind, m.e.text);
            made_end(&m);
            struct wire_writer *w = made_begin(&m);
            put_flood(w, kind, 65536, n_bytes);
            put_flood(w, (kind + 1) % FLOOD_KINDS, 2, 0);
            ck_assert_int_eq(made_decode(&m), PROFILES_MALFORMED);
            ck_assert_ptr_nonnull(strstr(m.e.text, "65536 messages that hold nothing"));
            ck_assert_uint_le(profiles_memory_used(&m.v), 16u << 20);
            made_end(&m);
        }
}

/* A resource, a list in it and a scope, each in n pieces, as nobody sends them. */
static void put_pieces(struct wire_writer *w, uint32_t n)
{
    IN(w, 1)
    {
        for (uint32_t i = 0; i < n; i++)
            IN(w, 1)
        put_str(w, 15, "of a field that nobody knows, and there may be any number of bytes in it");
        IN(w, 1)
        IN(w, 1)
        {
            put_str(w, 1, "a");
            for (uint32_t i = 0; i < n; i++)
                IN(w, 2) IN(w, 5) IN(w, 1) put_str(w, 1, "x");
        }
        IN(w, 2)
        {
            for (uint32_t i = 0; i < n; i++)
                IN(w, 1) put_str(w, 15, "unknown");
            IN(w, 2) put_sample(w);
        }
    }
    IN(w, 2) put_tables(w);
}

UNIT(any_number_of_pieces_takes_a_few_times_their_bytes)
{
    struct budget budget = BUDGET_INIT(SIZE_MAX, NULL);
    cleanup(made_end) struct made m;
    put_pieces(made_begin(&m), 20000);
    profiles_release(&m.v);
    ck_assert_int_eq(profiles_init(&m.v, &budget), 0);
    ck_assert_msg(made_decode(&m) == 0, "%s", m.e.text);
    ck_assert_uint_eq(m.v.key_value.n, 1);
    ck_assert_uint_eq(m.v.key_value.attr[0].value.text.n, 20000 * 5);
    ck_assert_uint_gt(m.v.resource.raw[0].n, 20000 * 60);
    ck_assert_uint_le(profiles_memory_used(&m.v), 5 * m.b.n);
    ck_assert_uint_eq(atomic_load(&budget.used), profiles_memory_used(&m.v));
    profiles_trim(&m.v, 1000);
    ck_assert_uint_eq(atomic_load(&budget.used), 0);
}

UNIT(columns_are_charged_and_given_back)
{
    struct budget budget = BUDGET_INIT(1u << 20, NULL);
    struct made m;
    put_request(made_begin(&m), put_sample);
    profiles_release(&m.v);
    ck_assert_int_eq(profiles_init(&m.v, &budget), 0);
    ck_assert_int_eq(made_decode(&m), 0);
    ck_assert_uint_eq(atomic_load(&budget.used), profiles_memory_used(&m.v));
    ck_assert_uint_gt(profiles_memory_used(&m.v), 0);
    profiles_trim(&m.v, 1u << 20);
    ck_assert_uint_gt(profiles_memory_used(&m.v), 0);
    profiles_trim(&m.v, 0);
    ck_assert_uint_eq(atomic_load(&budget.used), 0);
    budget.limit = 1000;
    ck_assert_int_eq(made_decode(&m), PROFILES_OVER_BUDGET);
    made_end(&m);
    ck_assert_uint_eq(atomic_load(&budget.used), 0);
}

/* Each place where memory can be refused: the charge is refused at every amount up to what the decode takes.
 */
UNIT(memory_may_run_out_anywhere)
{
    cleanup(made_end) struct made m;
    struct wire_writer *w = made_begin(&m);
    IN(w, 2) put_unusual(w);
    IN_PROFILE(w) put_sample(w); /* link 1 does not exist: the marks are needed too */
    ck_assert_int_eq(made_decode(&m), 0);
    ck_assert_uint_eq(m.v.rejected.samples, 1);
    size_t enough = profiles_memory_used(&m.v);
    int refused = 0;
    for (size_t limit = 0; limit < enough + 2000; limit += 509) {
        struct budget budget = BUDGET_INIT(limit, NULL);
        struct profiles v;
        struct error e = {""};
        ck_assert_int_eq(profiles_init(&v, &budget), 0);
        int r = profiles_decode(&v, bytes_of(m.body, m.b.n), &profiles_limits_default, &e);
        ck_assert_msg(r == 0 || r == PROFILES_OVER_BUDGET, "%zu: %d", limit, r);
        refused += r != 0;
        if (r != 0)
            ck_assert_ptr_nonnull(strstr(e.text, "memory is short"));
        profiles_release(&v);
        ck_assert_uint_eq(atomic_load(&budget.used), 0);
    }
    ck_assert_int_gt(refused, 20);
}

UNIT(sums_saturate)
{
    cleanup(made_end) struct made m;
    struct wire_writer *w = made_begin(&m);
    IN_PROFILE(w)
    {
        IN(w, 2) wire_put_packed64(w, 4, (int64_t[]){INT64_MAX, 5}, 2);
        IN(w, 2) wire_put_packed64(w, 4, (int64_t[]){INT64_MIN, -5}, 2);
    }
    ck_assert_msg(made_decode(&m) == 0, "%s", m.e.text);
    ck_assert_int_eq(m.v.sample.value_sum[0], INT64_MAX);
    ck_assert_int_eq(m.v.sample.value_sum[1], INT64_MIN);
}

/* Groups with numbers that OTLP has not given: at the top, in the dictionary, in an attribute, in a sample.
 */
UNIT(a_group_is_an_unknown_field)
{
    static const char group[] = "\xcb\x02\x08\x01\xcc\x02"; /* 41 { 1: 1 } */
    cleanup(made_end) struct made m;
    struct wire_writer *w = made_begin(&m);
    wire_put_raw(w, bytes_str(group));
    IN(w, 2)
    {
        put_tables(w);
        wire_put_raw(w, bytes_str(group));
        IN(w, 6)
        {
            wire_put_uint(w, 1, 4);
            IN(w, 2) wire_put_raw(w, bytes_str(group));
        }
    }
    IN(w, 1) IN(w, 2) IN(w, 2)
    {
        put_sample(w);
        IN(w, 2)
        {
            wire_put_packed64(w, 4, (int64_t[]){7}, 1);
            wire_put_raw(w, bytes_str(group));
        }
    }
    ck_assert_msg(made_decode(&m) == 0, "%s", m.e.text);
    ck_assert_uint_eq(m.v.sample.n, 2);
    ck_assert_int_eq(m.v.sample.value_sum[1], 7);
    ck_assert_uint_eq(m.v.rejected.samples, 0);
    ck_assert_uint_eq(m.v.unknown_fields, 4);
}

static void put_unknown(struct wire_writer *w)
{
    wire_put_uint(w, 100, 1);
}

/* One in each message there is, the field numbers of 1.11 around it. */
UNIT(each_unknown_field_is_counted)
{
    cleanup(made_end) struct made m;
    struct wire_writer *w = made_begin(&m);
    IN(w, 2)
    {
        put_tables(w);
        put_unknown(w);
        for (uint32_t table = 1; table <= 7; table++)
            if (table != 5) /* strings are no messages */
                IN(w, table) put_unknown(w);
        IN(w, 2) IN(w, 3) put_unknown(w); /* Line */
        IN(w, 6) IN(w, 2) put_unknown(w); /* AnyValue */
    }
    IN(w, 1)
    {
        put_unknown(w); /* ResourceProfiles */
        IN(w, 1)
        {
            put_unknown(w); /* Resource */
            wire_put_uint(w, 2, 1);
            IN(w, 1) put_unknown(w); /* KeyValue */
        }
        IN(w, 2)
        {
            put_unknown(w);          /* ScopeProfiles */
            IN(w, 1) put_unknown(w); /* InstrumentationScope */
            IN(w, 2)
            {
                put_sample(w);
                put_unknown(w);          /* Profile */
                IN(w, 1) put_unknown(w); /* ValueType */
                IN(w, 2) put_unknown(w); /* Sample */
            }
        }
    }
    put_unknown(w);
    ck_assert_msg(made_decode(&m) == 0, "%s", m.e.text);
    ck_assert_uint_eq(m.v.unknown_fields, 1 + 6 + 2 + 3 + 2 + 3 + 1);
}

UNIT(unended_groups_and_field_zero_are_malformed)
{
    static const char *const bad[] = {"\x0b", "\x0c",       "\x02\x00",
                                      "\x0d", "\x0a\x05xx", "\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02"};
    static const size_t len[] = {1, 1, 2, 1, 4, 11};
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        cleanup(made_end) struct made m;
        wire_put_raw(made_begin(&m), bytes_of(bad[i], len[i]));
        ck_assert_int_eq(made_decode(&m), PROFILES_MALFORMED);
        ck_assert(m.e.text[0] != '\0');
    }
}
