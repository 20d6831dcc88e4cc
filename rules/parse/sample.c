/* SPDX-License-Identifier: Apache-2.0 */
/* Predicates about a sample, and texts. */
#include "rules/parse/parser.h"

#include <stdio.h>

#include "proto/base/macros.h"
#include "rules/source/place.h"

bool at_scope(const struct parser *p, enum rule_scope *ret)
{
    static const struct {
        enum word word;
        enum rule_scope scope;
    } scopes[] = {
        {WORD_SAMPLE, RULE_SCOPE_SAMPLE}, {WORD_PROFILE, RULE_SCOPE_PROFILE},
        {WORD_SCOPE, RULE_SCOPE_SCOPE},   {WORD_RESOURCE, RULE_SCOPE_RESOURCE},
        {WORD_ATTR, RULE_SCOPE_ATTR},
    };
    for (size_t i = 0; i < ARRAY_LEN(scopes); i++) {
        if (at_word(p, 0, scopes[i].word) && at_kind(p, 1, TOKEN_BRACKET)) {
            *ret = scopes[i].scope;
            return true;
        }
    }
    return false;
}

bool parse_key(struct parser *p, struct bytes *ret)
{
    return expect_kind(p, TOKEN_BRACKET) && parse_string(p, ret) && expect_kind(p, TOKEN_UNBRACKET);
}

static struct ast *with_kids(struct parser *p, struct ast *node, struct ast *a, struct ast *b)
{
    struct list kids = {0};
    if (!node || !node_add(p, &kids, a) || (b && !node_add(p, &kids, b)))
        return NULL;
    node->kids = kids.items;
    node->n_kids = kids.n;
    return node;
}

/* ---- texts ----------------------------------------------------------------------------------- */

static struct ast *parse_tprim(struct parser *p);

/* "capture" (REGEX | NAME) "from" tprim */
static struct ast *parse_capture(struct parser *p, struct ast *node)
{
    next(p);
    struct ast *regex;
    if (at_kind(p, 0, TOKEN_STRING))
        return fail(p, "a regex or the name of one (a glob has no groups)");
    uint32_t from = p->at;
    regex = parse_pattern(p);
    if (!regex)
        return NULL;
    if (regex->n_kids != 1)
        return fail_as(p, "E119", place_since(p, from), "name the alternatives inside one regex: /(?:a|b)…/",
                       "`capture` takes a single regex");
    if (!expect_word(p, WORD_FROM, "from"))
        return NULL;
    if (!enter(p))
        return NULL;
    struct ast *text = parse_tprim(p);
    leave(p);
    return text ? with_kids(p, node, regex->kids[0], text) : NULL;
}

static struct ast *parse_text_group(struct parser *p, struct ast *node)
{
    next(p);
    struct ast *text = parse_text(p);
    if (!text || !expect_kind(p, TOKEN_UNPAREN))
        return NULL;
    return with_kids(p, node, text, NULL);
}

/* `F of REF`, or a bare field or name. */
static struct ast *parse_field_text(struct parser *p, struct ast *node)
{
    struct ast *field = parse_field(p);
    if (!field || !accept_word(p, WORD_OF))
        return field;
    struct ast *ref = parse_ref(p);
    node->op = AST_FIELD_OF;
    return ref ? with_kids(p, node, field, ref) : NULL;
}

static struct ast *parse_tprim(struct parser *p)
{
    uint32_t from = p->at;
    const struct token *t = peek(p, 0);
    struct ast *node = node_new(p, AST_NONE, from);
    if (!node)
        return NULL;
    if (t->kind == TOKEN_STRING) {
        node->op = AST_STRING;
        if (!parse_string(p, &node->name))
            return NULL;
    } else if (t->kind == TOKEN_PAREN) {
        node->op = AST_GROUP;
        node = parse_text_group(p, node);
    } else if (at_scope(p, &node->scope)) {
        next(p);
        node->op = AST_ATTR;
        if (!parse_key(p, &node->name))
            return NULL;
    } else if (accept_word(p, WORD_NONE)) {
        node->op = AST_NONE;
    } else if (accept_word(p, WORD_PROFILE_TYPE)) {
        node->op = AST_PROFILE_TYPE;
    } else if (accept_word(p, WORD_PROFILE_UNIT)) {
        node->op = AST_PROFILE_UNIT;
    } else if (at_word(p, 0, WORD_CAPTURE)) {
        node->op = AST_CAPTURE;
        node = parse_capture(p, node);
    } else if (t->kind == TOKEN_NAME && (t->word == WORD_NONE_OF_OURS ||
                                         (t->word >= WORD_FIELD_TYPE && t->word <= WORD_FIELD_BUILD_ID))) {
        node = parse_field_text(p, node);
    } else {
        return fail(p, "a text (a string, none, a field of a frame, an attribute, a name, capture …)");
    }
    return node_end(p, node, from);
}

