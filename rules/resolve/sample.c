/* SPDX-License-Identifier: Apache-2.0 */
/* Predicates about a sample, and texts. */
#include "rules/resolve/resolve.h"

#include <stdio.h>

#include "rules/tree/limits.h"

#define KINDS_SAMPLE (1u << DEF_SAMPLE | 1u << DEF_TEXT)
#define KINDS_TEXT   (1u << DEF_TEXT)

/* ---- references ------------------------------------------------------------------------------ */

static bool resolve_ref(struct resolver *r, const struct ast *a, struct rule_ref *ret)
{
    *ret = (struct rule_ref){.kind = a->ref};
    r->here.needs_sample = true;
    if (a->ref == RULE_REF_FRAME) {
        if (!r->here.each)
            return wrong(r, "E109", a->place, "any frame is …, function of leaf, or add: each distinct frame",
                         "`frame` is only known in a rule with `each`");
        r->here.uses_frame = true;
    }
    bool good = true;
    if (a->n_kids > 0)
        good = (ret->frame = resolve_frame(r, a->kids[0])) != NULL;
    bool region_good;
    ret->region = resolve_region_name(r, a->region, a->region_place, &region_good);
    return good && region_good;
}

/* ---- texts ----------------------------------------------------------------------------------- */

static bool resolve_part(struct resolver *r, const struct ast *a, struct rule_text_part *ret);

/* A bare field, or a column of a table without `over`, where no frame is meant. */
static bool no_frame_here(struct resolver *r, const struct ast *a)
{
    char proposal[160];
    snprintf(proposal, sizeof proposal, "write: %.*s of leaf", BYTES_FMT(a->source));
    return wrong(r, "E102", a->place, proposal,
                 "`%.*s` belongs to a frame, but this speaks of a whole sample", BYTES_FMT(a->source));
}

static bool part_of_name(struct resolver *r, const struct ast *a, struct rule_text_part *ret)
{
    const struct ast_def *def = find_def(r, r->here.pack, a->name);
    if (!def && memchr(a->name.p, '.', a->name.n)) {
        if (!resolve_column(r, a->name, a->place, &ret->table, &ret->column))
            return false;
        ret->kind = RULE_TEXT_COLUMN;
        if (ret->table->over) {
            r->here.needs_sample = true;
            return true;
        }
        if (!r->here.cells)
            return no_frame_here(r, a);
        ret->kind = RULE_TEXT_FIELD;
        ret->field = (struct rule_field_ref){RULE_FIELD_COLUMN, ret->table, ret->column};
        return true;
    }
    def = look_up(r, a->name, a->place, KINDS_TEXT, "text");
    if (!def)
        return false;
    if (def->kind != DEF_TEXT)
        return wrong(r, "E117", a->place, def->kind == DEF_TABLE ? "write TABLE.COLUMN" : NULL,
                     "`%.*s` is a %s; a text is needed here", BYTES_FMT(a->name), kind_name(def->kind));
    ret->kind = RULE_TEXT_GROUP;
    ret->text = resolve_def(r, def, a->place);
    return ret->text != NULL;
}

/* capture (REGEX | NAME | none) from part */
static bool part_of_capture(struct resolver *r, const struct ast *a, struct rule_text_part *ret)
{
    const struct ast *regex = a->kids[0];
    bool good = true;
    ret->kind = RULE_TEXT_CAPTURE;
    if (regex->op == AST_ATOM) {
        ret->regex = regex->atom;
    } else if (regex->op == AST_NAME) {
        struct ast pattern = {
            .op = AST_PATTERN, .place = regex->place, .kids = (struct ast **)&a->kids[0], .n_kids = 1};
        const struct rule_pattern *named = resolve_pattern(r, &pattern);
        good = named != NULL;
        if (named && (named->n_atoms > 1 || (named->n_atoms == 1 && named->atoms[0]->kind != RULE_REGEX))) {
            wrong(r, "E119", regex->place, NULL,
                  "`capture` needs `%.*s` to be a single regex or none, also after a `set`",
                  BYTES_FMT(regex->name));
            good = false;
        } else if (named && named->n_atoms == 1) {
            ret->regex = named->atoms[0];
        }
    }
    struct rule_text_part *from = arena_calloc(r->keep, 1, sizeof *from);
    if (!from) {
        r->oom = true;
        return false;
    }
    ret->from = from;
    return resolve_part(r, a->kids[1], from) && good;
}

static bool part_of_field(struct resolver *r, const struct ast *a, struct rule_text_part *ret)
{
    ret->kind = RULE_TEXT_FIELD_OF;
    bool good = resolve_field(r, a->kids[0], &ret->field);
    good &= resolve_ref(r, a->kids[1], &ret->ref);
    return good;
}

