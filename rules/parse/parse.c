/* SPDX-License-Identifier: Apache-2.0 */
/* A file: its header and its statements. */
#include "rules/parse/parse.h"

#include <errno.h>

#include "proto/base/quantity.h"
#include "rules/parse/parser.h"

/* The version of the language this program knows (`rules N`). */
#define LANGUAGE_VERSION 1u

struct lists {
    struct list uses, defs, metrics, sets, switches, tests, extends, keeps, triggers;
};

static bool parse_header(struct parser *p, struct ast_pack *pack)
{
    static const char begin[] = "a rule file begins:  rules 1   pack NAME";
    uint64_t version;
    if (!at_word(p, 0, WORD_RULES))
        return fail_as(p, "E113", peek(p, 0)->place, begin,
                       "the file does not begin with `rules` and a version");
    next(p);
    const struct token *t = peek(p, 0);
    if (t->kind != TOKEN_QUANTITY || quantity_u64(t->text, &version) < 0 || version < 1)
        return fail_as(p, "E113", t->place, begin,
                       "`rules` is followed by the version of the language, a number");
    if (version > LANGUAGE_VERSION)
        return fail_as(p, "E113", t->place, "write: rules 1    or use a newer profgate",
                       "this file is in version %.*s of the rule language; this program knows version %u",
                       (int)(t->text.n < 20 ? t->text.n : 20), (const char *)t->text.p, LANGUAGE_VERSION);
    next(p);
    if (!at_word(p, 0, WORD_PACK))
        return fail_as(p, "E113", peek(p, 0)->place, begin, "the file does not name its pack");
    next(p);
    return parse_name(p, "the pack's name", &pack->name);
}

/* use = "use" NAME "(" NAME { "," NAME } ")" . */
static bool parse_use(struct parser *p, struct list *uses)
{
    struct ast_use use = {0};
    struct list names = {0};
    next(p);
    if (!parse_name(p, "a pack's name", &use.pack) || !expect_kind(p, TOKEN_PAREN))
        return false;
    do {
        struct ast_name name;
        if (!parse_name(p, "the name of a definition", &name))
            return false;
        if (!add_item(p, &names, p->ast, &name))
            return false;
    } while (accept_kind(p, TOKEN_COMMA));
    if (!expect_kind(p, TOKEN_UNPAREN))
        return false;
    use.names = names.items;
    use.n_names = names.n;
    return add_item(p, uses, p->ast, &use);
}

/* The value of a `set`: the same tokens may be a pattern and a text, and only the parameter says which is
 * meant. */
bool parse_set(struct parser *p, struct ast_set *ret)
{
    if (!parse_name(p, "a parameter's name", &ret->name) || !expect_kind(p, TOKEN_ASSIGN))
        return false;
    const struct token *t = peek(p, 0), *behind = peek(p, 1);
    bool atom = t->kind == TOKEN_STRING || t->kind == TOKEN_REGEX ||
                (t->kind == TOKEN_NAME && (t->word == WORD_NONE || t->word == WORD_NONE_OF_OURS));
    bool text_goes_on = behind->kind == TOKEN_PLUS || behind->kind == TOKEN_ELSE ||
                        at_word(p, 1, WORD_WHEN) || at_word(p, 1, WORD_OF);
    bool pattern_only = t->kind == TOKEN_REGEX || (atom && behind->kind == TOKEN_BAR);
    if (atom && !text_goes_on) {
        uint32_t from = p->at;
        ret->value_pattern = parse_pattern(p);
        if (!ret->value_pattern || pattern_only)
            return ret->value_pattern != NULL;
        p->at = from;
    }
    ret->value = parse_text(p);
    return ret->value != NULL;
}

static bool parse_definition_body(struct parser *p, struct ast_def *def)
{
    if (def->kind == DEF_TABLE)
        return parse_table(p, &def->table);
    if (!expect_kind(p, TOKEN_ASSIGN))
        return false;
    switch (def->kind) {
    case DEF_PATTERN: def->body = parse_pattern(p); break;
    case DEF_FRAME: def->body = parse_frame(p); break;
    case DEF_SAMPLE: def->body = parse_sample(p); break;
    case DEF_TEXT: def->body = parse_text(p); break;
    default: return parse_region(p, &def->region);
    }
    return def->body != NULL;
}

