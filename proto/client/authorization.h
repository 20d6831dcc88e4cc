/* SPDX-License-Identifier: Apache-2.0 */
/* What a client says of itself, by a secret in a file. */
#ifndef PROTO_CLIENT_AUTHORIZATION_H
#define PROTO_CLIENT_AUTHORIZATION_H

#include "proto/base/buffer.h"
#include "proto/base/error.h"

/* Appends the value of an Authorization header: of a user and his password (RFC 7617), or, where username is
 * NULL, of a bearer token (RFC 6750). The file is one line, 1023 bytes at most. 0, or a negative errno with
 * *e. */
int authorization_from_file(const char *username, const char *file, struct buffer *out, struct error *e);

#endif
