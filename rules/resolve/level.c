/* SPDX-License-Identifier: Apache-2.0 */
#include "rules/resolve/level.h"

#include "proto/base/macros.h"

/* Definitions may use each other 32 in a row and each several times: what would take longer to look through
 * is of the highest level. */
#define VISITS_MAX 100000u

static enum rule_level of_text(const struct rule_text *text, uint32_t *visits);

static enum rule_level of_sample(const struct rule_sample *s, uint32_t *visits)
{
    if (!s)
        return RULE_LEVEL_ALWAYS;
    if (++*visits > VISITS_MAX)
        return RULE_LEVEL_SAMPLE;
    enum rule_level level = RULE_LEVEL_ALWAYS;
    switch (s->op) {
    case RULE_SAMPLE_LINKED: return RULE_LEVEL_SAMPLE;
    case RULE_SAMPLE_ANY:
    case RULE_SAMPLE_NO:
    case RULE_SAMPLE_EVERY:
    case RULE_SAMPLE_REF_IS:
    case RULE_SAMPLE_CALLS: return RULE_LEVEL_STACK;
    default: break;
    }
    for (uint32_t i = 0; i < s->n_kids && level < RULE_LEVEL_SAMPLE; i++)
        level = max_of(level, of_sample(s->kids[i], visits));
    if (s->text)
        level = max_of(level, of_text(s->text, visits));
    if (s->text2)
        level = max_of(level, of_text(s->text2, visits));
    return level;
}

static enum rule_level of_table(const struct rule_table *table, uint32_t column, uint32_t *visits)
{
    enum rule_level level = table->over ? RULE_LEVEL_STACK : RULE_LEVEL_FRAME;
    for (uint32_t i = 0; i < table->n_rows && level < RULE_LEVEL_SAMPLE; i++) {
        level = max_of(level, of_sample(table->rows[i].when, visits));
        if (table->rows[i].cells[column])
            level = max_of(level, of_text(table->rows[i].cells[column], visits));
    }
    return level;
}

static enum rule_level of_field(const struct rule_field_ref *field, enum rule_level least, uint32_t *visits)
{
    if (field->field != RULE_FIELD_COLUMN)
        return least;
    return max_of(least, of_table(field->table, field->column, visits));
}

static enum rule_level of_part(const struct rule_text_part *part, uint32_t *visits)
{
    if (++*visits > VISITS_MAX)
        return RULE_LEVEL_SAMPLE;
    switch (part->kind) {
    case RULE_TEXT_LITERAL:
    case RULE_TEXT_NONE: return RULE_LEVEL_ALWAYS;
    case RULE_TEXT_GROUP: return of_text(part->text, visits);
    case RULE_TEXT_COLUMN: return of_table(part->table, part->column, visits);
    case RULE_TEXT_FIELD_OF: return of_field(&part->field, RULE_LEVEL_STACK, visits);
    case RULE_TEXT_FIELD: return of_field(&part->field, RULE_LEVEL_FRAME, visits);
    case RULE_TEXT_ATTR:
        return part->scope == RULE_SCOPE_SAMPLE || part->scope == RULE_SCOPE_ATTR ? RULE_LEVEL_SAMPLE
                                                                                  : RULE_LEVEL_PROFILE;
    case RULE_TEXT_PROFILE_TYPE:
    case RULE_TEXT_PROFILE_UNIT: return RULE_LEVEL_PROFILE;
    case RULE_TEXT_CAPTURE: return part->regex ? of_part(part->from, visits) : RULE_LEVEL_ALWAYS;
    }
    return RULE_LEVEL_SAMPLE;
}

static enum rule_level of_text(const struct rule_text *text, uint32_t *visits)
{
    enum rule_level level = RULE_LEVEL_ALWAYS;
    for (uint32_t i = 0; i < text->n_choices && level < RULE_LEVEL_SAMPLE; i++) {
        const struct rule_choice *choice = &text->choices[i];
        level = max_of(level, of_sample(choice->when, visits));
        for (uint32_t k = 0; k < choice->n_parts && level < RULE_LEVEL_SAMPLE; k++)
            level = max_of(level, of_part(&choice->parts[k], visits));
    }
    return level;
}

enum rule_level rule_level_of_sample(const struct rule_sample *sample)
{
    uint32_t visits = 0;
    return of_sample(sample, &visits);
}

enum rule_level rule_level_of_text(const struct rule_text *text)
{
    uint32_t visits = 0;
    return of_text(text, &visits);
}

enum rule_level rule_level_of_source(const struct rule_source *source)
{
    enum rule_level level = rule_level_of_sample(source->where);
    if (source->each && level < RULE_LEVEL_STACK)
        level = RULE_LEVEL_STACK;
    for (uint32_t i = 0; i < source->n_labels; i++)
        level = max_of(level, rule_level_of_text(source->labels[i].text));
    return level;
}

const char *rule_level_name(enum rule_level level)
{
    static const char *const names[] = {"always", "frame", "stack", "stack + resource", "sample"};
    return names[level];
}
