#include "gateway/serve/serve.h"

#include <errno.h>
#include <stdlib.h>

#include "gateway/serve/refusal.h"
#include "gateway/serve/reply.h"
#include "gateway/serve/request.h"
#include "gateway/serve/route.h"
#include "proto/base/clock.h"
#include "proto/base/macros.h"
#include "proto/coding/coding.h"
#include "proto/coding/room.h"
#include "proto/grpc/frame.h"
#include "proto/otlp/profiles_json.h"

struct serve {
    struct serve_options options;
    struct ingest *ingest;
    struct stats *stats;
    struct budget *budget;
    struct request_pool pool;
    struct coding_decoder *decoder;
    struct buffer plain; /* the decompressed body of the request at hand; its capacity is on the budget */
    struct buffer proto; /* a JSON body written as protobuf, likewise */
};

struct serve *serve_new(const struct serve_options *options, struct ingest *ingest, struct stats *stats,
                        struct budget *budget)
{
    struct serve *s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    s->options = *options;
    s->ingest = ingest;
    s->stats = stats;
    s->budget = budget;
    s->pool = (struct request_pool){
        .keep_max = options->keep_bytes, .body_max = options->request_bytes, .budget = budget};
    s->proto.max = options->request_bytes < SIZE_MAX - PROFILES_PADDING
                       ? options->request_bytes + PROFILES_PADDING
                       : SIZE_MAX;
    s->decoder = coding_decoder_new();
    return s->decoder ? s : serve_free(s);
}

struct serve *serve_free(struct serve *s)
{
    if (!s)
        return NULL;
    request_pool_release(&s->pool);
    room_release(&s->plain, s->budget);
    room_release(&s->proto, s->budget);
    coding_decoder_free(s->decoder);
    free(s);
    return NULL;
}

/* ---- refusing
 * --------------------------------------------------------------------------------------------------- */

/* What a person should read about a refusal that was decided here; ingest words its own. */
static void explain(const struct serve *s, const struct http_exchange *x, const struct route *route,
                    enum refusal refusal, struct error *e)
{
    unsigned long long limit = s->options.request_bytes;
    const char *coding = coding_name(route->coding);
    e->text[0] = 0;
    switch (refusal) {
    case REFUSAL_NO_PATH:
        error_set(e, 0, "nothing is served at %.*s; profiles go to " ROUTE_HTTP_PATH,
                  (int)min_of(x->path.n, (size_t)200), (const char *)x->path.p);
        break;
    case REFUSAL_NO_SERVICE:
        error_set(e, 0, "unknown service; this one is " ROUTE_GRPC_SERVICE ROUTE_GRPC_METHOD);
        break;
    case REFUSAL_NO_METHOD: error_set(e, 0, "unknown method; the service has " ROUTE_GRPC_METHOD); break;
    case REFUSAL_NOT_POST: error_set(e, 0, "the method must be POST"); break;
    case REFUSAL_GRPC_HTTP1: error_set(e, 0, "gRPC needs HTTP/2"); break;
    case REFUSAL_MEDIA_TYPE:
        error_set(e, 0,
                  route->dialect == DIALECT_GRPC
                      ? "messages must be protobuf: content-type application/grpc or application/grpc+proto"
                      : "content-type must be application/x-protobuf or application/json");
        break;
    case REFUSAL_CODING:
        error_set(e, 0, "unknown %s; these are taken: " CODING_ACCEPTED,
                  route->dialect == DIALECT_GRPC ? "grpc-encoding" : "content-encoding");
        break;
    case REFUSAL_BAD_TIMEOUT: error_set(e, 0, "malformed grpc-timeout"); break;
    case REFUSAL_NO_MESSAGE: error_set(e, 0, "the call ended without a message"); break;
    case REFUSAL_CUT_SHORT: error_set(e, 0, "the message was cut short"); break;
    case REFUSAL_BAD_FLAG:
        error_set(e, 0, "malformed message prefix: the compressed flag is neither 0 nor 1");
        break;
    case REFUSAL_FLAG_NO_CODING: error_set(e, 0, "compressed flag set without a grpc-encoding"); break;
    case REFUSAL_SECOND_MESSAGE: error_set(e, 0, "more than one message in a unary call"); break;
    case REFUSAL_CORRUPT: error_set(e, 0, "the body is not what its encoding, %s, says", coding); break;
    case REFUSAL_TOO_LARGE:
        error_set(e, 0, "the request is larger than %llu bytes, before or after decompression", limit);
        break;
    case REFUSAL_BUSY: error_set(e, 0, "out of memory for requests just now; try again"); break;
    case REFUSAL_LATE: error_set(e, 0, "the deadline passed before the request was complete"); break;
    default: break;
    }
}

