/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Captures in variants: half of the function names end differently in each, in place, so that the strings,
 * frames and stacks of a set of requests are as many times as many as there are variants, and all else is as
 * captured.
 */
#ifndef TESTS_BENCH_VARY_H
#define TESTS_BENCH_VARY_H

#include <stdlib.h>

#include "proto/otlp/view/profiles.h"

#define VARIED_BYTES 3u                /* at a name's end */
#define VARIED_MAX   (26u * 26u * 26u) /* variants */
#define VARIED_NAME \
    (4u * VARIED_BYTES) /* names of fewer bytes are left alone: they would not be recognized */

struct varied {
    struct bytes *end; /* of each name that changes, inside the body the view was decoded from */
    uint32_t n;
};

/* Every other function name. -1 when memory is out. The body must be writable. */
static inline int varied_find(struct varied *ret, const struct profiles *v)
{
    uint8_t *seen = calloc(v->string.n + 1, 1);
    *ret = (struct varied){.end = calloc(v->function.n + 1, sizeof *ret->end)};
    for (uint32_t i = 0; seen && ret->end && i < v->function.n; i++) {
        uint32_t string = v->function.name[i];
        struct bytes name = profiles_string(v, string);
        if (string % 2 == 0 || seen[string] || name.n < VARIED_NAME)
            continue;
        seen[string] = 1;
        ret->end[ret->n++] = bytes_of(name.p + name.n - VARIED_BYTES, VARIED_BYTES);
    }
    free(seen);
    return seen && ret->end ? 0 : -1;
}

static inline void varied_set(const struct varied *varied, uint32_t variant)
{
    for (uint32_t i = 0; i < varied->n; i++) {
        uint8_t *p = (uint8_t *)(uintptr_t)varied->end[i].p;
        for (uint32_t k = 0, left = variant; k < VARIED_BYTES; k++, left /= 26)
            p[k] = (uint8_t)('a' + left % 26);
    }
}

#endif
