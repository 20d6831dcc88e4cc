/*
 * Which samples of a request are kept: decided for each (stack, resource) by a seeded hash of what they say,
 * not of how this request numbers it, so that every gateway with the same seed decides the same, on every
 * request.
 *
 * A stack's content is what is textual and the same on every host: frame types, function names, source files;
 * a frame without a function counts with its address. Mappings (paths, build ids), line numbers and
 * everything of the sample itself are left out. A resource's content is its attributes, in any order.
 */
#ifndef GATEWAY_FORWARD_PICK_H
#define GATEWAY_FORWARD_PICK_H

#include <stddef.h>
#include <stdint.h>

#include "proto/base/budget.h"
#include "proto/otlp/profiles.h"

/* Memory kept from one request to the next; charged to the budget. */
struct pick {
    struct budget *budget;
    uint64_t *words;
    size_t cap;
    uint64_t *keep; /* after pick_samples: bit i % 64 of word i / 64 is sample i */
    uint64_t kept, thinned;
};

/* Fills keep, kept and thinned for a share in (0, 1). A rejected sample is neither. 0, or -ENOMEM (memory or
 * budget). */
int pick_samples(struct pick *p, const struct profiles *view, double share, uint64_t seed);

/* After the request: gives the memory back if it was a huge one. */
void pick_trim(struct pick *p);

void pick_release(struct pick *p);

#endif
