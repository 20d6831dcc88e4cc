/* SPDX-License-Identifier: Apache-2.0 */
/* Requests on one connection while memory fails: an exchange may be lost, the next one is not. */
#include "proto/base/macros.h"
#include "tests/lib/sweep.h"
#include "tests/unit/proto/http/recorder.h"

#define CALLS 4

/* Answers with the body it was sent: whole, or (odd paths) piece by piece. */
struct echo {
    struct buffer body;
    uint32_t n_open;
    bool in_pieces, refused;
};

static void echo_head(void *context, struct http_exchange *x)
{
    struct echo *e = context;
    static const struct http_header type = {BYTES_LIT("content-type"), BYTES_LIT("a/b")};
    static const struct http_reply head = {.status = 200, .headers = &type, .n_headers = 1};
    e->n_open++;
    e->body.n = 0;
    e->refused = false;
    e->in_pieces = bytes_is(x->query, "pieces");
    if (e->in_pieces)
        e->refused = http_reply_begin(x, &head) < 0;
}

static void echo_body(void *context, struct http_exchange *x, struct bytes piece)
{
    struct echo *e = context;
    if (e->refused)
        return;
    if (e->in_pieces)
        e->refused = http_reply_write(x, piece) != 0;
    else if (buffer_add_bytes(&e->body, piece) < 0) {
        struct http_reply busy = {.status = 503};
        e->refused = true;
        http_reply(x, &busy);
    }
}

static void echo_end(void *context, struct http_exchange *x)
{
    static const struct http_header trailer = {BYTES_LIT("grpc-status"), BYTES_LIT("0")};
    struct echo *e = context;
    struct http_reply whole = {
        .status = 200, .body = buffer_bytes(&e->body), .trailers = &trailer, .n_trailers = 1};
    if (e->refused)
        return;
    if (e->in_pieces)
        http_reply_end(x, &trailer, 1);
    else
        http_reply(x, &whole);
}

static void echo_close(void *context, struct http_exchange *x)
{
    (void)x;
    ((struct echo *)context)->n_open--;
}

static const struct http_handler echo_handler = {echo_head, echo_body, echo_end, echo_close};

struct outcome {
    int n;
    bool good;
    struct bytes want;
};

static void on_done(void *user, enum http_call_result result, const struct http_response *r)
{
    struct outcome *o = user;
    o->n++;
    o->good = result == HTTP_CALL_DONE && r->status == 200;
    if (o->good) /* what comes is never another one's, and never half of it */
        ck_assert(bytes_eq(r->body, o->want));
}

struct pair {
    struct echo echo;
    struct http_session *server;
    struct http_client *client;
};

static bool connect_pair(struct pair *p, enum http_version version)
{
    static const struct http_server_limits limits = HTTP_SERVER_LIMITS_DEFAULT;
    p->server = http_session_new(&echo_handler, &p->echo, &recorder_peer, &limits, SEC);
    p->client = http_client_new(version, 1 << 20);
    return p->server && p->client;
}

static void drop_pair(struct pair *p)
{
    p->client = http_client_free(p->client);
    p->server = http_session_free(p->server);
    ck_assert_uint_eq(p->echo.n_open, 0);
}

/* Moves bytes until none are left to move; false: one end has given up. */
static bool move(struct pair *p)
{
    struct buffer b = BUFFER_INIT(0);
    bool good = true;
    while (good && (http_client_has_output(p->client) || http_session_has_output(p->server))) {
        b.n = 0;
        good = http_client_drain(p->client, &b, 1000) == 0;
        good = http_session_feed(p->server, buffer_bytes(&b), SEC) == 0 && good;
        b.n = 0;
        good = http_session_drain(p->server, &b, 1000) == 0 && good;
        good = http_client_feed(p->client, buffer_bytes(&b)) == 0 && good;
    }
    buffer_release(&b);
    return good && !http_session_is_done(p->server) && !http_client_is_done(p->client);
}

static bool call(struct pair *p, struct outcome *o, bool in_pieces)
{
    static const struct http_header type = {BYTES_LIT("content-type"), BYTES_LIT("x/y")};
    struct http_request q = {.method = "POST",
                             .scheme = "http",
                             .authority = "h",
                             .path = in_pieces ? "/p?pieces" : "/p",
                             .headers = &type,
                             .n_headers = 1,
                             .body = o->want};
    return http_client_call(p->client, &q, on_done, o) != NULL;
}

