/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An exchange from its head to its answer.
 *
 * on_head    the intake, or a refusal that is only noted; then access is asked who it is. No refusal is said
 *            before that: without credentials even a wrong path is 401.
 * on_body    the state says what becomes of a piece: collected (TAKING), collected within a small bound while
 * a password is verified (WAITING), or thrown away (REFUSED). on_end     the body is complete: processed here
 * or on a lane (lanes/offload.h), and answered by finish(); a noted refusal is said now. on_room    more of
 * an answer that is larger than a session holds for its peer. on_close   the
 * exchange dies. A request that a lane works on, or whose answer waits for a disk, lives on without it until
 * finish() comes.
 *
 * A request is released exactly once: by whoever says its last word, or by on_close where nobody will.
 */
#include "gateway/serve/serve.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "gateway/serve/calls/services.h"
#include "gateway/serve/intakes.h"
#include "gateway/serve/lanes/offload.h"
#include "gateway/serve/lanes/processor.h"
#include "gateway/serve/refusal.h"
#include "gateway/serve/reply.h"
#include "gateway/serve/request.h"
#include "gateway/serve/route.h"
#include "gateway/stats/histograms.h"
#include "proto/base/clock.h"
#include "proto/base/log.h"
#include "proto/base/macros.h"
#include "proto/base/promise.h"
#include "proto/coding/coding.h"
#include "proto/base/room.h"
#include "proto/grpc/frame.h"
#include "proto/io/loop.h"

struct serve {
    struct serve_options options;
    struct budget *budget;
    struct request_pool pool;
    struct processor processor;
    struct offload offload;
    struct unsafe *unsafe; /* answers that wait */
};

static void finish(struct request *q, const struct processed *p);

static struct processor_options processor_options(const struct serve_options *options, struct ingest *ingest,
                                                  struct stats *stats, struct budget *budget)
{
    return (struct processor_options){
        .request_bytes = options->request_bytes,
        .keep_bytes = options->keep_bytes,
        .ingest = ingest,
        .stats = stats,
        .budget = budget,
        .meter = options->meter,
    };
}

struct serve *serve_new(const struct serve_options *options, struct ingest *ingest, struct stats *stats,
                        struct budget *budget)
{
    struct serve *s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    s->options = *options;
    s->budget = budget;
    s->pool = (struct request_pool){.keep_max = options->keep_bytes,
                                    .body_max = options->request_bytes,
                                    .links = options->links,
                                    .budget = budget};
    const struct processor_options processor = processor_options(options, ingest, stats, budget);
    int r = processor_init(&s->processor, &processor);
    if (r == 0)
        r = offload_init(&s->offload, options->lanes, options->loop, &s->processor, budget, finish);
    return r == 0 ? s : serve_free(s);
}

static void leave_unsafe(struct serve *s);

struct serve *serve_free(struct serve *s)
{
    if (!s)
        return NULL;
    offload_release(&s->offload);
    leave_unsafe(s);
    request_pool_release(&s->pool);
    processor_release(&s->processor);
    free(s);
    return NULL;
}

void serve_set_ingest(struct serve *s, struct ingest *ingest)
{
    s->processor.ingest = ingest;
}

struct processor *serve_lane_new(const struct serve_options *options, struct ingest *ingest,
                                 struct stats *stats, struct budget *budget)
{
    const struct processor_options processor = processor_options(options, ingest, stats, budget);
    struct processor *p = calloc(1, sizeof *p);
    return p && processor_init(p, &processor) < 0 ? serve_lane_free(p) : p;
}

struct processor *serve_lane_free(struct processor *lane)
{
    if (!lane)
        return NULL;
    processor_release(lane);
    free(lane);
    return NULL;
}

void serve_lane_set_ingest(struct processor *lane, struct ingest *ingest)
{
    lane->ingest = ingest;
}

static const struct serve_listener *listener_of(const struct http_exchange *x)
{
    static const struct serve_listener open = {.layout = PROFILES_LAYOUT_UNKNOWN};
    return x->peer && x->peer->listener ? x->peer->listener : &open;
}

/* ---- refusing ------------------------------------------------------------------------------ */

