/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A subject is a row or a named pattern, known by where it stands in its file: a test with `set`s has a rule
 * set of its own, with other nodes for the same text. Each test is prepared as for running, each of its
 * samples walked, and then asked, of everything its program holds, what it met: of a table over a stack the
 * row that was taken, of a table about frames the row of each frame, of a pattern whether any frame meets it.
 * What no sample of any test met is W210. Definitions may use each other over and over, so visits are
 * bounded; what is beyond is not seen, and not warned of.
 */
#include "rules/prove/coverage.h"

#include <errno.h>
#include <stdlib.h>

#include "proto/base/macros.h"
#include "rules/match/parts.h"
#include "rules/prove/proof_runner.h"
#include "rules/source/list.h"
#include "rules/source/report.h"

#define DEPTH_MAX  64u
#define VISITS_MAX 20000u /* of conditions in one test: definitions use each other, perhaps over and over */

/* A row or pattern, known by where it stands: a test with a `set` has a tree of its own. */
struct subject {
    struct rule_place place;
    struct bytes pattern; /* its name; "" of a row */
    bool met;
};

struct coverage {
    struct arena arena;
    struct list subjects;
    bool oom;
    /* of the sample being looked at */
    struct test_runner *r;
    struct rules_asker asker;
    struct rules_verdict verdict;
    bool walked;
    uint32_t visits;
};

static struct subject *subject_at(struct coverage *c, struct rule_place place, struct bytes pattern)
{
    struct subject *items = c->subjects.items;
    for (uint32_t i = c->subjects.n; i > 0; i--) {
        const struct rule_place *p = &items[i - 1].place;
        if (p->file == place.file && p->line == place.line && p->column == place.column)
            return &items[i - 1];
    }
    struct subject *made = list_add(&c->subjects, &c->arena, sizeof *made);
    if (made)
        *made = (struct subject){.place = place, .pattern = pattern};
    c->oom |= !made;
    return made;
}

/* Whether the frame at a position of the sample satisfies a node. */
static bool node_holds(struct coverage *c, uint32_t node, uint32_t position)
{
    struct frame_eval fe = {.asker = &c->asker, .frame = position};
    struct match_predicates *predicates = &c->r->matcher->frames.predicates;
    match_predicates_start(predicates);
    return match_predicates_holds(predicates, &fe, node);
}

/* ---- patterns -------------------------------------------------------------------------------- */

static void meet_pattern(struct coverage *c, const struct rule_frame *f, uint32_t n_frames)
{
    struct subject *s = subject_at(c, f->pattern->atoms[0]->place, f->pattern->name);
    uint32_t node = lower_find(c->r->program, f);
    for (uint32_t i = 0; s && !s->met && c->walked && node != LOWER_NONE && i < n_frames; i++)
        s->met = node_holds(c, node, i) != f->negated;
}

/* The named patterns of a condition. */
static void meet_frame(struct coverage *c, const struct rule_frame *f, uint32_t n_frames, uint32_t depth)
{
    if (!f || depth == 0 || ++c->visits > VISITS_MAX)
        return;
    if (f->op == RULE_FRAME_MATCH && f->pattern->name.n > 0 && f->pattern->n_atoms > 0)
        meet_pattern(c, f, n_frames);
    for (uint32_t i = 0; i < f->n_kids; i++)
        meet_frame(c, f->kids[i], n_frames, depth - 1);
}

static void meet_sample(struct coverage *c, const struct rule_sample *s, uint32_t n_frames, uint32_t depth)
{
    if (!s || depth == 0 || ++c->visits > VISITS_MAX)
        return;
    meet_frame(c, s->frame, n_frames, DEPTH_MAX);
    for (uint32_t i = 0; i < s->n_chain; i++)
        meet_frame(c, s->chain[i], n_frames, DEPTH_MAX);
    for (uint32_t i = 0; i < s->n_kids; i++)
        meet_sample(c, s->kids[i], n_frames, depth - 1);
}

/* ---- rows ------------------------------------------------------------------------------------ */

static void meet_row(struct coverage *c, const struct rule_row *row, bool met)
{
    struct subject *s = subject_at(c, row->place, (struct bytes){0});
    if (s)
        s->met |= met;
}

static void meet_stack_table(struct coverage *c, uint32_t table, uint32_t n_frames)
{
    const struct rule_table *t = c->r->program->tables.p[table].source;
    uint32_t reg, taken = LOWER_NONE;
    if (c->walked) {
        cleanup(eval_release) struct eval e;
        matcher_eval(&e, c->r->matcher, &c->verdict, &c->asker);
        taken = eval_table(&e, table, &reg);
    }
    for (uint32_t i = 0; i < t->n_rows; i++) {
        meet_row(c, &t->rows[i], i == taken);
        meet_frame(c, t->rows[i].frame, n_frames, DEPTH_MAX);
    }
}

