/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Replies in pieces, and exchanges given to another handler: in both versions.
 */
#include <errno.h>
#include <nghttp2/nghttp2.h>

#include "tests/unit/proto/http/frames.h"
#include "tests/unit/proto/http/recorder.h"

enum {
    DATA = 0,
    HEADERS = 1,
    RST = 3,
    SETTINGS = 4,
    PING = 6,
    WINDOW = 8,
    ACK = 1,
    END_STREAM = 1,
    END_HEADERS = 4
};

static const struct http_header trailer = {BYTES_LIT("grpc-status"), BYTES_LIT("0")};
static const struct http_header type = {BYTES_LIT("content-type"), BYTES_LIT("text/event-stream")};
static const struct http_reply head = {.status = 200, .headers = &type, .n_headers = 1};

/* ---- a handler that echoes: each piece of the body is sent back as it comes ---- */

struct echo {
    uint32_t n_close;
    size_t n_refused;
};

static void echo_head(void *context, struct http_exchange *x)
{
    ck_assert_int_eq(http_reply_begin(x, &head), 0);
}

static void echo_body(void *context, struct http_exchange *x, struct bytes piece)
{
    struct echo *e = context;
    int r = http_reply_write(x, piece);
    ck_assert_int_ge(r, 0);
    e->n_refused += r == HTTP_REPLY_FULL ? piece.n : 0;
}

static void echo_end(void *context, struct http_exchange *x)
{
    ck_assert_int_eq(http_reply_end(x, &trailer, 1), 0);
}

static void echo_close(void *context, struct http_exchange *x)
{
    ((struct echo *)context)->n_close++;
}

static const struct http_handler echo_handler = {echo_head, echo_body, echo_end, echo_close};

struct outcome {
    int n;
    enum http_call_result result;
    uint32_t status, n_trailers;
    size_t n_body;
    uint64_t sum;
};

static void on_done(void *user, enum http_call_result result, const struct http_response *response)
{
    struct outcome *o = user;
    *o = (struct outcome){o->n + 1,         result,
                          response->status, response->n_trailers,
                          response->body.n, body_sum(response->body.p, response->body.n)};
}

static struct http_session *session(const struct http_handler *handler, void *context)
{
    static const struct http_server_limits limits = HTTP_SERVER_LIMITS_DEFAULT;
    struct http_session *s = unit_made(http_session_new(handler, context, &recorder_peer, &limits, SEC));
    return s;
}

static void run(struct http_session *s, struct http_client *c)
{
    cleanup(buffer_release) struct buffer b = BUFFER_INIT(0);
    for (bool moved = true; moved;) {
        b.n = 0;
        ck_assert_int_eq(http_client_drain(c, &b, 10000), 0);
        moved = b.n > 0;
        ck_assert_int_eq(feed_steps(s, buffer_bytes(&b), 3000, SEC), 0);
        b.n = 0;
        ck_assert_int_eq(http_session_drain(s, &b, 1 << 17), 0);
        moved |= b.n > 0;
        ck_assert_int_eq(http_client_feed(c, buffer_bytes(&b)), 0);
    }
}

static void echo_through(enum http_version version, const struct http_handler *handler, void *context)
{
    size_t n = 300000;
    autofree uint8_t *body = malloc(n);
    for (size_t i = 0; i < n; i++)
        body[i] = (uint8_t)(i * 7 + i / 311);
    struct http_session *s = session(handler, context);
    struct http_client *c = unit_made(http_client_new(version, 1 << 20));
    struct outcome o = {0};
    struct http_request q = {
        .method = "POST", .scheme = "http", .authority = "h", .path = "/", .body = {body, n}};
    for (int round = 1; round <= 2; round++) { /* the connection serves again */
        ck_assert_ptr_nonnull(http_client_call(c, &q, on_done, &o));
        run(s, c);
        ck_assert_int_eq(o.n, round);
        ck_assert_int_eq(o.result, HTTP_CALL_DONE);
        ck_assert_uint_eq(o.status, 200);
        ck_assert_uint_eq(o.n_body, n);
        ck_assert_uint_eq(o.sum, body_sum(body, n));
        ck_assert_uint_eq(o.n_trailers, version == HTTP_VERSION_2);
    }
    http_client_free(c);
    http_session_free(s);
}

UNIT(a_body_is_echoed_while_it_comes)
{
    for (int version = 1; version <= 2; version++) {
        struct echo e = {0};
        echo_through(version, &echo_handler, &e);
        ck_assert_uint_eq(e.n_close, 2);
        ck_assert_uint_eq(e.n_refused, 0);
    }
}

