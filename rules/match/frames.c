/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames: what the predicates say of one becomes its class.
 *
 * The type of a frame decides most predicates at once ("jvm and symbol.name ~ …" is nothing to a frame of
 * Go's). So there is a plan for each type: which fields the others look at. In such a field a text has a
 * *kind*: the row that its patterns gave it, and the rows of the columns that are made of that text alone.
 * Names are many and kinds are few, so a frame that was never seen is mostly a known combination of kinds,
 * and predicates are evaluated once a combination.
 *
 *     frame → its type's plan → the kinds of the fields it names → key → class
 */
#include "rules/match/frames.h"

#include <stdlib.h>
#include <string.h>

#include "proto/base/macros.h"
#include "rules/match/bits.h"

int match_frames_init(struct match_frames *f, struct match_strings *strings)
{
    const struct rules_program *p = strings->p;
    struct budget *budget = strings->memory->budget;
    f->p = p;
    f->memory = strings->memory;
    f->strings = strings;
    tuples_init(&f->keys, budget);
    tuples_init(&f->kinds, budget);
    tuples_init(&f->classes, budget);
    f->key_class.budget = f->text.budget = f->more_kinds.budget = budget;
    f->n_class_words = (p->n_roots + 31) / 32 + 1;
    f->recent = calloc(MATCH_RECENT_FRAMES, sizeof *f->recent);
    f->words = calloc(max_of(f->n_class_words, p->domains.n + 2), sizeof *f->words);
    if (match_predicates_init(&f->predicates, strings) < 0 || match_plans_init(&f->plans, strings) < 0)
        return -ENOMEM;
    return f->recent && f->words ? 0 : -ENOMEM;
}

void match_frames_clear(struct match_frames *f)
{
    match_plans_clear(&f->plans);
    tuples_clear(&f->keys);
    tuples_clear(&f->kinds);
    tuples_clear(&f->classes);
    idmap_release(&f->more_kinds);
    vec_release(&f->key_class);
    vec_release(&f->text);
    if (f->recent)
        memset(f->recent, 0, MATCH_RECENT_FRAMES * sizeof *f->recent);
    f->n_types = 0;
}

void match_frames_release(struct match_frames *f)
{
    match_frames_clear(f);
    match_plans_release(&f->plans);
    match_predicates_release(&f->predicates);
    free(f->recent);
    free(f->words);
}

bool match_frames_full(const struct match_frames *f)
{
    return f->classes.n > RULES_CLASSES_MAX || f->keys.n > RULES_STRINGS_MAX ||
           f->kinds.n > RULES_STRINGS_MAX || f->more_kinds.n > 2 * RULES_STRINGS_MAX;
}

uint32_t match_frames_fields(struct match_frames *f, uint32_t type)
{
    const struct frame_plan *plan = match_plan(&f->plans, type);
    return plan ? plan->fields | (f->p->key_fields & 1u << RULE_FIELD_TYPE) : f->p->key_fields;
}

/* ---- evaluating ------------------------------------------------------------------------------ */

static uint32_t type_number(struct match_frames *f, uint32_t type)
{
    if (type == RULES_NONE)
        return MATCH_TYPE_NONE;
    for (uint32_t i = 0; i < f->n_types; i++)
        if (f->types[i] == type)
            return i;
    if (f->n_types == MATCH_TYPE_NONE)
        return MATCH_TYPE_MORE;
    f->types[f->n_types] = type;
    return f->n_types++;
}

static uint32_t evaluate(struct match_frames *f, const struct rules_frame *frame)
{
    struct frame_eval fe = {.have = (1u << RULES_FIELDS) - 1, .inlined = frame->inlined};
    memcpy(fe.sid, frame->field, sizeof fe.sid);
    match_predicates_start(&f->predicates);
    memset(f->words, 0, f->n_class_words * sizeof *f->words);
    for (uint32_t i = 0; i < f->p->nodes.n; i++) {
        uint32_t root = f->p->nodes.p[i].root;
        if (root != LOWER_NONE && match_predicates_holds(&f->predicates, &fe, i))
            bits_set(f->words, root);
    }
    if (f->p->any_by_type)
        f->words[f->n_class_words - 1] = type_number(f, frame->field[RULE_FIELD_TYPE]);
    return tuples_add(&f->classes, f->words, f->n_class_words);
}

/* ---- kinds ----------------------------------------------------------------------------------- */

static uint32_t make_kind(struct match_frames *f, const struct frame_plan *plan, uint32_t field,
                          uint32_t type, uint32_t string)
{
    struct frame_eval fe = {.have = (1u << RULES_FIELDS) - 1};
    uint32_t *words = f->words, n = 0;
    words[n++] = plan->number * RULES_FIELDS + field;
    words[n++] = plan->asked & 1u << field ? match_strings_class(f->strings, field, string) : 0;
    if (plan->n_columns[field] > 0) {
        memset(fe.sid, 0xff, sizeof fe.sid); /* the others do not matter to these columns */
        fe.sid[RULE_FIELD_TYPE] = type;
        fe.sid[field] = string;
        match_predicates_start(&f->predicates);
    }
    for (uint32_t i = 0; i < plan->n_columns[field]; i++) {
        uint32_t domain = f->plans.columns.p[plan->columns_at[field] + i];
        const struct lower_domain *d = &f->p->domains.p[domain];
        uint32_t text = match_predicates_column(&f->predicates, &fe, d->ftable, d->column);
        words[n++] = match_strings_class(f->strings, domain, text);
    }
    uint32_t kind = f->memory->error == 0 ? tuples_add(&f->kinds, words, n) : TUPLES_NONE;
    return kind == TUPLES_NONE ? match_memory_out(f->memory) : kind;
}

/* A text is of one field in frames of one type, mostly: that kind is beside it, the others in a table. */
static __attribute__((noinline)) uint32_t find_kind(struct match_frames *f, struct frame_plan *plan,
                                                    uint32_t field, uint32_t type, uint32_t string)
{
    uint32_t where = plan->number * RULES_FIELDS + field + 1, kind;
    const uint32_t *known;
    if (string == RULES_NONE) {
        kind = make_kind(f, plan, field, type, string);
        plan->none_kind[field] = kind == RULES_NONE ? 0 : kind + 1;
        return kind;
    }
    if (vec_extend(&f->text, string + 1) < 0)
        return match_memory_out(f->memory);
    if ((known = idmap_find(&f->more_kinds, idmap_key(where, string))))
        return *known;
    kind = make_kind(f, plan, field, type, string);
    if (kind == RULES_NONE)
        return kind;
    if (f->text.p[string].where == 0)
        f->text.p[string] = (struct text_kind){where, kind, 0};
    else if (!idmap_place(&f->more_kinds, idmap_key(where, string), kind))
        return match_memory_out(f->memory);
    return kind;
}

static inline uint32_t kind_of(struct match_frames *f, struct frame_plan *plan, uint32_t field, uint32_t type,
                               uint32_t string)
{
    if (string < f->text.n && likely(f->text.p[string].where == plan->number * RULES_FIELDS + field + 1))
        return f->text.p[string].kind;
    if (string == RULES_NONE && likely(plan->none_kind[field] != 0))
        return plan->none_kind[field] - 1;
    return find_kind(f, plan, field, type, string);
}

/* ---- classes --------------------------------------------------------------------------------- */

static uint32_t by_key(struct match_frames *f, const struct rules_frame *frame, const uint32_t *key,
                       uint32_t n)
{
    uint32_t id = tuples_add(&f->keys, key, n);
    if (likely(id < f->key_class.n && f->key_class.p[id] != 0))
        return f->key_class.p[id] - 1;
    uint32_t class = TUPLES_NONE;
    if (id != TUPLES_NONE && vec_extend(&f->key_class, id + 1) == 0)
        class = evaluate(f, frame);
    if (class == TUPLES_NONE || f->memory->error < 0) {
        match_memory_out(f->memory);
        return 0;
    }
    f->key_class.p[id] = class + 1;
    return class;
}

/* By its very texts: where kinds say too little, or there is no plan. */
static __attribute__((noinline)) uint32_t by_texts(struct match_frames *f, uint32_t fields,
                                                   const struct rules_frame *frame)
{
    uint32_t key[RULES_FIELDS + 3], n = 0;
    key[n++] = UINT32_MAX; /* no plan's number */
    key[n++] = frame->field[RULE_FIELD_TYPE];
    key[n++] = frame->inlined;
    for (uint32_t left = fields; left; left &= left - 1)
        key[n++] = frame->field[__builtin_ctz(left)];
    return f->memory->error == 0 ? by_key(f, frame, key, n) : 0;
}

uint32_t match_frames_class(struct match_frames *f, const struct rules_frame *frame)
{
    uint32_t type = frame->field[RULE_FIELD_TYPE], key[RULES_FIELDS + MATCH_KEY_MAX], n = 0;
    struct frame_plan *plan = match_plan(&f->plans, type);
    if (unlikely(!plan || plan->by_text))
        return by_texts(f, plan ? plan->fields : f->p->key_fields, frame);
    key[n++] = plan->number << 1 | frame->inlined;
    for (uint32_t left = plan->fields; left; left &= left - 1) {
        uint32_t field = (uint32_t)__builtin_ctz(left);
        key[n++] = kind_of(f, plan, field, type, frame->field[field]);
    }
    if (unlikely(f->memory->error < 0))
        return 0;
    if (n > MATCH_KEY_MAX)
        return by_key(f, frame, key, n);
    while (n < MATCH_KEY_MAX)
        key[n++] = 0;
    uint64_t mixed = (key[0] * 0x9e3779b97f4a7c15u) ^ (key[1] * 0xd6e8feb86659fd93u) ^
                     (key[2] * 0xc2b2ae3d27d4eb4fu) ^ (key[3] * 0x165667b19e3779f9u);
    struct recent_frame *recent = &f->recent[mixed >> 54]; /* the high bits: MATCH_RECENT_FRAMES of them */
    /* word by word: a wide compare would wait for the words just stored */
    if (likely(recent->class != 0 && recent->key[0] == key[0] && recent->key[1] == key[1] &&
               recent->key[2] == key[2] && recent->key[3] == key[3]))
        return recent->class - 1;
    uint32_t class = by_key(f, frame, key, n);
    if (f->memory->error == 0) {
        memcpy(recent->key, key, sizeof recent->key);
        recent->class = class + 1;
    }
    return class;
}

uint32_t match_frames_find_text(struct match_frames *f, uint32_t type, enum rule_field field, uint32_t string)
{
    struct rules_frame frame;
    memset(frame.field, 0xff, sizeof frame.field);
    frame.field[RULE_FIELD_TYPE] = type;
    frame.field[field] = string;
    frame.inlined = false;
    uint32_t class = match_frames_class(f, &frame);
    const struct frame_plan *plan = match_plan(&f->plans, type);
    if (f->memory->error == 0 && plan && plan->fields == 1u << field && string < f->text.n &&
        f->text.p[string].where == plan->number * RULES_FIELDS + (uint32_t)field + 1)
        f->text.p[string].class = class + 1;
    return class;
}
