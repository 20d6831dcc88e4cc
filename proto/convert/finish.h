/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The end of a request that was made of another format. For proto/convert only.
 */
#ifndef PROTO_CONVERT_FINISH_H
#define PROTO_CONVERT_FINISH_H

#include <stdint.h>

#include "proto/base/budget.h"
#include "proto/base/buffer.h"
#include "proto/otlp/write/build.h"

enum { FINISH_TOO_LARGE = 1 };

/* No less than what as many samples with as many references to attributes will take. */
size_t finish_bound(uint64_t samples, uint64_t attributes);

struct finish {
    struct budget *budget;
    struct buffer *out;
    size_t was, charged, max;
};

/* Before the first resource, when the dictionary is complete: makes room for the whole request in `out`,
 * charged to the budget, and lets it be written there. 0; -ENOMEM: memory, the budget. */
int finish_begin(struct finish *f, struct build *b, struct budget *budget, size_t bound, struct buffer *out);

/* The request is complete: it is in `out` with PROFILES_PADDING readable bytes behind it, out->cap being on
 * the budget before and after. `r`: what failed meanwhile. 0, r, FINISH_TOO_LARGE (out->max), -ENOMEM; then
 * nothing is appended. */
int finish_end(struct finish *f, struct build *b, int r);

/* Likewise, but it goes to `put` in pieces, and `out` is released. 0, r, what `put` returned, -ENOMEM. */
int finish_pieces(struct finish *f, struct build *b, int r, build_put *put, void *user);

/* The same for a request that was built without finish_begin: appends it. */
int finish_request(struct build *b, struct budget *budget, struct buffer *out);

#endif
