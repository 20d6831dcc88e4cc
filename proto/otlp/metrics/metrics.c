/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/otlp/metrics/metrics.h"

#include <stdlib.h>

struct metric_batch *metric_batch_new(struct budget *budget)
{
    struct metric_batch *b = calloc(1, sizeof *b);
    if (b) {
        b->arena = (struct arena)ARENA_INIT(budget);
        b->lives.budget = budget;
    }
    return b;
}

struct metric_batch *metric_batch_free(struct metric_batch *b)
{
    if (b) {
        arena_release(&b->arena);
        vec_release(&b->lives);
        free(b);
    }
    return NULL;
}

uint64_t metric_batch_points(const struct metric_batch *b)
{
    uint64_t n = 0;
    for (uint32_t r = 0; r < b->n_resources; r++)
        for (uint32_t m = 0; m < b->resources[r].n_metrics; m++)
            n += b->resources[r].metrics[m].n_points;
    return n;
}
