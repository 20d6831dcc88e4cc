/*
 * The push header of the classify stage: a decoded request in, additions to the worker's aggregate out.
 *
 * Each distinct thing is asked once: a string meets the patterns once (and what it meant is remembered across
 * requests), a location gets its class from its strings, a stack its verdict from its locations; a sample is
 * then an addition. One object per worker thread; the rule program is shared and immutable.
 */
#ifndef GATEWAY_CLASSIFY_CLASSIFY_H
#define GATEWAY_CLASSIFY_CLASSIFY_H

#include <stdint.h>

#include "proto/base/budget.h"
#include "proto/otlp/profiles.h"

struct aggregate;
struct rules_program;
struct stats;

struct classify;

/* The program must outlive it. NULL when memory is out. */
struct classify *classify_new(const struct rules_program *program, struct aggregate *aggregate,
                              struct stats *stats, struct budget *budget);
struct classify *classify_free(struct classify *c);

/* Counts every sample of the view that was not rejected. 0, or -ENOMEM: then nothing of this request was
 * counted. */
int classify_push(struct classify *c, const struct profiles *view);

#endif
