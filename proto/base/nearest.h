/* SPDX-License-Identifier: Apache-2.0 */
/*
 * "Did you mean": the name nearest to what was written.
 */
#ifndef PROTO_BASE_NEAREST_H
#define PROTO_BASE_NEAREST_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/base/bytes.h"

/* Looks for the name nearest to what was written: offer every candidate, then read `best` (n == 0: none is
 * near). */
struct nearest {
    struct bytes written, best;
    uint32_t distance, max;
};
void nearest_start(struct nearest *n, struct bytes written);
bool nearest_offer(struct nearest *n, struct bytes candidate); /* true: it is the best now */

/* How an error message ends: "; did you mean BEST?", or "" if none is near. */
struct nearest_text {
    char s[128];
};
struct nearest_text nearest_ask(struct bytes best);

#endif
