/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/gateway/ingest/fake.h"

/* The decoder is faked too: what it answers, and what it found. */
static int decode_result;
static uint32_t found_profiles, found_samples, bad_samples, bad_profiles;
static size_t columns;

int profiles_init(struct profiles *p, struct budget *budget)
{
    memset(p, 0, sizeof *p);
    return 0;
}

void profiles_release(struct profiles *p) {}

void profiles_trim(struct profiles *p, size_t keep_max)
{
    note("trim");
    ck_assert_uint_lt(keep_max, columns);
}

size_t profiles_memory_used(const struct profiles *p)
{
    return columns;
}

int profiles_decode_as(struct profiles *p, struct bytes body, enum profiles_layout layout,
                       const struct profiles_limits *limits, struct error *e)
{
    note("decode");
    if (decode_result != 0)
        return error_set(e, decode_result, "dictionary: broken");
    p->profile.n = found_profiles;
    p->sample.n = found_samples;
    p->rejected.samples = bad_samples;
    p->rejected.profiles = bad_profiles;
    error_set(&p->rejected.first, 0,
              "resource_profiles[0].scope_profiles[0].profiles[2].samples[17]: no such stack");
    return 0;
}

bool profiles_has_entry_0(const struct profiles *p)
{
    return false;
}

int profiles_decode_of(struct profiles *p, struct bytes body, const struct profiles_producer *producer,
                       const struct profiles_limits *limits, struct error *e)
{
    return profiles_decode_as(p, body, PROFILES_LAYOUT_UNKNOWN, limits, e);
}

static struct stats stats;
static struct ingest_answer answer;

#define RETRY_NS 7000000000u

static void push(uint32_t n_consumers, struct budget *budget)
{
    struct ingest_options o = {.limits = {.column_bytes = 1000, .depth = 64}, .retry_after_ns = RETRY_NS};
    struct ingest *g = unit_made(ingest_new(&o, consumers, n_consumers, &stats, budget));
    memset(&answer, 0xa5, sizeof answer); /* everything must be filled */
    order[0] = 0;
    ingest_push(g, BYTES_LIT("body"), PROFILES_LAYOUT_UNKNOWN, NULL, &answer);
    ingest_free(g);
    ck_assert_uint_eq(reserved, 0);
}

UNIT(a_good_request_is_reserved_decoded_counted_and_forwarded)
{
    found_profiles = 2;
    found_samples = 10;
    push(ALL, NULL);
    ck_assert_str_eq(order, "reserve decode classify push ");
    ck_assert_int_eq(answer.verdict, INGEST_ACCEPTED);
    ck_assert_uint_eq(answer.rejected_profiles, 0);
    ck_assert_uint_eq(answer.retry_after_ns, 0);
    ck_assert_str_eq(answer.message.text, "");
    ck_assert_uint_eq(stats.value[STATS_REQUESTS_OK], 1);
    ck_assert_uint_eq(stats.value[STATS_PROFILES], 2);
    ck_assert_uint_eq(stats.value[STATS_SAMPLES], 10);
}

/* The memory of a request may be taken over once everybody has seen it, and only if somebody has. */
UNIT(what_came_is_taken_over_last)
{
    struct ingest_options o = {.limits = {.column_bytes = 1000, .depth = 64}};
    struct ingest *g = unit_made(ingest_new(&o, consumers, ALL, &stats, NULL));
    struct buffer none = {0};
    struct received received = {.plain = &none, .coded = &none};
    found_samples = 10;
    ingest_push(g, BYTES_LIT("body"), PROFILES_LAYOUT_UNKNOWN, &received, &answer);
    ck_assert_str_eq(order, "reserve decode classify push take_over ");
    ck_assert_ptr_null(received.coded);
    order[0] = 0;
    found_samples = 0;
    ingest_push(g, BYTES_LIT("body"), PROFILES_LAYOUT_UNKNOWN, &received, &answer);
    ck_assert_str_eq(order, "reserve decode cancel ");
    order[0] = 0;
    found_samples = 10;
    classify_result = -ENOMEM;
    ingest_push(g, BYTES_LIT("body"), PROFILES_LAYOUT_UNKNOWN, &received, &answer);
    ck_assert_str_eq(order, "reserve decode classify cancel ");
    ingest_free(g);
}

