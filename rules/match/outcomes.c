/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Outcomes: what a sample adds to, found by following a decision tree of reads from (state, active sources).
 *
 * A path is made by evaluating the rules once (eval.h); later samples that read the same values only
 * follow it. So "samples with the same verdict and the same projection share one outcome" without anyone
 * listing projections.
 *
 * Nor is it followed again: each root notes which texts anything below it was read from (its cues), and what
 * they led to lately is in a small table by root and cues. One look there is all that most stacks pay.
 */
#include <stdlib.h>
#include <string.h>

#include "proto/base/macros.h"
#include "rules/match/paths.h"

#define LABEL_MAX       256u /* bytes of a label's text: LANGUAGE §9 */
#define LABELS_ON_STACK 16u  /* more than any metric that ships has: no allocation for a new series */

void matcher_outcome_clear(struct rules_matcher *m)
{
    tuples_clear(&m->specs);
    tuples_clear(&m->actives);
    tuples_clear(&m->series);
    pairs_clear(&m->captures);
    pairs_clear(&m->children);
    matcher_roots_clear(m);
    pairs_clear(&m->each_roots);
    pairs_clear(&m->alone);
    charged_free(m->budget, &m->nodes, &m->cap_nodes, sizeof *m->nodes);
    charged_free(m->budget, &m->outcomes, &m->cap_outcomes, sizeof *m->outcomes);
    charged_free(m->budget, &m->entries, &m->cap_entries, sizeof *m->entries);
    charged_free(m->budget, &m->lists, &m->cap_lists, sizeof *m->lists);
    charged_free(m->budget, &m->frame_entries, &m->cap_frame_entries, sizeof *m->frame_entries);
    charged_free(m->budget, &m->series_mark, &m->cap_series_mark, sizeof *m->series_mark);
    m->n_nodes = m->n_outcomes = m->n_entries = m->n_lists = m->stamp = 0;
    matcher_keep_clear(m);
}

/* ---- series ---------------------------------------------------------------------------------- */

/* Cut to LABEL_MAX bytes, not inside a UTF-8 character. */
static uint32_t cut(struct rules_matcher *m, uint32_t string)
{
    struct bytes text = m->text[string];
    if (text.n <= LABEL_MAX)
        return string;
    size_t n = LABEL_MAX;
    while (n > LABEL_MAX - 4 && (text.p[n] & 0xc0) == 0x80)
        n--;
    return rules_matcher_string(m, bytes_of(text.p, n));
}

static uint32_t series_of(struct eval *e, const struct lower_source *source)
{
    struct rules_matcher *m = e->m;
    if (source->metric == LOWER_NONE)
        return RULES_NONE; /* a probe */
    uint32_t fixed[1 + 2 * LABELS_ON_STACK], *words = fixed, n = 0;
    if (source->n_labels > LABELS_ON_STACK && !(words = malloc((1 + 2 * source->n_labels) * sizeof *words)))
        return matcher_oom(m);
    words[n++] = source->metric;
    for (uint32_t i = 0; i < source->n_labels; i++) {
        const struct lower_label *label = &m->p->labels.p[source->labels + i];
        uint32_t value = eval_text(e, label->text);
        if (value == RULES_NONE)
            continue;
        words[n++] = label->name;
        words[n++] = cut(m, value);
    }
    uint32_t series = tuples_add(&m->series, words, n);
    if (words != fixed)
        free(words);
    return series == TUPLES_NONE ? matcher_oom(m) : series;
}

uint32_t rules_matcher_series_count(const struct rules_matcher *m)
{
    return m->series.n;
}

uint32_t rules_matcher_series_metric(const struct rules_matcher *m, uint32_t series)
{
    return tuples_get(&m->series, series)[0];
}

uint32_t rules_matcher_series_labels(const struct rules_matcher *m, uint32_t series,
                                     const struct rules_series_label **ret)
{
    *ret = (const struct rules_series_label *)(tuples_get(&m->series, series) + 1);
    return (tuples_length(&m->series, series) - 1) / 2;
}

/* ---- outcomes -------------------------------------------------------------------------------- */

static int add_entry(struct rules_matcher *m, uint32_t source, uint32_t series)
{
    if (charged_grow(m->budget, &m->entries, &m->cap_entries, m->n_entries + 1, sizeof *m->entries) < 0) {
        matcher_oom(m);
        return -1;
    }
    m->entries[m->n_entries++] = (struct rules_entry){source, series};
    return 0;
}

