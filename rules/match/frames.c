/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames: what the predicates say of one becomes its class.
 *
 * The type of a frame decides most predicates at once ("jvm and symbol.name ~ …" is nothing to a frame of
 * Go's). So there is a plan for each type: which fields the others look at. In such a field a text has a
 * *kind*: the row that its patterns gave it, and the rows of the columns that are made of that text alone.
 * Names are many and kinds are few, so a frame that was never seen is mostly a known combination of kinds,
 * and predicates are evaluated once a combination.
 */
#include <stdlib.h>
#include <string.h>

#include "proto/base/macros.h"
#include "rules/match/parts.h"

int matcher_frame_init(struct rules_matcher *m)
{
    const struct rules_program *p = m->p;
    m->n_root_words = (p->n_roots + 31) / 32 + 1;
    m->plans = calloc(MATCH_PLANS_MAX, sizeof *m->plans);
    m->node_value = calloc(p->nodes.n, sizeof *m->node_value);
    m->node_seen = calloc(p->nodes.n, sizeof *m->node_seen);
    m->column_text = calloc(p->domains.n, sizeof *m->column_text);
    m->frame_cache = calloc(MATCH_FRAME_CACHE, sizeof *m->frame_cache);
    m->root_words = calloc(m->n_root_words, sizeof *m->root_words);
    m->kind_words = calloc(p->domains.n + 2, sizeof *m->kind_words);
    return m->plans && m->node_value && m->node_seen && m->column_text && m->frame_cache && m->root_words &&
                   m->kind_words
               ? 0
               : -1;
}

void matcher_frame_clear(struct rules_matcher *m)
{
    tuples_clear(&m->frame_keys);
    tuples_clear(&m->classes);
    tuples_clear(&m->kinds);
    pairs_clear(&m->more_kinds);
    charged_free(m->budget, &m->key_class, &m->cap_key_class, sizeof *m->key_class);
    charged_free(m->budget, &m->type_plan, &m->cap_type_plan, sizeof *m->type_plan);
    charged_free(m->budget, &m->text_kind, &m->cap_text_kind, sizeof *m->text_kind);
    charged_free(m->budget, &m->plan_columns, &m->cap_plan_columns, sizeof *m->plan_columns);
    memset(m->frame_cache, 0, MATCH_FRAME_CACHE * sizeof *m->frame_cache);
    m->n_plans = m->n_plan_columns = m->none_plan = m->n_types = 0;
}

void matcher_frame_free(struct rules_matcher *m)
{
    free(m->plans);
    free(m->node_value);
    free(m->node_seen);
    free(m->column_text);
    free(m->frame_cache);
    free(m->root_words);
    free(m->kind_words);
}

/* ---- evaluating ------------------------------------------------------------------------------ */

void matcher_frame_start(struct rules_matcher *m)
{
    memset(m->node_value, 0, m->p->nodes.n);
    for (uint32_t i = 0; i < m->p->domains.n; i++)
        m->column_text[i] = MATCH_UNKNOWN;
}

uint32_t matcher_frame_field(struct rules_matcher *m, struct frame_eval *fe, uint32_t field)
{
    if (!(fe->have & 1u << field)) {
        fe->sid[field] = fe->asker->field(fe->asker->context, fe->frame, (enum rule_field)field);
        fe->have |= 1u << field;
    }
    return fe->sid[field];
}

/* The text of a pure frame table's column for this frame. */
uint32_t matcher_column(struct rules_matcher *m, struct frame_eval *fe, uint32_t ftable, uint32_t column)
{
    const struct lower_ftable *t = &m->p->ftables.p[ftable];
    const struct rule_row *otherwise = NULL, *taken = NULL;
    for (uint32_t i = 0; i < t->source->n_rows && !taken; i++) {
        uint32_t node = m->p->kids.p[t->nodes + i];
        if (node == LOWER_NONE)
            otherwise = otherwise ? otherwise : &t->source->rows[i];
        else if (matcher_node(m, fe, node))
            taken = &t->source->rows[i];
    }
    taken = taken ? taken : otherwise;
    if (!taken || !taken->cells[column])
        return RULES_NONE;
    return matcher_pure_text(m, fe, taken->cells[column]);
}

static uint32_t domain_text(struct rules_matcher *m, struct frame_eval *fe, uint32_t domain)
{
    if (domain < LOWER_FIELDS)
        return matcher_frame_field(m, fe, domain);
    if (m->column_text[domain] == MATCH_UNKNOWN) {
        const struct lower_domain *d = &m->p->domains.p[domain];
        m->column_text[domain] = matcher_column(m, fe, d->ftable, d->column);
    }
    return m->column_text[domain];
}

bool matcher_node(struct rules_matcher *m, struct frame_eval *fe, uint32_t node)
{
    if (m->node_value[node] != 0)
        return m->node_value[node] == 2;
    const struct lower_node *n = &m->p->nodes.p[node];
    bool v = true;
    switch (n->op) {
    case NODE_TRUE: break;
    case NODE_AND:
        for (uint32_t i = 0; i < n->b && v; i++)
            v = matcher_node(m, fe, m->p->kids.p[n->a + i]);
        break;
    case NODE_OR:
        v = false;
        for (uint32_t i = 0; i < n->b && !v; i++)
            v = matcher_node(m, fe, m->p->kids.p[n->a + i]);
        break;
    case NODE_NOT: v = !matcher_node(m, fe, n->a); break;
    case NODE_MATCH: v = matcher_string_bit(m, n->a, domain_text(m, fe, n->a), n->b); break;
    case NODE_PRESENT: v = domain_text(m, fe, n->a) != RULES_NONE; break;
    case NODE_INLINED: v = fe->asker ? fe->asker->inlined(fe->asker->context, fe->frame) : fe->inlined; break;
    }
    m->node_value[node] = v ? 2 : 1;
    return v;
}

static uint32_t type_number(struct rules_matcher *m, uint32_t type)
{
    if (type == RULES_NONE)
        return MATCH_TYPE_NONE;
    for (uint32_t i = 0; i < m->n_types; i++)
        if (m->types[i] == type)
            return i;
    if (m->n_types == MATCH_TYPE_NONE)
        return MATCH_TYPE_MORE;
    m->types[m->n_types] = type;
    return m->n_types++;
}

static uint32_t evaluate_frame(struct rules_matcher *m, const struct rules_frame *frame)
{
    struct frame_eval fe = {.have = (1u << RULES_FIELDS) - 1, .inlined = frame->inlined};
    memcpy(fe.sid, frame->field, sizeof fe.sid);
    matcher_frame_start(m);
    memset(m->root_words, 0, m->n_root_words * sizeof *m->root_words);
    for (uint32_t i = 0; i < m->p->nodes.n; i++) {
        uint32_t root = m->p->nodes.p[i].root;
        if (root != LOWER_NONE && matcher_node(m, &fe, i))
            state_set(m->root_words, root);
    }
    if (m->p->any_by_type)
        m->root_words[m->n_root_words - 1] = type_number(m, frame->field[RULE_FIELD_TYPE]);
    return tuples_add(&m->classes, m->root_words, m->n_root_words);
}

/* ---- kinds ----------------------------------------------------------------------------------- */

static uint32_t make_kind(struct rules_matcher *m, const struct frame_plan *plan, uint32_t field,
                          uint32_t type, uint32_t string)
{
    struct frame_eval fe = {.have = (1u << RULES_FIELDS) - 1};
    uint32_t *words = m->kind_words, n = 0;
    words[n++] = plan->number * RULES_FIELDS + field;
    words[n++] = plan->asked & 1u << field ? matcher_string_class(m, field, string) : 0;
    if (plan->n_columns[field] > 0) {
        memset(fe.sid, 0xff, sizeof fe.sid); /* the others do not matter to these columns */
        fe.sid[RULE_FIELD_TYPE] = type;
        fe.sid[field] = string;
        matcher_frame_start(m);
    }
    for (uint32_t i = 0; i < plan->n_columns[field]; i++) {
        uint32_t domain = m->plan_columns[plan->columns_at[field] + i];
        const struct lower_domain *d = &m->p->domains.p[domain];
        words[n++] = matcher_string_class(m, domain, matcher_column(m, &fe, d->ftable, d->column));
    }
    uint32_t kind = m->error == 0 ? tuples_add(&m->kinds, words, n) : TUPLES_NONE;
    return kind == TUPLES_NONE ? matcher_oom(m) : kind;
}

/* A text is of one field in frames of one type, mostly: that kind is beside it, the others in a table. */
static __attribute__((noinline)) uint32_t find_kind(struct rules_matcher *m, struct frame_plan *plan,
                                                    uint32_t field, uint32_t type, uint32_t string)
{
    uint32_t where = plan->number * RULES_FIELDS + field + 1, was = m->cap_text_kind, kind;
    if (string == RULES_NONE) {
        kind = make_kind(m, plan, field, type, string);
        plan->none_kind[field] = kind == RULES_NONE ? 0 : kind + 1;
        return kind;
    }
    if (charged_grow(m->budget, &m->text_kind, &m->cap_text_kind, string + 1, sizeof *m->text_kind) < 0)
        return matcher_oom(m);
    memset(m->text_kind + was, 0, (m->cap_text_kind - was) * sizeof *m->text_kind);
    if (pairs_find(&m->more_kinds, pair_key(where, string), &kind))
        return kind;
    kind = make_kind(m, plan, field, type, string);
    if (kind == RULES_NONE)
        return kind;
    if (m->text_kind[string].where == 0)
        m->text_kind[string] = (struct text_kind){where, kind, 0};
    else if (pairs_set(&m->more_kinds, pair_key(where, string), kind) < 0)
        return matcher_oom(m);
    return kind;
}

static inline uint32_t kind_of(struct rules_matcher *m, struct frame_plan *plan, uint32_t field,
                               uint32_t type, uint32_t string)
{
    if (string < m->cap_text_kind &&
        likely(m->text_kind[string].where == plan->number * RULES_FIELDS + field + 1))
        return m->text_kind[string].kind;
    if (string == RULES_NONE && likely(plan->none_kind[field] != 0))
        return plan->none_kind[field] - 1;
    return find_kind(m, plan, field, type, string);
}

/* ---- classes --------------------------------------------------------------------------------- */

static uint32_t frame_by_table(struct rules_matcher *m, const struct rules_frame *frame, const uint32_t *key,
                               uint32_t n)
{
    uint32_t id = tuples_add(&m->frame_keys, key, n);
    if (likely(id < m->cap_key_class && m->key_class[id] != 0))
        return m->key_class[id] - 1;
    uint32_t cap = m->cap_key_class;
    if (id == TUPLES_NONE ||
        charged_grow(m->budget, &m->key_class, &m->cap_key_class, id + 1, sizeof *m->key_class) < 0) {
        matcher_oom(m);
        return 0;
    }
    memset(m->key_class + cap, 0, (m->cap_key_class - cap) * sizeof *m->key_class);
    uint32_t class = evaluate_frame(m, frame);
    if (class == TUPLES_NONE || m->error < 0) {
        matcher_oom(m);
        return 0;
    }
    m->key_class[id] = class + 1;
    return class;
}

/* By its very texts: where kinds say too little, or there is no plan. */
static __attribute__((noinline)) uint32_t frame_by_texts(struct rules_matcher *m, uint32_t fields,
                                                         const struct rules_frame *frame)
{
    uint32_t key[RULES_FIELDS + 3], n = 0;
    key[n++] = UINT32_MAX; /* no plan's number */
    key[n++] = frame->field[RULE_FIELD_TYPE];
    key[n++] = frame->inlined;
    for (uint32_t left = fields; left; left &= left - 1)
        key[n++] = frame->field[__builtin_ctz(left)];
    return m->error == 0 ? frame_by_table(m, frame, key, n) : 0;
}

static __attribute__((noinline)) uint32_t text_by_frame(struct rules_matcher *m, uint32_t type,
                                                        enum rule_field field, uint32_t string)
{
    struct rules_frame frame;
    memset(frame.field, 0xff, sizeof frame.field);
    frame.field[RULE_FIELD_TYPE] = type;
    frame.field[field] = string;
    frame.inlined = false;
    uint32_t class = rules_matcher_frame(m, &frame);
    const struct frame_plan *plan = matcher_plan(m, type);
    if (m->error == 0 && plan && plan->fields == 1u << field && string < m->cap_text_kind &&
        m->text_kind[string].where == plan->number * RULES_FIELDS + (uint32_t)field + 1)
        m->text_kind[string].class = class + 1;
    return class;
}

/* Where one field decides, a text's class is beside its kind. */
uint32_t rules_matcher_frame_text(struct rules_matcher *m, uint32_t type, enum rule_field field,
                                  uint32_t string)
{
    if (likely(string < m->cap_text_kind && type < m->cap_type_plan && m->type_plan[type] != 0)) {
        const struct text_kind *text = &m->text_kind[string];
        if (likely(text->class != 0 &&
                   text->where == (m->type_plan[type] - 1) * RULES_FIELDS + (uint32_t)field + 1))
            return text->class - 1;
    }
    return text_by_frame(m, type, field, string);
}

uint32_t rules_matcher_frame(struct rules_matcher *m, const struct rules_frame *frame)
{
    uint32_t type = frame->field[RULE_FIELD_TYPE], key[RULES_FIELDS + MATCH_KEY_MAX], n = 0;
    struct frame_plan *plan = matcher_plan(m, type);
    if (unlikely(!plan || plan->by_text))
        return frame_by_texts(m, plan ? plan->fields : m->p->key_fields, frame);
    key[n++] = plan->number << 1 | frame->inlined;
    for (uint32_t left = plan->fields; left; left &= left - 1) {
        uint32_t field = (uint32_t)__builtin_ctz(left);
        key[n++] = kind_of(m, plan, field, type, frame->field[field]);
    }
    if (unlikely(m->error < 0))
        return 0;
    if (n > MATCH_KEY_MAX)
        return frame_by_table(m, frame, key, n);
    while (n < MATCH_KEY_MAX)
        key[n++] = 0;
    uint64_t mixed = (key[0] * 0x9e3779b97f4a7c15u) ^ (key[1] * 0xd6e8feb86659fd93u) ^
                     (key[2] * 0xc2b2ae3d27d4eb4fu) ^ (key[3] * 0x165667b19e3779f9u);
    struct frame_slot *slot = &m->frame_cache[mixed >> 54]; /* the high bits: MATCH_FRAME_CACHE of them */
    /* word by word: a wide compare would wait for the words just stored */
    if (likely(slot->class != 0 && slot->key[0] == key[0] && slot->key[1] == key[1] &&
               slot->key[2] == key[2] && slot->key[3] == key[3]))
        return slot->class - 1;
    uint32_t class = frame_by_table(m, frame, key, n);
    if (m->error == 0) {
        memcpy(slot->key, key, sizeof slot->key);
        slot->class = class + 1;
    }
    return class;
}
