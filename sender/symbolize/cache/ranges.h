/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names by address range: what is known so far of one file.
 */
#ifndef SENDER_SYMBOLIZE_CACHE_RANGES_H
#define SENDER_SYMBOLIZE_CACHE_RANGES_H

#include <stdint.h>

#include "proto/base/vec.h"

enum range_flags {
    RANGE_GO = 1,    /* Go's own table says so */
    RANGE_ROUGH = 2, /* to be looked up again: for lines, or as the debug file has come since */
};

struct range {
    uint64_t start, end;
    uint32_t place; /* of places.h; 0: none */
    uint32_t flags;
};

struct ranges {
    VEC(struct range) all; /* the first n_sorted ascending, apart from each other */
    uint32_t n_sorted;
};

/* Adds one, out of order; found after ranges_settle. 0 or -ENOMEM. */
int ranges_add(struct ranges *r, const struct range *add);

/* Sorts what was added in. Where two overlap, the earlier start stays and the other begins behind it: an
 * address that one was added for is in one. */
void ranges_settle(struct ranges *r);

/* The settled range an address is in, or NULL. */
const struct range *ranges_find(const struct ranges *r, uint64_t address);

/* Makes a range that is to be added as small as what is not known around an address. */
void ranges_clip(const struct ranges *r, uint64_t address, struct range *range);

/* Takes out the rough range an address is in, if it is in one; gone after ranges_settle. */
void ranges_drop_rough(struct ranges *r, uint64_t address);

/* Makes all of them rough: there is more to be had now than what they were found in. */
void ranges_roughen(struct ranges *r);

void ranges_release(struct ranges *r);

#endif
