/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/unit.h"

#include <errno.h>
#include <string.h>

#include "proto/client/oauth2.h"
#include "tests/unit/proto/client/fake_server.h"

struct world {
    struct io_loop *loop;
    struct fake_server server;
    struct oauth2 *oauth2;
    struct client_oauth2 options;
    char url[96];
    const char *answer; /* to the next request; NULL: it is held back */
    uint32_t status;
    char asked[256], who[128]; /* the last request's body, and its authorization */
    unsigned changes;
};

static void answer(struct fake_server *s, struct http_exchange *x, struct bytes body)
{
    struct world *w = s->user;
    const struct bytes who = http_header_find(x->headers, x->n_headers, "authorization");
    snprintf(w->asked, sizeof w->asked, "%.*s", (int)body.n, (const char *)body.p);
    snprintf(w->who, sizeof w->who, "%.*s", (int)who.n, (const char *)who.p);
    ck_assert(bytes_is(x->method, "POST"));
    ck_assert(bytes_is(x->path, "/token"));
    ck_assert(bytes_is(http_header_find(x->headers, x->n_headers, "content-type"),
                       "application/x-www-form-urlencoded"));
    if (w->answer)
        fake_http(x, w->status, "application/json", bytes_str(w->answer));
    else
        fake_hold(s, x, body);
}

static void on_change(void *user)
{
    ((struct world *)user)->changes++;
}

static struct world *world_new(const char *says)
{
    struct world *w = unit_made(calloc(1, sizeof *w));
    w->loop = unit_made(io_loop_new());
    w->server.answer = answer;
    w->server.user = w;
    w->answer = says;
    w->status = 200;
    fake_start(&w->server, w->loop, 0);
    snprintf(w->url, sizeof w->url, "http://%s/token", w->server.address);
    w->options = (struct client_oauth2){.token_url = w->url, .client_id = "me", .client_secret = "a b"};
    return w;
}

static void begin(struct world *w, uint64_t timeout_ns)
{
    struct error e = {""};
    ck_assert_msg(oauth2_new(&w->oauth2, w->loop, &w->options, timeout_ns, on_change, w, &e) == 0, "%s",
                  e.text);
}

static void world_end(struct world *w)
{
    oauth2_free(w->oauth2);
    fake_stop(&w->server);
    io_loop_free(w->loop);
    free(w);
}

#define UNTIL(w, condition) unit_until(condition, io_loop_run_once((w)->loop, 50 * NSEC_PER_MSEC))

/* The next token, or NULL and why. */
static const char *token(struct world *w)
{
    const unsigned before = w->changes;
    const char *text = oauth2_authorization(w->oauth2);
    if (text)
        return text;
    UNTIL(w, w->changes > before);
    return oauth2_authorization(w->oauth2);
}

#define MINUTE ((uint64_t)60 * NSEC_PER_SEC)

UNIT(it_asks_as_the_rfc_says_and_once)
{
    struct world *w =
        world_new("{\"access_token\":\"abc.d-e\",\"token_type\":\"Bearer\",\"expires_in\":3600}");
    const struct client_header params[] = {{"audience", "https://x/?a=1&b"}};
    w->options.scope = "read write";
    w->options.params = params;
    w->options.n_params = 1;
    begin(w, MINUTE);
    ck_assert_uint_eq(w->server.requests, 0); /* not before a call needs one */
    const char *first = unit_made(token(w));
    ck_assert_str_eq(first, "Bearer abc.d-e");
    ck_assert_str_eq(w->asked, "grant_type=client_credentials&scope=read%20write"
                               "&audience=https%3A%2F%2Fx%2F%3Fa%3D1%26b");
    ck_assert_str_eq(w->who, "Basic bWU6YSUyMGI="); /* me:a%20b */
    for (int i = 0; i < 3; i++)
        ck_assert_str_eq(token(w), "Bearer abc.d-e");
    ck_assert_uint_eq(w->server.requests, 1);
    ck_assert_str_eq(oauth2_failure(w->oauth2), "");
    world_end(w);
}

UNIT(one_that_was_refused_is_asked_for_anew)
{
    struct world *w = world_new("{\"access_token\":\"one\"}"); /* without a time it lasts */
    begin(w, MINUTE);
    ck_assert_str_eq(token(w), "Bearer one");
    w->answer = "{\"access_token\":\"two\"}";
    ck_assert_str_eq(token(w), "Bearer one");
    oauth2_forget(w->oauth2);
    ck_assert_str_eq(token(w), "Bearer two");
    ck_assert_uint_eq(w->server.requests, 2);
    world_end(w);
}

