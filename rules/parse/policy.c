/* SPDX-License-Identifier: Apache-2.0 */
/* What is kept of raw profiles, and triggers. */
#include <stdlib.h>
#include <string.h>

#include "proto/base/macros.h"
#include "proto/base/quantity.h"
#include "rules/parse/parser.h"

/* A rate is kept by counting a period's samples: nobody wants more of one stack's text than this. */
#define RATE_MAX 1000000u
/* What a window remembers of every group (rules/trigger/trigger.h), and how long anything may stay switched
 * on. */
#define OVER_MIN_NS     1000000000u /* triggers are looked at once a second */
#define OVER_MAX_NS     (3600u * UINT64_C(1000000000))
#define DURATION_MAX_NS (86400u * UINT64_C(1000000000))
#define THRESHOLD_MAX   1e15  /* what a double still counts exactly, and no rate reaches */
#define HERTZ_MAX       1000u /* samplers refuse more */
#define ACTIONS_MAX     8u
#define PER_MAX         8u
#define SELECTORS_MAX   16u

/* ---- shared ---------------------------------------------------------------------------------- */

bool parse_percent(struct parser *p, uint32_t least, uint32_t *ret_share)
{
    const struct token *t = peek(p, 0);
    double share;
    if (t->kind != TOKEN_QUANTITY || t->text.n < 2 || t->text.p[t->text.n - 1] != '%' ||
        quantity_share(t->text, &share) < 0) {
        if (t->kind == TOKEN_QUANTITY && t->text.n > 1 && t->text.p[t->text.n - 1] == '%')
            fail_as(p, "E127", t->place, NULL, "a share lies between 0.0001%% and 100%%");
        else
            fail(p, "a share (40%)");
        return false;
    }
    uint32_t millionths = (uint32_t)(share * RULE_SHARE_ONE + 0.5);
    double finer = share * RULE_SHARE_ONE - millionths;
    if (millionths < least || finer > 1e-4 || finer < -1e-4)
        return fail_as(p, "E127", t->place, NULL,
                       "a share lies between 0.0001%% and 100%%, in steps of 0.0001%%");
    next(p);
    *ret_share = millionths;
    return true;
}

bool parse_per(struct parser *p, bool *ret_per_second)
{
    static const char *const words[] = {"second", "minute"};
    if (!accept_text(p, "per"))
        return fail(p, "`per second` or `per minute`");
    int i = parse_choice_of(p, words, ARRAY_LEN(words), "second or minute");
    *ret_per_second = i == 0;
    return i >= 0;
}

/* ---- keep, drop ------------------------------------------------------------------------------ */

/* PERCENT [ "of" ("stacks" | "profiles" | "samples") ] | INT "per" ("second" | "minute") [ "by" text ] */
static bool parse_amount(struct parser *p, struct ast_keep *ret)
{
    static const char *const ofs[] = {"stacks", "profiles", "samples"}; /* as enum rule_keep_of */
    const struct token *t = peek(p, 0);
    uint64_t n;
    if (accept_word(p, WORD_ALL)) {
        ret->rule.all = true;
        ret->rule.share = RULE_SHARE_ONE;
        return true;
    }
    if (t->kind != TOKEN_QUANTITY)
        return fail(p, "all, a share (1%) or a rate (100 per minute)");
    if (quantity_u64(t->text, &n) < 0) {
        if (!parse_percent(p, 1, &ret->rule.share))
            return false;
        int of = accept_word(p, WORD_OF)
                     ? parse_choice_of(p, ofs, ARRAY_LEN(ofs), "stacks, profiles or samples")
                     : 0;
        ret->rule.of = (enum rule_keep_of)of;
        return of >= 0;
    }
    if (n < 1 || n > RATE_MAX)
        return fail_as(p, "E127", t->place, NULL, "a rate lies between 1 and %u", RATE_MAX);
    next(p);
    ret->rule.how = RULE_KEEP_RATE;
    ret->rule.count = (uint32_t)n;
    return parse_per(p, &ret->rule.per_second) && (!accept_text(p, "by") || (ret->by = parse_text(p)));
}

