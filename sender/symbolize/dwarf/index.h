/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a large unit has, in few bytes, so that one more address in it does not need all of it walked again:
 * where its functions' entries are, where the sequences of its line program begin, which namespaces are
 * around names. Made while a unit is walked for the first time, and kept (dwarf_keep).
 */
#ifndef SENDER_SYMBOLIZE_DWARF_INDEX_H
#define SENDER_SYMBOLIZE_DWARF_INDEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/base/vec.h"

/* Smaller units are walked each time: 0.2 ms. */
#define DWARF_INDEX_UNIT_MIN (32u << 10)
/* Functions, and sequences, of one unit. */
#define DWARF_INDEX_MAX 65536u
/* All indexes of one file: with more, they begin anew. */
#define DWARF_INDEX_MEMORY_MAX (1u << 20)
#define DWARF_INDEXES_MAX      512u

/* A range of addresses, and where to read of it. Code above 4 GiB has no index. */
struct dwarf_pointer {
    uint32_t start, end;
    uint32_t at; /* in the unit; in the line program, with what its registers have there: */
    uint32_t line;
    uint32_t file : 31, is_inside : 1; /* is_inside: of a sequence; else it begins there */
};

/* Once settled, ascending by start. */
VEC_AS(dwarf_pointers, struct dwarf_pointer);

/* An entry with a name of its own that is inside a namespace or class: which. */
struct dwarf_scope {
    uint64_t die;
    uint64_t parent : 63, is_function : 1;
};

struct dwarf_index {
    uint64_t unit;
    struct dwarf_pointers functions, sequences; /* long sequences in parts */
    VEC(struct dwarf_scope) scopes;             /* ascending by die: functions, and what is around them */
    bool is_bad;                                /* not to be kept */
};

struct dwarf_indexes {
    struct dwarf_index *index[DWARF_INDEXES_MAX];
    uint32_t n;
};

/* Notes a range; `pointer` has the registers. What cannot be noted makes the index bad.
 */
void dwarf_index_add(struct dwarf_index *x, struct dwarf_pointers *to, uint64_t start, uint64_t end,
                     uint64_t at, struct dwarf_pointer pointer);

/* The pointer an address is in, of several the one that begins last; NULL: in none. */
const struct dwarf_pointer *dwarf_pointers_find(const struct dwarf_pointers *p, uint64_t address);

/* The number of the first pointer that ends behind an address; p->n: none does. */
uint32_t dwarf_pointers_behind(const struct dwarf_pointers *p, uint64_t address);

/* The parent of an entry among n scopes; 0: it has none. */
uint64_t dwarf_scope_around(const struct dwarf_scope *scope, uint32_t n, uint64_t die);

/* Of a unit; NULL: there is none. */
const struct dwarf_index *dwarf_indexes_of(const struct dwarf_indexes *i, uint64_t unit);

/* Settles an index and keeps it, unless it is bad: *x is empty then. Of the n scopes those are copied that
 * functions are in. */
void dwarf_indexes_keep(struct dwarf_indexes *i, struct dwarf_index *x, const struct dwarf_scope *scope,
                        uint32_t n);

void dwarf_index_release(struct dwarf_index *x);
void dwarf_indexes_release(struct dwarf_indexes *i);
size_t dwarf_indexes_memory(const struct dwarf_indexes *i);

#endif
