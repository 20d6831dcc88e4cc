/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an attacker would send to a bare session, by name; and beside each what an honest peer does that looks
 * like it. Frames and requests are written by hand.
 */
#include <errno.h>
#include <nghttp2/nghttp2.h>

#include "proto/base/macros.h"
#include "tests/unit/proto/http/frames.h"
#include "tests/unit/proto/http/recorder.h"

enum {
    DATA = 0,
    HEADERS = 1,
    PRIORITY = 2,
    RST = 3,
    SETTINGS = 4,
    PING = 6,
    GOAWAY = 7,
    WINDOW = 8,
    CONT = 9
};
enum { END_STREAM = 1, ACK = 1, END_HEADERS = 4 };

#define NOTHING bytes_of(NULL, 0)

struct attack {
    struct recorder r;
    struct http_session *s;
    struct buffer in, out;
    uint64_t now;
};

static void begin(struct attack *a)
{
    a->s = recorder_session(&a->r, NULL);
    a->now = SEC;
    preface(&a->in);
}

/* Feeds what was written, and drains unless the peer does not read. The session's error. */
static int deliver(struct attack *a, bool reads)
{
    int r = http_session_feed(a->s, buffer_bytes(&a->in), a->now);
    a->in.n = 0;
    if (reads)
        drain_all(a->s, &a->out);
    return r;
}

/* Lets time pass as the joiner would: the session is called at each of its deadlines. */
static void pass(struct attack *a, uint64_t until)
{
    for (uint64_t at; (at = http_session_deadline(a->s)) <= until;) {
        a->now = max_of(at, a->now);
        http_session_tick(a->s, a->now);
        drain_all(a->s, &a->out);
        if (http_session_deadline(a->s) <= a->now && http_session_is_done(a->s))
            break;
    }
    a->now = until;
}

static void end(struct attack *a)
{
    http_session_free(a->s);
    ck_assert_uint_eq(a->r.n_head, a->r.n_close);
    buffer_release(&a->in);
    buffer_release(&a->out);
}

static void is_thrown_out(struct attack *a)
{
    uint32_t error = 0;
    drain_all(a->s, &a->out);
    ck_assert(http_session_is_done(a->s));
    ck_assert(find_frame(&a->out, GOAWAY, &error));
    ck_assert_uint_eq(error, NGHTTP2_ENHANCE_YOUR_CALM);
}

/* ---- HTTP/2: floods ---- */

UNIT(rapid_reset_in_small_pieces)
{
    struct attack a = {.r = {.answer = ANSWER_LATER}};
    begin(&a);
    for (uint32_t i = 0; i < 300 && !http_session_is_done(a.s); i++) {
        frame(&a.in, HEADERS, END_HEADERS | END_STREAM, 2 * i + 1, POST_HEAD);
        frame(&a.in, RST, 0, 2 * i + 1, BYTES_LIT("\0\0\0\x8"));
        deliver(&a, true);
        a.now += SEC / 1000;
    }
    is_thrown_out(&a);
    ck_assert_uint_le(a.r.n_head, 200);
    end(&a);
}

/* Who was thrown out and comes again has a tenth. */
UNIT(rapid_reset_again)
{
    struct attack a = {.r = {.answer = ANSWER_LATER}};
    begin(&a);
    ck_assert(!http_session_was_abused(a.s));
    http_session_be_wary(a.s);
    for (uint32_t i = 0; i < 300 && !http_session_is_done(a.s); i++) {
        ck_assert(!http_session_was_abused(a.s));
        frame(&a.in, HEADERS, END_HEADERS | END_STREAM, 2 * i + 1, POST_HEAD);
        frame(&a.in, RST, 0, 2 * i + 1, BYTES_LIT("\0\0\0\x8"));
        deliver(&a, true);
    }
    is_thrown_out(&a);
    ck_assert(http_session_was_abused(a.s));
    ck_assert_uint_eq(a.r.n_head, 20);
    end(&a);
}