/* keep = "keep" amount [ "on" (KIND | pattern) ] [ "where" sample ] | "drop" … . */
bool parse_keep(struct parser *p, struct ast_keep *ret)
{
    uint32_t from = p->at;
    ret->rule.on_kind = true;
    ret->rule.kind = RULE_KIND_ANY;
    if (accept_word(p, WORD_DROP))
        ret->rule.how = RULE_KEEP_DROP;
    else if (!expect_word(p, WORD_KEEP, "keep") || !parse_amount(p, ret))
        return false;
    if (accept_word(p, WORD_ON) && !parse_on(p, &ret->rule.on_kind, &ret->rule.kind, &ret->on))
        return false;
    if (accept_word(p, WORD_WHERE) && !(ret->where = parse_sample(p)))
        return false;
    ret->place = place_since(p, from);
    return !p->panic;
}

/* ---- triggers -------------------------------------------------------------------------------- */

static const char *const clause_names[] = {
    [TRIGGER_DESCRIBE] = "describe", [TRIGGER_WHEN] = "when",
    [TRIGGER_UNTIL] = "until",       [TRIGGER_DO] = "do",
    [TRIGGER_LASTING] = "lasting",   [TRIGGER_COOLDOWN] = "cooldown",
};

static bool parse_duration(struct parser *p, uint64_t least, uint64_t most, uint64_t *ret_ns)
{
    const struct token *t = peek(p, 0);
    if (t->kind != TOKEN_QUANTITY || quantity_duration(t->text, ret_ns) < 0)
        return fail(p, "a duration (30s)");
    if (*ret_ns < least || *ret_ns > most)
        return fail_as(p, "E127", t->place, NULL, "this duration lies between %us and %us",
                       (unsigned)(least / 1000000000u), (unsigned)(most / 1000000000u));
    next(p);
    return true;
}

/* LABEL ("=" | "!=") (STRING | "none") | LABEL ("~" | "!~") pattern */
static bool parse_selector_label(struct parser *p, struct list *labels)
{
    struct ast_selector_label label = {0};
    if (!parse_name(p, "a label's name or `}`", &label.name))
        return false;
    enum token_kind op = (enum token_kind)peek(p, 0)->kind;
    if (op != TOKEN_ASSIGN && op != TOKEN_UNEQUAL && op != TOKEN_MATCH && op != TOKEN_UNMATCH)
        return fail(p, "=, !=, ~ or !~");
    next(p);
    label.negated = op == TOKEN_UNEQUAL || op == TOKEN_UNMATCH;
    if (op == TOKEN_MATCH || op == TOKEN_UNMATCH) {
        if (!(label.pattern = parse_pattern(p)))
            return false;
    } else if (accept_word(p, WORD_NONE)) {
        label.is_none = true;
    } else if (!parse_string(p, &label.value)) {
        return false;
    }
    if (labels->n == SELECTORS_MAX)
        return fail_as(p, "E127", label.name.place, NULL, "at most %u labels choose series", SELECTORS_MAX);
    return add_item(p, labels, p->ast, &label);
}

/* The trigger's own `}` must not be taken for that of a selector that could not be read. */
static void skip_selector(struct parser *p)
{
    uint32_t line = peek(p, 0)->place.line;
    while (!at_kind(p, 0, TOKEN_END) && !at_kind(p, 0, TOKEN_UNBRACE) && peek(p, 0)->place.line == line)
        next(p);
    if (peek(p, 0)->place.line == line)
        accept_kind(p, TOKEN_UNBRACE);
}

/* sel = METRIC [ "{" LABEL … { "," … } "}" ] . */
static bool parse_selector(struct parser *p, struct ast_selector *ret)
{
    struct list labels = {0};
    if (!parse_name(p, "a metric's name", &ret->metric))
        return false;
    if (accept_kind(p, TOKEN_BRACE)) {
        bool good;
        do
            good = parse_selector_label(p, &labels);
        while (good && accept_kind(p, TOKEN_COMMA));
        if (!good || !expect_kind(p, TOKEN_UNBRACE)) {
            skip_selector(p);
            return false;
        }
    }
    ret->labels = labels.items;
    ret->n_labels = labels.n;
    return true;
}

