/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "gateway/forward/forward.h"
#include "gateway/stats/stats.h"
#include "proto/base/hash.h"
#include "proto/base/macros.h"
#include "proto/base/rng.h"
#include "proto/otlp/write/subset.h"
#include "tests/unit/gateway/forward/fake.h"

static uint64_t value_sum(const struct attr_value *v, uint64_t seed)
{
    switch (v->kind) {
    case ATTR_STRING:
    case ATTR_BYTES:
    case ATTR_ARRAY:
    case ATTR_KVLIST: return hash_bytes(v->text, seed);
    case ATTR_INT:
    case ATTR_DOUBLE: return hash_mix((uint64_t)v->integer, seed);
    case ATTR_BOOL: return hash_mix(v->boolean, seed);
    case ATTR_EMPTY: break;
    }
    return seed;
}

/* What a location says, whatever its number. */
static uint64_t location_sum(const struct profiles *v, uint32_t i)
{
    uint64_t h = v->location.address[i];
    for (uint32_t k = v->location.lines_at[i]; k < v->location.lines_at[i + 1]; k++) {
        uint32_t f = v->line.function[k];
        h = hash_mix(h, hash_bytes(profiles_string(v, v->function.name[f]), (uint64_t)v->line.line[k]));
        h = hash_mix(h, hash_bytes(profiles_string(v, v->function.filename[f]), 1));
    }
    for (uint32_t k = v->location.attrs_at[i]; k < v->location.attrs_at[i + 1]; k++) {
        uint32_t a = v->attr_index.attribute[k];
        h = hash_mix(h, hash_bytes(profiles_string(v, v->attribute.key[a]), 2));
        h = hash_mix(h, value_sum(&v->attribute.value[a], 3));
    }
    return hash_mix(h, hash_bytes(profiles_string(v, v->mapping.filename[v->location.mapping[i]]), 4));
}

/* What the samples say, whatever their numbers and order: each with its stack, values, profile and resource.
 */
static uint64_t content(const struct profiles *v, uint64_t *ret_samples)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < v->profile.n; i++) {
        uint32_t resource = v->scope.resource[v->profile.scope[i]];
        uint64_t of_profile =
            hash_bytes(profiles_string(v, v->profile.type[i]), v->profile.time_unix_nano[i]);
        for (uint32_t k = v->resource.attrs_at[resource]; k < v->resource.attrs_at[resource + 1]; k++)
            of_profile = hash_mix(of_profile, hash_bytes(v->key_value.attr[k].key, 5));
        for (uint32_t k = v->profile.samples_at[i]; k < v->profile.samples_at[i + 1]; k++) {
            uint64_t h = of_profile;
            if (v->sample.stack[k] == PROFILES_REJECTED)
                continue;
            ++*ret_samples;
            uint32_t from = v->stack.locations_at[v->sample.stack[k]],
                     to = v->stack.locations_at[v->sample.stack[k] + 1];
            for (; from < to; from++)
                h = hash_mix(h, location_sum(v, v->stack_location.location[from]));
            h = hash_mix(h, (uint64_t)v->sample.value_sum[k]);
            h = hash_mix(h, (uint64_t)v->sample.n_values[k] << 32 | v->sample.n_timestamps[k]);
            for (uint32_t j = v->sample.attrs_at[k]; j < v->sample.attrs_at[k + 1]; j++)
                h = hash_mix(h, value_sum(&v->attribute.value[v->attr_index.attribute[j]], 6));
            sum += h;
        }
    }
    return sum;
}

/* Adds up what is in the requests, by decoding them. */
static void add_up(struct export_profiles *x, uint8_t *body, size_t n, uint64_t n_samples)
{
    uint8_t *padded;
    uint64_t samples = 0;
    struct profiles view = decoded_copy(body, n, &padded);
    ck_assert_uint_eq(view.rejected.samples, 0);
    x->sum += content(&view, &samples);
    ck_assert_uint_eq(samples, n_samples);
    profiles_release(&view);
    free(padded);
    free(body);
}

/* Looks at nothing that is pushed. */
static void throw_away(struct export_profiles *x, uint8_t *body, size_t n, uint64_t n_samples)
{
    free(body);
}

