/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a scraper of /metrics or /api/v1/metrics asked for.
 */
#ifndef GATEWAY_ADMIN_METRICS_H
#define GATEWAY_ADMIN_METRICS_H

#include <stdbool.h>

#include "gateway/export/prometheus/names.h"

/* Which metrics; or'ed. */
enum {
    ADMIN_METRICS_SELF = 1,     /* what the gateway knows about itself */
    ADMIN_METRICS_PROFILES = 2, /* what the rules counted */
};

/* How; what a scraper's Accept asked for (Prometheus documentation, "Scrape protocol content negotiation").
 */
enum admin_format {
    ADMIN_TEXT_0_0_4,
    ADMIN_TEXT_1_0_0,
    ADMIN_OPENMETRICS_0_0_1,
    ADMIN_OPENMETRICS_1_0_0,
    ADMIN_JSON, /* nobody's Accept: a page of its own */
};
#define ADMIN_PACK_MAX 64u

struct admin_metrics {
    unsigned what;
    enum admin_format format;
    enum prometheus_escaping escaping; /* of names that are not [a-zA-Z0-9_:] */
    bool escaping_is_asked_for;        /* then the answer names it */
    char pack[ADMIN_PACK_MAX];         /* JSON: only what this pack counts; "": everything */
};

#endif