static void refuse_saying(struct serve *s, struct http_exchange *x, const struct route *route,
                          enum refusal refusal, const struct error *message)
{
    stats_add(s->stats, refusal_counter(refusal), 1);
    /* When even the answer finds no memory, the session resets the exchange: the peer learns that much. */
    reply_refused(x, route->dialect, refusal, message, s->options.retry_after_ns);
}

static void refuse(struct serve *s, struct http_exchange *x, const struct route *route, enum refusal refusal)
{
    struct error message;
    explain(s, x, route, refusal, &message);
    refuse_saying(s, x, route, refusal, &message);
}

/* ---- accepting
 * -------------------------------------------------------------------------------------------------- */

static enum refusal refusal_of(enum ingest_verdict verdict)
{
    switch (verdict) {
    case INGEST_ACCEPTED: return REFUSAL_NONE;
    case INGEST_MALFORMED: return REFUSAL_MALFORMED;
    case INGEST_UNSUPPORTED: return REFUSAL_UNSUPPORTED;
    case INGEST_TOO_LARGE: return REFUSAL_TOO_LARGE;
    default: return REFUSAL_BUSY;
    }
}

/* The plain body: the collected one as it is, or decoded into s->plain. */
static enum refusal plain_body(struct serve *s, const struct request *q, struct bytes *ret)
{
    *ret = buffer_bytes(&q->body);
    if (!request_is_coded(q))
        return REFUSAL_NONE;
    int r = coding_decode(s->decoder, q->route.coding, *ret, s->options.request_bytes, PROFILES_PADDING,
                          s->budget, &s->plain);
    *ret = buffer_bytes(&s->plain);
    switch (r) {
    case 0: return REFUSAL_NONE;
    case CODING_CORRUPT: return REFUSAL_CORRUPT;
    case CODING_TOO_LARGE: return REFUSAL_TOO_LARGE;
    default: return REFUSAL_BUSY;
    }
}

/* OTLP/JSON as protobuf, in s->proto. *e says where the text is wrong. */
static enum refusal json_body(struct serve *s, struct bytes *body, struct error *e)
{
    static const struct profiles_limits limits = PROFILES_LIMITS_DEFAULT; /* ingest has its own, for all */
    int r = profiles_json_transcode(*body, &limits, s->budget, &s->proto, e);
    *body = buffer_bytes(&s->proto);
    switch (r) {
    case 0: return REFUSAL_NONE;
    case PROFILES_MALFORMED: return REFUSAL_MALFORMED;
    case PROFILES_UNSUPPORTED: return REFUSAL_UNSUPPORTED;
    case -ENOBUFS: return REFUSAL_TOO_LARGE;
    default: return REFUSAL_BUSY;
    }
}

