/* SPDX-License-Identifier: Apache-2.0 */
/*
 * (state, active sources) → root → outcome. A root is where a decision tree of reads begins (paths.h). A path
 * of it is made by evaluating the rules once (eval.h); later samples that read the same values only follow
 * it. So "samples with the same verdict and the same projection share one outcome" without anyone listing
 * projections.
 *
 * Nor is it followed again: each root notes its inputs, which are few texts, and the outcome they led to is
 * remembered in a small table by root and inputs. One look there is all that most stacks pay. An evaluation
 * that reads a new input gives its root a new tag, so that what was found by fewer is not found any more.
 * Whatever a root reads of the sample itself is one input, the number of what it says of all the keys that
 * the root asks for: mostly nothing, and samples that say different things are few.
 *
 * States may have come apart (states.c): then each part has states, roots and outcomes of its own, of the
 * sources that are its, and what a sample adds to is all of these. They are not put together, for most of
 * what would come of it is used once: who adds up samples does so outcome by outcome.
 *
 * States get new numbers now and then: roots are forgotten with them.
 */
#include "rules/match/outcomes.h"

#include <stdlib.h>
#include <string.h>

#include "proto/base/macros.h"
#include "rules/match/bits.h"
#include "rules/match/eval.h"
#include "rules/program/program.h"

#define LABEL_MAX       256u       /* bytes of a label's text: LANGUAGE §9 */
#define SAMPLES_MAX     (1u << 16) /* different ones; reached, they are forgotten between requests */
#define LABELS_ON_STACK 16u        /* more than any metric that ships has: no allocation for a new series */

int match_outcomes_init(struct match_outcomes *o, struct match_states *states, struct match_paths *paths)
{
    struct budget *budget = states->memory->budget;
    o->p = states->p;
    o->memory = states->memory;
    o->states = states;
    o->paths = paths;
    o->reads = paths->reads;
    tuples_init(&o->actives, budget);
    tuples_init(&o->series, budget);
    tuples_init(&o->samples, budget);
    o->alone.budget = o->roots.budget = o->each_roots.budget = o->root.budget = budget;
    o->outcomes.budget = o->entries.budget = o->lists.budget = budget;
    o->frame_entries.budget = o->all_entries.budget = o->series_mark.budget = budget;
    o->many.budget = budget;
    o->n_recent = MATCH_RECENT_OUTCOMES;
    o->recent_key = hash_seed() | 1;
    o->recent = o->few = calloc(o->n_recent, sizeof *o->few);
    o->said = calloc(rules_program_attrs(o->p) + 3, sizeof *o->said);
    return o->recent && o->said ? 0 : -ENOMEM;
}

static void clear_recent(struct match_outcomes *o)
{
    if (o->recent)
        memset(o->recent, 0, o->n_recent * sizeof *o->recent);
}

static void clear_roots(struct match_outcomes *o)
{
    idmap_release(&o->roots);
    vec_release(&o->root);
    o->tags = 0; /* none is remembered, so that they never come round to 0, which says "nothing here" */
    clear_recent(o);
}

void match_outcomes_clear(struct match_outcomes *o)
{
    clear_roots(o);
    idmap_release(&o->each_roots);
    tuples_clear(&o->actives);
    tuples_clear(&o->series);
    tuples_clear(&o->samples);
    idmap_release(&o->alone);
    vec_release(&o->outcomes);
    vec_release(&o->entries);
    vec_release(&o->lists);
    vec_release(&o->frame_entries);
    vec_release(&o->all_entries);
    vec_release(&o->series_mark);
    o->stamp = 0;
}

void match_outcomes_release(struct match_outcomes *o)
{
    match_outcomes_clear(o);
    vec_release(&o->many);
    free(o->few);
    free(o->said);
}

bool match_outcomes_full(const struct match_outcomes *o)
{
    return o->outcomes.n > RULES_PATHS_MAX || o->entries.n > 4 * RULES_PATHS_MAX ||
           o->lists.n > 4 * RULES_PATHS_MAX;
}

void match_outcomes_begin(struct match_outcomes *o)
{
    if (o->samples.n <= SAMPLES_MAX)
        return;
    tuples_clear(&o->samples);
    clear_recent(o);
}

