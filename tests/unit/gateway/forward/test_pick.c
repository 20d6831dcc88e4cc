/* SPDX-License-Identifier: Apache-2.0 */
/* What shares keep, and what it is then worth. */
#include "tests/lib/unit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "gateway/stats/stats.h"
#include "proto/base/macros.h"
#include "proto/otlp/write/subset.h"
#include "tests/unit/gateway/forward/fake.h"

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