/* ("above" | "below") (NUMBER | PERCENT) [ "for" DURATION ] */
static bool parse_threshold(struct parser *p, bool share, struct rule_threshold *ret)
{
    static const char *const words[] = {"above", "below"};
    int i = parse_choice_of(p, words, ARRAY_LEN(words), "above or below");
    if (i < 0)
        return false;
    ret->above = i == 0;
    const struct token *t = peek(p, 0);
    bool percent = t->kind == TOKEN_QUANTITY && t->text.p[t->text.n - 1] == '%';
    char number[32];
    if (t->kind != TOKEN_QUANTITY || t->text.n >= sizeof number)
        return fail(p, share ? "a share (40%)" : "a number");
    if (share != percent)
        return fail_as(p, "E134", t->place, share ? "write: 40%" : NULL,
                       share ? "a share is compared with a percentage" : "a rate is compared with a number");
    memcpy(number, t->text.p, t->text.n);
    number[t->text.n - percent] = '\0';
    ret->value = strtod(number, NULL);
    if (strspn(number, "0123456789.") != t->text.n - percent || ret->value > THRESHOLD_MAX)
        return fail(p, share ? "a share (40%)" : "a number");
    if (percent)
        ret->value /= 100;
    next(p);
    return !accept_text(p, "for") || parse_duration(p, 0, DURATION_MAX_NS, &ret->for_ns);
}

/* [ "per" text { "," text } ] */
static bool parse_groups(struct parser *p, struct ast_trigger *ret)
{
    struct list per = {0};
    if (!accept_text(p, "per"))
        return true;
    do {
        uint32_t from = p->at;
        if (!node_add(p, &per, parse_text(p)))
            return false;
        if (per.n > PER_MAX)
            return fail_as(p, "E127", place_since(p, from), NULL, "at most %u attributes name a group",
                           PER_MAX);
    } while (accept_kind(p, TOKEN_COMMA));
    ret->per = per.items;
    ret->n_per = per.n;
    return true;
}

/* ("rate" "of" sel | "share" "of" sel "in" sel) [ per ] "over" DURATION threshold */
static bool parse_when(struct parser *p, struct ast_trigger *ret)
{
    static const char *const words[] = {"rate", "share"};
    int i = parse_choice_of(p, words, ARRAY_LEN(words), "rate or share");
    ret->rule.share = i == 1;
    if (i < 0 || !expect_word(p, WORD_OF, "of") || !parse_selector(p, &ret->part))
        return false;
    if (i == 1 && (!expect_word(p, WORD_IN, "in") || !parse_selector(p, &ret->whole)))
        return false;
    return parse_groups(p, ret) && expect_word(p, WORD_OVER, "over") &&
           parse_duration(p, OVER_MIN_NS, OVER_MAX_NS, &ret->rule.over_ns) &&
           parse_threshold(p, i == 1, &ret->rule.when);
}

/* "keep" "all" | "sample" FREQUENCY | "record" KIND */
static bool parse_action(struct parser *p, struct ast_trigger *t, struct rule_action *ret)
{
    uint64_t hertz;
    struct rule_place place = peek(p, 0)->place;
    if (accept_word(p, WORD_KEEP)) {
        ret->kind = RULE_ACTION_KEEP_ALL;
        return expect_word(p, WORD_ALL, "all");
    }
    if (accept_word(p, WORD_SAMPLE)) {
        struct bytes text = peek(p, 0)->text;
        ret->kind = RULE_ACTION_SAMPLE;
        if (!at_kind(p, 0, TOKEN_QUANTITY) || text.n < 3 || !bytes_ends(text, "Hz") ||
            quantity_u64(bytes_of(text.p, text.n - 2), &hertz) < 0) {
            return fail(p, "a frequency (97Hz)");
        }
        if (hertz < 1 || hertz > HERTZ_MAX)
            return fail_as(p, "E127", peek(p, 0)->place, NULL, "a frequency lies between 1Hz and %uHz",
                           HERTZ_MAX);
        next(p);
        ret->hertz = (uint32_t)hertz;
        if (t->action_at.line == 0)
            t->action_at = place;
        return true;
    }
    if (!accept_text(p, "record"))
        return fail(p, "keep all, sample FREQUENCY or record KIND");
    ret->kind = RULE_ACTION_RECORD;
    int kind = parse_kind(p);
    if (kind < 0 || kind == RULE_KIND_ANY)
        return fail(p, "cpu, wall, off_cpu, alloc or lock");
    ret->record = (enum rule_kind)kind;
    return true;
}