uint32_t match_outcomes_sample(struct match_outcomes *o, uint64_t keys, const uint32_t *attrs, bool linked)
{
    uint32_t n = 0, *said = o->said;
    said[n++] = (uint32_t)keys;
    said[n++] = (uint32_t)(keys >> 32);
    for (uint32_t k = 0; k < rules_program_attrs(o->p); k++)
        if (keys & rules_says(k))
            said[n++] = attrs[k];
    said[n++] = linked && keys & RULES_SAYS_LINKED;
    uint32_t id = tuples_add(&o->samples, said, n);
    return id == TUPLES_NONE ? match_memory_out(o->memory) : id;
}

/* ---- active sources -------------------------------------------------------------------------- */

uint32_t match_outcomes_active(struct match_outcomes *o, const uint64_t *mask)
{
    uint32_t id = tuples_add(&o->actives, (const uint32_t *)mask, 2 * rules_program_mask_words(o->p));
    return id == TUPLES_NONE ? match_memory_out(o->memory) : id;
}

uint32_t match_outcomes_alone(struct match_outcomes *o, const struct rules_profile *p)
{
    uint32_t type = match_strings_add(o->reads->strings, weigh_name(p->type)),
             unit = match_strings_add(o->reads->strings, weigh_name(p->unit)), active;
    if (type == RULES_NONE || unit == RULES_NONE)
        return RULES_NONE;
    uint64_t key = idmap_key(type, unit * WEIGH_FACTS + weigh_facts(p));
    const uint32_t *known = idmap_find(&o->alone, key);
    if (known)
        return *known;
    autofree uint64_t *mask = calloc(rules_program_mask_words(o->p), sizeof *mask);
    if (!mask)
        return match_memory_out(o->memory);
    weigh_choose(o->reads->strings, p, 1, mask);
    active = match_outcomes_active(o, mask);
    if (active == RULES_NONE || o->memory->error < 0 || !idmap_place(&o->alone, key, active))
        return match_memory_out(o->memory);
    return active;
}

/* ---- series ---------------------------------------------------------------------------------- */

/* Cut to LABEL_MAX bytes, not inside a UTF-8 character. */
static uint32_t cut(struct match_outcomes *o, uint32_t string)
{
    struct bytes text = match_strings_text(o->reads->strings, string);
    if (text.n <= LABEL_MAX)
        return string;
    return match_strings_add(o->reads->strings, bytes_cut(text, LABEL_MAX));
}

static uint32_t series_of(struct match_outcomes *o, struct eval *e, const struct lower_source *source)
{
    if (source->metric == LOWER_NONE)
        return RULES_NONE; /* a probe */
    uint32_t fixed[1 + 2 * LABELS_ON_STACK], *words = fixed, n = 0;
    if (source->n_labels > LABELS_ON_STACK && !(words = malloc((1 + 2 * source->n_labels) * sizeof *words)))
        return match_memory_out(o->memory);
    words[n++] = source->metric;
    for (uint32_t i = 0; i < source->n_labels; i++) {
        const struct lower_label *label = &o->p->labels.p[source->labels + i];
        uint32_t value = eval_text(e, label->text);
        if (value == RULES_NONE)
            continue;
        words[n++] = label->name;
        words[n++] = cut(o, value);
    }
    uint32_t series = tuples_add(&o->series, words, n);
    if (words != fixed)
        free(words);
    return series == TUPLES_NONE ? match_memory_out(o->memory) : series;
}

/* ---- outcomes -------------------------------------------------------------------------------- */

static void add_entry(struct match_outcomes *o, uint32_t source, uint32_t series)
{
    if (vec_append(&o->entries, (struct rules_entry){source, series}) < 0)
        match_memory_out(o->memory);
}

/* An `each distinct` by frame type: the state says which types there were. Types that give equal labels count
 * once. */
