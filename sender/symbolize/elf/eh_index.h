/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where functions begin, by the index of their descriptions that unwinders use (LSB, "The .eh_frame_hdr
 * section"): sorted, and in the file where its symbols were stripped. Everything in it is untrusted.
 */
#ifndef SENDER_SYMBOLIZE_ELF_EH_INDEX_H
#define SENDER_SYMBOLIZE_ELF_EH_INDEX_H

#include "sender/symbolize/elf/dynamic.h"

/* As in the file: from the section's address on, where a function begins, and its description (DWARF 5,
 * 6.4.1). */
struct eh_entry {
    int32_t start, description;
};

struct eh_index {
    const struct dynamic *in; /* the caller's */
    uint64_t base;            /* the section's address */
    uint64_t frames;          /* where the descriptions begin, .eh_frame; 0: not said as linkers say it */
    uint32_t n;               /* entries; 0: there are none, or not in the one form that linkers write */
};

/* Bytes in front of the entries. */
#define EH_INDEX_HEAD 12u

/* False: there is no such section. */
bool eh_index_open(struct eh_index *x, const struct dynamic *d);

/* n entries from the i-th on; false if the file does not have them. */
bool eh_index_read(const struct eh_index *x, uint32_t i, struct eh_entry *to, uint32_t n);

/* What an entry says, as an ELF address. */
static inline uint64_t eh_index_address(const struct eh_index *x, int32_t of)
{
    return x->base + (uint64_t)(int64_t)of;
}

/* Where the function that has an address begins and ends: of what is not exported, and of the parts that
 * compilers keep apart. False: it is not said. */
bool eh_index_bounds(const struct dynamic *d, uint64_t address, uint64_t *start, uint64_t *end);

#endif
