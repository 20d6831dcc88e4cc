/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Objects in the heap of a process that goes on meanwhile: nothing in it is trusted.
 */
#ifndef SENDER_RUNTIMES_V8_HEAP_H
#define SENDER_RUNTIMES_V8_HEAP_H

#include <stdbool.h>
#include <stdint.h>

#include "bpf/v8.h"
#include "proto/base/arena.h"
#include "sender/symbolize/elf/source.h"

/* Characters of a name, and of a script's name, that are read. */
#define V8_NAME_MAX 512u

struct heap {
    const struct source *memory;
    const struct v8_place *place;
};

/* A field of an object that a tagged value refers to; false: it is none, or cannot be read. */
bool heap_field(const struct heap *h, uint64_t object, uint32_t offset, uint64_t *ret);

/* The instance type of a tagged value; false: it is none, or on the move. */
bool heap_type(const struct heap *h, uint64_t object, uint16_t *ret);
bool heap_is(const struct heap *h, uint64_t object, uint16_t type);

/* The value of a Smi; 0: it is none, or negative. */
static inline uint32_t heap_smi(uint64_t value)
{
    return value & V8_TAG || value >> 63 ? 0 : (uint32_t)(value >> V8_IS_SMI);
}

/* Instance types of strings are below. */
#define HEAP_NO_STRING 128u

/* A string's characters, all in one piece of memory. */
struct heap_text {
    uint64_t at;
    uint32_t n;   /* characters, of … */
    bool is_wide; /* … 2 bytes each */
};

/* Where a string's text is; false: it is no string, or not in one piece. */
bool heap_text(const struct heap *h, uint64_t string, struct heap_text *ret);

/* A string as UTF-8, cut; .p NULL: it is none. */
struct bytes heap_string(const struct heap *h, uint64_t string, struct arena *text);

#endif
