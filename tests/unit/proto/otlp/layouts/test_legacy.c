/* SPDX-License-Identifier: Apache-2.0 */
/* needs: proto/otlp/json proto/otlp/view proto/schema */
/* The layouts 1.5 … 1.9 decode to what the same request says in 1.10. */
#include <stdio.h>

#include "proto/otlp/layouts/legacy.h"
#include "proto/otlp/json/profiles.h"
#include "tests/lib/unit.h"
#include "tests/unit/proto/otlp/layouts/legacy_encode.h"
#include "tests/unit/proto/otlp/layouts/legacy_json.h"

#define ROUNDS 200

static const enum profiles_layout older[] = {PROFILES_LAYOUT_1_5, PROFILES_LAYOUT_1_7, PROFILES_LAYOUT_1_8,
                                             PROFILES_LAYOUT_1_9};

/* protobuf-c reads the translation too: `meaning` is the view's, `exact` adds each value and timestamp. */
struct meaning {
    char *view, *exact;
};

static struct meaning meaning_of(const struct model *m, enum profiles_layout layout, bool forced,
                                 uint32_t seed)
{
    cleanup(made_end) struct made made;
    struct wire_writer *w = made_begin(&made);
    bool unpacked = seed % 3 == 0; /* then a list is several numbers, which looks like a link of 1.10 */
    encode_model(m, layout, unpacked, seed % 2 == 0, w);
    ck_assert_int_eq(w->failed, 0);
    made.body = padded(made.b.p, made.b.n);
    struct bytes body = bytes_of(made.body, made.b.n);
    int r = profiles_decode_as(&made.v, body, forced || unpacked ? layout : PROFILES_LAYOUT_UNKNOWN,
                               &profiles_limits_default, &made.e);
    ck_assert_msg(r == 0, "seed %u, %s: condition %d: %s", seed, profiles_layout_name(layout), r,
                  made.e.text);
    ck_assert_str_eq(made.e.text, "");
    ck_assert_str_eq(profiles_layout_name(made.v.layout), profiles_layout_name(layout));
    ck_assert_msg(made.v.rejected.samples == 0, "seed %u, %s: %s", seed, profiles_layout_name(layout),
                  made.v.rejected.first.text);
    struct meaning ret = {view_meaning(&made.v), bytes_meaning(made.v.body.p, made.v.body.n, true)};
    ck_assert(ret.view && ret.exact);
    return ret;
}

static void meaning_free(struct meaning *m)
{
    free(m->view);
    free(m->exact);
}

UNIT(one_request_means_the_same_in_five_layouts)
{
    size_t longest = 0;
    autofree struct model *m = unit_made(malloc(sizeof *m));
    for (uint32_t seed = 1; seed <= ROUNDS; seed++) {
        random_model(m, seed);
        cleanup(meaning_free) struct meaning want = meaning_of(m, PROFILES_LAYOUT_1_10, false, seed);
        longest = max_of(longest, strlen(want.exact));
        for (size_t i = 0; i < ARRAY_LEN(older); i++) {
            cleanup(meaning_free) struct meaning have = meaning_of(m, older[i], seed % 5 == 0, seed);
            char what[64];
            snprintf(what, sizeof what, "seed %u, layout %s", seed, profiles_layout_name(older[i]));
            same_meaning(what, have.view, want.view);
            same_meaning(what, have.exact, want.exact);
        }
    }
    ck_assert_uint_gt(longest, 5000); /* something was compared */
}