#define MEDIA_MAX 256u

/* The media types that would have been taken. */
static const char *media_near(const struct route *route, const char *between, char text[MEDIA_MAX])
{
    text[0] = 0;
    return route->near ? intakes_media(route->near, between, text, MEDIA_MAX) : text;
}

/* retry_ns: 0 for what the options say. */
static void refuse_saying(struct serve *s, struct http_exchange *x, const struct route *route,
                          enum refusal refusal, const struct error *message, uint64_t retry_ns)
{
    char media[MEDIA_MAX];
    const struct reply_hint hint = {
        .retry_after_ns = retry_ns ? retry_ns : s->options.retry_after_ns,
        .policy = listener_of(x)->policy,
        .media = refusal == REFUSAL_MEDIA_TYPE ? media_near(route, ", ", media) : NULL,
    };
    /* When even the answer finds no memory, the session resets the exchange: the peer learns that much. */
    reply_refused(x, route, refusal, message, &hint);
}

static void refuse(struct serve *s, struct http_exchange *x, const struct route *route, enum refusal refusal,
                   uint64_t retry_ns)
{
    char media[MEDIA_MAX];
    const struct refusal_facts facts = {
        .path = x->path,
        .is_asking = bytes_is(x->method, "GET"),
        .is_grpc = route->protocol == INTAKE_GRPC,
        .coding = coding_name(route->coding),
        .media = refusal == REFUSAL_MEDIA_TYPE ? media_near(route, " or ", media) : NULL,
        .limit = s->options.request_bytes,
    };
    struct error message;
    refusal_explain(refusal, &facts, &message);
    log_debug("refused peer=%s path=\"%.*s\" error=\"%s\"", x->peer ? x->peer->address : "",
              BYTES_FMT(x->path), message.text);
    stats_add(s->processor.stats, refusal_counter(refusal), 1);
    refuse_saying(s, x, route, refusal, &message, retry_ns);
}

static enum refusal refusal_of_access(enum access_verdict verdict)
{
    switch (verdict) {
    case ACCESS_YES: return REFUSAL_NONE;
    case ACCESS_MISSING: return REFUSAL_NO_CREDENTIALS;
    case ACCESS_WRONG: return REFUSAL_WRONG_CREDENTIALS;
    case ACCESS_FORBIDDEN: return REFUSAL_FORBIDDEN;
    case ACCESS_NO_TENANT: return REFUSAL_NO_TENANT;
    case ACCESS_BAD_TENANT: return REFUSAL_BAD_TENANT;
    case ACCESS_LIMIT_BYTES: return REFUSAL_LIMIT_BYTES;
    case ACCESS_LIMIT_CONNECTIONS: return REFUSAL_LIMIT_CONNECTIONS;
    case ACCESS_LIMIT_REQUESTS: return REFUSAL_LIMIT_REQUESTS;
    case ACCESS_LIMIT_MEMORY: return REFUSAL_LIMIT_MEMORY;
    case ACCESS_LIMIT_NEVER: return REFUSAL_LIMIT_NEVER;
    default: return REFUSAL_VERIFYING;
    }
}

static void release(struct serve *s, struct request *q)
{
    if (s->options.access) {
        access_cancel(&q->wait);
        access_exit(s->options.access, &q->pass);
        budget_refund(access_waiting_budget(s->options.access), q->n_waiting);
        q->n_waiting = 0;
    }
    request_put(&s->pool, q);
}

/* It is about to be answered. */
static void observe(const struct request *q)
{
    struct stats *stats = q->serve->processor.stats;
    const bool rpc = q->route.protocol == INTAKE_GRPC;
    histograms_add(stats, rpc ? STATS_RPC_DURATION : STATS_HTTP_DURATION, clock_monotonic() - q->began_ns);
    histograms_add(stats, rpc ? STATS_RPC_SIZE : STATS_HTTP_SIZE, q->n_collected + q->discarded);
}

/* Says no now. */
static void refuse_request(struct request *q, enum refusal refusal, uint64_t retry_ns)
{
    struct serve *s = q->serve;
    struct http_exchange *x = q->exchange;
    struct route route = q->route;
    observe(q);
    x->user = NULL; /* the reply may close the exchange */
    release(s, q);
    refuse(s, x, &route, refusal, retry_ns);
}

