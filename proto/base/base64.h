/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Base64 (RFC 4648).
 */
#ifndef PROTO_BASE_BASE64_H
#define PROTO_BASE_BASE64_H

#include <stdbool.h>

#include "proto/base/buffer.h"

/* Appends the base64 of §4, padded or not. 0, -ENOMEM or -ENOBUFS. */
int base64_encode(struct bytes data, bool is_padded, struct buffer *out);

/* Conditions of base64_decode. */
enum {
    BASE64_BAD = 1, /* a character or a length that no base64 has; nothing was appended */
};

/* Appends what it says, padded or not; is_any: also in the alphabet of §5 ("base64url"). `out` may be the
 * room that the text is in, emptied: the bytes are never more. 0, BASE64_BAD, -ENOMEM or -ENOBUFS. */
int base64_decode(struct bytes text, bool is_any, struct buffer *out);

#endif