/* The model in that layout, as JSON. */
static struct meaning meaning_of_json(const struct model *m, enum profiles_layout layout, uint32_t seed)
{
    cleanup(made_end) struct made made;
    cleanup(buffer_release) struct buffer json = BUFFER_INIT(0), out = BUFFER_INIT(0);
    struct profiles_written as = {PROFILES_LAYOUT_1_10, 0};
    const enum profiles_layout want = layout == PROFILES_LAYOUT_1_9 ? PROFILES_LAYOUT_1_10 : layout;
    encode_model(m, layout, seed % 3 == 0, false, made_begin(&made));
    json_of_request(&json, layout, buffer_bytes(&made.b));
    int r = profiles_json_transcode(buffer_bytes(&json), &profiles_limits_default, NULL, &out, &as, &made.e);
    ck_assert_msg(r == 0, "seed %u, %s: condition %d: %s", seed, profiles_layout_name(layout), r,
                  made.e.text);
    ck_assert_uint_eq(as.unknown_fields, 0);
    ck_assert_str_eq(profiles_layout_name(as.layout), profiles_layout_name(want));
    r = profiles_decode_as(&made.v, buffer_bytes(&out), as.layout, &profiles_limits_default, &made.e);
    ck_assert_msg(r == 0, "seed %u, %s: condition %d: %s", seed, profiles_layout_name(layout), r,
                  made.e.text);
    ck_assert_msg(made.v.rejected.samples == 0, "seed %u, %s: %s", seed, profiles_layout_name(layout),
                  made.v.rejected.first.text);
    struct meaning ret = {view_meaning(&made.v), bytes_meaning(made.v.body.p, made.v.body.n, true)};
    ck_assert(ret.view && ret.exact);
    return ret;
}

UNIT(one_request_means_the_same_in_five_layouts_of_json)
{
    static const enum profiles_layout all[] = {PROFILES_LAYOUT_1_5, PROFILES_LAYOUT_1_7, PROFILES_LAYOUT_1_8,
                                               PROFILES_LAYOUT_1_9, PROFILES_LAYOUT_1_10};
    autofree struct model *m = unit_made(malloc(sizeof *m));
    for (uint32_t seed = 1; seed <= ROUNDS / 2; seed++) {
        random_model(m, seed);
        cleanup(meaning_free) struct meaning want = meaning_of(m, PROFILES_LAYOUT_1_10, true, seed);
        for (size_t i = 0; i < ARRAY_LEN(all); i++) {
            cleanup(meaning_free) struct meaning have = meaning_of_json(m, all[i], seed);
            char what[64];
            snprintf(what, sizeof what, "seed %u, JSON of %s", seed, profiles_layout_name(all[i]));
            same_meaning(what, have.view, want.view);
            same_meaning(what, have.exact, want.exact);
        }
    }
}

/* Any prefix: malformed, or what is there; never more than that. */
UNIT(a_truncated_request_is_malformed_or_shorter)
{
    autofree struct model *m = unit_made(malloc(sizeof *m));
    random_model(m, 7);
    for (size_t i = 0; i < ARRAY_LEN(older); i++) {
        cleanup(made_end) struct made made;
        struct wire_writer *w = made_begin(&made);
        uint32_t n_malformed = 0;
        encode_model(m, older[i], false, i % 2, w);
        for (size_t n = 0; n < made.b.n; n++) {
            autofree uint8_t *cut = padded(made.b.p, n);
            int r =
                profiles_decode_as(&made.v, bytes_of(cut, n), older[i], &profiles_limits_default, &made.e);
            ck_assert(r == 0 || r == PROFILES_MALFORMED);
            ck_assert(r == 0 || strstr(made.e.text, profiles_layout_name(older[i])) != NULL);
            n_malformed += r != 0;
        }
        ck_assert_uint_gt(n_malformed, made.b.n / 2);
    }
}

#define IN_PROFILE(w) IN(w, 1) IN(w, 2) IN(w, 2)

static void put_types(struct wire_writer *w)
{
    for (uint32_t i = 0; i < 3; i++)
        IN(w, 1)
        {
            wire_put_uint(w, 1, 1 + i);
            wire_put_uint(w, 2, 4);
        }
}

