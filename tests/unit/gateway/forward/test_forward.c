/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/unit.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "gateway/forward/forward.h"
#include "gateway/forward/pick.h"
#include "gateway/stats/stats.h"
#include "proto/base/macros.h"
#include "proto/otlp/write/subset.h"
#include "tests/unit/gateway/forward/fake.h"

static int pick_samples(struct pick *p, const struct profiles *view, double share, uint64_t seed)
{
    int r = pick_by_share(p, view, share, seed);
    if (r == 0)
        pick_group(p, view, 0);
    return r;
}

static struct forward *make(double keep, uint64_t seed, struct export_profiles *x, struct stats *stats,
                            struct budget *budget)
{
    struct forward_options o = {.keep = keep, .seed = seed, .refuse_when_full = true};
    struct forward *f = unit_made(forward_new(&o, x, stats, budget));
    return f;
}

/* The default: it goes without, is counted, and the request is taken. */
UNIT(a_full_destination_goes_without)
{
    size_t n;
    autofree uint8_t *p = unit_data(files[0], &n);
    cleanup(profiles_release) struct profiles view = decoded(bytes_of(p, n));
    const uint64_t samples = view.sample.n - view.rejected.samples;
    for (int thinned = 0; thinned < 2; thinned++) {
        struct export_profiles x = {.room = 10};
        struct stats *stats = unit_made(stats_new());
        struct forward_options o = {.keep = thinned ? 0.5 : 1, .seed = 1};
        struct forward *f = unit_made(forward_new(&o, &x, stats, NULL));
        ck_assert(forward_reserve(f, n));
        forward_push(f, &view, NULL, n);
        ck_assert(x.pushes == 0 && x.reserved == 0 && x.requests == 0);
        ck_assert_uint_eq(stats->value[STATS_FORWARD_SAMPLES], 0);
        ck_assert_uint_eq(stats->value[STATS_FORWARD_DROPPED] + stats->value[STATS_FORWARD_THINNED], samples);
        ck_assert(thinned || stats->value[STATS_FORWARD_THINNED] == 0);
        ck_assert(forward_reserve(f, n));
        forward_cancel(f, n);
        ck_assert_ptr_null(forward_owed(f));
        forward_free(f);
    }
}

UNIT(everything_is_untouched)
{
    for (size_t i = 0; i < ARRAY_LEN(files); i++) {
        size_t n;
        autofree uint8_t *p = unit_data(files[i], &n);
        cleanup(profiles_release) struct profiles view = decoded(bytes_of(p, n));
        struct export_profiles x = {.room = n};
        struct stats *stats = unit_made(stats_new());
        struct forward *f = make(1, 1, &x, stats, NULL);
        ck_assert(forward_reserve(f, n));
        ck_assert(!forward_reserve(f, n));
        forward_push(f, &view, NULL, n);
        ck_assert_uint_eq(x.reserved, 0);
        ck_assert_uint_eq(x.n, n);
        ck_assert_mem_eq(x.body, p, n);
        ck_assert_uint_eq(x.samples, view.sample.n - view.rejected.samples);
        ck_assert_uint_eq(stats->value[STATS_FORWARD_SAMPLES], x.samples);
        ck_assert_uint_eq(stats->value[STATS_FORWARD_THINNED], 0);
        forward_free(f);
        free(x.body);
    }
}

#define CODED "coded bytes"

/* A request whose memory may be taken over: what came, and what it was decoded to. */
struct arrival {
    struct budget budget;
    struct buffer plain, coded;
    struct received received;
    struct profiles view;
};

static void arrive(struct arrival *a, const uint8_t *p, size_t n)
{
    *a = (struct arrival){.budget = BUDGET_INIT(8 << 20, NULL)};
    ck_assert_int_eq(room_make(&a->plain, n + PROFILES_PADDING, &a->budget), 0);
    ck_assert_int_eq(room_make(&a->coded, sizeof CODED, &a->budget), 0);
    buffer_add(&a->plain, p, n);
    buffer_add_str(&a->coded, CODED);
    memset(a->plain.p + n, 0, PROFILES_PADDING);
    a->received = (struct received){CODING_ZSTD, &a->plain, &a->coded, &a->budget, &a->budget};
    a->view = decoded(buffer_bytes(&a->plain));
}

static void arrival_release(struct arrival *a)
{
    profiles_release(&a->view);
    room_release(&a->plain, &a->budget);
    room_release(&a->coded, &a->budget);
    ck_assert_uint_eq(atomic_load(&a->budget.used), 0);
}

