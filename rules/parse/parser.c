/* SPDX-License-Identifier: Apache-2.0 */
#include "rules/parse/parser.h"

#include <stdarg.h>
#include <stdio.h>

#include "proto/base/nearest.h"
#include "rules/source/place.h"

const struct token *peek(const struct parser *p, uint32_t ahead)
{
    return &p->tokens[p->at + ahead < p->n ? p->at + ahead : p->n - 1];
}

const struct token *next(struct parser *p)
{
    const struct token *t = peek(p, 0);
    if (p->at + 1 < p->n)
        p->at++;
    return t;
}

bool at_kind(const struct parser *p, uint32_t ahead, enum token_kind kind)
{
    return peek(p, ahead)->kind == kind;
}

bool at_word(const struct parser *p, uint32_t ahead, enum word word)
{
    const struct token *t = peek(p, ahead);
    return t->kind == TOKEN_NAME && t->word == word;
}

bool at_text(const struct parser *p, const char *text)
{
    const struct token *t = peek(p, 0);
    return t->kind == TOKEN_NAME && bytes_is(t->text, text);
}

bool accept_word(struct parser *p, enum word word)
{
    if (!at_word(p, 0, word))
        return false;
    next(p);
    return true;
}

bool accept_kind(struct parser *p, enum token_kind kind)
{
    if (!at_kind(p, 0, kind))
        return false;
    next(p);
    return true;
}

bool accept_text(struct parser *p, const char *text)
{
    if (!at_text(p, text))
        return false;
    next(p);
    return true;
}

bool at_comparison(const struct parser *p, uint32_t ahead)
{
    uint8_t k = peek(p, ahead)->kind;
    return k == TOKEN_MATCH || k == TOKEN_UNMATCH || k == TOKEN_EQUAL || k == TOKEN_UNEQUAL;
}

void *fail_as(struct parser *p, const char *code, struct rule_place place, const char *proposal,
              const char *format, ...)
{
    char message[512];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    if (!p->panic)
        report_plain(p->report, code, place, proposal, "%s", message);
    p->panic = true;
    return NULL;
}

void *fail(struct parser *p, const char *what)
{
    const struct token *t = peek(p, 0);
    char buf[80];
    if (t->kind == TOKEN_WRONG) /* reported by the lexer */
        p->panic = true;
    if (p->panic)
        return NULL;
    report_at(p->report, "E111", t->place, "expected %s here, not %s", what,
              token_describe(t, buf, sizeof buf));
    advise(p, what);
    report_done(p->report);
    p->panic = true;
    return NULL;
}

void *fail_near(struct parser *p, const char *what, const char *const *words, uint32_t n)
{
    const struct token *t = peek(p, 0);
    struct nearest near;
    char buf[80];
    if (t->kind != TOKEN_NAME || p->panic)
        return fail(p, what);
    nearest_start(&near, t->text);
    for (uint32_t i = 0; i < n; i++)
        nearest_offer(&near, bytes_str(words[i]));
    report_at(p->report, "E111", t->place, "expected %s here, not %s", what,
              token_describe(t, buf, sizeof buf));
    if (!advise(p, what) && near.best.n > 0 && near.distance > 0)
        report_side(p->report, "did you mean `%.*s`?", BYTES_FMT(near.best));
    report_done(p->report);
    p->panic = true;
    return NULL;
}

void *fail_oom(struct parser *p)
{
    p->oom = p->panic = true;
    return NULL;
}

bool expect_kind(struct parser *p, enum token_kind kind)
{
    if (accept_kind(p, kind))
        return true;
    struct token wanted = {.kind = (uint8_t)kind};
    char buf[80];
    return fail(p, kind == TOKEN_NAME ? "a name" : token_describe(&wanted, buf, sizeof buf));
}

bool expect_word(struct parser *p, enum word word, const char *name)
{
    if (accept_word(p, word))
        return true;
    char what[32];
    snprintf(what, sizeof what, "`%s`", name);
    return fail(p, what);
}

const uint8_t *token_start(const struct token *t)
{
    return t->kind == TOKEN_STRING || t->kind == TOKEN_REGEX ? t->text.p - 1 : t->text.p;
}