static void put_small_dictionary_1_7(struct wire_writer *w)
{
    IN(w, 2)
    {
        put_str(w, 5, "");
        put_str(w, 5, "objects");
        put_str(w, 5, "space");
        put_str(w, 5, "time");
        put_str(w, 5, "count");
        IN(w, 2) wire_put_uint(w, 2, 0x1000);
        IN(w, 2) wire_put_uint(w, 2, 0x2000);
    }
}

static const char *type_of(const struct made *m, uint32_t profile)
{
    static char name[32];
    snprintf(name, sizeof name, "%.*s", BYTES_FMT(profiles_string(&m->v, m->v.profile.type[profile])));
    return name;
}

UNIT(several_types_become_a_profile_each_with_the_default_first)
{
    cleanup(made_end) struct made m;
    struct wire_writer *w = made_begin(&m);
    put_small_dictionary_1_7(w);
    IN_PROFILE(w)
    {
        put_types(w);
        for (int i = 0; i < 2; i++)
            IN(w, 2)
            {
                wire_put_uint(w, 1, (uint32_t)i);
                wire_put_uint(w, 2, 1);
                wire_put_packed64(w, 3, (int64_t[]){10 + i, 20 + i, -30 - i}, 3);
            }
        IN(w, 2) wire_put_packed64(w, 3, (int64_t[]){7}, 1); /* no value for the second and third type */
        wire_put_packed32(w, 3, (uint32_t[]){0, 1}, 2);
        wire_put_uint(w, 9, 1);
        put_str(w, 10, "0123456789abcdef");
        put_str(w, 12, "pprof");
        put_str(w, 13, "payload");
    }
    ck_assert_msg(made_decode(&m) == 0, "%s", m.e.text);
    ck_assert_int_eq(m.v.layout, PROFILES_LAYOUT_1_7);
    ck_assert_uint_eq(m.v.profile.n, 3);
    static const struct {
        const char *type;
        int64_t value;
        size_t id;
        bool third;
    } want[] = {{"space", 20, 16, false}, {"objects", 10, 0, true}, {"time", -30, 0, false}};
    for (uint32_t i = 0; i < 3; i++) {
        uint32_t s = m.v.profile.samples_at[i];
        ck_assert_str_eq(type_of(&m, i), want[i].type);
        ck_assert_uint_eq(m.v.profile.profile_id[i].n, want[i].id);
        ck_assert(bytes_eq(m.v.profile.sibling_id[i], m.v.profile.profile_id[0]));
        ck_assert_uint_eq(m.v.profile.samples_at[i + 1] - s, 3);
        ck_assert_int_eq(m.v.sample.value_sum[s], want[i].value);
        ck_assert_int_eq(m.v.sample.value_sum[s + 1], want[i].value + (want[i].value < 0 ? -1 : 1));
        ck_assert_int_eq(m.v.sample.stack[s + 2] != PROFILES_REJECTED, want[i].third);
        uint32_t location = m.v.stack_location.location[m.v.stack.locations_at[m.v.sample.stack[s + 1]]];
        ck_assert_uint_eq(m.v.location.address[location], 0x2000);
    }
    ck_assert_uint_eq(m.v.rejected.samples, 2);
}

UNIT(equal_stacks_and_entries_are_one)
{
    cleanup(made_end) struct made m;
    struct wire_writer *w = made_begin(&m);
    for (int profile = 0; profile < 3; profile++)
        IN_PROFILE(w)
        {
            put_types(w);
            IN(w, 4) wire_put_uint(w, 2, 0x1000);
            IN(w, 4) wire_put_uint(w, 2, 0x1000);
            put_str(w, 10, "");
            put_str(w, 10, "a");
            put_str(w, 10, "a");
            put_str(w, 10, "b");
            put_str(w, 10, "c");
            wire_put_packed32(w, 5, (uint32_t[]){0, 1, 0, 1}, 4);
            for (uint32_t from = 0; from < 3; from++)
                IN(w, 2)
                {
                    wire_put_uint(w, 1, from);
                    wire_put_uint(w, 2, 2);
                    wire_put_packed64(w, 3, (int64_t[]){1, 1, 1}, 3);
                }
        }
    ck_assert_msg(made_decode(&m) == 0, "%s", m.e.text);
    ck_assert_int_eq(m.v.layout, PROFILES_LAYOUT_1_5);
    ck_assert_uint_eq(m.v.sample.n, 27);
    ck_assert_uint_eq(m.v.rejected.samples, 0);
    ck_assert_uint_eq(m.v.stack.n, 2); /* with the zero entry */
    ck_assert_uint_eq(m.v.location.n, 2);
    ck_assert_uint_eq(m.v.string.n, 4);
}

