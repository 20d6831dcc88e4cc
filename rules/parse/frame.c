/* SPDX-License-Identifier: Apache-2.0 */
/* Patterns, predicates about one frame, regions and references to a frame. */
#include "rules/parse/parser.h"

#include <stdio.h>

#include "proto/base/macros.h"
#include "rules/pattern/regex_check.h"
#include "rules/source/place.h"

static bool check_regex(struct parser *p, const struct token *t)
{
    struct regex_fault fault;
    int r = regex_check(t->text, t->nocase, &fault);
    if (r == 0)
        return true;
    if (r < 0)
        return fail_oom(p);
    struct rule_place place = t->place;
    place.column += 1 + fault.at;
    place.length = fault.length;
    const char *proposal = fault.proposal;
    if (!proposal && t->text.n > 0 && t->text.p[0] == '*')
        proposal = "a glob stands in double quotes: \"*json*\"; in a regex any text is .*";
    report_plain(p->report, fault.irregular ? "E107" : "E118", place, proposal, "%s",
                 fault.what ? fault.what : fault.error.text);
    return true; /* the file is wrong; reading on finds the rest */
}

/* A glob or regex token as an AST_ATOM. */
static struct ast *parse_atom(struct parser *p)
{
    uint32_t from = p->at;
    const struct token *t = next(p);
    if (++p->totals->atoms > RULES_ATOMS_MAX)
        return fail_as(p, "E127", t->place, NULL, "more than %u globs and regexes", RULES_ATOMS_MAX);
    struct ast *node = node_new(p, AST_ATOM, from);
    struct rule_atom *atom = node ? arena_calloc(p->keep, 1, sizeof *atom) : NULL;
    if (!atom)
        return fail_oom(p);
    atom->nocase = t->nocase;
    atom->place = t->place;
    atom->kind = RULE_REGEX;
    atom->text = t->text;
    if (t->kind == TOKEN_STRING && lex_glob(p->keep, t->text, atom) < 0)
        return fail_oom(p);
    if (t->kind == TOKEN_REGEX && !check_regex(p, t))
        return NULL;
    node->atom = atom;
    return node_end(p, node, from);
}

/* patatom = GLOB | REGEX | "none" | NAME . */
static struct ast *parse_patatom(struct parser *p)
{
    uint32_t from = p->at;
    const struct token *t = peek(p, 0);
    if (t->kind == TOKEN_STRING || t->kind == TOKEN_REGEX)
        return parse_atom(p);
    if (t->kind == TOKEN_NAME && (t->word == WORD_NONE || t->word == WORD_NONE_OF_OURS)) {
        struct ast *node = node_new(p, t->word == WORD_NONE ? AST_NONE : AST_NAME, from);
        if (node)
            node->name = t->text;
        next(p);
        return node_end(p, node, from);
    }
    return fail(p, "a pattern (\"glob*\", /regex/, none or a pattern's name)");
}

/* pattern = patatom { "|" patatom } . */
struct ast *parse_pattern(struct parser *p)
{
    return parse_series(p, AST_PATTERN, parse_patatom, TOKEN_BAR);
}

static struct ast *simple(struct parser *p, enum ast_op op)
{
    uint32_t from = p->at;
    struct ast *node = node_new(p, op, from);
    const struct token *t = next(p);
    if (node)
        node->name = t->text;
    return node_end(p, node, from);
}

struct ast *parse_field(struct parser *p)
{
    const struct token *t = peek(p, 0);
    if (t->kind == TOKEN_NAME && t->word >= WORD_FIELD_TYPE && t->word <= WORD_FIELD_BUILD_ID) {
        struct ast *node = simple(p, AST_FIELD);
        if (node)
            node->field = (enum rule_field)(t->word - WORD_FIELD_TYPE);
        return node;
    }
    if (t->kind == TOKEN_NAME && t->word == WORD_NONE_OF_OURS)
        return simple(p, AST_NAME);
    return fail(p, "a field (type, function, system_name, file, mapping, library, build_id or TABLE.COLUMN)");
}

