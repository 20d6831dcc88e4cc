/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests that take long: which of them go to a lane, and what becomes of them there.
 */
#include <pthread.h>
#include <time.h>

#include "gateway/ingest/ingest.h"
#include "gateway/serve/lanes/lanes.h"
#include "proto/base/clock.h"
#include "proto/base/macros.h"
#include "proto/coding/coding.h"
#include "proto/io/loop.h"

/* fake.h's ingest is called by the one below. */
void fake_ingest_push(struct ingest *g, struct bytes body, enum profiles_layout layout,
                      struct received *received, struct ingest_answer *ret);
#define ingest_push fake_ingest_push
#include "tests/unit/gateway/serve/fake.h"
#undef ingest_push

/* ingest, which stops at a gate on a lane, takes its time if told to, and says on which thread it was. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static bool shut, is_at_gate, by_lane;
static uint64_t busy_ns;
static pthread_t worker;

void ingest_push(struct ingest *g, struct bytes body, enum profiles_layout layout, struct received *received,
                 struct ingest_answer *ret)
{
    struct timespec t;
    uint64_t until = 0, now = 0;
    do {
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
        now = (uint64_t)t.tv_sec * NSEC_PER_SEC + (uint64_t)t.tv_nsec;
        until = until ? until : now + busy_ns;
    } while (now < until);
    pthread_mutex_lock(&lock);
    by_lane = !pthread_equal(pthread_self(), worker);
    is_at_gate = true;
    pthread_cond_broadcast(&changed);
    while (shut && by_lane)
        pthread_cond_wait(&changed, &lock);
    is_at_gate = false;
    fake_ingest_push(g, body, layout, received, ret);
    pthread_mutex_unlock(&lock);
}

static void set_gate(bool is_shut)
{
    pthread_mutex_lock(&lock);
    shut = is_shut;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

static void await_at_gate(void)
{
    ck_assert_uint_eq(n_replies, 0); /* it was not refused */
    pthread_mutex_lock(&lock);
    while (!is_at_gate)
        pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
}

/* While a lane may be pushing. */
static unsigned pushes(void)
{
    pthread_mutex_lock(&lock);
    unsigned n = n_pushes;
    pthread_mutex_unlock(&lock);
    return n;
}

struct fixture {
    struct budget budget;
    struct io_loop *loop;
    struct lanes *lanes;
    struct processor *lane;
    struct serve *serve;
    struct http_peer peer;
    uint8_t *bytes; /* 1 MiB */
    int n_wanted;
    bool gives_up;
};

static void wanted(void *context)
{
    struct fixture *f = context;
    f->n_wanted++;
    if (f->gives_up)
        lanes_give_up(f->lanes);
    else
        ck_assert_int_eq(lanes_add(f->lanes, f->lane), 0);
}

static void start(struct fixture *f)
{
    *f = (struct fixture){.budget = BUDGET_INIT(64 << 20, NULL),
                          .peer = {.address = "192.0.2.1:1", .host = 7}};
    struct serve_options o = SERVE_OPTIONS_DEFAULT;
    o.request_bytes = 8 << 20;
    o.retry_after_ns = 1500000000;
    worker = pthread_self();
    shut = by_lane = false;
    busy_ns = 0;
    f->bytes = unit_made(calloc(1, 1 << 20));
    f->loop = unit_made(io_loop_new());
    f->lanes = unit_made(lanes_new(&(struct lanes_options){1, 2 << 20, wanted, f}));
    f->lane = unit_made(serve_lane_new(&o, NULL, NULL, &f->budget));
    o.lanes = f->lanes;
    o.loop = f->loop;
    f->serve = unit_made(serve_new(&o, NULL, NULL, &f->budget));
    next_answer = (struct ingest_answer){.verdict = INGEST_ACCEPTED};
    n_pushes = 0;
}

static void stop(struct fixture *f)
{
    set_gate(false);
    fake_release(f->serve);
    lanes_stop(f->lanes);
    serve_lane_free(f->lane);
    io_loop_free(f->loop);
    lanes_free(f->lanes);
    free(f->bytes);
    ck_assert_uint_eq(atomic_load(&f->budget.used), 0);
}

static struct call post(const struct fixture *f, size_t n)
{
    return (struct call){
        .path = HTTP_PATH, .headers = {PROTO_TYPE}, .body = bytes_of(f->bytes, n), .step = 65536};
}

/* A request up to the end of its body. */
static void send(struct fixture *f, struct http_exchange *x, const struct call *call)
{
    const struct http_handler *h = serve_handler();
    exchange_begin(call, x);
    x->peer = &f->peer;
    n_replies = 0;
    said.n = 0;
    h->on_head(f->serve, x);
    for (size_t at = 0; at < call->body.n && n_replies == 0; at += call->step)
        h->on_body(f->serve, x, bytes_of(call->body.p + at, min_of(call->step, call->body.n - at)));
    if (n_replies == 0)
        h->on_end(f->serve, x);
}