UNIT(counting_alone_needs_no_forward)
{
    found_samples = 10;
    push(COUNT, NULL);
    ck_assert_str_eq(order, "decode classify ");
    ck_assert_int_eq(answer.verdict, INGEST_ACCEPTED);
}

UNIT(a_request_without_samples_is_accepted_and_goes_nowhere)
{
    found_profiles = 1;
    push(ALL, NULL);
    ck_assert_str_eq(order, "reserve decode cancel ");
    ck_assert_int_eq(answer.verdict, INGEST_ACCEPTED);
    ck_assert_uint_eq(stats.value[STATS_REQUESTS_OK], 1);
    ck_assert_uint_eq(stats.value[STATS_PROFILES], 1);
}

UNIT(rejected_samples_make_a_partial_success_that_names_the_first)
{
    found_profiles = 4;
    found_samples = 100;
    bad_samples = 3;
    bad_profiles = 2;
    push(ALL, NULL);
    ck_assert_str_eq(order, "reserve decode classify push ");
    ck_assert_int_eq(answer.verdict, INGEST_ACCEPTED);
    ck_assert_uint_eq(answer.rejected_profiles, 2);
    ck_assert_str_eq(answer.message.text,
                     "3 of 100 samples rejected in 2 profiles; the first: "
                     "resource_profiles[0].scope_profiles[0].profiles[2].samples[17]: no such stack");
    ck_assert_uint_eq(stats.value[STATS_REQUESTS_PARTIAL], 1);
    ck_assert_uint_eq(stats.value[STATS_REQUESTS_OK], 0);
    ck_assert_uint_eq(stats.value[STATS_SAMPLES], 97);
    ck_assert_uint_eq(stats.value[STATS_SAMPLES_REJECTED], 3);
}

UNIT(a_full_queue_is_busy_before_anything_is_decoded)
{
    forward_is_full = true;
    push(ALL, NULL);
    ck_assert_str_eq(order, "reserve ");
    ck_assert_int_eq(answer.verdict, INGEST_BUSY);
    ck_assert_uint_eq(answer.retry_after_ns, RETRY_NS);
    ck_assert_uint_eq(answer.rejected_profiles, 0);
    ck_assert_str_ne(answer.message.text, "");
    ck_assert_uint_eq(stats.value[STATS_REQUESTS_BUSY], 1);
}

UNIT(malformed_and_unsupported_requests_are_refused_for_good)
{
    decode_result = PROFILES_MALFORMED;
    push(ALL, NULL);
    ck_assert_str_eq(order, "reserve decode cancel ");
    ck_assert_int_eq(answer.verdict, INGEST_MALFORMED);
    ck_assert_str_eq(answer.message.text, "dictionary: broken");
    ck_assert_uint_eq(answer.retry_after_ns, 0);
    decode_result = PROFILES_UNSUPPORTED;
    push(COUNT, NULL);
    ck_assert_int_eq(answer.verdict, INGEST_UNSUPPORTED);
    ck_assert_uint_eq(stats.value[STATS_REQUESTS_MALFORMED], 1);
    ck_assert_uint_eq(stats.value[STATS_REQUESTS_UNSUPPORTED], 1);
}

UNIT(no_memory_to_count_is_busy_and_nothing_is_forwarded)
{
    found_samples = 5;
    classify_result = -ENOMEM;
    push(ALL, NULL);
    ck_assert_str_eq(order, "reserve decode classify cancel ");
    ck_assert_int_eq(answer.verdict, INGEST_BUSY);
    ck_assert_uint_eq(answer.retry_after_ns, RETRY_NS);
    ck_assert_uint_eq(stats.value[STATS_SAMPLES], 0);
    decode_result = -ENOMEM;
    push(ALL, NULL);
    ck_assert_int_eq(answer.verdict, INGEST_BUSY);
}