/* Forwards a request under a limit: what leaves, and how many samples were lost. */
static struct export_profiles forwarded(struct bytes body, size_t limit, double keep, uint64_t *ret_lost)
{
    struct export_profiles x = {.limit = limit, .room = SIZE_MAX / 2, .requests_max = 10000, .push = add_up};
    struct stats *stats = unit_made(stats_new());
    struct forward_options options = {.keep = keep, .seed = 7};
    cleanup(profiles_release) struct profiles view = decoded(body);
    struct forward *f = unit_made(forward_new(&options, &x, stats, NULL));
    ck_assert(forward_reserve(f, body.n));
    forward_push(f, &view, NULL, body.n);
    ck_assert_uint_eq(x.reserved, 0);
    ck_assert_uint_eq(x.requests, 0);
    ck_assert_uint_eq(stats->value[STATS_FORWARD_SAMPLES], x.samples);
    *ret_lost = stats->value[STATS_FORWARD_DROPPED];
    ck_assert_uint_eq(x.samples + *ret_lost + stats->value[STATS_FORWARD_THINNED],
                      view.sample.n - view.rejected.samples);
    forward_free(f);
    return x;
}

/* Whatever the limit: the pieces are below it (the fake export looks), and together they are the whole. */
UNIT(the_sum_of_the_pieces_is_the_whole)
{
    for (size_t i = 0; i < ARRAY_LEN(files); i++) {
        size_t n;
        autofree uint8_t *p = unit_data(files[i], &n);
        cleanup(profiles_release) struct profiles view = decoded(bytes_of(p, n));
        uint64_t samples = 0, sum = content(&view, &samples), lost;
        uint32_t several = 0;
        for (size_t parts = 1; parts < 24; parts += 2) {
            size_t limit = n / parts + 2048;
            struct export_profiles x = forwarded(bytes_of(p, n), limit, 1, &lost);
            ck_assert_msg(lost == 0, "%s below %zu: %lu samples lost", files[i], limit, lost);
            ck_assert_uint_eq(x.samples, samples);
            ck_assert_uint_eq(x.sum, sum);
            ck_assert(limit > n || x.pushes > 1);
            several += x.pushes > 2;
        }
        ck_assert_msg(several > 0 || n < 10000, "%s: never more than two pieces (%zu bytes)", files[i], n);
    }
}

/* Also of what is left after thinning: the same samples whether in one piece or in many. */
UNIT(thinned_samples_are_split_likewise)
{
    for (size_t i = 0; i < ARRAY_LEN(files); i++) {
        size_t n;
        autofree uint8_t *p = unit_data(files[i], &n);
        uint64_t lost, lost_split;
        struct export_profiles whole = forwarded(bytes_of(p, n), 2 * n, 0.5, &lost);
        struct export_profiles split = forwarded(bytes_of(p, n), n / 8 + 2048, 0.5, &lost_split);
        ck_assert_uint_eq(lost + lost_split, 0);
        ck_assert_uint_eq(whole.samples, split.samples);
        ck_assert_uint_eq(whole.sum, split.sum);
        ck_assert_uint_le(whole.pushes, 1);
    }
}

/* n samples of one stack each, whose function's name has so many bytes; the big one has `big`. */
static uint8_t *samples_of(uint32_t n, uint32_t name_bytes, uint32_t which, uint32_t big, size_t *ret_n)
{
    struct build *b = unit_made(build_new(NULL));
    char *name = calloc(1, (size_t)max_of(name_bytes, big) + 32);
    build_begin(b);
    build_resource(b, NULL, 0, bytes_of(NULL, 0));
    build_scope(b, BYTES_LIT("t"), bytes_of(NULL, 0), NULL, 0, bytes_of(NULL, 0));
    build_profile(b, &(struct build_profile){.type = build_string(b, BYTES_LIT("samples")),
                                             .unit = build_string(b, BYTES_LIT("count"))});
    for (uint32_t i = 0; i < n; i++) {
        uint32_t length = i == which ? big : name_bytes;
        memset(name, 'x', length);
        snprintf(name + length, 16, "%u", i);
        struct build_line line = {.function = build_function(
                                      b, &(struct build_function){.name = build_string(b, bytes_str(name))})};
        uint32_t location = build_location(b, &(struct build_location){.lines = &line, .n_lines = 1});
        int64_t one = 1;
        build_sample(
            b, &(struct build_sample){.stack = build_stack(b, &location, 1), .values = &one, .n_values = 1});
    }
    free(name);
    return built(b, ret_n);
}

