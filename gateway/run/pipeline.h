/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One worker's stages behind serve: ingest → classify → aggregate, and forward. `serve` has one for each
 * worker thread, `count` has one.
 */
#ifndef GATEWAY_RUN_PIPELINE_H
#define GATEWAY_RUN_PIPELINE_H

#include "gateway/aggregate/aggregate.h"
#include "gateway/check/live.h"
#include "gateway/run/capturing.h"
#include "gateway/classify/classify.h"
#include "gateway/classify/keep.h"
#include "gateway/forward/forward.h"
#include "gateway/ingest/ingest.h"
#include "gateway/look/tap.h"
#include "gateway/stats/stats.h"
#include "rules/program/program.h"

/* What all workers share; everything pointed at outlives the pipelines. */
struct pipeline_options {
    const struct rules_program *program;
    const struct aggregate_metric *metrics; /* pipeline_metrics() of the program */
    uint32_t n_metrics;
    struct export_profiles *destinations; /* of raw profiles; NULL: nothing is forwarded */
    struct forward_options forward;
    struct board *board;       /* of checked requests; NULL: none is checked */
    double check_share;        /* of the thread's time that checking may take; 0: likewise */
    struct look_tap *tap;      /* of the store of stacks, the thread's; NULL: there is none */
    struct captures *captures; /* what triggers capture; NULL: they do not */
    struct ingest_options ingest;
    uint32_t value_length_limit; /* bytes of an attribute's value in metrics; 0: none */
    struct budget *budget;
    struct accounts *accounts; /* of clients, for what is counted and not added up yet; NULL: none */
    struct meter *meter;       /* the thread's, its budget's parent being `budget`; NULL: none */
    struct stats *stats;       /* the thread's block; NULL: a new one */
    uint32_t generation;       /* of the metrics, after a reload (aggregate_set_generation); 0: the first */
};

struct pipeline {
    struct stats *stats;
    struct aggregate *aggregate;
    struct classify *classify;
    struct classify_keep *keep; /* for forward */
    struct capturing *capturing;
    struct forward *forward;
    struct live *live; /* NULL: requests are not checked */
    struct ingest *ingest;
};

/* The metrics of a program as aggregate wants them: heap array of *ret_n, the caller's to free; NULL: memory
 * is out. */
struct aggregate_metric *pipeline_metrics(const struct rules_program *program, uint32_t *ret_n);

/* 0 or -ENOMEM (then nothing is left behind). */
int pipeline_init(struct pipeline *p, const struct pipeline_options *options);
void pipeline_release(struct pipeline *p);

/* Between requests, once a second: takes notice of what is captured, and of having had nothing to do. */
void pipeline_look(struct pipeline *p);

#endif