static int add_list(struct rules_matcher *m, uint32_t source)
{
    if (charged_grow(m->budget, &m->lists, &m->cap_lists, m->n_lists + 1, sizeof *m->lists) < 0) {
        matcher_oom(m);
        return -1;
    }
    m->lists[m->n_lists++] = source;
    return 0;
}

/* An `each distinct` by frame type: the state says which types there were. Types that give equal labels count
 * once. */
static void add_types(struct eval *e, uint32_t number, const struct lower_each *each)
{
    struct rules_matcher *m = e->m;
    uint32_t first = m->n_entries;
    e->each_is_type = true;
    for (uint32_t t = 0; t < LOWER_TYPES && m->error == 0; t++) {
        if (!state_bit(e->state, each->bit + t))
            continue;
        e->each_type = t == MATCH_TYPE_NONE ? RULES_NONE : m->types[t];
        uint32_t series = series_of(e, &m->p->sources.p[number]);
        bool have = false;
        for (uint32_t i = first; i < m->n_entries; i++)
            have = have || m->entries[i].series == series;
        if (!have)
            add_entry(m, number, series);
    }
    e->each_is_type = false;
}

static uint32_t make_outcome(struct eval *e, uint32_t active)
{
    struct rules_matcher *m = e->m;
    if (charged_grow(m->budget, &m->outcomes, &m->cap_outcomes, m->n_outcomes + 1, sizeof *m->outcomes) < 0)
        return matcher_oom(m);
    struct rules_outcome made = {.entries = m->n_entries, .lists = m->n_lists};
    for (uint32_t i = 0; i < m->p->sources.n && m->error == 0; i++) {
        const struct lower_source *source = &m->p->sources.p[i];
        if (!state_bit(tuples_get(&m->actives, active), i) ||
            (source->where && !eval_sample(e, source->where)))
            continue;
        if (source->each == LOWER_NONE) {
            uint32_t series = series_of(e, source);
            add_entry(m, i, series);
            continue;
        }
        const struct lower_each *each = &m->p->eaches.p[source->each];
        if (each->by_type)
            add_types(e, i, each);
        if (!each->by_type || state_bit(e->state, each->bit + MATCH_TYPE_MORE))
            add_list(m, i);
    }
    made.n_entries = m->n_entries - made.entries;
    made.n_lists = m->n_lists - made.lists;
    made.level = e->level;
    m->outcomes[m->n_outcomes] = made;
    return m->n_outcomes++;
}

uint32_t rules_matcher_active(struct rules_matcher *m, const uint64_t *mask)
{
    uint32_t words = (m->p->sources.n + 63) / 64;
    uint32_t id = tuples_add(&m->actives, (const uint32_t *)mask, 2 * (words ? words : 1));
    return id == TUPLES_NONE ? matcher_oom(m) : id;
}

/* ---- by root and cues ------------------------------------------------------------------------ */

void matcher_roots_clear(struct rules_matcher *m)
{
    pairs_clear(&m->roots);
    charged_free(m->budget, &m->root, &m->cap_root, sizeof *m->root);
    m->n_root = 0;
    m->tags = 0; /* none is remembered, so that they never come round to 0, which says "nothing here" */
    memset(m->lately, 0, MATCH_LATELY * sizeof *m->lately);
}

/* The number of the root of a state and a set of active sources, which its memo then has; 0 if memory is out.
 */
static __attribute__((noinline)) uint32_t find_root(struct rules_matcher *m, uint32_t state, uint32_t active)
{
    uint64_t key = pair_key(active, state);
    uint32_t number;
    if (!pairs_find(&m->roots, key, &number)) {
        number = m->n_root;
        if (charged_grow(m->budget, &m->root, &m->cap_root, number + 1, sizeof *m->root) < 0 ||
            (m->root[number] = (struct root){.node = paths_new(m), .tag = ++m->tags}).node == RULES_NONE ||
            pairs_set(&m->roots, key, number) < 0) {
            matcher_oom(m);
            return 0;
        }
        m->n_root++;
    }
    m->state_root[state] = (struct root_memo){active, number + 1};
    return number + 1;
}

static __attribute__((noinline)) uint32_t read_spec(struct rules_matcher *m, const struct rules_verdict *v,
                                                    const struct rules_asker *asker, uint32_t spec)
{
    struct eval e;
    eval_init(&e, m, v, asker);
    return eval_read(&e, spec);
}