/* In the forms that the destinations want, each in the memory it came in: no sooner than the view may go. */
UNIT(what_is_kept_whole_leaves_in_the_memory_it_came_in)
{
    static const unsigned wanted[] = {EXPORT_PLAIN, EXPORT_CODED, EXPORT_PLAIN | EXPORT_CODED};
    size_t n;
    autofree uint8_t *p = unit_data(files[0], &n);
    for (size_t i = 0; i < ARRAY_LEN(wanted); i++) {
        cleanup(arrival_release) struct arrival a;
        arrive(&a, p, n);
        struct export_profiles x = {.room = n, .forms = wanted[i]};
        autofree struct stats *stats = unit_made(stats_new());
        struct forward *f = make(1, 1, &x, stats, NULL);
        ck_assert(forward_reserve(f, n));
        forward_push(f, &a.view, &a.received, n);
        ck_assert_uint_eq(x.pushes, 0);
        ck_assert_uint_eq(x.requests, 1);
        forward_take_over(f, &a.received);
        ck_assert_uint_eq(x.pushes, 1);
        ck_assert_uint_eq(x.reserved, 0);
        ck_assert_uint_eq(x.samples, stats->value[STATS_FORWARD_SAMPLES]);
        ck_assert_uint_eq(a.plain.cap == 0, wanted[i] & EXPORT_PLAIN);
        ck_assert_uint_eq(a.coded.cap == 0, (wanted[i] & EXPORT_CODED) != 0);
        ck_assert(wanted[i] & EXPORT_PLAIN ? x.n == n && memcmp(x.body, p, n) == 0 : !x.body);
        ck_assert_int_eq(x.received, wanted[i] & EXPORT_PLAIN ? CODING_ZSTD : 0);
        if (wanted[i] & EXPORT_CODED) {
            ck_assert(bytes_is(client_body_bytes(x.coded), CODED));
            ck_assert_int_eq(x.coded->coding, CODING_ZSTD);
            ck_assert_uint_eq(x.coded->n_plain, n);
        } else {
            ck_assert_ptr_null(x.coded);
        }
        forward_take_over(f, &a.received); /* nothing is left to leave */
        ck_assert_uint_eq(x.pushes, 1);
        client_body_unref(x.coded);
        free(x.body);
        forward_free(f);
    }
}

/* Thinned, split, without references, rejected in part, of an older layout, of several members: the coded
 * bytes are not what is sent. What is built anew says how it came. */
UNIT(what_is_not_whole_leaves_plain)
{
    size_t n;
    autofree uint8_t *p = unit_data(files[0], &n);
    for (int why = 0; why < 5; why++) {
        cleanup(arrival_release) struct arrival a;
        arrive(&a, p, n);
        struct export_profiles x = {.room = 8 * n, .forms = EXPORT_CODED};
        if (why == 1)
            x.limit = n / 2;
        x.no_references = why == 2;
        if (why == 3)
            a.view.rejected.samples = 1;
        if (why == 4)
            a.received.coded = NULL;
        autofree struct stats *stats = unit_made(stats_new());
        struct forward *f = make(why == 0 ? 0.5 : 1, 1, &x, stats, NULL);
        ck_assert(forward_reserve(f, n));
        forward_push(f, &a.view, &a.received, n);
        forward_take_over(f, &a.received);
        ck_assert_uint_ge(x.pushes, why == 1 ? 2 : 1);
        ck_assert_uint_eq(x.reserved, 0);
        ck_assert_uint_eq(x.requests, 0);
        ck_assert_ptr_null(x.coded);
        ck_assert_int_eq(x.received, CODING_ZSTD);
        ck_assert_uint_gt(a.coded.cap, 0);
        ck_assert_uint_eq(a.plain.cap == 0, why >= 3);
        free(x.body);
        forward_free(f);
    }
}

/* What compressed badly is larger than what was reserved for it. */
UNIT(coded_bytes_that_need_more_room_than_plain_ones)
{
    for (int roomy = 0; roomy < 2; roomy++) {
        cleanup(arrival_release) struct arrival a;
        size_t n;
        autofree uint8_t *p = unit_data(files[0], &n);
        arrive(&a, p, n);
        ck_assert_int_eq(room_make(&a.coded, n + 100, &a.budget), 0);
        memset(a.coded.p, 'x', n + 100);
        a.coded.n = n + 100;
        struct export_profiles x = {.room = roomy ? 2 * n : n, .forms = EXPORT_CODED};
        autofree struct stats *stats = unit_made(stats_new());
        struct forward *f = make(1, 1, &x, stats, NULL);
        ck_assert(forward_reserve(f, n));
        forward_push(f, &a.view, &a.received, n);
        forward_take_over(f, &a.received);
        ck_assert_uint_eq(x.reserved, 0);
        ck_assert_uint_eq(x.pushes, (unsigned)roomy);
        ck_assert_uint_eq(stats->value[STATS_FORWARD_DROPPED] > 0, (unsigned)!roomy);
        client_body_unref(x.coded);
        forward_free(f);
    }
}

