/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The thread is a merger's (merger.h), of which the store is what it has. Batches wait in a list, so that
 * handing one over takes no memory: a job that takes the whole list is on its way, or has yet to be. They
 * stay in the order that they came in: a later one of a tap has only the hashes of stacks told in an earlier.
 */
#include "gateway/run/looking.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "gateway/look/answer.h"
#include "gateway/look/querier.h"
#include "gateway/look/tap.h"
#include "gateway/run/counting.h"
#include "gateway/run/door.h"
#include "gateway/run/merger.h"
#include "proto/base/clock.h"
#include "proto/base/log.h"
#include "proto/base/macros.h"
#include "proto/base/quantity.h"
#include "proto/coding/coding.h"
#include "proto/coding/gzip_stream.h"
#include "proto/http/query.h"

/* At once: waiting for each other, and until their answers are read, which are in memory. */
#define QUESTIONS_MAX 4u

#define PATIENCE_NS (2 * (uint64_t)NSEC_PER_SEC)

/* Of the store's memory, for what one thread kept in a second. */
#define BATCH_SHARE 8u

/* Of a call, as it comes and as it is, and of all that are coming. */
#define CALL_BYTES  ((size_t)64 << 10)
#define CALLS_BYTES ((size_t)4 << 20)

#define GZIP_MIN 1024u

struct looking {
    struct io_loop *loop;
    struct merger *thread;
    struct look_store *store;
    struct counting *counting;                  /* whose rules are asked; NULL: there are none */
    STAILQ_HEAD(, look_batch) waiting, working; /* working: the thread's while the job is on its way */
    struct merger_job taking;
    bool is_taking;
    uint32_t n_questions;
    struct {
        struct looking *looking;
        enum look_endpoint endpoint;
        char path[32];
    } pages[LOOK_N_ENDPOINTS];
    struct budget bodies; /* of calls, while they come */
    struct {
        struct looking *looking;
        enum look_method method;
        char path[96];
    } calls[LOOK_N_METHODS];
};

/* ---- batches ------------------------------------------------------------------------------- */

static void take(void *arg)
{
    struct looking *l = arg;
    const uint64_t now = clock_realtime();
    for (struct look_batch *b; (b = STAILQ_FIRST(&l->working));) {
        STAILQ_REMOVE_HEAD(&l->working, next);
        look_store_add(l->store, b, now);
    }
    look_store_tick(l->store, now, clock_monotonic());
}

static void post(struct looking *l);

static void taken(void *arg)
{
    struct looking *l = arg;
    l->is_taking = false;
    if (!STAILQ_EMPTY(&l->waiting))
        post(l);
}

static void post(struct looking *l)
{
    l->is_taking = true;
    STAILQ_CONCAT(&l->working, &l->waiting);
    l->taking = (struct merger_job){.work = take, .done = taken, .arg = l};
    merger_post(l->thread, &l->taking);
}

void looking_take(struct looking *l, struct look_batch *batch)
{
    if (!l)
        return;
    if (batch)
        STAILQ_INSERT_TAIL(&l->waiting, batch, next);
    if (!l->is_taking)
        post(l);
}

struct look_tap *looking_tap(struct looking *l)
{
    return look_tap_new(&l->store->rates, &l->store->budget, l->store->options.memory / BATCH_SHARE);
}

/* ---- questions ----------------------------------------------------------------------------- */

struct asking {
    struct looking *looking;
    struct http_exchange *exchange; /* NULL: it is gone */
    struct merger_job job;
    enum look_endpoint endpoint;
    struct call *call; /* it is one of querier.v1 instead of an endpoint's; NULL: it is not */
    bool has_place;    /* it is one of n_questions */
    bool wants_gzip;
    uint64_t deadline_ns;
    struct counting *counting; /* as it was when it was asked, or NULL */
    struct look_answer answer;
    bool is_done; /* it is answered, and its reader has yet to take it: he has one of the places as long */
    int r;
    size_t n;
    uint8_t query[];
};