/* A small body is read to its end before a refusal is said: many clients lose an answer that comes while they
 * still send (curl 7.88 over HTTP/2), and RST_STREAM(NO_ERROR) after it is an error to some. What is larger,
 * or waits for our word, is spared the sending. */
#define DISCARD_MAX (64u << 10)

/* Says no, when the time for it has come. */
static void refuse_in_time(struct request *q, enum refusal refusal, uint64_t retry_ns)
{
    bool large = q->content_length > (int64_t)DISCARD_MAX || q->discarded + q->body.n > DISCARD_MAX;
    /* A gRPC call without a length may be a stream that says no more until it is answered. */
    bool streams = q->route.protocol == INTAKE_GRPC && q->content_length < 0;
    if (q->ended || large || streams || q->route.expects_continue) {
        refuse_request(q, refusal, retry_ns);
        return;
    }
    q->state = REQUEST_REFUSED;
    q->refusal = refusal;
    q->retry_ns = retry_ns;
}

/* ---- accepting ----------------------------------------------------------------------------- */

static void say(struct serve *s, struct http_exchange *x, const struct route *route,
                const struct processed *p)
{
    const struct ingest_answer *answer = &p->answer;
    if (p->refusal == REFUSAL_NONE) {
        reply_accepted(x, route, answer->rejected_profiles, &answer->message);
    } else if (p->is_of_ingest) {
        refuse_saying(s, x, route, p->refusal, &answer->message, answer->retry_after_ns);
    } else if (answer->message.text[0] != 0) {
        stats_add(s->processor.stats, refusal_counter(p->refusal), 1);
        refuse_saying(s, x, route, p->refusal, &answer->message, 0);
    } else {
        refuse(s, x, route, p->refusal, 0);
    }
}

/* The next pieces of an answer, as many as the peer takes now; on_room goes on. The last one releases the
 * request, or on_close does. */
static void go_on_answering(struct request *q)
{
    struct serve *s = q->serve;
    struct http_exchange *x = q->exchange;
    while (q->n_answered < q->answer.n) {
        const size_t n = min_of(q->answer.n - q->n_answered, (size_t)HTTP_REPLY_WAITING_MAX / 2);
        if (http_reply_write(x, bytes_of(q->answer.p + q->n_answered, n)) != 0)
            return;
        q->n_answered += n;
    }
    x->user = NULL;
    release(s, q);
    http_reply_end(x, NULL, 0);
}

/* The request's answer is its sender's to hold, as its body was. */
static void answer(struct request *q)
{
    struct serve *s = q->serve;
    struct http_exchange *x = q->exchange;
    uint64_t retry_ns = 0;
    enum access_verdict held = ACCESS_YES;
    if (s->options.access && (q->pass.client || q->pass.tenant))
        held = access_body(s->options.access, &q->pass, q->answer.n, clock_monotonic(), &retry_ns);
    if (held != ACCESS_YES) {
        refuse_request(q, refusal_of_access(held), retry_ns);
        return;
    }
    observe(q);
    stats_add(s->processor.stats, STATS_REQUESTS_CONVERTED, 1);
    room_release(&q->body, s->budget);
    const struct http_header type = {BYTES_LIT("content-type"), bytes_str(q->answer_type)};
    q->state = REQUEST_ANSWERING;
    if (http_reply_begin(x, &(struct http_reply){.status = 200, .headers = &type, .n_headers = 1}) == 0)
        go_on_answering(q);
}

/* The answer to a request that was counted, and is not on disk yet. */
struct unsafe {
    struct unsafe *next, **at;
    struct io_post post;
    struct request *request;
    atomic_int state; /* WAITS, then one of the others */
    int failed;       /* what the disk said */
    struct processed answer;
};

enum { WAITS, KEPT, LEFT };

static void unlink_unsafe(struct unsafe *u)
{
    *u->at = u->next;
    if (u->next)
        u->next->at = u->at;
    u->request->unsafe = NULL;
}

