/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is asked of DWARF and how it answers: the shapes, and the bounds on them.
 */
#ifndef SENDER_SYMBOLIZE_DWARF_ANSWER_H
#define SENDER_SYMBOLIZE_DWARF_ANSWER_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/base/bytes.h"

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
    uint64_t weight;     /* what is wanted most is looked up first, as long as there is work allowed */
    bool is_glue;        /* no compiler made it: units are not asked one by one whether it is theirs */
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

#endif
