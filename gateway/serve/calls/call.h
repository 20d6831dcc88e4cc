/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A gRPC call of one of our own services (services.h): its messages in, its answers out. services.c reads the
 * frames and calls the method; health.c and reflection.c are the methods.
 */
#ifndef GATEWAY_SERVE_CALLS_CALL_H
#define GATEWAY_SERVE_CALLS_CALL_H

#include <sys/queue.h>

#include "gateway/serve/calls/options.h"
#include "proto/base/buffer.h"
#include "proto/grpc/code.h"
#include "proto/grpc/frame.h"
#include "proto/http/exchange.h"

/* A request names a service, a symbol or a file: none is near this long. */
#define CALL_MESSAGE_MAX (4u << 10)

enum method_id {
    METHOD_CHECK,
    METHOD_LIST,
    METHOD_WATCH,
    METHOD_REFLECT_V1,
    METHOD_REFLECT_V1ALPHA,
    METHODS
};

struct call {
    struct services *services;
    struct http_exchange *x;
    enum method_id method;
    struct grpc_reader reader;
    struct buffer message; /* the one that is coming */
    LIST_ENTRY(call) others;
    bool begun, done; /* an answer has begun; the call is answered to its end */
    int watched;      /* Watch: health.c's number of the service; HEALTH_NOT_YET before the request is read */
    uint32_t told;    /* Watch: the status said last */
};

#define HEALTH_NOT_YET (-2)

struct services {
    struct services_options options;
    LIST_HEAD(, call) calls;
    uint32_t n_calls[METHODS];
    struct buffer answer; /* the message at hand, behind room for its prefix */
};

/* A message to fill: write fields behind what is there, then call_answer or call_send. NULL: memory is out.
 */
struct buffer *call_message(struct call *c);

/* Answers a unary call with the message and OK. */
void call_answer(struct call *c);

/* Sends the message as one of a stream; a peer that does not keep up loses the call. */
void call_send(struct call *c);

/* Ends the call, or refuses it. message: for a person; NULL for OK. */
void call_end(struct call *c, enum grpc_code code, const char *message);

/* The methods: a complete request of Check, List or Watch; one message of a reflection stream. */
void health_check(struct call *c, struct bytes message);
void health_list(struct call *c, struct bytes message);
void health_watch(struct call *c, struct bytes message);
void reflection_message(struct call *c, struct bytes message);

/* Tells a Watch what has changed, if anything. */
void health_changed(struct call *c);

#endif