/* cat = tprim { "+" tprim } ., as an AST_CHOICE. */
static struct ast *parse_choice_parts(struct parser *p)
{
    return parse_series(p, AST_CHOICE, parse_tprim, TOKEN_PLUS);
}

/* As an AST_TEXT of one choice. */
static struct ast *parse_cat(struct parser *p)
{
    uint32_t from = p->at;
    if (!enter(p))
        return NULL;
    struct ast *choice = parse_choice_parts(p);
    leave(p);
    return choice ? node_end(p, with_kids(p, node_new(p, AST_TEXT, from), choice, NULL), from) : NULL;
}

/* text = choice { "??" choice } .  choice = cat [ "when" sample ] . */
struct ast *parse_text(struct parser *p)
{
    uint32_t from = p->at;
    struct list kids = {0};
    struct ast *node = node_new(p, AST_TEXT, from);
    if (!node || !enter(p))
        return NULL;
    do {
        uint32_t choice_from = p->at;
        struct ast *choice = parse_choice_parts(p);
        if (choice && accept_word(p, WORD_WHEN)) {
            choice->guard = parse_sample(p);
            if (choice->guard)
                node_end(p, choice, choice_from);
        }
        if (p->panic || !node_add(p, &kids, choice)) {
            leave(p);
            return NULL;
        }
    } while (accept_kind(p, TOKEN_ELSE));
    leave(p);
    return node_close(p, node, &kids, from);
}

/* ---- samples --------------------------------------------------------------------------------- */

/* cat ("~" | "!~") pattern | cat ("==" | "!=") cat . */
static struct ast *parse_text_comparison(struct parser *p)
{
    uint32_t from = p->at;
    struct ast *left = parse_cat(p);
    if (!left)
        return NULL;
    if (!at_comparison(p, 0))
        return fail(p, "`~`, `!~`, `==` or `!=` behind a text");
    enum token_kind op = next(p)->kind;
    bool match = op == TOKEN_MATCH || op == TOKEN_UNMATCH;
    struct ast *right = match ? parse_pattern(p) : parse_cat(p);
    struct ast *node = node_new(p, match ? AST_TEXT_MATCH : AST_TEXT_EQUAL, from);
    if (!right || !with_kids(p, node, left, right))
        return NULL;
    node->negated = op == TOKEN_UNMATCH || op == TOKEN_UNEQUAL;
    return node_end(p, node, from);
}

/* fprim { [ "directly" ] "calls" fprim }: operands are one token each. */
static struct ast *parse_calls(struct parser *p)
{
    uint32_t from = p->at;
    struct list kids = {0}, directly = {0};
    struct ast *node = node_new(p, AST_CALLS, from);
    if (!node || !node_add(p, &kids, parse_fprim(p)))
        return NULL;
    while (at_word(p, 0, WORD_CALLS) || at_word(p, 0, WORD_DIRECTLY)) {
        bool *direct = list_add(&directly, p->ast, sizeof *direct);
        if (!direct)
            return fail_oom(p);
        *direct = accept_word(p, WORD_DIRECTLY);
        if (!expect_word(p, WORD_CALLS, "calls"))
            return NULL;
        if (at_kind(p, 0, TOKEN_PAREN))
            return fail_as(p, "E111", peek(p, 0)->place, "give the condition a name: frame caller = …",
                           "the operands of `calls` are one word, glob or regex each");
        if (!node_add(p, &kids, parse_fprim(p)))
            return NULL;
    }
    node->kids = kids.items;
    node->n_kids = kids.n;
    node->directly = directly.items;
    return node_end(p, node, from);
}

static void note_is(struct parser *p, uint32_t from, uint32_t frame)
{
    p->is_from = from;
    p->is_frame = frame;
    p->is_end = p->at;
}

/* ("any" | "no" | "every") "frame" [ "in" NAME ] "is" fprim */
static struct ast *parse_quantified(struct parser *p)
{
    uint32_t from = p->at;
    enum word word = next(p)->word;
    struct ast *node = node_new(p, word == WORD_ANY ? AST_ANY : word == WORD_NO ? AST_NO : AST_EVERY, from);
    struct ast_name region;
    if (!node || !expect_word(p, WORD_FRAME, "frame"))
        return NULL;
    if (accept_word(p, WORD_IN)) {
        if (!parse_name(p, "a region's name", &region))
            return NULL;
        node->region = region.name;
        node->region_place = region.place;
    }
    if (!expect_word(p, WORD_IS, "is"))
        return NULL;
    uint32_t of_frame = p->at;
    struct ast *frame = parse_fprim(p);
    note_is(p, from, of_frame);
    return frame ? node_end(p, with_kids(p, node, frame, NULL), from) : NULL;
}