static void add_types(struct match_outcomes *o, struct eval *e, uint32_t number,
                      const struct lower_each *each)
{
    uint32_t first = o->entries.n;
    e->each_is_type = true;
    for (uint32_t t = 0; t < LOWER_TYPES && o->memory->error == 0; t++) {
        if (!bits_get(e->state, each->bit + t))
            continue;
        e->each_type = t == MATCH_TYPE_NONE ? RULES_NONE : o->states->automaton->walk->frames->types[t];
        uint32_t series = series_of(o, e, &o->p->sources.p[number]);
        bool have = false;
        for (uint32_t i = first; i < o->entries.n; i++)
            have = have || o->entries.p[i].series == series;
        if (!have)
            add_entry(o, number, series);
    }
    e->each_is_type = false;
}

/* Of the sources of one part. */
static uint32_t make_outcome(struct match_outcomes *o, struct eval *e, uint32_t active, uint32_t part)
{
    struct rules_outcome made = {.entries = o->entries.n, .lists = o->lists.n};
    for (uint32_t i = 0; i < o->p->sources.n && o->memory->error == 0; i++) {
        const struct lower_source *source = &o->p->sources.p[i];
        if (o->states->part_of[i] != part || !bits_get(tuples_get(&o->actives, active), i) ||
            (source->where && !eval_sample(e, source->where)))
            continue;
        if (source->each == LOWER_NONE) {
            uint32_t series = series_of(o, e, source);
            add_entry(o, i, series);
            continue;
        }
        const struct lower_each *each = &o->p->eaches.p[source->each];
        if (each->by_type)
            add_types(o, e, i, each);
        if ((!each->by_type || bits_get(e->state, each->bit + MATCH_TYPE_MORE)) &&
            vec_append(&o->lists, i) < 0)
            match_memory_out(o->memory);
    }
    made.n_entries = o->entries.n - made.entries;
    made.n_lists = o->lists.n - made.lists;
    made.level = e->at.level;
    int r = vec_append(&o->outcomes, made);
    return r < 0 ? match_memory_out(o->memory) : o->outcomes.n - 1;
}

/* ---- by root and inputs ---------------------------------------------------------------------- */

/* More places, once outcomes are many; if there is memory for them. */
static void grow_recent(struct match_outcomes *o)
{
    if (vec_extend(&o->many, MATCH_RECENT_MANY) < 0)
        return;
    o->recent = o->many.p;
    o->n_recent = MATCH_RECENT_MANY;
}

/* The place of the root of a state and a set of active sources, + 1, which the state's mark then has; 0 if
 * memory is out. */
static __attribute__((noinline)) uint32_t find_root(struct match_outcomes *o, uint32_t part, uint32_t state,
                                                    uint32_t active)
{
    uint64_t key = idmap_key(active, part << 16 | state);
    if (o->generation != o->states->generation) {
        clear_roots(o);
        o->generation = o->states->generation;
    }
    const uint32_t *known = idmap_find(&o->roots, key);
    uint32_t place = known ? *known : o->root.n;
    if (!known) {
        struct root made = {.node = match_paths_new(o->paths), .tag = ++o->tags};
        if (made.node == RULES_NONE || vec_append(&o->root, made) < 0 ||
            !idmap_place(&o->roots, key, place)) {
            match_memory_out(o->memory);
            return 0;
        }
    }
    o->states->parts[part].marks.p[state] = (struct state_mark){active, place + 1};
    return place + 1;
}

static __attribute__((noinline)) uint32_t read_long_way(struct match_outcomes *o,
                                                        const struct rules_verdict *v,
                                                        const struct rules_asker *asker,
                                                        const struct read *read)
{
    return match_reads_value(o->reads, read, &(struct reading){.v = v, .asker = asker});
}

static inline uint32_t read_input(struct match_outcomes *o, const struct rules_verdict *v,
                                  const struct rules_asker *asker, const struct read *input)
{
    switch (input->what) {
    case READ_FIELD:
        if (input->which == RULE_FIELD_TYPE && asker->types)
            return asker->types[v->registers[input->of].frame];
        return asker->field(asker->context, v->registers[input->of].frame, (enum rule_field)input->which);
    case READ_SAMPLE: return asker->sample(asker->context, match_read_keys(input));
    default: return read_long_way(o, v, asker, input);
    }
}

