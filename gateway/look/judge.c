/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/look/judge.h"

#include <errno.h>
#include <stdlib.h>

#include "proto/base/clock.h"
#include "rules/match/match.h"

/* Stacks between two looks at the clock. */
#define BETWEEN_LOOKS 256u

static struct bytes text_of(const struct look_judge *j, uint32_t string)
{
    return intern_get(&j->tree->dict.strings, string);
}

/* What tap.c calls a frame that nothing names. */
static bool is_unnamed(const struct look_judge *j, const struct look_frame *f)
{
    const struct bytes name = text_of(j, f->name);
    return f->file == LOOK_EMPTY && name.n > 2 && name.p[0] == '[' && name.p[name.n - 1] == ']';
}

/* As of a profile: a named frame has all texts of a function, if only empty ones, another has none. */
static uint32_t field_of(void *context, uint32_t frame, enum rule_field field)
{
    struct look_judge *j = context;
    const struct look_frame *f = &j->tree->dict.frames.p[frame];
    const struct bytes lib = text_of(j, f->lib), kind = text_of(j, f->kind);
    switch (field) {
    case RULE_FIELD_TYPE: return kind.n > 0 ? rules_matcher_string(j->matcher, kind) : RULES_NONE;
    case RULE_FIELD_FUNCTION:
    case RULE_FIELD_FILE:
    case RULE_FIELD_SYSTEM_NAME:
        if (is_unnamed(j, f))
            return RULES_NONE;
        return rules_matcher_string(j->matcher, field == RULE_FIELD_FUNCTION ? text_of(j, f->name)
                                                : field == RULE_FIELD_FILE   ? text_of(j, f->file)
                                                                             : BYTES_LIT(""));
    case RULE_FIELD_MAPPING: return lib.n > 0 ? rules_matcher_string(j->matcher, lib) : RULES_NONE;
    case RULE_FIELD_LIBRARY: return rules_matcher_library(j->matcher, field_of(j, frame, RULE_FIELD_MAPPING));
    case RULE_FIELD_BUILD_ID:
    case RULE_FIELD_COLUMN: break;
    }
    return RULES_NONE;
}

static bool is_inlined(void *context, uint32_t frame)
{
    const struct look_judge *j = context;
    return j->tree->dict.frames.p[frame].inlined != 0;
}

/* A sample's attribute is its thread's name, without digits; the others are of the resource. */
static uint32_t attr_of(void *context, enum rule_scope scope, uint32_t key)
{
    const struct look_judge *j = context;
    const struct bytes name = rules_program_attr(j->rules.program, key);
    for (uint32_t i = 0; i < j->select->n; i++) {
        const struct look_matcher *m = &j->select->matchers[i];
        const bool is_of_scope = scope == RULE_SCOPE_ATTR ||
                                 scope == (m->label == LOOK_THREAD ? RULE_SCOPE_SAMPLE : RULE_SCOPE_RESOURCE);
        if (m->label != LOOK_NO_LABEL && !m->is_type && !m->is_regex && !m->is_not && is_of_scope &&
            bytes_is(name, look_labels[m->label].attribute))
            return rules_matcher_string(j->matcher, m->value);
    }
    return RULES_NONE;
}

static uint32_t type_of(void *context)
{
    return ((const struct look_judge *)context)->type;
}

static uint32_t unit_of(void *context)
{
    return ((const struct look_judge *)context)->unit;
}

static bool is_linked(void *context)
{
    return ((const struct look_judge *)context)->select->trace.n > 0;
}

int look_judge_init(struct look_judge *j, const struct look_asked *asked, const struct look_tree *tree,
                    const struct look_select *select)
{
    *j = (struct look_judge){.rules = asked->store->rules, .select = select, .tree = tree};
    j->classes.budget = asked->budget;
    if (!j->rules.program)
        return LOOK_NO_RULES;
    j->matcher = rules_matcher_new(j->rules.program, asked->budget);
    j->registers = calloc((size_t)rules_program_registers(j->rules.program) + 1, sizeof *j->registers);
    if (!j->matcher || !j->registers || vec_extend(&j->classes, tree->dict.frames.n) < 0)
        return -ENOMEM;
    memset(j->classes.p, 0xff, j->classes.n * sizeof *j->classes.p);
    rules_matcher_begin(j->matcher);
    const struct rules_profile profile = {
        .type = look_type_part(select->type, 1),
        .unit = look_type_part(select->type, 2),
        .period_unit = look_type_part(select->type, 4),
        .period = 1,
        .period_type = look_type_part(select->type, 3),
    };
    j->active = rules_matcher_choose_one(j->matcher, &profile);
    j->type = rules_matcher_string(j->matcher, profile.type);
    j->unit = rules_matcher_string(j->matcher, profile.unit);
    j->verdict.registers = j->registers;
    j->asker = (struct rules_asker){.context = j,
                                    .field = field_of,
                                    .inlined = is_inlined,
                                    .attr = attr_of,
                                    .profile_type = type_of,
                                    .profile_unit = unit_of,
                                    .linked = is_linked};
    return j->active == RULES_NONE ? -ENOMEM : 0;
}