static struct ast *parse_ref_is(struct parser *p)
{
    uint32_t from = p->at;
    struct ast *ref = parse_ref(p);
    if (!ref || !expect_word(p, WORD_IS, "is"))
        return NULL;
    uint32_t of_frame = p->at;
    struct ast *frame = parse_fprim(p);
    note_is(p, from, of_frame);
    struct ast *node = frame ? node_new(p, AST_REF_IS, from) : NULL;
    return node ? node_end(p, with_kids(p, node, ref, frame), from) : NULL;
}

/* `and` or `or`, and behind it a condition about a frame that is one token. */
static bool at_frame_operand(const struct parser *p)
{
    return (at_word(p, 0, WORD_AND) || at_word(p, 0, WORD_OR)) &&
           (at_kind(p, 1, TOKEN_STRING) || at_kind(p, 1, TOKEN_REGEX) || at_word(p, 1, WORD_TYPE_WORD) ||
            at_word(p, 1, WORD_INLINED));
}

/* Conditions about frames in a row are meant of one and the same: apart they would hold of two. With the `…
 * is` before them, or any. */
static void propose_one_frame(struct parser *p, uint32_t from, char *proposal, size_t n)
{
    cleanup(buffer_release) struct buffer head = BUFFER_INIT(200), frame = BUFFER_INIT(200);
    uint32_t first = p->is_end + 1 == from ? p->is_frame : from;
    while (at_frame_operand(p)) {
        next(p);
        next(p);
    }
    if (first != from) {
        const uint8_t *begin = token_start(&p->tokens[p->is_from]);
        source_fold(bytes_of(begin, (size_t)(token_start(&p->tokens[first]) - begin)), &head, 120);
    } else {
        buffer_add_str(&head, "any frame is");
    }
    source_fold(source_since(p, first), &frame, 160);
    struct bytes lead = bytes_trim(buffer_bytes(&head));
    snprintf(proposal, n, "write: %.*s (%.*s)", BYTES_FMT(lead), BYTES_FMT(buffer_bytes(&frame)));
}

/* A frame's condition where a sample's is wanted: E102, with what it would be about a frame. */
static struct ast *fail_frame_level(struct parser *p)
{
    uint32_t from = p->at;
    const struct token *t = peek(p, 0);
    bool inlined = at_word(p, 0, WORD_INLINED);
    bool field = t->kind == TOKEN_NAME && t->word != WORD_TYPE_WORD && !inlined;
    /* Only as far as one condition goes: `and` may lead back to the sample. */
    struct ast *frame = NULL;
    if (t->kind == TOKEN_STRING || t->kind == TOKEN_REGEX || !field || at_comparison(p, 1)) {
        if (t->kind == TOKEN_NAME && !field) {
            next(p);
            frame = node_end(p, node_new(p, AST_TYPE_WORD, from), from);
            if (frame)
                frame->negated = inlined;
        } else if (field) {
            next(p);
            bool function = t->word == WORD_FIELD_FUNCTION && at_kind(p, 0, TOKEN_MATCH);
            next(p);
            uint32_t right = p->at;
            if (at_kind(p, 0, TOKEN_STRING) || at_kind(p, 0, TOKEN_REGEX) || at_kind(p, 0, TOKEN_NAME))
                frame = parse_pattern(p);
            if (frame && frame->n_kids == 1 && function)
                frame->source = source_since(p, right);
            else if (frame)
                frame->source = source_since(p, from);
            if (frame)
                frame->negated = !(frame->n_kids == 1 && function); /* parentheses */
        } else {
            frame = parse_pattern(p);
            if (frame)
                frame->negated = frame->n_kids > 1;
        }
    }
    if (p->panic)
        return NULL;
    char proposal[400] = "";
    if (frame && (p->is_end + 1 == from || at_frame_operand(p))) {
        propose_one_frame(p, from, proposal, sizeof proposal);
    } else if (frame) {
        struct buffer source = BUFFER_INIT(256);
        source_fold(frame->source, &source, 120);
        const char *open = frame->negated ? "(" : "", *close = frame->negated ? ")" : "";
        snprintf(proposal, sizeof proposal, "write: any frame is %s%.*s%s    or: leaf is %s%.*s%s", open,
                 (int)source.n, (const char *)source.p, close, open, (int)source.n, (const char *)source.p,
                 close);
        buffer_release(&source);
    } else {
        snprintf(proposal, sizeof proposal, "write: %.*s of leaf", BYTES_FMT(t->text));
    }
    struct bytes shown = bytes_of(token_start(t), t->place.length < 60 ? t->place.length : 60);
    return fail_as(p, "E102", t->place, proposal,
                   "`%.*s` belongs to a frame, but this speaks of a whole sample", BYTES_FMT(shown));
}

