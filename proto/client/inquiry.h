/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One request on a connection of its own: connect, ask, and hear one answer, or why there is none. For what
 * is asked now and then; who sends all the time has a client (client.h).
 */
#ifndef PROTO_CLIENT_INQUIRY_H
#define PROTO_CLIENT_INQUIRY_H

#include "proto/client/connection.h"

struct inquiry;

enum inquiry_end {
    INQUIRY_ANSWERED,  /* on_answer was told, by whatever status */
    INQUIRY_UNREACHED, /* no connection, or it broke */
    INQUIRY_LATE,
    INQUIRY_TOO_LARGE, /* the answer: connection_options.response_max */
    INQUIRY_NO_MEMORY, /* or none on the budget */
};

struct inquiry_options {
    struct connection_options connection;
    struct http_request request; /* without scheme and authority: the endpoint's. What it points at stays */
    uint64_t timeout_ns;         /* for all of it */
    /* The answer is valid during the call, from inside which the inquiry may not be freed. */
    void (*on_answer)(void *user, const struct http_response *response);
    /* Last, from the loop: the inquiry is gone. `why`: unless there was an answer; valid during the call. */
    void (*on_end)(void *user, enum inquiry_end end, const char *why);
    void *user;
};

/* Begins. NULL: memory is out, and nothing is told. */
struct inquiry *inquiry_new(const struct inquiry_options *options);

/* Forgets it: nothing is told any more. Not from inside on_answer. NULL is fine. Returns NULL. */
struct inquiry *inquiry_free(struct inquiry *i);

#endif
