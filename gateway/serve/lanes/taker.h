/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is done with a complete request: its body is read and pushed to ingest, and what came of it is put
 * down in words that need no exchange any more. Each worker has one, and each lane; one thread.
 */
#ifndef GATEWAY_SERVE_LANES_TAKER_H
#define GATEWAY_SERVE_LANES_TAKER_H

#include "gateway/ingest/ingest.h"
#include "gateway/serve/body.h"
#include "gateway/serve/lanes/lanes.h"
#include "gateway/serve/request.h"
#include "gateway/stats/stats.h"

struct taker {
    struct body_reader reader;
    struct ingest *ingest;
    struct stats *stats;
};

struct outcome {
    enum refusal refusal; /* REFUSAL_NONE: accepted, or a part of it (answer) */
    bool is_of_ingest;    /* it has counted and worded the refusal; else message is "" or of the body */
    struct ingest_answer answer;
};

/* Conditions of taker_take. */
enum {
    TAKER_HEAVY = 1, /* more than `light` bytes came out of the body: nothing was done */
};

/* layout: PROFILES_LAYOUT_UNKNOWN if it is to be recognised. 0 or TAKER_HEAVY. */
int taker_take(struct taker *t, const struct request *q, enum profiles_layout layout, size_t light,
               struct outcome *ret);

/* A request on its way through a lane; the request's `heavy`. */
struct heavy {
    struct lane_job job;
    struct request *request;
    enum profiles_layout layout;
    struct outcome outcome;
};

/* For lane_job: the lane is a struct taker. Gives back the body's memory, if it is much, so that the worker
 * need not. A request whose client has given up by now is refused uncounted. */
void heavy_work(struct lane_job *job, void *lane);

#endif
