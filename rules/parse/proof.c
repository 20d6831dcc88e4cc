/* SPDX-License-Identifier: Apache-2.0 */
/* Tests (LANGUAGE §7): a profile in a few words, and what the rules must make of it. */
#include "rules/parse/parser.h"

#include "proto/base/macros.h"
#include "proto/base/quantity.h"

/* What one test may build: it is meant to be read by a person. */
#define TEST_SAMPLES_MAX 1024u
#define TEST_FRAMES_MAX  1024u
#define TEST_EVENTS_MAX  1000000u

static const char *const clause_names[] = {
    "type",     "period", "linked", "sample", "profile", "scope",
    "resource", "set",    "stack",  "events", "value",   "expect",
};

struct building {
    struct ast_test *test;
    struct list samples, attrs, expects, sets;
    bool linked_first; /* `linked` before the first stack: of that one */
};

/* Optional `in "…"`, `at "…"`. */
static bool parse_optional(struct parser *p, bool present, struct bytes *ret, bool *ret_has)
{
    if (!present)
        return true;
    *ret_has = true;
    return parse_string(p, ret);
}

/* sframe = [ "inlined" ] (NAME | "type" STRING | "untyped") [ STRING ] [ "in" STRING ] [ "at" STRING ] . */
static bool parse_sframe(struct parser *p, struct rule_test_frame *f)
{
    f->inlined = accept_word(p, WORD_INLINED);
    if (at_word(p, 0, WORD_FIELD_TYPE) && at_kind(p, 1, TOKEN_STRING)) {
        next(p);
        if (!parse_string(p, &f->type))
            return false;
    } else if (accept_text(p, "untyped")) {
        f->untyped = true;
    } else {
        struct ast_name name;
        if (!parse_name(p, "a frame's type (a name, type \"…\" or untyped)", &name))
            return false;
        f->type = name.name;
    }
    return parse_optional(p, at_kind(p, 0, TOKEN_STRING), &f->function, &f->has_function) &&
           parse_optional(p, accept_word(p, WORD_IN), &f->mapping, &f->has_mapping) &&
           parse_optional(p, accept_text(p, "at"), &f->file, &f->has_file);
}

/* "stack" sframe { "<" sframe } */
static bool parse_stack(struct parser *p, struct building *b)
{
    struct list frames = {0};
    uint32_t from;
    do {
        struct rule_test_frame frame = {0};
        from = p->at;
        if (!parse_sframe(p, &frame))
            return false;
        if (frames.n == TEST_FRAMES_MAX)
            return fail_as(p, "E127", peek(p, 0)->place, NULL, "a stack of a test has at most %u frames",
                           TEST_FRAMES_MAX);
        if (!add_item(p, &frames, p->keep, &frame))
            return false;
    } while (accept_kind(p, TOKEN_BELOW));
    if (((struct rule_test_frame *)frames.items)[frames.n - 1].inlined)
        return fail_as(p, "E128", place_since(p, from), NULL,
                       "an inlined frame and the next one are one location; the last frame has no next");
    if (b->samples.n == TEST_SAMPLES_MAX)
        return fail_as(p, "E127", peek(p, 0)->place, NULL, "a test has at most %u stacks", TEST_SAMPLES_MAX);
    struct rule_test_sample sample = {
        .frames = frames.items, .n_frames = frames.n, .linked = b->linked_first};
    b->linked_first = false;
    return add_item(p, &b->samples, p->keep, &sample);
}

static struct rule_test_sample *latest(struct parser *p, struct building *b, const struct token *word)
{
    if (b->samples.n > 0)
        return (struct rule_test_sample *)b->samples.items + b->samples.n - 1;
    return fail_as(p, "E128", word->place, "put it behind a stack",
                   "`%.*s` is said of a stack, and there is none yet", BYTES_FMT(word->text));
}

/* "events" INT | "value" INT */
static bool parse_weight(struct parser *p, struct building *b, const struct token *word, bool events)
{
    uint64_t n;
    struct rule_test_sample *sample = latest(p, b, word);
    const struct token *t = peek(p, 0);
    if (!sample)
        return false;
    if (t->kind != TOKEN_QUANTITY || quantity_u64(t->text, &n) < 0 || n > INT64_MAX)
        return fail(p, "a whole number");
    if (events && (n < 1 || n > TEST_EVENTS_MAX))
        return fail_as(p, "E127", t->place, NULL, "events lie between 1 and %u", TEST_EVENTS_MAX);
    next(p);
    if (events) {
        sample->events = (uint32_t)n;
    } else {
        sample->has_value = true;
        sample->value = (int64_t)n;
    }
    return true;
}