/* CVE-2025-8671: the peer makes us reset, by mistakes on streams of its own. */
UNIT(made_you_reset)
{
    struct attack a = {.r = {.answer = ANSWER_LATER}};
    begin(&a);
    for (uint32_t i = 0; i < 300 && !http_session_is_done(a.s); i++) {
        frame(&a.in, HEADERS, END_HEADERS, 2 * i + 1, POST_HEAD);
        frame(&a.in, WINDOW, 0, 2 * i + 1, BYTES_LIT("\0\0\0\0")); /* RFC 9113 §6.9: an error of the stream */
        deliver(&a, true);
    }
    ck_assert(http_session_is_done(a.s));
    ck_assert_uint_le(a.r.n_head, 200);
    end(&a);
}

/* What came in one piece is counted while it is read, not when the resets go. */
UNIT(mistakes_by_the_hundred_in_one_piece)
{
    for (int wary = 0; wary < 2; wary++) {
        struct attack a = {.r = {.answer = ANSWER_LATER}};
        begin(&a);
        if (wary)
            http_session_be_wary(a.s);
        for (uint32_t i = 0; i < (wary ? 20 : 200); i++) { /* no :path */
            ck_assert(!http_session_was_abused(a.s));
            frame(&a.in, HEADERS, END_HEADERS | END_STREAM, 2 * i + 1, BYTES_LIT("\x83\x86\x01\x01h"));
            deliver(&a, false);
        }
        ck_assert(http_session_was_abused(a.s));
        is_thrown_out(&a);
        end(&a);
    }
}

/* CVE-2019-9512 (PING), 9515 (SETTINGS), 9513 (PRIORITY), 9518 (empty DATA), 9511's WINDOW_UPDATEs: frames
 * that we need not even answer. */
UNIT(floods_of_frames_that_say_nothing)
{
    const struct {
        uint8_t type, flags;
        uint32_t id;
        struct bytes payload;
    } rows[] = {
        {PING, ACK, 0, BYTES_LIT("12345678")},       {SETTINGS, 0, 0, NOTHING},
        {PRIORITY, 0, 1, BYTES_LIT("\0\0\0\0\x10")}, {DATA, 0, 1, NOTHING},
        {WINDOW, 0, 0, BYTES_LIT("\0\0\0\1")},       {WINDOW, 0, 1, BYTES_LIT("\0\0\0\1")},
        {PING, 0, 0, BYTES_LIT("12345678")},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct attack a = {.r = {.answer = ANSWER_LATER}};
        uint32_t n = 0;
        begin(&a);
        frame(&a.in, HEADERS, END_HEADERS, 1, POST_HEAD);
        deliver(&a, true);
        for (; n < 3000 && !http_session_is_done(a.s); n++) { /* each answered before the next is sent */
            frame(&a.in, rows[i].type, rows[i].flags, rows[i].id, rows[i].payload);
            deliver(&a, true);
        }
        is_thrown_out(&a);
        ck_assert_msg(n > 900 && n < 1200, "row %zu: %u", i, n);
        end(&a);
    }
}

UNIT(the_same_frames_beside_requests_or_over_time_are_welcome)
{
    struct attack a = {.r = {.reply = {.status = 200}}};
    begin(&a);
    for (uint32_t i = 0; i < 2000; i++) { /* in one second, as grpc-go does while it measures the line */
        frame(&a.in, HEADERS, END_HEADERS | END_STREAM, 2 * i + 1, POST_HEAD);
        frame(&a.in, PING, 0, 0, BYTES_LIT("12345678"));
        frame(&a.in, WINDOW, 0, 0, BYTES_LIT("\0\0\0\1"));
        ck_assert_int_eq(deliver(&a, true), 0);
        a.out.n = 0;
    }
    for (uint32_t i = 0; i < 3000; i++, a.now += SEC / 500) {
        frame(&a.in, PING, 0, 0, BYTES_LIT("12345678"));
        ck_assert_int_eq(deliver(&a, true), 0);
        a.out.n = 0;
    }
    ck_assert(!http_session_is_done(a.s));
    ck_assert_uint_eq(a.r.n_close, 2000);
    end(&a);
}

