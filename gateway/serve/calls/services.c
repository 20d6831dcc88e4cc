/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/serve/calls/services.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "gateway/serve/calls/call.h"
#include "proto/base/macros.h"
#include "proto/grpc/text.h"

#define HEALTH          "/grpc.health.v1.Health/"
#define REFLECT_V1      "/grpc.reflection.v1.ServerReflection/"
#define REFLECT_V1ALPHA "/grpc.reflection.v1alpha.ServerReflection/"
#define REFLECT_METHOD  "ServerReflectionInfo"

#define ANSWER_KEEP (16u << 10) /* of the memory for a message, between two */

/* Calls open at once on one worker, each kind for itself: those who Watch cannot keep a probe from its Check.
 * A Watch costs a stream and half a kilobyte for as long as its client likes; a reflection stream may hold
 * HTTP_REPLY_WAITING_MAX of answers. */
static const struct method {
    const char *path;
    bool streams; /* each message is a request */
    uint32_t open_max;
    void (*on_message)(struct call *c, struct bytes message);
} methods[METHODS] = {
    [METHOD_CHECK] = {HEALTH "Check", false, 512, health_check},
    [METHOD_LIST] = {HEALTH "List", false, 128, health_list},
    [METHOD_WATCH] = {HEALTH "Watch", false, 64, health_watch},
    [METHOD_REFLECT_V1] = {REFLECT_V1 REFLECT_METHOD, true, 32, reflection_message},
    [METHOD_REFLECT_V1ALPHA] = {REFLECT_V1ALPHA REFLECT_METHOD, true, 32, reflection_message},
};

static const struct http_header content_type = {BYTES_LIT("content-type"), BYTES_LIT("application/grpc")};

struct services *services_new(const struct services_options *options)
{
    struct services *s = calloc(1, sizeof *s);
    if (s)
        s->options = *options;
    return s;
}

struct services *services_free(struct services *s)
{
    if (!s)
        return NULL;
    assert(LIST_EMPTY(&s->calls));
    buffer_release(&s->answer);
    free(s);
    return NULL;
}

bool services_is_public(struct bytes path)
{
    return bytes_starts(path, HEALTH);
}

/* ---- answers ---- */

struct buffer *call_message(struct call *c)
{
    static const uint8_t prefix[GRPC_PREFIX_BYTES];
    struct buffer *b = &c->services->answer;
    b->n = 0;
    if (buffer_add(b, prefix, sizeof prefix) == 0)
        return b;
    call_end(c, GRPC_RESOURCE_EXHAUSTED, "out of memory just now");
    return NULL;
}

/* grpc-status and grpc-message; the text of *room is used. Returns how many. */
static uint32_t status_fields(enum grpc_code code, const char *message, char number[4], struct buffer *room,
                              struct http_header to[2])
{
    int n = snprintf(number, 4, "%u", (unsigned)code % 100);
    to[0] = (struct http_header){BYTES_LIT("grpc-status"), bytes_of(number, (size_t)n)};
    if (!message || grpc_percent_encode(bytes_str(message), room) < 0)
        return 1;
    to[1] = (struct http_header){BYTES_LIT("grpc-message"), buffer_bytes(room)};
    return 2;
}

/* Headers and trailers in one ("Trailers-Only"). */
static void refuse(struct http_exchange *x, enum grpc_code code, const char *message)
{
    char number[4];
    cleanup(buffer_release) struct buffer room = BUFFER_INIT(0);
    struct http_header status[2];
    uint32_t n = status_fields(code, message, number, &room, status);
    /* An answer that finds no memory becomes a reset: the peer learns that much. */
    http_reply(
        x, &(struct http_reply){
               .status = 200, .headers = &content_type, .n_headers = 1, .trailers = status, .n_trailers = n});
}

void call_end(struct call *c, enum grpc_code code, const char *message)
{
    if (c->done)
        return;
    c->done = true;
    if (!c->begun) {
        refuse(c->x, code, message);
        return;
    }
    char number[4];
    cleanup(buffer_release) struct buffer room = BUFFER_INIT(0);
    struct http_header status[2];
    uint32_t n = status_fields(code, message, number, &room, status);
    http_reply_end(c->x, status, n);
}

/* The message with its prefix written. */
static struct bytes framed(struct services *s)
{
    grpc_prefix_write(s->answer.p, false, (uint32_t)(s->answer.n - GRPC_PREFIX_BYTES));
    return buffer_bytes(&s->answer);
}

void call_answer(struct call *c)
{
    static const struct http_header ok = {BYTES_LIT("grpc-status"), BYTES_LIT("0")};
    c->done = true;
    http_reply(c->x, &(struct http_reply){.status = 200,
                                          .headers = &content_type,
                                          .n_headers = 1,
                                          .body = framed(c->services),
                                          .trailers = &ok,
                                          .n_trailers = 1});
    buffer_clear(&c->services->answer, ANSWER_KEEP);
}

void call_send(struct call *c)
{
    int r = 0;
    if (!c->begun)
        r = http_reply_begin(c->x,
                             &(struct http_reply){.status = 200, .headers = &content_type, .n_headers = 1});
    c->begun = true;
    if (r == 0)
        r = http_reply_write(c->x, framed(c->services));
    buffer_clear(&c->services->answer, ANSWER_KEEP);
    if (r < 0)
        c->done = true; /* it is being reset */
    else if (r == HTTP_REPLY_FULL)
        call_end(c, GRPC_RESOURCE_EXHAUSTED, "the answers are not read");
}