/* ---- handing over ---- */

struct giver {
    struct echo echo;
    uint32_t n_others;
};

static void give(void *context, struct http_exchange *x)
{
    struct giver *g = context;
    x->handler = &echo_handler;
    x->context = &g->echo;
    x->handler->on_head(x->context, x);
}

static void other_body(void *context, struct http_exchange *x, struct bytes piece)
{
    ((struct giver *)context)->n_others++;
}

static void other(void *context, struct http_exchange *x)
{
    ((struct giver *)context)->n_others++;
}

UNIT(an_exchange_given_away_is_the_other_handlers_to_its_end)
{
    static const struct http_handler giver = {give, other_body, other, other};
    for (int version = 1; version <= 2; version++) {
        struct giver g = {0};
        echo_through(version, &giver, &g);
        ck_assert_uint_eq(g.n_others, 0);
        ck_assert_uint_eq(g.echo.n_close, 2);
    }
}

/* ---- piece by piece ---- */

struct wire {
    struct recorder r;
    struct http_session *s;
    struct buffer in, out;
};

static void open_wire(struct wire *w)
{
    w->r.answer = ANSWER_LATER;
    w->s = recorder_session(&w->r, NULL);
}

static void hear(struct wire *w)
{
    ck_assert_int_eq(http_session_feed(w->s, buffer_bytes(&w->in), SEC), 0);
    w->in.n = 0;
}

/* What goes out now, as text. */
static const char *said(struct wire *w)
{
    w->out.n = 0;
    drain_all(w->s, &w->out);
    ck_assert_int_eq(buffer_add(&w->out, "", 1), 0);
    w->out.n--;
    return (const char *)w->out.p;
}

static void close_wire(struct wire *w)
{
    http_session_free(w->s);
    ck_assert_uint_eq(w->r.n_head, w->r.n_close);
    buffer_release(&w->in);
    buffer_release(&w->out);
}

static void ask1(struct wire *w, const char *request)
{
    open_wire(w);
    buffer_add_str(&w->in, request);
    hear(w);
    ck_assert_ptr_nonnull(w->r.last);
}

UNIT(http1_sends_each_piece_as_a_chunk_at_once)
{
    cleanup(close_wire) struct wire w = {0};
    ask1(&w, "GET / HTTP/1.1\r\nHost: h\r\n\r\n");
    ck_assert_int_eq(http_reply_begin(unit_made(w.r.last), &head), 0);
    ck_assert_uint_eq(w.r.n_late, 1);
    const char *text = said(&w);
    ck_assert_ptr_nonnull(strstr(text, "HTTP/1.1 200 OK\r\n"));
    ck_assert_ptr_nonnull(strstr(text, "transfer-encoding: chunked\r\n"));
    ck_assert_ptr_null(strstr(text, "content-length"));
    ck_assert_int_eq(http_reply_write(w.r.last, BYTES_LIT("hello, all of you")), 0);
    ck_assert_uint_eq(w.r.n_late, 2);
    ck_assert_str_eq(said(&w), "11\r\nhello, all of you\r\n");
    ck_assert_int_eq(http_reply_write(w.r.last, BYTES_LIT("")), 0); /* would be the last chunk */
    ck_assert_str_eq(said(&w), "");
    ck_assert_uint_eq(w.r.n_close, 0);
    ck_assert_int_eq(http_reply_end(w.r.last, NULL, 0), 0);
    ck_assert_str_eq(said(&w), "0\r\n\r\n");
    ck_assert_uint_eq(w.r.n_close, 1);
    ck_assert(!http_session_is_done(w.s));
}

UNIT(http1_0_gets_the_bytes_and_the_end_of_the_connection)
{
    cleanup(close_wire) struct wire w = {0};
    ask1(&w, "GET / HTTP/1.0\r\nHost: h\r\nConnection: keep-alive\r\n\r\n");
    ck_assert_int_eq(http_reply_begin(unit_made(w.r.last), &head), 0);
    ck_assert_int_eq(http_reply_write(w.r.last, BYTES_LIT("a")), 0);
    ck_assert_int_eq(http_reply_write(w.r.last, BYTES_LIT("b")), 0);
    ck_assert_int_eq(http_reply_end(w.r.last, NULL, 0), 0);
    const char *text = said(&w);
    ck_assert_ptr_null(strstr(text, "transfer-encoding"));
    ck_assert_ptr_nonnull(strstr(text, "connection: close\r\n"));
    ck_assert_ptr_nonnull(strstr(text, "\r\n\r\nab"));
    ck_assert(http_session_is_done(w.s));
}