/* What a call's head says, and its body, as it came. */
struct call {
    enum look_method method;
    bool is_json, is_malformed; /* malformed: the head */
    bool is_untimely;           /* its timeout is no number */
    bool is_too_large;          /* of the body, or of all bodies together */
    enum coding coding;
    uint64_t timeout_ns;
    struct buffer body;
};

/* Packed, unless it is packed already or a few words. Where there is no memory for that it leaves as it is.
 */
static void pack(struct look_answer *a)
{
    struct buffer packed = BUFFER_INIT(LOOK_ANSWER_MAX);
    struct gzip_stream *gzip = gzip_stream_new();
    if (gzip && gzip_stream_add(gzip, buffer_bytes(&a->body), true, &packed) == 0) {
        buffer_release(&a->body);
        a->body = packed;
        a->is_gzip = true;
    } else {
        buffer_release(&packed);
    }
    gzip_stream_free(gzip);
}

/* 0 or -ENOMEM. */
static int answer_call(struct asking *a)
{
    struct call *c = a->call;
    cleanup(buffer_release) struct buffer plain = BUFFER_INIT(0);
    struct coding_decoder *decoder = c->coding == CODING_IDENTITY ? NULL : coding_decoder_new();
    int r =
        decoder ? coding_decode(decoder, c->coding, buffer_bytes(&c->body), CALL_BYTES, 0, NULL, &plain) : 0;
    coding_decoder_free(decoder);
    const struct bytes body = decoder ? buffer_bytes(&plain) : buffer_bytes(&c->body);
    if (r == 0 && (decoder || c->coding == CODING_IDENTITY))
        r = look_query(a->looking->store, c->method, c->is_json, body, clock_realtime(), a->deadline_ns,
                       &a->answer);
    else
        r = look_query_error(&a->answer, r > 0 ? GRPC_INVALID_ARGUMENT : GRPC_UNAVAILABLE,
                             r > 0 ? "the body is not what its encoding says, or too large"
                                   : "out of memory");
    return r;
}

static void work(void *arg)
{
    struct asking *a = arg;
    const struct counting *c = a->counting;
    a->looking->store->rules =
        c ? (struct look_rules){c->rules.set, c->rules.program} : (struct look_rules){0};
    a->r = a->call ? answer_call(a)
                   : look_answer(a->looking->store, a->endpoint, bytes_of(a->query, a->n), clock_realtime(),
                                 a->deadline_ns, &a->answer);
    if (a->r == 0 && a->wants_gzip && !a->answer.is_gzip && a->answer.body.n >= GZIP_MIN)
        pack(&a->answer);
}

/* A profile is a gzipped file; the others are packed on their way. */
static void reply(struct http_exchange *x, const struct look_answer *a, bool is_file)
{
    struct http_header headers[6] = {
        {BYTES_LIT("content-type"), bytes_str(a->type)},
        {BYTES_LIT("cache-control"), BYTES_LIT("no-store")},
        {BYTES_LIT("x-content-type-options"), BYTES_LIT("nosniff")},
        {BYTES_LIT("vary"), BYTES_LIT("accept-encoding")},
    };
    uint32_t n = 4;
    if (a->is_gzip && !is_file)
        headers[n++] = (struct http_header){BYTES_LIT("content-encoding"), BYTES_LIT("gzip")};
    if (is_file && a->status == 200)
        headers[n++] = (struct http_header){BYTES_LIT("content-disposition"),
                                            BYTES_LIT("attachment; filename=\"profile.pb.gz\"")};
    if (a->status == 415)
        headers[n++] =
            (struct http_header){BYTES_LIT("accept-post"), BYTES_LIT("application/proto, application/json")};
    if (a->status == 429 || a->status == 503)
        headers[n++] = (struct http_header){BYTES_LIT("retry-after"), BYTES_LIT("1")};
    http_reply(x,
               &(struct http_reply){
                   .status = a->status, .headers = headers, .n_headers = n, .body = buffer_bytes(&a->body)});
}