/* What came as 1.9 goes out as 1.10, and the room its growth takes beyond the reservation is asked for. */
UNIT(an_older_layout_is_forwarded_as_1_10)
{
    /* clang-format off */
    static const uint8_t request[] = { /* comments of 1.8, which become an attribute, make it grow */
        0x0a, 0x23, 0x12, 0x21, 0x12, 0x1f,
            0x12, 0x08, 0x08, 0x00, 0x12, 0x01, 0x07, 0x1a, 0x01, 0x00, /* stack 0, values {7}, attributes {0} */
            0x3a, 0x01, 0x01, /* comment_strindices */
            0x42, 0x10, '0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd', 'e', 'f',
        0x12, 0x0b, 0x2a, 0x00, 0x2a, 0x07, 'c', 'o', 'm', 'm', 'e', 'n', 't',
    };
    /* clang-format on */
    for (int roomy = 0; roomy < 2; roomy++) {
        autofree uint8_t *p;
        size_t n = sizeof request;
        cleanup(profiles_release) struct profiles view = decoded_copy(request, n, &p);
        ck_assert_int_eq(view.layout, PROFILES_LAYOUT_1_8);
        ck_assert_uint_gt(view.body.n, n);
        struct export_profiles x = {.room = roomy ? 2 * view.body.n : n};
        struct stats *stats = unit_made(stats_new());
        struct forward *f = make(1, 1, &x, stats, NULL);
        ck_assert(forward_reserve(f, n));
        forward_push(f, &view, NULL, n);
        ck_assert_uint_eq(x.reserved, 0);
        ck_assert_uint_eq(x.pushes, (unsigned)roomy);
        ck_assert_uint_eq(stats->value[STATS_FORWARD_SAMPLES], (unsigned)roomy);
        ck_assert_uint_eq(stats->value[STATS_FORWARD_DROPPED], (unsigned)!roomy);
        if (roomy) {
            autofree uint8_t *q;
            cleanup(profiles_release) struct profiles again = decoded_copy(x.body, x.n, &q);
            ck_assert_int_eq(again.layout, PROFILES_LAYOUT_1_10);
            ck_assert_int_eq(again.sample.value_sum[0], 7);
        }
        forward_free(f);
        free(x.body);
    }
}

UNIT(nothing_needs_no_room)
{
    size_t n;
    autofree uint8_t *p = unit_data(files[0], &n);
    cleanup(profiles_release) struct profiles view = decoded(bytes_of(p, n));
    struct export_profiles x = {.room = 0};
    struct stats *stats = unit_made(stats_new());
    struct forward *f = make(0, 1, &x, stats, NULL);
    ck_assert(forward_reserve(f, n));
    forward_push(f, &view, NULL, n);
    ck_assert(forward_reserve(f, n));
    forward_cancel(f, n);
    ck_assert_uint_eq(x.pushes, 0);
    ck_assert_uint_eq(stats->value[STATS_FORWARD_THINNED], view.sample.n);
    forward_free(f);
}

/* Every table of a thinned request holds only what something refers to. */
static void check_reachable(const struct profiles *v)
{
    uint8_t *stack = calloc(v->stack.n, 1), *location = calloc(v->location.n, 1),
            *function = calloc(v->function.n, 1);
    stack[0] = location[0] = function[0] = 1;
    for (uint32_t i = 0; i < v->sample.n; i++)
        stack[v->sample.stack[i]] = 1;
    for (uint32_t i = 0; i < v->stack_location.n; i++)
        location[v->stack_location.location[i]] = 1;
    for (uint32_t i = 0; i < v->line.n; i++)
        function[v->line.function[i]] = 1;
    for (uint32_t i = 0; i < v->stack.n; i++)
        ck_assert_msg(stack[i], "stack %u is not used", i);
    for (uint32_t i = 0; i < v->location.n; i++)
        ck_assert_msg(location[i], "location %u is not used", i);
    for (uint32_t i = 0; i < v->function.n; i++)
        ck_assert_msg(function[i], "function %u is not used", i);
    free(stack);
    free(location);
    free(function);
}

static void check_mark(const struct profiles *v, double probability)
{
    for (uint32_t i = 0; i < v->profile.n; i++) {
        int found = 0;
        for (uint32_t k = v->profile.attrs_at[i]; k < v->profile.attrs_at[i + 1]; k++) {
            uint32_t a = v->attr_index.attribute[k];
            if (!bytes_is(profiles_string(v, v->attribute.key[a]), "profgate.keep.share"))
                continue;
            ck_assert_int_eq(v->attribute.value[a].kind, ATTR_DOUBLE);
            ck_assert_double_eq(v->attribute.value[a].real, probability);
            found++;
        }
        ck_assert_int_eq(found, 1);
    }
}

UNIT(a_share_decodes_and_says_so)
{
    uint64_t all = 0, kept = 0;
    for (size_t i = 0; i < ARRAY_LEN(files); i++) {
        size_t n;
        uint8_t *p = unit_data(files[i], &n), *copy = NULL;
        struct profiles view = decoded(bytes_of(p, n)), out;
        struct export_profiles x = {.room = 2 * n};
        struct stats *stats = unit_made(stats_new());
        struct forward *f = make(0.25, 99, &x, stats, NULL);
        ck_assert(forward_reserve(f, n));
        forward_push(f, &view, NULL, n);
        ck_assert_uint_eq(x.reserved, 0);
        ck_assert_uint_eq(x.requests, 0);
        ck_assert_uint_eq(stats->value[STATS_FORWARD_SAMPLES] + stats->value[STATS_FORWARD_THINNED],
                          view.sample.n - view.rejected.samples);
        ck_assert_uint_eq(stats->value[STATS_FORWARD_DROPPED], 0);
        if (x.pushes) {
            out = decoded_copy(x.body, x.n, &copy);
            ck_assert_uint_eq(out.rejected.samples, 0);
            ck_assert_uint_eq(out.sample.n, x.samples);
            ck_assert_uint_eq(out.sample.n, stats->value[STATS_FORWARD_SAMPLES]);
            check_reachable(&out);
            check_mark(&out, 0.25);
            kept += out.sample.n;
            profiles_release(&out);
        }
        all += view.sample.n;
        forward_free(f);
        free(copy);
        free(x.body);
        profiles_release(&view);
        free(p);
    }
    ck_assert_uint_gt(kept, all / 20);
    ck_assert_uint_lt(kept, all / 2);
}