/* What we must say piles up with a peer that never reads: acknowledgements, refusals. */
UNIT(a_peer_that_never_reads_piles_up_little)
{
    for (int kind = 0; kind < 2; kind++) {
        struct attack a = {.r = {.answer = ANSWER_LATER}};
        uint32_t i = 0;
        int r = 0;
        begin(&a);
        for (; i < 20000 && r == 0 && !http_session_is_done(a.s); i++) {
            if (kind == 0) { /* more streams than we allow: each is refused */
                frame(&a.in, HEADERS, END_HEADERS, 2 * i + 1, POST_HEAD);
            } else { /* requests that cannot be answered for lack of a reader */
                frame(&a.in, HEADERS, END_HEADERS | END_STREAM, 2 * i + 1, BYTES_LIT("\x83"));
            }
            r = deliver(&a, false);
            a.now += SEC / 100; /* no bound on a rate would see it */
        }
        drain_all(a.s, &a.out);
        ck_assert(r < 0 || http_session_is_done(a.s));
        ck_assert_uint_le(a.r.n_head, 100);
        ck_assert_uint_lt(a.out.n, 20000); /* all that had been kept, of 20000 provocations */
        end(&a);
    }
}

/* ---- HTTP/2: header lists ---- */

/* CVE-2016-6581: a large field in HPACK's table, then a byte for each time it is meant. */
UNIT(hpack_bomb)
{
    struct attack a = {.r = {.answer = ANSWER_LATER}};
    struct buffer block = BUFFER_INIT(0);
    begin(&a);
    buffer_add_bytes(&block,
                     BYTES_LIT("\x83\x86\x84\x01\x01h\x40\x01x\x7f\x81\x1e")); /* 3968 bytes, indexed */
    for (int i = 0; i < 3968; i++)
        buffer_add(&block, "v", 1);
    for (int i = 0; i < 12000; i++)
        buffer_add(&block, "\xbe", 1); /* the entry at 62: 47 MB in all */
    frame(&a.in, HEADERS, END_HEADERS | END_STREAM, 1, buffer_bytes(&block));
    ck_assert_uint_le(block.n, 16384);
    deliver(&a, true);
    is_thrown_out(&a);
    ck_assert_uint_eq(a.r.n_head, 0);
    buffer_release(&block);
    end(&a);
}

UNIT(many_small_fields_count_with_their_overhead)
{
    struct attack a = {.r = {.answer = ANSWER_LATER}};
    struct buffer block = BUFFER_INIT(0);
    uint32_t error;
    begin(&a);
    buffer_add_bytes(&block, POST_HEAD);
    for (int i = 0; i < 1000; i++)
        buffer_add_bytes(&block, BYTES_LIT("\x0f\x04\0")); /* accept-language with nothing in it, by index */
    frame(&a.in, HEADERS, END_HEADERS | END_STREAM, 1, buffer_bytes(&block));
    deliver(&a, true);
    ck_assert_uint_eq(a.r.n_head, 0);
    ck_assert(find_frame(&a.out, HEADERS, &error)); /* 431 */
    ck_assert(!http_session_is_done(a.s));
    buffer_release(&block);
    end(&a);
}

/* A list above the limit is refused; from who was thrown out, it ends the connection. */
UNIT(a_list_too_large_again)
{
    for (int wary = 0; wary < 2; wary++) {
        struct attack a = {.r = {.answer = ANSWER_LATER}};
        struct buffer block = BUFFER_INIT(0);
        uint32_t error;
        begin(&a);
        if (wary)
            http_session_be_wary(a.s);
        buffer_add_bytes(&block, POST_HEAD);
        for (int i = 0; i < 500; i++) /* 47 bytes each */
            buffer_add_bytes(&block, BYTES_LIT("\x0f\x04\0"));
        frame(&a.in, HEADERS, END_HEADERS | END_STREAM, 1, buffer_bytes(&block));
        deliver(&a, true);
        ck_assert_uint_eq(a.r.n_head, 0);
        if (wary)
            is_thrown_out(&a);
        else
            ck_assert(find_frame(&a.out, HEADERS, &error)); /* 431 */
        ck_assert_int_eq(http_session_is_done(a.s), wary);
        buffer_release(&block);
        end(&a);
    }
}