UNIT(it_is_replaced_before_it_expires_but_not_before_half_its_time)
{
    struct world *w = world_new("{\"access_token\":\"short\",\"expires_in\":2}");
    w->options.expiry_buffer_ns = MINUTE; /* longer than it lasts */
    begin(w, MINUTE);
    ck_assert_str_eq(token(w), "Bearer short");
    const uint64_t had = clock_monotonic();
    ck_assert_str_eq(oauth2_authorization(w->oauth2), "Bearer short"); /* not useless at once */
    w->answer = "{\"access_token\":\"next\",\"expires_in\":3600}";
    const char *now = NULL;
    UNTIL(w, (now = oauth2_authorization(w->oauth2)) && strcmp(now, "Bearer next") == 0);
    ck_assert_uint_gt(clock_monotonic(), had + 900 * NSEC_PER_MSEC);
    world_end(w);
}

UNIT(what_is_no_token_is_said_and_asked_for_after_a_pause)
{
    static const struct {
        uint32_t status;
        const char *says, *why;
    } cases[] = {
        {401, "{\"error\":\"invalid_client\"}", "HTTP 401"},
        {200, "{}", "without one"},
        {200, "[1]", "without one"},
        {200, "nonsense", "without one"},
        {200, "{\"access_token\":7}", "without one"},
        {200, "{\"access_token\":\"\"}", "without one"},
        {200, "{\"access_token\":\"two words\"}", "without one"},
        {200, "{\"access_token\":\"a\\r\\nx-evil: 1\"}", "without one"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct world *w = world_new(cases[i].says);
        w->status = cases[i].status;
        begin(w, MINUTE);
        const uint64_t began = clock_monotonic();
        ck_assert_ptr_null(token(w));
        ck_assert_msg(strstr(oauth2_failure(w->oauth2), cases[i].why) != NULL, "%zu: %s", i,
                      oauth2_failure(w->oauth2));
        ck_assert_msg(strstr(oauth2_failure(w->oauth2), w->server.address) != NULL, "%s",
                      oauth2_failure(w->oauth2));
        if (i == 0) { /* whoever still wants one asks again, and it goes on then */
            w->status = 200;
            w->answer = "{\"access_token\":\"late\"}";
            UNTIL(w, oauth2_authorization(w->oauth2));
            ck_assert_uint_ge(clock_monotonic() - began, 900 * NSEC_PER_MSEC);
            ck_assert_uint_eq(w->server.requests, 2);
            ck_assert_str_eq(oauth2_failure(w->oauth2), "");
        }
        world_end(w);
    }
}

UNIT(a_server_without_an_answer_is_given_up)
{
    struct world *w = world_new(NULL);
    begin(w, 100 * NSEC_PER_MSEC);
    ck_assert_ptr_null(token(w));
    ck_assert_msg(strstr(oauth2_failure(w->oauth2), "no answer in time") != NULL, "%s",
                  oauth2_failure(w->oauth2));
    world_end(w);
    w = world_new(NULL);
    begin(w, MINUTE);
    ck_assert_ptr_null(oauth2_authorization(w->oauth2));
    UNTIL(w, w->server.n_held == 1);
    world_end(w); /* the end does not wait for it, nor is it told */
}

UNIT(nobody_there_is_said)
{
    autofree struct world *w = world_new("{}");
    fake_stop(&w->server);
    begin(w, MINUTE);
    ck_assert_ptr_null(token(w));
    ck_assert_msg(strstr(oauth2_failure(w->oauth2), "no token of") != NULL, "%s", oauth2_failure(w->oauth2));
    oauth2_free(w->oauth2);
    io_loop_free(w->loop);
}

UNIT(a_wrong_url_is_refused)
{
    struct world *w = world_new("{}");
    struct error e = {""};
    w->options.token_url = "ftp://x";
    ck_assert_int_eq(oauth2_new(&w->oauth2, w->loop, &w->options, MINUTE, on_change, w, &e), -EINVAL);
    ck_assert_str_ne(e.text, "");
    w->oauth2 = NULL;
    world_end(w);
}
