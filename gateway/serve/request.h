/*
 * A request under way: what its head said, and its body as it comes in, collected into one piece of memory
 * with a limit and on the budget. Requests and their memory are pooled, so that a small one costs no malloc.
 */
#ifndef GATEWAY_SERVE_REQUEST_H
#define GATEWAY_SERVE_REQUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gateway/serve/refusal.h"
#include "gateway/serve/route.h"
#include "proto/base/budget.h"
#include "proto/base/buffer.h"
#include "proto/grpc/frame.h"

struct request {
    struct request *next; /* in the pool */
    struct route route;
    uint64_t deadline_ns;       /* monotonic; UINT64_MAX: none */
    int64_t content_length;     /* -1: not told */
    struct grpc_reader message; /* gRPC only */
    struct buffer body;         /* gRPC: the message without its prefix */
};

struct request_pool {
    struct request *free;
    uint32_t n_free;
    size_t kept, keep_max; /* bytes of bodies in the pool, and how many there may be */
    size_t body_max;
    struct budget *budget;
};

/* One with an empty body, or NULL when memory or the budget is out. */
struct request *request_get(struct request_pool *pool, const struct route *route, int64_t content_length);

/* Back to the pool; q may be NULL. */
void request_put(struct request_pool *pool, struct request *q);

/* A piece of the body. REFUSAL_NONE, or why the request ends here. */
enum refusal request_add(struct request_pool *pool, struct request *q, struct bytes piece);

/* The body has ended. REFUSAL_NONE: q->body is complete, with PROFILES_PADDING readable bytes behind it. */
enum refusal request_end(struct request_pool *pool, struct request *q);

/* Whether the body is still coded: gRPC's flag, or HTTP's Content-Encoding. */
bool request_is_coded(const struct request *q);

void request_pool_release(struct request_pool *pool);

#endif
