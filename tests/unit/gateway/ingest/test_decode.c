/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/stats/producers.h"
#include "proto/wire/writer.h"
#include "tests/unit/gateway/ingest/fake.h"

/* ingest with the real decoder: recorded requests whole, cut, and under limits. */

static struct stats stats;
static struct ingest_answer answer;

/* The body in exact-size memory, but for the padding. */
static void push_with(struct bytes body, struct profiles_limits limits, struct budget *budget)
{
    struct ingest_options o = {.limits = limits, .retry_after_ns = 1};
    struct ingest *g = ingest_new(&o, consumers, ALL, &stats, budget);
    uint8_t *copy = calloc(1, body.n + PROFILES_PADDING);
    ck_assert(g && copy);
    if (body.n > 0)
        memcpy(copy, body.p, body.n);
    order[0] = 0;
    ingest_push(g, bytes_of(copy, body.n), PROFILES_LAYOUT_UNKNOWN, NULL, &answer);
    free(copy);
    ingest_free(g);
    ck_assert_uint_eq(reserved, 0);
}

static void push(struct bytes body)
{
    push_with(body, profiles_limits_default, NULL);
}

#define RECORDED "connector/ebpf-cpp-0002.pb"

UNIT(a_recorded_request_is_counted_and_forwarded)
{
    size_t n;
    autofree unsigned char *data = unit_data(RECORDED, &n);
    push(bytes_of(data, n));
    ck_assert_msg(answer.verdict == INGEST_ACCEPTED, "%s", answer.message.text);
    ck_assert_uint_eq(answer.rejected_profiles, 0);
    ck_assert_str_eq(answer.message.text, "");
    ck_assert_str_eq(order, "reserve classify push ");
    ck_assert_uint_gt(classified_samples, 0);
    ck_assert_uint_eq(stats.value[STATS_SAMPLES], classified_samples);
}

UNIT(accepted_requests_are_counted_by_their_layout)
{
    static const uint8_t layout_1_9[] = {
        /* a sample with nothing but stack 0 and values {7} */
        0x0a, 0x0b, 0x12, 0x09, 0x12, 0x07, 0x12, 0x05, 0x08, 0x00, 0x12, 0x01, 0x07,
    };
    size_t n;
    autofree unsigned char *data = unit_data(RECORDED, &n);
    push(bytes_of(data, n));
    push(bytes_of(layout_1_9, sizeof layout_1_9));
    ck_assert_msg(answer.verdict == INGEST_ACCEPTED, "%s", answer.message.text);
    ck_assert_uint_eq(classified_samples, 1);
    push(bytes_of(NULL, 0)); /* has none */
    push(BYTES_LIT("{}"));   /* nor has this */
    ck_assert_int_eq(answer.verdict, INGEST_MALFORMED);
    ck_assert_uint_eq(stats.value[STATS_LAYOUT_1_10], 1);
    ck_assert_uint_eq(stats.value[STATS_LAYOUT_1_9], 1);
    ck_assert_uint_eq(
        stats.value[STATS_LAYOUT_1_8] + stats.value[STATS_LAYOUT_1_7] + stats.value[STATS_LAYOUT_1_5], 0);
}

/* A request of 1.10 with a sample {timestamp}, from a scope and an SDK of these names, where they have any.
 */
static void push_from(const char *scope, const char *sdk)
{
    cleanup(buffer_release) struct buffer b = BUFFER_INIT(0);
    struct wire_writer w = wire_writer(&b);
    size_t resource = wire_begin(&w, 1);
    if (sdk) {
        size_t inner = wire_begin(&w, 1), attr = wire_begin(&w, 1);
        wire_put_bytes(&w, 1, BYTES_LIT("telemetry.sdk.name"));
        size_t value = wire_begin(&w, 2);
        wire_put_bytes(&w, 1, bytes_str(sdk));
        wire_end(&w, value);
        wire_end(&w, attr);
        wire_end(&w, inner);
    }
    size_t scopes = wire_begin(&w, 2);
    if (scope) {
        size_t inner = wire_begin(&w, 1);
        wire_put_bytes(&w, 1, bytes_str(scope));
        wire_end(&w, inner);
    }
    size_t profile = wire_begin(&w, 2), sample = wire_begin(&w, 2);
    wire_put_packed_fixed64(&w, 5, (uint64_t[]){1}, 1);
    wire_end(&w, sample);
    wire_end(&w, profile);
    wire_end(&w, scopes);
    wire_end(&w, resource);
    wire_put_bytes(&w, 2, BYTES_LIT("")); /* the dictionary: there since 1.7 */
    ck_assert_int_eq(w.failed, 0);
    push(buffer_bytes(&b));
    ck_assert_msg(answer.verdict == INGEST_ACCEPTED, "%s", answer.message.text);
}

