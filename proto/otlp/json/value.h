/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the scalars of a JSON text mean as protobuf fields: numbers exactly (never an integer by way of a
 * double), strings without their escapes, bytes from hex or base64. For whoever reads by reader.h.
 *
 * Sources: RFC 8259 §6, §7; RFC 4648 §4, §5, §8; protobuf.dev "ProtoJSON Format" (integers may be written as
 * strings or with an exponent, as long as they are integral and in range; base64 in either alphabet, padded
 * or not).
 */
#ifndef PROTO_OTLP_JSON_VALUE_H
#define PROTO_OTLP_JSON_VALUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/base/bytes.h"

/* Conditions of the functions that read numbers; *ret is set only with 0. */
enum {
    JSON_NOT_A_NUMBER = 1, /* not what RFC 8259 §6 calls a number */
    JSON_NOT_INTEGRAL,     /* 1.5 where an integer belongs */
    JSON_OUT_OF_RANGE, /* does not fit the type; or a double of more than JSON_READ_DOUBLE_MAX characters */
};

/* No double needs more digits than 767 to be told from its neighbours. */
#define JSON_READ_DOUBLE_MAX 1024u

/* The end of the number that begins at p, or NULL when there is none. */
const uint8_t *json_number_end(const uint8_t *p, const uint8_t *end);

/* The whole text as a number: 12, -3, 1e3, 25.0e-1 is not integral. Linear in its length. */
int json_read_int64(struct bytes text, int64_t *ret);
int json_read_uint64(struct bytes text, uint64_t *ret);
int json_read_double(struct bytes text, double *ret);

/* The length of the escape at p (where a backslash is): 2, 6, or 12 for a surrogate pair; 0 when it is none,
 * or a surrogate without its other half, which no UTF-8 can say. */
size_t json_escape_length(const uint8_t *p, const uint8_t *end);

/* Resolves the escapes of a string that the reader has accepted; `out` has room for text.n bytes, which is
 * never too little. Returns the bytes written. */
size_t json_unescape(struct bytes text, uint8_t *out);

/* Decode in place: the result is never longer. False for a foreign character or an impossible length. */
bool json_hex(uint8_t *p, size_t *n);
bool json_base64(uint8_t *p, size_t *n);

#endif