static const char *answer(struct fixture *f, struct http_exchange *x)
{
    unit_until(n_replies > 0, io_loop_run_once(f->loop, NSEC_PER_SEC / 10));
    serve_handler()->on_close(f->serve, x);
    ck_assert_int_eq(buffer_add(&said, "", 1), 0);
    return (const char *)said.p;
}

static const char *ask_with(struct fixture *f, const struct call *call)
{
    struct http_exchange x;
    send(f, &x, call);
    return answer(f, &x);
}

#define begins(text, part) ck_assert_msg(strncmp(text, part, strlen(part)) == 0, "it is: %s", text)

UNIT(what_is_large_is_done_by_a_lane_and_what_is_not_by_the_worker)
{
    struct fixture f;
    start(&f);
    struct call call = post(&f, 256 << 10);
    begins(ask_with(&f, &call), "200\n");
    ck_assert(!by_lane);
    ck_assert_int_eq(f.n_wanted, 0); /* who never sees a large one has no lane */
    call = post(&f, (256 << 10) + 1);
    memset(f.bytes, 'x', 1 << 20);
    begins(ask_with(&f, &call), "200\n");
    ck_assert(by_lane);
    ck_assert_int_eq(f.n_wanted, 1);
    ck_assert(bytes_eq(buffer_bytes(&pushed), call.body));
    call = post(&f, 100);
    begins(ask_with(&f, &call), "200\n");
    ck_assert(!by_lane);
    ck_assert_uint_eq(n_pushes, 3);
    stop(&f);
}

UNIT(what_becomes_large_is_too_in_every_coding)
{
    static const struct {
        enum coding coding;
        struct http_header header;
    } rows[] = {{CODING_GZIP, H("content-encoding", "gzip")},
                {CODING_DEFLATE, H("content-encoding", "deflate")},
                {CODING_ZSTD, H("content-encoding", "zstd")},
                {CODING_SNAPPY, H("content-encoding", "snappy")}};
    struct fixture f;
    start(&f);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        for (int large = 0; large < 2; large++) {
            struct coding_encoder *e = unit_made(coding_encoder_new(rows[i].coding, 0));
            struct buffer coded = BUFFER_INIT(0);
            struct bytes plain = bytes_of(f.bytes, large ? 1 << 20 : 256 << 10);
            ck_assert_int_eq(coding_encode(e, plain, &coded), 0);
            struct call call = post(&f, 0);
            call.headers[1] = rows[i].header;
            call.body = buffer_bytes(&coded);
            ck_assert_uint_lt(coded.n, 256 << 10);
            begins(ask_with(&f, &call), "200\n");
            ck_assert_msg(by_lane == (large == 1), "%s, large: %d", coding_name(rows[i].coding), large);
            ck_assert(bytes_eq(buffer_bytes(&pushed), plain));
            buffer_release(&coded);
            coding_encoder_free(e);
        }
    stop(&f);
}

UNIT(what_is_wrong_with_it_is_said_as_by_the_worker)
{
    struct fixture f;
    start(&f);
    struct call call = post(&f, 1 << 20);
    next_answer.verdict = INGEST_MALFORMED;
    error_set(&next_answer.message, 0, "as I say");
    begins(ask_with(&f, &call), "400\n");
    ck_assert_ptr_nonnull(strstr((char *)said.p, "as I say"));
    next_answer.verdict = INGEST_BUSY;
    next_answer.retry_after_ns = 3 * NSEC_PER_SEC;
    begins(ask_with(&f, &call), "503\n");
    ck_assert_ptr_nonnull(strstr((char *)said.p, "retry-after: 3\n"));
    n_pushes = 0;
    call.headers[1] = (struct http_header)H("content-encoding", "gzip"); /* it is none */
    begins(ask_with(&f, &call), "400\n");
    ck_assert_ptr_nonnull(strstr((char *)said.p, "gzip"));
    ck_assert_uint_eq(n_pushes, 0);
    stop(&f);
}

UNIT(who_vanishes_while_a_lane_works_is_counted_and_nobody_is_answered)
{
    struct fixture f;
    start(&f);
    struct http_exchange x;
    struct call call = post(&f, 1 << 20);
    set_gate(true);
    send(&f, &x, &call);
    await_at_gate();
    serve_handler()->on_close(f.serve, &x);
    memset(&x, 0xa5, sizeof x); /* it is gone */
    set_gate(false);
    unit_until(pushes() > 0, io_loop_run_once(f.loop, NSEC_PER_SEC / 100));
    ck_assert_uint_eq(pushes(), 1);
    ck_assert_uint_eq(n_replies, 0);
    call = post(&f, 1 << 20);
    begins(ask_with(&f, &call), "200\n"); /* the lane goes on */
    stop(&f);
}

