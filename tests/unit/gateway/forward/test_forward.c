/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/unit.h"

#include <stdlib.h>

#include "gateway/forward/forward.h"
#include "gateway/forward/pick.h"
#include "gateway/stats/stats.h"
#include "proto/base/macros.h"
#include "tests/unit/gateway/forward/fake.h"

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