static uint32_t read_cue(struct rules_matcher *m, const struct rules_verdict *v,
                         const struct rules_asker *asker, const struct cue *cue)
{
    switch (cue->what) {
    case CUE_FIELD:
        return asker->field(asker->context, v->registers[cue->of].frame, (enum rule_field)cue->field);
    case CUE_ATTR: return asker->attr(asker->context, (enum rule_scope)cue->field, cue->of);
    case CUE_TYPE: return asker->profile_type(asker->context);
    case CUE_UNIT: return asker->profile_unit(asker->context);
    case CUE_LINKED: return asker->linked(asker->context);
    default: return read_spec(m, v, asker, cue->of);
    }
}

/* Reads the root's cues into key, those that are most by the shortest way; the place of what they lead to. */
static inline uint32_t read_cues(struct rules_matcher *m, const struct root *root,
                                 const struct rules_verdict *v, const struct rules_asker *asker,
                                 uint32_t *key)
{
    uint64_t mixed = root->tag * 0x9e3779b97f4a7c15u;
    const struct cue *cue = root->cue;
    for (uint32_t i = 0; i < root->n_cues; i++, cue++) {
        if (cue->what == CUE_ATTR && cue->field == RULE_SCOPE_SAMPLE && asker->sample_attrs)
            key[i] = asker->sample_attrs[cue->of];
        else if (cue->what == CUE_FIELD && cue->field == RULE_FIELD_TYPE && asker->types)
            key[i] = asker->types[v->registers[cue->of].frame];
        else
            key[i] = read_cue(m, v, asker, cue);
        mixed = (mixed ^ key[i]) * 0xd6e8feb86659fd93u;
    }
    return (uint32_t)(mixed >> 40) & (MATCH_LATELY - 1);
}

static inline bool is_of(const struct lately *l, const struct root *root, const uint32_t *key)
{
    if (l->tag != root->tag)
        return false;
    for (uint32_t i = 0; i < root->n_cues; i++)
        if (l->key[i] != key[i])
            return false;
    return true;
}

static void remember(struct rules_matcher *m, const struct root *root, const struct rules_verdict *v,
                     const struct rules_asker *asker, uint32_t outcome)
{
    struct lately made = {.tag = root->tag, .outcome = outcome};
    if (root->no_cues)
        return;
    uint32_t at = read_cues(m, root, v, asker, made.key);
    if (m->lately[at].tag != 0 && m->lately[at ^ 1].tag == 0)
        at ^= 1;
    if (m->error == 0)
        m->lately[at] = made;
}

/* What the notes of an evaluation were read from becomes cues of its root. */
static void add_cues(struct rules_matcher *m, struct root *root, const struct eval *e)
{
    for (uint32_t i = 0; i < e->n_notes && !root->no_cues; i++) {
        const struct cue cue = eval_cue_of(m, e->notes[i].spec);
        uint32_t have = 0;
        while (have < root->n_cues && memcmp(&root->cue[have], &cue, sizeof cue) != 0)
            have++;
        if (have == MATCH_CUES)
            root->no_cues = true;
        else if (have == root->n_cues) {
            root->cue[root->n_cues++] = cue;
            root->tag = ++m->tags; /* what was found by fewer cues is not found any more */
        }
    }
}

static __attribute__((noinline)) uint32_t find_outcome(struct rules_matcher *m, const struct rules_verdict *v,
                                                       uint32_t active, const struct rules_asker *asker,
                                                       uint32_t number)
{
    uint32_t node = m->root[number - 1].node;
    struct eval e;
    eval_init(&e, m, v, asker);
    uint32_t outcome = paths_follow(&e, node);
    if (outcome == RULES_NONE && m->error == 0) {
        outcome = make_outcome(&e, active);
        if (outcome != RULES_NONE)
            outcome = paths_lay(&e, node, outcome);
        add_cues(m, &m->root[number - 1], &e);
        eval_release(&e);
    }
    if (outcome != RULES_NONE && m->error == 0)
        remember(m, &m->root[number - 1], v, asker, outcome);
    return outcome;
}

uint32_t rules_matcher_outcome(struct rules_matcher *m, const struct rules_verdict *v, uint32_t active,
                               const struct rules_asker *asker)
{
    const struct root_memo *memo = &m->state_root[v->state];
    uint32_t number = memo->root, key[MATCH_CUES];
    if (unlikely(number == 0 || memo->active != active)) {
        number = find_root(m, v->state, active);
        if (number == 0)
            return RULES_NONE;
    }
    const struct root *root = &m->root[number - 1];
    if (likely(!root->no_cues)) {
        uint32_t at = read_cues(m, root, v, asker, key);
        if (likely(is_of(&m->lately[at], root, key)))
            return m->lately[at].outcome;
        if (is_of(&m->lately[at ^ 1], root, key))
            return m->lately[at ^ 1].outcome;
    }
    return find_outcome(m, v, active, asker, number);
}

