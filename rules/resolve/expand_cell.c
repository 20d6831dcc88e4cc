/* SPDX-License-Identifier: Apache-2.0 */
#include "rules/resolve/expand_cell.h"

#include <string.h>

/* Meets a condition in place of a text of the sample that does. No name is like it: a frame's text has no
 * such bytes. */
#define HOLDS "\x01holds\x01"

/* What a text is made of. */
enum { OF_FRAME = 1, OF_SAMPLE = 2 };

static unsigned of_text(struct guards *g, const struct rule_text *text);

static unsigned of_part(struct guards *g, const struct rule_text_part *part)
{
    switch (part->kind) {
    case RULE_TEXT_LITERAL:
    case RULE_TEXT_NONE: return 0;
    case RULE_TEXT_FIELD: return OF_FRAME;
    case RULE_TEXT_GROUP: return of_text(g, part->text);
    case RULE_TEXT_CAPTURE: return guards_visit(g) && part->from ? of_part(g, part->from) : 0;
    default: return OF_SAMPLE;
    }
}

static unsigned of_choice(struct guards *g, const struct rule_choice *choice)
{
    unsigned of = 0;
    for (uint32_t i = 0; i < choice->n_parts; i++)
        of |= of_part(g, &choice->parts[i]);
    return of;
}

/* Their `when`s are not meant: those are known. */
static unsigned of_text(struct guards *g, const struct rule_text *text)
{
    unsigned of = 0;
    for (uint32_t i = 0; i < text->n_choices && guards_visit(g); i++)
        of |= of_choice(g, &text->choices[i]);
    return of;
}

/* (a ?? b) ?? c is a ?? b ?? c */
static const struct rule_text *only_group(const struct rule_choice *choice)
{
    return choice->n_parts == 1 && choice->parts->kind == RULE_TEXT_GROUP ? choice->parts->text : NULL;
}

/* ---- what is asked of a sample's text -------------------------------------------------------- */

static const struct rule_text *one_choice(struct guards *g, const struct rule_text_part *parts,
                                          uint32_t n_parts)
{
    struct rule_text *text = arena_calloc(g->r->keep, 1, sizeof *text);
    struct rule_choice *choice = arena_calloc(g->r->keep, 1, sizeof *choice);
    if (!text || !choice)
        return out_of_memory(g->r);
    *choice = (struct rule_choice){.parts = parts, .n_parts = n_parts};
    *text = (struct rule_text){.choices = choice, .n_choices = 1};
    return text;
}

/* A text as a single part: `bytes` none when .p is NULL. */
static struct rule_text_part *constant_part(struct guards *g, struct bytes bytes)
{
    struct rule_text_part *part = arena_calloc(g->r->keep, 1, sizeof *part);
    if (!part)
        return out_of_memory(g->r);
    part->kind = bytes.p ? RULE_TEXT_LITERAL : RULE_TEXT_NONE;
    part->literal = bytes;
    return part;
}

/* `choice`, without its `when`, == `bytes`. */
static struct rule_sample *is_equal(struct guards *g, const struct rule_choice *choice, struct bytes bytes)
{
    struct rule_sample *s = arena_calloc(g->r->keep, 1, sizeof *s);
    struct rule_text_part *part = constant_part(g, bytes);
    if (!s || !part)
        return out_of_memory(g->r);
    s->op = RULE_SAMPLE_EQUAL;
    s->text = one_choice(g, choice->parts, choice->n_parts);
    s->text2 = one_choice(g, part, 1);
    return s->text && s->text2 ? s : NULL;
}

/* Whether it meets the condition. */
static struct rule_sample *meets(struct guards *g, const struct rule_choice *choice,
                                 const struct rule_frame *f)
{
    if (f->op == RULE_FRAME_EQUAL)
        return is_equal(g, choice, f->literal);
    struct rule_sample *s = arena_calloc(g->r->keep, 1, sizeof *s);
    if (!s)
        return out_of_memory(g->r);
    s->op = RULE_SAMPLE_MATCH;
    s->text = one_choice(g, choice->parts, choice->n_parts);
    s->pattern = f->pattern;
    s->place = f->place;
    return s->text ? s : NULL;
}

/* ---- collecting ------------------------------------------------------------------------------ */