static bool resolve_part(struct resolver *r, const struct ast *a, struct rule_text_part *ret)
{
    switch (a->op) {
    case AST_STRING:
        ret->kind = RULE_TEXT_LITERAL;
        ret->literal = a->name;
        return true;
    case AST_NONE: ret->kind = RULE_TEXT_NONE; return true;
    case AST_GROUP: ret->kind = RULE_TEXT_GROUP; return (ret->text = resolve_text(r, a->kids[0])) != NULL;
    case AST_NAME: return part_of_name(r, a, ret);
    case AST_FIELD_OF: return part_of_field(r, a, ret);
    case AST_FIELD:
        if (!r->here.cells)
            return no_frame_here(r, a);
        ret->kind = RULE_TEXT_FIELD;
        ret->field.field = a->field;
        return true;
    case AST_CAPTURE: return part_of_capture(r, a, ret);
    case AST_ATTR:
        ret->kind = RULE_TEXT_ATTR;
        ret->scope = a->scope;
        ret->literal = a->name;
        break;
    default: ret->kind = a->op == AST_PROFILE_TYPE ? RULE_TEXT_PROFILE_TYPE : RULE_TEXT_PROFILE_UNIT; break;
    }
    r->here.needs_sample = true;
    return true;
}

static bool resolve_choice(struct resolver *r, const struct ast *a, struct rule_choice *ret)
{
    struct rule_text_part *parts = arena_calloc(r->keep, a->n_kids, sizeof *parts);
    if (!parts) {
        r->oom = true;
        return false;
    }
    bool good = true;
    for (uint32_t i = 0; i < a->n_kids; i++)
        good &= resolve_part(r, a->kids[i], &parts[i]);
    ret->parts = parts;
    ret->n_parts = a->n_kids;
    if (a->guard) {
        bool cells = r->here.cells;
        r->here.cells = false;
        good &= (ret->when = resolve_sample(r, a->guard)) != NULL;
        r->here.cells = cells;
    }
    return good;
}

/* A text that is nothing but another's name is that one. */
static const struct rule_text *same_text(struct resolver *r, const struct ast *a, bool *ret_same)
{
    const struct ast *choice = a->kids[0];
    *ret_same = false;
    if (a->n_kids != 1 || choice->guard || choice->n_kids != 1 || choice->kids[0]->op != AST_NAME)
        return NULL;
    const struct ast *name = choice->kids[0];
    const struct ast_def *def = find_def(r, r->here.pack, name->name);
    if (!def || def->kind != DEF_TEXT)
        return NULL;
    *ret_same = true;
    struct rule_text_part part = {0};
    return part_of_name(r, name, &part) ? part.text : NULL;
}

/* ---- as it is written out -------------------------------------------------------------------- */

/* Texts and conditions that use each other twice a step would be 2 to the number of steps, each of which a
 * sample may have to be asked. */
static bool is_too_long(struct resolver *r, uint32_t n, struct rule_place place)
{
    return n > RULES_WRITTEN_MAX &&
           !wrong(r, "E127", place, NULL, "more than %u parts and conditions, written out",
                  RULES_WRITTEN_MAX);
}

static uint32_t weight_of(const struct rule_text_part *part)
{
    while (part->kind == RULE_TEXT_CAPTURE)
        part = part->from;
    switch (part->kind) {
    case RULE_TEXT_GROUP: return part->text->n_written;
    case RULE_TEXT_COLUMN: return 1 + part->table->n_written;
    case RULE_TEXT_FIELD_OF:
    case RULE_TEXT_FIELD: return 1 + (part->field.table ? part->field.table->n_written : 0);
    default: return 1;
    }
}

static bool weigh_text(struct resolver *r, struct rule_text *text)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < text->n_choices; i++) {
        const struct rule_choice *choice = &text->choices[i];
        n += choice->when ? choice->when->n_written : 0;
        for (uint32_t j = 0; j < choice->n_parts; j++)
            n += weight_of(&choice->parts[j]);
        if (is_too_long(r, n, text->place))
            return false;
    }
    text->n_written = n;
    return true;
}

static bool weigh_sample(struct resolver *r, struct rule_sample *s)
{
    uint32_t n = 1 + (s->text ? s->text->n_written : 0) + (s->text2 ? s->text2->n_written : 0);
    for (uint32_t i = 0; i < s->n_kids; i++) {
        n += s->kids[i]->n_written;
        if (is_too_long(r, n, s->place))
            return false;
    }
    s->n_written = n;
    return !is_too_long(r, n, s->place);
}

const struct rule_text *resolve_text(struct resolver *r, const struct ast *a)
{
    bool same;
    const struct rule_text *other = same_text(r, a, &same);
    if (same)
        return other;
    struct rule_text *text = arena_calloc(r->keep, 1, sizeof *text);
    struct rule_choice *choices = arena_calloc(r->keep, a->n_kids, sizeof *choices);
    if (!text || !choices)
        return out_of_memory(r);
    bool good = true;
    for (uint32_t i = 0; i < a->n_kids; i++)
        good &= resolve_choice(r, a->kids[i], &choices[i]);
    text->choices = choices;
    text->n_choices = a->n_kids;
    text->place = a->place;
    return good && weigh_text(r, text) ? text : NULL;
}

/* ---- samples --------------------------------------------------------------------------------- */