UNIT(gateways_agree)
{
    for (size_t i = 0; i < ARRAY_LEN(files); i++) {
        size_t n;
        uint8_t *p = unit_data(files[i], &n), *copy;
        struct profiles view = decoded(bytes_of(p, n));
        struct export_profiles one = {.room = 2 * n}, two = one, three = one;
        struct forward *f[3] = {make(0.3, 5, &one, NULL, NULL), make(0.3, 5, &two, NULL, NULL),
                                make(0.3, 6, &three, NULL, NULL)};
        for (int k = 0; k < 3; k++) {
            ck_assert(forward_reserve(f[k], n));
            forward_push(f[k], &view, NULL, n);
            forward_free(f[k]);
        }
        ck_assert_uint_eq(one.n, two.n);
        if (one.n)
            ck_assert_mem_eq(one.body, two.body, one.n);

        /* A second gateway sees the same samples in a request that numbers everything anew. */
        struct buffer again = BUFFER_INIT(0);
        struct arena scratch = ARENA_INIT(NULL);
        ck_assert_int_eq(profiles_subset(&view, NULL, NULL, &scratch, &again), 0);
        struct profiles other = decoded_copy(again.p, again.n, &copy);
        struct pick a = {0}, b = {0}, c = {0};
        ck_assert_int_eq(pick_samples(&a, &view, 0.3, 5), 0);
        ck_assert_int_eq(pick_samples(&b, &other, 0.3, 5), 0);
        ck_assert_int_eq(pick_samples(&c, &view, 0.3, 6), 0);
        ck_assert_uint_eq(a.kept, b.kept);
        ck_assert_uint_eq(a.kept + a.thinned, other.sample.n);
        if (view.rejected.samples == 0)
            ck_assert_mem_eq(a.keep, b.keep, SUBSET_WORDS(view.sample.n) * sizeof *a.keep);
        if (view.sample.n > 100) /* another seed picks others */
            ck_assert_int_ne(memcmp(a.keep, c.keep, SUBSET_WORDS(view.sample.n) * sizeof *a.keep), 0);
        pick_release(&a);
        pick_release(&b);
        pick_release(&c);
        arena_release(&scratch);
        buffer_release(&again);
        profiles_release(&other);
        profiles_release(&view);
        free(copy);
        free(one.body);
        free(two.body);
        free(three.body);
        free(p);
    }
}

/* A request of n samples with n distinct one-frame stacks. */
static uint8_t *many_stacks(uint32_t n, const char *service, size_t *ret_n)
{
    struct build *b = unit_made(build_new(NULL));
    struct attr attr = {.key = BYTES_LIT("service.name"),
                        .value = {.kind = ATTR_STRING, .text = bytes_str(service)}};
    build_begin(b);
    build_resource(b, &attr, 1, bytes_of(NULL, 0));
    build_scope(b, BYTES_LIT("t"), bytes_of(NULL, 0), NULL, 0, bytes_of(NULL, 0));
    build_profile(b, &(struct build_profile){.type = build_string(b, BYTES_LIT("samples")),
                                             .unit = build_string(b, BYTES_LIT("count"))});
    for (uint32_t i = 0; i < n; i++) {
        char name[32];
        snprintf(name, sizeof name, "function_%u", i);
        struct build_line line = {.function = build_function(
                                      b, &(struct build_function){.name = build_string(b, bytes_str(name))})};
        uint32_t location = build_location(b, &(struct build_location){.lines = &line, .n_lines = 1});
        int64_t one = 1;
        build_sample(
            b, &(struct build_sample){.stack = build_stack(b, &location, 1), .values = &one, .n_values = 1});
    }
    return built(b, ret_n);
}

UNIT(the_share_is_binomial)
{
    enum { N = 20000 };
    static const double shares[] = {0.01, 0.1, 0.5, 0.9};
    size_t n;
    autofree uint8_t *p = many_stacks(N, "a", &n), *q;
    cleanup(profiles_release) struct profiles view = decoded(bytes_of(p, n));
    size_t other_n;
    q = many_stacks(N, "b", &other_n);
    cleanup(profiles_release) struct profiles other = decoded(bytes_of(q, other_n));
    ck_assert_uint_eq(view.sample.n, N);
    for (size_t i = 0; i < ARRAY_LEN(shares); i++) {
        double s = shares[i], sigma = sqrt(N * s * (1 - s));
        for (uint64_t seed = 1; seed <= 5; seed++) {
            cleanup(pick_release) struct pick a = {0}, b = {0};
            ck_assert_int_eq(pick_samples(&a, &view, s, seed), 0);
            ck_assert_int_eq(pick_samples(&b, &other, s, seed), 0);
            ck_assert_double_le(fabs((double)a.kept - N * s), 5 * sigma);
            /* The same stack of another resource is another decision: both kept for s² of them. */
            uint64_t both = 0;
            for (uint32_t k = 0; k < N; k++)
                both += subset_has(a.keep, k) && subset_has(b.keep, k);
            ck_assert_double_le(fabs((double)both - N * s * s), 5 * sqrt(N * s * s * (1 - s * s)));
        }
    }
}