/* SCOPE "[" STRING "]" "=" STRING */
static bool parse_attr(struct parser *p, struct building *b, enum rule_scope scope)
{
    struct rule_test_attr attr = {.scope = scope};
    if (scope == RULE_SCOPE_ATTR)
        return fail(p, "sample, profile, scope or resource: a test says where the attribute is");
    next(p);
    if (!parse_key(p, &attr.key) || !expect_kind(p, TOKEN_ASSIGN) || !parse_string(p, &attr.value))
        return false;
    if (scope == RULE_SCOPE_SAMPLE && b->samples.n > 0)
        attr.sample = b->samples.n - 1;
    return add_item(p, &b->attrs, p->keep, &attr);
}

/* TYPE/UNIT */
static bool parse_type(struct parser *p, struct building *b)
{
    struct rule_place place = peek(p, 0)->place;
    struct bytes text;
    if (!parse_string(p, &text))
        return false;
    const uint8_t *slash = text.n > 0 ? memchr(text.p, '/', text.n) : NULL;
    if (!slash)
        return fail_as(p, "E128", place, "for example: type \"samples/count\"",
                       "a profile's type is written TYPE/UNIT");
    b->test->type = bytes_of(text.p, (size_t)(slash - text.p));
    b->test->unit = bytes_of(slash + 1, (size_t)(text.p + text.n - slash - 1));
    return true;
}

static bool parse_period(struct parser *p, struct building *b)
{
    const struct token *t = peek(p, 0);
    if (t->kind != TOKEN_QUANTITY || quantity_duration(t->text, &b->test->period_ns) < 0 ||
        b->test->period_ns == 0) {
        return fail(p, "a duration (10ms)");
    }
    next(p);
    return true;
}

/* QUANTITY: a number, or a time */
static bool parse_amount(struct parser *p, struct ast_expect *e)
{
    const struct token *t = peek(p, 0);
    uint64_t n;
    if (t->kind != TOKEN_QUANTITY)
        return true;
    e->has_amount = true;
    if (quantity_u64(t->text, &n) < 0) {
        e->amount_is_time = true;
        if (quantity_duration(t->text, &n) < 0)
            return fail(p, "a number or a time");
    }
    if (n > INT64_MAX)
        return fail(p, "a smaller number");
    e->amount = (int64_t)n;
    next(p);
    return true;
}

/* "{" [ LABEL "=" STRING { "," … } ] "}" */
static bool parse_expected_labels(struct parser *p, struct ast_expect *e)
{
    struct list labels = {0};
    if (!accept_kind(p, TOKEN_BRACE))
        return true;
    while (!accept_kind(p, TOKEN_UNBRACE)) {
        if (labels.n > 0 && !expect_kind(p, TOKEN_COMMA))
            return false;
        struct ast_label label = {0};
        uint32_t from = p->at;
        if (!parse_name(p, "a label's name or `}`", &label.name) || !expect_kind(p, TOKEN_ASSIGN))
            return false;
        label.text = node_new(p, AST_STRING, p->at);
        if (!label.text || !parse_string(p, &label.text->name))
            return false;
        label.place = place_since(p, from);
        if (!add_item(p, &labels, p->ast, &label))
            return false;
    }
    e->labels = labels.items;
    e->n_labels = labels.n;
    return true;
}

/* "kept" (PERCENT | INT "per" ("second" | "minute")) */
static bool parse_kept(struct parser *p, struct ast_expect *e)
{
    uint64_t n;
    next(p);
    e->kind = RULE_EXPECT_KEPT;
    if (quantity_u64(peek(p, 0)->text, &n) < 0)
        return parse_percent(p, 0, &e->share);
    if (n < 1 || n > UINT32_MAX)
        return fail(p, "a number of samples");
    next(p);
    e->kind = RULE_EXPECT_KEPT_BY;
    e->share = (uint32_t)n;
    return parse_per(p, &e->per_second);
}

