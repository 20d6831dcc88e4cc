/* SPDX-License-Identifier: Apache-2.0 */
#include "rules/match/eval.h"

#include <stdlib.h>
#include <string.h>

#include "proto/base/buffer.h"
#include "proto/base/macros.h"

/* What can be read, and the words that follow it in a spec. */
enum read {
    READ_FIELD,  /* register, field */
    READ_COLUMN, /* register, frame table, column */
    READ_NODE,   /* register, node */
    READ_ATTR,   /* scope, key */
    READ_TYPE,
    READ_UNIT,
    READ_LINKED,
    READ_CAPTURE, /* regex, spec */
    READ_MATCH,   /* bit of the text domain, spec */
    READ_NEAREST, /* table, then a bit a row: its guard holds and some frame satisfies it */
};

#define SPEC_WORDS 4u

void eval_release(struct eval *e)
{
    charged_free(e->m->budget, &e->notes, &e->cap_notes, sizeof *e->notes);
}

/* ---- reading --------------------------------------------------------------------------------- */

static uint32_t nearest_row(const struct eval *e, const uint32_t *spec)
{
    const struct lower_table *t = &e->m->p->tables.p[spec[1]];
    uint32_t best = LOWER_NONE, words = (t->source->n_rows + 31) / 32;
    for (uint32_t w = 0; w < words; w++) {
        for (uint32_t left = spec[2 + w]; left; left &= left - 1) { /* a row or two, of many */
            uint32_t i = 32 * w + (uint32_t)__builtin_ctz(left);
            if (best == LOWER_NONE ||
                e->v->registers[t->reg + i].position < e->v->registers[t->reg + best].position)
                best = i;
        }
    }
    return best;
}

static enum rules_level scope_level(uint32_t scope)
{
    return scope == RULE_SCOPE_SAMPLE || scope == RULE_SCOPE_ATTR ? RULES_LEVEL_SAMPLE : RULES_LEVEL_PROFILE;
}

uint32_t eval_read(struct eval *e, uint32_t spec)
{
    struct rules_matcher *m = e->m;
    const uint32_t *w = tuples_get(&m->specs, spec); /* reading makes no new specs: it stays in place */
    void *context = e->asker->context;
    enum rules_level level = RULES_LEVEL_STACK;
    uint32_t value = RULES_NONE;
    switch ((enum read)w[0]) {
    case READ_FIELD: value = e->asker->field(context, eval_frame(e, w[1]), (enum rule_field)w[2]); break;
    case READ_COLUMN:
        matcher_frame_start(m);
        value = matcher_column(m, &(struct frame_eval){.asker = e->asker, .frame = eval_frame(e, w[1])}, w[2],
                               w[3]);
        break;
    case READ_NODE:
        matcher_frame_start(m);
        value = matcher_node(m, &(struct frame_eval){.asker = e->asker, .frame = eval_frame(e, w[1])}, w[2]);
        break;
    case READ_ATTR:
        value = e->asker->attr(context, (enum rule_scope)w[1], w[2]);
        level = scope_level(w[1]);
        break;
    case READ_TYPE:
        value = e->asker->profile_type(context);
        level = RULES_LEVEL_PROFILE;
        break;
    case READ_UNIT:
        value = e->asker->profile_unit(context);
        level = RULES_LEVEL_PROFILE;
        break;
    case READ_LINKED:
        value = e->asker->linked(context);
        level = RULES_LEVEL_SAMPLE;
        break;
    case READ_CAPTURE: value = matcher_capture(m, w[1], eval_read(e, w[2])); break;
    case READ_MATCH: value = matcher_string_bit(m, LOWER_DOMAIN_TEXT, eval_read(e, w[2]), w[1]); break;
    case READ_NEAREST: value = nearest_row(e, w); break;
    }
    e->level = max_of(e->level, level);
    return value;
}

struct cue eval_cue_of(const struct rules_matcher *m, uint32_t spec)
{
    const uint32_t *w = tuples_get(&m->specs, spec);
    while (w[0] == READ_CAPTURE || w[0] == READ_MATCH)
        w = tuples_get(&m->specs, w[2]);
    switch ((enum read)w[0]) {
    case READ_FIELD: return (struct cue){CUE_FIELD, w[2], w[1]};
    case READ_ATTR: return (struct cue){CUE_ATTR, w[1], w[2]};
    case READ_TYPE: return (struct cue){CUE_TYPE, 0, 0};
    case READ_UNIT: return (struct cue){CUE_UNIT, 0, 0};
    case READ_LINKED: return (struct cue){CUE_LINKED, 0, 0};
    default: return (struct cue){CUE_READ, 0, spec};
    }
}