UNIT(a_sample_that_is_too_large_is_lost_alone)
{
    for (uint32_t which = 0; which < 5; which++) {
        size_t n;
        uint64_t lost;
        autofree uint8_t *p = samples_of(5, 100, which, 5000, &n);
        struct export_profiles x = forwarded(bytes_of(p, n), 2048, 1, &lost);
        ck_assert_uint_eq(lost, 1);
        ck_assert_uint_eq(x.samples, 4);
    }
}

/* How long a request is as the subset writer writes it. */
static size_t rebuilt(struct bytes body)
{
    cleanup(profiles_release) struct profiles view = decoded(body);
    cleanup(arena_release) struct arena scratch = ARENA_INIT(NULL);
    cleanup(buffer_release) struct buffer out = BUFFER_INIT(0);
    ck_assert_int_eq(profiles_subset(&view, NULL, NULL, &scratch, &out), 0);
    return out.n;
}

/* A limit that some samples just meet: whoever fits alone is not lost. */
UNIT(a_sample_that_just_fits_is_kept)
{
    size_t n, alone;
    uint64_t lost;
    autofree uint8_t *p = samples_of(1, 3000, 0, 3000, &alone), *q = samples_of(3, 100, 1, 3000, &n);
    alone = rebuilt(bytes_of(p, alone));
    struct export_profiles x = forwarded(bytes_of(q, n), alone, 1, &lost);
    ck_assert_uint_eq(lost, 0);
    ck_assert_uint_eq(x.samples, 3);
    x = forwarded(bytes_of(q, n), alone - 1, 1, &lost);
    ck_assert_uint_eq(lost, 1);
    ck_assert_uint_eq(x.samples, 2);
}

/* What there is no room for is lost and counted; what is left of the reservation goes back (`forwarded`
 * looks).
 */
UNIT(a_queue_that_fills_midway)
{
    size_t n;
    autofree uint8_t *p = samples_of(1000, 30, 0, 30, &n);
    cleanup(profiles_release) struct profiles view = decoded(bytes_of(p, n));
    for (uint32_t requests = 2; requests < 40; requests += 7) {
        struct export_profiles x = {.limit = 4096, .room = n, .requests_max = requests, .push = add_up};
        struct stats *stats = unit_made(stats_new());
        struct forward_options options = {.keep = 1, .seed = 7, .refuse_when_full = true};
        struct forward *f = unit_made(forward_new(&options, &x, stats, NULL));
        ck_assert(forward_reserve(f, n));
        ck_assert(!forward_reserve(f, n));
        forward_cancel(f, n);
        ck_assert(x.requests == 0 && x.reserved == 0);
        ck_assert(forward_reserve(f, n));
        forward_push(f, &view, NULL, n);
        ck_assert(x.requests == 0 && x.reserved == 0);
        ck_assert_uint_eq(x.samples + stats->value[STATS_FORWARD_DROPPED], 1000);
        ck_assert_uint_gt(x.samples, 0);
        forward_free(f);
    }
}

UNIT(out_of_budget_midway)
{
    size_t n;
    autofree uint8_t *p = samples_of(1000, 30, 0, 30, &n);
    cleanup(profiles_release) struct profiles view = decoded(bytes_of(p, n));
    for (size_t limit = 0; limit < 200000; limit += 7000) {
        struct export_profiles x = {
            .limit = 4096, .room = SIZE_MAX / 2, .requests_max = 1000, .push = add_up};
        struct budget budget = BUDGET_INIT(limit, NULL);
        struct stats *stats = unit_made(stats_new());
        struct forward_options options = {.keep = 1, .seed = 7, .refuse_when_full = true};
        struct forward *f = unit_made(forward_new(&options, &x, stats, &budget));
        ck_assert(forward_reserve(f, n));
        forward_push(f, &view, NULL, n);
        ck_assert(x.requests == 0 && x.reserved == 0);
        ck_assert_uint_eq(x.samples + stats->value[STATS_FORWARD_DROPPED], 1000);
        forward_free(f);
        ck_assert_uint_eq(budget.used, 0);
    }
}

/* A request of about `body_bytes` whose samples have stacks of `depth` out of a dictionary of a third of it:
 * what a host's profile of a minute looks like, larger. */
