/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Scalars as JSON texts, appended to a buffer: what writers of OTLP/JSON share (OTLP specification, "JSON
 * Protobuf Encoding"). All return 0, -ENOMEM or -ENOBUFS.
 */
#ifndef PROTO_OTLP_JSON_TEXT_H
#define PROTO_OTLP_JSON_TEXT_H

#include "proto/base/buffer.h"

/* In quotes, escaped (RFC 8259 §7); bytes that are not UTF-8 become U+FFFD. */
int json_write_string(struct buffer *out, struct bytes s);

/* The shortest decimal that reads back to the same double; "NaN", "Infinity", "-Infinity" in quotes. */
int json_write_double(struct buffer *out, double v);

/* In quotes: RFC 4648 §4, padded; and lower-case hex. */
int json_write_base64(struct buffer *out, struct bytes b);
int json_write_hex(struct buffer *out, struct bytes b);

#endif
