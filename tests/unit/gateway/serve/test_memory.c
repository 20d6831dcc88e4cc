/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/coding/coding.h"
#include "tests/unit/gateway/serve/fake.h"

static const struct call small = {
    .path = GRPC_PATH, .headers = {GRPC_TYPE}, .body = BYTES_LIT("\0\0\0\0\1x")};

UNIT(a_spent_budget_is_busy_with_a_hint_in_both_dialects)
{
    struct budget budget = BUDGET_INIT(1 << 20, NULL);
    struct serve *s = serve_with(64 << 20, &budget);
    ck_assert(budget_charge(&budget, (1 << 20) - 100));
    ck_assert_ptr_nonnull(strstr(ask(s, &small), "grpc-status: 14\n"));
    ck_assert_ptr_nonnull(strstr((const char *)said.p, "grpc-status-details-bin: "));
    struct call http = {.path = HTTP_PATH, .headers = {PROTO_TYPE}, .body = BYTES_LIT("x")};
    ck_assert_int_eq(
        strncmp(ask(s, &http), "503\ncontent-type: application/x-protobuf\nretry-after: 2\n", 56), 0);
    ck_assert_uint_eq(n_pushes, 0);
    budget_refund(&budget, (1 << 20) - 100);
    ck_assert_ptr_nonnull(strstr(ask(s, &small), "grpc-status: 0\n"));
    fake_release(s);
    ck_assert_uint_eq(atomic_load(&budget.used), 0);
}

UNIT(a_body_that_outgrows_the_budget_is_busy_and_gives_all_back)
{
    struct budget budget = BUDGET_INIT(100000, NULL);
    struct serve *s = serve_with(64 << 20, &budget);
    struct buffer body = {.p = calloc(1, 200000), .n = 200000, .cap = 200000};
    struct call call = {.path = HTTP_PATH,
                        .headers = {PROTO_TYPE},
                        .content_length = 200000,
                        .body = buffer_bytes(&body),
                        .step = 1000};
    ck_assert_int_eq(strncmp(ask(s, &call), "503\n", 4), 0);
    call.content_length = 0;
    ck_assert_int_eq(strncmp(ask(s, &call), "503\n", 4), 0);
    ck_assert_ptr_nonnull(strstr(ask(s, &small), "grpc-status: 0\n"));
    buffer_release(&body);
    fake_release(s);
    ck_assert_uint_eq(atomic_load(&budget.used), 0);
}

UNIT(json_that_as_protobuf_passes_the_budget_is_busy_and_its_memory_is_kept_within_bounds)
{
    struct budget budget = BUDGET_INIT(150000, NULL);
    struct serve *s = serve_with(64 << 20, &budget);
    struct buffer json = {0};
    buffer_add_str(&json, "{\"dictionary\":{\"stackTable\":[{\"locationIndices\":[-1");
    for (int i = 0; i < 15000; i++) /* 45 KB that become 150 */
        buffer_add_str(&json, ",-1");
    buffer_add_str(&json, "]}]}}");
    struct call call = {.path = HTTP_PATH, .headers = {JSON_TYPE}, .body = buffer_bytes(&json)};
    ck_assert_int_eq(strncmp(ask(s, &call), "503\n", 4), 0);
    ck_assert_uint_eq(n_pushes, 0);
    budget.limit = 1 << 20;
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(strncmp(ask(s, &call), "200\n", 4), 0);
    ck_assert_uint_gt(pushed.n, 150000);
    ck_assert_uint_le(atomic_load(&budget.used), 600000); /* kept from request to request, not piled up */
    buffer_release(&json);
    fake_release(s);
    ck_assert_uint_eq(atomic_load(&budget.used), 0);
}

UNIT(a_body_that_decompresses_past_the_budget_is_busy)
{
    struct budget budget = BUDGET_INIT(100000, NULL);
    struct serve *s = serve_with(64 << 20, &budget);
    struct buffer zeros = {.p = calloc(1, 200000), .n = 200000, .cap = 200000}, body = {0};
    struct coding_encoder *e = unit_made(coding_encoder_new(CODING_GZIP, 0));
    ck_assert_int_eq(coding_encode(e, buffer_bytes(&zeros), &body), 0);
    coding_encoder_free(e);
    struct call call = {.path = HTTP_PATH,
                        .headers = {PROTO_TYPE, H("content-encoding", "gzip")},
                        .body = buffer_bytes(&body)};
    ck_assert_int_eq(strncmp(ask(s, &call), "503\n", 4), 0);
    ck_assert_uint_eq(n_pushes, 0);
    buffer_release(&zeros);
    buffer_release(&body);
    fake_release(s);
    ck_assert_uint_eq(atomic_load(&budget.used), 0);
}