/* CVE-2024-28182. A distribution's nghttp2 may end the connection earlier by itself; our own
 * bound of 32 holds for all. */
UNIT(continuation_flood)
{
    struct attack a = {0};
    uint32_t n = 0;
    int r = 0;
    begin(&a);
    frame(&a.in, HEADERS, END_STREAM, 1, POST_HEAD);
    deliver(&a, true);
    for (; n < 100 && r == 0 && !http_session_is_done(a.s); n++) {
        frame(&a.in, CONT, 0, 1, BYTES_LIT("\x0f\x04\0"));
        r = deliver(&a, true);
    }
    ck_assert_uint_le(n, 32);
    ck_assert_uint_eq(a.r.n_head, 0);
    end(&a);
}

/* ---- HTTP/2: slow ones ---- */

static uint8_t large[60000];

static const struct bytes window_of_0 = {(const uint8_t *)"\0\4\0\0\0\0", 6};

/* The peer asks and never opens the window for the answer. */
UNIT(zero_window_reader)
{
    struct http_server_limits l = HTTP_SERVER_LIMITS_DEFAULT;
    for (int dribble = 0; dribble < 2; dribble++) {
        struct attack a = {.r = {.reply = {.status = 200, .body = {large, sizeof large}}}};
        uint32_t error = 0;
        begin(&a);
        frame(&a.in, SETTINGS, 0, 0, window_of_0);
        for (uint32_t i = 0; i < 100; i++)
            frame(&a.in, HEADERS, END_HEADERS | END_STREAM, 2 * i + 1, POST_HEAD);
        deliver(&a, true);
        ck_assert_uint_eq(a.r.n_end, 100);
        ck_assert_uint_eq(a.r.n_close, 0);
        for (uint64_t t = 1; t <= 2 * l.body_ns / SEC + 1; t++) { /* or opens it a byte a second */
            pass(&a, SEC + t * SEC);
            if (dribble) {
                frame(&a.in, WINDOW, 0, 1, BYTES_LIT("\0\0\0\1"));
                deliver(&a, true);
            }
        }
        ck_assert_uint_eq(a.r.n_close, 100);
        a.out.n = 0;
        frame(&a.in, HEADERS, END_HEADERS, 201, POST_HEAD); /* the connection itself lives */
        deliver(&a, true);
        ck_assert_uint_eq(a.r.n_head, 101);
        ck_assert(!find_frame(&a.out, GOAWAY, &error));
        end(&a);
    }
}

UNIT(a_slow_reader_that_reads_gets_its_answer)
{
    struct attack a = {.r = {.reply = {.status = 200, .body = {large, sizeof large}}}};
    begin(&a);
    frame(&a.in, SETTINGS, 0, 0, window_of_0);
    frame(&a.in, HEADERS, END_HEADERS | END_STREAM, 1, POST_HEAD);
    deliver(&a, true);
    for (uint64_t t = 1; t < 400 && a.r.n_close == 0; t++) {
        pass(&a, SEC + t * SEC);
        frame(&a.in, WINDOW, 0, 1, BYTES_LIT("\0\0\0\xc8")); /* 200 bytes a second */
        deliver(&a, true);
    }
    ck_assert_uint_eq(a.r.n_close, 1);
    size_t body = 0;
    for (size_t at = 0; at + 9 <= a.out.n;) {
        const uint8_t *p = a.out.p + at;
        size_t n = (size_t)p[0] << 16 | (size_t)p[1] << 8 | p[2];
        body += p[3] == DATA ? n : 0;
        at += 9 + n;
    }
    ck_assert_uint_eq(body, sizeof large);
    end(&a);
}