/* One call after the other. One that fails has had an allocation fail since it began. */
static void one_by_one(enum http_version version)
{
    static uint8_t body[CALLS][3000];
    struct pair p = {0};
    for (int i = 0; i < CALLS; i++) {
        struct outcome o = {.want = bytes_of(body[i], sizeof body[i] - (size_t)i)};
        uint32_t before = sweep_failures();
        bool usable = p.client || connect_pair(&p, version);
        memset(body[i], 'a' + i, sizeof body[i]);
        usable = usable && call(&p, &o, i % 2);
        usable = usable && move(&p);
        ck_assert_msg((usable && o.good) || sweep_failures() > before, "call %d without a reason", i);
        ck_assert_int_le(o.n, 1);
        if (!usable || o.n == 0 || !http_client_is_ready(p.client))
            drop_pair(&p);
    }
    drop_pair(&p);
    buffer_release(&p.echo.body);
}

OOM_SWEEP(http1_calls_one_by_one)
{
    one_by_one(HTTP_VERSION_1);
}

OOM_SWEEP(http2_calls_one_by_one)
{
    one_by_one(HTTP_VERSION_2);
}

/* Requests of an HTTP/1 peer that does not wait for answers. */
OOM_SWEEP(http1_pipelined)
{
    struct recorder r = {.reply = {.status = 200, .body = BYTES_LIT("hello")}};
    struct buffer out = BUFFER_INIT(0);
    static const struct http_server_limits limits = HTTP_SERVER_LIMITS_DEFAULT;
    struct http_session *s = http_session_new(&recorder_handler, &r, &recorder_peer, &limits, SEC);
    if (!s)
        return;
    int fed = 0;
    for (int i = 0; i < 3 && fed == 0; i++)
        fed = http_session_feed(s,
                                BYTES_LIT("POST /a HTTP/1.1\r\nhost: h\r\nx: y\r\ncontent-length: 2\r\n\r\nab"
                                          "POST /b HTTP/1.1\r\nhost: h\r\ntransfer-encoding: chunked\r\n\r\n"
                                          "2\r\nab\r\n0\r\n\r\n"),
                                SEC);
    for (size_t before = SIZE_MAX; out.n != before;) {
        before = out.n;
        if (http_session_drain(s, &out, 50) < 0)
            break;
    }
    ck_assert_uint_le(r.n_end, 6);
    ck_assert(sweep_failures() > 0 || r.n_end == 6);
    http_session_free(s);
    ck_assert_uint_eq(r.n_head, r.n_close);
    sweep_over();
    /* What came out is whole answers, in order, except for the last. */
    size_t n_answers = 0;
    if (buffer_add(&out, "", 1) == 0) {
        for (const char *at = (const char *)out.p; (at = strstr(at, "HTTP/1.1 ")); at++)
            n_answers++;
        ck_assert(out.n == 1 || strncmp((const char *)out.p, "HTTP/1.1 ", 9) == 0);
    }
    ck_assert_uint_le(n_answers, 6);
    ck_assert(sweep_failures() > 0 || n_answers == 6);
    buffer_release(&out);
}

/* Several calls at once on one HTTP/2 connection: each ends once, and what ends well is right. */
OOM_SWEEP(http2_side_by_side)
{
    static uint8_t body[CALLS][2000];
    struct outcome o[CALLS] = {0};
    struct recorder r = {.reply = {.status = 200, .body = BYTES_LIT("hello")}};
    static const struct http_server_limits limits = HTTP_SERVER_LIMITS_DEFAULT;
    struct pair p = {.server = http_session_new(&recorder_handler, &r, &recorder_peer, &limits, SEC),
                     .client = http_client_new(HTTP_VERSION_2, 1 << 20)};
    bool started[CALLS] = {false}, moved = false;
    for (int i = 0; i < CALLS && p.client; i++) {
        memset(body[i], 'a' + i, sizeof body[i]);
        o[i].want = bytes_of(body[i], sizeof body[i]);
        started[i] = call(&p, &o[i], false);
        o[i].want = BYTES_LIT("hello");
    }
    if (p.client && p.server)
        moved = move(&p);
    http_client_free(p.client);
    http_session_free(p.server);
    ck_assert_uint_eq(r.n_head, r.n_close);
    for (int i = 0; i < CALLS; i++) {
        ck_assert_int_eq(o[i].n, started[i]);
        ck_assert(sweep_failures() > 0 || (moved && o[i].good));
    }
}
