/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parts joined: each is made over those before it, and each answers for the matcher what it is asked.
 *
 *     strings    text → number → a row of bits a domain
 *     frames     numbers of a frame's texts → class
 *     walk       classes of a stack → what it says, bit by bit; registers, list
 *     automaton  the same, as it was found before
 *     states     these bits → numbers, part by part of the sources
 *     reads      what rules read besides, primitive by primitive
 *     paths      the values read → what was found by them before
 *     outcomes   state, active sources, paths → series to add to
 *     kept       state, active keep rules, paths → whether the sample is kept
 *
 * All remember by numbers that parts before them gave out, so all forget at once, when one of them is past
 * its bounds or memory ran out (rules_matcher_begin), or when others want the memory. Only the automaton and
 * the states forget for themselves, too.
 */
#include "rules/match/match.h"

#include <stdlib.h>

#include "rules/match/parts.h"

/* ---- life ------------------------------------------------------------------------------------ */

struct rules_matcher *rules_matcher_new(const struct rules_program *p, struct budget *budget)
{
    struct rules_matcher *m = calloc(1, sizeof *m);
    if (!m)
        return NULL;
    m->p = m->strings.p = p;
    m->epoch = 1;
    m->memory.budget = budget;
    int r = match_strings_init(&m->strings, p, &m->memory);
    r = r < 0 ? r : match_frames_init(&m->frames, &m->strings);
    r = r < 0 ? r : match_walk_init(&m->walk, &m->frames);
    r = r < 0 ? r : match_automaton_init(&m->automaton, &m->walk);
    r = r < 0 ? r : match_states_init(&m->states, &m->automaton);
    r = r < 0 ? r : match_reads_init(&m->reads, &m->frames);
    if (r == 0) {
        match_paths_init(&m->paths, &m->reads);
        match_kept_init(&m->kept, &m->states, &m->paths);
        r = match_outcomes_init(&m->outcomes, &m->states, &m->paths);
    }
    return r < 0 ? rules_matcher_free(m) : m;
}

struct rules_matcher *rules_matcher_free(struct rules_matcher *m)
{
    if (!m)
        return NULL;
    match_kept_clear(&m->kept);
    match_outcomes_release(&m->outcomes);
    match_paths_clear(&m->paths);
    match_reads_release(&m->reads);
    match_states_release(&m->states);
    match_automaton_release(&m->automaton);
    match_walk_release(&m->walk);
    match_frames_release(&m->frames);
    match_strings_release(&m->strings);
    free(m);
    return NULL;
}

void rules_matcher_forget(struct rules_matcher *m)
{
    match_kept_clear(&m->kept);
    match_outcomes_clear(&m->outcomes);
    match_paths_clear(&m->paths);
    match_reads_clear(&m->reads);
    match_states_clear(&m->states);
    match_automaton_clear(&m->automaton);
    match_walk_clear(&m->walk);
    match_frames_clear(&m->frames);
    match_strings_clear(&m->strings);
    m->epoch++;
    m->resets++;
}

void rules_matcher_begin(struct rules_matcher *m)
{
    bool full = match_strings_full(&m->strings) || match_frames_full(&m->frames) ||
                match_paths_full(&m->paths) || match_outcomes_full(&m->outcomes) || match_kept_full(&m->kept);
    if (full || m->memory.error < 0)
        rules_matcher_forget(m);
    m->memory.error = 0;
    match_automaton_begin(&m->automaton);
    match_states_begin(&m->states);
    match_outcomes_begin(&m->outcomes);
}

uint32_t rules_matcher_epoch(const struct rules_matcher *m)
{
    return m->epoch;
}

int rules_matcher_error(const struct rules_matcher *m)
{
    return m->memory.error;
}

struct rules_matcher_figures rules_matcher_figures(const struct rules_matcher *m)
{
    return (struct rules_matcher_figures){.strings = m->strings.texts.n,
                                          .resets = m->resets,
                                          .regex_gave_up = m->strings.scratch.regex.gave_up,
                                          .states = m->states.n_states,
                                          .classes = m->frames.classes.n,
                                          .outcomes = m->outcomes.outcomes.n,
                                          .parts = m->states.n_parts,
                                          .steps = m->walk.steps};
}

/* ---- strings and frames ---------------------------------------------------------------------- */

uint32_t rules_matcher_string(struct rules_matcher *m, struct bytes text)
{
    return match_strings_add(&m->strings, text);
}

struct bytes rules_matcher_text(const struct rules_matcher *m, uint32_t string)
{
    return match_strings_text(&m->strings, string);
}

uint32_t rules_matcher_library(struct rules_matcher *m, uint32_t mapping)
{
    return match_strings_library(&m->strings, mapping);
}

uint32_t rules_matcher_fields(struct rules_matcher *m, uint32_t type)
{
    return match_frames_fields(&m->frames, type);
}

uint32_t rules_matcher_frame(struct rules_matcher *m, const struct rules_frame *frame)
{
    return match_frames_class(&m->frames, frame);
}

uint32_t rules_matcher_frame_text(struct rules_matcher *m, uint32_t type, enum rule_field field,
                                  uint32_t string)
{
    return match_frames_text_class(&m->frames, type, field, string);
}

