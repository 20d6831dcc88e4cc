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

/* No less than what as many samples with as many references to attributes will take: what is to be charged
 * before they are written. */
size_t finish_bound(uint64_t samples, uint64_t attributes);

/* Appends the request to `out` with PROFILES_PADDING readable bytes behind it, out->cap being on the budget
 * before and after. 0, FINISH_TOO_LARGE (out->max), -ENOMEM; then nothing is appended. */
int finish_request(struct build *b, struct budget *budget, struct buffer *out);

#endif
