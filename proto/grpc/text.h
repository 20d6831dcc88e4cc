/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How gRPC writes values into header fields (grpc/grpc doc/PROTOCOL-HTTP2.md): percent-encoding for
 * grpc-message, base64 (proto/base/base64.h) for names that end in -bin, and grpc-timeout.
 */
#ifndef PROTO_GRPC_TEXT_H
#define PROTO_GRPC_TEXT_H

#include <stdint.h>

#include "proto/base/buffer.h"
#include "proto/base/bytes.h"

/* Appends a grpc-message value: bytes outside 0x20–0x7E and '%' become %XX ("Percent-Encoded"). 0 or -ENOMEM,
 * -ENOBUFS. */
int grpc_percent_encode(struct bytes text, struct buffer *out);

/* Appends what a grpc-message says. Never fails on bad escapes: they are taken as they stand. 0 or -ENOMEM,
 * -ENOBUFS. */
int grpc_percent_decode(struct bytes value, struct buffer *out);

/* base64_decode of a -bin value, which should be sent without padding, and is taken with it. Of several
 * values joined with ',' the first is taken. */
int grpc_base64_decode(struct bytes value, struct buffer *out);

/* A grpc-timeout value: 1 … 8 digits and one of H M S m u n. 0, or -EINVAL for anything else. 99999999H is
 * more than 64 bits of nanoseconds hold; it becomes UINT64_MAX. */
int grpc_timeout_parse(struct bytes value, uint64_t *ret_ns);

#define GRPC_TIMEOUT_MAX 10 /* 8 digits, the unit, a NUL */

/* Writes a timeout in the finest unit in which it has at most 8 digits, rounded up, so that the server does
 * not give up before the client. */
void grpc_timeout_format(uint64_t ns, char to[GRPC_TIMEOUT_MAX]);

#endif
