/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ready is who would take a request now: one of REQUEST_BYTES that a new client sends. Each condition is
 * tried as the request would try it, and given back at once.
 */
#include <string.h>

#include "gateway/run/gateway.h"
#include "gateway/run/parts.h"
#include "proto/base/macros.h"

/* Most requests of profilers are smaller. */
#define REQUEST_BYTES ((size_t)64 << 10)
/* What it takes while it is decoded and counted, roughly: the body as it came, plain, and its columns. */
#define REQUEST_MEMORY (4 * REQUEST_BYTES)

static bool is_serving(void *context, struct error *why)
{
    struct gateway *g = context;
    if (g->stopping)
        error_set(why, 0, "stopping");
    return !g->stopping;
}

static bool has_connection(void *context, struct error *why)
{
    struct gateway *g = context;
    const uint32_t max = g->options->config->connections, open = listen_connections(g->listen);
    if (open >= max)
        error_set(why, 0, "all of limits.connections=%u are open", max);
    return open < max;
}

static bool has_memory(void *context, struct error *why)
{
    struct gateway *g = context;
    if (budget_charge(&g->budget, REQUEST_MEMORY)) {
        budget_refund(&g->budget, REQUEST_MEMORY);
        return true;
    }
    error_set(why, 0, "%zu of limits.memory=%zu bytes are in use", atomic_load(&g->budget.used),
              g->budget.limit);
    return false;
}

static bool has_queues(void *context, struct error *why)
{
    struct gateway *g = context;
    if (g->config->when_full == CONFIG_DROP) /* requests are taken all the same */
        return true;
    const char *full = outputs_without_room(g->outputs, REQUEST_BYTES);
    if (full)
        error_set(why, 0, "the queue of exporter %s has no room for raw profiles", full);
    return !full;
}

struct admin_page gateway_ready_page(struct gateway *g)
{
    const struct admin_check checks[] = {
        {"receiver", is_serving, g},
        {"connections", has_connection, g},
        {"memory", has_memory, g},
        {"queues", has_queues, g},
    };
    _Static_assert(ARRAY_LEN(checks) == ARRAY_LEN(g->checks), "each has its place");
    memcpy(g->checks, checks, sizeof checks);
    g->ready = (struct admin_ready){g->checks, ARRAY_LEN(checks)};
    return admin_ready_page(&g->ready);
}