static void refuse(struct http_exchange *x, uint32_t status, const char *words)
{
    struct look_answer a = {0};
    if (look_answer_error(&a, status, words) == 0)
        reply(x, &a, false);
    else
        http_reply(x, &(struct http_reply){.status = status});
    buffer_release(&a.body);
}

static void asking_free(struct asking *a)
{
    a->looking->n_questions -= a->has_place;
    counting_drop(a->counting);
    if (a->call) {
        budget_refund(&a->looking->bodies, a->call->body.n);
        buffer_release(&a->call->body);
        free(a->call);
    }
    buffer_release(&a->answer.body);
    free(a);
}

/* The exchange may be gone when it is answered, and this with it. */
static void done(void *arg)
{
    struct asking *a = arg;
    struct http_exchange *x = a->exchange;
    struct look_answer answer = a->answer;
    a->answer.body = (struct buffer){0};
    a->is_done = true;
    const int r = a->r;
    const bool is_file = !a->call && a->endpoint == LOOK_PPROF;
    if (!x)
        asking_free(a);
    else if (r < 0)
        refuse(x, 503, "out of memory");
    else
        reply(x, &answer, is_file);
    buffer_release(&answer.body);
}

static void on_close(void *context, struct http_exchange *x)
{
    struct asking *a = context;
    if (a->is_done || !a->has_place) /* the thread has nothing of it */
        asking_free(a);
    else
        a->exchange = NULL;
}

static const struct http_handler handler = {.on_close = on_close};

static void post_question(struct asking *a)
{
    a->has_place = true;
    a->counting = a->looking->counting ? counting_use(a->looking->counting) : NULL;
    a->looking->n_questions++;
    a->job = (struct merger_job){.work = work, .done = done, .arg = a};
    merger_post(a->looking->thread, &a->job);
}

static void ask(struct looking *l, enum look_endpoint endpoint, struct http_exchange *x)
{
    if (l->n_questions >= QUESTIONS_MAX) {
        refuse(x, 429, "four queries are running; try again in a second");
        return;
    }
    struct asking *a = calloc(1, sizeof *a + x->query.n);
    if (!a) {
        refuse(x, 503, "out of memory");
        return;
    }
    a->looking = l;
    a->exchange = x;
    a->endpoint = endpoint;
    a->wants_gzip = query_accepts_gzip(http_header_find(x->headers, x->n_headers, "accept-encoding"));
    a->deadline_ns = clock_monotonic() + PATIENCE_NS;
    a->n = x->query.n;
    if (a->n > 0)
        memcpy(a->query, x->query.p, a->n);
    x->handler = &handler;
    x->context = a;
    post_question(a);
}

static void take_question(void *context, struct http_exchange *x)
{
    __typeof__(&((struct looking *)NULL)->pages[0]) page = context;
    ask(page->looking, page->endpoint, x);
}

/* ---- calls --------------------------------------------------------------------------------- */

static struct bytes header_of(const struct http_exchange *x, const char *name)
{
    return http_header_find(x->headers, x->n_headers, name);
}

/* "application/proto", with parameters or without. */
static bool is_media(struct bytes value, const char *type)
{
    const uint8_t *semicolon = value.n > 0 ? memchr(value.p, ';', value.n) : NULL;
    const struct bytes media =
        bytes_trim(semicolon ? bytes_of(value.p, (size_t)(semicolon - value.p)) : value);
    return media.n == strlen(type) && strncasecmp((const char *)media.p, type, media.n) == 0;
}

static void read_head(struct call *c, const struct http_exchange *x)
{
    const struct bytes type = header_of(x, "content-type"), timeout = header_of(x, "connect-timeout-ms");
    uint64_t ms = PATIENCE_NS / NSEC_PER_MSEC;
    c->is_json = is_media(type, "application/json");
    c->is_malformed = !c->is_json && !is_media(type, "application/proto");
    c->coding = coding_parse(header_of(x, "content-encoding"));
    c->is_untimely = timeout.p && quantity_u64(timeout, &ms) < 0;
    c->timeout_ns = min_of(ms, PATIENCE_NS / NSEC_PER_MSEC) * NSEC_PER_MSEC;
}