/* field ("~" | "!~") pattern | field ("==" | "!=") (STRING | "none") . */
static struct ast *parse_frame_comparison(struct parser *p)
{
    uint32_t from = p->at;
    struct ast *field = parse_field(p);
    if (!field)
        return NULL;
    if (!at_comparison(p, 0))
        return fail(p, "`~`, `!~`, `==` or `!=` behind a field");
    enum token_kind op = next(p)->kind;
    bool match = op == TOKEN_MATCH || op == TOKEN_UNMATCH;
    struct ast *node = node_new(p, match ? AST_FRAME_MATCH : AST_FRAME_EQUAL, from), *right = NULL;
    struct list kids = {0};
    if (match) {
        right = parse_pattern(p);
    } else if (at_word(p, 0, WORD_NONE)) {
        right = simple(p, AST_NONE);
    } else if (at_kind(p, 0, TOKEN_STRING)) {
        right = node_new(p, AST_STRING, p->at);
        if (right && !parse_string(p, &right->name))
            return NULL;
    } else {
        return fail(p, "a string or none (globs and regexes are met with ~)");
    }
    if (!node || !node_add(p, &kids, field) || !node_add(p, &kids, right))
        return NULL;
    node->negated = op == TOKEN_UNMATCH || op == TOKEN_UNEQUAL;
    return node_close(p, node, &kids, from);
}

/* Words of the sample's level where a frame is spoken of: E102. */
static bool at_sample_words(const struct parser *p)
{
    enum rule_scope scope;
    static const enum word words[] = {WORD_LINKED,       WORD_ANY,         WORD_NO,    WORD_EVERY,
                                      WORD_LEAF,         WORD_ROOT,        WORD_FIRST, WORD_LAST,
                                      WORD_PROFILE_TYPE, WORD_PROFILE_UNIT};
    for (size_t i = 0; i < ARRAY_LEN(words); i++) {
        if (at_word(p, 0, words[i]))
            return true;
    }
    if (at_word(p, 0, WORD_FRAME) && at_word(p, 1, WORD_IS))
        return true;
    return at_scope(p, &scope);
}

static struct ast *parse_group(struct parser *p)
{
    uint32_t from = p->at;
    next(p);
    struct ast *node = parse_frame(p);
    if (!node || !expect_kind(p, TOKEN_UNPAREN))
        return NULL;
    return node_end(p, node, from);
}

/* fatom: what a chain of `and` or `or` joins, without `not`. */
static struct ast *parse_fatom(struct parser *p)
{
    const struct token *t = peek(p, 0);
    if (t->kind == TOKEN_PAREN)
        return parse_group(p);
    if (t->kind == TOKEN_STRING || t->kind == TOKEN_REGEX)
        return parse_pattern(p);
    if (t->kind != TOKEN_NAME)
        return fail(p, "a condition about a frame");
    if (at_sample_words(p))
        return fail_as(
            p, "E102", t->place,
            "in a rule end the parenthesis before it: … is (…) and …; in a table say it behind the row: … "
            "when …",
            "`%.*s` speaks of a whole sample, but this is about one frame", BYTES_FMT(t->text));
    if (t->word == WORD_TYPE_WORD)
        return simple(p, AST_TYPE_WORD);
    if (t->word == WORD_INLINED)
        return simple(p, AST_INLINED);
    if (t->word == WORD_NONE)
        return parse_pattern(p);
    if (at_comparison(p, 1) || (t->word >= WORD_FIELD_TYPE && t->word <= WORD_FIELD_BUILD_ID))
        return parse_frame_comparison(p);
    if (t->word != WORD_NONE_OF_OURS)
        return fail(p, "a condition about a frame");
    return at_kind(p, 1, TOKEN_BAR) ? parse_pattern(p) : simple(p, AST_NAME);
}

/* funary = [ "not" ] fatom . */
static struct ast *parse_funary(struct parser *p)
{
    uint32_t from = p->at;
    if (!accept_word(p, WORD_NOT))
        return parse_fatom(p);
    struct ast *node = node_new(p, AST_NOT, from);
    struct list kids = {0};
    if (!node || !node_add(p, &kids, parse_fatom(p)))
        return NULL;
    return node_close(p, node, &kids, from);
}

/* frame = funary { "and" funary } | funary { "or" funary } . */
struct ast *parse_frame(struct parser *p)
{
    if (!enter(p))
        return NULL;
    struct ast *node = parse_chain(p, parse_funary);
    leave(p);
    return node;
}

