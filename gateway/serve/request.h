/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A request under way: what its head said, and its body as it comes in, collected into one piece of memory
 * with a limit and on the budget. Requests and their memory are pooled, so that a small one costs no malloc.
 */
#ifndef GATEWAY_SERVE_REQUEST_H
#define GATEWAY_SERVE_REQUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gateway/access/pass.h"
#include "gateway/serve/intake.h"
#include "gateway/serve/refusal.h"
#include "proto/base/budget.h"
#include "proto/base/buffer.h"
#include "proto/coding/coding.h"
#include "proto/grpc/frame.h"

struct http_exchange;
struct offloaded;
struct serve;
struct unsafe;

/* What its head said (route.h). */
struct route {
    const struct intake *intake; /* NULL: it is refused */
    const struct intake *near;   /* with REFUSAL_MEDIA_TYPE: a row that would take another type there */
    const struct intake_words *words;
    enum intake_protocol protocol;
    enum coding coding; /* Content-Encoding of the body; gRPC: grpc-encoding of messages that say they are
                           compressed */
    enum profiles_layout layout; /* what the request says that it has; UNKNOWN: nothing */
    bool expects_continue;       /* the body only comes when it is asked for (RFC 9110 §10.1.1) */
    uint64_t timeout_ns;         /* gRPC: how long the client waits; UINT64_MAX: it did not say */
};

enum request_state {
    REQUEST_TAKING,    /* its body is being collected */
    REQUEST_WAITING,   /* likewise, but who sends it is still being found out */
    REQUEST_REFUSED,   /* its body is being thrown away, then the refusal is said */
    REQUEST_ANSWERING, /* its answer goes out in pieces */
};

struct request {
    struct request *next; /* in the pool */
    struct serve *serve;
    struct http_exchange *exchange; /* NULL: it is gone, and a lane still has the request */
    struct unsafe *unsafe;          /* its answer waits until it is safe; else NULL */
    struct offloaded *offloaded;    /* on its way through a lane; else NULL */
    enum request_state state;
    bool ended;           /* the body is complete */
    enum refusal refusal; /* WAITING: to be said to those who may; REFUSED: to be said at the end */
    uint64_t retry_ns;    /* goes with it; 0: the usual */
    size_t discarded;     /* bytes of the body */
    size_t n_waiting;     /* bytes of it that the budget of those who wait is charged with */
    struct access_pass pass;
    struct access_wait wait;
    struct route route;
    uint64_t began_ns;          /* monotonic: its head came */
    uint64_t client;            /* whose it is, as ingest_from says; of a complete one */
    uint64_t deadline_ns;       /* monotonic; UINT64_MAX: none */
    int64_t content_length;     /* -1: not told */
    struct grpc_reader message; /* gRPC only */
    struct buffer body;         /* gRPC: the message without its prefix */
    size_t grown_to;            /* the body's memory, where this request made it grow; else 0 */
    struct buffer head_text;    /* what `head` points to: it outlives the exchange on a lane */
    struct intake_head head;    /* of intakes that read it */
    struct buffer answer;       /* what an intake answers, on the budget, and how much of it is sent */
    size_t n_answered;
    const char *answer_type;
    size_t n_collected; /* bytes of it, also when it was taken over */
};

struct request_pool {
    struct request *free;
    uint32_t n_free;
    size_t kept, keep_max; /* bytes of bodies in the pool, and how many there may be */
    size_t body_max;
    const struct from_pprof_links *links; /* intake_head has it */
    struct budget *budget;
};

/* One with an empty body, or NULL when memory or the budget is out. */
struct request *request_get(struct request_pool *pool, const struct route *route, int64_t content_length);

/* Back to the pool; q may be NULL. */
void request_put(struct request_pool *pool, struct request *q);

/* Keeps what the intake wants of the head, if it does. REFUSAL_NONE or REFUSAL_BUSY. */
enum refusal request_keep_head(struct request_pool *pool, struct request *q, const struct http_exchange *x);

/* A piece of the body. REFUSAL_NONE, or why the request ends here. */
enum refusal request_add(struct request_pool *pool, struct request *q, struct bytes piece);

/* The body has ended. REFUSAL_NONE: q->body is complete, with PROFILES_PADDING readable bytes behind it. */
enum refusal request_end(struct request_pool *pool, struct request *q);

/* Whether the body is still coded: gRPC's flag, or HTTP's Content-Encoding. */
bool request_is_coded(const struct request *q);

void request_pool_release(struct request_pool *pool);

#endif