/* The root and its inputs, hashed under a key that nobody can foresee. Up to two inputs of one root never
 * give what others do (each step can be undone); else that two have the same does not happen, as with strings
 * (strings.h). */
static inline uint64_t read_inputs(struct match_outcomes *o, const struct root *root,
                                   const struct rules_verdict *v, const struct rules_asker *asker)
{
    uint64_t key = root->tag * o->recent_key;
    for (uint32_t i = 0; i < root->n_inputs; i++)
        key = ((key << 32 | key >> 32) ^ read_input(o, v, asker, &root->input[i])) * o->recent_key;
    return key;
}

static inline uint32_t place_of(const struct match_outcomes *o, uint64_t key)
{
    return (uint32_t)(key >> 40) & (o->n_recent - 1);
}

static void remember(struct match_outcomes *o, const struct root *root, const struct rules_verdict *v,
                     const struct rules_asker *asker, uint32_t outcome)
{
    if (root->n_inputs == MATCH_TOO_MANY)
        return;
    if (unlikely(o->outcomes.n > MATCH_RECENT_OUTCOMES && o->n_recent < MATCH_RECENT_MANY))
        grow_recent(o);
    uint64_t key = read_inputs(o, root, v, asker);
    uint32_t at = place_of(o, key);
    if (o->recent[at].key != 0 && o->recent[at ^ 1].key == 0)
        at ^= 1;
    if (o->memory->error == 0)
        o->recent[at] = (struct recent_outcome){key, outcome};
}

/* What of samples a read asks for, all of which is one input; 0: it is of something else. */
static uint64_t keys_of(const struct read *input)
{
    if (input->what == READ_LINKED)
        return RULES_SAYS_LINKED;
    return input->what == READ_ATTR && input->of == RULE_SCOPE_SAMPLE ? rules_says(input->which) : 0;
}

/* What the notes of an evaluation were read from becomes inputs of its root. */
static void add_inputs(struct match_outcomes *o, struct root *root, const struct eval *e)
{
    for (uint32_t i = 0; i < e->notes.n && root->n_inputs != MATCH_TOO_MANY; i++) {
        struct read input = *match_reads_input(o->reads, match_reads_get(o->reads, e->notes.p[i].read));
        uint64_t keys = e->at.asker->sample ? keys_of(&input) : 0;
        uint32_t have = 0;
        while (have < root->n_inputs && (keys ? root->input[have].what != READ_SAMPLE
                                              : memcmp(&root->input[have], &input, sizeof input) != 0))
            have++;
        if (keys) {
            keys |= have < root->n_inputs ? match_read_keys(&root->input[have]) : 0;
            input = (struct read){READ_SAMPLE, (uint32_t)keys, (uint32_t)(keys >> 32), 0};
        }
        if (have == MATCH_INPUTS) {
            root->n_inputs = MATCH_TOO_MANY;
        } else if (have == root->n_inputs || memcmp(&root->input[have], &input, sizeof input) != 0) {
            root->n_inputs = max_of(root->n_inputs, have + 1);
            root->input[have] = input;
            root->tag = ++o->tags;
        }
    }
}

/* `root`: NULL of a state without a number, of which nothing is remembered. */
static __attribute__((noinline)) uint32_t find_outcome(struct match_outcomes *o,
                                                       const struct rules_verdict *v, uint32_t active,
                                                       const struct rules_asker *asker, uint32_t part,
                                                       struct root *root)
{
    struct reading at = {.v = v, .asker = asker};
    uint32_t outcome = root ? match_paths_follow(o->paths, root->node, &at) : RULES_NONE;
    if (outcome == RULES_NONE && o->memory->error == 0) {
        cleanup(eval_release) struct eval e;
        eval_init(&e, o->reads, o->states->automaton->found, v, asker);
        outcome = make_outcome(o, &e, active, part);
        match_states_outcome(o->states, part);
        if (outcome != RULES_NONE && root) {
            outcome = match_paths_lay(o->paths, root->node, e.notes.p, e.notes.n, outcome);
            add_inputs(o, root, &e);
        }
    }
    if (root && outcome != RULES_NONE && o->memory->error == 0)
        remember(o, root, v, asker, outcome);
    return outcome;
}

