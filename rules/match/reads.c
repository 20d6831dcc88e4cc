/* SPDX-License-Identifier: Apache-2.0 */
#include "rules/match/reads.h"

#define READ_WORDS (sizeof(struct read) / sizeof(uint32_t))
_Static_assert(sizeof(enum read_what) == sizeof(uint32_t), "a read is words without padding");

void match_reads_init(struct match_reads *x, struct match_frames *frames)
{
    x->p = frames->p;
    x->memory = frames->memory;
    x->strings = frames->strings;
    x->frames = frames;
    tuples_init(&x->reads, x->memory->budget);
    tuples_init(&x->rows, x->memory->budget);
}

void match_reads_clear(struct match_reads *x)
{
    tuples_clear(&x->reads);
    tuples_clear(&x->rows);
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

static uint32_t of_frame(struct match_reads *x, const struct read *read, const struct reading *at)
{
    struct frame_eval fe = {.asker = at->asker, .frame = reading_frame(at, read->of)};
    struct match_predicates *predicates = &x->frames->predicates;
    match_predicates_start(predicates);
    if (read->what == READ_COLUMN)
        return match_predicates_column(predicates, &fe, read->which, read->column);
    return match_predicates_holds(predicates, &fe, read->which);
}

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