static bool parse_actions(struct parser *p, struct ast_trigger *ret)
{
    struct list actions = {0};
    do {
        struct rule_action action = {0};
        struct rule_place place = peek(p, 0)->place;
        if (!parse_action(p, ret, &action))
            return false;
        if (action.kind != RULE_ACTION_KEEP_ALL && ret->asks_at.line == 0)
            ret->asks_at = place;
        for (uint32_t i = 0; i < actions.n; i++) {
            const struct rule_action *other = (struct rule_action *)actions.items + i;
            if (other->kind == action.kind && other->record == action.record)
                return fail_as(p, "E121", place, NULL, "this action is said already");
        }
        if (actions.n == ACTIONS_MAX)
            return fail_as(p, "E127", place, NULL, "a trigger does at most %u things", ACTIONS_MAX);
        if (!add_item(p, &actions, p->keep, &action))
            return false;
    } while (accept_kind(p, TOKEN_COMMA));
    ret->rule.actions = actions.items;
    ret->rule.n_actions = actions.n;
    return true;
}

static bool parse_clause(struct parser *p, struct ast_trigger *t)
{
    int clause = -1;
    for (int i = 0; clause < 0 && i < TRIGGER_CLAUSES; i++) {
        if (at_text(p, clause_names[i]))
            clause = i;
    }
    if (clause < 0)
        return fail_near(p, "a clause of a trigger or `}`", clause_names, TRIGGER_CLAUSES);
    const struct token *word = next(p);
    if (t->at[clause].line > 0) {
        report_plain(p->report, "E121", word->place, NULL, "`%s` is said twice (line %u)",
                     clause_names[clause], t->at[clause].line);
        t->broken = true;
    }
    t->at[clause] = word->place;
    switch ((enum ast_trigger_clause)clause) {
    case TRIGGER_DESCRIBE: return parse_string(p, &t->rule.describe);
    case TRIGGER_WHEN: return parse_when(p, t);
    case TRIGGER_UNTIL:
        if (t->at[TRIGGER_WHEN].line == 0)
            return fail_as(p, "E134", word->place, NULL, "`until` stands behind the `when` it ends");
        return parse_threshold(p, t->rule.share, &t->rule.until);
    case TRIGGER_DO: return parse_actions(p, t);
    case TRIGGER_LASTING: return parse_duration(p, OVER_MIN_NS, DURATION_MAX_NS, &t->rule.lasting_ns);
    default: return parse_duration(p, 0, DURATION_MAX_NS, &t->rule.cooldown_ns);
    }
}

/* trigger = "trigger" NAME "{" { tclause } "}" . */
bool parse_trigger(struct parser *p, struct ast_trigger *ret)
{
    uint32_t from = p->at;
    next(p);
    if (!parse_name(p, "the trigger's name", &ret->name))
        return false;
    ret->place = place_since(p, from);
    if (!expect_kind(p, TOKEN_BRACE))
        return false;
    while (!p->oom && !accept_kind(p, TOKEN_UNBRACE)) {
        uint32_t clause = p->at;
        if (parse_clause(p, ret))
            continue;
        ret->broken = true;
        if (!recover_clause(p, clause, clause_names, TRIGGER_CLAUSES))
            break;
    }
    static const enum ast_trigger_clause needed[] = {TRIGGER_WHEN, TRIGGER_DO, TRIGGER_LASTING,
                                                     TRIGGER_COOLDOWN};
    for (size_t i = 0; i < ARRAY_LEN(needed) && !ret->broken; i++) {
        if (ret->at[needed[i]].line > 0)
            continue;
        report_plain(p->report, "E134", ret->place, i > 1 ? "for example: lasting 5m  cooldown 15m" : NULL,
                     "trigger %.*s has no `%s`", BYTES_FMT(ret->name.name), clause_names[needed[i]]);
        ret->broken = true;
    }
    return !p->oom;
}
