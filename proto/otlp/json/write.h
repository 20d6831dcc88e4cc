/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A request of profiles as OTLP/JSON: the way back of profiles.h, led by the same table of names.
 */
#ifndef PROTO_OTLP_JSON_WRITE_H
#define PROTO_OTLP_JSON_WRITE_H

#include "proto/base/buffer.h"

/* Appends an ExportProfilesServiceRequest (protobuf of 1.10) as one line, '\n' included: lowerCamelCase keys
 * in the order of their numbers, 64-bit integers as strings, traceId, spanId and profileId in hex, other
 * bytes in base64. What is on the wire is written, also where it is a zero; fields that nobody knows are not.
 * Of a oneof the last member counts, of a field that is given twice the last value; messages are merged.
 *
 * Iterative. 0; PROFILES_MALFORMED (proto/otlp/view/profiles.h): not such a message, or nested deeper than a
 * decoder takes; -ENOMEM; -ENOBUFS: longer than out->max. On failure nothing is appended. Any thread. */
int profiles_json_write(struct bytes body, struct buffer *out);

#endif
