/* SPDX-License-Identifier: Apache-2.0 */
/* needs: proto/otlp/view proto/wire */
/* Live requests are checked as far as the share of time goes, and what is found is told of who sent them. */
#include "gateway/check/live.h"

#include <stdlib.h>
#include <string.h>

#include "gateway/check/board_parts.h"
#include "gateway/stats/producers.h"
#include "proto/base/clock.h"
#include "tests/lib/unit.h"

/* A request of a profile with nothing but a scope's name, and the rules that it breaks: it has no dictionary,
 * no sample type, … */

static uint8_t *request(const char *scope, size_t *ret_n)
{
    static const uint8_t head[] = {0x0a, 0x0d, 0x12, 0x0b, 0x0a, 0x07, 0x0a, 0x05};
    uint8_t *p = unit_made(calloc(1, sizeof head + 7 + PROFILES_PADDING));
    memcpy(p, head, sizeof head);
    memcpy(p + sizeof head, scope, 5);
    p[sizeof head + 5] = 0x12;
    *ret_n = sizeof head + 7;
    return p;
}

struct seen {
    struct board *board;
    struct live *live;
    struct stats *stats;
    struct profiles view;
};

static struct seen seen_new(double share, struct budget *budget)
{
    struct seen s = {.board = unit_made(board_new()), .stats = unit_made(stats_new())};
    s.live = unit_made(live_new(s.board, share, s.stats, budget));
    ck_assert_int_eq(profiles_init(&s.view, NULL), 0);
    return s;
}

static void seen_free(struct seen *s)
{
    live_free(s->live);
    board_free(s->board);
    profiles_release(&s->view);
}

static void look(struct seen *s, const char *scope)
{
    struct error e = {""};
    size_t n;
    autofree uint8_t *body = request(scope, &n);
    ck_assert_int_eq(profiles_decode(&s->view, bytes_of(body, n), &profiles_limits_default, &e), 0);
    live_look(s->live, bytes_of(body, n), PROFILES_LAYOUT_UNKNOWN, &s->view);
}

/* Whether /metrics has that of findings. */
static bool says(const struct seen *s, const char *series)
{
    cleanup(buffer_release) struct buffer out = BUFFER_INIT(0);
    ck_assert_int_eq(board_prometheus(s->board, &out), 0);
    ck_assert_int_eq(buffer_add(&out, "", 1), 0);
    return strstr((char *)out.p, series) != NULL;
}

UNIT(findings_are_told_by_producer)
{
    cleanup(seen_free) struct seen s = seen_new(1, NULL);
    look(&s, "alpha");
    look(&s, "alpha");
    look(&s, "gamma");
    ck_assert(says(&s, "{rule=\"no-dictionary\",severity=\"error\",producer=\"alpha\"} 2\n"));
    ck_assert(says(&s, "{rule=\"no-dictionary\",severity=\"error\",producer=\"gamma\"} 1\n"));
    ck_assert(!says(&s, "{rule=\"no-scopes\""));
}

UNIT(the_page_has_the_last_finding_of_each_rule_and_producer)
{
    cleanup(seen_free) struct seen s = seen_new(1, NULL);
    for (int i = 0; i < 3; i++)
        look(&s, "a\"<\x01z");
    cleanup(buffer_release) struct buffer text = BUFFER_INIT(0);
    struct admin_answer answer = {.text = &text};
    const struct admin_page page = board_page(s.board);
    page.handle(page.context, NULL, &answer);
    ck_assert_int_eq(buffer_add(&text, "", 1), 0);
    const char *first = strstr((char *)text.p, "\"rule\":\"no-dictionary\"");
    ck_assert_ptr_nonnull(first);
    ck_assert_ptr_null(strstr(first + 1, "\"rule\":\"no-dictionary\""));
    ck_assert_ptr_nonnull(strstr((char *)text.p, "\"producer\":\"a\\\"<?z\""));
}

UNIT(nothing_is_said_when_nothing_was_found)
{
    cleanup(seen_free) struct seen s = seen_new(1, NULL);
    struct buffer out = BUFFER_INIT(0);
    ck_assert_int_eq(board_prometheus(s.board, &out), 0);
    ck_assert_uint_eq(out.n, 0);
}

UNIT(a_refused_request_is_of_nobody)
{
    cleanup(seen_free) struct seen s = seen_new(1, NULL);
    uint8_t body[2 + PROFILES_PADDING] = {0x0a, 0x7f};
    live_look(s.live, bytes_of(body, 2), PROFILES_LAYOUT_UNKNOWN, NULL);
    ck_assert(says(&s, "{rule=\"malformed\",severity=\"error\",producer=\"unknown\"} 1\n"));
}

/* With next to no share, what was saved up is spent, and then requests pass. */
UNIT(the_share_bounds_the_work)
{
    cleanup(seen_free) struct seen s = seen_new(1e-9, NULL);
    const uint64_t patience = clock_monotonic() + unit_patience(60 * (uint64_t)NSEC_PER_SEC);
    uint32_t n = 0;
    while (stats_read(STATS_CHECK_SKIPPED) == 0 && clock_monotonic() < patience) {
        look(&s, "delta");
        n++;
    }
    ck_assert_uint_eq(stats_read(STATS_CHECK_SKIPPED), 1);
    ck_assert_uint_eq(stats_read(STATS_CHECK_CHECKED), n - 1);
    ck_assert_uint_gt(n, 1);
}

UNIT(a_large_request_is_passed_over)
{
    cleanup(seen_free) struct seen s = seen_new(1, NULL);
    autofree uint8_t *body = unit_made(calloc(1, LIVE_BYTES_MAX + 1 + PROFILES_PADDING));
    live_look(s.live, bytes_of(body, LIVE_BYTES_MAX + 1), PROFILES_LAYOUT_UNKNOWN, NULL);
    ck_assert_uint_eq(stats_read(STATS_CHECK_TOO_LARGE), 1);
    ck_assert_uint_eq(stats_read(STATS_CHECK_CHECKED), 0);
}

UNIT(without_memory_a_request_is_passed_over)
{
    struct budget budget = BUDGET_INIT(16, NULL);
    struct seen s = seen_new(1, &budget);
    look(&s, "kappa");
    ck_assert_uint_eq(stats_read(STATS_CHECK_SKIPPED), 1);
    seen_free(&s);
    ck_assert_uint_eq(budget.used, 0);
}

/* The oldest goes when there is no room for more. */
UNIT(the_last_findings_are_bounded)
{
    cleanup(seen_free) struct seen s = seen_new(1, NULL);
    char name[8];
    for (uint32_t i = 0; i < 80; i++) {
        snprintf(name, sizeof name, "n%04u", i);
        look(&s, name);
    }
    cleanup(buffer_release) struct buffer text = BUFFER_INIT(0);
    struct admin_answer answer = {.text = &text};
    const struct admin_page page = board_page(s.board);
    page.handle(page.context, NULL, &answer);
    ck_assert_int_eq(buffer_add(&text, "", 1), 0);
    uint32_t n = 0;
    for (const char *p = (char *)text.p; (p = strstr(p, "\"timeUnixNano\"")); p++)
        n++;
    ck_assert_uint_eq(n, BOARD_LATEST);
}
