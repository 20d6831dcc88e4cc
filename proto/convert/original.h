/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What pprof has no place for: the request that a pprof was made of, as a last field of it, 4317, which
 * pprof's readers pass over as they do with any that they do not know. A hash of all before it goes along: a
 * pprof that somebody has changed since says only what it says itself.
 */
#ifndef PROTO_CONVERT_ORIGINAL_H
#define PROTO_CONVERT_ORIGINAL_H

#include "proto/base/buffer.h"

/* `out` has a pprof from byte `begun` on: appends `otlp` (1.10) to it. 0, -ENOMEM, -ENOBUFS; then nothing is.
 */
int original_append(struct buffer *out, size_t begun, struct bytes otlp);

/* The request that was appended to a plain pprof, within it; what it holds is not looked at. False: there is
 * none, or it is another profile's. */
bool original_of(struct bytes pprof, struct bytes *ret);

#endif
