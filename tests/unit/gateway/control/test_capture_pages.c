/* SPDX-License-Identifier: Apache-2.0 */
/* What a person captures: what the query asks for, how many and how long, and who may end it. */
#include "gateway/control/capture_pages.h"

#include <stdio.h>
#include <string.h>

#include "proto/base/macros.h"
#include "tests/lib/unit.h"

static struct captures *captures;
static struct buffer text;
static uint32_t status;

/* Asks the page; what it says is in `text` then. */
static void ask(struct admin_page page, const char *query)
{
    struct http_exchange x = {.query = bytes_str(query)};
    struct admin_answer a = {.status = 200, .type = ADMIN_TYPE_TEXT, .text = &text};
    text.n = 0;
    page.handle(page.context, &x, &a);
    if (a.words)
        buffer_add_str(&text, a.words);
    buffer_add(&text, "", 1);
    status = a.status;
}

static void capture(const char *query)
{
    ask(capture_page(captures), query);
}

static void begin(void)
{
    captures = unit_made(captures_new());
}

static void end(void)
{
    captures = captures_free(captures);
    buffer_release(&text);
}

static char seen[256];

static int see(void *context, uint32_t id, const struct capture_rule *rule)
{
    size_t n = strlen(seen);
    n += (size_t)snprintf(seen + n, sizeof seen - n, "%u:", id);
    for (uint32_t i = 0; i < rule->n; i++)
        n += (size_t)snprintf(seen + n, sizeof seen - n, "%.*s=%.*s;", BYTES_FMT(rule->keys[i]),
                              BYTES_FMT(rule->values[i]));
    return 0;
}

static const char *lasting(void)
{
    seen[0] = 0;
    captures_each(captures, see, NULL);
    return seen;
}

UNIT(a_capture_is_what_the_query_says)
{
    begin();
    capture("lasting=5m&resource.service.name=a%26b&resource.k=");
    ck_assert_uint_eq(status, 201);
    ck_assert_str_eq((char *)text.p, "{\"id\":1}\n");
    ck_assert_str_eq(lasting(), "1:service.name=a&b;k=;");
    capture("lasting=1h");
    ck_assert_str_eq((char *)text.p, "{\"id\":2}\n");
    capture("end=1");
    ck_assert_uint_eq(status, 200);
    ck_assert_str_eq((char *)text.p, "ended\n");
    ck_assert_str_eq(lasting(), "2:");
    capture("end=1");
    ck_assert_uint_eq(status, 404);
    end();
}

UNIT(what_is_no_capture_is_refused_with_words)
{
    static const char *const bad[] = {"",
                                      "lasting=",
                                      "lasting=0s",
                                      "lasting=1",
                                      "lasting=61m",
                                      "resource.a=b",
                                      "lasting=1s&resource.=b",
                                      "lasting=1s&x=y",
                                      "lasting=1s&resource.a=%4",
                                      "lasting=1s&resource.a=%g0",
                                      "end=0",
                                      "end=4294967296",
                                      "end=x"};
    begin();
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        capture(bad[i]);
        ck_assert_msg(status == 400 && text.n > 2, "%s: %u", bad[i], status);
        ck_assert_str_eq(lasting(), "");
    }
    end();
}

UNIT(people_have_so_many_at_once_and_never_those_of_triggers)
{
    const struct capture_rule of_trigger = {.until_ns = UINT64_MAX};
    uint32_t id;
    begin();
    for (uint32_t i = 0; i < CAPTURES_BY_HAND_MAX; i++) {
        capture("lasting=1m");
        ck_assert_uint_eq(status, 201);
    }
    capture("lasting=1m");
    ck_assert_uint_eq(status, 429);
    ck_assert_str_eq((char *)text.p, "16 captures are running already: end one, or wait\n");
    capture("end=3");
    ck_assert_uint_eq(status, 200);
    ck_assert_int_eq(captures_begin(captures, &of_trigger, &id), 0);
    char query[32];
    snprintf(query, sizeof query, "end=%u", id);
    capture(query);
    ck_assert_uint_eq(status, 404);
    while (captures_begin(captures, &of_trigger, &id) == 0)
        ;
    capture("lasting=1m");
    ck_assert_uint_eq(status, 429);
    ck_assert_str_eq((char *)text.p, "triggers capture as much as may be\n");
    end();
}

UNIT(what_lasts_is_listed)
{
    begin();
    ask(captures_page(captures), "");
    ck_assert_uint_eq(status, 200);
    ck_assert_str_eq((char *)text.p, "{\"captures\":[]}\n");
    capture("lasting=1h&resource.service.name=shop");
    ask(captures_page(captures), "");
    ck_assert_ptr_nonnull(
        strstr((char *)text.p,
               "{\"id\":1,\"by\":\"hand\",\"resource\":{\"service.name\":\"shop\"},\"seconds_left\":"));
    end();
}
