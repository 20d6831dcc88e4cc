/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/unit.h"

#include <string.h>

#include "proto/base/budget.h"
#include "proto/client/endpoint.h"
#include "proto/client/inquiry.h"
#include "tests/unit/proto/client/fake_server.h"

#define PLENTY (60 * (uint64_t)NSEC_PER_SEC)

static struct io_loop *loop;
static struct fake_server server;
static struct endpoint endpoint;
static struct budget budget;
static size_t answer_bytes;
static bool is_held;

static struct {
    uint32_t answers, ends, status;
    size_t bytes;
    enum inquiry_end end;
    char why[256];
} told;

static void answer(struct fake_server *s, struct http_exchange *x, struct bytes body)
{
    static const uint8_t zeros[10000];
    ck_assert(bytes_is(x->path, "/what") && bytes_is(body, "is it?"));
    ck_assert(bytes_is(x->authority, server.address));
    if (is_held)
        fake_hold(s, x, body);
    else
        fake_http(x, 404, "text/plain", bytes_of(zeros, answer_bytes));
}

static void on_answer(void *user, const struct http_response *response)
{
    told.answers++;
    told.status = response->status;
    told.bytes = response->body.n;
}

static void on_end(void *user, enum inquiry_end end, const char *why)
{
    told.ends++;
    told.end = end;
    snprintf(told.why, sizeof told.why, "%s", why);
}

static void start(void)
{
    memset(&told, 0, sizeof told);
    is_held = false;
    answer_bytes = 10;
    budget = (struct budget)BUDGET_INIT(1000000, NULL);
    loop = unit_made(io_loop_new());
    server = (struct fake_server){.answer = answer};
    fake_start(&server, loop, 0);
    ck_assert_int_eq(endpoint_parse(&endpoint, server.address, 0, NULL), 0);
}

static struct inquiry *ask(uint64_t timeout_ns)
{
    const struct inquiry_options options = {
        .connection = {.loop = loop, .endpoint = &endpoint, .response_max = 5000, .budget = &budget},
        .request = {.method = "POST", .path = "/what", .body = BYTES_LIT("is it?")},
        .timeout_ns = timeout_ns,
        .on_answer = on_answer,
        .on_end = on_end,
    };
    return unit_made(inquiry_new(&options));
}

static void turn(void)
{
    io_loop_run_once(loop, 50 * NSEC_PER_MSEC);
}

static void stop(void)
{
    fake_stop(&server);
    loop = io_loop_free(loop); /* asserts that nothing was left open */
    endpoint_release(&endpoint);
    ck_assert_uint_eq(budget.used, 0);
}

static void ends_with(enum inquiry_end end, const char *why, uint64_t timeout_ns)
{
    (void)ask(timeout_ns);
    unit_until(told.ends == 1, turn());
    ck_assert_msg(told.end == end && strstr(told.why, why), "%d %s", told.end, told.why);
    ck_assert_uint_eq(told.answers, end == INQUIRY_ANSWERED);
    stop();
    ck_assert_uint_eq(told.ends, 1);
}

UNIT(an_answer_of_any_status_is_one)
{
    start();
    ends_with(INQUIRY_ANSWERED, "", PLENTY);
    ck_assert_uint_eq(told.status, 404);
    ck_assert_uint_eq(told.bytes, 10);
}

UNIT(there_is_an_end_to_waiting)
{
    start();
    is_held = true;
    ends_with(INQUIRY_LATE, "no answer in time", 100 * NSEC_PER_MSEC);
}

UNIT(an_answer_has_a_largest)
{
    start();
    answer_bytes = 10000;
    ends_with(INQUIRY_TOO_LARGE, "too large", PLENTY);
}

UNIT(an_answer_is_on_the_budget)
{
    start();
    budget.limit = 100;
    answer_bytes = 4000;
    ends_with(INQUIRY_NO_MEMORY, "out of memory", PLENTY);
}

UNIT(who_is_not_there_or_goes_is_not_reached)
{
    start();
    is_held = true;
    (void)ask(PLENTY);
    unit_until(server.n_held == 1, turn());
    fake_drop(server.links, false);
    unit_until(told.ends == 1, turn());
    ck_assert_int_eq(told.end, INQUIRY_UNREACHED);
    fake_stop(&server);
    (void)ask(PLENTY);
    unit_until(told.ends == 2, turn());
    ck_assert_int_eq(told.end, INQUIRY_UNREACHED);
    ck_assert_msg(strstr(told.why, server.address) != NULL, "%s", told.why);
    stop();
}

UNIT(what_is_forgotten_is_not_told)
{
    start();
    is_held = true;
    struct inquiry *i = ask(PLENTY);
    unit_until(server.n_held == 1, turn());
    ck_assert_ptr_null(inquiry_free(i));
    i = ask(PLENTY);
    ck_assert_ptr_null(inquiry_free(i)); /* before it is connected */
    stop();
    ck_assert_uint_eq(told.ends + told.answers, 0);
}
