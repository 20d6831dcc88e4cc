/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A worker's matcher: it is given strings, frames, stacks and contexts, and answers which series of which
 * metrics a sample adds to. One object per thread; the program is shared.
 *
 * What it learns it keeps, across requests, by content: a string's bits, a frame's class, the transitions of
 * the stack automaton, and a decision tree over whatever else rules read (captured texts, attributes, links).
 * In steady state a frame costs one table look-up, a stack one path of the decision tree, and nothing is
 * allocated. Everything it keeps is charged to a budget and bounded: past a bound it forgets all of it at the
 * next rules_matcher_begin().
 *
 * Not a memo of whole stacks: hashing a stack's content costs more than walking it (measured: 19 µs against
 * 3-8).
 *
 * Memory: a function that runs out marks the matcher; ask rules_matcher_error() before believing a request's
 * answers.
 */
#ifndef RULES_MATCH_MATCH_H
#define RULES_MATCH_MATCH_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/base/budget.h"
#include "proto/base/bytes.h"
#include "rules/program/program.h"
#include "rules/tree/tree.h"

#define RULES_NONE   UINT32_MAX /* "no text": a string number that stands for `none` */
#define RULES_FIELDS 7u         /* enum rule_field without columns */

/* Bounds of what a matcher remembers; reached, it is forgotten between requests. */
#define RULES_STRINGS_MAX      (1u << 18) /* distinct strings: 40 times what the captures have in all */
#define RULES_STRING_BYTES_MAX (32u << 20)
#define RULES_CLASSES_MAX      (1u << 14) /* frame classes */
#define RULES_PATHS_MAX        (1u << 18) /* nodes of the decision tree */
#define RULES_CELLS_MAX \
    (1u << 22) /* cells of the automaton's table, 4 bytes each; flushed at once when full */

struct rules_matcher;

/* NULL when memory is out. The program must outlive it. */
struct rules_matcher *rules_matcher_new(const struct rules_program *program, struct budget *budget);
struct rules_matcher *rules_matcher_free(struct rules_matcher *m);

/* Starts a request. The only place where it forgets: then all numbers it gave out are void and the epoch
 * changes. */
void rules_matcher_begin(struct rules_matcher *m);
uint32_t rules_matcher_epoch(const struct rules_matcher *m);
int rules_matcher_error(const struct rules_matcher *m); /* 0, or -ENOMEM since the last begin */

struct rules_matcher_figures {
    uint64_t strings, resets, regex_gave_up; /* held now; since it was made */
    uint64_t states, classes, outcomes;      /* held now */
};
struct rules_matcher_figures rules_matcher_figures(const struct rules_matcher *m);

/* ---- strings and frames ---------------------------------------------------------------------- */

/* The number of a string; RULES_NONE only when memory is out. */
uint32_t rules_matcher_string(struct rules_matcher *m, struct bytes text);
struct bytes rules_matcher_text(const struct rules_matcher *m, uint32_t string); /* valid until it forgets */

/* Of a mapping's file name, the number of its part after the last '/'. RULES_NONE of RULES_NONE. */
uint32_t rules_matcher_library(struct rules_matcher *m, uint32_t mapping);

/* Which fields of frames of this type (a string number or RULES_NONE) matter, bits as of
 * rules_program_fields(): where the type alone decides the predicates, names need not be looked at, let alone
 * hashed. Remembered. */
uint32_t rules_matcher_fields(struct rules_matcher *m, uint32_t type);

struct rules_frame {
    uint32_t field[RULES_FIELDS]; /* string numbers, RULES_NONE where the field is none */
    bool inlined;
};

/* The class of a frame: all that a walk needs to know of it. Fields that do not matter to its type may be
 * left RULES_NONE. 0 when memory is out. */
uint32_t rules_matcher_frame(struct rules_matcher *m, const struct rules_frame *frame);

/* The same, where this is the one field that matters to the type, of a frame that is not inlined: faster. */
uint32_t rules_matcher_frame_text(struct rules_matcher *m, uint32_t type, enum rule_field field,
                                  uint32_t string);