UNIT(accepted_requests_are_counted_by_their_producer)
{
    struct stats *mine = unit_made(stats_new());
    push_from("a scope", "an sdk");
    push_from(NULL, "an sdk");
    push_from("", "an sdk");
    push_from(NULL, NULL);
    push(bytes_of(NULL, 0));                                    /* nobody's */
    ck_assert_uint_eq(stats.producer[0][STATS_LAYOUTS - 1], 1); /* in the order of arrival */
    ck_assert_uint_eq(stats.producer[1][STATS_LAYOUTS - 1], 2);
    ck_assert_uint_eq(stats.producer[2][STATS_LAYOUTS - 1], 1);
    ck_assert_uint_eq(stats.producer[3][STATS_LAYOUTS - 1], 0);
    producers_add(mine, STATS_LAYOUT_1_9,
                  BYTES_LIT("an sdk")); /* the second name, so this block's second row */
    ck_assert_uint_eq(mine->producer[1][STATS_LAYOUT_1_9 - STATS_LAYOUT_1_5], 1);
    producers_add(mine, STATS_LAYOUT_1_9, BYTES_LIT("unknown"));
    ck_assert_uint_eq(mine->producer[2][STATS_LAYOUT_1_9 - STATS_LAYOUT_1_5], 1);
}

/* n samples of 1.9, or of 1.10 (field 4 is the values), or a list as field 2 alone, which 1.10 rejects. */
enum shape { OF_1_9, OF_1_10, ODD };
static void push_shape(struct ingest *g, enum shape shape, uint32_t n)
{
    static const uint32_t one[] = {0};
    cleanup(buffer_release) struct buffer b = BUFFER_INIT(0);
    struct wire_writer w = wire_writer(&b);
    size_t resource = wire_begin(&w, 1), scopes = wire_begin(&w, 2), scope = wire_begin(&w, 1);
    wire_put_bytes(&w, 1, BYTES_LIT("a profiler"));
    wire_end(&w, scope);
    size_t profile = wire_begin(&w, 2);
    for (uint32_t i = 0; i < n; i++) {
        size_t sample = wire_begin(&w, 2);
        wire_put_packed32(&w, 2, one, 1);
        if (shape != ODD)
            wire_put_packed32(&w, shape == OF_1_9 ? 3 : 4, one, 1);
        wire_end(&w, sample);
    }
    wire_end(&w, profile);
    wire_end(&w, scopes);
    wire_end(&w, resource);
    wire_put_bytes(&w, 2, BYTES_LIT("\x2a\x00"));
    ck_assert_int_eq(w.failed, 0);
    ck_assert_int_eq(buffer_reserve(&b, PROFILES_PADDING), 0);
    ingest_push(g, buffer_bytes(&b), PROFILES_LAYOUT_UNKNOWN, NULL, &answer);
    ck_assert_msg(answer.verdict == INGEST_ACCEPTED, "%s", answer.message.text);
}