UNIT(an_index_that_leads_nowhere_rejects_its_sample_alone)
{
    for (uint32_t kind = 0; kind < 6; kind++) {
        cleanup(made_end) struct made m;
        struct wire_writer *w = made_begin(&m);
        put_small_dictionary_1_7(w);
        IN(w, 2) IN(w, 2) IN(w, 3) wire_put_uint(w, 1, 9); /* location 2: no such function */
        IN(w, 2) IN(w, 2) wire_put_uint(w, 1, 9);          /* location 3: no such mapping */
        IN_PROFILE(w)
        {
            IN(w, 1) wire_put_uint(w, 1, 1);
            wire_put_packed32(w, 3, (uint32_t[]){0, 99, 2, 3}, 4);
            wire_put_uint(w, 4, 1);
            for (int i = 0; i < 3; i++)
                IN(w, 2)
                {
                    static const uint32_t from[] = {0, 1, 2, 3, 4, UINT32_MAX};
                    wire_put_uint(w, 1, i == 1 ? from[kind] : 0);
                    wire_put_uint(w, 2, 1);
                    wire_put_packed64(w, 3, (int64_t[]){1}, 1);
                    if (i == 1 && kind == 0)
                        wire_put_packed32(w, 4, (uint32_t[]){77}, 1);
                    if (i == 1 && kind == 4)
                        wire_put_int(w, 5, -1);
                }
        }
        ck_assert_msg(made_decode(&m) == 0, "%s", m.e.text);
        ck_assert_uint_eq(m.v.sample.n, 3);
        ck_assert_uint_eq(m.v.rejected.samples, 1);
        ck_assert_uint_eq(m.v.sample.stack[1], PROFILES_REJECTED);
        ck_assert_msg(strstr(m.v.rejected.first.text, "samples[1]") != NULL, "%s", m.v.rejected.first.text);
    }
}

/* 1.4, which is 1.5 but for attributes in place. */
UNIT(attributes_in_the_profile_itself)
{
    cleanup(made_end) struct made m;
    struct wire_writer *w = made_begin(&m);
    IN_PROFILE(w)
    {
        IN(w, 1) wire_put_uint(w, 1, 1);
        IN(w, 2)
        {
            wire_put_uint(w, 2, 0);
            wire_put_packed64(w, 3, (int64_t[]){1}, 1);
        }
        IN(w, 4) wire_put_uint(w, 2, 5);
        IN(w, 18)
        {
            put_str(w, 1, "key");
            IN(w, 2) wire_put_int(w, 3, 77);
        }
    }
    ck_assert_msg(profiles_decode_as(&m.v, bytes_of(m.body = padded(m.b.p, m.b.n), m.b.n),
                                     PROFILES_LAYOUT_1_5, &profiles_limits_default, &m.e) == 0,
                  "%s", m.e.text);
    ck_assert_uint_eq(m.v.profile.attrs_at[1] - m.v.profile.attrs_at[0], 1);
    uint32_t a = m.v.attr_index.attribute[m.v.profile.attrs_at[0]];
    ck_assert(bytes_is(profiles_string(&m.v, m.v.attribute.key[a]), "key"));
    ck_assert_int_eq(m.v.attribute.value[a].integer, 77);
}

/* --- Hostile sizes */

