/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the rules count of a selection: its heaviest stacks are asked about one by one, and added up by
 * series. The first stack of a series, which is its heaviest, says why.
 */
#include <errno.h>
#include <stdlib.h>

#include "gateway/look/judge.h"
#include "proto/base/clock.h"

/* Asked about at most, and the series that are told apart. */
#define STACKS_MAX 20000u
#define SERIES_MAX 4096u

/* Stacks between two looks at the clock. */
#define BETWEEN_LOOKS 256u

/* Frames of a stack that is shown. */
#define SHOWN_MAX 256u

struct row {
    uint32_t series, source, node; /* series: of the matcher; node: the first stack */
    uint32_t n_stacks, last;       /* last: the stack that was added last */
    uint64_t value;
};

struct saying {
    const struct look_asked *asked;
    struct look_judge judge;
    const struct look_tree *tree;
    VEC(struct look_ranked) stacks; /* nodes, the heaviest first */
    VEC(uint32_t) row_of;           /* [series] + 1; 0: none */
    VEC(struct row) rows;
    VEC(struct look_ranked) ranked;  /* rows */
    uint64_t asked_value, uncounted; /* of stacks that were asked about, and that no metric takes */
    uint32_t n_asked;
};

static int rank_stacks(struct saying *s)
{
    const uint64_t *self = s->tree->self[0].p;
    for (uint32_t i = 1; i < s->tree->dict.nodes.n; i++)
        if (self[i] > 0 && i != LOOK_NODE_NOT_KEPT &&
            vec_append(&s->stacks, (struct look_ranked){self[i], i}) < 0)
            return -ENOMEM;
    if (s->stacks.n > 1)
        qsort(s->stacks.p, s->stacks.n, sizeof *s->stacks.p, look_by_rank);
    return 0;
}

/* A series that counts frames one by one has several entries of a stack: it is one stack all the same. */
static int add_entries(struct saying *s, const struct look_ranked *stack, uint32_t number)
{
    for (uint32_t i = 0; i < s->judge.n_entries; i++) {
        const struct rules_entry *entry = &s->judge.entries[i];
        if (vec_extend(&s->row_of, entry->series + 1) < 0)
            return -ENOMEM;
        uint32_t *place = &s->row_of.p[entry->series];
        if (*place == 0 && s->rows.n < SERIES_MAX) {
            if (vec_append(&s->rows, (struct row){entry->series, entry->source, stack->group, 0, 0, 0}) < 0)
                return -ENOMEM;
            *place = s->rows.n;
        }
        struct row *row = *place > 0 ? &s->rows.p[*place - 1] : NULL;
        if (!row || row->last == number)
            continue;
        row->last = number;
        row->n_stacks++;
        row->value = look_add(row->value, stack->value);
    }
    return 0;
}

static int ask_all(struct saying *s)
{
    const uint64_t deadline = s->asked->deadline_ns;
    int r = 0;
    while (s->n_asked < min_of(s->stacks.n, STACKS_MAX) && r == 0) {
        const struct look_ranked *stack = &s->stacks.p[s->n_asked++];
        if (s->n_asked % BETWEEN_LOOKS == 0 && deadline != 0 && clock_monotonic() > deadline)
            return LOOK_TOO_LONG;
        r = look_judge_ask(&s->judge, stack->group);
        if (r == 0)
            r = add_entries(s, stack, s->n_asked);
        s->asked_value = look_add(s->asked_value, stack->value);
        s->uncounted = look_add(s->uncounted, s->judge.n_entries == 0 ? stack->value : 0);
    }
    return r;
}

static int rank_rows(struct saying *s)
{
    for (uint32_t i = 0; i < s->rows.n; i++)
        if (vec_append(&s->ranked, (struct look_ranked){s->rows.p[i].value, i}) < 0)
            return -ENOMEM;
    if (s->ranked.n > 1)
        qsort(s->ranked.p, s->ranked.n, sizeof *s->ranked.p, look_by_rank);
    return 0;
}

/* ---- what is said -------------------------------------------------------------------------- */

struct telling {
    struct saying *saying;
    struct json *j;
};

static struct bytes frame_name(const struct saying *s, uint32_t frame)
{
    return intern_get(&s->tree->dict.strings, s->tree->dict.frames.p[frame].name);
}