/* The loop: it is safe, or will not be. */
static void on_safe(void *arg)
{
    struct unsafe *u = arg;
    struct request *q = u->request;
    struct serve *s = q->serve;
    unlink_unsafe(u);
    if (u->failed) {
        u->answer.refusal = REFUSAL_BUSY;
        u->answer.answer.retry_after_ns = s->options.retry_after_ns;
        error_set(&u->answer.answer.message, 0, "the storage takes nothing just now; try again");
    }
    finish(q, &u->answer);
    budget_refund(s->budget, sizeof *u);
    free(u);
}

/* Any thread. */
static void on_kept(void *arg, int r)
{
    struct unsafe *u = arg;
    u->failed = r;
    if (atomic_exchange(&u->state, KEPT) == LEFT)
        free(u);
    else
        io_loop_post_in(u->request->serve->options.loop, &u->post);
}

/* At the end, when nobody is there any more to be answered: the disk may take its time, and for ever. */
static void leave_unsafe(struct serve *s)
{
    while (s->unsafe) {
        struct unsafe *u = s->unsafe;
        struct request *q = u->request;
        int waits = WAITS;
        if (!atomic_compare_exchange_strong(&u->state, &waits, LEFT)) { /* it is on its way */
            io_loop_run_once(s->options.loop, NSEC_PER_SEC);
            continue;
        }
        unlink_unsafe(u); /* whoever keeps the promise frees it */
        budget_refund(s->budget, sizeof *u);
        if (q->exchange)
            q->exchange->user = NULL;
        release(s, q);
    }
}

static void nobody_waits(void *arg, int r) {}

/* Keeps the answer back. */
static void wait_until_safe(struct request *q, const struct processed *p)
{
    struct serve *s = q->serve;
    struct promise *safe = p->answer.safe;
    struct unsafe *u = budget_charge(s->budget, sizeof *u) ? malloc(sizeof *u) : NULL;
    struct processed answer = *p;
    answer.answer.safe = NULL;
    if (!u) {
        promise_await(safe, nobody_waits, NULL);
        answer.refusal = REFUSAL_BUSY;
        error_set(&answer.answer.message, 0, "out of memory just now; try again");
        finish(q, &answer);
        return;
    }
    *u = (struct unsafe){.post = {.fn = on_safe, .arg = u}, .request = q, .answer = answer};
    q->unsafe = u;
    u->at = &s->unsafe;
    u->next = s->unsafe;
    if (u->next)
        u->next->at = &u->next;
    s->unsafe = u;
    promise_await(safe, on_kept, u);
}

/* The last word on a request whose body is complete, to its exchange if that is still there; releases it. */
static void finish(struct request *q, const struct processed *p)
{
    struct serve *s = q->serve;
    struct http_exchange *x = q->exchange;
    if (x && p->refusal == REFUSAL_NONE && q->route.intake->answer) {
        answer(q);
        return;
    }
    if (unlikely(p->refusal == REFUSAL_NONE && p->answer.safe)) {
        wait_until_safe(q, p);
        return;
    }
    if (x) {
        observe(q);
        x->user = NULL;
        say(s, x, &q->route, p);
    }
    release(s, q);
}

/* Who is counted as its sender; where nobody is, the machine at the other end. */
static uint64_t client_of(const struct request *q)
{
    uint64_t client = access_client(&q->pass);
    return client || !q->exchange->peer ? client : q->exchange->peer->host;
}

/* The body is complete, and whoever sent it may. */
static void complete(struct request *q)
{
    struct serve *s = q->serve;
    enum refusal refusal = request_end(&s->pool, q);
    /* A client that has given up sends the same again: counting this one too would count twice. */
    if (refusal == REFUSAL_NONE && q->deadline_ns != UINT64_MAX && clock_monotonic() >= q->deadline_ns)
        refusal = REFUSAL_LATE;
    if (refusal != REFUSAL_NONE) {
        refuse_request(q, refusal, 0);
        return;
    }
    q->client = client_of(q);
    enum profiles_layout layout = q->route.layout;
    if (layout == PROFILES_LAYOUT_UNKNOWN)
        layout = listener_of(q->exchange)->layout;
    if (offload_may_be_needed(&s->offload, q)) {
        offload_take(&s->offload, q, layout);
        return;
    }
    struct processed p;
    processor_run(&s->processor, q, layout, SIZE_MAX, &p);
    finish(q, &p);
}