/* A byte of body a second: never silent for body_ns, never done. And a stream that is only held open. */
UNIT(slow_body_dribble)
{
    struct http_server_limits l = HTTP_SERVER_LIMITS_DEFAULT;
    struct attack a = {.r = {.answer = ANSWER_LATER}};
    uint64_t t = 1;
    begin(&a);
    frame(&a.in, HEADERS, END_HEADERS, 1, POST_HEAD);
    frame(&a.in, HEADERS, END_HEADERS, 3, POST_HEAD);
    deliver(&a, true);
    for (; t < 600 && a.r.n_close < 2; t++) {
        frame(&a.in, DATA, 0, 1, BYTES_LIT("x"));
        deliver(&a, true);
        pass(&a, SEC + t * SEC);
        ck_assert_msg(t <= l.body_ns / SEC || a.r.n_close > 0, "the silent stream is still there");
    }
    ck_assert_uint_eq(a.r.n_close, 2);
    ck_assert_uint_ge(t * SEC, l.request_ns);
    ck_assert_uint_le(t * SEC, l.request_ns + l.body_ns + 2 * SEC);
    end(&a);
}

UNIT(a_slow_body_that_comes_is_waited_for)
{
    struct attack a = {.r = {.answer = ANSWER_LATER}};
    begin(&a);
    frame(&a.in, HEADERS, END_HEADERS, 1, POST_HEAD);
    for (uint64_t t = 1; t <= 600; t++) {
        frame(&a.in, DATA, 0, 1, bytes_of(large, 4500));
        deliver(&a, true);
        pass(&a, SEC + t * SEC);
        ck_assert_uint_eq(a.r.n_close, 0);
    }
    ck_assert_uint_eq(a.r.n_body, 600 * 4500);
    end(&a);
}

/* ---- HTTP/1 ---- */

static void http1(struct attack *a)
{
    a->s = recorder_session(&a->r, NULL);
    a->now = SEC;
}

static const char *answer(struct attack *a)
{
    drain_all(a->s, &a->out);
    ck_assert_int_eq(buffer_add(&a->out, "", 1), 0);
    a->out.n = 0;
    return (const char *)a->out.p;
}

/* Slowloris: a head a byte at a time. Its time is the head's, not the byte's. */
UNIT(slow_head)
{
    struct http_server_limits l = HTTP_SERVER_LIMITS_DEFAULT;
    struct attack a = {0};
    uint64_t t = 0;
    http1(&a);
    buffer_add_str(&a.in, "GET / HTTP/1.1\r\nHost: h\r\nx: ");
    deliver(&a, true);
    for (; t < 100 && !http_session_is_done(a.s); t++) {
        buffer_add_str(&a.in, "y");
        deliver(&a, true);
        pass(&a, SEC + t * SEC);
    }
    ck_assert_uint_le(t * SEC, l.head_ns + 2 * SEC);
    ck_assert_uint_eq(a.r.n_head, 0);
    end(&a);
}

/* R.U.D.Y.: a body a byte at a time, by length and in chunks. */
UNIT(slow_body_dribble_http1)
{
    struct http_server_limits l = HTTP_SERVER_LIMITS_DEFAULT;
    for (int chunked = 0; chunked < 2; chunked++) {
        struct attack a = {.r = {.answer = ANSWER_LATER}};
        uint64_t t = 1;
        http1(&a);
        buffer_add_str(&a.in, "POST / HTTP/1.1\r\nHost: h\r\n");
        buffer_add_str(&a.in,
                       chunked ? "Transfer-Encoding: chunked\r\n\r\n" : "Content-Length: 100000\r\n\r\n");
        deliver(&a, true);
        for (; t < 600 && !http_session_is_done(a.s); t++) {
            buffer_add_str(&a.in, chunked ? "1\r\nx\r\n" : "x");
            deliver(&a, true);
            pass(&a, SEC + t * SEC);
        }
        ck_assert_uint_ge(t * SEC, l.request_ns);
        ck_assert_uint_le(t * SEC, l.request_ns + 2 * SEC);
        ck_assert_uint_gt(a.out.n, 13);
        ck_assert_int_eq(strncmp((const char *)a.out.p, "HTTP/1.1 408 ", 13), 0);
        end(&a);
    }
}

