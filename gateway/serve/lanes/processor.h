/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is done with a complete request: its body is read and pushed to ingest, and what came of it is put
 * down in words that need no exchange any more. Each worker has a processor, and each lane; one thread.
 */
#ifndef GATEWAY_SERVE_LANES_PROCESSOR_H
#define GATEWAY_SERVE_LANES_PROCESSOR_H

#include "gateway/ingest/ingest.h"
#include "gateway/serve/body.h"
#include "gateway/serve/request.h"
#include "gateway/stats/block.h"

struct processor {
    struct body_reader reader;
    struct ingest *ingest; /* may be exchanged between two requests */
    struct stats *stats;
};

struct processor_options {
    size_t request_bytes, keep_bytes; /* serve.h */
    struct ingest *ingest;
    struct stats *stats;
    struct budget *budget;
    struct meter *meter; /* body.h */
};

/* What came of a request. */
struct processed {
    enum refusal refusal; /* REFUSAL_NONE: accepted, or a part of it (answer), or the request
                             has its answer */
    bool is_of_ingest;    /* it has counted and worded the refusal; else message is "" or of the body */
    struct ingest_answer answer;
};

/* 0 or -ENOMEM (then release is fine, too). */
int processor_init(struct processor *p, const struct processor_options *options);
void processor_release(struct processor *p);

/* Conditions of processor_run. */
enum {
    PROCESSOR_LARGE = 1, /* more than `light` bytes came out of the body: nothing was done */
};

/* layout: PROFILES_LAYOUT_UNKNOWN if it is to be recognised. The body may be taken out of the request. 0 or
 * PROCESSOR_LARGE. */
int processor_run(struct processor *p, struct request *q, enum profiles_layout layout, size_t light,
                  struct processed *ret);

#endif