/* Nobody else has it any more: it is freed when the exchange closes. */
static void refuse_call(struct asking *a, enum grpc_code code, const char *words, uint32_t status)
{
    struct look_answer answer = {0};
    if (look_query_error(&answer, code, words) == 0) {
        answer.status = status > 0 ? status : answer.status;
        reply(a->exchange, &answer, false);
    } else {
        http_reply(a->exchange, &(struct http_reply){.status = 503});
    }
    buffer_release(&answer.body);
}

static void on_call_body(void *context, struct http_exchange *x, struct bytes piece)
{
    struct asking *a = context;
    struct call *c = a->call;
    struct budget *bodies = &a->looking->bodies;
    if (c->is_too_large)
        return;
    c->is_too_large = c->body.n + piece.n > CALL_BYTES || !budget_charge(bodies, piece.n);
    if (!c->is_too_large && buffer_add_bytes(&c->body, piece) < 0) {
        budget_refund(bodies, piece.n);
        c->is_too_large = true;
    }
}

static void on_call_end(void *context, struct http_exchange *x)
{
    struct asking *a = context;
    const struct call *c = a->call;
    if (c->is_malformed) {
        refuse_call(a, GRPC_UNKNOWN, "content-type: application/proto or application/json", 415);
    } else if (c->is_untimely) {
        refuse_call(a, GRPC_INVALID_ARGUMENT, "Connect-Timeout-Ms: a number of milliseconds", 0);
    } else if (c->coding == CODING_UNKNOWN) {
        refuse_call(a, GRPC_UNIMPLEMENTED, "content-encoding: these are taken: " CODING_LIST, 0);
    } else if (c->is_too_large) {
        refuse_call(a, GRPC_RESOURCE_EXHAUSTED, "a call has 64 KiB at most", 0);
    } else if (a->looking->n_questions >= QUESTIONS_MAX) {
        refuse_call(a, GRPC_RESOURCE_EXHAUSTED, "four queries are running; try again in a second", 0);
    } else {
        a->deadline_ns = clock_monotonic() + c->timeout_ns;
        post_question(a);
    }
}

static const struct http_handler call_handler = {
    .on_body = on_call_body, .on_end = on_call_end, .on_close = on_close};

static void take_call(void *context, struct http_exchange *x)
{
    __typeof__(&((struct looking *)NULL)->calls[0]) page = context;
    struct asking *a = calloc(1, sizeof *a);
    struct call *c = calloc(1, sizeof *c);
    if (!a || !c) {
        free(a);
        free(c);
        http_reply(x, &(struct http_reply){.status = 503});
        return;
    }
    *c = (struct call){.method = page->method, .body = BUFFER_INIT(CALL_BYTES)};
    read_head(c, x);
    a->looking = page->looking;
    a->exchange = x;
    a->call = c;
    a->wants_gzip = query_accepts_gzip(header_of(x, "accept-encoding"));
    x->handler = &call_handler;
    x->context = a;
}

static uint32_t call_pages(struct looking *l, struct admin_page *ret)
{
    static const char *const names[] = {
#define X(method, name) name,
        LOOK_METHODS(X)
#undef X
    };
    for (uint32_t i = 0; i < LOOK_N_METHODS; i++) {
        l->calls[i].looking = l;
        l->calls[i].method = (enum look_method)i;
        snprintf(l->calls[i].path, sizeof l->calls[i].path, LOOK_SERVICE_PATH "%s", names[i]);
        ret[i] = (struct admin_page){
            .method = "POST", .path = l->calls[i].path, .take = take_call, .context = &l->calls[i]};
    }
    ret[0].doc = "and so on: Pyroscope's API of queries, for Grafana's data source";
    return LOOK_N_METHODS;
}