UNIT(http1_has_no_pieces_where_there_is_no_body)
{
    static const char *const requests[] = {"HEAD / HTTP/1.1\r\nHost: h\r\n\r\n",
                                           "GET / HTTP/1.1\r\nHost: h\r\n\r\n"};
    for (int i = 0; i < 2; i++) {
        cleanup(close_wire) struct wire w = {0};
        ask1(&w, requests[i]);
        http_reply_begin(w.r.last, &(struct http_reply){.status = i == 0 ? 200 : 204});
        ck_assert_int_eq(http_reply_write(w.r.last, BYTES_LIT("piece")), 0);
        ck_assert_int_eq(http_reply_end(w.r.last, NULL, 0), 0);
        const char *text = said(&w);
        ck_assert_ptr_null(strstr(text, "piece"));
        ck_assert_str_eq(strstr(text, "\r\n\r\n"), "\r\n\r\n");
        ck_assert(!http_session_is_done(w.s));
    }
}

UNIT(http1_never_sends_a_second_head)
{
    struct wire w = {0};
    ask1(&w, "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n");
    ck_assert_int_eq(http_reply_begin(unit_made(w.r.last), &head), 0);
    ck_assert_int_eq(http_reply_write(w.r.last, BYTES_LIT("half")), 0);
    said(&w);
    buffer_add_str(&w.in, "not a chunk\r\n");
    hear(&w);
    ck_assert_str_eq(said(&w), ""); /* no 400, and no last chunk: the peer sees that it is cut short */
    ck_assert(http_session_is_done(w.s));
    ck_assert_uint_eq(w.r.n_close, 1);
    close_wire(&w);
    w = (struct wire){0};
    ask1(&w, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\nx");
    ck_assert_int_eq(http_reply_begin(unit_made(w.r.last), &head), 0);
    said(&w);
    http_session_tick(w.s, http_session_deadline(w.s));
    ck_assert_str_eq(said(&w), "");
    ck_assert(http_session_is_done(w.s));
    close_wire(&w);
}

UNIT(http1_that_ends_early_reads_the_rest_away)
{
    cleanup(close_wire) struct wire w = {0};
    ask1(&w, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nab");
    ck_assert_int_eq(http_reply_begin(unit_made(w.r.last), &head), 0);
    ck_assert_int_eq(http_reply_end(w.r.last, NULL, 0), 0);
    buffer_add_str(&w.in, "cdeGET /next HTTP/1.1\r\nHost: h\r\n\r\n");
    hear(&w);
    ck_assert_uint_eq(w.r.n_body, 2);
    ck_assert_uint_eq(w.r.n_end, 1); /* of the second alone */
    ck_assert_ptr_nonnull(strstr(w.r.log, "/next"));
}

static void ask2(struct wire *w, uint8_t flags)
{
    open_wire(w);
    preface(&w->in);
    frame(&w->in, SETTINGS, 0, 0, bytes_of("\0\4\0\0\0\0", 6)); /* no window for us */
    frame(&w->in, HEADERS, END_HEADERS | flags, 1, POST_HEAD);
    hear(w);
    said(w);
}

UNIT(a_peer_that_does_not_keep_up_is_noticed)
{
    static uint8_t piece[1000];
    for (int version = 1; version <= 2; version++) {
        cleanup(close_wire) struct wire w = {0};
        size_t n = 0;
        if (version == 1)
            ask1(&w, "GET / HTTP/1.1\r\nHost: h\r\n\r\n");
        else
            ask2(&w, END_STREAM);
        ck_assert_int_eq(http_reply_begin(unit_made(w.r.last), &head), 0);
        while (n < 1000 && http_reply_write(w.r.last, bytes_of(piece, sizeof piece)) == 0)
            n++;
        ck_assert_uint_ge(n, 60);
        ck_assert_uint_le(n * sizeof piece, HTTP_REPLY_WAITING_MAX);
        if (version == 2) {
            frame(&w.in, WINDOW, 0, 1, BYTES_LIT("\0\0\x07\xd0")); /* 2000 bytes */
            hear(&w);
            said(&w);
            ck_assert_int_eq(http_reply_write(w.r.last, bytes_of(piece, sizeof piece)), 0);
            ck_assert_int_eq(http_reply_write(w.r.last, bytes_of(piece, sizeof piece)), 0);
            ck_assert_int_eq(http_reply_write(w.r.last, bytes_of(piece, sizeof piece)), HTTP_REPLY_FULL);
        } else {
            w.out.n = 0;
            http_session_drain(w.s, &w.out, 3000);
            ck_assert_int_eq(http_reply_write(w.r.last, bytes_of(piece, sizeof piece)), 0);
            said(&w);
        }
        static uint8_t huge[HTTP_REPLY_WAITING_MAX + 1];
        ck_assert_int_eq(http_reply_write(w.r.last, bytes_of(huge, sizeof huge)), HTTP_REPLY_FULL);
    }
}

UNIT(http2_sends_pieces_at_once_and_the_trailers_last)
{
    cleanup(close_wire) struct wire w = {0};
    uint32_t ignored;
    ask2(&w, 0);
    ck_assert_int_eq(http_reply_begin(unit_made(w.r.last), &head), 0);
    said(&w);
    ck_assert(find_frame(&w.out, HEADERS, &ignored));
    ck_assert(!find_frame(&w.out, DATA, &ignored));
    ck_assert(!http_session_has_output(w.s));
    frame(&w.in, WINDOW, 0, 1, BYTES_LIT("\0\1\0\0"));
    hear(&w);
    ck_assert_int_eq(http_reply_write(w.r.last, BYTES_LIT("piece")), 0);
    ck_assert(http_session_has_output(w.s));
    said(&w);
    ck_assert_ptr_nonnull(memmem(w.out.p, w.out.n, "piece", 5));
    ck_assert(!find_frame(&w.out, HEADERS, &ignored));
    frame(&w.in, DATA, END_STREAM, 1, BYTES_LIT("body"));
    hear(&w);
    ck_assert_uint_eq(w.r.n_body, 4); /* the request goes on meanwhile */
    ck_assert_uint_eq(w.r.n_end, 1);
    ck_assert_int_eq(http_reply_end(w.r.last, &trailer, 1), 0);
    said(&w);
    ck_assert(find_frame(&w.out, HEADERS, &ignored));
    ck_assert_uint_eq(w.r.n_close, 1);
}

UNIT(http2_that_ends_early_stops_the_upload)
{
    cleanup(close_wire) struct wire w = {0};
    uint32_t error = 99;
    ask2(&w, 0);
    frame(&w.in, WINDOW, 0, 1, BYTES_LIT("\0\0\0\1"));
    hear(&w);
    ck_assert_int_eq(http_reply_begin(unit_made(w.r.last), &head), 0);
    ck_assert_int_eq(http_reply_end(w.r.last, &trailer, 1), 0);
    said(&w);
    ck_assert(find_frame(&w.out, RST, &error));
    ck_assert_uint_eq(error, NGHTTP2_NO_ERROR);
    ck_assert_uint_eq(w.r.n_close, 1);
}

UNIT(a_peer_that_goes_ends_the_reply)
{
    cleanup(close_wire) struct wire w = {0};
    ask2(&w, END_STREAM);
    ck_assert_int_eq(http_reply_begin(unit_made(w.r.last), &head), 0);
    ck_assert_int_eq(http_reply_write(w.r.last, BYTES_LIT("never read")), 0);
    frame(&w.in, RST, 0, 1, BYTES_LIT("\0\0\0\x8"));
    hear(&w);
    said(&w);
    ck_assert_uint_eq(w.r.n_close, 1);
    ck_assert_ptr_null(w.r.last);
}

/* A Watch with nothing to tell; the peer answers ten PINGs, then all or none. */
static bool outlives_silence(bool stays)
{
    cleanup(close_wire) struct wire w = {0};
    uint32_t ignored;
    unsigned asked = 0;
    ask2(&w, END_STREAM);
    ck_assert_int_eq(http_reply_begin(unit_made(w.r.last), &head), 0);
    for (unsigned i = 0; i < 400 && !http_session_is_done(w.s); i++) {
        uint64_t now = http_session_deadline(w.s);
        http_session_tick(w.s, now);
        said(&w);
        if (!find_frame(&w.out, PING, &ignored) || (asked++ >= 10 && !stays))
            continue;
        frame(&w.in, PING, ACK, 0, BYTES_LIT("anything"));
        ck_assert_int_eq(http_session_feed(w.s, buffer_bytes(&w.in), now), 0);
        w.in.n = 0;
    }
    ck_assert_uint_ge(asked, 10);
    return w.r.n_close == 0 && !http_session_is_done(w.s);
}

UNIT(an_open_reply_outlives_silence_but_not_its_peer)
{
    ck_assert(outlives_silence(true));
    ck_assert(!outlives_silence(false));
}

UNIT(an_end_that_nobody_takes_is_given_up)
{
    cleanup(close_wire) struct wire w = {0};
    ask2(&w, END_STREAM);
    ck_assert_int_eq(http_reply_begin(unit_made(w.r.last), &head), 0);
    http_reply_end(w.r.last, &trailer, 1); /* no byte is left, but the window is shut */
    said(&w);
    ck_assert_uint_eq(w.r.n_close, 0);
    for (uint64_t t = 1; t <= 3; t++)
        http_session_tick(w.s, http_session_deadline(w.s));
    said(&w);
    ck_assert_uint_eq(w.r.n_close, 1);
}

/* ---- a handler that writes on as there is room ---- */

struct writer {
    uint32_t left, n_close; /* pieces of a thousand bytes still to be written */
};

static void writer_head(void *context, struct http_exchange *x)
{
    ck_assert_int_eq(http_reply_begin(x, &head), 0);
}

static void writer_body(void *context, struct http_exchange *x, struct bytes piece) {}

static void writer_end(void *context, struct http_exchange *x) {}

static void writer_close(void *context, struct http_exchange *x)
{
    ((struct writer *)context)->n_close++;
}

static void writer_room(void *context, struct http_exchange *x)
{
    static uint8_t piece[1000];
    struct writer *w = context;
    while (w->left > 0 && http_reply_write(x, bytes_of(piece, sizeof piece)) == 0)
        w->left--;
    if (w->left == 0)
        http_reply_end(x, NULL, 0);
}

static const struct http_handler writer_handler = {writer_head, writer_body, writer_end, writer_close,
                                                   writer_room};

UNIT(whoever_writes_much_is_told_of_room)
{
    static const struct http_server_limits limits = HTTP_SERVER_LIMITS_DEFAULT;
    for (int version = 1; version <= 2; version++) {
        struct writer writer = {.left = 500};
        cleanup(buffer_release) struct buffer in = BUFFER_INIT(0), out = BUFFER_INIT(0);
        struct http_session *s =
            unit_made(http_session_new(&writer_handler, &writer, &recorder_peer, &limits, SEC));
        if (version == 1) {
            buffer_add_str(&in, "GET / HTTP/1.1\r\nHost: h\r\n\r\n");
        } else {
            preface(&in);
            frame(&in, SETTINGS, 0, 0, bytes_of("\0\4\x7f\xff\xff\xff", 6));
            frame(&in, WINDOW, 0, 0, BYTES_LIT("\x0f\xff\xff\xff"));
            frame(&in, HEADERS, END_HEADERS | END_STREAM, 1, POST_HEAD);
        }
        ck_assert_int_eq(http_session_feed(s, buffer_bytes(&in), SEC), 0);
        for (int turn = 0; turn < 10000 && writer.left > 0; turn++) {
            size_t before = out.n;
            ck_assert_int_eq(http_session_drain(s, &out, 5000), 0);
            ck_assert_uint_le(out.n - before, 5000 + (16u << 10) + 9); /* one frame more */
        }
        drain_all(s, &out);
        ck_assert_uint_eq(writer.left, 0);
        ck_assert_uint_eq(writer.n_close, 1);
        ck_assert_uint_ge(out.n, 500000);
        http_session_free(s);
    }
}

UNIT(an_answer_that_is_given_up_is_seen_to_be_cut_short)
{
    for (int version = 1; version <= 2; version++) {
        cleanup(close_wire) struct wire w = {0};
        if (version == 1)
            ask1(&w, "GET / HTTP/1.1\r\nHost: h\r\n\r\n");
        else
            ask2(&w, END_STREAM);
        ck_assert_int_eq(http_reply_begin(unit_made(w.r.last), &head), 0);
        ck_assert_int_eq(http_reply_write(w.r.last, BYTES_LIT("half")), 0);
        said(&w);
        http_reply_abort(w.r.last);
        const char *text = said(&w);
        if (version == 1) {
            ck_assert_str_eq(text, "");
            ck_assert(http_session_is_done(w.s));
        } else {
            ck_assert_uint_eq(w.out.p[3], RST);
            ck_assert(!http_session_is_done(w.s));
        }
        ck_assert_uint_eq(w.r.n_close, 1);
    }
}
