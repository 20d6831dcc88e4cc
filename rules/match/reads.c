/* SPDX-License-Identifier: Apache-2.0 */
#include "rules/match/reads.h"

#include <stdlib.h>
#include <string.h>

#include "proto/base/macros.h"
#include "rules/program/program.h"

#define READ_WORDS (sizeof(struct read) / sizeof(uint32_t))
_Static_assert(sizeof(enum read_what) == sizeof(uint32_t), "a read is words without padding");

int match_reads_init(struct match_reads *x, struct match_frames *frames)
{
    x->p = frames->p;
    x->memory = frames->memory;
    x->strings = frames->strings;
    x->frames = frames;
    tuples_init(&x->reads, x->memory->budget);
    tuples_init(&x->rows, x->memory->budget);
    x->wants_inlined = rules_program_wants_inlined(x->p);
    x->fields = calloc(MATCH_READ_FIELDS, sizeof *x->fields);
    x->answers = calloc(MATCH_READ_ANSWERS, sizeof *x->answers);
    return x->fields && x->answers ? 0 : -ENOMEM;
}

void match_reads_clear(struct match_reads *x)
{
    tuples_clear(&x->reads);
    tuples_clear(&x->rows);
    if (x->fields)
        memset(x->fields, 0, MATCH_READ_FIELDS * sizeof *x->fields);
    if (x->answers)
        memset(x->answers, 0, MATCH_READ_ANSWERS * sizeof *x->answers);
}

void match_reads_release(struct match_reads *x)
{
    match_reads_clear(x);
    free(x->fields);
    free(x->answers);
}

uint32_t match_reads_add(struct match_reads *x, struct read read)
{
    uint32_t id = tuples_add(&x->reads, (const uint32_t *)&read, READ_WORDS);
    return id == TUPLES_NONE ? match_memory_out(x->memory) : id;
}

uint32_t match_reads_add_rows(struct match_reads *x, const uint32_t *rows, uint32_t words)
{
    uint32_t id = tuples_add(&x->rows, rows, words);
    return id == TUPLES_NONE ? match_memory_out(x->memory) : id;
}

const struct read *match_reads_input(const struct match_reads *x, const struct read *read)
{
    while (read->what == READ_CAPTURE || read->what == READ_MATCH)
        read = match_reads_get(x, read->of);
    return read;
}

enum rules_level match_reads_level(const struct match_reads *x, const struct read *read)
{
    read = match_reads_input(x, read);
    switch (read->what) {
    case READ_SAMPLE:
    case READ_LINKED: return RULES_LEVEL_SAMPLE;
    case READ_TYPE:
    case READ_UNIT: return RULES_LEVEL_PROFILE;
    case READ_ATTR:
        return read->of == RULE_SCOPE_SAMPLE || read->of == RULE_SCOPE_ATTR ? RULES_LEVEL_SAMPLE
                                                                            : RULES_LEVEL_PROFILE;
    default: return RULES_LEVEL_STACK;
    }
}

/* Of rows that are satisfied, the one whose frame is nearest the leaf. */
static uint32_t nearest_row(const struct match_reads *x, const struct read *read,
                            const struct rules_register *registers)
{
    const struct lower_table *t = &x->p->tables.p[read->of];
    const uint32_t *rows = tuples_get(&x->rows, read->which);
    uint32_t best = LOWER_NONE, words = tuples_length(&x->rows, read->which);
    for (uint32_t w = 0; w < words; w++) {
        for (uint32_t left = rows[w]; left; left &= left - 1) { /* a row or two, of many */
            uint32_t i = 32 * w + (uint32_t)__builtin_ctz(left);
            if (best == LOWER_NONE || registers[t->reg + i].position < registers[t->reg + best].position)
                best = i;
        }
    }
    return best;
}

/* ---- of one frame ---------------------------------------------------------------------------- */

static inline bool same_read(const struct read *a, const struct read *b)
{
    return a->what == b->what && a->which == b->which && a->column == b->column;
}

