/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How an output wants its numbers: the choices of store_add_output.
 */
#ifndef GATEWAY_AGGREGATE_OPTIONS_H
#define GATEWAY_AGGREGATE_OPTIONS_H

#include "proto/base/clock.h"
#include "proto/otlp/attr.h"
#include "proto/otlp/metrics/metrics.h"

/* Which resource attributes make a series' identity; resources that become equal add up. */
enum projection { PROJECT_ALL, PROJECT_KEEP, PROJECT_DROP };

#define CARDINALITY_LIMIT_DEFAULT 2000u /* metrics SDK specification, "Cardinality limits" */
#define METRIC_EXPIRATION_DEFAULT \
    (300u * (uint64_t)NSEC_PER_SEC)     /* as the Collector's prometheusexporter: 5m */
#define OUTPUT_RESOURCES_DEFAULT 20000u /* in profiles a resource is a process: some hosts' worth */
#define OUTPUT_IDENTITY_MAX      8u

/* What becomes of examples: told with the next collect and then forgotten, as OTLP has it; or told until a
 * newer one comes, because several scrapers may look. */
enum exemplar_use { EXEMPLARS_NONE, EXEMPLARS_ONCE, EXEMPLARS_STAY };

struct output_options {
    enum projection projection;
    const char *const *keys; /* of KEEP and DROP; "k8s.*" means every key that begins with "k8s." */
    uint32_t n_keys;
    /* Added to every resource that has no such key, the overflow resource too: what tells the streams of this
     * gateway from those of another that sees the same resources (data model, "Single-Writer"). */
    const struct attr *identity; /* strings; at most OUTPUT_IDENTITY_MAX */
    uint32_t n_identity;
    enum exemplar_use exemplars;
    enum metric_temporality temporality;
    uint32_t cardinality_limit; /* label sets per metric and resource; a metric's own limit goes before it */
    uint32_t
        max_resources; /* further ones are one: {otel.metric.overflow=true}; room.c: who may have how many */
    bool is_pulled; /* somebody asks for batches, or nobody: series expire all the same, and who asks sees by
                       their absence that they ended */
    uint64_t metric_expiration; /* ns without an addition until a cumulative series ends; 0: never */
    uint64_t gauge_interval; /* ns a gauge adds up for in a cumulative output; 0: from collect to collect */
};

#define OUTPUT_OPTIONS_DEFAULT                                                                     \
    {                                                                                              \
        .temporality = METRIC_DELTA, .cardinality_limit = CARDINALITY_LIMIT_DEFAULT,               \
        .max_resources = OUTPUT_RESOURCES_DEFAULT, .metric_expiration = METRIC_EXPIRATION_DEFAULT, \
        .exemplars = EXEMPLARS_ONCE                                                                \
    }

/* The resource attributes of a Prometheus output: what tells series apart without making one for every
 * process that ever ran (no process.pid, no command line, no container.id). Ends with NULL. */
extern const char *const output_prometheus_keys[];
#define OUTPUT_PROMETHEUS_KEYS 14u

#endif
