/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who asks, as a header says it: Authorization, Proxy-Authorization.
 */
#ifndef PROTO_CLIENT_BASIC_H
#define PROTO_CLIENT_BASIC_H

#include "proto/base/buffer.h"

/* Appends "Basic " and base64 with padding of "user:password" (RFC 7617), which is taken as it is. 0,
 * -ENOMEM, -ENOBUFS. */
int basic_append(struct bytes user_and_password, struct buffer *out);

#endif