static bool mixed(struct guards *g, const struct rule_frame *f, const struct rule_text *text)
{
    return wrong(g->r, "E130", f->place,
                 "ask the frame and the sample apart: … and resource[\"…\"] ~ … in a sample's condition",
                 "a cell of this column (line %u) joins a text of the frame with one of the sample, and that "
                 "cannot be asked of a frame",
                 text->place.line);
}

static bool collect_parts(struct guards *g, const struct rule_choice *choice, const struct rule_frame *f);

/* `whole`: the text is all of a cell, so that a choice of the sample's needs no more than an answer. */
static bool collect_text(struct guards *g, const struct rule_text *text, const struct rule_frame *f,
                         bool whole, bool last)
{
    for (uint32_t i = 0; i < text->n_choices; i++) {
        const struct rule_choice *choice = &text->choices[i];
        const struct rule_text *group = only_group(choice);
        bool is_last = last && i + 1 == text->n_choices;
        if (!guards_collect(g, choice->when) || !guards_visit(g))
            return false;
        if (group) {
            if (!collect_text(g, group, f, whole, is_last))
                return false;
            continue;
        }
        if (!(of_choice(g, choice) & OF_SAMPLE)) {
            if (!collect_parts(g, choice, f))
                return false;
            continue;
        }
        if (!whole || (of_choice(g, choice) & OF_FRAME))
            return mixed(g, f, text);
        struct rule_sample *none = is_last ? NULL : is_equal(g, choice, (struct bytes){0});
        struct rule_sample *empty = is_last ? NULL : is_equal(g, choice, bytes_of("", 0));
        struct rule_sample *met = meets(g, choice, f);
        if (!met || (!is_last && (!none || !empty)))
            return false;
        if (!guards_collect(g, none) || !guards_collect(g, empty) || !guards_collect(g, met))
            return false;
    }
    return true;
}

static bool collect_rows(struct guards *g, const struct rule_table *t, uint32_t column,
                         const struct rule_frame *f, bool whole)
{
    for (uint32_t i = 0; i < t->n_rows; i++) {
        const struct rule_text *cell = t->rows[i].cells[column];
        if (!guards_collect(g, t->rows[i].when) || (cell && !collect_text(g, cell, f, whole, true)))
            return false;
    }
    return true;
}

/* The parts of a choice that has no text of the sample: groups and columns in it may have `when`s. */
static bool collect_parts(struct guards *g, const struct rule_choice *choice, const struct rule_frame *f)
{
    for (uint32_t i = 0; i < choice->n_parts; i++) {
        const struct rule_text_part *part = &choice->parts[i];
        while (part->kind == RULE_TEXT_CAPTURE && part->from)
            part = part->from;
        bool good = guards_visit(g);
        if (good && part->kind == RULE_TEXT_GROUP)
            good = collect_text(g, part->text, f, false, true);
        else if (good && part->kind == RULE_TEXT_FIELD && part->field.field == RULE_FIELD_COLUMN)
            good = collect_rows(g, part->field.table, part->field.column, f, false);
        if (!good)
            return false;
    }
    return true;
}

bool cell_collect(struct guards *g, const struct rule_table *t, uint32_t column, const struct rule_frame *f)
{
    return collect_rows(g, t, column, f, true);
}

/* ---- in a combination ------------------------------------------------------------------------ */

static const struct rule_table *table_of(struct guards *g, const struct rule_table *t, uint32_t column,
                                         const struct rule_frame *f);

static bool add_choice(struct guards *g, struct list *to, const struct rule_text_part *parts, uint32_t n)
{
    struct rule_choice *choice = parts ? list_add(to, g->r->keep, sizeof *choice) : NULL;
    if (!choice)
        return out_of_memory(g->r);
    *choice = (struct rule_choice){.parts = parts, .n_parts = n};
    return true;
}

static const struct rule_text *text_of(struct guards *g, const struct rule_text *text);