void rules_matcher_named_frames(struct rules_matcher *m, struct rules_named_frame *frames, uint32_t n)
{
    uint64_t hash[RULES_NAMED_MAX];
    for (uint32_t i = 0; i < n; i++)
        hash[i] = match_strings_hash(&m->strings, frames[i].name);
    for (uint32_t i = 0; i < n; i++) {
        frames[i].string = match_strings_hashed(&m->strings, frames[i].name, hash[i]);
        if (frames[i].string < m->frames.text.n)
            __builtin_prefetch(&m->frames.text.p[frames[i].string]);
    }
    for (uint32_t i = 0; i < n; i++)
        frames[i].class =
            match_frames_text_class(&m->frames, frames[i].type, RULE_FIELD_FUNCTION, frames[i].string);
}

/* ---- stacks and outcomes --------------------------------------------------------------------- */

bool rules_matcher_walk(struct rules_matcher *m, const struct rules_stack *stack, struct rules_verdict *v)
{
    return match_automaton_walk(&m->automaton, stack, v->registers) && match_states_find(&m->states, v);
}

uint32_t rules_matcher_generation(const struct rules_matcher *m)
{
    return m->states.generation;
}

void rules_matcher_choose(struct rules_matcher *m, const struct rules_profile *group, uint32_t n,
                          uint64_t *masks)
{
    weigh_choose(&m->strings, group, n, masks);
}

uint32_t rules_matcher_active(struct rules_matcher *m, const uint64_t *mask)
{
    return match_outcomes_active(&m->outcomes, mask);
}

uint32_t rules_matcher_choose_one(struct rules_matcher *m, const struct rules_profile *p)
{
    return match_outcomes_alone(&m->outcomes, p);
}

uint32_t rules_matcher_sample(struct rules_matcher *m, uint64_t keys, const uint32_t *attrs, bool linked)
{
    return match_outcomes_sample(&m->outcomes, keys, attrs, linked);
}

bool rules_matcher_find(struct rules_matcher *m, const struct rules_verdict *v, uint32_t active,
                        const struct rules_asker *asker, struct rules_found *ret)
{
    return match_outcomes_find(&m->outcomes, v, active, asker, ret);
}

uint32_t rules_matcher_entries(struct rules_matcher *m, const struct rules_verdict *v,
                               const struct rules_found *found, const struct rules_asker *asker,
                               const struct rules_entry **ret)
{
    return match_outcomes_entries(&m->outcomes, v, found, asker, ret);
}

struct rules_outcome *rules_matcher_outcome_at(struct rules_matcher *m, uint32_t outcome)
{
    return match_outcomes_at(&m->outcomes, outcome);
}

const struct rules_entry *rules_matcher_entry(const struct rules_matcher *m, uint32_t entry)
{
    return match_outcomes_entry(&m->outcomes, entry);
}

uint32_t rules_matcher_frames(struct rules_matcher *m, const struct rules_verdict *v, uint32_t outcome,
                              const struct rules_asker *asker, const struct rules_entry **ret)
{
    return match_outcomes_frames(&m->outcomes, v, outcome, asker, ret);
}

/* ---- what is kept ---------------------------------------------------------------------------- */

uint32_t rules_matcher_keep_active(struct rules_matcher *m, const struct rules_profile *p)
{
    return match_kept_active(&m->kept, p);
}

uint32_t rules_matcher_kept(struct rules_matcher *m, const struct rules_verdict *v, uint32_t active,
                            const struct rules_asker *asker)
{
    return match_kept_find(&m->kept, v, active, asker);
}

const struct rules_kept *rules_matcher_kept_at(const struct rules_matcher *m, uint32_t kept)
{
    return &m->kept.kept.p[kept];
}

const struct rules_kept_rate *rules_matcher_kept_rate(const struct rules_matcher *m, uint32_t rate)
{
    return &m->kept.rates.p[rate];
}

/* ---- series, and why ------------------------------------------------------------------------- */

uint32_t rules_matcher_series_count(const struct rules_matcher *m)
{
    return m->outcomes.series.n;
}

uint32_t rules_matcher_series_metric(const struct rules_matcher *m, uint32_t series)
{
    return tuples_get(&m->outcomes.series, series)[0];
}

uint32_t rules_matcher_series_labels(const struct rules_matcher *m, uint32_t series,
                                     const struct rules_series_label **ret)
{
    const struct tuples *all = &m->outcomes.series;
    *ret = (const struct rules_series_label *)(tuples_get(all, series) + 1);
    return (tuples_length(all, series) - 1) / 2;
}

bool rules_matcher_why(struct rules_matcher *m, const struct rules_verdict *v,
                       const struct rules_asker *asker, const struct rule_table *table, uint32_t *ret_row,
                       uint32_t *ret_frame)
{
    uint32_t reg, i = lower_find(m->p, table);
    if (i == LOWER_NONE || !table->over)
        return false;
    struct eval e;
    matcher_eval(&e, m, v, asker);
    *ret_row = eval_table(&e, i, &reg);
    *ret_frame = reg == MATCH_NO_REG ? RULES_NONE : v->registers[reg].frame;
    eval_release(&e);
    return *ret_row != LOWER_NONE;
}
