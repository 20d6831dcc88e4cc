/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A flame graph in a terminal's cells: a frame is as wide as its share of the root's, what is narrower than
 * half a column is left blank. Where there are no colours each frame begins with a bar.
 */
#ifndef GATEWAY_TOP_FLAME_H
#define GATEWAY_TOP_FLAME_H

#include "gateway/top/line.h"
#include "gateway/top/stacks.h"

struct flame {
    const struct stacks *stacks;
    uint32_t root;          /* drawn over the whole width, what is above it, too */
    uint32_t cursor;        /* in the root's subtree, or above it */
    bool has_cursor;        /* it is shown, and its row is in sight */
    bool up;                /* it grows upwards: of callers */
    uint32_t width, height; /* cells */
    struct bytes search;    /* what is in no name that has it is dim; "": nothing is */
};

enum flame_step { FLAME_PARENT, FLAME_CHILD, FLAME_BEFORE, FLAME_AFTER };

/* How many rows there are to draw, or -ENOMEM. */
int64_t flame_rows(const struct flame *f);

/* Writes exactly `height` lines. 0 or -ENOMEM. */
int flame_draw(const struct flame *f, struct line *l);

/* The node beside the cursor, of those that are drawn; the cursor's own where there is none. -ENOMEM. */
int64_t flame_step(const struct flame *f, enum flame_step step);

/* SGR parameters of a kind's colour, for a mark of it. */
const char *flame_color(enum stacks_kind kind);

/* Whether a name has what is searched, whatever the case of ASCII letters. */
bool flame_matches(struct bytes name, struct bytes search);

#endif
