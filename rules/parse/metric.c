/* SPDX-License-Identifier: Apache-2.0 */
/* Counters and gauges. */
#include "rules/parse/parser.h"

#include "proto/base/macros.h"
#include "proto/base/quantity.h"

/* Series are memory: a rule may ask for this many in one resource, not for any number. */
#define LIMIT_MAX 1000000u

static const char *const clause_names[] = {
    [CLAUSE_DESCRIBE] = "describe", [CLAUSE_UNIT] = "unit",
    [CLAUSE_OFF] = "off",           [CLAUSE_ON] = "on",
    [CLAUSE_WHERE] = "where",       [CLAUSE_EACH] = "each",
    [CLAUSE_VALUE] = "value",       [CLAUSE_LABEL] = "label",
    [CLAUSE_LIMIT] = "limit",       [CLAUSE_COMBINE] = "combine",
};

int parse_choice_of(struct parser *p, const char *const *words, int n, const char *what)
{
    for (int i = 0; i < n; i++) {
        if (accept_text(p, words[i]))
            return i;
    }
    fail(p, what);
    return -1;
}

int parse_kind(struct parser *p)
{
    static const char *const kinds[] = {"cpu", "wall", "off_cpu", "alloc", "lock", "any"};
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
        if (at_text(p, kinds[i]) && !at_kind(p, 1, TOKEN_BAR)) {
            next(p);
            return (int)i;
        }
    }
    return -1;
}

/* "on" (KIND | "any" | pattern) */
bool parse_on(struct parser *p, bool *ret_is_kind, enum rule_kind *ret_kind, struct ast **ret_on)
{
    int kind = parse_kind(p);
    *ret_is_kind = kind >= 0;
    if (kind >= 0) {
        *ret_kind = (enum rule_kind)kind;
        return true;
    }
    *ret_on = parse_pattern(p);
    return *ret_on != NULL;
}

/* "each" [ "distinct" ] "frame" [ "in" NAME ] [ "is" fprim ] */
static bool parse_each(struct parser *p, struct ast_metric *m)
{
    m->distinct = accept_text(p, "distinct");
    if (!expect_word(p, WORD_FRAME, "frame"))
        return false;
    if (accept_word(p, WORD_IN) && !parse_name(p, "a region's name", &m->each_region))
        return false;
    return !accept_word(p, WORD_IS) || (m->each = parse_fprim(p));
}

static bool parse_limit(struct parser *p, struct ast_metric *m)
{
    uint64_t n;
    const struct token *t = peek(p, 0);
    if (t->kind != TOKEN_QUANTITY || quantity_u64(t->text, &n) < 0)
        return fail(p, "a number of series");
    if (n < 1 || n > LIMIT_MAX)
        return fail_as(p, "E127", t->place, NULL, "a limit lies between 1 and %u", LIMIT_MAX);
    next(p);
    m->limit = (uint32_t)n;
    m->largest = accept_text(p, "largest");
    return true;
}

/* "label" NAME "=" text | "label" TABLE ".*" */
static bool parse_label(struct parser *p, struct list *labels)
{
    uint32_t from = p->at;
    struct ast_label label = {.pack = p->number};
    if (!parse_name(p, "a label's name", &label.name))
        return false;
    label.columns = accept_kind(p, TOKEN_ALL_OF);
    if (!label.columns && (!expect_kind(p, TOKEN_ASSIGN) || !(label.text = parse_text(p))))
        return false;
    label.place = place_since(p, from);
    return add_item(p, labels, p->ast, &label);
}

static bool parse_combine(struct parser *p, struct ast_metric *m)
{
    static const char *const words[] = {"sum", "mean", "last"}; /* as enum rule_combine */
    int i = parse_choice_of(p, words, ARRAY_LEN(words), "sum, mean or last");
    m->combine = (enum rule_combine)i;
    return i >= 0;
}

static bool parse_value(struct parser *p, struct ast_metric *m)
{
    static const char *const words[] = {"time", "samples", "sum", "events", "one"}; /* as enum rule_value */
    int i = parse_choice_of(p, words, ARRAY_LEN(words), "time, samples, sum, events or one");
    m->value = (enum rule_value)i;
    return i >= 0;
}

/* Of a clause that can only be said once. */
static const char *said_twice(const struct token *word)
{
    return bytes_is(word->text, "where") ? "join the two: where … and …" : "leave one of them out";
}

static bool parse_clause(struct parser *p, struct ast_metric *m, struct list *labels)
{
    int clause = -1;
    for (int i = 0; clause < 0 && i < CLAUSES; i++) {
        if (at_text(p, clause_names[i]))
            clause = i;
    }
    if (clause < 0)
        return fail_near(p, "a clause of a metric or `}`", clause_names, CLAUSES);
    const struct token *word = next(p);
    if (m->at[clause].line > 0 && clause != CLAUSE_LABEL) {
        report_plain(p->report, "E121", word->place, said_twice(word), "`%s` is said twice (line %u)",
                     clause_names[clause], m->at[clause].line);
        m->broken = true;
    }
    m->at[clause] = word->place;
    switch ((enum ast_clause)clause) {
    case CLAUSE_DESCRIBE: return parse_string(p, &m->describe);
    case CLAUSE_UNIT: return parse_string(p, &m->unit);
    case CLAUSE_OFF: return true;
    case CLAUSE_ON: return parse_on(p, &m->on_kind, &m->kind, &m->on);
    case CLAUSE_WHERE: return (m->where = parse_sample(p)) != NULL;
    case CLAUSE_EACH: return parse_each(p, m);
    case CLAUSE_VALUE: return parse_value(p, m);
    case CLAUSE_LABEL: return parse_label(p, labels);
    case CLAUSE_LIMIT: return parse_limit(p, m);
    default: return parse_combine(p, m);
    }
}

/* [ "also" | "override" ] ("counter" | "gauge") NAME "{" { clause } "}" */
bool parse_metric(struct parser *p, struct ast_metric *ret)
{
    uint32_t from = p->at;
    ret->also = accept_word(p, WORD_ALSO);
    ret->override = !ret->also && accept_word(p, WORD_OVERRIDE);
    for (uint32_t i = 0; i < CLAUSES; i++)
        ret->from[i] = p->number;
    ret->gauge = at_word(p, 0, WORD_GAUGE);
    if (!accept_word(p, WORD_GAUGE) && !expect_word(p, WORD_COUNTER, "counter"))
        return false;
    if (!parse_name(p, "the metric's name", &ret->name))
        return false;
    ret->place = place_since(p, from);
    struct list labels = {0};
    if (!expect_kind(p, TOKEN_BRACE))
        return false;
    while (!p->oom && !accept_kind(p, TOKEN_UNBRACE)) {
        uint32_t clause = p->at;
        if (!parse_clause(p, ret, &labels)) {
            ret->broken = true;
            if (!recover_clause(p, clause, clause_names, CLAUSES))
                break;
        }
    }
    ret->labels = labels.items;
    ret->n_labels = labels.n;
    return !p->oom;
}
