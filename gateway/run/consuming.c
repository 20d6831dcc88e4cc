/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/run/consuming.h"

#include "gateway/run/parts.h"

/* With the next round of hand-overs, which begins now. */
static void wants_flush(void *context)
{
    struct gateway *g = context;
    g->next_flush_ns = 0;
    gateway_collect(g);
}

int consuming_begin(struct consumer **ret, const struct config *c, struct gateway *g, struct error *e)
{
    const struct config_kafka *k = &c->kafka;
    const struct consumer_options options = {
        .connection = &k->connection,
        .topics = k->topics,
        .json = k->encoding == KAFKA_OTLP_JSON,
        .group_id = k->group_id,
        .group_instance_id = k->group_instance_id,
        .earliest = k->initial_offset == CONFIG_EARLIEST,
        .session_timeout_ns = k->session_timeout_ns,
        .heartbeat_ns = k->heartbeat_ns,
        .fetch_wait_ns = k->fetch_wait_ns,
        .fetch_bytes = k->fetch_bytes,
        .partition_bytes = k->partition_bytes,
        .request_bytes = c->request_bytes,
        .loop = g->loop,
        .lanes = g->lanes,
        .budget = &g->budget,
        .wants_flush = wants_flush,
        .context = g,
    };
    *ret = NULL;
    return c->has_kafka ? consumer_new(ret, &options, e) : 0;
}
