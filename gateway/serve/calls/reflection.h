/* SPDX-License-Identifier: Apache-2.0 */
/*
 * grpc.reflection.v1 and v1alpha (grpc/grpc doc/server-reflection.md, grpc/grpc-proto
 * grpc/reflection/v1/reflection.proto): which services there are and what their messages look like. The two
 * versions differ in their package name alone.
 */
#ifndef GATEWAY_SERVE_CALLS_REFLECTION_H
#define GATEWAY_SERVE_CALLS_REFLECTION_H

#include "proto/base/buffer.h"
#include "proto/base/bytes.h"

/* Conditions of reflection_answer. */
enum {
    REFLECTION_MALFORMED = 1, /* no ServerReflectionRequest, or a string in it is not UTF-8 */
    REFLECTION_EMPTY,         /* one that asks nothing: no member of its oneof is set */
};

/* Appends the ServerReflectionResponse to a ServerReflectionRequest; what is not there is answered with an
 * error_response in it. 0, a condition above, -ENOMEM or -ENOBUFS; nothing of use is appended then. */
int reflection_answer(struct bytes request, struct buffer *out);

#endif