/* ---- stacks ---------------------------------------------------------------------------------- */

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

/* What a walk found; registers[rules_program_registers()] are the caller's memory. */
struct rules_verdict {
    uint32_t state,
        generation; /* generation changes when the automaton was flushed: then walk the stack again */
    struct rules_register *registers;
};

/* Walks one stack. False when it has no frames (it satisfies no rule) or memory is out. */
bool rules_matcher_walk(struct rules_matcher *m, const struct rules_stack *stack, struct rules_verdict *v);
uint32_t rules_matcher_generation(const struct rules_matcher *m);

/* ---- outcomes -------------------------------------------------------------------------------- */

/* Whom the matcher asks for what only the caller knows. Answers are string numbers, RULES_NONE for none. */
struct rules_asker {
    void *context;
    uint32_t (*field)(void *context, uint32_t frame, enum rule_field field);
    bool (*inlined)(void *context, uint32_t frame);
    uint32_t (*attr)(void *context, enum rule_scope scope, uint32_t key); /* key: of rules_program_attr() */
    uint32_t (*profile_type)(void *context);
    uint32_t (*profile_unit)(void *context);
    bool (*linked)(void *context);
    const uint32_t *types;        /* [frame] what field() says of its type; may be NULL */
    const uint32_t *sample_attrs; /* [key] what attr() says of the sample being asked about; may be NULL */
};

/* One addition: of the sample's weight (as the source's `value` says) to a series. */
struct rules_entry {
    uint32_t source, series;
};

enum rules_level { RULES_LEVEL_STACK, RULES_LEVEL_PROFILE, RULES_LEVEL_SAMPLE };

struct rules_outcome {
    uint32_t entries, n_entries; /* rules_matcher_entry(entries + i) */
    enum rules_level level;      /* what the answer depended on, beside the active sources */
    uint32_t lists,
        n_lists;         /* sources that count frames one by one: if any, ask rules_matcher_frames() too */
    uint32_t mark, slot; /* for the caller: 0 at first */
};

/* The number of a set of sources, one bit each: those that a profile's type suits (rules_matcher_choose). */
uint32_t rules_matcher_active(struct rules_matcher *m, const uint64_t *mask);

/* What a sample on this stack adds to. RULES_NONE when memory is out. */
uint32_t rules_matcher_outcome(struct rules_matcher *m, const struct rules_verdict *v, uint32_t active,
                               const struct rules_asker *asker);
struct rules_outcome *rules_matcher_outcome_at(struct rules_matcher *m,
                                               uint32_t outcome); /* until the next outcome */
const struct rules_entry *rules_matcher_entry(const struct rules_matcher *m, uint32_t entry);

/* For an outcome with `lists`, right after the walk and outcome of that stack: the entries of frames counted
 * one by one, an entry each time. *ret is valid until the next call; returns how many. */
uint32_t rules_matcher_frames(struct rules_matcher *m, const struct rules_verdict *v, uint32_t outcome,
                              const struct rules_asker *asker, const struct rules_entry **ret);

/* ---- series ---------------------------------------------------------------------------------- */

struct rules_series_label {
    uint32_t name, value; /* rules_program_name(), string number */
};
uint32_t rules_matcher_series_count(const struct rules_matcher *m);
uint32_t rules_matcher_series_metric(const struct rules_matcher *m, uint32_t series);
uint32_t rules_matcher_series_labels(const struct rules_matcher *m, uint32_t series,
                                     const struct rules_series_label **ret);

/* ---- why ------------------------------------------------------------------------------------- */

/* The row of a stack table that took the stack, from 0, and the frame that decided (RULES_NONE for `else`);
 * false when no row did or no rule uses the table. For diagnostics: not fast. */
bool rules_matcher_why(struct rules_matcher *m, const struct rules_verdict *v,
                       const struct rules_asker *asker, const struct rule_table *table, uint32_t *ret_row,
                       uint32_t *ret_frame);

#endif
