/*
 * Outcomes: what a sample adds to, found by following a decision tree of reads from (state, active sources).
 *
 * A path is made by evaluating the rules once (match_eval.h); later samples that read the same values only
 * follow it. So "samples with the same verdict and the same projection share one outcome" without anyone
 * listing projections.
 */
#include <stdlib.h>
#include <string.h>

#include "proto/base/macros.h"
#include "rules/match_paths.h"

#define LABEL_MAX 256u /* bytes of a label's text: language reference §9 */

void matcher_outcome_clear(struct rules_matcher *m)
{
    tuples_clear(&m->specs);
    tuples_clear(&m->actives);
    tuples_clear(&m->series);
    pairs_clear(&m->captures);
    pairs_clear(&m->children);
    pairs_clear(&m->roots);
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

/* ---- the decision tree
 * ----------------------------------------------------------------------------------------- */

/* The same as far as cues and ways lately taken lead; RULES_NONE: paths_follow() may know more. */
static inline uint32_t follow_cues(const struct rules_matcher *m, const struct rules_verdict *v,
                                   const struct rules_asker *asker, uint32_t root)
{
    const struct path_node *at = &m->nodes[root];
    while (at->leaf == 0) {
        if (at->spec == 0 || at->cue_field == MATCH_NO_CUE || at->cue_reg == MATCH_REG_EACH)
            return RULES_NONE;
        uint32_t frame = v->registers[at->cue_reg].frame, cue;
        if (at->cue_field == RULE_FIELD_TYPE && asker->types)
            cue = asker->types[frame];
        else
            cue = asker->field(asker->context, frame, (enum rule_field)at->cue_field);
        uint32_t way = cue % MATCH_WAYS;
        if (at->way[way].cue != cue || at->way[way].child == 0)
            return RULES_NONE;
        at = &m->nodes[at->way[way].child];
    }
    return at->leaf - 1;
}

/* ---- series
 * ---------------------------------------------------------------------------------------------------- */

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
    uint32_t fixed[1 + 2 * 16], *words = fixed, n = 0;
    if (source->n_labels > 16 && !(words = malloc((1 + 2 * source->n_labels) * sizeof *words)))
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

struct bytes rules_program_name(const struct rules_program *p, uint32_t name)
{
    return p->names.p[name];
}

/* ---- outcomes
 * -------------------------------------------------------------------------------------------------- */

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

static __attribute__((noinline)) uint32_t find_outcome(struct rules_matcher *m, const struct rules_verdict *v,
                                                       uint32_t active, const struct rules_asker *asker)
{
    struct root_memo *memo = &m->state_root[v->state];
    uint32_t root = memo->root - 1;
    if (memo->root == 0 || memo->active != active) {
        root = paths_root(m, &m->roots, pair_key(active, v->state));
        if (root == RULES_NONE)
            return RULES_NONE;
        *memo = (struct root_memo){.active = active, .root = root + 1, .type_reg = MATCH_NO_REG};
    }
    struct eval e;
    eval_init(&e, m, v, asker);
    uint32_t outcome = paths_follow(&e, root);
    if (outcome != RULES_NONE || m->error < 0)
        return outcome;
    outcome = make_outcome(&e, active);
    if (outcome != RULES_NONE)
        outcome = paths_lay(&e, root, outcome);
    eval_release(&e);
    return outcome;
}

/* Keeps an outcome found by cues in the memo, if one type was all that was read. */
static void keep_way(const struct rules_matcher *m, struct root_memo *memo, const struct rules_verdict *v,
                     const struct rules_asker *asker, uint32_t outcome)
{
    const struct path_node *at = &m->nodes[memo->root - 1];
    if (at->leaf != 0 || at->cue_field != RULE_FIELD_TYPE || !asker->types)
        return;
    uint32_t type = asker->types[v->registers[at->cue_reg].frame];
    if (m->nodes[at->way[type % MATCH_WAYS].child].leaf != outcome + 1)
        return;
    memo->type_reg = at->cue_reg;
    memo->way[type % 2].type = type;
    memo->way[type % 2].outcome = outcome + 1;
}

uint32_t rules_matcher_outcome(struct rules_matcher *m, const struct rules_verdict *v, uint32_t active,
                               const struct rules_asker *asker)
{
    struct root_memo *memo = &m->state_root[v->state];
    if (unlikely(memo->root == 0 || memo->active != active))
        return find_outcome(m, v, active, asker);
    if (memo->type_reg != MATCH_NO_REG && asker->types) {
        uint32_t type = asker->types[v->registers[memo->type_reg].frame];
        if (likely(memo->way[type % 2].type == type && memo->way[type % 2].outcome != 0))
            return memo->way[type % 2].outcome - 1;
    }
    uint32_t outcome = follow_cues(m, v, asker, memo->root - 1);
    if (unlikely(outcome == RULES_NONE))
        return find_outcome(m, v, active, asker);
    keep_way(m, memo, v, asker, outcome);
    return outcome;
}

struct rules_outcome *rules_matcher_outcome_at(struct rules_matcher *m, uint32_t outcome)
{
    return &m->outcomes[outcome];
}

const struct rules_entry *rules_matcher_entry(const struct rules_matcher *m, uint32_t entry)
{
    return &m->entries[entry];
}

/* ---- frames counted one by one
 * --------------------------------------------------------------------------------- */

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
        m->stamp++;
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

/* ---- the program's face
 * ---------------------------------------------------------------------------------------- */

uint32_t rules_program_attrs(const struct rules_program *p)
{
    return p->attrs.n;
}

struct bytes rules_program_attr(const struct rules_program *p, uint32_t key)
{
    return p->attrs.p[key].key;
}

uint32_t rules_program_sources(const struct rules_program *p)
{
    return p->sources.n;
}

const struct rule_source *rules_program_source(const struct rules_program *p, uint32_t source)
{
    return p->sources.p[source].source;
}

uint32_t rules_program_source_metric(const struct rules_program *p, uint32_t source)
{
    return p->sources.p[source].metric;
}

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
