/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What becomes of the requests given to a client.
 */
#ifndef PROTO_CLIENT_EVENT_H
#define PROTO_CLIENT_EVENT_H

#include <stdbool.h>
#include <stdint.h>

/* Told on the loop's thread. `message` is for a person and valid during the call.
 */
enum client_event_kind {
    CLIENT_SENT,          /* acknowledged, all of it. items; message may carry the server's warning */
    CLIENT_PARTIAL,       /* acknowledged; the server rejected `rejected` of it for good (E5) */
    CLIENT_RETRIED,       /* an attempt failed and will be repeated */
    CLIENT_STALE,         /* no request's: a connection has the TLS files from before (connection.h) */
    CLIENT_REFUSED,       /* lost: the server refused it for good, or the answer cannot be trusted */
    CLIENT_OUT_OF_TIME,   /* lost: max_elapsed_time passed, or retries are off */
    CLIENT_EVICTED,       /* lost: made room for newer ones (send_queue_offer_newest) */
    CLIENT_TOO_LARGE,     /* lost: above max_request_bytes, never sent */
    CLIENT_OUT_OF_MEMORY, /* lost */
    CLIENT_SHUT_DOWN,     /* lost: still here when the shutdown's deadline passed, or pushed after it began */
};

struct client_event {
    enum client_event_kind kind;
    uint64_t requests; /* 1, or for losses outside a call all those since the last event; of STALE 0 */
    uint64_t items;    /* of these requests, as given to push */
    uint64_t rejected; /* CLIENT_PARTIAL: profiles or data points */
    uint64_t attempts; /* made so far */
    uint64_t tag;      /* of send_queue_offer_tagged; else 0 */
    const char *message;
};

/* Whether the request is lost with this event. */
static inline bool client_event_is_loss(enum client_event_kind kind)
{
    return kind >= CLIENT_REFUSED;
}

typedef void (*client_event_fn)(void *user, const struct client_event *event);

#endif