UNIT(a_small_odd_request_is_read_as_its_producers_others)
{
    struct ingest_options o = {.limits = profiles_limits_default, .retry_after_ns = 1};
    for (int known = 0; known < 2; known++) {
        const enum shape others = known ? OF_1_10 : OF_1_9, new = known ? OF_1_9 : OF_1_10;
        const enum stats_id row = known ? STATS_LAYOUT_1_10 : STATS_LAYOUT_1_9;
        struct ingest *g = unit_made(ingest_new(&o, consumers, ALL, &stats, NULL));
        const uint64_t was = stats.value[row], contradictions = stats.value[STATS_LAYOUT_CONTRADICTIONS];
        for (int i = 0; i < 10; i++)
            push_shape(g, others, 5);
        push_shape(g, ODD, 1);
        ck_assert_uint_eq(answer.rejected_profiles, (uint64_t)known); /* in 1.10 they are empty */
        ck_assert_uint_eq(stats.value[row], was + 11);
        ck_assert_uint_eq(stats.value[STATS_LAYOUT_CONTRADICTIONS], contradictions);
        push_shape(g, new, 1);
        ck_assert_uint_eq(stats.value[row], was + 12);
        ck_assert_uint_eq(stats.value[STATS_LAYOUT_CONTRADICTIONS], contradictions + 1);
        push_shape(g, new, 100); /* what is large speaks for itself */
        push_shape(g, new, 1);
        ck_assert_uint_eq(stats.value[row], was + 12);
        ck_assert_uint_eq(stats.value[STATS_LAYOUT_CONTRADICTIONS], contradictions + 2);
        ingest_free(g);
    }
}

/* As a Python SDK of 1.9 writes them: what means "none" to everybody else is its first entry. */
UNIT(requests_with_entries_0_are_counted)
{
    for (int real = 0; real < 2; real++) {
        cleanup(buffer_release) struct buffer b = BUFFER_INIT(0);
        struct wire_writer w = wire_writer(&b);
        static const uint8_t sample[] = {0x12, 0x07, 0x12, 0x05, 0x12, 0x03, 0x22, 0x01, 0x07};
        wire_put_bytes(&w, 1, bytes_of(sample, sizeof sample));
        size_t dictionary = wire_begin(&w, 2);
        wire_put_bytes(&w, 5, BYTES_LIT(""));
        size_t function = wire_begin(&w, 3);
        wire_put_uint_nonzero(&w, 4, (uint64_t)real);
        wire_end(&w, function);
        wire_end(&w, dictionary);
        push(buffer_bytes(&b));
        ck_assert_msg(answer.verdict == INGEST_ACCEPTED, "%s", answer.message.text);
        ck_assert_uint_eq(stats.value[STATS_ENTRY_0], (uint64_t)real);
    }
}

UNIT(an_empty_request_is_accepted)
{
    push(bytes_of(NULL, 0));
    ck_assert_int_eq(answer.verdict, INGEST_ACCEPTED);
    ck_assert_str_eq(order, "reserve cancel ");
}

UNIT(what_is_no_protobuf_is_malformed)
{
    push(BYTES_LIT("{\"resourceProfiles\":[]}"));
    ck_assert_int_eq(answer.verdict, INGEST_MALFORMED);
    ck_assert_str_ne(answer.message.text, "");
    ck_assert_str_eq(order, "reserve cancel ");
}

UNIT(a_request_cut_short_is_never_counted_whole)
{
    size_t n;
    autofree unsigned char *data = unit_data(RECORDED, &n);
    push(bytes_of(data, n));
    uint32_t whole = classified_samples;
    unsigned malformed = 0;
    for (size_t cut = 1; cut < n; cut += n / 50) {
        classified_samples = 0;
        push(bytes_of(data, cut));
        malformed += answer.verdict == INGEST_MALFORMED;
        ck_assert(answer.verdict != INGEST_BUSY);
        ck_assert_uint_le(classified_samples, whole);
    }
    ck_assert_uint_gt(malformed, 25);
}

UNIT(columns_over_the_limit_are_too_large_and_over_the_budget_busy)
{
    size_t n;
    autofree unsigned char *data = unit_data(RECORDED, &n);
    struct budget budget = BUDGET_INIT(1 << 20, NULL);
    push_with(bytes_of(data, n), (struct profiles_limits){.column_bytes = 1000, .depth = 64}, &budget);
    ck_assert_int_eq(answer.verdict, INGEST_TOO_LARGE);
    ck_assert_uint_eq(atomic_load(&budget.used), 0);

    ck_assert(budget_charge(&budget, (1 << 20) - 1000));
    push_with(bytes_of(data, n), profiles_limits_default, &budget);
    ck_assert_int_eq(answer.verdict, INGEST_BUSY);
    ck_assert_uint_eq(answer.retry_after_ns, 1);
    ck_assert_uint_eq(atomic_load(&budget.used), (1 << 20) - 1000);
}
