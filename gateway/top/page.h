/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One answer of /api/v1/metrics (gateway/run/metrics_json.h has its shape) as rows. It comes from whatever
 * answers at a URL: everything is bounded, and what is not of the shape is left out rather than believed.
 */
#ifndef GATEWAY_TOP_PAGE_H
#define GATEWAY_TOP_PAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/base/arena.h"
#include "proto/base/bytes.h"
#include "proto/base/vec.h"

#define TOP_PAGE_MAX   (16u << 20) /* bytes of JSON */
#define TOP_SERIES_MAX 200000u
#define TOP_LABELS_MAX 16u /* of one metric that are looked at */

struct top_metric {
    struct bytes name, describe, unit, on;
    bool is_gauge;
    struct bytes labels[TOP_LABELS_MAX]; /* names, in the rule's order */
    uint32_t n_labels;
    bool by_function; /* one of them is `function`: what runs in a process, to be shown below it */
};

struct top_series {
    struct bytes key; /* equal keys, equal series, on two pages */
    uint32_t metric;
    struct bytes service, host; /* of its resource; "" where that does not say */
    /* What its labels say: `what` is the function of a metric by_function, the first label that is there of
     * others; `rest` the other labels' values. "" for none. */
    struct bytes what, rest;
    bool is_overflow; /* all that had no name of its own */
    double value;
};

struct top_page {
    struct arena arena;
    double samples; /* that the gateway has counted */
    VEC(struct top_metric) metrics;
    VEC(struct top_series) series;
};

/* Conditions of top_page_read. */
enum {
    TOP_PAGE_FOREIGN = 1, /* it is no such document */
    TOP_PAGE_LARGE = 2,   /* a bound is passed */
};

/* Reads a page into *ret, which need not be initialised. 0, a condition above or -ENOMEM: then there is
 * nothing to release. */
int top_page_read(struct bytes text, struct top_page *ret);

void top_page_release(struct top_page *page);

#endif
