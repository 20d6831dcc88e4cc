/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/base/nearest.h"

#include <stdio.h>

#include "proto/base/macros.h"

/* Names longer than this are not compared: nobody's typing is being corrected there. */
#define DISTANCE_MAX 64u

/* How many single-byte edits (insert, remove, replace, swap of neighbours) lead from a to b; at most max + 1.
 */
static uint32_t edit_distance(struct bytes a, struct bytes b, uint32_t max)
{
    uint32_t row[3][DISTANCE_MAX + 1];
    if (a.n > DISTANCE_MAX || b.n > DISTANCE_MAX)
        return bytes_eq(a, b) ? 0 : max + 1;
    for (uint32_t j = 0; j <= b.n; j++)
        row[0][j] = j;
    for (uint32_t i = 1; i <= a.n; i++) {
        uint32_t *now = row[i % 3], *before = row[(i + 2) % 3], *two_before = row[(i + 1) % 3];
        now[0] = i;
        for (uint32_t j = 1; j <= b.n; j++) {
            uint32_t same = a.p[i - 1] == b.p[j - 1] ? 0 : 1;
            uint32_t one_more = min_of(now[j - 1], before[j]) + 1;
            now[j] = min_of(one_more, before[j - 1] + same);
            if (i > 1 && j > 1 && a.p[i - 1] == b.p[j - 2] && a.p[i - 2] == b.p[j - 1])
                now[j] = min_of(now[j], two_before[j - 2] + 1);
        }
    }
    return min_of(row[a.n % 3][b.n], max + 1);
}

void nearest_start(struct nearest *n, struct bytes written)
{
    /* A third of the letters may be wrong; a one-letter name is never somebody's misspelling. */
    *n = (struct nearest){.written = written, .max = written.n < 2 ? 0 : max_of((uint32_t)written.n / 3, 1u)};
    n->distance = n->max + 1;
}

bool nearest_offer(struct nearest *n, struct bytes candidate)
{
    uint32_t d = edit_distance(n->written, candidate, n->max);
    if (d >= n->distance)
        return false;
    n->distance = d;
    n->best = candidate;
    return true;
}

struct nearest_text nearest_ask(struct bytes best)
{
    struct nearest_text text = {""};
    if (best.n > 0)
        snprintf(text.s, sizeof text.s, "; did you mean %.*s?", BYTES_FMT(best));
    return text;
}
