/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the runs over the dictionary's tables share (dictionary.c says what a run is): macros that
 * take a field if it is the next one. In all of them `p` is the position and `q` the end of the entry.
 * Private to proto/otlp/view.
 */
#ifndef PROTO_OTLP_VIEW_RUN_H
#define PROTO_OTLP_VIEW_RUN_H

#include "proto/otlp/layouts/fields.h"
#include "proto/otlp/view/decode.h"

/* If the next field is the varint field `number`, reads it. */
#define TAKE_VARINT(number, variable)                     \
    do {                                                  \
        if (p < q && *p == WIRE_TAG(number, WIRE_VARINT)) \
            p = wire_load_varint(p + 1, &(variable));     \
    } while (0)
#define TAKE_VARINT_LONG(number, variable)                 \
    do {                                                   \
        if (p < q && *p == WIRE_TAG(number, WIRE_VARINT))  \
            p = wire_load_varint_long(p + 1, &(variable)); \
    } while (0)

/* The same without asking whether the entry has ended, for tight loops over entries of one shape: they break
 * at values of more than three bytes (eight). No address is taken, so variables stay in registers. */
#define TAKE_SHORT(number, variable)                            \
    if (*p == WIRE_TAG(number, WIRE_VARINT)) {                  \
        uint64_t byte_ = p[1];                                  \
        (variable) = byte_;                                     \
        p += 2;                                                 \
        if (byte_ >= 0x80) {                                    \
            byte_ = *p++;                                       \
            (variable) = ((variable)&0x7f) | byte_ << 7;        \
            if (unlikely(byte_ >= 0x80)) {                      \
                byte_ = *p++;                                   \
                (variable) = ((variable)&0x3fff) | byte_ << 14; \
                if (byte_ >= 0x80)                              \
                    break;                                      \
            }                                                   \
        }                                                       \
    }
#define TAKE_LONG(number, variable)                      \
    if (*p == WIRE_TAG(number, WIRE_VARINT)) {           \
        uint64_t bytes_ = wire_load64(p + 1);            \
        uint32_t length_ = wire_varint_length(bytes_);   \
        if (unlikely(length_ == 0))                      \
            break;                                       \
        (variable) = wire_varint_value(bytes_, length_); \
        p += 1 + length_;                                \
    }

/* Whether a length is one byte, and not that of a hollow entry, which the general reader counts. */
static inline __attribute__((always_inline)) bool short_entry(uint8_t length)
{
    return (uint8_t)(length - (HOLLOW_BYTES + 1)) < 0x80 - (HOLLOW_BYTES + 1);
}

/* Reads tag and length of the next entry, or packed list, and sets `q`; NULL when none of that number comes
 * next or it does not fit into [*, end). */
static inline __attribute__((always_inline)) const uint8_t *entry_begin(const uint8_t *p, const uint8_t *end,
                                                                        uint32_t number,
                                                                        const uint8_t **ret_q)
{
    uint64_t n;
    if (p >= end || *p != WIRE_TAG(number, WIRE_LEN))
        return NULL;
    p = wire_load_varint(p + 1, &n);
    if (unlikely(p > end || n > (uint64_t)(end - p)))
        return NULL;
    *ret_q = p + n;
    return p;
}

/* location.c: as many locations as the run takes from the tag at `from` on; returns where it
 * stopped. */
const uint8_t *decode_location_run(struct decode *d, const uint8_t *from, const uint8_t *end);

/* location.c: one location of any shape; there is room for it. */
int decode_location(struct decode *d, struct bytes message);

/* sample.c: the same of Profile.samples; there is room for one sample. */
const uint8_t *decode_sample_run(struct decode *d, const uint8_t *from, const uint8_t *end);
int decode_sample(struct decode *d, struct bytes message);

#endif
