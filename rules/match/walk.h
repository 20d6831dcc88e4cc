/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One walk over a stack, from leaf to root, answers every region, fact, chain, table and list of frames at
 * once.
 */
#ifndef RULES_MATCH_WALK_H
#define RULES_MATCH_WALK_H

#include <stdint.h>

#include "proto/base/vec.h"
#include "rules/match/frames.h"
#include "rules/match/memory.h"
#include "rules/match/shapes.h"

/* A frame that an `each` took. */
struct list_item {
    uint32_t each, frame, position;
};

/* What a frame can do to the walk, a bit each of the masks below, in the order in which one frame does it. */
enum walk_what {
    WALK_AFTER, /* regions begin and end */
    WALK_WHILE,
    WALK_UNTIL,
    WALK_FOUND,   /* a fact, or a table's row: a bit of the state and a register */
    WALK_FACT,    /* a fact that more is asked about: `last`, `first P is Q` */
    WALK_ROW,     /* a row that ends those below it */
    WALK_NEAREST, /* a row of a table `nearest leaf` that ends all of it: frames to come are farther */
    WALK_TABLE,   /* a table decided by its first frame (`nearest leaf` without guards) */
    WALK_CHAIN,
    WALK_EACH
};
struct walk_item {
    enum walk_what what;
    uint32_t of;          /* which region, fact, table, … */
    uint32_t node;        /* of facts and rows: what a frame has to be; … */
    uint32_t bit;         /* … the bit of the state that says it … */
    uint32_t first, last; /* … and the registers that remember it, the spare one where none does; … */
    uint32_t is;          /* … of a fact the first `first P is Q` about it, or LOWER_NONE; … */
    uint32_t below;       /* … of a row how many items from the next one on end with it … */
    uint32_t above;       /* … and how many before it, of a WALK_NEAREST */
};

struct match_walk {
    const struct rules_program *p;
    struct match_memory *memory;
    const struct match_frames *frames;

    struct walk_item *items;
    uint32_t n_items, n_masks; /* n_masks: words of 64 items */
    uint64_t *start;           /* [n_masks] the items that are live before the leaf */
    uint64_t *once;            /* … those that are not any more when they were done */
    uint64_t *of_region;       /* [region × n_masks] … those that are live inside a region */
    uint32_t *next_is;         /* [is] the next one about the same fact */
    uint32_t root_is;          /* the first about the root; LOWER_NONE */
    uint32_t types_of;         /* the `each` by type whose types are gathered aside; LOWER_NONE */
    uint32_t *chain_at;        /* [chain] where its elements begin in `passed` */
    uint32_t n_saved;          /* words */

    /* of frame classes, made as they are met */
    VEC(uint64_t)
    asks; /* [(class + 1) × stride] the bit of its type for `types_of`, and the items it does; class
             -1 is RULES_MANY, which does what is never done */
    VEC(uint16_t) rows; /* [class × tables] the first row it satisfies, + 1; 0: none */
    uint32_t n_classes, stride;

    /* of the walk at hand */
    uint32_t *words;                       /* [n_words] the state: bits as rules/program/lowered.h has them */
    uint32_t n_words;                      /* an even number */
    uint64_t *live;                        /* [n_masks] */
    uint32_t *passed, n_passed;            /* [chain element] the frame that ended it last, from 1 */
    uint32_t *begin, *end, n_begin, n_end; /* regions that begin and end behind the frame */
    VEC(struct list_item) list;
    uint64_t steps; /* frames that did something, since it was made */
};

/* As match_strings_init. */
int match_walk_init(struct match_walk *w, const struct match_frames *frames);
void match_walk_clear(struct match_walk *w); /* forgets what it knows of classes by number */
void match_walk_release(struct match_walk *w);

/* Frame classes that are new become known. 0 or -ENOMEM. */
int match_walk_classes(struct match_walk *w);

/* The walk before its leaf; after one frame more, whose class is known; the same of the root, which is asked
 * more than other frames. */
void match_walk_start(struct match_walk *w);
void match_walk_frame(struct match_walk *w, struct rules_register *registers, uint32_t class, uint32_t frame,
                      uint32_t position);
void match_walk_root(struct match_walk *w, uint32_t class);

/* What all that follows depends on, n_saved words: `words` come first. `position` is of the next frame. */
void match_walk_save(const struct match_walk *w, uint32_t *saved, uint32_t position);
void match_walk_load(struct match_walk *w, const uint32_t *saved, uint32_t position);

/* All frames from one of an item on, to the root. */
void match_walk_rest(struct match_walk *w, const struct rules_stack *stack, uint32_t item, uint32_t frame,
                     uint32_t position, struct rules_register *registers);

#endif