static int decode_within(struct made *m, enum profiles_layout layout, size_t column_bytes,
                         struct budget *budget)
{
    const struct profiles_limits few = {.column_bytes = column_bytes, .depth = 64};
    ck_assert_int_eq(m->w.failed, 0);
    m->body = padded(m->b.p, m->b.n);
    profiles_release(&m->v);
    ck_assert_int_eq(profiles_init(&m->v, budget), 0);
    int r = profiles_decode_as(&m->v, bytes_of(m->body, m->b.n), layout, &few, &m->e);
    ck_assert_uint_le(atomic_load(&budget->used), budget->limit);
    ck_assert_uint_eq(atomic_load(&budget->used), profiles_memory_used(&m->v));
    return r;
}

/* 20,000 samples of the same 20,000 locations: 400 million steps from 160 KB. */
UNIT(overlapping_slices_are_bounded)
{
    struct budget budget = BUDGET_INIT(64u << 20, NULL);
    struct made m;
    struct wire_writer *w = made_begin(&m);
    autofree uint32_t *path = unit_made(calloc(20000, sizeof *path));
    put_small_dictionary_1_7(w);
    IN_PROFILE(w)
    {
        wire_put_packed32(w, 3, path, 20000);
        for (int i = 0; i < 20000; i++)
            IN(w, 2)
            {
                wire_put_uint(w, 2, 20000);
                wire_put_packed64(w, 3, (int64_t[]){1}, 1);
            }
    }
    ck_assert_int_eq(decode_within(&m, PROFILES_LAYOUT_1_7, 64u << 20, &budget), PROFILES_OVER_BUDGET);
    made_end(&m);
    ck_assert_uint_eq(atomic_load(&budget.used), 0);
}

/* 5,000 profiles that repeat one text as their comments: gigabytes of text from a few hundred KB. */
UNIT(repeated_comments_are_bounded)
{
    for (size_t i = 0; i < ARRAY_LEN(older) - 1; i++) {
        struct budget budget = BUDGET_INIT(64u << 20, NULL);
        struct made m;
        struct wire_writer *w = made_begin(&m);
        autofree char *text = unit_made(malloc(100000));
        memset(text, 'x', 100000);
        IN(w, 2) wire_put_bytes(w, 5, bytes_of(text, 100000));
        static const uint8_t field[] = {15, 8, 7}; /* in 1.5, 1.7, 1.8 */
        for (int p = 0; p < 5000; p++)
            IN_PROFILE(w)
            {
                if (older[i] == PROFILES_LAYOUT_1_5)
                    wire_put_bytes(w, 10, bytes_of(text, 1000 + p % 2));
                wire_put_packed32(w, field[i], (uint32_t[100]){0},
                                  older[i] == PROFILES_LAYOUT_1_5 ? 100 : 10);
            }
        ck_assert_int_eq(decode_within(&m, older[i], 64u << 20, &budget), PROFILES_OVER_BUDGET);
        made_end(&m);
        ck_assert_uint_eq(atomic_load(&budget.used), 0);
    }
}

/* 64 types times 100,000 samples: 6.4 million samples from 1 MB; and one type too many. */
UNIT(types_times_samples_is_bounded)
{
    for (int more = 0; more < 2; more++) {
        struct budget budget = BUDGET_INIT(32u << 20, NULL);
        struct made m;
        struct wire_writer *w = made_begin(&m);
        put_small_dictionary_1_7(w);
        IN_PROFILE(w)
        {
            for (int i = 0; i < 64 + more; i++)
                wire_put_bytes(w, 1, BYTES_LIT(""));
            for (int i = 0; i < 100000; i++)
                IN(w, 2) wire_put_packed64(w, 6, (int64_t[]){1}, 1);
        }
        ck_assert_int_eq(decode_within(&m, PROFILES_LAYOUT_1_7, 32u << 20, &budget),
                         more ? PROFILES_MALFORMED : PROFILES_OVER_BUDGET);
        made_end(&m);
        ck_assert_uint_eq(atomic_load(&budget.used), 0);
    }
}

