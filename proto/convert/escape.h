/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes that are not UTF-8 as text that is, without loss: each such byte is U+FFFD and two hex digits in
 * small letters, and so is every byte of a U+FFFD that was there. NAME_ESCAPED says that it was done.
 */
#ifndef PROTO_CONVERT_ESCAPE_H
#define PROTO_CONVERT_ESCAPE_H

#include "proto/base/buffer.h"

/* Appends. 0, -ENOMEM or -ENOBUFS; then a part is appended. */
int escape_bytes(struct bytes text, struct buffer *out);
int unescape_bytes(struct bytes text, struct buffer *out);

#endif