/* ---- calls ---- */

static void call_open(struct services *s, struct http_exchange *x, enum method_id method)
{
    struct call *c = s->n_calls[method] < methods[method].open_max ? calloc(1, sizeof *c) : NULL;
    x->user = c;
    if (!c) {
        refuse(x, GRPC_RESOURCE_EXHAUSTED, "too many of these calls are open");
        return;
    }
    *c = (struct call){.services = s,
                       .x = x,
                       .method = method,
                       .reader = GRPC_READER_INIT(CALL_MESSAGE_MAX),
                       .message = BUFFER_INIT(CALL_MESSAGE_MAX),
                       .watched = HEALTH_NOT_YET};
    LIST_INSERT_HEAD(&s->calls, c, others);
    s->n_calls[method]++;
}

static void on_close(void *context, struct http_exchange *x)
{
    struct services *s = context;
    struct call *c = x->user;
    x->user = NULL;
    if (!c)
        return;
    LIST_REMOVE(c, others);
    s->n_calls[c->method]--;
    buffer_release(&c->message);
    free(c);
}

/* A message of a stream is complete. */
static void take_message(struct call *c)
{
    methods[c->method].on_message(c, buffer_bytes(&c->message));
    buffer_clear(&c->message, 0);
    grpc_reader_restart(&c->reader);
}

/* One event of the reader; false when there is nothing more to read now. */
static bool read_event(struct call *c, enum grpc_read event, struct bytes piece)
{
    switch (event) {
    case GRPC_READ_MORE: return false;
    case GRPC_READ_HEAD:
        if (c->reader.compressed)
            call_end(c, GRPC_UNIMPLEMENTED, "messages of this service are not taken compressed");
        break;
    case GRPC_READ_PAYLOAD:
        if (buffer_add_bytes(&c->message, piece) < 0)
            call_end(c, GRPC_RESOURCE_EXHAUSTED, "out of memory just now");
        break;
    case GRPC_READ_TOO_LARGE:
        call_end(c, GRPC_RESOURCE_EXHAUSTED, "the message is larger than any request of this service");
        break;
    case GRPC_READ_SECOND: call_end(c, GRPC_UNIMPLEMENTED, "more than one message in a unary call"); break;
    default: call_end(c, GRPC_INTERNAL, "malformed message prefix"); break;
    }
    return true;
}

static void on_body(void *context, struct http_exchange *x, struct bytes in)
{
    (void)context;
    struct call *c = x->user;
    struct bytes piece = {0};
    while (c && !c->done && read_event(c, grpc_reader_next(&c->reader, &in, &piece), piece))
        if (!c->done && methods[c->method].streams && grpc_reader_is_complete(&c->reader))
            take_message(c);
}

static void on_end(void *context, struct http_exchange *x)
{
    (void)context;
    struct call *c = x->user;
    if (!c || c->done)
        return;
    bool between = methods[c->method].streams && c->reader.n_prefix == 0;
    if (between)
        call_end(c, GRPC_OK, NULL);
    else if (!grpc_reader_is_complete(&c->reader))
        call_end(c, GRPC_INTERNAL, "the call ended without a complete message");
    else
        take_message(c);
}

/* "application/grpc" with nothing, "+proto" or parameters behind it (PROTOCOL-HTTP2.md "Content-Type"). */
static bool is_grpc(const struct http_exchange *x)
{
    const struct bytes grpc = BYTES_LIT("application/grpc");
    struct bytes type = bytes_trim(http_header_find(x->headers, x->n_headers, "content-type"));
    if (type.n < grpc.n || !bytes_is_nocase(bytes_of(type.p, grpc.n), "application/grpc"))
        return false;
    struct bytes rest = bytes_of(type.p + grpc.n, type.n - grpc.n);
    return rest.n == 0 || rest.p[0] == ';' || bytes_is_nocase(rest, "+proto") ||
           (rest.n > 6 && rest.p[6] == ';' && bytes_is_nocase(bytes_of(rest.p, 6), "+proto"));
}

static bool path_is_ours(struct bytes path)
{
    return bytes_starts(path, HEALTH) || bytes_starts(path, REFLECT_V1) ||
           bytes_starts(path, REFLECT_V1ALPHA);
}

bool services_take(struct services *s, struct http_exchange *x)
{
    static const struct http_handler handler = {.on_body = on_body, .on_end = on_end, .on_close = on_close};
    if (!bytes_starts(x->path, "/grpc.") || x->version != HTTP_VERSION_2 || !path_is_ours(x->path) ||
        !bytes_is(x->method, "POST") || !is_grpc(x))
        return false;
    x->handler = &handler;
    x->context = s;
    x->user = NULL;
    for (enum method_id i = 0; i < METHODS; i++)
        if (bytes_is(x->path, methods[i].path)) {
            call_open(s, x, i);
            return true;
        }
    refuse(x, GRPC_UNIMPLEMENTED, "unknown method of this service");
    return true;
}

void services_changed(struct services *s)
{
    for (struct call *c = LIST_FIRST(&s->calls), *next; c; c = next) {
        next = LIST_NEXT(c, others);
        if (c->method == METHOD_WATCH && !c->done)
            health_changed(c);
    }
}
