/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The shapes that a matcher takes and gives: frames, stacks, whom it asks for the rest, and outcomes.
 */
#ifndef RULES_MATCH_SHAPES_H
#define RULES_MATCH_SHAPES_H

#include <stdbool.h>
#include <stdint.h>

#include "rules/tree/tree.h"

#define RULES_NONE   UINT32_MAX /* "no text": a string number that stands for `none` */
#define RULES_FIELDS 7u         /* enum rule_field without columns */

struct rules_frame {
    uint32_t field[RULES_FIELDS]; /* string numbers, RULES_NONE where the field is none */
    bool inlined;
};

/* A stack, leaf first: items, each standing for the frames frames_at[item] … frames_at[item + 1] - 1; without
 * frames_at an item is a frame. classes[frame]; item_classes[item] is the class of an item of one frame,
 * RULES_MANY of others (may be NULL without frames_at): nearly all items are one frame, so most walks read
 * nothing else. */
#define RULES_MANY UINT32_MAX
struct rules_stack {
    const uint32_t *items;
    uint32_t n;
    const uint32_t *frames_at;
    const uint32_t *classes, *item_classes;
};

/* A remembered frame: which one, and the how-manieth of the walk. */
struct rules_register {
    uint32_t frame, position;
};

/* What a walk found; registers[rules_program_registers()] are the caller's memory. Valid until the next. */
#define RULES_PARTS_MAX 32u /* that states are dealt out to: states.c */
struct rules_verdict {
    struct rules_register *registers;
    uint32_t generation;             /* states got new numbers when it changes */
    uint16_t state[RULES_PARTS_MAX]; /* [part] */
};

/* A set of things that samples say: attributes by key, those with high numbers all together, and whether they
 * are linked. */
#define RULES_SAYS_LINKED (1ull << 63)
static inline uint64_t rules_says(uint32_t key)
{
    return 1ull << (key < 62 ? key : 62);
}

/* Whom the matcher asks for what only the caller knows. Answers are string numbers, RULES_NONE for none. */
struct rules_asker {
    void *context;
    uint32_t (*field)(void *context, uint32_t frame, enum rule_field field);
    bool (*inlined)(void *context, uint32_t frame);
    uint32_t (*attr)(void *context, enum rule_scope scope, uint32_t key); /* key: of rules_program_attr() */
    uint32_t (*profile_type)(void *context);
    uint32_t (*profile_unit)(void *context);
    bool (*linked)(void *context);
    const uint32_t *types; /* [frame] what field() says of its type; may be NULL */
    /* The number (rules_matcher_sample) of what attr() of these keys and linked() say of the sample being
     * asked about, so that they need not be asked one by one. All askers of a matcher have it, or none
     * (NULL). */
    uint32_t (*sample)(void *context, uint64_t keys);
};

/* One addition: of the sample's weight (as the source's `value` says) to a series. */
struct rules_entry {
    uint32_t source, series;
};

enum rules_level { RULES_LEVEL_STACK, RULES_LEVEL_PROFILE, RULES_LEVEL_SAMPLE };

struct rules_outcome {
    uint32_t entries, n_entries; /* rules_matcher_entry(entries + i) */
    enum rules_level level;      /* as of what is found */
    uint32_t lists,
        n_lists; /* sources that count frames one by one: if any, ask rules_matcher_frames() too */
    uint32_t mark, slot, facts; /* for the caller: 0 at first */
};

/* What a sample adds to: all entries of the first n outcomes, of which none has a source that another has.
 * Those from n to n_all are empty. (There is at least one: a single one may be empty, too.) */
struct rules_found {
    uint32_t n, n_all;
    enum rules_level level; /* what the answer depended on, beside the active sources */
    bool lists;             /* one of them has `lists` */
    uint32_t outcome[RULES_PARTS_MAX];
};

struct rules_series_label {
    uint32_t name, value; /* rules_program_name(), string number */
};

#endif
