/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What /api/v1/look answers (gateway/look/README.md has its shapes), for a terminal. It comes from whatever
 * answers at a URL: everything is bounded, and what is not of the shape is left out rather than believed.
 */
#ifndef GATEWAY_TOP_STACKS_H
#define GATEWAY_TOP_STACKS_H

#include <stdint.h>

#include "proto/base/arena.h"
#include "proto/base/bytes.h"

#define STACKS_NODES  3000u /* asked for: more than a screen has cells */
#define STACKS_VALUES 64u   /* of a sparkline */
#define STACKS_ROWS   200u  /* of a table */

/* What a frame is: what it is coloured by. */
enum stacks_kind {
    STACKS_OTHER,
    STACKS_KERNEL,
    STACKS_NATIVE,
    STACKS_GO,
    STACKS_JVM,
    STACKS_CPYTHON,
    STACKS_V8,
    STACKS_DOTNET,
    STACKS_RUBY,
    STACKS_PHP,
    STACKS_PERL,
    STACKS_BEAM,
    STACKS_KINDS
};

/* flame, diff, or one of a sandwich's trees, in columns: a parent's number is below its children's, 0 is the
 * root. */
struct stacks {
    struct arena arena;
    uint32_t n;
    int32_t *parent, *first, *next; /* first child and next sibling, widest first; -1: none */
    double *self, *total, *total_b; /* total_b: of a diff, else NULL */
    uint64_t *mark;                 /* equal paths of names, equal marks, in all answers */
    struct stacks_name {
        struct bytes name, lib;
        enum stacks_kind kind;
    } * names; /* of each node; the root's is "" */
    struct bytes unit;
    double kept_a, kept_b; /* samples; without a diff the first */
    double not_kept;       /* of the total (of a): what has no stack */
};

/* One of a series answer's, or of a top answer's rows. */
struct stacks_row {
    struct bytes name, lib;
    enum stacks_kind kind;
    double self, total; /* of a series: its mean in both */
    double values[STACKS_VALUES];
};

struct stacks_rows {
    struct arena arena;
    uint32_t n, n_values;
    struct stacks_row *rows;
    double total; /* of everything, in the rows or not; of series the sum of their means */
    struct bytes unit;
};

/* Conditions. */
enum {
    STACKS_FOREIGN = 1, /* it is no such answer */
};

/* Reads the tree `member` of an answer ("node", "callers", "callees") into *ret, which need not be
 * initialised. 0, a condition above or -ENOMEM: then there is nothing to release. */
int stacks_read(struct bytes text, const char *member, struct stacks *ret);
void stacks_release(struct stacks *s);

/* The same for the rows of `series` and of `top`. */
int stacks_read_series(struct bytes text, struct stacks_rows *ret);
int stacks_read_top(struct bytes text, struct stacks_rows *ret);
void stacks_rows_release(struct stacks_rows *r);

/* How much of everything a node is; of a diff the mean of both sides, so that what is gone is seen. */
double stacks_share(const struct stacks *s, uint32_t node);

/* By how much a diff's node grew (> 0) or shrank, from -1 to 1; 0 for what chance alone does. */
double stacks_change(const struct stacks *s, uint32_t node);

/* The node with that mark; 0: there is none. */
uint32_t stacks_find(const struct stacks *s, uint64_t mark);

#endif
