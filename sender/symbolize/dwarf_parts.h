/*
 * The parts dwarf.c is made of: private to this folder.
 */
#ifndef SENDER_SYMBOLIZE_DWARF_PARTS_H
#define SENDER_SYMBOLIZE_DWARF_PARTS_H

#include "proto/base/arena.h"
#include "sender/symbolize/dwarf.h"
#include "sender/symbolize/dwarf_line.h"

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
    bool is_named;
    struct dwarf_frame frame; /* only name, linkage and start_line */
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

/* An entry with a name of its own that is inside a namespace or class: which. */
struct dwarf_scope {
    uint64_t die, parent;
};

/* What one pass over a unit gathers. */
struct dwarf_tree {
    struct dwarf_call *call;
    struct dwarf_span *span; /* once gathered, by function, then by start, then the outer first */
    struct dwarf_row *row;
    struct dwarf_scope *scope; /* ascending by die */
    uint32_t n_calls, cap_calls, n_spans, cap_spans, n_rows, cap_rows, n_scopes, cap_scopes;
    bool is_full; /* memory, or a limit */
    struct arena text;
};

/* Walks the unit's entries: the functions that queries are in, their ranges, and what is inlined there. */
void dwarf_tree_gather(struct dwarf_file *f, const struct dwarf_cu *cu, struct dwarf_query *q, uint32_t n,
                       struct dwarf_tree *ret);
void dwarf_tree_release(struct dwarf_tree *t);

struct dwarf_window {
    uint64_t start, end;
};

/* Gathers the rows of the line program that are in windows (sorted by their ends), ascending. */
void dwarf_tree_lines(struct dwarf_file *f, const struct dwarf_lines *lines,
                      const struct dwarf_window *windows, uint32_t n, struct dwarf_tree *t);

/* Room in an array for one more of `size` bytes. */
bool dwarf_grow(void **array, uint32_t n, uint32_t *cap, uint32_t max, size_t size);

/* Units that others refer into, open: link-time optimisation and dwz do that. */
#define DWARF_OTHERS 16u
struct dwarf_others {
    struct dwarf_cu cu[DWARF_OTHERS];
    uint32_t n, next;
};
void dwarf_others_close(struct dwarf_others *o);

/* Finds the names of a function or call of the unit whose tree `t` is, following its origins. Where there is
 * no mangled name (gcc leaves it out of static functions) the name has its namespaces and classes before it.
 */
void dwarf_name(struct dwarf_file *f, const struct dwarf_cu *cu, struct dwarf_others *others,
                struct dwarf_tree *t, struct dwarf_call *call);

#endif
