/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which unit of a file's DWARF an address is in, in few bytes: the units' ranges, each joined with the next
 * one of the same unit if only padding is between. It is made once and kept (dwarf_keep).
 */
#ifndef SENDER_SYMBOLIZE_DWARF_MAP_H
#define SENDER_SYMBOLIZE_DWARF_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/base/vec.h"

/* Edges of one file, 16 bytes each: a program of 20 MB that inlines across crates has some ten thousand. With
 * more there is no map, and its tables are passed over each time. */
#define DWARF_MAP_MAX 65536u
#define DWARF_NO_UNIT UINT64_MAX

struct dwarf_map {
    VEC(struct dwarf_edge) edges; /* from each on it is another unit, or none; ascending */
    bool has_table, has_units;    /* .debug_aranges is in it; and what each unit says */
    bool is_full;                 /* it would be too large: there is none */
};

struct dwarf_edge {
    uint64_t address, unit;
};

/* The unit, where there is a map; or DWARF_NO_UNIT. */
uint64_t dwarf_map_unit(const struct dwarf_map *m, uint64_t address);

/* Ranges being gathered for a map. */
struct dwarf_draft {
    VEC(struct dwarf_area) areas;
    bool is_full;
};

/* Begins with what the map has. */
void dwarf_draft_begin(struct dwarf_draft *d, const struct dwarf_map *m);
void dwarf_draft_add(struct dwarf_draft *d, uint64_t start, uint64_t end, uint64_t unit);

/* Makes the map of it, and releases it. Where ranges overlap, the one that begins last has the address. */
void dwarf_draft_settle(struct dwarf_draft *d, struct dwarf_map *m);

void dwarf_map_release(struct dwarf_map *m);
size_t dwarf_map_memory(const struct dwarf_map *m);

#endif
