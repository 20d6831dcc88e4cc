/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What DWARF says of addresses: the function, the functions inlined there, and the source line of each.
 *
 * An address is answered with the whole function it is in (of a long one, with what is near), cut into pieces
 * of equal answers, so that a function is asked for once.
 */
#ifndef SENDER_SYMBOLIZE_DWARF_DWARF_H
#define SENDER_SYMBOLIZE_DWARF_DWARF_H

#include "sender/symbolize/dwarf/file.h"

/* Functions inlined into each other at one place: compilers stop at some tens; what is above is left out. */
#define DWARF_DEPTH_MAX 48u
/* Entries inside each other: namespaces, classes, functions, blocks. */
#define DWARF_NESTING_MAX 256u
/* Inlined calls, and lines, looked at in the asked functions of one unit. */
#define DWARF_CALLS_MAX 131072u
#define DWARF_LINES_MAX 262144u
/* How far around an address its function is answered: a piece is some 90 bytes of memory and some 8 of code.
 */
#define DWARF_REACH 512u
/* The longest name; longer ones are cut. */
#define DWARF_NAME_MAX 2048u

struct dwarf_query {
    uint64_t address;    /* asked for */
    uint64_t start, end; /* what to answer at most: a range it is in. Narrowed to the function's. */
    uint64_t unit;       /* private: where its unit is; UINT64_MAX: in none */
    uint32_t function;   /* private */
    bool is_answered;    /* pieces were given; or another query's pieces cover it */
};

/* One level: the function itself is the last, what is inlined into it before it. */
struct dwarf_frame {
    struct bytes name;         /* .n 0: the file does not say, or has the mangled form, which says more */
    struct bytes linkage;      /* its mangled form; .n 0: none */
    struct bytes file;         /* "" if not known */
    uint32_t line, start_line; /* 0 if not known */
};

struct dwarf_piece {
    uint64_t start, end;
    const struct dwarf_frame *frame;
    uint32_t n_frames;
};

/* Takes a piece; slices are valid during the call. Of one query they come ascending and apart. */
typedef void (*dwarf_piece_fn)(void *user, const struct dwarf_piece *piece);

/* Answers n queries, sorted by address; puts them into another order. 0; -EAGAIN: the work allowed ran out
 * before all were tried; -ENOMEM. */
int dwarf_find(struct dwarf_file *f, struct dwarf_query *queries, uint32_t n, dwarf_piece_fn fn, void *user);

#endif