static uint8_t *large_request(size_t body_bytes, uint32_t depth, size_t *ret_n)
{
    struct build *b = unit_made(build_new(NULL));
    struct rng rng;
    uint32_t n_locations = (uint32_t)(body_bytes / 3 / 64),
             n_samples = (uint32_t)(body_bytes * 2 / 3 / (depth * 3 + 16));
    uint32_t *locations = unit_made(calloc(n_locations, sizeof *locations)), stack[64];
    char name[64];
    rng_seed(&rng, 11);
    build_begin(b);
    build_resource(b, NULL, 0, bytes_of(NULL, 0));
    build_scope(b, BYTES_LIT("t"), bytes_of(NULL, 0), NULL, 0, bytes_of(NULL, 0));
    build_profile(b, &(struct build_profile){.type = build_string(b, BYTES_LIT("samples")),
                                             .unit = build_string(b, BYTES_LIT("count"))});
    for (uint32_t i = 0; i < n_locations; i++) {
        snprintf(name, sizeof name, "com.example.package.Class%u.method%u", i / 7, i);
        struct build_line line = {.function = build_function(
                                      b, &(struct build_function){.name = build_string(b, bytes_str(name))})};
        locations[i] = build_location(b, &(struct build_location){.lines = &line, .n_lines = 1});
    }
    for (uint32_t i = 0; i < n_samples; i++) {
        /* Neighbours are alike: they share their root side, and what is near in time is near in the tables.
         */
        for (uint32_t k = 0; k < depth; k++)
            if (i == 0 || k < depth / 2)
                stack[k] =
                    locations[((uint64_t)i * n_locations / n_samples + rng_next(&rng) % 4000) % n_locations];
        int64_t one = (int64_t)(rng_next(&rng) % 1000);
        build_sample(
            b, &(struct build_sample){.stack = build_stack(b, stack, depth), .values = &one, .n_values = 1});
    }
    free(locations);
    return built(b, ret_n);
}

/* The sum of the pieces is the whole also where a dictionary is large and pieces are many. */
UNIT(many_pieces_of_a_large_dictionary)
{
    size_t n;
    autofree uint8_t *p = large_request((size_t)2 << 20, 24, &n);
    cleanup(profiles_release) struct profiles view = decoded(bytes_of(p, n));
    uint64_t samples = 0, sum = content(&view, &samples), lost;
    for (size_t limit = (size_t)64 << 10; limit <= (size_t)1 << 20; limit *= 4) {
        struct export_profiles x = forwarded(bytes_of(p, n), limit, 1, &lost);
        ck_assert_uint_eq(lost, 0);
        ck_assert_uint_eq(x.samples, samples);
        ck_assert_uint_eq(x.sum, sum);
        ck_assert_uint_ge(x.pushes, n / limit);
    }
}

/* Processor time of forwarding, with an export that throws away what it gets. */
static double seconds_of(const struct profiles *view, size_t body, size_t limit, uint32_t *ret_pushes)
{
    struct export_profiles x = {
        .limit = limit, .room = SIZE_MAX / 2, .requests_max = 10000, .push = throw_away};
    struct stats *stats = unit_made(stats_new());
    struct forward_options options = {.keep = 1, .seed = 7, .refuse_when_full = true};
    struct forward *f = unit_made(forward_new(&options, &x, stats, NULL));
    struct timespec from, to;
    ck_assert(forward_reserve(f, body));
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &from);
    forward_push(f, view, NULL, body);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &to);
    ck_assert_uint_eq(stats->value[STATS_FORWARD_DROPPED], 0);
    ck_assert_uint_eq(x.samples, view->sample.n);
    *ret_pushes = x.pushes;
    forward_free(f);
    return (double)(to.tv_sec - from.tv_sec) + (double)(to.tv_nsec - from.tv_nsec) / 1e9;
}

/* A large request in small pieces: all of it arrives, and a piece costs what is in it. Eight times as many
 * pieces have more dictionary in all, but they do not read all of the request eight times as often. */
UNIT(a_piece_costs_what_is_in_it)
{
    size_t n;
    size_t piece = (size_t)unit_rounds(4) << 18;
    autofree uint8_t *p = large_request(32 * piece, 24, &n);
    cleanup(profiles_release) struct profiles view = decoded(bytes_of(p, n));
    uint32_t few, many;
    ck_assert_uint_gt(n, 24 * piece);
    double large = seconds_of(&view, n, 8 * piece, &few);
    double small = seconds_of(&view, n, piece, &many);
    fprintf(stderr, "%zu bytes: %u large pieces %.3f s, %u small ones %.3f s\n", n, few, large, many, small);
    ck_assert_uint_ge(many, 4 * few);
    ck_assert_msg(small < 4 * large, "%.3f s for %u pieces, %.3f s for %u", small, many, large, few);
}