uint32_t looking_pages(struct looking *l, struct admin_page ret[LOOKING_PAGES_MAX])
{
    static const struct {
        const char *path, *doc;
    } endpoints[] = {
#define X(endpoint, name, doc) {"/api/v1/look/" name, doc},
        LOOK_ENDPOINTS(X)
#undef X
    };
    for (uint32_t i = 0; i < LOOK_N_ENDPOINTS; i++) {
        l->pages[i].looking = l;
        l->pages[i].endpoint = (enum look_endpoint)i;
        ret[i] = (struct admin_page){.method = "GET",
                                     .path = endpoints[i].path,
                                     .doc = endpoints[i].doc,
                                     .take = take_question,
                                     .context = &l->pages[i]};
    }
    return LOOK_N_ENDPOINTS + call_pages(l, &ret[LOOK_N_ENDPOINTS]);
}

/* ---- life ---------------------------------------------------------------------------------- */

/* Whether only this machine can reach it. */
static bool is_loopback(const char *endpoint)
{
    char host[INET6_ADDRSTRLEN + 2] = "";
    uint8_t address[sizeof(struct in6_addr)];
    if (bytes_starts(bytes_str(endpoint), "unix:"))
        return true;
    const char *colon = strrchr(endpoint, ':');
    const size_t n = colon ? (size_t)(colon - endpoint) : strlen(endpoint);
    if (n == 0 || n >= sizeof host)
        return false;
    const bool is_bracketed = endpoint[0] == '[' && endpoint[n - 1] == ']';
    memcpy(host, endpoint + is_bracketed, n - 2u * is_bracketed);
    if (strcasecmp(host, "localhost") == 0)
        return true;
    if (inet_pton(AF_INET, host, address) == 1)
        return address[0] == 127;
    return inet_pton(AF_INET6, host, address) == 1 &&
           memcmp(address, &in6addr_loopback, sizeof in6addr_loopback) == 0;
}

int looking_new(struct looking **ret, const struct config *c, struct io_loop *loop, struct budget *budget,
                struct error *e)
{
    *ret = NULL;
    if (c->look_memory == 0)
        return 0;
    if (!c->look_expose && !door_knows(&c->admin_door) && !is_loopback(c->admin_endpoint)) {
        log_warn(
            "look is off: stacks tell more than counters, and who asks for them is not known at an address that other "
            "machines reach; admin.auth asks, and look.expose: true shows them to everybody endpoint=%s",
            c->admin_endpoint);
        return 0;
    }
    struct looking *l = calloc(1, sizeof *l);
    const struct look_store_options options = {
        .memory = min_of(c->look_memory, c->memory / LOOKING_MEMORY_SHARE),
        .retention_ns = c->look_retention_ns,
        .samples_per_second = c->look_samples_per_second,
    };
    if (!l || !(l->store = look_store_new(&options, budget))) {
        free(l);
        return error_set(e, -ENOMEM, "out of memory");
    }
    l->loop = loop;
    l->bodies = (struct budget)BUDGET_INIT(CALLS_BYTES, budget);
    STAILQ_INIT(&l->waiting);
    STAILQ_INIT(&l->working);
    const bool is_kept = c->look_storage && c->look_storage[0];
    int r = is_kept ? look_store_keep_in(l->store, c->look_storage, c->look_storage_bytes, e) : 0;
    if (r == 0 && (r = merger_new(&l->thread, loop)) < 0)
        error_set(e, r, "no thread for look: %s", strerror(-r));
    if (r < 0) {
        look_store_free(l->store);
        free(l);
        return r;
    }
    *ret = l;
    return 0;
}

void looking_set_counting(struct looking *l, struct counting *c)
{
    if (!l)
        return;
    counting_drop(l->counting);
    l->counting = counting_use(c);
}

void looking_end(struct looking *l)
{
    while (l && !merger_is_over(l->thread))
        io_loop_run_once(l->loop, NSEC_PER_SEC);
}

struct looking *looking_free(struct looking *l)
{
    if (!l)
        return NULL;
    merger_free(l->thread);
    look_store_free(l->store);
    counting_drop(l->counting);
    free(l);
    return NULL;
}
