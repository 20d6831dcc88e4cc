/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How much work is in a body that has files of pprof somewhere in it: for intake.size.
 */
#ifndef GATEWAY_SERVE_PYROSCOPE_SIZE_H
#define GATEWAY_SERVE_PYROSCOPE_SIZE_H

#include "proto/base/bytes.h"
#include "proto/coding/coding.h"

/* Where there is gzip in it, what comes out is not told, but is up to 1032 times as much (deflate). */
static inline size_t pyroscope_size(struct bytes body)
{
    const bool packed = body.n > 0 && memmem(body.p, body.n, "\x1f\x8b\x08", 3);
    return packed && body.n < SIZE_MAX / 1032 ? body.n * 1032 : body.n;
}

#endif
