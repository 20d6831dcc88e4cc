/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A slice of time: for each series how much each node (stack) has. While it is open a list of additions; once
 * it is sealed, bytes:
 *
 *     n series, then for each, ascending: its number less the one before, total, kept, seen, unit, bytes of
 * pairs; then, for each series, its pairs, ascending: node less the one before, value in units.
 *
 * All varints. The unit is what all values of a series are multiples of, which is a sampler's period: most
 * pairs are of two or three bytes. Whoever wants some series passes over the bytes of the others.
 */
#ifndef GATEWAY_LOOK_SLICE_H
#define GATEWAY_LOOK_SLICE_H

#include <stdint.h>

#include "proto/base/buffer.h"
#include "proto/base/vec.h"

struct look_pair {
    uint32_t series, node;
    uint64_t value, seen; /* seen: in 1/LOOK_SEEN_ONE */
    uint64_t kept;
};

typedef VEC(struct look_pair) look_pairs;

/* Sorts, and makes one of those that are of the same series and node. */
void look_pairs_merge(look_pairs *pairs);

/* Appends the sealed form of merged pairs. 0 or -ENOMEM. */
int look_slice_write(const look_pairs *pairs, struct buffer *out);

/* A series in a slice. */
struct look_section {
    uint32_t series;
    uint64_t total, kept, seen, unit;
    struct bytes pairs;
};

/* The sections of a slice that anybody may have written, one after the other. */
struct look_sections {
    struct bytes head, body;
    uint32_t left, series;
};

/* Conditions. */
enum {
    LOOK_SLICE_END = 1,
    LOOK_SLICE_DAMAGED, /* the bytes are none of a slice's */
};

/* 0 or LOOK_SLICE_DAMAGED. */
int look_sections_begin(struct bytes slice, struct look_sections *ret);
/* 0, LOOK_SLICE_END or LOOK_SLICE_DAMAGED. */
int look_sections_next(struct look_sections *s, struct look_section *ret);

/* Takes the next pair off a section: begin with node 0. 0, LOOK_SLICE_END or LOOK_SLICE_DAMAGED. */
int look_pairs_next(struct look_section *section, uint32_t *node, uint64_t *ret_value);

/* Adds each pair's value of a section to values[node], of which there are n; what is damaged ends there. */
void look_pairs_add(const struct look_section *section, uint64_t *values, uint32_t n);

/* a + b, or the most there is. */
static inline uint64_t look_add(uint64_t a, uint64_t b)
{
    uint64_t sum;
    return __builtin_add_overflow(a, b, &sum) ? UINT64_MAX : sum;
}

#endif