UNIT(who_vanishes_while_he_waits_is_not_worked_for)
{
    struct fixture f;
    start(&f);
    struct http_exchange first, second;
    struct call call = post(&f, 512 << 10);
    set_gate(true);
    send(&f, &first, &call);
    await_at_gate();
    send(&f, &second, &call);
    ck_assert_uint_eq(lanes_waiting(f.lanes), 1);
    serve_handler()->on_close(f.serve, &second);
    ck_assert_uint_eq(lanes_waiting(f.lanes), 0);
    set_gate(false);
    begins(answer(&f, &first), "200\n");
    ck_assert_uint_eq(n_pushes, 1);
    stop(&f);
}

UNIT(a_full_queue_is_503_with_a_hint)
{
    struct fixture f;
    start(&f);
    struct http_exchange x[5];
    struct call call = post(&f, 512 << 10);
    int n = 0;
    set_gate(true);
    send(&f, &x[n++], &call);
    await_at_gate();
    send(&f, &x[n++], &call);
    ck_assert_uint_eq(n_replies, 0);
    while (n < 5 && n_replies == 0) /* half of 2 MiB is this client's, in memory */
        send(&f, &x[n++], &call);
    ck_assert_uint_eq(n_replies, 1);
    ck_assert_int_eq(buffer_add(&said, "", 1), 0);
    begins((char *)said.p, "503\n");
    ck_assert_ptr_nonnull(strstr((char *)said.p, "retry-after: 2\n"));
    ck_assert_ptr_nonnull(strstr((char *)said.p, "large requests"));
    n_replies = 0;
    for (int i = 0; i < n; i++)
        serve_handler()->on_close(f.serve, &x[i]);
    stop(&f); /* with the first under way: it is waited for */
    ck_assert_uint_eq(n_pushes, 1);
}

UNIT(without_a_lane_it_is_503)
{
    struct fixture f;
    start(&f);
    f.gives_up = true;
    struct call call = post(&f, 1 << 20);
    begins(ask_with(&f, &call), "503\n");
    ck_assert_uint_eq(n_pushes, 0);
    f.gives_up = false;
    begins(ask_with(&f, &call), "200\n");
    stop(&f);
}

UNIT(a_deadline_that_passes_in_the_queue_is_told_and_not_counted)
{
    struct fixture f;
    start(&f);
    struct http_exchange first, second;
    struct call call = post(&f, 512 << 10);
    set_gate(true);
    send(&f, &first, &call);
    await_at_gate();
    f.bytes[2] = 0x07; /* the prefix of a message of 0x070000 bytes */
    struct call late = {.path = GRPC_PATH,
                        .headers = {GRPC_TYPE, H("grpc-timeout", "1S")},
                        .body = bytes_of(f.bytes, 5 + 0x070000),
                        .step = 1 << 20};
    uint64_t began = clock_monotonic();
    send(&f, &second, &late);
    ck_assert_uint_eq(n_replies, 0);
    ck_assert_uint_eq(lanes_waiting(f.lanes), 1);
    while (clock_monotonic() - began < NSEC_PER_SEC)
        io_loop_run_once(f.loop, NSEC_PER_MSEC * 10);
    /* http_reply of the fake takes one answer at a time. */
    n_replies = 0;
    serve_handler()->on_close(f.serve, &first);
    set_gate(false);
    ck_assert_ptr_nonnull(strstr(answer(&f, &second), "grpc-status: 4\n"));
    ck_assert_uint_eq(n_pushes, 1);
    stop(&f);
}

UNIT(whose_requests_are_slow_goes_to_a_lane_and_others_do_not)
{
    struct fixture f;
    start(&f);
    struct call call = post(&f, 20 << 10);
    busy_ns = 15 * NSEC_PER_MSEC;
    begins(ask_with(&f, &call), "200\n");
    ck_assert(!by_lane); /* nobody knew */
    busy_ns = 0;
    begins(ask_with(&f, &call), "200\n");
    ck_assert(by_lane);
    call = post(&f, 16 << 10);
    begins(ask_with(&f, &call), "200\n");
    ck_assert(!by_lane); /* small ones stay */
    call = post(&f, 20 << 10);
    f.peer.host = 8;
    begins(ask_with(&f, &call), "200\n");
    ck_assert(!by_lane);
    stop(&f);
}

UNIT(whose_requests_are_dear_together_is_slow_too)
{
    struct fixture f;
    start(&f);
    const struct call call = post(&f, 20 << 10);
    busy_ns = 7 * NSEC_PER_MSEC;
    for (int i = 0; i < 4; i++) {
        begins(ask_with(&f, &call), "200\n");
        ck_assert(!by_lane); /* a profiler's first ones, with every name new */
    }
    for (int i = 0; i < 2; i++)
        begins(ask_with(&f, &call), "200\n");
    begins(ask_with(&f, &call), "200\n");
    ck_assert(by_lane);
    f.peer.host = 8;
    busy_ns = NSEC_PER_MSEC;
    for (int i = 0; i < 60; i++) {
        begins(ask_with(&f, &call), "200\n");
        ck_assert(!by_lane); /* many that are not */
    }
    stop(&f);
}
