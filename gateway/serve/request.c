/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory is charged as it is filled. What a peer announces (content-length, a gRPC message's length) only
 * makes the first piece reserve more, up to RESERVE_MAX, so that most bodies are allocated once and
 * announcing costs nobody else's budget.
 *
 * A gRPC body is a stream of frames; the reader (proto/grpc/frame.h) takes the prefix off, and what is kept
 * is the one message of a unary call. A finished request goes to the pool with its body's memory, as long as
 * the pool's bodies together stay below keep_max.
 */
#include "gateway/serve/request.h"

#include <stdlib.h>

#include "proto/base/macros.h"
#include "proto/base/room.h"
#include "proto/http/exchange.h"

/* Free requests kept beyond the concurrency of one connection (100 streams) serve a burst and no more. */
#define FREE_MAX 256u

/* The most that is reserved because a peer announced it; the rest is charged as it comes, so that announcing
 * costs nobody else's budget. Most requests fit. */
#define RESERVE_MAX ((size_t)256 << 10)

struct request *request_get(struct request_pool *pool, const struct route *route, int64_t content_length)
{
    struct request *q = pool->free;
    if (q) {
        pool->free = q->next;
        pool->n_free--;
        pool->kept -= q->body.cap;
        q->body.n = 0;
    } else {
        if (!budget_charge(pool->budget, sizeof *q))
            return NULL;
        q = calloc(1, sizeof *q);
        if (!q) {
            budget_refund(pool->budget, sizeof *q);
            return NULL;
        }
    }
    struct buffer body = q->body;
    *q = (struct request){
        .route = *route,
        .deadline_ns = UINT64_MAX,
        .content_length = content_length,
        .message = GRPC_READER_INIT(pool->body_max),
        .body = body,
    };
    return q;
}

static void keep(struct buffer *to, struct bytes *kept)
{
    memcpy(to->p + to->n, kept->p ? kept->p : to->p, kept->n);
    kept->p = to->p + to->n;
    to->n += kept->n;
}

enum refusal request_keep_head(struct request_pool *pool, struct request *q, const struct http_exchange *x)
{
    q->head.links = pool->links;
    if (!q->route.intake || !q->route.intake->reads_head)
        return REFUSAL_NONE;
    struct intake_head head = {
        .query = x->query,
        .type = http_header_find(x->headers, x->n_headers, "content-type"),
        .accept = http_header_find(x->headers, x->n_headers, "accept"),
        .links = pool->links,
    };
    size_t n = head.query.n + head.type.n + head.accept.n;
    if (room_make(&q->head_text, n + 1, pool->budget) != 0)
        return REFUSAL_BUSY;
    keep(&q->head_text, &head.query);
    keep(&q->head_text, &head.type);
    keep(&q->head_text, &head.accept);
    q->head = head;
    return REFUSAL_NONE;
}

static void request_free(struct request_pool *pool, struct request *q)
{
    room_release(&q->body, pool->budget);
    budget_refund(pool->budget, sizeof *q);
    free(q);
}

void request_put(struct request_pool *pool, struct request *q)
{
    if (!q)
        return;
    room_release(&q->head_text, pool->budget);
    room_release(&q->answer, pool->budget);
    if (pool->n_free >= FREE_MAX) {
        request_free(pool, q);
        return;
    }
    if (q->body.cap > pool->keep_max - pool->kept)
        room_release(&q->body, pool->budget);
    pool->kept += q->body.cap;
    q->next = pool->free;
    pool->free = q;
    pool->n_free++;
}

void request_pool_release(struct request_pool *pool)
{
    while (pool->free) {
        struct request *q = pool->free;
        pool->free = q->next;
        request_free(pool, q);
    }
    pool->n_free = 0;
    pool->kept = 0;
}

/* Room for n more bytes and the padding, or, at the first piece, for what was announced. */
static enum refusal reserve(struct request_pool *pool, struct request *q, size_t n, uint64_t announced)
{
    if (q->body.n == 0 && announced > n)
        n = max_of(n, min_of((size_t)announced, RESERVE_MAX));
    const size_t cap = q->body.cap;
    if (room_make(&q->body, n + PROFILES_PADDING, pool->budget) != 0)
        return REFUSAL_BUSY;
    if (q->body.cap != cap)
        q->grown_to = q->body.cap;
    return REFUSAL_NONE;
}

static enum refusal append(struct request_pool *pool, struct request *q, struct bytes piece,
                           uint64_t announced)
{
    enum refusal refusal = reserve(pool, q, piece.n, announced);
    if (refusal == REFUSAL_NONE && piece.n > 0) {
        memcpy(q->body.p + q->body.n, piece.p, piece.n);
        q->body.n += piece.n;
        q->n_collected += piece.n;
    }
    return refusal;
}

static enum refusal add_message(struct request_pool *pool, struct request *q, struct bytes piece)
{
    for (;;) {
        struct bytes part;
        enum refusal refusal = REFUSAL_NONE;
        switch (grpc_reader_next(&q->message, &piece, &part)) {
        case GRPC_READ_MORE: return REFUSAL_NONE;
        case GRPC_READ_HEAD:
            if (q->message.compressed && q->route.coding == CODING_IDENTITY)
                refusal = REFUSAL_FLAG_NO_CODING;
            break;
        case GRPC_READ_PAYLOAD: refusal = append(pool, q, part, q->message.length); break;
        case GRPC_READ_BAD_FLAG: return REFUSAL_BAD_FLAG;
        case GRPC_READ_TOO_LARGE: return REFUSAL_TOO_LARGE;
        case GRPC_READ_SECOND: return REFUSAL_SECOND_MESSAGE;
        }
        if (refusal != REFUSAL_NONE)
            return refusal;
    }
}

enum refusal request_add(struct request_pool *pool, struct request *q, struct bytes piece)
{
    if (q->route.protocol == INTAKE_GRPC)
        return add_message(pool, q, piece);
    if (piece.n > pool->body_max - q->body.n)
        return REFUSAL_TOO_LARGE;
    return append(pool, q, piece, q->content_length > 0 ? (uint64_t)q->content_length : 0);
}

enum refusal request_end(struct request_pool *pool, struct request *q)
{
    if (q->route.protocol == INTAKE_GRPC && !grpc_reader_is_complete(&q->message))
        return q->message.n_prefix == 0 ? REFUSAL_NO_MESSAGE : REFUSAL_CUT_SHORT;
    return append(pool, q, (struct bytes){0}, 0);
}

bool request_is_coded(const struct request *q)
{
    if (q->route.protocol == INTAKE_GRPC)
        return q->message.compressed;
    return q->route.coding != CODING_IDENTITY;
}