static inline __attribute__((always_inline)) uint32_t find_in_part(struct match_outcomes *o,
                                                                   const struct rules_verdict *v,
                                                                   uint32_t active,
                                                                   const struct rules_asker *asker,
                                                                   uint32_t part)
{
    uint32_t state = v->state[part];
    if (unlikely(state == 0)) /* there was no room for it; perhaps there is no other one, either */
        return find_outcome(o, v, active, asker, part, NULL);
    const struct state_mark *mark =
        &o->states->parts[part].marks.p[state]; /* active, place of the root + 1 */
    uint32_t place = mark->b;
    if (unlikely(place == 0 || mark->a != active)) {
        place = find_root(o, part, state, active);
        if (place == 0)
            return RULES_NONE;
    }
    struct root *root = &o->root.p[place - 1];
    if (likely(root->n_inputs != MATCH_TOO_MANY)) {
        uint64_t key = read_inputs(o, root, v, asker);
        uint32_t at = place_of(o, key);
        if (likely(o->recent[at].key == key))
            return o->recent[at].outcome;
        if (o->recent[at ^ 1].key == key)
            return o->recent[at ^ 1].outcome;
    }
    return find_outcome(o, v, active, asker, part, root);
}

/* ---- of all parts ---------------------------------------------------------------------------- */

static inline void add_found(const struct match_outcomes *o, struct rules_found *ret, uint32_t outcome)
{
    const struct rules_outcome *of = &o->outcomes.p[outcome];
    bool empty = of->n_entries + of->n_lists == 0;
    ret->outcome[ret->n_all++] = ret->outcome[ret->n];
    ret->outcome[empty ? ret->n_all - 1 : ret->n] = outcome;
    ret->n += !empty;
    ret->level = max_of(ret->level, of->level);
    ret->lists |= of->n_lists > 0;
}

static __attribute__((noinline)) bool find_in_parts(struct match_outcomes *o, const struct rules_verdict *v,
                                                    uint32_t active, const struct rules_asker *asker,
                                                    struct rules_found *ret)
{
    *ret = (struct rules_found){.level = RULES_LEVEL_STACK};
    for (uint32_t i = 0, n = o->states->n_parts; i < n; i++) {
        uint32_t outcome = find_in_part(o, v, active, asker, i);
        if (unlikely(outcome == RULES_NONE))
            return false;
        add_found(o, ret, outcome);
    }
    return true;
}

bool match_outcomes_find(struct match_outcomes *o, const struct rules_verdict *v, uint32_t active,
                         const struct rules_asker *asker, struct rules_found *ret)
{
    if (unlikely(o->states->n_parts > 1))
        return find_in_parts(o, v, active, asker, ret);
    uint32_t outcome = find_in_part(o, v, active, asker, 0);
    if (unlikely(outcome == RULES_NONE))
        return false;
    const struct rules_outcome *of = &o->outcomes.p[outcome];
    ret->n = ret->n_all = 1;
    ret->level = of->level;
    ret->lists = of->n_lists > 0;
    ret->outcome[0] = outcome;
    return true;
}

/* ---- frames counted one by one --------------------------------------------------------------- */

static uint32_t frame_series(struct match_outcomes *o, const struct rules_verdict *v, uint32_t outcome,
                             uint32_t source, uint32_t frame, const struct rules_asker *asker)
{
    uint32_t root = match_paths_root(o->paths, &o->each_roots, idmap_key(outcome, source));
    if (root == RULES_NONE)
        return RULES_NONE;
    struct reading at = {.v = v, .asker = asker, .each_frame = frame};
    uint32_t series = match_paths_follow(o->paths, root, &at);
    if (series == RULES_NONE && o->memory->error == 0) {
        cleanup(eval_release) struct eval e;
        eval_init(&e, o->reads, o->states->automaton->found, v, asker);
        e.at = at;
        series = series_of(o, &e, &o->p->sources.p[source]);
        if (series != RULES_NONE)
            series = match_paths_lay(o->paths, root, e.notes.p, e.notes.n, series);
        at.level = e.at.level;
    }
    struct rules_outcome *of = match_outcomes_at(o, outcome);
    of->level = max_of(of->level, at.level);
    return series;
}

