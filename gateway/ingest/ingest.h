/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The push header of the ingest stage: one request's plain protobuf bytes in, an answer in neutral words out.
 *
 * ingest asks its consumers (consumer.h) whether there is room, decodes (proto/otlp), and hands the view to
 * each of them. serve calls it; serve alone knows how to word the answer in HTTP or gRPC. One object per
 * worker thread.
 */
#ifndef GATEWAY_INGEST_INGEST_H
#define GATEWAY_INGEST_INGEST_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "proto/base/budget.h"
#include "proto/base/bytes.h"
#include "proto/base/error.h"
#include "proto/coding/received.h"
#include "proto/otlp/view/profiles.h"

struct meter;
struct promise;
struct stats;
struct view_consumer;

enum ingest_verdict {
    INGEST_ACCEPTED,    /* everything, or a part: then rejected_profiles > 0 */
    INGEST_MALFORMED,   /* not decodable: never send it again */
    INGEST_UNSUPPORTED, /* a wire layout we do not take */
    INGEST_TOO_LARGE,   /* passes a limit by itself: never send it again */
    INGEST_BUSY, /* no room now (queue, memory): send it again after retry_after_ns. Nothing was counted. */
};

struct ingest_answer {
    enum ingest_verdict verdict;
    uint64_t rejected_profiles;
    uint64_t retry_after_ns;
    struct promise *safe; /* of what was accepted: the answer has to wait for it; NULL: for nothing */
    struct error message; /* "" when there is nothing to say */
};

/* What all threads keep from request to request because it is faster: while it is more than `max`, who keeps
 * more than `each` forgets it between two requests. */
struct ingest_kept {
    size_t max, each;
    atomic_size_t now;
};

struct ingest_options {
    struct profiles_limits limits;
    uint64_t retry_after_ns;  /* what INGEST_BUSY suggests */
    struct meter *meter;      /* whose budget is ingest's; NULL: none */
    struct ingest_kept *kept; /* outlives ingest; NULL: there is no limit together */
};

/* What a client hears whose requests hold as much as they may. */
#define INGEST_OVER_SHARE \
    "what is being counted of this client's takes as much memory as one client may have; try again"

struct ingest; /* holds the worker's view and its memory */

/* At least one consumer and at most INGEST_CONSUMERS_MAX; the list is copied. NULL when memory is out. */
#define INGEST_CONSUMERS_MAX 8u
struct ingest *ingest_new(const struct ingest_options *options, const struct view_consumer *consumers,
                          uint32_t n_consumers, struct stats *stats, struct budget *budget);
struct ingest *ingest_free(struct ingest *g);

/* Whose requests come from here on: a number for a client or a tenant, equal for equal ones; 0: nobody knows.
 * What they make the meter's budget grow by is charged to the client until the next call. False: the client's
 * requests hold as much as one client's may; its next one is to be refused as BUSY, and is nobody's. */
bool ingest_from(struct ingest *g, uint64_t client);

/* Takes one ExportProfilesServiceRequest, protobuf, decompressed, with PROFILES_PADDING readable bytes behind
 * it. The bytes need to stay in place only during the call. `layout` is the wire layout the bytes are known
 * to have; UNKNOWN: it is found out. `received`: what body came as, whose buffers may be empty afterwards,
 * body being what is in `plain`; NULL: the bytes stay the caller's. Always fills *ret. */
void ingest_push(struct ingest *g, struct bytes body, enum profiles_layout layout, struct received *received,
                 struct ingest_answer *ret);

/* Between requests, now and then: if none came since the last look, what was kept for the next one is given
 * back. */
void ingest_look(struct ingest *g);

#endif
