/*
 * Names by address range: what is known so far of one file.
 */
#ifndef SENDER_SYMBOLIZE_RANGES_H
#define SENDER_SYMBOLIZE_RANGES_H

#include <stdbool.h>
#include <stdint.h>

struct range {
    uint64_t start, end;
    uint32_t name, file; /* interned number + 1; 0: none */
    uint32_t line;
    uint32_t is_go;
};

struct ranges {
    struct range *range; /* the first n_sorted ascending, apart from each other */
    uint32_t n, cap, n_sorted;
};

/* Adds one, out of order; found after ranges_settle. 0 or -ENOMEM. */
int ranges_add(struct ranges *r, const struct range *add);

/* Sorts what was added in; where two overlap, the earlier start stays and the other is dropped. */
void ranges_settle(struct ranges *r);

/* The settled range an address is in, or NULL. */
const struct range *ranges_find(const struct ranges *r, uint64_t address);

void ranges_release(struct ranges *r);

#endif