static bool parse_expect(struct parser *p, struct building *b)
{
    uint32_t from = p->at - 1;
    struct ast_expect e = {.kind = RULE_EXPECT_SERIES};
    const struct token *word = &p->tokens[from];
    if (at_text(p, "kept") && at_kind(p, 1, TOKEN_QUANTITY)) {
        if (!latest(p, b, word) || !parse_kept(p, &e))
            return false;
        e.sample = b->samples.n - 1;
    } else if (accept_text(p, "nothing")) {
        e.kind = RULE_EXPECT_NOTHING;
    } else if (accept_text(p, "that")) {
        e.kind = RULE_EXPECT_THAT;
        if (!latest(p, b, word) || !(e.that = parse_sample(p)))
            return false;
        e.sample = b->samples.n - 1;
    } else if (!parse_name(p, "a metric's name, `nothing` or `that`", &e.metric) || !parse_amount(p, &e) ||
               !parse_expected_labels(p, &e)) {
        return false;
    }
    e.place = place_since(p, from);
    return add_item(p, &b->expects, p->ast, &e);
}

static bool parse_test_set(struct parser *p, struct building *b)
{
    struct ast_set set = {0};
    if (!parse_set(p, &set))
        return false;
    return add_item(p, &b->sets, p->ast, &set);
}

static bool parse_clause(struct parser *p, struct building *b)
{
    enum rule_scope scope;
    const struct token *word = peek(p, 0);
    if (at_scope(p, &scope))
        return parse_attr(p, b, scope);
    if (accept_text(p, "type"))
        return parse_type(p, b);
    if (accept_text(p, "period"))
        return parse_period(p, b);
    if (accept_word(p, WORD_SET))
        return parse_test_set(p, b);
    if (accept_text(p, "stack"))
        return parse_stack(p, b);
    if (accept_text(p, "expect"))
        return parse_expect(p, b);
    if (accept_text(p, "events"))
        return parse_weight(p, b, word, true);
    if (accept_text(p, "value"))
        return parse_weight(p, b, word, false);
    if (accept_word(p, WORD_LINKED)) {
        if (b->samples.n == 0)
            b->linked_first = true;
        else
            ((struct rule_test_sample *)b->samples.items)[b->samples.n - 1].linked = true;
        return true;
    }
    if (at_word(p, 0, WORD_SAMPLE) || at_word(p, 0, WORD_PROFILE) || at_word(p, 0, WORD_SCOPE) ||
        at_word(p, 0, WORD_RESOURCE)) {
        next(p);
        return fail(p, "`[\"…\"] = \"…\"` behind an attribute's scope");
    }
    return fail_near(p, "a clause of a test or `}`", clause_names, ARRAY_LEN(clause_names));
}

/* test = "test" STRING "{" { xclause } "}" . */
bool parse_test(struct parser *p, struct ast_test *ret)
{
    uint32_t from = p->at;
    struct building b = {.test = ret};
    next(p);
    *ret = (struct ast_test){.type = BYTES_LIT("samples"),
                             .unit = BYTES_LIT("count"),
                             .period_ns = 10000000u /* 10 ms, LANGUAGE §7 */};
    if (!parse_string(p, &ret->name))
        return false;
    ret->place = place_since(p, from);
    if (!expect_kind(p, TOKEN_BRACE))
        return false;
    while (!p->oom && !accept_kind(p, TOKEN_UNBRACE)) {
        uint32_t clause = p->at;
        if (parse_clause(p, &b))
            continue;
        ret->broken = true;
        if (!recover_clause(p, clause, clause_names, ARRAY_LEN(clause_names)))
            break;
    }
    ret->samples = b.samples.items;
    ret->n_samples = b.samples.n;
    ret->attrs = b.attrs.items;
    ret->n_attrs = b.attrs.n;
    ret->expects = b.expects.items;
    ret->n_expects = b.expects.n;
    ret->sets = b.sets.items;
    ret->n_sets = b.sets.n;
    if (!ret->broken && ret->n_samples == 0) {
        report_plain(p->report, "E128", ret->place, NULL, "a test without a stack tests nothing");
        ret->broken = true;
    } else if (!ret->broken && ret->n_expects == 0) {
        report_plain(p->report, "E128", ret->place, "expect nothing, if nothing is to be counted",
                     "a test without `expect` tests nothing");
        ret->broken = true;
    }
    return !p->oom;
}