/* A request of one profile of allocations: most are small, a few are nearly all of it. */
static uint8_t *unequal(uint32_t n, int64_t *ret_sum, size_t *ret_n)
{
    struct build *b = unit_made(build_new(NULL));
    build_begin(b);
    build_resource(b, NULL, 0, bytes_of(NULL, 0));
    build_scope(b, BYTES_LIT("t"), bytes_of(NULL, 0), NULL, 0, bytes_of(NULL, 0));
    build_profile(b, &(struct build_profile){.type = build_string(b, BYTES_LIT("alloc_space")),
                                             .unit = build_string(b, BYTES_LIT("bytes"))});
    *ret_sum = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t location = build_location(b, &(struct build_location){.address = 0x1000 + i});
        int64_t values[2] = {16 + i % 7, i % 50 == 0 ? 1000000 + i : 8};
        uint64_t times[2] = {1, 2};
        *ret_sum += values[0] + values[1];
        build_sample(b, &(struct build_sample){.stack = build_stack(b, &location, 1),
                                               .values = values,
                                               .n_values = 2,
                                               .timestamps = times,
                                               .n_timestamps = 2});
    }
    return built(b, ret_n);
}

/* Weights decide: with one chance for all, a tenth of these had nothing or a multiple of the bytes. */
UNIT(totals_stay_what_they_are)
{
    enum { N = 5000 };
    static const double shares[] = {0.01, 0.1, 0.5};
    size_t n;
    int64_t sum;
    uint8_t *p = unequal(N, &sum, &n), *copy;
    struct profiles view = decoded(bytes_of(p, n));
    for (size_t i = 0; i < ARRAY_LEN(shares); i++)
        for (uint64_t seed = 1; seed <= 5; seed++) {
            struct export_profiles x = {.room = 2 * n};
            struct forward *f = make(shares[i], seed, &x, NULL, NULL);
            ck_assert(forward_reserve(f, n));
            forward_push(f, &view, NULL, n);
            cleanup(profiles_release) struct profiles out = decoded_copy(unit_made(x.body), x.n, &copy);
            int64_t kept = 0;
            for (uint32_t k = 0; k < out.sample.n; k++) {
                kept += out.sample.value_sum[k];
                ck_assert_uint_eq(out.sample.n_values[k], 1); /* one shape in a profile */
                ck_assert_uint_eq(out.sample.n_timestamps[k], 0);
            }
            ck_assert_uint_gt(out.sample.n, 0);
            ck_assert_double_le(out.sample.n, N * shares[i] + 5 * sqrt(N * shares[i]));
            double error = fabs((double)kept / (double)sum - 1);
            ck_assert_msg(error < 5 / sqrt(N * shares[i]), "share %g seed %u: off by %g", shares[i],
                          (unsigned)seed, error);
            forward_free(f);
            free(copy);
            free(x.body);
        }
    profiles_release(&view);
    free(p);
}

/* A profile of each type with so many samples of one value. */
static uint8_t *typed(uint32_t types, uint32_t n, int64_t (*value)(uint32_t type), size_t *ret_n)
{
    struct build *b = unit_made(build_new(NULL));
    build_begin(b);
    build_resource(b, NULL, 0, bytes_of(NULL, 0));
    build_scope(b, BYTES_LIT("t"), bytes_of(NULL, 0), NULL, 0, bytes_of(NULL, 0));
    for (uint32_t type = 0; type < types; type++) {
        char name[16];
        snprintf(name, sizeof name, "type%u", type);
        build_profile(b, &(struct build_profile){.type = build_string(b, bytes_str(name)),
                                                 .unit = build_string(b, BYTES_LIT("count"))});
        for (uint32_t i = 0; i < n; i++) {
            uint32_t location = build_location(b, &(struct build_location){.address = 0x1000 + type * n + i});
            int64_t one = value(type);
            build_sample(b, &(struct build_sample){
                                .stack = build_stack(b, &location, 1), .values = &one, .n_values = 1});
        }
    }
    return built(b, ret_n);
}

/* The sum of what is forwarded of each type. */
static void thinned(const struct profiles *view, size_t n, double share, uint64_t seed, double *sum)
{
    uint8_t *copy;
    struct export_profiles x = {.room = 2 * n};
    struct forward *f = make(share, seed, &x, NULL, NULL);
    ck_assert(forward_reserve(f, n));
    forward_push(f, view, NULL, n);
    struct profiles out = decoded_copy(unit_made(x.body), x.n, &copy);
    for (uint32_t i = 0; i < out.profile.n; i++) {
        struct bytes name = profiles_string(&out, out.profile.type[i]);
        uint32_t type = (uint32_t)strtoul((const char *)name.p + strlen("type"), NULL, 10);
        for (uint32_t k = out.profile.samples_at[i]; k < out.profile.samples_at[i + 1]; k++)
            sum[type] += (double)out.sample.value_sum[k];
    }
    forward_free(f);
    profiles_release(&out);
    free(copy);
    free(x.body);
}

static int64_t counts_and_bytes(uint32_t type)
{
    return type % 2 ? 1000000000 : 1;
}