/* A complete request: decode, push, answer. */
static void take(struct serve *s, struct http_exchange *x, const struct request *q)
{
    struct bytes body;
    enum refusal refusal = plain_body(s, q, &body);
    if (refusal != REFUSAL_NONE) {
        refuse(s, x, &q->route, refusal);
        return;
    }
    stats_add(s->stats, STATS_REQUEST_BYTES_PLAIN, body.n);
    struct ingest_answer answer;
    enum profiles_layout layout = PROFILES_LAYOUT_UNKNOWN;
    if (q->route.dialect == DIALECT_JSON) {
        layout = PROFILES_LAYOUT_1_10; /* what JSON becomes */
        refusal = json_body(s, &body, &answer.message);
        if (refusal == REFUSAL_MALFORMED || refusal == REFUSAL_UNSUPPORTED)
            refuse_saying(s, x, &q->route, refusal, &answer.message);
        else if (refusal != REFUSAL_NONE)
            refuse(s, x, &q->route, refusal);
        if (refusal != REFUSAL_NONE)
            return;
    }
    ingest_push(s->ingest, body, layout, &answer);
    refusal = refusal_of(answer.verdict);
    if (refusal == REFUSAL_NONE)
        reply_accepted(x, q->route.dialect, answer.rejected_profiles, &answer.message);
    else
        reply_refused(x, q->route.dialect, refusal, &answer.message, answer.retry_after_ns);
}

/* ---- the exchange
 * ----------------------------------------------------------------------------------------------- */

static void on_head(void *context, struct http_exchange *x)
{
    struct serve *s = context;
    struct route route;
    enum refusal refusal = route_find(&s->options, x, &route);
    x->user = NULL;
    if (refusal == REFUSAL_NONE && x->content_length >= 0) {
        size_t prefix = route.dialect == DIALECT_GRPC ? GRPC_PREFIX_BYTES : 0;
        if ((uint64_t)x->content_length > (uint64_t)s->options.request_bytes + prefix)
            refusal = REFUSAL_TOO_LARGE;
    }
    struct request *q = refusal == REFUSAL_NONE ? request_get(&s->pool, &route, x->content_length) : NULL;
    if (!q) {
        refuse(s, x, &route, refusal == REFUSAL_NONE ? REFUSAL_BUSY : refusal);
        return;
    }
    if (route.timeout_ns != UINT64_MAX) {
        uint64_t now = clock_monotonic();
        q->deadline_ns = route.timeout_ns < UINT64_MAX - now ? now + route.timeout_ns : UINT64_MAX;
    }
    x->user = q;
}

static void on_body(void *context, struct http_exchange *x, struct bytes piece)
{
    struct serve *s = context;
    struct request *q = x->user;
    stats_add(s->stats, STATS_REQUEST_BYTES, piece.n);
    if (!q)
        return; /* refused already */
    enum refusal refusal = request_add(&s->pool, q, piece);
    if (refusal == REFUSAL_NONE)
        return;
    x->user = NULL; /* the reply may close the exchange */
    struct route route = q->route;
    request_put(&s->pool, q);
    refuse(s, x, &route, refusal);
}

static void on_end(void *context, struct http_exchange *x)
{
    struct serve *s = context;
    struct request *q = x->user;
    if (!q)
        return;
    x->user = NULL;
    enum refusal refusal = request_end(&s->pool, q);
    /* A client that has given up sends the same again: counting this one too would count twice. */
    if (refusal == REFUSAL_NONE && q->deadline_ns != UINT64_MAX && clock_monotonic() >= q->deadline_ns)
        refusal = REFUSAL_LATE;
    if (refusal == REFUSAL_NONE)
        take(s, x, q);
    else
        refuse(s, x, &q->route, refusal);
    room_clear(&s->plain, s->options.keep_bytes, s->budget);
    room_clear(&s->proto, s->options.keep_bytes, s->budget);
    request_put(&s->pool, q);
}

static void on_close(void *context, struct http_exchange *x)
{
    struct serve *s = context;
    request_put(&s->pool, x->user);
    x->user = NULL;
}

const struct http_handler *serve_handler(void)
{
    static const struct http_handler handler = {on_head, on_body, on_end, on_close};
    return &handler;
}
