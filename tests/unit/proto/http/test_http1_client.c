/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "proto/base/budget.h"
#include "proto/http/exchange.h"
#include "tests/lib/unit.h"

struct got {
    int n;
    enum http_call_result result;
    uint32_t status;
    char body[64], type[64];
};

static void on_done(void *user, enum http_call_result result, const struct http_response *r)
{
    struct got *g = user;
    g->n++;
    g->result = result;
    g->status = r->status;
    snprintf(g->body, sizeof g->body, "%.*s", BYTES_FMT(r->body));
    snprintf(g->type, sizeof g->type, "%.*s",
             BYTES_FMT(http_header_find(r->headers, r->n_headers, "content-type")));
}

/* One call that is answered with `answer` in pieces, and then perhaps the end of the connection. */
static struct got call(const char *answer, size_t step, bool eof, bool *ret_ready)
{
    struct got g = {0};
    struct http_client *c = unit_made(http_client_new(HTTP_VERSION_1, 1000));
    struct http_request q = {
        .method = "POST", .scheme = "http", .authority = "h:1", .path = "/p", .body = BYTES_LIT("abc")};
    struct buffer out = BUFFER_INIT(0);
    ck_assert_ptr_nonnull(http_client_call(c, &q, on_done, &g));
    ck_assert_ptr_null(http_client_call(c, &q, on_done, &g));
    while (http_client_has_output(c))
        ck_assert_int_eq(http_client_drain(c, &out, 10), 0);
    ck_assert(bytes_eq(buffer_bytes(&out),
                       BYTES_LIT("POST /p HTTP/1.1\r\nhost: h:1\r\ncontent-length: 3\r\n\r\nabc")));
    buffer_release(&out);
    size_t n = strlen(answer);
    for (size_t i = 0; i < n && g.n == 0; i += step)
        http_client_feed(c, bytes_of(answer + i, i + step < n ? step : n - i));
    if (eof)
        http_client_feed_eof(c);
    if (ret_ready)
        *ret_ready = http_client_is_ready(c);
    http_client_free(c);
    return g;
}

UNIT(responses_are_read_in_any_pieces)
{
    const struct {
        const char *answer, *body;
        bool eof, ready;
    } cases[] = {
        {"HTTP/1.1 200 OK\r\nContent-Type: a/b\r\nContent-Length: 5\r\n\r\nhello", "hello", false, true},
        {"HTTP/1.1 200 OK\r\nContent-type:a/b \r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nx: y\r\n\r\n",
         "hello", false, true},
        {"HTTP/1.1 100 Continue\r\nContent-Type: no\r\n\r\nHTTP/1.1 200 OK\r\nContent-Type: a/b\r\n"
         "Content-Length: 2\r\n\r\nhi",
         "hi", false, true},
        {"HTTP/1.1 200 OK\r\nContent-Type: a/b\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi", "hi",
         false, false},
        {"HTTP/1.0 200 OK\r\nContent-Type: a/b\r\n\r\nto the end", "to the end", true, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (size_t step = 1; step < 200; step++) {
            bool ready = false;
            struct got g = call(cases[i].answer, step, cases[i].eof, &ready);
            ck_assert_int_eq(g.n, 1);
            ck_assert_int_eq(g.result, HTTP_CALL_DONE);
            ck_assert_uint_eq(g.status, 200);
            ck_assert_str_eq(g.body, cases[i].body);
            ck_assert_str_eq(g.type, "a/b");
            ck_assert(ready == cases[i].ready);
        }
}

UNIT(broken_responses_break_the_call)
{
    static const struct {
        const char *text;
        enum http_call_result result;
    } answers[] = {
        {"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel", HTTP_CALL_BROKEN},
        {"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n", HTTP_CALL_NOT_HTTP},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nZZ\r\n", HTTP_CALL_NOT_HTTP},
        {"gibberish\r\n\r\n", HTTP_CALL_NOT_HTTP},
        {"", HTTP_CALL_BROKEN},
    };
    for (size_t i = 0; i < sizeof answers / sizeof *answers; i++) {
        bool ready = true;
        struct got g = call(answers[i].text, 4, true, &ready);
        ck_assert_int_eq(g.n, 1);
        ck_assert_int_eq(g.result, answers[i].result);
        ck_assert(!ready);
    }
}

UNIT(a_response_over_the_limit_is_too_large)
{
    char answer[3000] = "HTTP/1.1 200 OK\r\nContent-Length: 2000\r\n\r\n";
    memset(answer + strlen(answer), 'x', 2000);
    ck_assert_int_eq(call(answer, 100, true, NULL).result, HTTP_CALL_TOO_LARGE);
    strcpy(answer, "HTTP/1.1 200 OK\r\nx: ");
    memset(answer + strlen(answer), 'x', 2000);
    strcpy(answer + 2020, "\r\n\r\n");
    ck_assert_int_eq(call(answer, 100, true, NULL).result, HTTP_CALL_TOO_LARGE);
}

UNIT(a_response_is_on_the_budget_while_it_comes)
{
    char head[] = "HTTP/1.1 200 OK\r\nx: y\r\nContent-Length: 60000\r\n\r\n", piece[20000] = "x";
    for (size_t limit = 16384; limit <= (size_t)1 << 20; limit *= 64) {
        struct budget budget = BUDGET_INIT(limit, NULL);
        struct got g = {0};
        struct http_client *c = unit_made(http_client_new(HTTP_VERSION_1, 100000));
        struct http_request q = {.method = "GET", .scheme = "http", .authority = "h", .path = "/"};
        http_client_charge(c, &budget);
        unit_made(http_client_call(c, &q, on_done, &g));
        http_client_feed(c, bytes_str(head));
        ck_assert_uint_gt(budget.used, 0);
        for (int i = 0; i < 3 && g.n == 0; i++) {
            http_client_feed(c, bytes_of(piece, sizeof piece));
            ck_assert(g.n == 1 || budget.used >= (size_t)(i + 1) * sizeof piece);
        }
        ck_assert_int_eq(g.n, 1);
        ck_assert_int_eq(g.result, limit > 60000 ? HTTP_CALL_DONE : HTTP_CALL_OVER_BUDGET);
        ck_assert_uint_eq(budget.used, 0);
        http_client_free(c);
    }
}

UNIT(a_cancelled_call_makes_the_connection_useless)
{
    struct got g = {0};
    struct http_client *c = unit_made(http_client_new(HTTP_VERSION_1, 1000));
    struct http_request q = {.method = "GET", .scheme = "http", .authority = "h", .path = "/"};
    http_client_cancel(c, unit_made(http_client_call(c, &q, on_done, &g)));
    ck_assert(!http_client_is_ready(c));
    ck_assert(http_client_is_done(c));
    ck_assert_int_eq(g.n, 0);
    http_client_free(c);
}