UNIT(columns_over_their_own_limit_are_too_large_for_good)
{
    struct budget idle = BUDGET_INIT(1 << 20, NULL), small = BUDGET_INIT(500, NULL);
    decode_result = PROFILES_OVER_BUDGET;
    push(ALL, NULL);
    ck_assert_int_eq(answer.verdict, INGEST_TOO_LARGE);
    push(ALL, &idle);
    ck_assert_int_eq(answer.verdict, INGEST_TOO_LARGE);
    /* It would never fit, also when nobody else holds anything. */
    push(ALL, &small);
    ck_assert_int_eq(answer.verdict, INGEST_TOO_LARGE);
    ck_assert_uint_eq(answer.retry_after_ns, 0);
    ck_assert_uint_eq(stats.value[STATS_REQUESTS_TOO_LARGE], 3);
}

UNIT(columns_that_others_leave_no_room_for_are_busy)
{
    struct budget process = BUDGET_INIT(10000, NULL), mine = BUDGET_INIT(1 << 20, &process);
    ck_assert(budget_charge(&process, 9500));
    decode_result = PROFILES_OVER_BUDGET;
    push(ALL, &mine);
    ck_assert_int_eq(answer.verdict, INGEST_BUSY);
    ck_assert_uint_eq(answer.retry_after_ns, RETRY_NS);
    ck_assert_uint_eq(stats.value[STATS_REQUESTS_BUSY], 1);
}

/* Who passes his client's share may have five eighths of all: what others hold of those is no reason to
 * refuse for good, though half of all is free. Its own body and tables are. */
UNIT(columns_beyond_a_share_are_busy_while_others_hold_of_what_one_may_have)
{
    struct accounts accounts = {.limit = 100};
    struct budget process = BUDGET_INIT(8000, NULL);
    struct meter meter;
    meter_init(&meter, &accounts, &process);
    const struct ingest_options o = {
        .limits = {.column_bytes = 4000, .depth = 64}, .retry_after_ns = RETRY_NS, .meter = &meter};
    struct ingest *g = unit_made(ingest_new(&o, consumers, ALL, &stats, &meter.budget));
    decode_result = PROFILES_OVER_BUDGET;
    const struct {
        size_t others, ours;
        enum ingest_verdict verdict;
    } cases[] = {{500, 0, INGEST_TOO_LARGE},
                 {1500, 0, INGEST_BUSY},
                 {2500, 2000, INGEST_BUSY},
                 {500, 2000, INGEST_TOO_LARGE}};
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        ck_assert(budget_charge(&process, cases[i].others) && budget_charge(&meter.budget, cases[i].ours));
        ck_assert(ingest_from(g, 7));
        ingest_push(g, BYTES_LIT("body"), PROFILES_LAYOUT_UNKNOWN, NULL, &answer);
        ck_assert_int_eq(answer.verdict, cases[i].verdict);
        ck_assert(ingest_from(g, 0));
        budget_refund(&meter.budget, cases[i].ours);
        budget_refund(&process, cases[i].others);
    }
    ingest_free(g);
}

UNIT(memory_of_one_huge_request_is_given_back)
{
    columns = 100 << 20;
    found_samples = 1;
    push(ALL, NULL);
    ck_assert_str_eq(order, "reserve decode classify push trim ");
}

UNIT(who_has_nothing_to_do_between_two_looks_keeps_little)
{
    struct ingest_options o = {.limits = {.column_bytes = 1000, .depth = 64}, .retry_after_ns = RETRY_NS};
    struct ingest *g = unit_made(ingest_new(&o, consumers, ALL, &stats, NULL));
    columns = 10 << 20; /* less than what makes a request give back by itself */
    ingest_push(g, BYTES_LIT("body"), PROFILES_LAYOUT_UNKNOWN, NULL, &answer);
    order[0] = 0;
    ingest_look(g);
    ck_assert_str_eq(order, "");
    ingest_look(g);
    ck_assert_str_eq(order, "trim rest ");
    ingest_free(g);
}