static uint32_t fields_of(struct match_reads *x, const struct read *read, uint32_t type)
{
    struct read_fields *known = &x->fields[(read->which * 31 + read->column * 7 + type) % MATCH_READ_FIELDS];
    if (likely(same_read(&known->read, read) && known->type == type))
        return known->fields;
    struct match_plans *plans = &x->frames->plans;
    uint32_t fields = read->what == READ_COLUMN
                          ? match_plans_column_fields(plans, read->which, read->column, type)
                          : match_plans_node_fields(plans, read->which, type);
    if (x->memory->error == 0)
        *known = (struct read_fields){*read, type, fields};
    return fields;
}

static uint32_t evaluate(struct match_reads *x, const struct read *read, struct frame_eval *fe)
{
    struct match_predicates *predicates = &x->frames->predicates;
    match_predicates_start(predicates);
    if (read->what == READ_COLUMN)
        return match_predicates_column(predicates, fe, read->which, read->column);
    return match_predicates_holds(predicates, fe, read->which);
}

static uint32_t of_frame(struct match_reads *x, const struct read *read, const struct reading *at)
{
    struct frame_eval fe = {.asker = at->asker, .frame = reading_frame(at, read->of)};
    const uint32_t *types = at->asker->types;
    uint32_t type = types ? types[fe.frame] : frame_eval_field(&fe, RULE_FIELD_TYPE);
    uint32_t fields = x->wants_inlined ? UINT32_MAX : fields_of(x, read, type);
    uint32_t text[MATCH_READ_TEXTS] = {0}, n = 0;
    if ((uint32_t)__builtin_popcount(fields) > MATCH_READ_TEXTS)
        return evaluate(x, read, &fe);
    for (uint32_t left = fields; left; left &= left - 1)
        text[n++] = frame_eval_field(&fe, (uint32_t)__builtin_ctz(left));
    uint64_t mixed = ((uint64_t)(read->which << 8 ^ read->column) << 32 | type) * 0x9e3779b97f4a7c15u ^
                     text[0] * 0xd6e8feb86659fd93u ^ text[1] * 0xc2b2ae3d27d4eb4fu;
    struct read_answer *known = &x->answers[mixed >> 54]; /* the high bits: MATCH_READ_ANSWERS of them */
    if (likely(same_read(&known->read, read) && known->type == type && known->text[0] == text[0] &&
               known->text[1] == text[1]))
        return known->value;
    uint32_t value = evaluate(x, read, &fe);
    if (x->memory->error == 0)
        *known = (struct read_answer){*read, type, {text[0], text[1]}, value};
    return value;
}

/* ---- reading --------------------------------------------------------------------------------- */

/* Reading makes no new reads: pointers to them stay valid. A capture is of a capture no deeper than the rules
 * say (LOWER_DEPTH_MAX). */
uint32_t match_reads_value(struct match_reads *x, const struct read *read, const struct reading *at)
{
    const struct rules_asker *asker = at->asker;
    uint32_t value;
    switch (read->what) {
    case READ_FIELD:
        return asker->field(asker->context, reading_frame(at, read->of), (enum rule_field)read->which);
    case READ_ATTR: return asker->attr(asker->context, (enum rule_scope)read->of, read->which);
    case READ_TYPE: return asker->profile_type(asker->context);
    case READ_UNIT: return asker->profile_unit(asker->context);
    case READ_LINKED: return asker->linked(asker->context);
    case READ_SAMPLE: return asker->sample(asker->context, match_read_keys(read));
    case READ_COLUMN:
    case READ_NODE: return of_frame(x, read, at);
    case READ_CAPTURE:
        value = match_reads_value(x, match_reads_get(x, read->of), at);
        return match_strings_capture(x->strings, read->which, value);
    case READ_MATCH:
        value = match_reads_value(x, match_reads_get(x, read->of), at);
        return match_strings_bit(x->strings, LOWER_DOMAIN_TEXT, value, read->which);
    case READ_NEAREST: return nearest_row(x, read, at->v->registers);
    }
    return RULES_NONE;
}