/* A stamp that no series has: a busy gateway comes round 2^32 of them within hours. */
static void next_stamp(struct match_outcomes *o)
{
    if (++o->stamp != 0)
        return;
    if (o->series_mark.n > 0)
        memset(o->series_mark.p, 0, o->series_mark.n * sizeof *o->series_mark.p);
    o->stamp = 1;
}

/* Whether a series is new since the stamp; marks it. */
static bool first_time(struct match_outcomes *o, uint32_t series)
{
    if (vec_extend(&o->series_mark, series + 1) < 0) {
        match_memory_out(o->memory);
        return false;
    }
    if (o->series_mark.p[series] == o->stamp)
        return false;
    o->series_mark.p[series] = o->stamp;
    return true;
}

/* The entries of one source, whose `each` took some frames of the last walk. */
static void count_frames(struct match_outcomes *o, const struct rules_verdict *v, uint32_t outcome,
                         const struct rules_asker *asker, uint32_t number)
{
    const struct lower_source *source = &o->p->sources.p[number];
    bool distinct = source->source->distinct;
    next_stamp(o);
    const struct rules_outcome *of = match_outcomes_at(o, outcome);
    for (uint32_t i = 0; i < of->n_entries && distinct; i++) {
        const struct rules_entry *entry = match_outcomes_entry(o, of->entries + i);
        if (entry->source == number)
            first_time(o, entry->series);
    }
    for (uint32_t i = 0; i < o->states->automaton->walk->list.n && o->memory->error == 0; i++) {
        if (o->states->automaton->walk->list.p[i].each != source->each)
            continue;
        uint32_t series =
            frame_series(o, v, outcome, number, o->states->automaton->walk->list.p[i].frame, asker);
        if (series == RULES_NONE || (distinct && !first_time(o, series)))
            continue;
        if (vec_append(&o->frame_entries, (struct rules_entry){number, series}) < 0)
            match_memory_out(o->memory);
    }
}

uint32_t match_outcomes_frames(struct match_outcomes *o, const struct rules_verdict *v, uint32_t outcome,
                               const struct rules_asker *asker, const struct rules_entry **ret)
{
    vec_clear(&o->frame_entries);
    for (uint32_t k = 0; k < match_outcomes_at(o, outcome)->n_lists; k++)
        count_frames(o, v, outcome, asker, o->lists.p[match_outcomes_at(o, outcome)->lists + k]);
    *ret = o->frame_entries.p;
    return o->frame_entries.n;
}

/* ---- for people ------------------------------------------------------------------------------ */

/* Those from one on in the order of sources; equal ones stay in theirs. */
static void sort_entries(struct rules_entry *entries, uint32_t from, uint32_t n)
{
    for (uint32_t i = from + 1; i < n; i++) {
        struct rules_entry e = entries[i];
        uint32_t k = i;
        for (; k > from && entries[k - 1].source > e.source; k--)
            entries[k] = entries[k - 1];
        entries[k] = e;
    }
}

uint32_t match_outcomes_entries(struct match_outcomes *o, const struct rules_verdict *v,
                                const struct rules_found *found, const struct rules_asker *asker,
                                const struct rules_entry **ret)
{
    const struct rules_entry *listed;
    vec_clear(&o->all_entries);
    for (uint32_t i = 0; i < found->n; i++) {
        const struct rules_outcome *of = match_outcomes_at(o, found->outcome[i]);
        for (uint32_t k = 0; k < of->n_entries; k++)
            if (vec_append(&o->all_entries, o->entries.p[of->entries + k]) < 0)
                match_memory_out(o->memory);
    }
    uint32_t whole = o->all_entries.n;
    for (uint32_t i = 0; i < found->n; i++) {
        uint32_t n = match_outcomes_frames(o, v, found->outcome[i], asker, &listed);
        if (vec_append_all(&o->all_entries, listed, n) < 0)
            match_memory_out(o->memory);
    }
    sort_entries(o->all_entries.p, 0, whole);
    sort_entries(o->all_entries.p, whole, o->all_entries.n);
    *ret = o->all_entries.p;
    return o->all_entries.n;
}