/* What is announced must not be charged: else a few empty requests would spend everybody's budget. */
UNIT(announcing_a_large_body_costs_little)
{
    struct budget budget = BUDGET_INIT(64 << 20, NULL);
    struct serve *s = serve_with(64 << 20, &budget);
    const struct http_handler *h = serve_handler();
    struct call call = {.path = HTTP_PATH, .headers = {PROTO_TYPE}, .content_length = 60 << 20};
    struct http_exchange x[20];
    for (int i = 0; i < 20; i++) {
        exchange_begin(&call, &x[i]);
        h->on_head(s, &x[i]);
        h->on_body(s, &x[i], BYTES_LIT("first"));
    }
    ck_assert_uint_eq(n_replies, 0);
    ck_assert_uint_le(atomic_load(&budget.used), 20u * (600u << 10));
    for (int i = 0; i < 20; i++)
        h->on_close(s, &x[i]); /* the peer is gone before the end */
    ck_assert_uint_le(atomic_load(&budget.used), (4u << 20) + 20 * sizeof(struct http_exchange) * 4);
    fake_release(s);
    ck_assert_uint_eq(atomic_load(&budget.used), 0);
}

UNIT(steady_state_charges_nothing_new)
{
    struct budget budget = BUDGET_INIT(64 << 20, NULL);
    struct serve *s = serve_with(64 << 20, &budget);
    ask(s, &small);
    size_t first = atomic_load(&budget.used);
    ck_assert_uint_gt(first, 0);
    for (int i = 0; i < 100; i++) {
        ask(s, &small);
        ck_assert_uint_eq(atomic_load(&budget.used), first);
    }
    fake_release(s);
}

UNIT(a_refusal_in_the_middle_ends_the_request_there)
{
    struct serve *s = serve_with(4, NULL);
    const struct http_handler *h = serve_handler();
    struct call call = {.path = HTTP_PATH, .headers = {PROTO_TYPE}};
    struct http_exchange x;
    exchange_begin(&call, &x);
    n_replies = 0;
    h->on_head(s, &x);
    h->on_body(s, &x, BYTES_LIT("12345"));
    ck_assert_uint_eq(n_replies, 1);
    /* A session may still have pieces in hand; they must not answer twice (http_reply asserts). */
    h->on_body(s, &x, BYTES_LIT("678"));
    h->on_end(s, &x);
    h->on_close(s, &x);
    ck_assert_uint_eq(n_pushes, 0);
    fake_release(s);
}

UNIT(refusals_and_bytes_are_counted_here_and_pushed_requests_are_not)
{
    static struct stats stats;
    struct serve_options o = SERVE_OPTIONS_DEFAULT;
    o.request_bytes = 100;
    struct serve *s = unit_made(serve_new(&o, NULL, &stats, NULL));
    next_answer = (struct ingest_answer){.verdict = INGEST_MALFORMED};
    ask(s, &small);
    ck_assert_uint_eq(stats.value[STATS_REQUEST_BYTES], 6);
    ck_assert_uint_eq(stats.value[STATS_REQUEST_BYTES_PLAIN], 1);
    ck_assert_uint_eq(stats.value[STATS_REQUESTS_MALFORMED], 0); /* ingest's to count */
    struct call none = {.path = "/", .method = "GET"};
    ask(s, &none);
    ck_assert_uint_eq(stats.value[STATS_REQUESTS_REFUSED], 1);
    struct call large = {.path = HTTP_PATH, .headers = {PROTO_TYPE}, .content_length = 101};
    ask(s, &large);
    ck_assert_uint_eq(stats.value[STATS_REQUESTS_TOO_LARGE], 1);
    struct call cut = small;
    cut.body = BYTES_LIT("\0\0\0");
    ask(s, &cut);
    ck_assert_uint_eq(stats.value[STATS_REQUESTS_MALFORMED], 1);
    ck_assert_uint_eq(stats.value[STATS_REQUEST_BYTES], 9);
    fake_release(s);
}