static const struct rule_sample *sample_of_name(struct resolver *r, const struct ast *a)
{
    bool dotted = memchr(a->name.p, '.', a->name.n) != NULL;
    const struct ast_def *def = find_def(r, r->here.pack, a->name);
    if (!def && dotted) {
        const struct rule_table *table;
        uint32_t column;
        if (!resolve_column(r, a->name, a->place, &table, &column))
            return NULL;
        char proposal[200];
        snprintf(proposal, sizeof proposal, "write: %.*s != none", BYTES_FMT(a->name));
        return wrong(r, "E117", a->place, proposal,
                     "`%.*s` is a text; a condition about the sample is needed here", BYTES_FMT(a->name));
    }
    def = look_up(r, a->name, a->place, KINDS_SAMPLE, "sample or text");
    if (!def)
        return NULL;
    if (def->kind == DEF_SAMPLE)
        return resolve_def(r, def, a->place);
    if (def->kind == DEF_FRAME || def->kind == DEF_PATTERN) {
        char proposal[400];
        snprintf(
            proposal, sizeof proposal,
            "write: any frame is %.*s    or: leaf is %.*s    or, of the frame before it: is (… and %.*s)",
            BYTES_FMT(a->name), BYTES_FMT(a->name), BYTES_FMT(a->name));
        return wrong(r, "E102", a->place, proposal,
                     "`%.*s` belongs to a frame, but this speaks of a whole sample", BYTES_FMT(a->name));
    }
    return wrong(r, "E117", a->place, NULL, "`%.*s` is a %s; a condition about the sample is needed here",
                 BYTES_FMT(a->name), kind_name(def->kind));
}

static bool sample_kids(struct resolver *r, const struct ast *a, struct rule_sample *s)
{
    const struct rule_sample **kids = arena_calloc(r->keep, a->n_kids, sizeof *kids);
    if (!kids) {
        r->oom = true;
        return false;
    }
    bool good = true;
    for (uint32_t i = 0; i < a->n_kids; i++)
        good &= (kids[i] = resolve_sample(r, a->kids[i])) != NULL;
    s->kids = kids;
    s->n_kids = a->n_kids;
    return good;
}

static bool sample_calls(struct resolver *r, const struct ast *a, struct rule_sample *s)
{
    const struct rule_frame **chain = arena_calloc(r->keep, a->n_kids, sizeof *chain);
    bool *directly = arena_calloc(r->keep, a->n_kids, sizeof *directly);
    if (!chain || !directly) {
        r->oom = true;
        return false;
    }
    bool good = true;
    for (uint32_t i = 0; i < a->n_kids; i++) {
        good &= (chain[i] = resolve_frame(r, a->kids[i])) != NULL;
        if (i + 1 < a->n_kids)
            directly[i] = a->directly[i];
    }
    s->chain = chain;
    s->directly = directly;
    s->n_chain = a->n_kids;
    return good;
}

static bool fill_sample(struct resolver *r, const struct ast *a, struct rule_sample *s)
{
    bool good = true;
    switch (a->op) {
    case AST_AND: s->op = RULE_SAMPLE_AND; return sample_kids(r, a, s);
    case AST_OR: s->op = RULE_SAMPLE_OR; return sample_kids(r, a, s);
    case AST_NOT: s->op = RULE_SAMPLE_NOT; return sample_kids(r, a, s);
    case AST_LINKED: s->op = RULE_SAMPLE_LINKED; return true;
    case AST_ANY:
    case AST_NO:
    case AST_EVERY:
        s->op = a->op == AST_ANY ? RULE_SAMPLE_ANY : a->op == AST_NO ? RULE_SAMPLE_NO : RULE_SAMPLE_EVERY;
        s->region = resolve_region_name(r, a->region, a->region_place, &good);
        return (s->frame = resolve_frame(r, a->kids[0])) && good;
    case AST_REF_IS:
        s->op = RULE_SAMPLE_REF_IS;
        good = resolve_ref(r, a->kids[0], &s->ref);
        return (s->frame = resolve_frame(r, a->kids[1])) && good;
    case AST_CALLS: s->op = RULE_SAMPLE_CALLS; return sample_calls(r, a, s);
    case AST_TEXT_MATCH:
        s->op = RULE_SAMPLE_MATCH;
        good = (s->text = resolve_text(r, a->kids[0])) != NULL;
        return (s->pattern = resolve_pattern(r, a->kids[1])) && good;
    default:
        s->op = RULE_SAMPLE_EQUAL;
        good = (s->text = resolve_text(r, a->kids[0])) != NULL;
        return (s->text2 = resolve_text(r, a->kids[1])) && good;
    }
}

const struct rule_sample *resolve_sample(struct resolver *r, const struct ast *a)
{
    r->here.needs_sample = true;
    if (a->op == AST_NAME)
        return sample_of_name(r, a);
    struct rule_sample *s = arena_calloc(r->keep, 1, sizeof *s);
    if (!s)
        return out_of_memory(r);
    s->place = a->place;
    s->negated = a->negated;
    return fill_sample(r, a, s) && weigh_sample(r, s) ? s : NULL;
}
