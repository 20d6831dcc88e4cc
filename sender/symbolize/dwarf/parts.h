/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parts dwarf.c is made of: private to this folder.
 */
#ifndef SENDER_SYMBOLIZE_DWARF_PARTS_H
#define SENDER_SYMBOLIZE_DWARF_PARTS_H

#include "proto/base/arena.h"
#include "sender/symbolize/dwarf/answer.h"
#include "sender/symbolize/dwarf/file.h"
#include "sender/symbolize/dwarf/line.h"

/* The first query whose address is not below; n if there is none. */
uint32_t dwarf_lower_bound(const struct dwarf_query *q, uint32_t n, uint64_t address);

/* Sets each query's unit. 0 or -ENOMEM. */
int dwarf_locate(struct dwarf_file *f, struct dwarf_query *q, uint32_t n);

#define DWARF_NO_CALL UINT32_MAX

/* A function that was asked for, or a call that was inlined into one. */
struct dwarf_call {
    uint32_t parent; /* DWARF_NO_CALL: the function itself */
    uint32_t depth;  /* of the function: 0 */
    uint32_t root;   /* the function */
    uint64_t die;
    struct dwarf_value origin;
    uint64_t call_file, call_line;
    bool is_used;             /* a piece of an answer is in it */
    struct bytes prefix;      /* "space::class::", of one without a mangled name */
    struct dwarf_frame frame; /* only name, linkage and start_line; once named */
};

/* Where a call's code is. */
struct dwarf_span {
    uint64_t start, end;
    uint32_t root, call;
};

struct dwarf_row {
    uint64_t start, end, file;
    uint32_t line;
};

/* What one pass over a unit gathers. */
struct dwarf_tree {
    VEC(struct dwarf_call) calls;
    VEC(struct dwarf_span) spans; /* once gathered, by function, then by start, then the outer first */
    VEC(struct dwarf_row) rows;
    VEC(struct dwarf_scope) scopes; /* ascending by die */
    bool is_full;                   /* memory, or a limit */
    struct arena text;
};

/* Walks the unit's entries, all in memory: the functions that queries are in, their ranges, and what is
 * inlined there. Notes all functions in `index`, unless NULL. */
void dwarf_tree_gather(struct dwarf_file *f, const struct dwarf_cu *cu, struct dwarf_query *q, uint32_t n,
                       struct dwarf_index *index, struct dwarf_tree *ret);

/* The same, only where the index of an earlier walk says that they are. */
void dwarf_tree_gather_known(struct dwarf_file *f, const struct dwarf_cu *cu, struct dwarf_query *q,
                             uint32_t n, const struct dwarf_index *index, struct dwarf_tree *ret);
/* Walks a unit's entries for their scopes only: a small unit, as dwz makes them; others have none. */
#define DWARF_SCOPES_UNIT_MAX (1u << 20)
void dwarf_tree_scopes(struct dwarf_file *f, const struct dwarf_cu *cu, struct dwarf_tree *ret);

void dwarf_tree_release(struct dwarf_tree *t);

struct dwarf_window {
    uint64_t start, end;
};

/* Gathers the rows of the line program that are in windows (sorted by their ends), ascending. */
void dwarf_tree_lines(struct dwarf_file *f, const struct dwarf_lines *lines,
                      const struct dwarf_window *windows, uint32_t n, struct dwarf_index *index,
                      struct dwarf_tree *t);

/* The same, of the sequences only that the index says. */
void dwarf_tree_lines_known(struct dwarf_file *f, const struct dwarf_lines *lines,
                            const struct dwarf_window *windows, uint32_t n, const struct dwarf_index *index,
                            struct dwarf_tree *t);

/* Units that others refer into, open: link-time optimisation and dwz do that. Also of the alternate file. */
#define DWARF_OTHERS 16u
struct dwarf_others {
    struct dwarf_cu cu[DWARF_OTHERS];
    const struct dwarf_file *file[DWARF_OTHERS]; /* that each is in */
    struct dwarf_tree tree[DWARF_OTHERS];        /* with its scopes, once they were asked for */
    bool has_scopes[DWARF_OTHERS];
    uint32_t n, next;
};
void dwarf_others_close(struct dwarf_others *o);

/* Finds the names of the used functions and calls of the unit whose tree `t` is, following their origins.
 * Where there is no mangled name (gcc leaves it out of static functions) the name has its namespaces and
 * classes before it. Texts are read in the order they have in the file: to go to and fro in a packed section
 * is dear. */
void dwarf_name_calls(struct dwarf_file *f, const struct dwarf_cu *cu, struct dwarf_others *others,
                      struct dwarf_tree *t);

#endif