/* A definition that could not be read stands all the same, so that its users are not called wrong too. */
static bool parse_definition(struct parser *p, struct lists *lists, uint32_t pack)
{
    static const enum word words[] = {WORD_PATTERN, WORD_FRAME, WORD_REGION,
                                      WORD_SAMPLE,  WORD_TEXT,  WORD_TABLE};
    struct ast_def *def = arena_calloc(p->ast, 1, sizeof *def);
    if (!def)
        return fail_oom(p);
    def->param = accept_word(p, WORD_PARAM);
    def->pack = pack;
    const struct token *word = peek(p, 0);
    while (def->kind < DEF_TABLE && !at_word(p, 0, words[def->kind]))
        def->kind++;
    if (!at_word(p, 0, words[def->kind]) ||
        (def->param && def->kind != DEF_PATTERN && def->kind != DEF_TEXT)) {
        return fail(p, "`pattern` or `text`");
    }
    next(p);
    const struct token *t = peek(p, 0);
    if (!parse_name(p, "the definition's name", &def->name))
        return false;
    if (t->word != WORD_NONE_OF_OURS)
        return fail_as(p, "E114", t->place, "take another name",
                       "`%.*s` is a word of the language, no name for a %.*s", BYTES_FMT(t->text),
                       BYTES_FMT(word->text));
    if (!add_item(p, &lists->defs, p->ast, &def))
        return false;
    def->id = p->totals->defs++;
    def->broken = !parse_definition_body(p, def);
    return !p->panic;
}

static bool parse_metric_statement(struct parser *p, struct lists *lists, uint32_t pack)
{
    struct ast_metric metric = {.pack = pack};
    bool good = parse_metric(p, &metric);
    if (!good)
        metric.broken = true;
    if (!metric.name.name.p)
        return false;
    return add_item(p, &lists->metrics, p->ast, &metric) && good;
}

/* "extend" "table" NAME "{" { row } "}" */
static bool parse_extend(struct parser *p, struct lists *lists, uint32_t pack)
{
    uint32_t from = p->at;
    struct ast_extend extend = {.pack = pack};
    struct ast_table rows = {0};
    next(p);
    if (!expect_word(p, WORD_TABLE, "table") || !parse_name(p, "the table's name: PACK.TABLE", &extend.name))
        return false;
    extend.place = place_since(p, from);
    bool good = expect_kind(p, TOKEN_BRACE) && parse_rows(p, &rows, true);
    extend.broken = !good;
    extend.rows = rows.rows;
    extend.n_rows = rows.n_rows;
    return add_item(p, &lists->extends, p->ast, &extend) && !p->panic;
}

static bool parse_keep_statement(struct parser *p, struct list *keeps, uint32_t pack)
{
    struct ast_keep keep = {.pack = pack};
    if (!parse_keep(p, &keep))
        return false;
    return add_item(p, keeps, p->ast, &keep);
}

static bool parse_trigger_statement(struct parser *p, struct list *triggers, uint32_t pack)
{
    struct ast_trigger trigger = {.pack = pack};
    bool good = parse_trigger(p, &trigger);
    trigger.broken |= !good;
    if (!trigger.name.name.p)
        return false;
    return add_item(p, triggers, p->ast, &trigger) && good;
}

static bool parse_set_statement(struct parser *p, struct list *sets)
{
    struct ast_set set = {0};
    next(p);
    if (!parse_set(p, &set))
        return false;
    return add_item(p, sets, p->ast, &set);
}

static bool parse_switch(struct parser *p, struct list *switches)
{
    struct ast_switch sw = {.on = at_text(p, "enable")};
    next(p);
    if (!parse_name(p, "the name of a metric or pack", &sw.name))
        return false;
    return add_item(p, switches, p->ast, &sw);
}

/* To behind the brace that closes it; of a file that is known to be right. */
static void step_over_test(struct parser *p)
{
    uint32_t depth = 0;
    do {
        depth += at_kind(p, 0, TOKEN_BRACE);
        depth -= depth > 0 && at_kind(p, 0, TOKEN_UNBRACE);
        next(p);
    } while (!at_kind(p, 0, TOKEN_END) && (depth > 0 || p->tokens[p->at - 1].kind != TOKEN_UNBRACE));
}

static bool parse_test_statement(struct parser *p, struct list *tests, uint32_t pack)
{
    struct ast_test test;
    struct arena *keep = p->keep;
    if (p->file->proven) {
        step_over_test(p);
        return true;
    }
    p->keep = p->tests;
    bool good = parse_test(p, &test);
    p->keep = keep;
    test.pack = pack;
    if (test.broken || !good)
        return good;
    return add_item(p, tests, p->ast, &test);
}

static bool parse_statement(struct parser *p, struct lists *lists, uint32_t pack)
{
    const struct token *t = peek(p, 0);
    switch (t->kind == TOKEN_NAME ? t->word : WORD_NONE_OF_OURS) {
    case WORD_PARAM:
    case WORD_PATTERN:
    case WORD_FRAME:
    case WORD_REGION:
    case WORD_SAMPLE:
    case WORD_TEXT:
    case WORD_TABLE: return parse_definition(p, lists, pack);
    case WORD_ALSO:
    case WORD_OVERRIDE:
    case WORD_COUNTER:
    case WORD_GAUGE: return parse_metric_statement(p, lists, pack);
    case WORD_SET: return parse_set_statement(p, &lists->sets);
    case WORD_TEST: return parse_test_statement(p, &lists->tests, pack);
    case WORD_KEEP:
    case WORD_DROP: return parse_keep_statement(p, &lists->keeps, pack);
    case WORD_TRIGGER: return parse_trigger_statement(p, &lists->triggers, pack);
    case WORD_EXTEND: return parse_extend(p, lists, pack);
    case WORD_USE:
        return fail_as(p, "E113", t->place, "move it behind the line `pack …`",
                       "`use` stands before the first statement");
    default: break;
    }
    if (at_text(p, "enable") || at_text(p, "disable"))
        return parse_switch(p, &lists->switches);
    static const char *const words[] = {"param", "pattern", "frame",   "region",  "sample",
                                        "text",  "table",   "also",    "counter", "gauge",
                                        "set",   "enable",  "disable", "extend",  "keep",
                                        "drop",  "trigger", "test",    "override"};
    return fail_near(p, "a statement", words, sizeof words / sizeof *words);
}

