/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The thread has a loop of its own, for an inquiry of proto/client's: the loop runs until that ends, and the
 * thread waits for the next wish. The table of the last answer is
 * everybody's, under a lock; a new one takes its place whole.
 */
#include "sender/pods/pods.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "proto/base/clock.h"
#include "proto/base/log.h"
#include "proto/base/macros.h"
#include "proto/base/thread.h"
#include "proto/client/endpoint.h"
#include "proto/client/inquiry.h"
#include "proto/grpc/frame.h"
#include "proto/io/loop.h"

/* What response_max counts beside the body. */
#define RESPONSE_HEAD_MAX (16u << 10)
#define KUBELET_PORT      10255

struct pods {
    struct endpoint endpoint;
    bool is_cri;
    char *path;
    void (*begin)(void);
    pthread_t thread;
    bool is_running;
    struct io_loop *loop;
    struct io_post stop; /* to the loop */

    /* The thread's. */
    struct inquiry *inquiry;
    struct pods_table *answer; /* to it, if it is one */
    struct error why;          /* it has none */
    uint64_t again_ns;         /* how long until it may be asked again */

    /* Everybody's. */
    pthread_mutex_t lock;
    pthread_cond_t wake;
    bool stopping, is_wanted;
    struct pods_table *table;
    struct pods_counts counts;
};

/* ---- one call ---- */

/* What an answer says, as a table. NULL: nothing, or memory is out; *why says it. */
static struct pods_table *read_answer(const struct pods *p, struct bytes body, const char **why)
{
    bool compressed = false;
    struct bytes message = body;
    if (p->is_cri && (grpc_message_find(body, PODS_ANSWER_MAX, &compressed, &message) != GRPC_READ_PAYLOAD ||
                      compressed)) {
        *why = "the answer is no gRPC message";
        return NULL;
    }
    struct pods_table *t = pods_table_new();
    int r = !t ? -ENOMEM : p->is_cri ? pods_table_read_cri(t, message) : pods_table_read_list(t, message);
    *why = r == 0 ? NULL : r == PODS_MALFORMED ? "the answer is no list of pods" : "out of memory";
    if (r != 0)
        return pods_table_free(t);
    pods_table_sort(t);
    return t;
}

static void on_answer(void *user, const struct http_response *response)
{
    struct pods *p = user;
    const char *why = NULL;
    char status[48];
    struct bytes code = BYTES_LIT("0");
    if (p->is_cri) { /* in the trailers, or in the only head there is */
        code = http_header_find(response->trailers, response->n_trailers, "grpc-status");
        if (!code.p)
            code = http_header_find(response->headers, response->n_headers, "grpc-status");
    }
    if (response->status != 200)
        snprintf(status, sizeof status, "it answers HTTP %u", response->status), why = status;
    else if (!bytes_is(code, "0"))
        snprintf(status, sizeof status, "it answers gRPC status %.*s", BYTES_FMT(code)), why = status;
    else
        p->answer = read_answer(p, response->body, &why);
    if (why)
        error_set(&p->why, -EIO, "%s", why);
}

static void on_end(void *user, enum inquiry_end end, const char *why)
{
    struct pods *p = user;
    p->inquiry = NULL;
    if (end != INQUIRY_ANSWERED)
        error_set(&p->why, -EIO, "%s", why);
    io_loop_stop(p->loop);
}

/* An empty ListContainersRequest: all of them. */
static const uint8_t everything[GRPC_PREFIX_BYTES];

/* Asks, and waits for the answer. NULL: there is none, p->why says why. */
static struct pods_table *ask(struct pods *p)
{
    static const struct http_header of_cri[] = {
        {BYTES_LIT("content-type"), BYTES_LIT("application/grpc")},
        {BYTES_LIT("te"), BYTES_LIT("trailers")},
        {BYTES_LIT("user-agent"), BYTES_LIT("profsend/" PROFGATE_VERSION)},
    };
    static const struct http_header of_kubelet[] = {
        {BYTES_LIT("accept"), BYTES_LIT("application/json")},
        {BYTES_LIT("user-agent"), BYTES_LIT("profsend/" PROFGATE_VERSION)},
    };
    const struct inquiry_options options = {
        .connection = {.loop = p->loop,
                       .endpoint = &p->endpoint,
                       .http2 = p->is_cri,
                       .response_max = PODS_ANSWER_MAX + RESPONSE_HEAD_MAX},
        .request = {.method = p->is_cri ? "POST" : "GET",
                    .path = p->path,
                    .headers = p->is_cri ? of_cri : of_kubelet,
                    .n_headers = p->is_cri ? ARRAY_LEN(of_cri) : ARRAY_LEN(of_kubelet),
                    .body = p->is_cri ? bytes_of(everything, sizeof everything) : bytes_of(NULL, 0)},
        .timeout_ns = PODS_TIMEOUT_NS,
        .on_answer = on_answer,
        .on_end = on_end,
        .user = p,
    };
    p->answer = NULL;
    uv_update_time(io_loop_uv(p->loop)); /* it has stood since the last call */
    p->inquiry = inquiry_new(&options);
    if (p->inquiry)
        io_loop_run(p->loop);
    else
        error_set(&p->why, -ENOMEM, "out of memory");
    return take_ptr(p->answer);
}

/* ---- the thread ---- */

