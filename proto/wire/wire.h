/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What every user of the protobuf wire format shares (protobuf.dev, "Encoding").
 */
#ifndef PROTO_WIRE_WIRE_H
#define PROTO_WIRE_WIRE_H

#include <stdint.h>
#include <string.h>

enum wire_type {
    WIRE_VARINT = 0,
    WIRE_I64 = 1,
    WIRE_LEN = 2,
    WIRE_SGROUP = 3, /* groups are deprecated and no OTLP message has one: an unknown field of some length */
    WIRE_EGROUP = 4,
    WIRE_I32 = 5,
};

/* Conditions of this folder's functions. */
enum {
    WIRE_END = 1,   /* nothing is left */
    WIRE_MALFORMED, /* truncated, varint too long, field number 0 or above 2^29 - 1, a group without its end
                     */
    WIRE_TOO_DEEP,  /* nested deeper than the caller allows */
};

#define WIRE_FIELD_MAX  ((1u << 29) - 1)
#define WIRE_VARINT_MAX 10u /* bytes: ten times seven bits hold 64 */

/* Groups inside one another, and messages in wire_check: OTLP runtimes stop at 100. */
#define WIRE_DEPTH_MAX 128u

/* Tag of a field as a constant, for a switch. */
#define WIRE_TAG(number, type) ((uint32_t)(number) << 3 | (type))

/* Little-endian on the wire; memcpy, because nothing is aligned there. */
static inline uint64_t wire_load64(const uint8_t *p)
{
    uint64_t v;
    memcpy(&v, p, sizeof v);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    v = __builtin_bswap64(v);
#endif
    return v;
}

#endif
