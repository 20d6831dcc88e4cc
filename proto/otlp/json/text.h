/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes in JSON as OTLP writes them (OTLP specification, "JSON Protobuf Encoding"), beside what
 * proto/base/json.h writes.
 */
#ifndef PROTO_OTLP_JSON_TEXT_H
#define PROTO_OTLP_JSON_TEXT_H

#include "proto/base/json.h"

/* In quotes: RFC 4648 §4, padded; and lower-case hex. */
void json_put_base64(struct json *j, struct bytes b);
void json_put_hex(struct json *j, struct bytes b);

#endif