/* Takes the answer for everybody's. */
static void take(struct pods *p, struct pods_table *fresh)
{
    pthread_mutex_lock(&p->lock);
    struct pods_table *old = p->table;
    bool was_failing = p->counts.failed == p->counts.asked && p->counts.asked;
    p->counts.asked++;
    p->counts.failed += fresh == NULL;
    if (fresh)
        p->table = fresh;
    pthread_mutex_unlock(&p->lock);
    if (!fresh) {
        log_limited(LOG_LEVEL_WARN, "names of pods: %s: %s", p->endpoint.authority, p->why.text);
    } else if (was_failing) {
        log_info("names of pods: it answers");
    }
    bool is_news = fresh && (!old || pods_table_is_more(fresh, old));
    p->again_ns = is_news ? PODS_AGAIN_NS : min_of(2 * p->again_ns, (uint64_t)PODS_AGAIN_MAX_NS);
    if (fresh)
        pods_table_free(old);
}

/* Waits until somebody wants to know, and that not before `next`. False: it is to end. */
static bool wait(struct pods *p, uint64_t next)
{
    autolock(&p->lock);
    while (!p->stopping && !(p->is_wanted && clock_monotonic() >= next))
        (void)condition_wait(&p->wake, &p->lock, p->is_wanted ? next : UINT64_MAX);
    p->is_wanted = false;
    return !p->stopping;
}

static void *run(void *argument)
{
    struct pods *p = argument;
    if (p->begin)
        p->begin();
    p->again_ns = PODS_AGAIN_NS;
    for (uint64_t next = 0; wait(p, next); next = clock_monotonic() + p->again_ns)
        take(p, ask(p));
    return NULL;
}

static void on_stop(void *argument)
{
    struct pods *p = argument;
    if (!p->inquiry)
        return;
    p->inquiry = inquiry_free(p->inquiry);
    error_set(&p->why, -EIO, "the program ends");
    io_loop_stop(p->loop);
}

/* ---- */

static int parse(struct endpoint *ret, bool *ret_is_cri, const char *where, struct error *e)
{
    int r = endpoint_parse(ret, where, KUBELET_PORT, e);
    if (r < 0)
        return r;
    *ret_is_cri = ret->is_unix;
    if (!ret->tls)
        return 0;
    endpoint_release(ret);
    return error_set(e, -EINVAL, "\"%s\": only plain http is spoken there: a kubelet's read-only port",
                     where);
}

int pods_check(const char *where, struct error *e)
{
    struct endpoint endpoint;
    bool is_cri;
    int r = parse(&endpoint, &is_cri, where, e);
    if (r == 0)
        endpoint_release(&endpoint);
    return r;
}

static int start(struct pods *p, const char *where, struct error *e)
{
    int r = parse(&p->endpoint, &p->is_cri, where, e);
    if (r < 0)
        return r;
    const char *path = p->is_cri           ? "/runtime.v1.RuntimeService/ListContainers"
                       : *p->endpoint.path ? p->endpoint.path
                                           : "/pods";
    p->path = strdup(path);
    p->loop = io_loop_new();
    p->stop = (struct io_post){.fn = on_stop, .arg = p};
    if (!p->path || !p->loop)
        return error_set(e, -ENOMEM, "out of memory");
    p->is_wanted = true; /* the names of what runs already */
    r = thread_begin(&p->thread, NULL, "pods", run, p);
    p->is_running = r == 0;
    return r == 0 ? 0 : error_set(e, r, "no thread can be made: %s", strerror(-r));
}

int pods_new(struct pods **ret, const char *where, void (*begin)(void), struct error *e)
{
    struct pods *p = calloc(1, sizeof *p);
    if (!p)
        return error_set(e, -ENOMEM, "out of memory");
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->wake, NULL);
    p->begin = begin;
    int r = start(p, where, e);
    if (r < 0) {
        pods_free(p);
        return r;
    }
    *ret = p;
    return 0;
}

struct pods *pods_free(struct pods *p)
{
    if (!p)
        return NULL;
    if (p->is_running) {
        pthread_mutex_lock(&p->lock);
        p->stopping = true;
        pthread_cond_signal(&p->wake);
        pthread_mutex_unlock(&p->lock);
        io_loop_post_in(p->loop, &p->stop);
        pthread_join(p->thread, NULL);
    }
    if (p->loop && io_loop_is_resolving(p->loop))
        return p;
    if (p->loop)
        io_loop_free(p->loop);
    pods_table_free(p->answer);
    pods_table_free(p->table);
    endpoint_release(&p->endpoint);
    pthread_cond_destroy(&p->wake);
    pthread_mutex_destroy(&p->lock);
    free(p->path);
    free(p);
    return NULL;
}

static void copy(char to[PODS_NAME_MAX + 1], struct bytes name)
{
    snprintf(to, PODS_NAME_MAX + 1, "%.*s", BYTES_FMT(name));
}

bool pods_find(struct pods *p, struct bytes container_id, struct pods_found *ret)
{
    struct pods_names names;
    if (container_id.n == 0)
        return false;
    autolock(&p->lock);
    bool is_known = p->table && pods_table_find(p->table, container_id, &names);
    if (is_known) {
        copy(ret->pod, names.pod);
        copy(ret->space, names.space);
        copy(ret->container, names.container);
    } else if (!p->is_wanted) {
        p->is_wanted = true;
        pthread_cond_signal(&p->wake);
    }
    return is_known;
}

struct pods_counts pods_counts(struct pods *p)
{
    autolock(&p->lock);
    return p->counts;
}