/* The row that classifies a frame; LOWER_NONE if none does. */
static uint32_t row_of_frame(struct coverage *c, const struct lower_ftable *t, uint32_t position)
{
    for (uint32_t i = 0; i < t->source->n_rows; i++) {
        uint32_t node = c->r->program->kids.p[t->nodes + i];
        if (node == LOWER_NONE || node_holds(c, node, position)) /* `else` stands last */
            return i;
    }
    return LOWER_NONE;
}

static void meet_frame_table(struct coverage *c, const struct lower_ftable *t, uint32_t n_frames)
{
    for (uint32_t i = 0; i < t->source->n_rows; i++) {
        meet_row(c, &t->source->rows[i], false);
        meet_frame(c, t->source->rows[i].frame, n_frames, DEPTH_MAX);
    }
    for (uint32_t f = 0; c->walked && f < n_frames; f++) {
        uint32_t row = row_of_frame(c, t, f);
        if (row != LOWER_NONE)
            meet_row(c, &t->source->rows[row], true);
    }
}

/* ---- all ------------------------------------------------------------------------------------- */

static void look_at_sample(struct coverage *c, uint32_t sample)
{
    const struct rules_program *p = c->r->program;
    uint32_t n_frames = c->r->test->samples[sample].n_frames;
    c->visits = 0;
    c->asker = test_asker(c->r);
    c->walked = test_walk(c->r, sample, &c->verdict);
    for (uint32_t i = 0; i < p->tables.n; i++)
        meet_stack_table(c, i, n_frames);
    for (uint32_t i = 0; i < p->ftables.n; i++)
        meet_frame_table(c, &p->ftables.p[i], n_frames);
    for (uint32_t i = 0; i < p->sources.n; i++) {
        meet_sample(c, p->sources.p[i].where, n_frames, DEPTH_MAX);
        if (p->sources.p[i].source)
            meet_frame(c, p->sources.p[i].source->each_frame, n_frames, DEPTH_MAX);
    }
    for (uint32_t i = 0; i < p->keeps.n; i++)
        meet_sample(c, p->keeps.p[i].source->where, n_frames, DEPTH_MAX);
}

static int look_at_test(struct coverage *c, const struct rule_test *test)
{
    struct test_runner r = {.test = test};
    struct error e = {""};
    c->r = &r;
    int error = test_prepare(&r, &e);
    for (uint32_t i = 0; error == 0 && i < test->n_samples; i++) {
        look_at_sample(c, i);
        error = rules_matcher_error(r.matcher);
    }
    test_release(&r);
    return error < 0 ? error : c->oom ? -ENOMEM : 0;
}

static int by_place(const void *a, const void *b)
{
    const struct rule_place *x = &((const struct subject *)a)->place,
                            *y = &((const struct subject *)b)->place;
    return order_of(x->file, y->file) ?: order_of(x->line, y->line) ?: order_of(x->column, y->column);
}

static int report_all(struct coverage *c, const struct rule_set *set, struct rules_diagnostics *found)
{
    struct report report = {.out = found, .files = set->files};
    report.errors = arena_calloc(&c->arena, set->n_files + 1, sizeof *report.errors);
    report.warnings = arena_calloc(&c->arena, set->n_files + 1, sizeof *report.warnings);
    if (!report.errors || !report.warnings)
        return -ENOMEM;
    struct subject *items = c->subjects.items;
    if (c->subjects.n > 0)
        qsort(items, c->subjects.n, sizeof *items, by_place);
    for (uint32_t i = 0; i < c->subjects.n; i++) {
        if (items[i].met)
            continue;
        if (items[i].pattern.n > 0)
            report_plain(&report, "W210", items[i].place, NULL, "no test has a frame that `%.*s` takes",
                         BYTES_FMT(items[i].pattern));
        else
            report_plain(&report, "W210", items[i].place, NULL, "no test has a stack that this row takes");
    }
    report_finish(&report);
    return report.oom ? -ENOMEM : 0;
}

int rules_warn_untested(const struct rule_set *set, struct rules_diagnostics *found)
{
    struct coverage c = {.arena = {0}};
    int r = 0;
    for (uint32_t i = 0; i < set->n_tests && r == 0; i++)
        r = look_at_test(&c, &set->tests[i]);
    if (r == 0)
        r = report_all(&c, set, found);
    arena_release(&c.arena);
    return r;
}
