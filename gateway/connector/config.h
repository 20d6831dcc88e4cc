/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The configuration of Elastic's profilingmetricsconnector, read from a Collector's configuration: which
 * metrics are on, the user's aggregations, the interval (its config.go and
 * internal/metadata/generated_config.go, commit 9e2ea7f).
 */
#ifndef GATEWAY_CONNECTOR_CONFIG_H
#define GATEWAY_CONNECTOR_CONFIG_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/base/arena.h"
#include "proto/base/bytes.h"
#include "proto/base/error.h"
#include "proto/base/settings/file.h"

enum connector_strategy { CONNECTOR_AVG, CONNECTOR_SUM };

/* Attributes a gauge can have, as bits; a counter has none to choose. */
enum { CONNECTOR_FRAME_TYPE = 1, CONNECTOR_CLASSIFICATION = 2, CONNECTOR_TYPE_UNIT = 4 };

struct connector_metric {
    const char *name;
    bool gauge, enabled;
    bool enabled_at_first; /* without a word of the user's */
    enum connector_strategy strategy;
    uint32_t attributes, all_attributes; /* bits */
};

struct connector_aggregation {
    const char *match, *label;
    struct settings_place match_at;
};

#define CONNECTOR_METRICS 16u

struct connector_config {
    struct arena arena;
    const char *name;           /* "profilingmetrics/site"; of a bare section "profilingmetrics" */
    const char *flush_interval; /* NULL: not said */
    struct connector_metric metrics[CONNECTOR_METRICS]; /* by name */
    struct connector_aggregation *aggregations;
    uint32_t n_aggregations;
};

/* Reads `text`: a whole Collector configuration, what stands under its `connectors`, or the connector's own
 * section alone. `path` is for messages; `name` says which of several connectors, NULL where there is one. 0,
 * -ENOMEM, or -EINVAL with *e = "PATH:LINE:COLUMN: …"; release in both cases. */
int connector_config_read(struct connector_config *c, const char *path, struct bytes text, const char *name,
                          struct error *e);
void connector_config_release(struct connector_config *c);

#endif
