/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The evaluator follows the tree of a condition or text. What the walk has decided stands in bits of its
 * state and costs no note: facts, chains, rows of tables. Everything else is a read: it is noted with its
 * value, once an evaluation, and the notes become a path of the decision tree (paths.h), so that an
 * evaluation happens once a path.
 *
 * Notes are kept few and coarse, because each value noted makes a branch: of a capture or a match of a single
 * text, the capture or match is noted and not the text ("GC thread: yes" in place of the thread's name), and
 * of a table `nearest leaf` with guards the row that won and not each row's position.
 */
#include "rules/match/eval.h"

#include <stdlib.h>

#include "proto/base/buffer.h"
#include "proto/base/macros.h"
#include "rules/match/bits.h"

void eval_init(struct eval *e, struct match_reads *reads, const uint32_t *state,
               const struct rules_verdict *v, const struct rules_asker *asker)
{
    *e = (struct eval){.p = reads->p,
                       .memory = reads->memory,
                       .reads = reads,
                       .at = {.v = v, .asker = asker},
                       .state = state,
                       .row_reg = MATCH_NO_REG,
                       .notes.budget = reads->memory->budget};
}

void eval_release(struct eval *e)
{
    vec_release(&e->notes);
}

/* Reads and notes it; what was read before is not read again. */
static uint32_t note(struct eval *e, struct read what)
{
    uint32_t read = match_reads_add(e->reads, what);
    if (read == RULES_NONE)
        return read;
    for (uint32_t i = 0; i < e->notes.n; i++)
        if (e->notes.p[i].read == read)
            return e->notes.p[i].value;
    uint32_t value = match_reads_value(e->reads, &what, &e->at);
    e->at.level = max_of(e->at.level, match_reads_level(e->reads, &what));
    if (vec_append(&e->notes, (struct read_note){read, value}) < 0)
        return match_memory_out(e->memory);
    return value;
}

/* ---- frames, tables -------------------------------------------------------------------------- */

/* The register of a reference; false when there is no such frame. */
static bool ref_register(const struct eval *e, const struct rule_ref *ref, uint32_t *ret)
{
    if (ref->kind == RULE_REF_FRAME) {
        *ret = MATCH_REG_EACH;
        return true;
    }
    uint32_t i = lower_ref_fact(e->p, ref);
    if (i == LOWER_NONE || !bits_get(e->state, e->p->facts.p[i].bit))
        return false;
    const struct lower_fact *f = &e->p->facts.p[i];
    *ret = ref->kind == RULE_REF_LAST || ref->kind == RULE_REF_ROOT ? f->last : f->first;
    return *ret != LOWER_NONE;
}

static uint32_t cell(struct eval *e, const struct rule_row *row, uint32_t column, uint32_t reg)
{
    if (!row->cells[column])
        return RULES_NONE;
    uint32_t was = e->row_reg;
    e->row_reg = reg;
    uint32_t value = eval_text(e, row->cells[column]);
    e->row_reg = was;
    return value;
}

static uint32_t field_text(struct eval *e, const struct rule_field_ref *field, uint32_t reg)
{
    if (field->field != RULE_FIELD_COLUMN)
        return note(e, (struct read){READ_FIELD, reg, field->field, 0});
    return note(e, (struct read){READ_COLUMN, reg, lower_find(e->p, field->table), field->column});
}

static uint32_t guarded_nearest(struct eval *e, uint32_t table, uint32_t *ret_reg)
{
    const struct lower_table *t = &e->p->tables.p[table];
    uint32_t n = t->source->n_rows, words = (n + 31) / 32;
    autofree uint32_t *rows = calloc(words + 1, sizeof *rows);
    if (!rows)
        return match_memory_out(e->memory);
    uint32_t n_taken = 0, taken = LOWER_NONE;
    for (uint32_t i = 0; i < n; i++) {
        const struct rule_row *row = &t->source->rows[i];
        if (row->frame && bits_get(e->state, t->bit + i) && (!row->when || eval_sample(e, row->when))) {
            bits_set(rows, i);
            n_taken++;
            taken = i;
        }
    }
    if (n_taken > 1) { /* which of them is a matter of positions */
        uint32_t set = match_reads_add_rows(e->reads, rows, words);
        taken = set == RULES_NONE ? LOWER_NONE : note(e, (struct read){READ_NEAREST, table, set, 0});
    }
    if (taken != LOWER_NONE)
        *ret_reg = t->reg + taken;
    return taken;
}

uint32_t eval_table(struct eval *e, uint32_t table, uint32_t *ret_reg)
{
    const struct lower_table *t = &e->p->tables.p[table];
    const struct rule_row *rows = t->source->rows;
    uint32_t taken = LOWER_NONE;
    *ret_reg = MATCH_NO_REG;
    if (t->in_state) {
        uint32_t decided = bits_number(e->state, t->bit, 16);
        if (decided != 0) {
            *ret_reg = t->reg;
            return decided - 1;
        }
    } else if (t->source->nearest_leaf) {
        taken = guarded_nearest(e, table, ret_reg);
    } else {
        for (uint32_t i = 0; i < t->source->n_rows && taken == LOWER_NONE; i++) {
            if (rows[i].frame && bits_get(e->state, t->bit + i) &&
                (!rows[i].when || eval_sample(e, rows[i].when))) {
                *ret_reg = t->reg + i;
                taken = i;
            }
        }
    }
    for (uint32_t i = 0; i < t->source->n_rows && taken == LOWER_NONE; i++)
        if (!rows[i].frame && (!rows[i].when || eval_sample(e, rows[i].when)))
            taken = i;
    return taken;
}

static uint32_t table_column(struct eval *e, const struct rule_table *table, uint32_t column)
{
    uint32_t reg, i = lower_find(e->p, table);
    if (i == LOWER_NONE)
        return RULES_NONE;
    uint32_t row = eval_table(e, i, &reg);
    return row == LOWER_NONE ? RULES_NONE : cell(e, &table->rows[row], column, reg);
}

/* ---- texts ----------------------------------------------------------------------------------- */

/* Whether a part is one primitive read, so that a capture or match of it can be noted in its place. */
enum simple { NOT_SIMPLE, SIMPLE, NO_FRAME /* simple, but the frame that it speaks of does not exist */ };

static enum simple simple_capture(struct eval *e, const struct rule_text_part *part, struct read *ret);

static enum simple simple_part(struct eval *e, const struct rule_text_part *part, struct read *ret)
{
    uint32_t reg;
    switch (part->kind) {
    case RULE_TEXT_GROUP:
        if (part->text->n_choices != 1 || part->text->choices[0].when || part->text->choices[0].n_parts != 1)
            return NOT_SIMPLE;
        return simple_part(e, &part->text->choices[0].parts[0], ret);
    case RULE_TEXT_FIELD_OF:
        if (part->field.field == RULE_FIELD_COLUMN || (part->ref.kind == RULE_REF_FRAME && e->each_is_type))
            return NOT_SIMPLE;
        if (!ref_register(e, &part->ref, &reg))
            return NO_FRAME;
        *ret = (struct read){READ_FIELD, reg, part->field.field, 0};
        return SIMPLE;
    case RULE_TEXT_FIELD:
        if (part->field.field == RULE_FIELD_COLUMN || e->row_reg == MATCH_NO_REG)
            return NOT_SIMPLE;
        *ret = (struct read){READ_FIELD, e->row_reg, part->field.field, 0};
        return SIMPLE;
    case RULE_TEXT_ATTR:
        *ret = (struct read){READ_ATTR, part->scope, lower_find(e->p, part), 0};
        return SIMPLE;
    case RULE_TEXT_PROFILE_TYPE: *ret = (struct read){.what = READ_TYPE}; return SIMPLE;
    case RULE_TEXT_PROFILE_UNIT: *ret = (struct read){.what = READ_UNIT}; return SIMPLE;
    case RULE_TEXT_CAPTURE: return part->regex ? simple_capture(e, part, ret) : NOT_SIMPLE;
    default: return NOT_SIMPLE;
    }
}

static enum simple simple_capture(struct eval *e, const struct rule_text_part *part, struct read *ret)
{
    struct read from;
    enum simple simple = simple_part(e, part->from, &from);
    if (simple == SIMPLE)
        *ret = (struct read){READ_CAPTURE, match_reads_add(e->reads, from), lower_find(e->p, part->regex), 0};
    return simple == SIMPLE && ret->of == RULES_NONE ? NO_FRAME /* memory is out */ : simple;
}

static uint32_t eval_part(struct eval *e, const struct rule_text_part *part)
{
    struct read read;
    uint32_t reg;
    switch (simple_part(e, part, &read)) {
    case SIMPLE: return note(e, read);
    case NO_FRAME: return RULES_NONE;
    case NOT_SIMPLE: break;
    }
    switch (part->kind) {
    case RULE_TEXT_LITERAL: return match_strings_add(e->reads->strings, part->literal);
    case RULE_TEXT_GROUP: return eval_text(e, part->text);
    case RULE_TEXT_COLUMN: return part->table->over ? table_column(e, part->table, part->column) : RULES_NONE;
    case RULE_TEXT_FIELD_OF:
        if (part->ref.kind == RULE_REF_FRAME && e->each_is_type)
            return e->each_type;
        return ref_register(e, &part->ref, &reg) ? field_text(e, &part->field, reg) : RULES_NONE;
    case RULE_TEXT_FIELD:
        return e->row_reg == MATCH_NO_REG ? RULES_NONE : field_text(e, &part->field, e->row_reg);
    case RULE_TEXT_CAPTURE:
        if (!part->regex)
            return RULES_NONE;
        return match_strings_capture(e->reads->strings, lower_find(e->p, part->regex),
                                     eval_part(e, part->from));
    default: return RULES_NONE;
    }
}

static uint32_t eval_choice(struct eval *e, const struct rule_choice *choice)
{
    if (choice->when && !eval_sample(e, choice->when))
        return RULES_NONE;
    if (choice->n_parts == 1)
        return eval_part(e, &choice->parts[0]);
    cleanup(buffer_release) struct buffer joined = BUFFER_INIT(0);
    uint32_t value = RULES_NONE, i = 0;
    for (; i < choice->n_parts; i++) {
        uint32_t part = eval_part(e, &choice->parts[i]);
        if (part == RULES_NONE)
            break;
        if (buffer_add_bytes(&joined, match_strings_text(e->reads->strings, part)) < 0) {
            match_memory_out(e->memory);
            break;
        }
    }
    if (i == choice->n_parts)
        value = match_strings_add(e->reads->strings, buffer_bytes(&joined));
    return value;
}

uint32_t eval_text(struct eval *e, const struct rule_text *text)
{
    uint32_t value = RULES_NONE;
    for (uint32_t i = 0; i < text->n_choices; i++) {
        value = eval_choice(e, &text->choices[i]);
        if (value != RULES_NONE && match_strings_text(e->reads->strings, value).n > 0)
            break;
    }
    return value;
}

/* ---- samples --------------------------------------------------------------------------------- */

static bool eval_match(struct eval *e, const struct rule_sample *s)
{
    uint32_t bit = lower_find(e->p, s), from;
    const struct rule_text_part whole = {.kind = RULE_TEXT_GROUP, .text = s->text};
    struct read read;
    switch (simple_part(e, &whole, &read)) {
    case SIMPLE:
        from = match_reads_add(e->reads, read);
        return from != RULES_NONE && note(e, (struct read){READ_MATCH, from, bit, 0}) == 1;
    case NO_FRAME: return false;
    case NOT_SIMPLE: break;
    }
    return match_strings_bit(e->reads->strings, LOWER_DOMAIN_TEXT, eval_text(e, s->text), bit);
}

static bool eval_ref_is(struct eval *e, const struct rule_sample *s)
{
    const struct rules_program *p = e->p;
    if (s->ref.kind == RULE_REF_FRAME)
        return note(e, (struct read){READ_NODE, MATCH_REG_EACH, lower_find(p, s->frame), 0}) == 1;
    const struct lower_is *is = &p->iss.p[lower_find(p, s)];
    return bits_get(e->state, p->facts.p[is->fact].bit) && bits_get(e->state, is->bit);
}

static bool eval_every(const struct eval *e, const struct rule_sample *s)
{
    const struct rules_program *p = e->p;
    const struct lower_fact *violated = &p->facts.p[lower_find(p, s)];
    uint32_t any = lower_find_fact(p, violated->region, 0);
    return bits_get(e->state, p->facts.p[any].bit) && !bits_get(e->state, violated->bit);
}

bool eval_sample(struct eval *e, const struct rule_sample *s)
{
    const struct rules_program *p = e->p;
    switch (s->op) {
    case RULE_SAMPLE_AND:
        for (uint32_t i = 0; i < s->n_kids; i++)
            if (!eval_sample(e, s->kids[i]))
                return false;
        return true;
    case RULE_SAMPLE_OR:
        for (uint32_t i = 0; i < s->n_kids; i++)
            if (eval_sample(e, s->kids[i]))
                return true;
        return false;
    case RULE_SAMPLE_NOT: return !eval_sample(e, s->kids[0]);
    case RULE_SAMPLE_LINKED: return note(e, (struct read){.what = READ_LINKED}) == 1;
    case RULE_SAMPLE_ANY: return bits_get(e->state, p->facts.p[lower_find(p, s)].bit);
    case RULE_SAMPLE_NO: return !bits_get(e->state, p->facts.p[lower_find(p, s)].bit);
    case RULE_SAMPLE_EVERY: return eval_every(e, s);
    case RULE_SAMPLE_REF_IS: return eval_ref_is(e, s);
    case RULE_SAMPLE_CALLS: return bits_get(e->state, p->chains.p[lower_find(p, s)].bit);
    case RULE_SAMPLE_MATCH: return eval_match(e, s) != s->negated;
    case RULE_SAMPLE_EQUAL: return (eval_text(e, s->text) == eval_text(e, s->text2)) != s->negated;
    }
    return false;
}