UNIT(pipelining_flood)
{
    struct attack a = {.r = {.answer = ANSWER_LATER}};
    int r = 0;
    uint32_t n = 0;
    http1(&a);
    for (; n < 100000 && r == 0; n++) { /* the first is never answered; the peer is told nothing */
        buffer_add_str(&a.in, "GET / HTTP/1.1\r\nHost: h\r\n\r\n");
        r = deliver(&a, false);
        ck_assert(n < 3000 || !http_session_wants_input(a.s));
    }
    ck_assert_int_eq(r, -ENOBUFS);
    ck_assert_uint_le(n * 27ul, (1 << 20) + 100);
    ck_assert_uint_eq(a.r.n_head, 1);
    end(&a);
}

UNIT(chunk_extensions_and_trailers_are_bounded)
{
    static const struct {
        const char *repeated;
        size_t most; /* bytes, after the first line */
    } rows[] = {
        {";extension=of-a-chunk", 400},                        /* one size line without end */
        {"x: trailer\r\n", 10000},                             /* the trailer section */
        {"1;0123456789012345678901234567890\r\nx\r\n", 90000}, /* a little on every chunk */
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct attack a = {.r = {.answer = ANSWER_LATER}};
        size_t n = 0;
        http1(&a);
        buffer_add_str(&a.in, "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n");
        buffer_add_str(&a.in, i == 0 ? "5" : i == 1 ? "0\r\n" : "");
        deliver(&a, true);
        while (n < 1000000 && !http_session_is_done(a.s)) {
            ck_assert_int_eq(buffer_add_str(&a.in, rows[i].repeated), 0);
            n += a.in.n;
            deliver(&a, true);
        }
        ck_assert_msg(n <= rows[i].most, "row %zu: %zu", i, n);
        ck_assert_uint_gt(a.out.n, 13);
        ck_assert_int_eq(strncmp((const char *)a.out.p, "HTTP/1.1 400 ", 13), 0);
        end(&a);
    }
}

/* Chunks of one byte are allowed, and are held nowhere: a megabyte of body so. */
UNIT(many_small_chunks_cost_time_alone)
{
    struct attack a = {0};
    http1(&a);
    buffer_add_str(&a.in, "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n");
    for (int i = 0; i < 100000; i++)
        buffer_add_str(&a.in, "1\r\nx\r\n");
    buffer_add_str(&a.in, "0\r\n\r\n");
    ck_assert_int_eq(deliver(&a, true), 0);
    ck_assert_uint_eq(a.r.n_body, 100000);
    ck_assert_uint_eq(a.r.n_end, 1);
    end(&a);
}

