/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A profile of an older format while it is read: legacy.c has its kinds, legacy_map.c its memory map. For
 * proto/pprof only.
 */
#ifndef PROTO_PPROF_LEGACY_PARTS_H
#define PROTO_PPROF_LEGACY_PARTS_H

#include "proto/base/buffer.h"
#include "proto/base/idmap.h"
#include "proto/pprof/pprof.h"

#define LEGACY_TYPES_MAX 4u

struct legacy_type {
    const char *type, *unit;
};

struct legacy_mapping {
    uint64_t start, limit, offset;
    struct bytes file, build_id; /* in the text, or in legacy.attributes */
};

struct legacy_location {
    uint64_t address;
    uint32_t mapping; /* + 1 */
    uint32_t id;      /* 0: no sample has it */
};

struct legacy_sample {
    uint32_t from, n; /* in legacy.stacks */
    int64_t values[LEGACY_TYPES_MAX];
    int64_t block_size;
};

struct legacy {
    struct bytes rest, line; /* of a text: what is to be read, and the line at hand */
    uint64_t line_number;
    struct legacy_type types[LEGACY_TYPES_MAX], period_type;
    struct bytes count_type; /* of Go's counts, instead of both types' name */
    uint32_t n_types;
    int64_t period, duration_nanos;
    bool has_block_size;
    struct idmap places; /* of addresses, + 1 */
    uint32_t at_top;     /* of 2^64 - 1, which is no key of a map */
    VEC(struct legacy_location) locations;
    VEC(uint32_t) stacks; /* places of locations */
    VEC(struct legacy_sample) samples;
    VEC(struct legacy_mapping) mappings;
    uint32_t first_mapping; /* those before it are left out */
    struct buffer replaced; /* lines of the map with values in place of $names; never moves back */
    struct error *e;
};

/* The next line, without its end, as l->line; false behind the last, and then it is empty. */
bool legacy_line(struct legacy *l);

/* Whether the line says that a memory map follows. */
bool legacy_begins_map(struct bytes line);

/* Reads what is left as a memory map, numbers the locations as samples have them, and says in which mapping
 * each one is. 0, PPROF_MALFORMED, -ENOMEM. */
int legacy_read_map(struct legacy *l);

#endif