static void put_reason(void *context, const struct rules_reason *reason)
{
    const struct telling *t = context;
    const struct saying *s = t->saying;
    struct json *j = t->j;
    json_open(j, '{');
    json_key(j, "what"), json_string(j, bytes_str(reason->what));
    json_key(j, "text"), json_string(j, reason->text);
    json_key(j, "file"), json_string(j, s->judge.rules.set->files[reason->place.file].name);
    json_key(j, "line"), json_u64(j, reason->place.line);
    if (reason->position != RULES_NONE) {
        json_key(j, "frame"), json_u64(j, reason->position);
        json_key(j, "is"), json_string(j, frame_name(s, s->judge.stack[reason->position]));
    }
    json_close(j, '}');
}

static void put_place(struct json *j, const struct saying *s, struct rule_place place)
{
    json_key(j, "file"), json_string(j, s->judge.rules.set->files[place.file].name);
    json_key(j, "line"), json_u64(j, place.line);
}

static int put_row(struct saying *s, struct json *j, const struct row *row)
{
    const struct rule_source *source = rules_program_source(s->judge.rules.program, row->source);
    const struct rule_metric *metric = rules_program_metric(
        s->judge.rules.program, rules_program_source_metric(s->judge.rules.program, row->source));
    const struct rules_series_label *labels;
    int r = look_judge_ask(&s->judge, row->node); /* once more, for why */
    if (r < 0)
        return r;
    const uint32_t n = rules_matcher_series_labels(s->judge.matcher, row->series, &labels);
    json_open(j, '{');
    json_key(j, "metric"), json_string(j, metric->name);
    json_key(j, "pack"), json_string(j, metric->pack);
    json_key(j, "describe"), json_string(j, metric->describe);
    put_place(j, s, metric->place);
    json_key(j, "labels"), json_open(j, '{');
    for (uint32_t i = 0; i < n; i++) {
        json_string_key(j, rules_program_name(s->judge.rules.program, labels[i].name));
        json_string(j, rules_matcher_text(s->judge.matcher, labels[i].value));
    }
    json_close(j, '}');
    json_key(j, "value"), json_u64(j, row->value);
    json_key(j, "stacks"), json_u64(j, row->n_stacks);
    json_key(j, "because"), json_open(j, '[');
    const struct rules_explained x = look_judge_explained(&s->judge);
    rules_reasons(&x, s->judge.rules.program, s->judge.rules.set, source, put_reason,
                  &(struct telling){s, j});
    json_close(j, ']');
    json_key(j, "stack"), json_open(j, '[');
    for (uint32_t i = 0; i < min_of(s->judge.n_stack, SHOWN_MAX); i++)
        json_string(j, frame_name(s, s->judge.stack[i]));
    json_close(j, ']');
    json_close(j, '}');
    return 0;
}

static int put_all(struct saying *s, struct json *j)
{
    const uint32_t limit = min_of(s->asked->question->limit, s->ranked.n);
    int r = 0;
    json_key(j, "total"), json_u64(j, s->tree->total[0].p[LOOK_ROOT]);
    json_key(j, "stacks"), json_u64(j, s->n_asked);
    json_key(j, "asked"), json_u64(j, s->asked_value);
    json_key(j, "uncounted"), json_u64(j, s->uncounted);
    json_key(j, "rows"), json_open(j, '[');
    for (uint32_t i = 0; i < limit && r == 0; i++)
        r = put_row(s, j, &s->rows.p[s->ranked.p[i].group]);
    json_close(j, ']');
    json_key(j, "more"), json_u64(j, s->ranked.n - limit);
    return r;
}

int look_write_rules(const struct look_asked *asked, const struct look_tree *tree,
                     const struct look_found *found, struct json *j)
{
    autofree struct saying *s = calloc(1, sizeof *s);
    if (!s)
        return -ENOMEM;
    s->asked = asked;
    s->tree = tree;
    s->stacks.budget = s->row_of.budget = s->rows.budget = s->ranked.budget = asked->budget;
    int r = look_judge_init(&s->judge, asked, tree, &asked->question->select[0]);
    r = r == 0 ? rank_stacks(s) : r;
    r = r == 0 ? ask_all(s) : r;
    r = r == 0 ? rank_rows(s) : r;
    r = r == 0 ? put_all(s, j) : r;
    look_judge_release(&s->judge);
    vec_release(&s->stacks);
    vec_release(&s->row_of);
    vec_release(&s->rows);
    vec_release(&s->ranked);
    return r;
}