/* Decoding is in order, counting takes more than there is: of that there is no limit but the budget. */
UNIT(what_counting_takes_by_itself_is_too_large_for_good)
{
    struct budget process = BUDGET_INIT(10000, NULL);
    found_samples = 5;
    classify_result = -ENOMEM;
    classify_held = 3000;
    push(ALL, &process);
    ck_assert_str_eq(order, "reserve decode classify cancel ");
    ck_assert_int_eq(answer.verdict, INGEST_TOO_LARGE);
    ck_assert_uint_eq(answer.retry_after_ns, 0);
    ck_assert_str_ne(answer.message.text, "");

    classify_held = 2000; /* it was not what this request took */
    push(ALL, &process);
    ck_assert_int_eq(answer.verdict, INGEST_BUSY);

    classify_held = 3000; /* others took more */
    ck_assert(budget_charge(&process, 6000));
    push(ALL, &process);
    ck_assert_int_eq(answer.verdict, INGEST_BUSY);
    ck_assert_uint_eq(answer.retry_after_ns, RETRY_NS);
}

UNIT(requests_that_mean_more_work_than_their_bytes_pay_for_are_too_large)
{
    found_samples = 5;
    decode_result = PROFILES_TOO_LARGE;
    push(ALL, NULL);
    ck_assert_int_eq(answer.verdict, INGEST_TOO_LARGE);
    decode_result = 0;
    classify_result = VIEW_TOO_MUCH_WORK;
    push(ALL, NULL);
    ck_assert_int_eq(answer.verdict, INGEST_TOO_LARGE);
    ck_assert_str_ne(answer.message.text, "");
    ck_assert_uint_eq(answer.retry_after_ns, 0);
}

/* One client's share has ended, of which others of its requests have the most: never for good. */
UNIT(a_client_that_has_much_under_way_may_come_again)
{
    struct accounts accounts = {.limit = 1000};
    struct budget process = BUDGET_INIT(1 << 20, NULL);
    struct meter meter, other;
    meter_init(&meter, &accounts, &process);
    meter_init(&other, &accounts, &process);
    ck_assert(meter_begin(&other, 7));
    const struct ingest_options o = {
        .limits = {.column_bytes = 1000, .depth = 64}, .retry_after_ns = RETRY_NS, .meter = &meter};
    struct ingest *g = unit_made(ingest_new(&o, consumers, ALL, &stats, &meter.budget));
    found_samples = 5;
    account_of(&accounts, 7)->held = 900;
    for (int i = 0; i < 4; i++) {
        decode_result = i == 0 ? PROFILES_OVER_BUDGET : 0;
        classify_result = i == 1 ? -ENOMEM : 0;
        ck_assert(ingest_from(g, 7));
        ck_assert(i == 2 || !budget_charge(&meter.budget, 2000));
        ingest_push(g, BYTES_LIT("body"), PROFILES_LAYOUT_UNKNOWN, NULL, &answer);
        ck_assert_int_eq(answer.verdict, i < 2 ? INGEST_BUSY : INGEST_ACCEPTED);
        ck_assert_str_eq(answer.message.text, i < 2 ? INGEST_OVER_SHARE : "");
    }
    ck_assert_uint_eq(stats.value[STATS_LIMIT_CLIENT_MEMORY], 2);
    account_of(&accounts, 7)->held = 1000;
    ck_assert(!ingest_from(g, 7));
    ck_assert_uint_eq(stats.value[STATS_LIMIT_CLIENT_MEMORY], 3);
    ck_assert(ingest_from(g, 8) && ingest_from(g, 0));
    ingest_free(g);
}