static const struct token *last_token(const struct parser *p, uint32_t from)
{
    return &p->tokens[p->at > from ? p->at - 1 : from];
}

struct bytes source_since(const struct parser *p, uint32_t from)
{
    const struct token *last = last_token(p, from);
    const uint8_t *start = token_start(&p->tokens[from]);
    return bytes_of(start, (size_t)(token_start(last) + last->place.length - start));
}

struct rule_place place_since(const struct parser *p, uint32_t from)
{
    return place_join(p->file, p->tokens[from].place, last_token(p, from)->place);
}

struct ast *node_new(struct parser *p, enum ast_op op, uint32_t from)
{
    struct ast *node = arena_calloc(p->ast, 1, sizeof *node);
    if (!node)
        return fail_oom(p);
    node->op = op;
    node->place = p->tokens[from].place;
    return node;
}

struct ast *node_end(struct parser *p, struct ast *node, uint32_t from)
{
    if (!node || p->panic)
        return NULL;
    node->place = place_since(p, from);
    node->source = source_since(p, from);
    return node;
}

bool node_add(struct parser *p, struct list *kids, struct ast *kid)
{
    return kid && add_item(p, kids, p->ast, &kid);
}

struct ast *node_close(struct parser *p, struct ast *node, const struct list *kids, uint32_t from)
{
    if (node) {
        node->kids = kids->items;
        node->n_kids = kids->n;
    }
    return node_end(p, node, from);
}

struct ast *parse_series(struct parser *p, enum ast_op op, struct ast *(*operand)(struct parser *),
                         enum token_kind between)
{
    uint32_t from = p->at;
    struct list kids = {0};
    struct ast *node = node_new(p, op, from);
    do {
        if (!node || !node_add(p, &kids, operand(p)))
            return NULL;
    } while (accept_kind(p, between));
    return node_close(p, node, &kids, from);
}

bool enter(struct parser *p)
{
    if (p->depth < RULES_NESTING_MAX) {
        p->depth++;
        return true;
    }
    return fail_as(p, "E127", peek(p, 0)->place, "name a part of it", "more than %u levels inside each other",
                   RULES_NESTING_MAX);
}

void leave(struct parser *p)
{
    p->depth--;
}

bool parse_name(struct parser *p, const char *what, struct ast_name *ret)
{
    if (!at_kind(p, 0, TOKEN_NAME))
        return fail(p, what);
    const struct token *t = next(p);
    *ret = (struct ast_name){t->text, t->place};
    return true;
}

bool parse_string(struct parser *p, struct bytes *ret)
{
    if (!at_kind(p, 0, TOKEN_STRING))
        return fail(p, "a string");
    *ret = lex_string(p->keep, next(p)->text);
    if (!ret->p)
        fail_oom(p);
    return ret->p != NULL;
}

/* The chain's source with the groups joined by `tight` in parentheses. */
static void add_reading(struct buffer *out, struct ast *const *kids, const bool *is_and, uint32_t n,
                        bool tight)
{
    for (uint32_t i = 0; i < n; i++) {
        bool joined_left = i > 0 && is_and[i - 1] == tight, joined_right = i + 1 < n && is_and[i] == tight;
        if (i > 0)
            buffer_add_str(out, is_and[i - 1] ? " and " : " or ");
        if (joined_right && !joined_left)
            buffer_add_str(out, "(");
        source_fold(kids[i]->source, out, 120);
        if (joined_left && !joined_right)
            buffer_add_str(out, ")");
    }
}

static void report_mixed(struct parser *p, const struct list *kids, const bool *is_and,
                         struct rule_place place)
{
    report_at(p->report, "E101", place, "`and` and `or` mixed; say which belongs together");
    struct buffer reading = BUFFER_INIT(1024);
    for (int tight_and = 1; tight_and >= 0; tight_and--) {
        buffer_clear(&reading, 1024);
        add_reading(&reading, kids->items, is_and, kids->n, tight_and);
        if (reading.p)
            report_propose(p->report, "%s %.*s", tight_and ? "write" : "   or",
                           BYTES_FMT(buffer_bytes(&reading)));
    }
    report_done(p->report);
    buffer_release(&reading);
    p->panic = true;
}

