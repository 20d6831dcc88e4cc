/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/stats/block.h"

#include <stdbool.h>
#include <stdlib.h>

static struct stats *blocks; /* only ever grows at the front */

struct stats *stats_new(void)
{
    struct stats *s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    s->next = __atomic_load_n(&blocks, __ATOMIC_RELAXED);
    while (!__atomic_compare_exchange_n(&blocks, &s->next, s, true, __ATOMIC_RELEASE, __ATOMIC_RELAXED))
        ;
    return s;
}

const struct stats *stats_blocks(void)
{
    return __atomic_load_n(&blocks, __ATOMIC_ACQUIRE);
}

uint64_t stats_read(enum stats_id id)
{
    uint64_t sum = 0;
    for (const struct stats *s = stats_blocks(); s; s = s->next)
        sum += __atomic_load_n(&s->value[id], __ATOMIC_RELAXED);
    return sum;
}