/* More types than have a place of their own: where they shared a mean, nothing was left of a count. */
UNIT(a_type_beyond_the_places_keeps_its_total)
{
    enum { TYPES = 2 * PICK_CLASSES, N = 2000 };
    size_t n;
    double sum[TYPES] = {0};
    autofree uint8_t *p = typed(TYPES, N, counts_and_bytes, &n);
    cleanup(profiles_release) struct profiles view = decoded(bytes_of(p, n));
    thinned(&view, n, 0.1, 1, sum);
    for (uint32_t type = 0; type < TYPES; type++) {
        double error = fabs(sum[type] / (double)counts_and_bytes(type) / N - 1);
        ck_assert_msg(error < 5 / sqrt(N * 0.1), "type %u: off by %g", type, error);
    }
}

static int64_t huge(uint32_t type)
{
    return 100000000000000000;
}

/* A hundred times this is no int64: it is kept more often, and is worth less. */
UNIT(what_would_be_worth_too_much_is_kept_more_often)
{
    enum { N = 2000, SEEDS = 10 };
    size_t n;
    double sum = 0, truth = (double)huge(0) * N * SEEDS;
    autofree uint8_t *p = typed(1, N, huge, &n);
    cleanup(profiles_release) struct profiles view = decoded(bytes_of(p, n));
    for (uint64_t seed = 1; seed <= SEEDS; seed++)
        thinned(&view, n, 0.01, seed, &sum);
    ck_assert_msg(fabs(sum / truth - 1) < 5 / sqrt(0.01 * N * SEEDS), "%g of %g", sum, truth);
}

/* 50 ticks at one place and one each at many: a count is a weight too, and is scaled. */
UNIT(what_only_has_times_is_worth_a_count)
{
    enum { N = 4000 };
    struct build *b = unit_made(build_new(NULL));
    static uint64_t times[50];
    size_t n;
    uint8_t *copy;
    build_begin(b);
    build_resource(b, NULL, 0, bytes_of(NULL, 0));
    build_scope(b, BYTES_LIT("t"), bytes_of(NULL, 0), NULL, 0, bytes_of(NULL, 0));
    build_profile(b, &(struct build_profile){.type = build_string(b, BYTES_LIT("samples")),
                                             .unit = build_string(b, BYTES_LIT("count"))});
    uint64_t ticks = 0;
    for (uint32_t i = 0; i < N; i++) {
        uint32_t location = build_location(b, &(struct build_location){.address = 0x1000 + i});
        uint32_t n_times = i % 100 == 0 ? 50 : 1;
        ticks += n_times;
        build_sample(b, &(struct build_sample){.stack = build_stack(b, &location, 1),
                                               .timestamps = times,
                                               .n_timestamps = n_times});
    }
    autofree uint8_t *p = built(b, &n);
    cleanup(profiles_release) struct profiles view = decoded(bytes_of(p, n));
    struct export_profiles x = {.room = 2 * n};
    struct forward *f = make(0.1, 4, &x, NULL, NULL);
    ck_assert(forward_reserve(f, n));
    forward_push(f, &view, NULL, n);
    cleanup(profiles_release) struct profiles out = decoded_copy(unit_made(x.body), x.n, &copy);
    double kept = 0;
    uint32_t heavy = 0;
    for (uint32_t k = 0; k < out.sample.n; k++) {
        kept += (double)out.sample.value_sum[k];
        heavy += out.sample.value_sum[k] == 50;
    }
    ck_assert_uint_eq(heavy, N / 100); /* each of them, and worth what it was */
    ck_assert_double_le(fabs(kept / (double)ticks - 1), 5 / sqrt(N * 0.1));
    forward_free(f);
    free(copy);
    free(x.body);
}

UNIT(a_request_that_grows_needs_more_room)
{
    /* One sample: with its attribute it becomes longer than it was. Some seed keeps it. */
    size_t n;
    autofree uint8_t *p = many_stacks(1, "a", &n);
    cleanup(profiles_release) struct profiles view = decoded(bytes_of(p, n));
    uint64_t seed = 1;
    for (;; seed++) {
        struct pick pick = {0};
        ck_assert_int_eq(pick_samples(&pick, &view, 0.9, seed), 0);
        bool kept = pick.kept == 1;
        pick_release(&pick);
        if (kept)
            break;
    }
    struct export_profiles roomy = {.room = 10000}, tight = {.room = n};
    struct stats *stats = unit_made(stats_new());
    struct forward *f = make(0.9, seed, &roomy, stats, NULL);
    ck_assert(forward_reserve(f, n));
    forward_push(f, &view, NULL, n);
    ck_assert_uint_eq(roomy.pushes, 1);
    ck_assert_uint_gt(roomy.n, n);
    ck_assert_uint_eq(roomy.reserved, 0);
    forward_free(f);
    f = make(0.9, seed, &tight, stats, NULL);
    ck_assert(forward_reserve(f, n));
    forward_push(f, &view, NULL, n);
    ck_assert_uint_eq(tight.pushes, 0);
    ck_assert_uint_eq(tight.reserved, 0);
    ck_assert_uint_eq(stats->value[STATS_FORWARD_DROPPED], 1);
    forward_free(f);
    free(roomy.body);
}