struct ast *parse_chain(struct parser *p, struct ast *(*operand)(struct parser *))
{
    uint32_t from = p->at;
    struct list kids = {0}, joints = {0};
    struct rule_place mixed = {0};
    struct ast *first = operand(p);
    if (!first || (!at_word(p, 0, WORD_AND) && !at_word(p, 0, WORD_OR)))
        return first;
    if (!node_add(p, &kids, first))
        return NULL;
    while (at_word(p, 0, WORD_AND) || at_word(p, 0, WORD_OR)) {
        const struct token *t = next(p);
        const bool is_and = t->word == WORD_AND;
        if (!add_item(p, &joints, p->ast, &is_and))
            return NULL;
        if (mixed.line == 0 && is_and != *(bool *)joints.items)
            mixed = t->place;
        if (!node_add(p, &kids, operand(p)))
            return NULL;
    }
    if (mixed.line > 0) {
        report_mixed(p, &kids, joints.items, mixed);
        return NULL;
    }
    struct ast *node = node_new(p, *(bool *)joints.items ? AST_AND : AST_OR, from);
    return node_close(p, node, &kids, from);
}

/* A statement's first word: at the margin anything that begins one counts, so that a missing `}` costs one
 * block. */
bool at_statement(const struct parser *p)
{
    const struct token *t = peek(p, 0);
    if (t->kind != TOKEN_NAME)
        return false;
    switch (t->word) {
    case WORD_PARAM:
    case WORD_PATTERN:
    case WORD_FRAME:
    case WORD_REGION:
    case WORD_SAMPLE:
    case WORD_TEXT:
    case WORD_TABLE:
    case WORD_ALSO:
    case WORD_OVERRIDE:
    case WORD_COUNTER:
    case WORD_GAUGE:
    case WORD_SET:
    case WORD_EXTEND:
    case WORD_KEEP:
    case WORD_DROP:
    case WORD_TRIGGER:
    case WORD_TEST:
    case WORD_USE: return true;
    default: return bytes_is(t->text, "enable") || bytes_is(t->text, "disable");
    }
}

bool at_margin(const struct parser *p)
{
    return peek(p, 0)->place.column == 1 && at_statement(p);
}

/* An operator or a word that needs something behind it: a clause's word there is a name. */
static bool wants_more(const struct token *t)
{
    switch (t->kind) {
    case TOKEN_ASSIGN:
    case TOKEN_EQUAL:
    case TOKEN_UNEQUAL:
    case TOKEN_MATCH:
    case TOKEN_UNMATCH:
    case TOKEN_BAR:
    case TOKEN_PLUS:
    case TOKEN_ELSE:
    case TOKEN_ARROW:
    case TOKEN_COMMA:
    case TOKEN_PAREN:
    case TOKEN_BRACKET: return true;
    case TOKEN_NAME:
        return t->word == WORD_AND || t->word == WORD_OR || t->word == WORD_NOT || t->word == WORD_IS ||
               t->word == WORD_IN || t->word == WORD_OF || t->word == WORD_FROM || t->word == WORD_WHEN;
    default: return false;
    }
}

bool recover_clause(struct parser *p, uint32_t from, const char *const *clauses, uint32_t n)
{
    uint32_t depth = 0;
    if (p->oom || at_kind(p, 0, TOKEN_END))
        return false;
    if (p->at == from && !at_margin(p))
        next(p); /* recovery must not stop where the error is */
    p->panic = false;
    while (!at_kind(p, 0, TOKEN_END) && !at_margin(p)) {
        if (depth == 0 && at_kind(p, 0, TOKEN_UNBRACE))
            return true;
        if (at_kind(p, 0, TOKEN_BRACE))
            depth++;
        else if (at_kind(p, 0, TOKEN_UNBRACE))
            depth--;
        for (uint32_t i = 0; depth == 0 && i < n; i++) {
            if (at_text(p, clauses[i]) && p->at > 0 && !wants_more(&p->tokens[p->at - 1]))
                return true;
        }
        next(p);
    }
    return false;
}
