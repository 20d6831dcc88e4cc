/* SPDX-License-Identifier: Apache-2.0 */
/*
 * OTLP/JSON profiles: a request in the JSON encoding (OTLP specification, "JSON Protobuf Encoding";
 * protobuf.dev "ProtoJSON Format") written again as protobuf, which profiles_decode_as then reads like
 * any other.
 *
 * Taken: lowerCamelCase keys, and those of the .proto as the Collector does; fields in any order; unknown
 * keys with whatever they hold are passed over; null is an absent field; of a key given twice the last scalar
 * counts, lists are joined and messages merged, as in protobuf; numbers as numbers or strings, exactly;
 * traceId and spanId in hex, profileId in hex or base64, which its length tells; other bytes in base64.
 */
#ifndef PROTO_OTLP_JSON_PROFILES_H
#define PROTO_OTLP_JSON_PROFILES_H

#include "proto/base/budget.h"
#include "proto/base/buffer.h"
#include "proto/base/error.h"
#include "proto/otlp/view/profiles.h"

/* Appends the request that `json` holds, in the wire layout whose names it is written in, which is
 * ret->layout: 1.5, 1.7, 1.8, or 1.10, whose names 1.9 has too; with PROFILES_PADDING readable bytes behind
 * it. For profiles_decode_as(…, ret->layout, …), which translates, and counts as what it came.
 *
 * Iterative, in one pass; only limits->depth is looked at: how many messages an attribute value may nest.
 * out->cap bytes are on `budget` (may be NULL) before and after, as room.h of proto/base has it; whoever
 * releases the buffer refunds them. The result is shorter than the JSON as people write it (about a third);
 * at worst, lists of negative or fixed-size numbers, it is four times as long: out->max bounds it.
 *
 * 0; PROFILES_MALFORMED, where *e begins with the place, "resourceProfiles[0].…[3].stackIndex: … at byte
 * 812"; PROFILES_OVER_BUDGET: the budget is spent; PROFILES_TOO_LARGE: longer than out->max; -ENOMEM. On
 * failure nothing is appended. */
int profiles_json_transcode(struct bytes json, const struct profiles_limits *limits, struct budget *budget,
                            struct buffer *out, struct profiles_written *ret, struct error *e);

#endif