/* ---- who may, and how much ----------------------------------------------------------------- */

/* What a request whose sender is still unknown may make us hold. */
#define WAITING_BODY_MAX ((size_t)256 << 10)

/* The sender may: counts the request, and says what there was to say about its head. False: it was refused.
 */
static bool enter(struct request *q, uint64_t now)
{
    struct serve *s = q->serve;
    uint64_t retry_ns = 0;
    enum refusal refusal = q->refusal;
    if (refusal == REFUSAL_NONE && s->options.access)
        refusal = refusal_of_access(access_enter(s->options.access, q->exchange, &q->pass, now, &retry_ns));
    if (refusal != REFUSAL_NONE) {
        refuse_in_time(q, refusal, retry_ns);
        return false;
    }
    q->state = REQUEST_TAKING;
    return true;
}

/* The loop tells that a password is verified, or not. */
static void on_verified(void *user, enum access_verdict verdict)
{
    struct request *q = user;
    struct serve *s = q->serve;
    uint64_t now = clock_monotonic(), retry_ns = 0;
    budget_refund(access_waiting_budget(s->options.access), q->n_waiting);
    q->n_waiting = 0;
    if (verdict != ACCESS_YES) {
        refuse_in_time(q, refusal_of_access(verdict), 0);
        return;
    }
    if (!enter(q, now))
        return;
    enum access_verdict body = access_body(s->options.access, &q->pass, q->body.n, now, &retry_ns);
    if (body != ACCESS_YES)
        refuse_in_time(q, refusal_of_access(body), retry_ns);
    else if (q->ended)
        complete(q);
}

/* Asks who it is. */
static void ask_access(struct request *q)
{
    struct serve *s = q->serve;
    struct http_exchange *x = q->exchange;
    struct access_worker *access = s->options.access;
    const uint64_t now = q->began_ns;
    if (q->route.timeout_ns != UINT64_MAX)
        q->deadline_ns = q->route.timeout_ns < UINT64_MAX - now ? now + q->route.timeout_ns : UINT64_MAX;
    q->wait.done = on_verified;
    q->wait.user = q;
    enum access_verdict verdict = ACCESS_YES;
    if (access)
        verdict = access_check(access, x, listener_of(x)->policy, &q->wait, now);
    /* Services are not given an exchange that is under way already: their clients try again, and are known
     * then. */
    if (verdict == ACCESS_WAIT && q->refusal != REFUSAL_NO_SERVICE) {
        q->state = REQUEST_WAITING;
    } else if (verdict != ACCESS_YES) {
        access_cancel(&q->wait);
        refuse_in_time(q, refusal_of_access(verdict), 0);
    } else if (s->options.services && services_take(s->options.services, x)) {
        release(s, q);
    } else {
        enter(q, now);
    }
}

/* ---- the exchange -------------------------------------------------------------------------- */

static void on_head(void *context, struct http_exchange *x)
{
    struct serve *s = context;
    const struct serve_listener *listener = listener_of(x);
    const struct route_aliases aliases = {listener->aliases, listener->n_aliases};
    struct route route;
    x->user = NULL;
    if (s->options.services && services_is_public(x->path) && services_take(s->options.services, x))
        return;
    enum refusal refusal = route_find(&aliases, x, &route);
    if (refusal == REFUSAL_NONE && x->content_length >= 0) {
        size_t prefix = route.protocol == INTAKE_GRPC ? GRPC_PREFIX_BYTES : 0;
        if ((uint64_t)x->content_length > (uint64_t)s->options.request_bytes + prefix)
            refusal = REFUSAL_TOO_LARGE;
    }
    struct request *q = request_get(&s->pool, &route, x->content_length);
    if (!q) {
        refuse(s, x, &route, REFUSAL_BUSY, 0);
        return;
    }
    if (refusal == REFUSAL_NONE)
        refusal = request_keep_head(&s->pool, q, x);
    q->serve = s;
    q->exchange = x;
    q->began_ns = clock_monotonic();
    q->refusal = refusal;
    x->user = q;
    ask_access(q);
}