/* Different entries of three bytes each, which cost a hundred in our tables. */
UNIT(many_small_entries_are_charged_for)
{
    struct budget budget = BUDGET_INIT(8u << 20, NULL);
    struct made m;
    struct wire_writer *w = made_begin(&m);
    IN(w, 2) for (uint32_t i = 1; i < 200000; i++) IN(w, 2) wire_put_uint(w, 2, i);
    ck_assert_int_eq(decode_within(&m, PROFILES_LAYOUT_1_7, 8u << 20, &budget), PROFILES_OVER_BUDGET);
    made_end(&m);
    ck_assert_uint_eq(atomic_load(&budget.used), 0);
}

/* Whatever the budget: no leak, no more than it, and the right word. */
/* Empty messages where older layouts have lists of them: samples, lines, tables, profiles. */
UNIT(messages_that_hold_nothing_are_refused_in_older_layouts_too)
{
    enum { IN_PROFILES, IN_TABLES, IN_LOCATIONS, IN_SCOPES, PLACES };
    for (int place = 0; place < PLACES; place++)
        for (uint32_t n = 65000; n <= 66000; n += 1000) {
            cleanup(made_end) struct made m;
            cleanup(buffer_release) struct buffer flood = BUFFER_INIT(0);
            struct wire_writer *w = made_begin(&m), f = wire_writer(&flood);
            for (uint32_t i = 0; i < n; i++)
                wire_put_bytes(&f, place == IN_LOCATIONS ? 3 : 2, bytes_of("", 0));
            IN(w, 1) IN(w, 2)
            {
                IN(w, 2)
                {
                    IN(w, 1) wire_put_uint(w, 1, 0);
                    if (place == IN_PROFILES)
                        wire_put_raw(w, buffer_bytes(&flood));
                }
                if (place == IN_SCOPES)
                    wire_put_raw(w, buffer_bytes(&flood));
            }
            IN(w, 2)
            {
                if (place == IN_TABLES)
                    wire_put_raw(w, buffer_bytes(&flood));
                if (place == IN_LOCATIONS)
                    IN(w, 2) wire_put_raw(w, buffer_bytes(&flood));
            }
            for (size_t i = 0; i < ARRAY_LEN(older); i++) {
                m.body = padded(m.b.p, m.b.n);
                int r = profiles_decode_as(&m.v, bytes_of(m.body, m.b.n), older[i], &profiles_limits_default,
                                           &m.e);
                ck_assert_msg(r == (n <= 65536 ? 0 : PROFILES_MALFORMED), "place %d, %s: %d %s", place,
                              profiles_layout_name(older[i]), r, m.e.text);
                ck_assert(r == 0 || strstr(m.e.text, "hold nothing"));
                free(take_ptr(m.body));
            }
        }
}

UNIT(any_budget_is_kept)
{
    autofree struct model *model = unit_made(malloc(sizeof *model));
    random_model(model, 3);
    uint32_t n_fit = 0, n_refused = 0;
    for (size_t i = 0; i < ARRAY_LEN(older); i++)
        for (size_t bytes = 1000; bytes < 1000000; bytes += bytes / 8) {
            struct budget budget = BUDGET_INIT(bytes, NULL);
            struct made m;
            struct wire_writer *w = made_begin(&m);
            encode_model(model, older[i], false, false, w);
            int r = decode_within(&m, older[i], 256u << 20, &budget);
            ck_assert(r == 0 || r == PROFILES_OVER_BUDGET);
            n_fit += r == 0;
            n_refused += r != 0;
            made_end(&m);
            ck_assert_uint_eq(atomic_load(&budget.used), 0);
        }
    ck_assert_uint_gt(n_fit, 10);
    ck_assert_uint_gt(n_refused, 10);
}