/* Who keeps more than his part forgets it, but only while all together keep too much. */
UNIT(what_is_kept_gives_way_when_all_keep_too_much)
{
    const size_t mib = 1 << 20;
    struct ingest_kept kept = {.max = 10 * mib, .each = 4 * mib};
    const struct ingest_options o = {
        .limits = {.column_bytes = 1000, .depth = 64}, .retry_after_ns = RETRY_NS, .kept = &kept};
    struct ingest *one = unit_made(ingest_new(&o, consumers, ALL, &stats, NULL));
    struct ingest *other = unit_made(ingest_new(&o, consumers, ALL, &stats, NULL));
    static const struct {
        size_t mib;
        bool forgets;
    } steps[] = {{1, false}, {5, false}, {6, true}, {10, true}, {1, false}};
    found_samples = 5;
    columns = 2 * mib; /* of each, kept besides */
    classify_holds = mib;
    ingest_push(other, BYTES_LIT("body"), PROFILES_LAYOUT_UNKNOWN, NULL, &answer);
    ck_assert_uint_eq(kept.now, 3 * mib);
    for (size_t i = 0; i < ARRAY_LEN(steps); i++) {
        order[0] = 0;
        classify_holds = steps[i].mib * mib;
        ingest_push(one, BYTES_LIT("body"), PROFILES_LAYOUT_UNKNOWN, NULL, &answer);
        ck_assert_msg(!!strstr(order, "forget") == steps[i].forgets, "%zu: %s", i, order);
        ck_assert_uint_eq(kept.now, 3 * mib + classify_holds + columns);
    }
    kept.now += 10 * mib; /* others keep more since */
    classify_holds = 3 * mib;
    order[0] = 0;
    ingest_look(one);
    ck_assert_str_eq(order, ""); /* it worked since the last look */
    ingest_look(one);
    ck_assert_ptr_nonnull(strstr(order, "forget"));
    ck_assert_uint_eq(stats.value[STATS_MEMO_FORGOTTEN], 3);
    ingest_free(one);
    ingest_free(other);
    ck_assert_uint_eq(kept.now, 10 * mib);
}

/* Three who reserve; one of them has no room. */
struct nth {
    bool is_full;
    size_t held;
    unsigned pushed;
};

static bool nth_reserve(void *context, size_t body_bytes)
{
    struct nth *n = context;
    n->held += n->is_full ? 0 : body_bytes;
    return !n->is_full;
}

static void nth_cancel(void *context, size_t body_bytes)
{
    ((struct nth *)context)->held -= body_bytes;
}

static int nth_push(void *context, const struct profiles *view, const struct received *received,
                    size_t body_bytes)
{
    struct nth *n = context;
    n->held -= body_bytes;
    n->pushed++;
    return 0;
}

UNIT(where_one_consumer_has_no_room_none_keeps_a_reservation_and_none_is_given_the_view)
{
    const struct ingest_options o = {.limits = {.column_bytes = 1000, .depth = 64},
                                     .retry_after_ns = RETRY_NS};
    found_samples = 10;
    for (uint32_t full = 0; full <= 3; full++) { /* 3: nobody */
        struct nth nth[3] = {{.is_full = full == 0}, {.is_full = full == 1}, {.is_full = full == 2}};
        struct view_consumer rows[3];
        for (int i = 0; i < 3; i++)
            rows[i] = (struct view_consumer){.reserve = nth_reserve,
                                             .full = "no room",
                                             .push = nth_push,
                                             .cancel = nth_cancel,
                                             .context = &nth[i]};
        struct ingest *g = unit_made(ingest_new(&o, rows, 3, &stats, NULL));
        ingest_push(g, BYTES_LIT("body"), PROFILES_LAYOUT_UNKNOWN, NULL, &answer);
        ck_assert_int_eq(answer.verdict, full < 3 ? INGEST_BUSY : INGEST_ACCEPTED);
        ck_assert_str_eq(answer.message.text, full < 3 ? "no room" : "");
        for (int i = 0; i < 3; i++) {
            ck_assert_uint_eq(nth[i].held, 0);
            ck_assert_uint_eq(nth[i].pushed, full < 3 ? 0 : 1);
        }
        ingest_free(g);
    }
}