UNIT(out_of_budget_is_counted_and_settled)
{
    size_t n;
    autofree uint8_t *p = many_stacks(1000, "a", &n);
    cleanup(profiles_release) struct profiles view = decoded(bytes_of(p, n));
    struct export_profiles x = {.room = 10 * n};
    static const size_t limits[] = {0, 1000, 30000};
    for (size_t i = 0; i < ARRAY_LEN(limits); i++) {
        struct budget budget = BUDGET_INIT(limits[i], NULL);
        struct stats *stats = unit_made(stats_new());
        struct forward *f = make(0.5, 1, &x, stats, &budget);
        ck_assert(forward_reserve(f, n));
        forward_push(f, &view, NULL, n);
        ck_assert_uint_eq(x.reserved, 0);
        ck_assert_uint_eq(x.requests, 0);
        ck_assert_uint_eq(stats->value[STATS_FORWARD_DROPPED] + stats->value[STATS_FORWARD_THINNED] +
                              stats->value[STATS_FORWARD_SAMPLES],
                          1000);
        ck_assert_uint_gt(stats->value[STATS_FORWARD_DROPPED], 0);
        forward_free(f);
        ck_assert_uint_eq(budget.used, 0);
    }
    free(x.body);
}

/* ---- by rules ------------------------------------------------------------------------------ */

/* Rules that say what the test wants, by sample. */
struct fake_rules {
    bool none;
    struct keep_said (*say)(uint32_t sample);
    uint32_t asked, begun, ended;
    int error;
};

static bool fake_has_rules(void *context)
{
    return !((struct fake_rules *)context)->none;
}

static int fake_begin(void *context, const struct profiles *view)
{
    ((struct fake_rules *)context)->begun++;
    return 0;
}

static int fake_sample(void *context, uint32_t profile, uint32_t sample, struct keep_said *ret)
{
    struct fake_rules *r = context;
    r->asked++;
    *ret = r->say(sample);
    return r->error;
}

static void fake_rate(void *context, uint32_t rate, struct keep_rate *ret)
{
    *ret = (struct keep_rate){.rule = 0, .text = BYTES_LIT(""), .count = 10};
}

static void fake_end(void *context)
{
    ((struct fake_rules *)context)->ended++;
}

/* Forwards n samples of stacks of their own; what was pushed is in x->all, as many as x->pushes. */
static void by_rules(struct fake_rules *rules, double keep, struct export_profiles *x, struct stats *stats,
                     uint32_t n_samples)
{
    size_t n;
    autofree uint8_t *p = many_stacks(n_samples, "a", &n);
    cleanup(profiles_release) struct profiles view = decoded(bytes_of(p, n));
    struct forward_options o = {
        .keep = keep,
        .seed = 3,
        .decider = {rules, fake_has_rules, fake_begin, fake_sample, fake_rate, fake_end},
    };
    *x = (struct export_profiles){.room = 10 * n, .all = calloc(FAKE_PUSHES_MAX, sizeof *x->all)};
    struct forward *f = unit_made(forward_new(&o, x, stats, NULL));
    ck_assert(forward_reserve(f, n));
    forward_push(f, &view, NULL, n);
    ck_assert(x->reserved == 0 && x->requests == 0);
    ck_assert_uint_eq(rules->begun, rules->ended);
    ck_assert_uint_eq(stats->value[STATS_FORWARD_SAMPLES] + stats->value[STATS_FORWARD_THINNED] +
                          stats->value[STATS_FORWARD_DROPPED],
                      n_samples);
    forward_free(f);
}

static void release_pushes(struct export_profiles *x)
{
    for (uint32_t i = 0; i < x->pushes; i++)
        buffer_release(&x->all[i]);
    free(x->all);
    free(x->body);
}

/* The value of this attribute of the only profile, or 0. */
static double mark_of(const struct profiles *v, const char *key)
{
    for (uint32_t k = v->profile.attrs_at[0]; k < v->profile.attrs_at[1]; k++) {
        uint32_t a = v->attr_index.attribute[k];
        if (bytes_is(profiles_string(v, v->attribute.key[a]), key))
            return v->attribute.value[a].real;
    }
    return 0;
}

/* A quarter is dropped, one kept whatever happens, one kept with 10 %, one not mentioned. */
static struct keep_said in_quarters(uint32_t sample)
{
    switch (sample % 4) {
    case 0: return (struct keep_said){.dropped = true, .of_stacks = KEEP_ONE};
    case 1: return (struct keep_said){.of_stacks = KEEP_ONE};
    case 2: return (struct keep_said){.of_stacks = KEEP_ONE / 10};
    }
    return (struct keep_said){0};
}

UNIT(rules_come_before_the_configuration)
{
    enum { N = 4000 };
    struct fake_rules rules = {.say = in_quarters};
    cleanup(release_pushes) struct export_profiles x;
    struct stats *stats = unit_made(stats_new());
    double seen[3] = {0};
    by_rules(&rules, 0.5, &x, stats, N);
    ck_assert_uint_eq(rules.asked, N);
    ck_assert_uint_eq(x.pushes, 3); /* each probability its own */
    for (uint32_t i = 0; i < x.pushes; i++) {
        cleanup(profiles_release) struct profiles v = decoded(buffer_bytes(&x.all[i]));
        double p = mark_of(&v, "profgate.keep.share");
        ck_assert(p == 0 || p == 0.1 || p == 0.5);
        seen[p == 0 ? 0 : p == 0.1 ? 1 : 2] = v.sample.n;
    }
    ck_assert_double_eq(seen[0], N / 4);
    ck_assert_double_le(fabs(seen[1] - N / 4 * 0.1), 5 * sqrt(N / 4 * 0.1 * 0.9));
    ck_assert_double_le(fabs(seen[2] - N / 4 * 0.5), 5 * sqrt(N / 4 * 0.5 * 0.5));
}