UNIT(the_translation_is_given_back_by_trim)
{
    autofree struct model *model = malloc(sizeof *model);
    struct budget budget = BUDGET_INIT(64u << 20, NULL);
    cleanup(made_end) struct made m;
    ck_assert_ptr_nonnull(model);
    random_model(model, 5);
    struct wire_writer *w = made_begin(&m);
    encode_model(model, PROFILES_LAYOUT_1_7, false, false, w);
    ck_assert_int_eq(decode_within(&m, PROFILES_LAYOUT_1_7, 64u << 20, &budget), 0);
    ck_assert_uint_ge(profiles_memory_used(&m.v), m.v.body.n);
    profiles_trim(&m.v, 0);
    ck_assert_uint_eq(profiles_memory_used(&m.v), 0);
    ck_assert_uint_eq(atomic_load(&budget.used), 0);
}

/* --- Captures of other projects, beside the repository where they are */

/* A file of ../shared/data/foreign, padded; NULL when it is not there. */
static uint8_t *foreign(const char *name, size_t *ret_n)
{
    char path[256];
    snprintf(path, sizeof path, "%s/../shared/data/foreign/%s", PG_SOURCE_DIR, name);
    FILE *f = fopen(path, "rb");
    if (!f)
        return NULL;
    ck_assert_int_eq(fseek(f, 0, SEEK_END), 0);
    long n = ftell(f);
    ck_assert_int_gt(n, 0);
    rewind(f);
    uint8_t *p = unit_made(calloc(1, (size_t)n + PROFILES_PADDING));
    ck_assert_uint_eq(fread(p, 1, (size_t)n, f), (size_t)n);
    fclose(f);
    *ret_n = (size_t)n;
    return p;
}

static char *view_of(struct bytes body, enum profiles_layout want)
{
    cleanup(profiles_release) struct profiles v;
    struct error e = {""};
    autofree uint8_t *copy = padded(body.p, body.n);
    ck_assert_int_eq(profiles_init(&v, NULL), 0);
    ck_assert_msg(profiles_decode(&v, bytes_of(copy, body.n), &profiles_limits_default, &e) == 0, "%s",
                  e.text);
    ck_assert_str_eq(profiles_layout_name(v.layout), profiles_layout_name(want));
    ck_assert_uint_eq(v.rejected.samples, 0);
    ck_assert_uint_gt(v.sample.n, 0);
    char *ret = view_meaning(&v);
    return ret;
}

/* `framed`: a series of messages behind 4-byte big-endian lengths, of which the first is compared and all are
 * decoded. */
static void compare_capture(const char *name, const char *converted, bool framed)
{
    size_t n, n_want, at_least = framed ? 2 : 1, n_messages = 0;
    autofree uint8_t *data = foreign(name, &n), *want = foreign(converted, &n_want);
    if (!data || !want)
        unit_skip("no foreign captures beside the repository");
    autofree char *wanted = view_of(bytes_of(want, n_want), PROFILES_LAYOUT_1_10);
    for (size_t i = 0; i < n; n_messages++) {
        size_t len = n;
        if (framed) {
            ck_assert_uint_ge(n - i, 4);
            len = (size_t)data[i] << 24 | (size_t)data[i + 1] << 16 | (size_t)data[i + 2] << 8 | data[i + 3];
            i += 4;
        }
        ck_assert_uint_le(len, n - i);
        char *have = view_of(bytes_of(data + i, len), PROFILES_LAYOUT_1_8);
        if (n_messages == 0)
            same_meaning(name, have, wanted);
        free(have);
        i += len;
    }
    ck_assert_uint_ge(n_messages, at_least);
}

UNIT(a_capture_of_1_8_equals_its_conversion)
{
    compare_capture("dialects/profile.otlp", "connector/profile-00.pb", false);
}

UNIT(captures_of_1_8_in_a_series_equal_their_conversion)
{
    compare_capture("dialects/k8s.otlp", "connector/k8s-00.pb", true);
}