/* A piece of a body whose sender is not known yet. */
static void hold(struct request *q, struct bytes piece)
{
    struct serve *s = q->serve;
    if (q->refusal != REFUSAL_NONE) {
        q->discarded += piece.n;
        return;
    }
    enum refusal refusal = REFUSAL_VERIFYING;
    if (piece.n <= WAITING_BODY_MAX - q->n_waiting &&
        budget_charge(access_waiting_budget(s->options.access), piece.n)) {
        q->n_waiting += piece.n;
        refusal = request_add(&s->pool, q, piece);
    }
    if (refusal != REFUSAL_NONE)
        refuse_request(q, refusal, 0);
}

static void on_body(void *context, struct http_exchange *x, struct bytes piece)
{
    struct serve *s = context;
    struct request *q = x->user;
    stats_add(s->processor.stats, STATS_REQUEST_BYTES, piece.n);
    if (!q)
        return; /* refused already */
    if (q->state == REQUEST_WAITING) {
        hold(q, piece);
        return;
    }
    if (q->state == REQUEST_REFUSED) {
        q->discarded += piece.n;
        if (q->discarded > DISCARD_MAX)
            refuse_request(q, q->refusal, q->retry_ns);
        return;
    }
    uint64_t retry_ns = 0;
    enum refusal refusal = REFUSAL_NONE;
    if (s->options.access && (q->pass.client || q->pass.tenant))
        refusal = refusal_of_access(
            access_body(s->options.access, &q->pass, piece.n, clock_monotonic(), &retry_ns));
    if (refusal == REFUSAL_NONE)
        refusal = request_add(&s->pool, q, piece);
    if (refusal == REFUSAL_NONE && s->options.access && q->grown_to > 0)
        refusal = refusal_of_access(access_hold(s->options.access, &q->pass, q->grown_to, &retry_ns));
    if (refusal != REFUSAL_NONE)
        refuse_request(q, refusal, retry_ns);
}

static void on_end(void *context, struct http_exchange *x)
{
    (void)context;
    struct request *q = x->user;
    if (!q)
        return;
    q->ended = true;
    if (q->state == REQUEST_REFUSED)
        refuse_request(q, q->refusal, q->retry_ns);
    else if (q->state == REQUEST_TAKING)
        complete(q);
}

static void on_room(void *context, struct http_exchange *x)
{
    struct request *q = x->user;
    if (q && q->state == REQUEST_ANSWERING)
        go_on_answering(q);
}

static void on_slow(void *context, struct http_exchange *x)
{
    struct request *q = x->user;
    if (q && q->state == REQUEST_REFUSED) /* its rest was only read away */
        refuse_request(q, q->refusal, q->retry_ns);
    else if (q)
        refuse_request(q, REFUSAL_SLOW, 0);
}

static void on_close(void *context, struct http_exchange *x)
{
    struct serve *s = context;
    struct request *q = x->user;
    x->user = NULL;
    if (!q)
        return;
    q->exchange = NULL;
    if (!q->unsafe && offload_cancel(&s->offload, q))
        release(s, q);
}

bool serve_admit(void *context, void *worker, struct http_peer *peer)
{
    struct serve *s = worker;
    return !s->options.access || access_admit(s->options.access, peer);
}

void serve_leave(void *context, void *worker, struct http_peer *peer)
{
    struct serve *s = worker;
    if (s->options.access)
        access_leave(s->options.access, peer);
}

/* A worker's session: what it could not even read the head of is a request all the same. */
static void on_refused(void *context, uint32_t status)
{
    const struct serve *s = context;
    stats_add(s->processor.stats, status == 400 ? STATS_REQUESTS_MALFORMED : STATS_REQUESTS_REFUSED, 1);
}

const struct http_handler *serve_handler(void)
{
    static const struct http_handler handler = {.on_head = on_head,
                                                .on_body = on_body,
                                                .on_end = on_end,
                                                .on_close = on_close,
                                                .on_room = on_room,
                                                .on_slow = on_slow,
                                                .on_refused = on_refused};
    return &handler;
}