/* Nothing but what the rules keep, when the configuration keeps nothing. */
UNIT(rules_keep_where_the_configuration_does_not)
{
    struct fake_rules rules = {.say = in_quarters};
    struct export_profiles x;
    struct stats *stats = unit_made(stats_new());
    by_rules(&rules, 0, &x, stats, 400);
    ck_assert_uint_eq(x.pushes, 2);
    release_pushes(&x);
    rules = (struct fake_rules){.none = true};
    by_rules(&rules, 0, &x, stats = unit_made(stats_new()), 400);
    ck_assert_uint_eq(x.pushes + rules.begun, 0);
    release_pushes(&x);
}

static struct keep_said everything(uint32_t sample)
{
    return (struct keep_said){.of_stacks = KEEP_ONE};
}

UNIT(keep_all_is_untouched)
{
    struct fake_rules rules = {.say = everything};
    cleanup(release_pushes) struct export_profiles x;
    size_t n;
    autofree uint8_t *p = many_stacks(50, "a", &n);
    by_rules(&rules, 0, &x, unit_made(stats_new()), 50);
    ck_assert_uint_eq(x.pushes, 1);
    ck_assert_uint_eq(x.n, n);
    ck_assert_mem_eq(x.body, p, n);
}

/* One sample asks for a share of profiles: all of them stay or go together. Combined with a share of samples
 * the probability is that of either. */
static struct keep_said of_profiles(uint32_t sample)
{
    return (struct keep_said){.of_profiles = sample == 7 ? KEEP_ONE / 2 : 0, .dropped = sample == 8};
}

static struct keep_said of_both(uint32_t sample)
{
    return (struct keep_said){.of_profiles = KEEP_ONE / 2, .of_samples = KEEP_ONE / 2};
}

UNIT(a_profile_is_kept_as_a_whole)
{
    struct fake_rules rules = {.say = of_profiles};
    struct export_profiles x;
    struct stats *stats = unit_made(stats_new());
    by_rules(&rules, 0, &x, stats, 100);
    ck_assert(x.pushes == 0 || x.samples == 99);
    release_pushes(&x);
    rules = (struct fake_rules){.say = of_both};
    by_rules(&rules, 0, &x, stats = unit_made(stats_new()), 1000);
    if (x.pushes > 0) {
        cleanup(profiles_release) struct profiles v = decoded(buffer_bytes(&x.all[0]));
        ck_assert_double_eq(mark_of(&v, "profgate.keep.share"), 0.75);
        ck_assert(v.sample.n == 1000 || (v.sample.n > 400 && v.sample.n < 600));
    }
    release_pushes(&x);
}

static struct keep_said by_rate(uint32_t sample)
{
    return (struct keep_said){.of_stacks = sample < 5 ? KEEP_ONE : 0, .n_rates = 1};
}

/* What a rate keeps comes on top of the shares, and says so instead of a probability. */
UNIT(a_rate_takes_so_many_more)
{
    struct fake_rules rules = {.say = by_rate};
    cleanup(release_pushes) struct export_profiles x;
    bool said = false;
    by_rules(&rules, 1, &x, unit_made(stats_new()), 1000);
    ck_assert_uint_eq(x.pushes, 2);
    for (uint32_t i = 0; i < x.pushes; i++) {
        cleanup(profiles_release) struct profiles v = decoded(buffer_bytes(&x.all[i]));
        bool rate = mark_of(&v, "profgate.keep.by_rate") == 1;
        ck_assert_double_eq(mark_of(&v, "profgate.keep.share"), 0);
        ck_assert(rate ? v.sample.n == 10 || v.sample.n == 20 : v.sample.n == 5); /* 20: a minute ended */
        said |= rate;
    }
    ck_assert(said);
}

static struct keep_said all_different(uint32_t sample)
{
    return (struct keep_said){.of_stacks = KEEP_ONE - 1 - sample};
}

UNIT(more_probabilities_than_a_request_may_have)
{
    struct fake_rules rules = {.say = all_different};
    cleanup(release_pushes) struct export_profiles x;
    struct stats *stats = unit_made(stats_new());
    by_rules(&rules, 0, &x, stats, 400);
    ck_assert_uint_eq(x.pushes, PICK_GROUPS);
    ck_assert_uint_eq(stats->value[STATS_FORWARD_DROPPED],
                      400 - PICK_GROUPS - stats->value[STATS_FORWARD_THINNED]);
}

UNIT(rules_that_run_out_of_memory)
{
    struct fake_rules rules = {.say = everything, .error = -ENOMEM};
    cleanup(release_pushes) struct export_profiles x;
    struct stats *stats = unit_made(stats_new());
    by_rules(&rules, 1, &x, stats, 100);
    ck_assert_uint_eq(x.pushes, 0);
    ck_assert_uint_eq(stats->value[STATS_FORWARD_DROPPED], 100);
}