/* A part that is not of the sample. */
static bool part_of(struct guards *g, const struct rule_text_part *part, struct rule_text_part *ret)
{
    *ret = *part;
    if (part->kind == RULE_TEXT_GROUP)
        return (ret->text = text_of(g, part->text)) != NULL;
    if (part->kind == RULE_TEXT_FIELD && part->field.field == RULE_FIELD_COLUMN)
        return (ret->field.table = table_of(g, part->field.table, part->field.column, NULL)) != NULL;
    if (part->kind != RULE_TEXT_CAPTURE || !part->from)
        return true;
    struct rule_text_part *from = arena_calloc(g->r->keep, 1, sizeof *from);
    ret->from = from;
    return from ? part_of(g, part->from, from) : (bool)out_of_memory(g->r);
}

static bool add_parts(struct guards *g, struct list *to, const struct rule_choice *choice)
{
    struct rule_text_part *parts = arena_calloc(g->r->keep, choice->n_parts, sizeof *parts);
    for (uint32_t i = 0; parts && i < choice->n_parts; i++) {
        if (!part_of(g, &choice->parts[i], &parts[i]))
            return false;
    }
    return add_choice(g, to, parts, choice->n_parts);
}

/* In place of a choice of the sample: a text that meets the condition, or none. `== none` is met by none. */
static bool add_answer(struct guards *g, struct list *to, const struct rule_choice *choice,
                       const struct rule_frame *f)
{
    const struct rule_sample *met = meets(g, choice, f);
    if (!met)
        return false;
    bool holds = guards_hold(g, met), of_none = f->op == RULE_FRAME_EQUAL && !f->literal.p;
    struct bytes text = {0};
    if (holds && f->op == RULE_FRAME_EQUAL)
        text = f->literal;
    else if (holds || of_none)
        text = BYTES_LIT(HOLDS);
    return add_choice(g, to, constant_part(g, text), 1);
}

/* Adds the choices that are left; *ret_ended: the last of them decides. */
static bool add_choices(struct guards *g, struct list *to, const struct rule_text *text,
                        const struct rule_frame *f, bool last, bool *ret_ended)
{
    for (uint32_t i = 0; i < text->n_choices && !*ret_ended; i++) {
        const struct rule_choice *choice = &text->choices[i];
        const struct rule_text *group = only_group(choice);
        bool is_last = last && i + 1 == text->n_choices, good = true;
        if (!guards_hold(g, choice->when)) {
            if (is_last)
                good = add_choice(g, to, constant_part(g, (struct bytes){0}), 1);
        } else if (group) {
            good = add_choices(g, to, group, f, is_last, ret_ended);
        } else if (!(of_choice(g, choice) & OF_SAMPLE)) {
            good = add_parts(g, to, choice);
        } else {
            const struct rule_sample *none = is_equal(g, choice, (struct bytes){0});
            const struct rule_sample *empty = is_equal(g, choice, bytes_of("", 0));
            if (!none || !empty)
                return false;
            if (!is_last && (guards_hold(g, none) || guards_hold(g, empty)))
                continue;
            good = add_answer(g, to, choice, f);
            *ret_ended = true;
        }
        if (!good)
            return false;
    }
    return true;
}

static bool is_plain(const struct rule_text *text)
{
    for (uint32_t i = 0; i < text->n_choices; i++) {
        if (text->choices[i].when)
            return false;
        for (uint32_t k = 0; k < text->choices[i].n_parts; k++) {
            const struct rule_text_part *part = &text->choices[i].parts[k];
            if (part->kind != RULE_TEXT_LITERAL && part->kind != RULE_TEXT_NONE &&
                (part->kind != RULE_TEXT_FIELD || part->field.field == RULE_FIELD_COLUMN))
                return false;
        }
    }
    return true;
}

static const struct rule_text *cell_of(struct guards *g, const struct rule_text *text,
                                       const struct rule_frame *f)
{
    struct list choices = {0};
    bool ended = false;
    if (is_plain(text))
        return text;
    struct rule_text *made = arena_calloc(g->r->keep, 1, sizeof *made);
    if (!made)
        return out_of_memory(g->r);
    if (!add_choices(g, &choices, text, f, true, &ended))
        return NULL;
    *made = *text;
    made->choices = choices.items;
    made->n_choices = choices.n;
    return made;
}

static const struct rule_text *text_of(struct guards *g, const struct rule_text *text)
{
    return cell_of(g, text, NULL);
}

