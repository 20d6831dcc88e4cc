/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A profile of an older format while it is read: legacy.c has its kinds, legacy_java.c those of Java,
 * legacy_map.c the memory map. For proto/pprof only.
 */
#ifndef PROTO_PPROF_LEGACY_PARTS_H
#define PROTO_PPROF_LEGACY_PARTS_H

#include "proto/base/buffer.h"
#include "proto/base/idmap.h"
#include "proto/base/intern.h"
#include "proto/pprof/pprof.h"

#define LEGACY_TYPES_MAX 4u

struct legacy_type {
    struct bytes type, unit;
};

struct legacy_mapping {
    uint64_t start, limit, offset;
    struct bytes file, build_id; /* in the text, or in legacy.attributes */
};

/* Of an address that is in no other. */
#define LEGACY_EVERYWHERE ((struct legacy_mapping){.limit = UINT64_MAX})

struct legacy_location {
    uint64_t address;
    uint32_t mapping;  /* + 1 */
    uint32_t id;       /* 0: no sample has it */
    uint32_t function; /* + 1; 0: nobody says */
    int64_t line;      /* in its file */
};

struct legacy_function {
    struct bytes name, file;
    uint64_t id; /* 0: not written yet */
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
    uint32_t n_types;
    int64_t period, duration_nanos;
    bool has_block_size, is_java;
    struct idmap places; /* of addresses, + 1 */
    uint32_t at_top;     /* of 2^64 - 1, which is no key of a map */
    VEC(struct legacy_location) locations;
    VEC(uint32_t) stacks; /* places of locations */
    VEC(struct legacy_sample) samples;
    struct intern names; /* of functions */
    VEC(struct legacy_function) functions;
    VEC(struct legacy_mapping) mappings;
    uint32_t first_mapping; /* those before it are left out */
    struct buffer replaced; /* lines of the map with values in place of $names; never moves back */
    struct error *e;
};

/* The next line, without its end, as l->line; false behind the last, and then it is empty. */
bool legacy_line(struct legacy *l);

/* PPROF_MALFORMED, with *l->e: what is wrong with the line at hand. */
int legacy_fail(struct legacy *l, const char *what);

/* A decimal number, or a text, behind blanks, is taken off the front. False: it is not there. */
bool legacy_number(struct bytes *s, int64_t *ret);
bool legacy_text(struct bytes *s, const char *text);

/* "name = value". False: there is no '='. */
bool legacy_setting(struct bytes line, struct bytes *ret_name, struct bytes *ret_value);

static inline bool legacy_is_space(uint8_t c)
{
    return c == ' ' || (c >= '\t' && c <= '\r' && c != '\v');
}

/* A further sample without a stack. 0, -ENOMEM. */
int legacy_sample(struct legacy *l, const int64_t *values);

/* What a sampled heap stands for: objects and bytes of one sample, of which one is taken every `rate` bytes.
 */
void legacy_scale(int64_t *count, int64_t *size, int64_t rate);

/* All "0x…" of a text are the last sample's stack; those that say where a call returns to become where it is.
 * 0, PPROF_MALFORMED, -ENOMEM. */
enum legacy_calls { LEGACY_ALL_RETURN, LEGACY_CALLERS_RETURN, LEGACY_NONE_RETURNS };
int legacy_addresses(struct legacy *l, struct bytes text, enum legacy_calls calls);

/* Numbers the locations that samples have, in the samples' order. */
void legacy_number_locations(struct legacy *l, uint32_t *ret_n);

/* Whether what follows the line at hand, a header, is of Java. */
bool legacy_is_java(const struct legacy *l);
/* Reads it up to its locations. 0, PPROF_MALFORMED, -ENOMEM. */
int legacy_read_java(struct legacy *l);
/* Reads what is left as locations, which have names instead of addresses. Likewise. */
int legacy_java_locations(struct legacy *l);

/* Whether the line says that a memory map follows. */
bool legacy_begins_map(struct bytes line);

/* Reads what is left as a memory map, numbers the locations as samples have them, and says in which mapping
 * each one is. 0, PPROF_MALFORMED, -ENOMEM. */
int legacy_read_map(struct legacy *l);

#endif
