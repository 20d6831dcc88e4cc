/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What HTTP/2 lets a peer do that nobody honest does: the attacks by name, and the bounds against them. Those
 * against one stream reset it; the others end the connection with ENHANCE_YOUR_CALM (RFC 9113 §10.5).
 */
#include "proto/base/clock.h"
#include "proto/base/macros.h"
#include "proto/http/http2_server.h"

/* Streams reset in a second, by the peer (rapid reset, CVE-2023-44487) or for its mistakes (made you reset,
 * CVE-2025-8671). */
#define RESETS_MAX 200u
/* Frames of one header block (CVE-2024-28182): half a megabyte, for a list of 16 KiB. The library of a
 * distribution may stop earlier by itself; this bound holds without it. */
#define CONTINUATIONS_MAX 32u
/* A header list this many times over the limit ends the connection, not only the stream. It is counted as it
 * is decoded, so that a few bytes of HPACK that mean megabytes are found before those are made. */
#define HEADERS_FACTOR 4u
/* Frames in a second that ask or say nothing about a request (PING, SETTINGS, PRIORITY, WINDOW_UPDATE, DATA
 * without data: CVE-2019-9511 … 9518), and how many more for each frame that does. grpc-go sends a PING for
 * every answer while it measures the line, and everybody WINDOW_UPDATEs. */
#define NOISE_MAX        1000u
#define NOISE_PER_USEFUL 8u
/* Who comes again after such an end has this part of both, and no header list over the limit: connections
 * cost him little, and what is done on one before it ends is then the most that a flood of them costs us. */
#define WARY_PART 10u
/* Frames of ours that wait because the peer does not read. nghttp2 bounds the acknowledgements by itself, not
 * the RST_STREAMs and WINDOW_UPDATEs a peer can provoke. */
#define QUEUE_MAX 1000u
/* A reader must take this much of what waits for it, or all, between two sweeps. */
#define READ_MIN (4u << 10)

static void end_session(struct http2_server *c)
{
    c->guard.ended = true;
    c->session->was_abused = true;
    nghttp2_session_terminate_session(c->core.session, NGHTTP2_ENHANCE_YOUR_CALM);
}

static uint32_t most(const struct http2_server *c, uint32_t n)
{
    return c->session->wary ? n / WARY_PART : n;
}

static void count_from_now(struct http2_server *c)
{
    struct http2_guard *g = &c->guard;
    if (c->session->now - g->since < NSEC_PER_SEC)
        return;
    g->since = c->session->now;
    g->n_resets = g->n_wrong = g->n_noise = g->n_useful = 0;
}

void http2_guard_reset(struct http2_server *c)
{
    count_from_now(c);
    if (++c->guard.n_resets == most(c, RESETS_MAX))
        end_session(c);
}

void http2_guard_wrong(struct http2_server *c)
{
    count_from_now(c);
    if (++c->guard.n_wrong == most(c, RESETS_MAX))
        end_session(c);
}

bool http2_guard_headers(struct http2_server *c, uint64_t size)
{
    const uint32_t factor = c->session->wary ? 1 : HEADERS_FACTOR;
    if (size <= (uint64_t)factor * c->session->limits.header_bytes)
        return true;
    end_session(c);
    return false;
}

void http2_guard_queue(struct http2_server *c)
{
    if (nghttp2_session_get_outbound_queue_size(c->core.session) >
        QUEUE_MAX + (size_t)c->session->limits.concurrent_streams)
        end_session(c);
}

static bool is_useful(const nghttp2_frame_hd *hd)
{
    return hd->type == NGHTTP2_HEADERS ||
           (hd->type == NGHTTP2_DATA && (hd->length > 0 || (hd->flags & NGHTTP2_FLAG_END_STREAM)));
}

void http2_guard_frame(struct http2_server *c, const nghttp2_frame_hd *hd)
{
    struct http2_guard *g = &c->guard;
    if (hd->type == NGHTTP2_CONTINUATION) {
        if (++g->n_continuations == CONTINUATIONS_MAX)
            end_session(c);
        return;
    }
    g->n_continuations = 0;
    count_from_now(c);
    if (is_useful(hd)) {
        g->n_useful += g->n_useful < UINT32_MAX / (2 * NOISE_PER_USEFUL);
    } else if (hd->type != NGHTTP2_RST_STREAM &&
               ++g->n_noise >= most(c, NOISE_MAX) + NOISE_PER_USEFUL * g->n_useful) {
        end_session(c);
    }
}

/* ---- slow streams ---- */

uint64_t http2_guard_deadline(struct http2_server *c)
{
    const struct http_server_limits *l = &c->session->limits;
    if (l->body_ns == 0 || c->streams.n == 0) {
        c->guard.sweep_at = 0;
        return UINT64_MAX;
    }
    if (c->guard.sweep_at == 0)
        c->guard.sweep_at = deadline_after(c->session->now, l->body_ns);
    return c->guard.sweep_at;
}

/* Whether its reader took too little since the last sweep. A first look only makes a mark, so that a stale
 * clock (an answer given between two feeds) harms nobody. */
static bool is_unread(struct stream *s)
{
    uint64_t sent = s->base.n_sent, marked = s->sent_mark;
    /* the end of a reply needs a window, too (nghttp2), even when no byte is left */
    size_t waited = s->waiting_mark, waiting = s->base.body.n + s->replied;
    s->sent_mark = sent;
    s->waiting_mark = waiting;
    return waiting > 0 && waited > 0 && sent - marked < min_of(waited, (size_t)READ_MIN);
}

static void sweep_list(struct http2_server *c, struct stream *first)
{
    const struct http_server_limits *l = &c->session->limits;
    for (struct stream *s = first, *next; s; s = next) {
        next = s->next;
        if (is_unread(s))
            http2_reset(c, s, NGHTTP2_ENHANCE_YOUR_CALM);
        else if (!s->ended && c->session->now >= body_due(l, s->began, s->received))
            http2_too_slow(c, s);
    }
}

void http2_guard_sweep(struct http2_server *c)
{
    if (c->guard.sweep_at == 0 || c->session->now < c->guard.sweep_at)
        return;
    sweep_list(c, c->streams.complete.first); /* first, because a reset moves streams to its end */
    sweep_list(c, c->streams.receiving.first);
    c->guard.sweep_at = deadline_after(c->session->now, c->session->limits.body_ns);
}
