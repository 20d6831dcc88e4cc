/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What becomes of the requests given to an exporter.
 */
#ifndef PROTO_CLIENT_EVENT_H
#define PROTO_CLIENT_EVENT_H

#include <stdbool.h>
#include <stdint.h>

/* Told on the loop's thread. `message` is for a person and valid during the call.
 */
enum otlp_event_kind {
    OTLP_SENT,          /* acknowledged, all of it. items; message may carry the server's warning */
    OTLP_PARTIAL,       /* acknowledged; the server rejected `rejected` of it for good (E5) */
    OTLP_RETRIED,       /* an attempt failed and will be repeated */
    OTLP_REFUSED,       /* lost: the server refused it for good, or the answer cannot be trusted */
    OTLP_OUT_OF_TIME,   /* lost: max_elapsed_time passed, or retries are off */
    OTLP_EVICTED,       /* lost: made room for newer ones (otlp_exporter_push_newest) */
    OTLP_TOO_LARGE,     /* lost: above max_request_bytes, never sent */
    OTLP_OUT_OF_MEMORY, /* lost */
    OTLP_SHUT_DOWN,     /* lost: still here when the shutdown's deadline passed, or pushed after it began */
};

struct otlp_event {
    enum otlp_event_kind kind;
    uint64_t requests; /* 1, or for losses outside a call all those since the last event */
    uint64_t items;    /* of these requests, as given to push */
    uint64_t rejected; /* OTLP_PARTIAL: profiles or data points */
    uint64_t attempts; /* made so far */
    const char *message;
};

/* Whether the request is lost with this event. */
static inline bool otlp_event_is_loss(enum otlp_event_kind kind)
{
    return kind >= OTLP_REFUSED;
}

typedef void (*otlp_event_fn)(void *user, const struct otlp_event *event);

#endif