/* To the next word that can begin a statement and stands first on its line, outside of braces or at the
 * margin. */
static void recover_statement(struct parser *p, uint32_t from)
{
    uint32_t depth = 0;
    p->panic = false;
    for (uint32_t i = from; i < p->at; i++) {
        if (p->tokens[i].kind == TOKEN_BRACE)
            depth++;
        else if (p->tokens[i].kind == TOKEN_UNBRACE && depth > 0)
            depth--;
    }
    if (p->at == from)
        next(p);
    for (; !at_kind(p, 0, TOKEN_END); next(p)) {
        const struct token *t = peek(p, 0), *before = &p->tokens[p->at - 1];
        if (at_statement(p) && t->place.line != before->place.line && (depth == 0 || t->place.column == 1))
            return;
        if (t->kind == TOKEN_BRACE)
            depth++;
        else if (t->kind == TOKEN_UNBRACE && depth > 0)
            depth--;
    }
}

static int publish(struct parser *p, struct lists *l, struct ast_pack *pack)
{
    pack->uses = l->uses.items, pack->n_uses = l->uses.n;
    pack->defs = l->defs.items, pack->n_defs = l->defs.n;
    pack->metrics = l->metrics.items, pack->n_metrics = l->metrics.n;
    pack->sets = l->sets.items, pack->n_sets = l->sets.n;
    pack->switches = l->switches.items, pack->n_switches = l->switches.n;
    pack->tests = l->tests.items, pack->n_tests = l->tests.n;
    pack->extends = l->extends.items, pack->n_extends = l->extends.n;
    pack->keeps = l->keeps.items, pack->n_keeps = l->keeps.n;
    pack->triggers = l->triggers.items, pack->n_triggers = l->triggers.n;
    return p->oom ? -ENOMEM : 0;
}

/* Pairs the parentheses, so that looking behind one costs nothing however many stand open. */
static int pair_parentheses(struct parser *p)
{
    uint32_t *closing = arena_calloc(p->ast, p->n, sizeof *closing), open = UINT32_MAX;
    if (!closing)
        return -ENOMEM;
    /* Until its end is found, an open one holds the one it stands in. */
    for (uint32_t i = 0; i < p->n; i++) {
        if (p->tokens[i].kind == TOKEN_PAREN) {
            closing[i] = open;
            open = i;
        } else if (p->tokens[i].kind == TOKEN_UNPAREN && open != UINT32_MAX) {
            uint32_t outer = closing[open];
            closing[open] = i;
            open = outer;
        }
    }
    while (open != UINT32_MAX) {
        uint32_t outer = closing[open];
        closing[open] = 0;
        open = outer;
    }
    p->closing = closing;
    return 0;
}

int parse(const struct rule_file *file, uint16_t number, const struct tokens *tokens, struct report *report,
          struct ast_totals *totals, struct arena *ast, struct arena *keep, struct arena *tests,
          struct ast_pack *ret_pack)
{
    struct parser p = {
        .file = file,
        .number = number,
        .tokens = tokens->all.p,
        .n = tokens->all.n,
        .report = report,
        .ast = ast,
        .keep = keep,
        .tests = tests,
        .totals = totals,
    };
    struct lists lists = {0};
    bool statements = false;
    *ret_pack = (struct ast_pack){0};
    if (pair_parentheses(&p) < 0)
        return -ENOMEM;
    if (!parse_header(&p, ret_pack))
        return p.oom ? -ENOMEM : 1;
    while (!p.oom && !at_kind(&p, 0, TOKEN_END)) {
        uint32_t from = p.at;
        p.depth = 0;
        if (++totals->statements > RULES_STATEMENTS_MAX) {
            fail_as(&p, "E127", peek(&p, 0)->place, NULL, "more than %u statements", RULES_STATEMENTS_MAX);
            break;
        }
        bool use = at_word(&p, 0, WORD_USE) && !statements;
        statements |= !use;
        if (!(use ? parse_use(&p, &lists.uses) : parse_statement(&p, &lists, number)) && !p.oom)
            recover_statement(&p, from);
    }
    return publish(&p, &lists, ret_pack);
}
