/* SPDX-License-Identifier: Apache-2.0 */
/* When a refusal is said: small bodies are read to their end first, large ones are not waited for. */
#include "tests/unit/gateway/serve/fake.h"

static void head(struct serve *s, const struct call *call, struct http_exchange *x)
{
    said.n = 0;
    n_replies = 0;
    exchange_begin(call, x);
    serve_handler()->on_head(s, x);
}

static void body(struct serve *s, struct http_exchange *x, size_t n)
{
    static const uint8_t zeros[64 << 10];
    for (; n > 0; n -= n < sizeof zeros ? n : sizeof zeros)
        serve_handler()->on_body(s, x, bytes_of(zeros, n < sizeof zeros ? n : sizeof zeros));
}

static const struct call unknown_path = {.path = "/nowhere", .headers = {PROTO_TYPE}};

UNIT(a_small_refused_body_is_read_to_its_end)
{
    struct budget budget = BUDGET_INIT(1 << 20, NULL);
    struct serve *s = serve_with(1 << 20, &budget);
    struct http_exchange x;
    const int64_t lengths[] = {0, 1, 64 << 10}; /* 0 in a call: not told */
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        struct call call = unknown_path;
        call.content_length = lengths[i];
        head(s, &call, &x);
        ck_assert_uint_eq(n_replies, 0);
        size_t before = atomic_load(&budget.used);
        body(s, &x, (size_t)lengths[i]);
        ck_assert_uint_eq(n_replies, 0);
        ck_assert_uint_eq(atomic_load(&budget.used), before); /* thrown away, not held */
        serve_handler()->on_end(s, &x);
        ck_assert_uint_eq(n_replies, 1);
        ck_assert_ptr_nonnull(said.p);
        ck_assert_int_eq(strncmp((const char *)said.p, "404\n", 4), 0);
        serve_handler()->on_close(s, &x);
    }
    ck_assert_uint_eq(n_pushes, 0);
    fake_release(s);
    ck_assert_uint_eq(atomic_load(&budget.used), 0);
}

UNIT(a_large_refused_body_is_not_waited_for)
{
    struct serve *s = serve_with(64 << 20, NULL);
    struct http_exchange x;
    struct call call = unknown_path;
    call.content_length = (64 << 10) + 1;
    head(s, &call, &x);
    ck_assert_uint_eq(n_replies, 1);
    serve_handler()->on_close(s, &x);
    call.content_length = 0; /* not told */
    head(s, &call, &x);
    body(s, &x, 64 << 10);
    ck_assert_uint_eq(n_replies, 0);
    body(s, &x, 1);
    ck_assert_uint_eq(n_replies, 1);
    body(s, &x, 100); /* what the session has in hand */
    serve_handler()->on_end(s, &x);
    serve_handler()->on_close(s, &x);
    ck_assert_uint_eq(n_replies, 1);
    fake_release(s);
}

UNIT(a_client_that_waits_for_our_word_gets_it)
{
    struct serve *s = serve_with(64 << 20, NULL);
    struct http_exchange x;
    struct call call = unknown_path;
    call.version = HTTP_VERSION_1;
    call.content_length = 10;
    call.headers[1] = (struct http_header)H("expect", "100-continue");
    head(s, &call, &x);
    ck_assert_uint_eq(n_replies, 1);
    serve_handler()->on_close(s, &x);
    fake_release(s);
}

UNIT(a_refused_client_that_goes_leaves_nothing)
{
    struct budget budget = BUDGET_INIT(1 << 20, NULL);
    struct serve *s = serve_with(1 << 20, &budget);
    struct http_exchange x[50];
    for (int i = 0; i < 50; i++) {
        head(s, &unknown_path, &x[i]);
        body(s, &x[i], 1000);
    }
    ck_assert_uint_eq(n_replies, 0);
    ck_assert_uint_le(atomic_load(&budget.used), 50 * 1024); /* a refused request holds no body */
    for (int i = 0; i < 50; i++)
        serve_handler()->on_close(s, &x[i]);
    fake_release(s);
    ck_assert_uint_eq(atomic_load(&budget.used), 0);
}