/* A table made before, if it is the same. */
static const struct rule_table *made_before(struct guards *g, const struct rule_table *t, uint32_t column)
{
    const struct rule_table *const *made = g->r->made_tables.items;
    for (uint32_t i = 0; i < g->r->made_tables.n; i++) {
        bool same = made[i]->n_rows == t->n_rows && bytes_eq(made[i]->name, t->name) &&
                    made[i]->columns == t->columns;
        for (uint32_t k = 0; k < t->n_rows && same; k++)
            same = made[i]->rows[k].frame == t->rows[k].frame &&
                   made[i]->rows[k].cells[column] == t->rows[k].cells[column];
        if (same)
            return made[i];
    }
    return NULL;
}

/* The rows that hold, with the one column that is asked. */
static const struct rule_table *table_of(struct guards *g, const struct rule_table *t, uint32_t column,
                                         const struct rule_frame *f)
{
    struct rule_table *made = arena_calloc(g->r->keep, 1, sizeof *made);
    struct rule_row *rows = arena_calloc(g->r->keep, t->n_rows, sizeof *rows);
    if (!made || !rows || !guards_visit(g))
        return out_of_memory(g->r);
    *made = *t;
    made->rows = rows;
    made->n_rows = 0;
    for (uint32_t i = 0; i < t->n_rows; i++) {
        const struct rule_row *from = &t->rows[i];
        if (!guards_hold(g, from->when))
            continue;
        const struct rule_text **cells = arena_calloc(g->r->keep, t->n_columns, sizeof *cells);
        if (!cells)
            return out_of_memory(g->r);
        if (from->cells[column] && !(cells[column] = cell_of(g, from->cells[column], f)))
            return NULL;
        rows[made->n_rows++] = (struct rule_row){
            .frame = from->frame, .cells = cells, .number = from->number, .place = from->place};
    }
    const struct rule_table *same = made_before(g, made, column), **slot;
    if (same)
        return same;
    slot = list_add(&g->r->made_tables, g->r->scratch, sizeof *slot);
    if (!slot)
        return out_of_memory(g->r);
    return *slot = made;
}

/* The pattern, or the text that stands for what met it. */
static const struct rule_pattern *or_holds(struct guards *g, const struct rule_pattern *pattern)
{
    struct rule_pattern *made = arena_calloc(g->r->keep, 1, sizeof *made);
    const struct rule_atom **atoms = arena_calloc(g->r->keep, (size_t)pattern->n_atoms + 1, sizeof *atoms);
    struct rule_atom *atom = arena_calloc(g->r->keep, 1, sizeof *atom);
    struct bytes *piece = arena_calloc(g->r->keep, 1, sizeof *piece);
    if (!made || !atoms || !atom || !piece)
        return out_of_memory(g->r);
    *piece = BYTES_LIT(HOLDS);
    *atom = (struct rule_atom){.kind = RULE_GLOB, .text = *piece, .pieces = piece, .n_pieces = 1};
    if (pattern->n_atoms > 0) {
        memcpy(atoms, pattern->atoms, pattern->n_atoms * sizeof *atoms);
        atom->place = atoms[0]->place;
    }
    atoms[pattern->n_atoms] = atom;
    *made = (struct rule_pattern){.atoms = atoms, .n_atoms = pattern->n_atoms + 1, .name = pattern->name};
    return made;
}

static bool has_answers(struct guards *g, const struct rule_table *t, uint32_t column)
{
    bool any = false;
    for (uint32_t i = 0; i < t->n_rows && !any; i++)
        any = t->rows[i].cells[column] && of_text(g, t->rows[i].cells[column]) & OF_SAMPLE;
    return any;
}

const struct rule_frame *cell_condition(struct guards *g, const struct rule_frame *f)
{
    struct rule_frame *made = arena_calloc(g->r->keep, 1, sizeof *made);
    if (!made)
        return out_of_memory(g->r);
    *made = *f;
    made->dependent = false;
    made->field.table = table_of(g, f->field.table, f->field.column, f);
    if (made->field.table && f->op == RULE_FRAME_MATCH && has_answers(g, f->field.table, f->field.column))
        made->pattern = or_holds(g, f->pattern);
    return made->field.table && (f->op == RULE_FRAME_EQUAL || made->pattern) ? made : NULL;
}