void look_judge_release(struct look_judge *j)
{
    rules_matcher_free(j->matcher);
    free(j->registers);
    vec_release(&j->classes);
}

static uint32_t class_of(struct look_judge *j, uint32_t frame)
{
    struct rules_frame f = {.inlined = is_inlined(j, frame)};
    for (uint32_t i = 0; i < RULES_FIELDS; i++)
        f.field[i] = field_of(j, frame, (enum rule_field)i);
    return rules_matcher_frame(j->matcher, &f);
}

/* Of a sample that had none: no rule takes it. */
static bool is_no_stack(const struct look_judge *j)
{
    return j->n_stack == 1 && bytes_is(text_of(j, j->tree->dict.frames.p[j->stack[0]].name), LOOK_NO_STACK);
}

int look_judge_ask(struct look_judge *j, uint32_t node)
{
    const struct look_dict *d = &j->tree->dict;
    struct rules_found found;
    j->n_stack = j->n_entries = 0;
    for (; node != LOOK_ROOT && j->n_stack < LOOK_STACK_MAX; node = d->nodes.p[node].parent) {
        const uint32_t frame = d->nodes.p[node].frame;
        if (j->classes.p[frame] == RULES_NONE)
            j->classes.p[frame] = class_of(j, frame);
        j->stack[j->n_stack++] = frame;
    }
    const struct rules_stack stack = {j->stack, j->n_stack, NULL, j->classes.p, NULL};
    if (rules_matcher_error(j->matcher) < 0)
        return -ENOMEM;
    if (is_no_stack(j) || !rules_matcher_walk(j->matcher, &stack, &j->verdict))
        return rules_matcher_error(j->matcher);
    if (!rules_matcher_find(j->matcher, &j->verdict, j->active, &j->asker, &found))
        return -ENOMEM;
    j->n_entries = rules_matcher_entries(j->matcher, &j->verdict, &found, &j->asker, &j->entries);
    return rules_matcher_error(j->matcher);
}

struct rules_explained look_judge_explained(const struct look_judge *j)
{
    return (struct rules_explained){j->matcher, &j->verdict, &j->asker, j->stack, j->n_stack};
}

/* ---- one metric ---------------------------------------------------------------------------- */

static uint32_t metric_of(const struct look_judge *j, const struct rules_entry *entry)
{
    return rules_program_source_metric(j->rules.program, entry->source);
}

/* Labels that were asked for. */
static bool has_labels(const struct look_judge *j, const struct look_question *q, uint32_t series)
{
    const struct rules_series_label *labels;
    const uint32_t n = rules_matcher_series_labels(j->matcher, series, &labels);
    for (uint32_t i = 0; i < q->metric_labels.n; i++) {
        bool has = false;
        for (uint32_t k = 0; k < n && !has; k++)
            has =
                bytes_eq(rules_program_name(j->rules.program, labels[k].name), q->metric_labels.p[i].name) &&
                bytes_eq(rules_matcher_text(j->matcher, labels[k].value), q->metric_labels.p[i].value);
        if (!has)
            return false;
    }
    return true;
}

static bool is_counted(const struct look_judge *j, const struct look_question *q)
{
    for (uint32_t i = 0; i < j->n_entries; i++)
        if (bytes_eq(rules_program_metric(j->rules.program, metric_of(j, &j->entries[i]))->name, q->metric) &&
            has_labels(j, q, j->entries[i].series))
            return true;
    return false;
}

static bool knows_metric(const struct rules_program *p, struct bytes name)
{
    for (uint32_t i = 0; i < rules_program_metrics(p); i++)
        if (bytes_eq(rules_program_metric(p, i)->name, name))
            return true;
    return false;
}

int look_tree_metric(struct look_tree *t, uint32_t side, const struct look_asked *asked)
{
    autofree struct look_judge *j = calloc(1, sizeof *j);
    if (!j)
        return -ENOMEM;
    int r = look_judge_init(j, asked, t, &asked->question->select[side]);
    if (r == 0 && !knows_metric(j->rules.program, asked->question->metric))
        r = LOOK_NO_METRIC;
    uint64_t *self = t->self[side].p;
    for (uint32_t i = 1, n = 0; i < t->self[side].n && r == 0; i++) {
        if (self[i] == 0)
            continue;
        if (++n % BETWEEN_LOOKS == 0 && asked->deadline_ns != 0 && clock_monotonic() > asked->deadline_ns)
            r = LOOK_TOO_LONG;
        else
            r = i == LOOK_NODE_NOT_KEPT ? 0 : look_judge_ask(j, i);
        if (r == 0 && (i == LOOK_NODE_NOT_KEPT || !is_counted(j, asked->question)))
            self[i] = 0;
    }
    look_judge_release(j);
    return r;
}