/* Whether the parenthesis that opens here holds a text: behind its end stands what only a text can have
 * there. */
static bool at_text_group(const struct parser *p)
{
    uint32_t end = p->closing[p->at];
    uint8_t kind = end > 0 && end + 1 < p->n ? p->tokens[end + 1].kind : TOKEN_END;
    return kind == TOKEN_MATCH || kind == TOKEN_UNMATCH || kind == TOKEN_EQUAL || kind == TOKEN_UNEQUAL ||
           kind == TOKEN_PLUS;
}

static struct ast *parse_sample_group(struct parser *p)
{
    uint32_t from = p->at;
    if (at_text_group(p))
        return parse_text_comparison(p);
    next(p);
    struct ast *node = parse_sample(p);
    if (!node || !expect_kind(p, TOKEN_UNPAREN))
        return NULL;
    if (at_word(p, 0, WORD_CALLS) || at_word(p, 0, WORD_DIRECTLY))
        return fail_as(p, "E111", peek(p, 0)->place, "give the condition a name: frame caller = …",
                       "the operands of `calls` are one word, glob or regex each");
    return node_end(p, node, from);
}

static struct ast *parse_satom(struct parser *p)
{
    const struct token *t = peek(p, 0);
    uint32_t from = p->at;
    bool calls = at_word(p, 1, WORD_CALLS) || at_word(p, 1, WORD_DIRECTLY);
    bool text = at_comparison(p, 1) || at_kind(p, 1, TOKEN_PLUS) || at_word(p, 1, WORD_OF);
    if (t->kind == TOKEN_PAREN)
        return parse_sample_group(p);
    if (calls)
        return parse_calls(p);
    if (t->kind == TOKEN_STRING)
        return text ? parse_text_comparison(p) : fail_frame_level(p);
    if (t->kind == TOKEN_REGEX)
        return fail_frame_level(p);
    if (t->kind != TOKEN_NAME)
        return fail(p, "a condition about the sample");
    switch (t->word) {
    case WORD_LINKED: next(p); return node_end(p, node_new(p, AST_LINKED, from), from);
    case WORD_ANY:
    case WORD_NO:
    case WORD_EVERY: return parse_quantified(p);
    case WORD_LEAF:
    case WORD_ROOT:
    case WORD_FIRST:
    case WORD_LAST:
    case WORD_FRAME: return parse_ref_is(p);
    case WORD_TYPE_WORD:
    case WORD_INLINED: return fail_frame_level(p);
    case WORD_FIELD_TYPE:
    case WORD_FIELD_FUNCTION:
    case WORD_FIELD_SYSTEM_NAME:
    case WORD_FIELD_FILE:
    case WORD_FIELD_MAPPING:
    case WORD_FIELD_LIBRARY:
    case WORD_FIELD_BUILD_ID: return at_word(p, 1, WORD_OF) ? parse_text_comparison(p) : fail_frame_level(p);
    case WORD_NONE:
    case WORD_ATTR:
    case WORD_RESOURCE:
    case WORD_SAMPLE:
    case WORD_PROFILE:
    case WORD_SCOPE:
    case WORD_PROFILE_TYPE:
    case WORD_PROFILE_UNIT:
    case WORD_CAPTURE: return parse_text_comparison(p);
    case WORD_NONE_OF_OURS: break;
    default: return fail(p, "a condition about the sample");
    }
    if (text)
        return parse_text_comparison(p);
    next(p);
    struct ast *node = node_new(p, AST_NAME, from);
    if (node)
        node->name = t->text;
    return node_end(p, node, from);
}

/* sunary = [ "not" ] satom . */
static struct ast *parse_sunary(struct parser *p)
{
    uint32_t from = p->at;
    if (!accept_word(p, WORD_NOT))
        return parse_satom(p);
    struct ast *inner = parse_satom(p);
    struct ast *node = inner ? node_new(p, AST_NOT, from) : NULL;
    return node ? node_end(p, with_kids(p, node, inner, NULL), from) : NULL;
}

/* sample = sunary { "and" sunary } | sunary { "or" sunary } . */
struct ast *parse_sample(struct parser *p)
{
    if (!enter(p))
        return NULL;
    struct ast *node = parse_chain(p, parse_sunary);
    leave(p);
    return node;
}
