/* SPDX-License-Identifier: Apache-2.0 */
/*
 * google.rpc.Status with the details OTLP uses (google/rpc/status.proto, google/rpc/error_details.proto): the
 * body of every refusal over HTTP, and grpc-status-details-bin over gRPC.
 *
 * The protobuf form; the JSON form is the server's business (gateway/serve).
 */
#ifndef PROTO_GRPC_STATUS_H
#define PROTO_GRPC_STATUS_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/base/buffer.h"
#include "proto/base/bytes.h"

#define GRPC_TYPE_RETRY_INFO  "type.googleapis.com/google.rpc.RetryInfo"
#define GRPC_TYPE_BAD_REQUEST "type.googleapis.com/google.rpc.BadRequest"

struct grpc_status {
    int32_t code; /* enum grpc_code, or what a peer made of it */
    struct bytes message;
    bool has_retry; /* a RetryInfo is there: an invitation to try again */
    uint64_t retry_ns;
    bool has_violation; /* a BadRequest is there, with this (its first) violation */
    struct bytes field, description;
};

/* Appends the message. 0, -ENOMEM or -ENOBUFS. */
int grpc_status_encode(const struct grpc_status *s, struct buffer *out);

/* Conditions of grpc_status_decode. */
enum {
    GRPC_STATUS_MALFORMED = 1,
};

/* Reads one: slices point into `in`. Unknown fields and details are skipped, of a detail that repeats the
 * first is taken; a negative or absurd delay counts as none given (0 ns). No recursion. 0 or
 * GRPC_STATUS_MALFORMED, then *ret is zero. */
int grpc_status_decode(struct bytes in, struct grpc_status *ret);

/* Appends what Connect says in place of a Status: {"code":"not_found","message":"…"}
 * (connectrpc.com/docs/protocol, "Error Codes"). Likewise. */
int grpc_connect_error(struct buffer *out, int32_t code, struct bytes message);

#endif
