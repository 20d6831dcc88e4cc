/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parser's inside: its state and the steps its files share. After a syntax error `panic` is set,
 * everything returns NULL or false, and the nearest loop over clauses or statements recovers.
 */
#ifndef RULES_PARSE_PARSER_H
#define RULES_PARSE_PARSER_H

#include "rules/parse/ast.h"
#include "rules/source/lex.h"
#include "rules/source/list.h"
#include "rules/source/report.h"
#include "rules/tree/limits.h"

struct parser {
    const struct rule_file *file;
    uint16_t number;
    const struct token *tokens;
    const uint32_t *closing; /* [token `(`]: the `)` that ends it, 0 if none does */
    uint32_t at, n;
    struct report *report;
    struct arena *ast, *keep, *tests;
    struct ast_totals *totals;
    uint32_t depth;
    /* Of the last `… is FRAME`: its first token, that of FRAME, and the one behind it; E102 may have to say
     * that more belongs into it. */
    uint32_t is_from, is_frame, is_end;
    bool panic, oom;
};

/* ---- tokens */
const struct token *peek(const struct parser *p, uint32_t ahead);
const struct token *next(struct parser *p);
bool at_word(const struct parser *p, uint32_t ahead, enum word word);
bool at_kind(const struct parser *p, uint32_t ahead, enum token_kind kind);
/* A clause word, which is a plain name elsewhere. */
bool at_text(const struct parser *p, const char *text);
bool accept_word(struct parser *p, enum word word);
bool accept_kind(struct parser *p, enum token_kind kind);
bool accept_text(struct parser *p, const char *text);
bool at_comparison(const struct parser *p, uint32_t ahead);

/* ---- errors; each returns false or NULL so that a failure is one line */
/* E111: expected `what`, not the token that stands here. */
void *fail(struct parser *p, const char *what);
void *fail_as(struct parser *p, const char *code, struct rule_place place, const char *proposal,
              const char *format, ...) __attribute__((format(printf, 5, 6)));
/* E111 as fail(), with the word of the list that is nearest to what stands here. */
void *fail_near(struct parser *p, const char *what, const char *const *words, uint32_t n);
/* In advice.c: a proposal for the diagnostic that is being built, of `what` that was expected where the
 * parser stands, if what stands there instead is a known mistake. */
bool advise(struct parser *p, const char *what);
void *fail_oom(struct parser *p);
/* Adds a copy of the item at this address to a list. False: memory is out, as fail_oom says. */
#define add_item(p, list, arena, item) (list_append((list), (arena), (item)) || fail_oom(p))
bool expect_kind(struct parser *p, enum token_kind kind);
bool expect_word(struct parser *p, enum word word, const char *name);

/* ---- nodes */
const uint8_t *token_start(const struct token *t);
/* A node whose source begins at token `from`; node_end sets where it ends: before the token that stands now.
 */
struct ast *node_new(struct parser *p, enum ast_op op, uint32_t from);
struct ast *node_end(struct parser *p, struct ast *node, uint32_t from);
struct bytes source_since(const struct parser *p, uint32_t from);
struct rule_place place_since(const struct parser *p, uint32_t from);
bool node_add(struct parser *p, struct list *kids, struct ast *kid);

/* node_end, with these kids. */
struct ast *node_close(struct parser *p, struct ast *node, const struct list *kids, uint32_t from);

/* operand { between operand } . */
struct ast *parse_series(struct parser *p, enum ast_op op, struct ast *(*operand)(struct parser *),
                         enum token_kind between);
bool enter(struct parser *p);
void leave(struct parser *p);
bool parse_name(struct parser *p, const char *what, struct ast_name *ret);
/* A decoded string, kept. */
bool parse_string(struct parser *p, struct bytes *ret);

/* A chain of operands joined by `and` or by `or`, never both (E101). */
struct ast *parse_chain(struct parser *p, struct ast *(*operand)(struct parser *));

/* ---- the grammar, rule by rule */
struct ast *parse_pattern(struct parser *p);
struct ast *parse_frame(struct parser *p);
struct ast *parse_fprim(struct parser *p);
struct ast *parse_field(struct parser *p); /* of `field of ref`: a field word or TABLE.COLUMN */
bool parse_region(struct parser *p, struct ast_region *ret);
struct ast *parse_ref(struct parser *p);
struct ast *parse_sample(struct parser *p);
struct ast *parse_text(struct parser *p);
bool parse_table(struct parser *p, struct ast_table *ret);
/* Behind `{`, up to and with `}`; the table's columns are known, or (extend) only its resolver knows them. */
bool parse_rows(struct parser *p, struct ast_table *table, bool extend);
bool parse_metric(struct parser *p, struct ast_metric *ret);
/* KIND | "any" | pattern: a kind, or *ret_on. */
bool parse_on(struct parser *p, bool *ret_is_kind, enum rule_kind *ret_kind, struct ast **ret_on);
/* One of the kinds' words; -1 when none stands here. */
int parse_kind(struct parser *p);
/* One of a list of words, as its index; -1 with an error that says `what`. */
int parse_choice_of(struct parser *p, const char *const *words, int n, const char *what);
bool parse_keep(struct parser *p, struct ast_keep *ret);
bool parse_trigger(struct parser *p, struct ast_trigger *ret);
/* "40%", as millionths between `least` and all of it. */
bool parse_percent(struct parser *p, uint32_t least, uint32_t *ret_share);
bool parse_per(struct parser *p, bool *ret_per_second); /* "per" ("second" | "minute") */
bool parse_test(struct parser *p, struct ast_test *ret);
bool parse_set(struct parser *p, struct ast_set *ret);
/* `"…"` in brackets, of attr["…"]. */
bool parse_key(struct parser *p, struct bytes *ret);
/* What stands at the token, if it is a scope's word with a bracket behind it. */
bool at_scope(const struct parser *p, enum rule_scope *ret);

/* ---- recovery */
bool at_statement(const struct parser *p);
/* The same at the margin: of the next statement, whatever is open. */
bool at_margin(const struct parser *p);
/* After a clause that began at token `from` and was wrong: to the next clause word of the block, its end, or
 * the next statement. True: a clause or the block's end stands here. */
bool recover_clause(struct parser *p, uint32_t from, const char *const *clauses, uint32_t n);

#endif
