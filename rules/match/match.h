/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A worker's matcher: it is given strings, frames, stacks and contexts, and answers which series of which
 * metrics a sample adds to. One object per thread; the program is shared.
 *
 * What it learns it keeps, across requests, by content: a string's bits, a frame's class, the transitions of
 * walks, and a decision tree over whatever else rules read (captured texts, attributes, links).
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
#include "rules/match/keep.h"
#include "rules/match/shapes.h"
#include "rules/match/weigh.h"
#include "rules/program/program.h"
#include "rules/tree/tree.h"

struct rules_matcher;

/* NULL when memory is out. The program must outlive it. */
struct rules_matcher *rules_matcher_new(const struct rules_program *program, struct budget *budget);
struct rules_matcher *rules_matcher_free(struct rules_matcher *m);

/* Forgets all it has learnt, and gives the memory back: all numbers it gave out are void and the epoch
 * changes. Between requests. */
void rules_matcher_forget(struct rules_matcher *m);

/* Starts a request. The other place where it forgets. */
void rules_matcher_begin(struct rules_matcher *m);
uint32_t rules_matcher_epoch(const struct rules_matcher *m);
int rules_matcher_error(const struct rules_matcher *m); /* 0, or -ENOMEM since the last begin */

struct rules_matcher_figures {
    uint64_t strings, resets, regex_gave_up; /* held now; since it was made */
    uint64_t states, classes, outcomes;      /* held now */
    uint64_t parts,
        steps; /* that states are dealt out to now; frames that no table said, since it was made */
};
struct rules_matcher_figures rules_matcher_figures(const struct rules_matcher *m);

/* ---- strings and frames ---------------------------------------------------------------------- */

/* The number of a string; RULES_NONE only when memory is out. */
uint32_t rules_matcher_string(struct rules_matcher *m, struct bytes text);
struct bytes rules_matcher_text(const struct rules_matcher *m, uint32_t string); /* valid until it forgets */

/* Of a mapping's file name, the number of its part after the last '/'. RULES_NONE of RULES_NONE. */
uint32_t rules_matcher_library(struct rules_matcher *m, uint32_t mapping);

/* Which fields of frames of this type (a string number or RULES_NONE) matter, a bit for
 * each enum rule_field: where the type alone decides the predicates, names need not be looked at, let alone
 * hashed. Remembered. */
uint32_t rules_matcher_fields(struct rules_matcher *m, uint32_t type);

/* The class of a frame: all that a walk needs to know of it. Fields that do not matter to its type may be
 * left RULES_NONE. 0 when memory is out. */
uint32_t rules_matcher_frame(struct rules_matcher *m, const struct rules_frame *frame);

/* The same, where this is the one field that matters to the type, of a frame that is not inlined: faster. */
uint32_t rules_matcher_frame_text(struct rules_matcher *m, uint32_t type, enum rule_field field,
                                  uint32_t string);

/* The same of `n` frames, at most RULES_NAMED_MAX, by the function's name. Each look-up is a wait for memory,
 * and so all of them are one. */
#define RULES_NAMED_MAX 32u
struct rules_named_frame {
    struct bytes name;
    uint32_t type;
    uint32_t string, class; /* answers: the name's number, RULES_NONE when memory is out, and the class */
};
void rules_matcher_named_frames(struct rules_matcher *m, struct rules_named_frame *frames, uint32_t n);

/* ---- stacks ---------------------------------------------------------------------------------- */

/* Walks one stack. False when it has no frames (it satisfies no rule) or memory is out. */
bool rules_matcher_walk(struct rules_matcher *m, const struct rules_stack *stack, struct rules_verdict *v);
uint32_t rules_matcher_generation(const struct rules_matcher *m);

/* ---- outcomes -------------------------------------------------------------------------------- */

/* Decides for a group of siblings (profiles of one scope with equal time, duration and id; often just one)
 * which sources each feeds: mask bits are set for profile i in masks[i × rules_program_mask_words()]. A
 * `kind` takes, of the siblings it matches, those of the first TYPE/UNIT that suits the value, so that
 * nothing counts twice. */
void rules_matcher_choose(struct rules_matcher *m, const struct rules_profile *group, uint32_t n,
                          uint64_t *masks);

/* The number of a set of sources, one bit each; and of the set that a profile without siblings feeds,
 * remembered. RULES_NONE: no memory. */
uint32_t rules_matcher_active(struct rules_matcher *m, const uint64_t *mask);
uint32_t rules_matcher_choose_one(struct rules_matcher *m, const struct rules_profile *p);

/* The number of what a sample says of some keys (rules_says): attrs[key] are the texts of all its attributes,
 * RULES_NONE where it has none. Of this request. RULES_NONE: no memory. */
uint32_t rules_matcher_sample(struct rules_matcher *m, uint64_t keys, const uint32_t *attrs, bool linked);

/* What a sample on this stack adds to. False when memory is out. */
bool rules_matcher_find(struct rules_matcher *m, const struct rules_verdict *v, uint32_t active,
                        const struct rules_asker *asker, struct rules_found *ret);
struct rules_outcome *rules_matcher_outcome_at(struct rules_matcher *m,
                                               uint32_t outcome); /* until more is found */

/* One of those an outcome has: from its `entries` on, n_entries of them. */
const struct rules_entry *rules_matcher_entry(const struct rules_matcher *m, uint32_t entry);

/* For an outcome with `lists`, right after the walk of that stack and what was found: the entries of frames
 * counted one by one, an entry each time. *ret is valid until the next call; returns how many. */
uint32_t rules_matcher_frames(struct rules_matcher *m, const struct rules_verdict *v, uint32_t outcome,
                              const struct rules_asker *asker, const struct rules_entry **ret);

/* For people, the same all together: every entry, in the order of sources, then those of frames. */
uint32_t rules_matcher_entries(struct rules_matcher *m, const struct rules_verdict *v,
                               const struct rules_found *found, const struct rules_asker *asker,
                               const struct rules_entry **ret);

/* ---- what is kept: keep.h -------------------------------------------------------------------- */

/* The number of a set of keep rules: those whose `on` takes such a profile. RULES_NONE: no memory. */
uint32_t rules_matcher_keep_active(struct rules_matcher *m, const struct rules_profile *p);

/* What the active rules say of a sample on this stack; RULES_NONE when memory is out. Valid until the matcher
 * forgets. */
uint32_t rules_matcher_kept(struct rules_matcher *m, const struct rules_verdict *v, uint32_t active,
                            const struct rules_asker *asker);
const struct rules_kept *rules_matcher_kept_at(const struct rules_matcher *m,
                                               uint32_t kept); /* until the next */
const struct rules_kept_rate *rules_matcher_kept_rate(const struct rules_matcher *m, uint32_t rate);

/* ---- series ---------------------------------------------------------------------------------- */

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
