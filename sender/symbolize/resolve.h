/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Looks addresses of one file up: Go's table, then symbols, then DWARF, and leaves whole ranges behind.
 *
 * Where several know a name: the function that has the code is called as its symbol is (which also tells
 * ".cold" parts and clones), what is inlined into it as DWARF says; lines are DWARF's.
 */
#ifndef SENDER_SYMBOLIZE_RESOLVE_H
#define SENDER_SYMBOLIZE_RESOLVE_H

#include "sender/symbolize/elf/elf.h"
#include "sender/symbolize/cache/kept.h"
#include "sender/symbolize/cache/names.h"

/* What damaged or hostile DWARF of one file may cost in one go, in bytes looked at (5 to 10 ns each): as much
 * as any real unit. What it took is then missing from the windows that follow. */
#define RESOLVE_UNIT_WORK (256ll << 20)

struct resolve {
    const struct source *source;
    const struct elf *elf;
    const struct source *debug_source; /* of the separate debug file; NULL: none */
    const struct elf *debug_elf;
    const struct source
        *alt_source; /* of what dwz -m took out of the one with DWARF; NULL: nothing, or lost */
    const struct elf *alt_elf;
    struct places *places;
    struct ranges *ranges; /* what is found goes here; to be settled afterwards */
    bool go_only;          /* names of native code are not asked for */
    bool is_rough;         /* the debug file was not looked for, for want of work: all that is found is marked
                              rough, to be looked up again */
    struct kept *kept;     /* of what was looked at before; NULL: nothing is */
    int64_t work; /* bytes of DWARF that may be looked at; what is left comes back, below 0: overdrawn */
};

/* An address, and how often it is in samples: lines of what is there most are looked for first. */
struct resolve_want {
    uint64_t address, hits;
};

/* Looks up n addresses, sorted ascending, none twice. Every one is in a range afterwards, unless memory is
 * out. */
void resolve_addresses(struct resolve *r, const struct resolve_want *want, uint32_t n);

#endif
