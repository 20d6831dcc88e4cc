/* SPDX-License-Identifier: Apache-2.0 */
/* What stands together in both is copied at once: the first part's labels between two of the second. */
#include "gateway/export/prometheus/parts.h"

#include <string.h>

static uint8_t *put(uint8_t *to, const struct label_part *part, size_t from, size_t end)
{
    memcpy(to, part->text.p + from, end - from);
    return to + (end - from);
}

static size_t end_of(const struct label_part *part, uint32_t n)
{
    return n > 0 ? part->places[n - 1].end : 0;
}

size_t label_parts_merge(const struct label_part *a, const struct label_part *b, const uint32_t *rank,
                         uint8_t *to)
{
    uint8_t *at = to;
    uint32_t i = 0;
    size_t done = 0;
    for (uint32_t k = 0; k < b->n; k++) {
        while (i < a->n && rank[a->places[i].name] < rank[b->places[k].name])
            i++;
        at = put(at, a, done, end_of(a, i));
        done = end_of(a, i);
        at = put(at, b, end_of(b, k), end_of(b, k + 1));
    }
    return (size_t)(put(at, a, done, a->text.n) - to);
}