/* Reads and notes it; what was read before is not read again. */
static uint32_t note(struct eval *e, const uint32_t *words, uint32_t n)
{
    uint32_t spec = tuples_add(&e->m->specs, words, n);
    if (spec == TUPLES_NONE)
        return matcher_oom(e->m);
    for (uint32_t i = 0; i < e->n_notes; i++)
        if (e->notes[i].spec == spec)
            return e->notes[i].value;
    if (charged_grow(e->m->budget, &e->notes, &e->cap_notes, e->n_notes + 1, sizeof *e->notes) < 0)
        return matcher_oom(e->m);
    uint32_t value = eval_read(e, spec);
    e->notes[e->n_notes++] = (struct eval_note){spec, value};
    return value;
}

#define NOTE(e, ...) note((e), (const uint32_t[]){__VA_ARGS__}, sizeof((const uint32_t[]){__VA_ARGS__}) / 4)

/* ---- frames, tables -------------------------------------------------------------------------- */

/* The register of a reference; false when there is no such frame. */
static bool ref_register(const struct eval *e, const struct rule_ref *ref, uint32_t *ret)
{
    if (ref->kind == RULE_REF_FRAME) {
        *ret = MATCH_REG_EACH;
        return true;
    }
    uint32_t i = lower_ref_fact(e->m->p, ref);
    if (i == LOWER_NONE || !state_bit(e->state, e->m->p->facts.p[i].bit))
        return false;
    const struct lower_fact *f = &e->m->p->facts.p[i];
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

/* A frame table's column for the frame in a register, when its rows or cells depend on more than the frame.
 */
static uint32_t impure_column(struct eval *e, const struct lower_ftable *t, uint32_t column, uint32_t reg)
{
    const struct rule_row *otherwise = NULL;
    for (uint32_t i = 0; i < t->source->n_rows; i++) {
        const struct rule_row *row = &t->source->rows[i];
        uint32_t node = e->m->p->kids.p[t->nodes + i];
        if (node == LOWER_NONE) {
            if (!otherwise && (!row->when || eval_sample(e, row->when)))
                otherwise = row;
        } else if (NOTE(e, READ_NODE, reg, node) == 1 && (!row->when || eval_sample(e, row->when))) {
            return cell(e, row, column, reg);
        }
    }
    return otherwise ? cell(e, otherwise, column, reg) : RULES_NONE;
}

static uint32_t field_text(struct eval *e, const struct rule_field_ref *field, uint32_t reg)
{
    if (field->field != RULE_FIELD_COLUMN)
        return NOTE(e, READ_FIELD, reg, field->field);
    uint32_t ftable = lower_find(e->m->p, field->table);
    if (!e->m->p->ftables.p[ftable].pure)
        return impure_column(e, &e->m->p->ftables.p[ftable], field->column, reg);
    return NOTE(e, READ_COLUMN, reg, ftable, field->column);
}

static uint32_t guarded_nearest(struct eval *e, uint32_t table, uint32_t *ret_reg)
{
    const struct lower_table *t = &e->m->p->tables.p[table];
    uint32_t n = t->source->n_rows, words = 2 + (n + 31) / 32;
    autofree uint32_t *spec = calloc(words, sizeof *spec);
    if (!spec)
        return matcher_oom(e->m);
    spec[0] = READ_NEAREST;
    spec[1] = table;
    bool any = false;
    for (uint32_t i = 0; i < n; i++) {
        const struct rule_row *row = &t->source->rows[i];
        if (row->frame && state_bit(e->state, t->bit + i) && (!row->when || eval_sample(e, row->when))) {
            state_set(spec + 2, i);
            any = true;
        }
    }
    if (!any)
        return LOWER_NONE;
    uint32_t row = note(e, spec, words);
    if (row != LOWER_NONE)
        *ret_reg = t->reg + row;
    return row;
}

uint32_t eval_table(struct eval *e, uint32_t table, uint32_t *ret_reg)
{
    const struct lower_table *t = &e->m->p->tables.p[table];
    const struct rule_row *rows = t->source->rows;
    uint32_t taken = LOWER_NONE;
    *ret_reg = MATCH_NO_REG;
    if (t->in_state) {
        uint32_t decided = state_number(e->state, t->bit, 16);
        if (decided != 0) {
            *ret_reg = t->reg;
            return decided - 1;
        }
    } else if (t->source->nearest_leaf) {
        taken = guarded_nearest(e, table, ret_reg);
    } else {
        for (uint32_t i = 0; i < t->source->n_rows && taken == LOWER_NONE; i++) {
            if (rows[i].frame && state_bit(e->state, t->bit + i) &&
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
    uint32_t reg, i = lower_find(e->m->p, table);
    if (i == LOWER_NONE)
        return RULES_NONE;
    uint32_t row = eval_table(e, i, &reg);
    return row == LOWER_NONE ? RULES_NONE : cell(e, &table->rows[row], column, reg);
}

/* ---- texts ----------------------------------------------------------------------------------- */

uint32_t matcher_capture(struct rules_matcher *m, uint32_t regex, uint32_t string)
{
    uint32_t value;
    if (string == RULES_NONE)
        return RULES_NONE;
    if (pairs_find(&m->captures, pair_key(regex, string), &value))
        return value == MATCH_UNKNOWN ? RULES_NONE : value;
    struct bytes found;
    value = RULES_NONE;
    if (regex_capture(m->p->regexes.p[regex], &m->scratch.regex, m->text[string], &found)) {
        value = rules_matcher_string(m, found);
        if (value == RULES_NONE)
            return value; /* memory is out */
    }
    if (pairs_set(&m->captures, pair_key(regex, string), value == RULES_NONE ? MATCH_UNKNOWN : value) < 0)
        return matcher_oom(m);
    return value;
}

/* Whether a part is one primitive read, so that a capture or match of it can be noted in its place: noting
 * "GC thread: yes" in place of the thread's name keeps the decision tree small. Then *ret_spec, or RULES_NONE
 * when the frame that it speaks of does not exist. */
static bool simple_part(struct eval *e, const struct rule_text_part *part, uint32_t *ret_spec)
{
    uint32_t w[SPEC_WORDS], n = 0, reg;
    *ret_spec = RULES_NONE;
    if (e->pure)
        return false;
    switch (part->kind) {
    case RULE_TEXT_GROUP:
        return part->text->n_choices == 1 && !part->text->choices[0].when &&
               part->text->choices[0].n_parts == 1 &&
               simple_part(e, &part->text->choices[0].parts[0], ret_spec);
    case RULE_TEXT_FIELD_OF:
        if (part->field.field == RULE_FIELD_COLUMN || (part->ref.kind == RULE_REF_FRAME && e->each_is_type))
            return false;
        if (!ref_register(e, &part->ref, &reg))
            return true;
        w[n++] = READ_FIELD;
        w[n++] = reg;
        w[n++] = part->field.field;
        break;
    case RULE_TEXT_FIELD:
        if (part->field.field == RULE_FIELD_COLUMN || e->row_reg == MATCH_NO_REG)
            return false;
        w[n++] = READ_FIELD;
        w[n++] = e->row_reg;
        w[n++] = part->field.field;
        break;
    case RULE_TEXT_ATTR:
        w[n++] = READ_ATTR;
        w[n++] = part->scope;
        w[n++] = lower_find(e->m->p, part);
        break;
    case RULE_TEXT_PROFILE_TYPE: w[n++] = READ_TYPE; break;
    case RULE_TEXT_PROFILE_UNIT: w[n++] = READ_UNIT; break;
    case RULE_TEXT_CAPTURE:
        if (!part->regex || !simple_part(e, part->from, &w[2]))
            return false;
        if (w[2] == RULES_NONE)
            return true;
        w[0] = READ_CAPTURE;
        w[1] = lower_find(e->m->p, part->regex);
        n = 3;
        break;
    default: return false;
    }
    *ret_spec = tuples_add(&e->m->specs, w, n);
    if (*ret_spec == TUPLES_NONE)
        matcher_oom(e->m);
    return true;
}

static uint32_t note_spec(struct eval *e, uint32_t spec)
{
    uint32_t w[SPEC_WORDS], n = tuples_length(&e->m->specs, spec);
    memcpy(w, tuples_get(&e->m->specs, spec), n * sizeof *w);
    return note(e, w, n);
}

static uint32_t eval_part(struct eval *e, const struct rule_text_part *part)
{
    uint32_t spec, reg;
    if (simple_part(e, part, &spec))
        return spec == RULES_NONE ? RULES_NONE : note_spec(e, spec);
    switch (part->kind) {
    case RULE_TEXT_LITERAL: return rules_matcher_string(e->m, part->literal);
    case RULE_TEXT_GROUP: return eval_text(e, part->text);
    case RULE_TEXT_COLUMN: return part->table->over ? table_column(e, part->table, part->column) : RULES_NONE;
    case RULE_TEXT_FIELD_OF:
        if (part->ref.kind == RULE_REF_FRAME && e->each_is_type)
            return e->each_type;
        return ref_register(e, &part->ref, &reg) ? field_text(e, &part->field, reg) : RULES_NONE;
    case RULE_TEXT_FIELD:
        if (e->pure && part->field.field != RULE_FIELD_COLUMN)
            return matcher_frame_field(e->m, e->pure, part->field.field);
        if (e->pure)
            return matcher_column(e->m, e->pure, lower_find(e->m->p, part->field.table), part->field.column);
        return e->row_reg == MATCH_NO_REG ? RULES_NONE : field_text(e, &part->field, e->row_reg);
    case RULE_TEXT_CAPTURE:
        return part->regex ? matcher_capture(e->m, lower_find(e->m->p, part->regex), eval_part(e, part->from))
                           : RULES_NONE;
    default: return RULES_NONE;
    }
}

static uint32_t eval_choice(struct eval *e, const struct rule_choice *choice)
{
    if (choice->when && !eval_sample(e, choice->when))
        return RULES_NONE;
    if (choice->n_parts == 1)
        return eval_part(e, &choice->parts[0]);
    struct buffer joined = BUFFER_INIT(0);
    uint32_t value = RULES_NONE, i = 0;
    for (; i < choice->n_parts; i++) {
        uint32_t part = eval_part(e, &choice->parts[i]);
        if (part == RULES_NONE)
            break;
        if (buffer_add_bytes(&joined, e->m->text[part]) < 0) {
            matcher_oom(e->m);
            break;
        }
    }
    if (i == choice->n_parts)
        value = rules_matcher_string(e->m, buffer_bytes(&joined));
    buffer_release(&joined);
    return value;
}

uint32_t eval_text(struct eval *e, const struct rule_text *text)
{
    uint32_t value = RULES_NONE;
    for (uint32_t i = 0; i < text->n_choices; i++) {
        value = eval_choice(e, &text->choices[i]);
        if (value != RULES_NONE && e->m->text[value].n > 0)
            break;
    }
    return value;
}

uint32_t matcher_pure_text(struct rules_matcher *m, struct frame_eval *fe, const struct rule_text *text)
{
    struct eval e;
    eval_init(&e, m, NULL, fe->asker);
    e.pure = fe;
    return eval_text(&e, text);
}

/* ---- samples --------------------------------------------------------------------------------- */

static bool eval_match(struct eval *e, const struct rule_sample *s)
{
    uint32_t spec, bit = lower_find(e->m->p, s);
    const struct rule_text_part whole = {.kind = RULE_TEXT_GROUP, .text = s->text};
    if (!simple_part(e, &whole, &spec))
        return matcher_string_bit(e->m, LOWER_DOMAIN_TEXT, eval_text(e, s->text), bit);
    return spec != RULES_NONE && NOTE(e, READ_MATCH, bit, spec) == 1;
}

static bool eval_ref_is(struct eval *e, const struct rule_sample *s)
{
    const struct rules_program *p = e->m->p;
    if (s->ref.kind == RULE_REF_FRAME)
        return NOTE(e, READ_NODE, MATCH_REG_EACH, lower_find(p, s->frame)) == 1;
    const struct lower_is *is = &p->iss.p[lower_find(p, s)];
    return state_bit(e->state, p->facts.p[is->fact].bit) && state_bit(e->state, is->bit);
}

static bool eval_every(const struct eval *e, const struct rule_sample *s)
{
    const struct rules_program *p = e->m->p;
    const struct lower_fact *violated = &p->facts.p[lower_find(p, s)];
    uint32_t any = lower_find_fact(p, violated->region, 0);
    return state_bit(e->state, p->facts.p[any].bit) && !state_bit(e->state, violated->bit);
}

bool eval_sample(struct eval *e, const struct rule_sample *s)
{
    const struct rules_program *p = e->m->p;
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
    case RULE_SAMPLE_LINKED: return NOTE(e, READ_LINKED) == 1;
    case RULE_SAMPLE_ANY: return state_bit(e->state, p->facts.p[lower_find(p, s)].bit);
    case RULE_SAMPLE_NO: return !state_bit(e->state, p->facts.p[lower_find(p, s)].bit);
    case RULE_SAMPLE_EVERY: return eval_every(e, s);
    case RULE_SAMPLE_REF_IS: return eval_ref_is(e, s);
    case RULE_SAMPLE_CALLS: return state_bit(e->state, p->chains.p[lower_find(p, s)].bit);
    case RULE_SAMPLE_MATCH: return eval_match(e, s) != s->negated;
    case RULE_SAMPLE_EQUAL: return (eval_text(e, s->text) == eval_text(e, s->text2)) != s->negated;
    }
    return false;
}