/* Two readings of one message (RFC 9112 §11.2): all of these end the connection, whatever else they do. */
UNIT(request_smuggling)
{
    static const char *const heads[] = {
        "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n",
        "Content-Length: 5\r\nContent-Length: 6\r\n",
        "Content-Length: 5, 6\r\n",
        "Content-Length: +5\r\n",
        "Content-Length: 0x5\r\n",
        "Content-Length: 5 5\r\n",
        "Content-Length: \r\n",
        "Content-Length: 99999999999999999999\r\n",
        "Content-Length : 5\r\n",
        " Content-Length: 5\r\n",
        "X: y\r\n Content-Length: 5\r\n", /* obs-fold */
        "X: y\nContent-Length: 5\r\n",    /* bare LF */
        "X: y\rContent-Length: 5\r\n",    /* bare CR */
        "Transfer-Encoding: identity\r\n",
        "Transfer-Encoding: chunked, identity\r\n",
        "Transfer-Encoding: xchunked\r\n",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: \013chunked\r\n",
        "Transfer_Encoding\x00: chunked\r\n",
    };
    for (size_t i = 0; i < ARRAY_LEN(heads); i++) {
        struct attack a = {0};
        http1(&a);
        buffer_add_str(&a.in, "POST / HTTP/1.1\r\nHost: h\r\n");
        if (i == ARRAY_LEN(heads) - 1)
            buffer_add(&a.in, "X\0: y\r\n", 7);
        else
            buffer_add_str(&a.in, heads[i]);
        buffer_add_str(&a.in, "\r\n0\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: h\r\n\r\n");
        deliver(&a, false);
        const char *text = answer(&a);
        ck_assert_msg(http_session_is_done(a.s), "head %zu: %s", i, text);
        ck_assert_msg(a.r.n_head == 0 &&
                          strncmp(text, "HTTP/1.1 4", 10) + strncmp(text, "HTTP/1.1 5", 10) != 0,
                      "head %zu: %s", i, text);
        ck_assert_ptr_null(strstr(a.r.log, "smuggled"));
        end(&a);
    }
}

UNIT(chunked_bodies_have_one_reading)
{
    static const char *const bodies[] = {
        "5\nhello\r\n0\r\n\r\n",
        "5\r\nhello0\r\n\r\n",
        "0x5\r\nhello\r\n0\r\n\r\n",
        "+5\r\nhello\r\n0\r\n\r\n",
        " 5\r\nhello\r\n0\r\n\r\n",
        "5\r\r\nhello\r\n0\r\n\r\n",
        "5\rhello\r\n0\r\n\r\n",
        "\r\n0\r\n\r\n",
        "fffffffffffffffff\r\nhello\r\n0\r\n\r\n",
        "5\r\nhello\n0\r\n\r\n",
        "-1\r\nhello\r\n0\r\n\r\n",
        "g\r\nhello\r\n0\r\n\r\n",
    };
    for (size_t i = 0; i < ARRAY_LEN(bodies); i++) {
        struct attack a = {0};
        http1(&a);
        buffer_add_str(&a.in, "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n");
        buffer_add_str(&a.in, bodies[i]);
        buffer_add_str(&a.in, "GET /smuggled HTTP/1.1\r\nHost: h\r\n\r\n");
        deliver(&a, false);
        ck_assert_msg(strncmp(answer(&a), "HTTP/1.1 400 ", 13) == 0, "body %zu", i);
        ck_assert(http_session_is_done(a.s));
        ck_assert_uint_eq(a.r.n_head, 1);
        end(&a);
    }
}

/* Not an attack: a request that is refused while its small body is still coming. content-length: 5 and
 * 9999999, by the static table's name 28. A reset would make some clients (curl 7.88) forget the answer. */
UNIT(the_rest_of_a_small_body_is_read_away)
{
    struct attack a = {.r = {.answer = ANSWER_AT_HEAD, .reply = {.status = 401}}};
    uint32_t error = 0;
    begin(&a);
    frame(&a.in, HEADERS, END_HEADERS, 1, BYTES_LIT("\x83\x86\x84\x01\x01h\x0f\x0d\x01\x35"));
    deliver(&a, true);
    frame(&a.in, DATA, END_STREAM, 1, BYTES_LIT("12345"));
    deliver(&a, true);
    ck_assert(!find_frame(&a.out, RST, &error));
    ck_assert_uint_eq(a.r.n_close, 1);
    frame(&a.in, HEADERS, END_HEADERS, 3,
          BYTES_LIT("\x83\x86\x84\x01\x01h\x0f\x0d\x07"
                    "9999999"));
    deliver(&a, true);
    ck_assert(find_frame(&a.out, RST, &error));
    ck_assert_uint_eq(error, NGHTTP2_NO_ERROR);
    ck_assert_uint_eq(a.r.n_close, 2);
    end(&a);
}