struct rules_outcome *rules_matcher_outcome_at(struct rules_matcher *m, uint32_t outcome)
{
    return &m->outcomes[outcome];
}

const struct rules_entry *rules_matcher_entry(const struct rules_matcher *m, uint32_t entry)
{
    return &m->entries[entry];
}

/* ---- frames counted one by one --------------------------------------------------------------- */

static uint32_t frame_series(struct rules_matcher *m, const struct rules_verdict *v, uint32_t outcome,
                             uint32_t source, uint32_t frame, const struct rules_asker *asker)
{
    uint32_t root = paths_root(m, &m->each_roots, pair_key(outcome, source));
    if (root == RULES_NONE)
        return RULES_NONE;
    struct eval e;
    eval_init(&e, m, v, asker);
    e.each_frame = frame;
    uint32_t series = paths_follow(&e, root);
    if (series == RULES_NONE && m->error == 0) {
        series = series_of(&e, &m->p->sources.p[source]);
        if (series != RULES_NONE)
            series = paths_lay(&e, root, series);
        eval_release(&e);
    }
    m->outcomes[outcome].level = max_of(m->outcomes[outcome].level, e.level);
    return series;
}

/* A stamp that no series has: a busy gateway comes round 2^32 of them within hours. */
static void next_stamp(struct rules_matcher *m)
{
    if (++m->stamp != 0)
        return;
    if (m->series_mark)
        memset(m->series_mark, 0, m->cap_series_mark * sizeof *m->series_mark);
    m->stamp = 1;
}

/* Whether a series is new since the stamp; marks it. */
static bool first_time(struct rules_matcher *m, uint32_t series)
{
    uint32_t was = m->cap_series_mark;
    if (charged_grow(m->budget, &m->series_mark, &m->cap_series_mark, series + 1, sizeof *m->series_mark) <
        0) {
        matcher_oom(m);
        return false;
    }
    memset(m->series_mark + was, 0, (m->cap_series_mark - was) * sizeof *m->series_mark);
    if (m->series_mark[series] == m->stamp)
        return false;
    m->series_mark[series] = m->stamp;
    return true;
}

uint32_t rules_matcher_frames(struct rules_matcher *m, const struct rules_verdict *v, uint32_t outcome,
                              const struct rules_asker *asker, const struct rules_entry **ret)
{
    uint32_t n = 0;
    for (uint32_t k = 0; k < m->outcomes[outcome].n_lists; k++) {
        uint32_t number = m->lists[m->outcomes[outcome].lists + k];
        const struct lower_source *source = &m->p->sources.p[number];
        bool distinct = source->source->distinct;
        next_stamp(m);
        for (uint32_t i = 0; i < m->outcomes[outcome].n_entries && distinct; i++) {
            const struct rules_entry *entry = &m->entries[m->outcomes[outcome].entries + i];
            if (entry->source == number)
                first_time(m, entry->series);
        }
        for (uint32_t i = 0; i < m->n_list && m->error == 0; i++) {
            if (m->list[i].each != source->each)
                continue;
            uint32_t series = frame_series(m, v, outcome, number, m->list[i].frame, asker);
            if (series == RULES_NONE || (distinct && !first_time(m, series)))
                continue;
            if (charged_grow(m->budget, &m->frame_entries, &m->cap_frame_entries, n + 1,
                             sizeof *m->frame_entries) < 0) {
                matcher_oom(m);
                return 0;
            }
            m->frame_entries[n++] = (struct rules_entry){number, series};
        }
    }
    *ret = m->frame_entries;
    return n;
}

/* ---- the program's face ---------------------------------------------------------------------- */

bool rules_matcher_why(struct rules_matcher *m, const struct rules_verdict *v,
                       const struct rules_asker *asker, const struct rule_table *table, uint32_t *ret_row,
                       uint32_t *ret_frame)
{
    uint32_t reg, i = lower_find(m->p, table);
    if (i == LOWER_NONE || !table->over)
        return false;
    struct eval e;
    eval_init(&e, m, v, asker);
    *ret_row = eval_table(&e, i, &reg);
    *ret_frame = reg == MATCH_NO_REG ? RULES_NONE : v->registers[reg].frame;
    eval_release(&e);
    return *ret_row != LOWER_NONE;
}