/* What would have been right with parentheses round it: from `from` to the end of what parse_frame reads. */
static struct ast *fail_unparenthesised(struct parser *p, uint32_t from, const char *what)
{
    p->at = from;
    struct rule_place place = peek(p, 0)->place;
    struct ast *node = parse_frame(p);
    if (!node)
        return NULL;
    struct buffer source = BUFFER_INIT(512);
    source_fold(node->source, &source, 200);
    place = node->place;
    char proposal[300];
    snprintf(proposal, sizeof proposal, "write (%.*s)", (int)source.n,
             source.p ? (const char *)source.p : "");
    buffer_release(&source);
    return fail_as(p, "E111", place, proposal, "%s needs parentheses here", what);
}

/* fprim = "(" frame ")" | NAME | TYPEWORD | GLOB | REGEX . In `function of first NAME == "x"` it is the text
 * that is compared, unless NAME is a column. */
static struct ast *parse_fprim_in(struct parser *p, bool of_text)
{
    uint32_t from = p->at;
    const struct token *t = peek(p, 0);
    if (t->kind == TOKEN_PAREN)
        return parse_group(p);
    struct ast *node = NULL;
    bool of_whole = of_text && t->word == WORD_NONE_OF_OURS && !memchr(t->text.p, '.', t->text.n);
    if (at_comparison(p, 1) && t->kind == TOKEN_NAME && t->word != WORD_TYPE_WORD && !of_whole)
        return fail_unparenthesised(p, from, "a comparison");
    if (at_word(p, 0, WORD_INLINED) || at_word(p, 0, WORD_NOT))
        return fail_unparenthesised(p, from, "this");
    if (t->kind == TOKEN_STRING || t->kind == TOKEN_REGEX)
        node = parse_atom(p);
    else if (at_word(p, 0, WORD_TYPE_WORD))
        node = simple(p, AST_TYPE_WORD);
    else if (at_word(p, 0, WORD_NONE_OF_OURS))
        node = simple(p, AST_NAME);
    else
        return fail(p, "a frame (a name, a type word, a glob, a regex or a condition in parentheses)");
    if (node && at_kind(p, 0, TOKEN_BAR))
        return fail_unparenthesised(p, from, "a list of patterns");
    return node;
}

struct ast *parse_fprim(struct parser *p)
{
    return parse_fprim_in(p, false);
}

/* region = "frames" [ "after" fprim ] [ "while" fprim ] [ ("through" | "before") fprim ] . */
bool parse_region(struct parser *p, struct ast_region *ret)
{
    if (!expect_word(p, WORD_FRAMES, "frames"))
        return false;
    if (accept_word(p, WORD_AFTER) && !(ret->after = parse_fprim(p)))
        return false;
    if (accept_word(p, WORD_WHILE) && !(ret->while_ = parse_fprim(p)))
        return false;
    ret->through = at_word(p, 0, WORD_THROUGH);
    if ((accept_word(p, WORD_THROUGH) || accept_word(p, WORD_BEFORE)) && !(ret->until = parse_fprim(p)))
        return false;
    return true;
}

/* ref = "leaf" | "root" | ("first" | "last") fprim [ "in" NAME ] | "frame" . */
struct ast *parse_ref(struct parser *p)
{
    uint32_t from = p->at;
    struct ast *node = node_new(p, AST_REF, from);
    if (!node)
        return NULL;
    if (accept_word(p, WORD_LEAF)) {
        node->ref = RULE_REF_LEAF;
    } else if (accept_word(p, WORD_ROOT)) {
        node->ref = RULE_REF_ROOT;
    } else if (accept_word(p, WORD_FRAME)) {
        node->ref = RULE_REF_FRAME;
    } else if (at_word(p, 0, WORD_FIRST) || at_word(p, 0, WORD_LAST)) {
        node->ref = next(p)->word == WORD_FIRST ? RULE_REF_FIRST : RULE_REF_LAST;
        struct list kids = {0};
        bool of_text = from > 0 && p->tokens[from - 1].word == WORD_OF;
        if (!node_add(p, &kids, parse_fprim_in(p, of_text)))
            return NULL;
        node->kids = kids.items;
        node->n_kids = 1;
        struct ast_name region;
        if (accept_word(p, WORD_IN)) {
            if (!parse_name(p, "a region's name", &region))
                return NULL;
            node->region = region.name;
            node->region_place = region.place;
        }
    } else {
        return fail(p, "leaf, root, first …, last … or frame");
    }
    return node_end(p, node, from);
}
