#include "rules/match.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "proto/base/hash.h"
#include "proto/base/macros.h"
#include "rules/match_parts.h"

/* ---- life
 * ------------------------------------------------------------------------------------------------------ */

uint32_t matcher_oom(struct rules_matcher *m)
{
    m->error = -ENOMEM;
    return RULES_NONE;
}

/* Forgets everything that was learnt. */
static void forget(struct rules_matcher *m)
{
    matcher_outcome_clear(m);
    matcher_stack_clear(m);
    tuples_clear(&m->frame_keys);
    tuples_clear(&m->classes);
    charged_free(m->budget, &m->type_fields, &m->cap_type_fields, sizeof *m->type_fields);
    m->none_fields = 0;
    charged_free(m->budget, &m->key_class, &m->cap_key_class, sizeof *m->key_class);
    for (uint32_t i = 0; i < m->p->domains.n; i++) {
        charged_free(m->budget, &m->domain[i].of, &m->domain[i].cap, sizeof *m->domain[i].of);
        tuples_clear(&m->domain[i].rows);
    }
    charged_free(m->budget, &m->string_slot, &m->n_string_slots, sizeof *m->string_slot);
    charged_free(m->budget, &m->text, &m->cap_text, sizeof *m->text);
    charged_free(m->budget, &m->library, &m->cap_library, sizeof *m->library);
    arena_release(&m->text_arena);
    memset(m->frame_cache, 0, MATCH_FRAME_CACHE * sizeof *m->frame_cache);
    m->n_strings = m->n_types = 0;
    m->string_bytes = 0;
    m->epoch++;
}

struct rules_matcher *rules_matcher_new(const struct rules_program *p, struct budget *budget)
{
    struct rules_matcher *m = calloc(1, sizeof *m);
    if (!m)
        return NULL;
    m->p = p;
    m->budget = budget;
    m->seed = hash_seed();
    m->text_arena.budget = budget;
    struct tuples *tuples[] = {&m->frame_keys, &m->classes, &m->states,      &m->specs,
                               &m->actives,    &m->series,  &m->keep_actives};
    struct pairs *pairs[] = {&m->captures, &m->children,   &m->roots,     &m->each_roots,
                             &m->alone,    &m->keep_alone, &m->keep_roots};
    for (size_t i = 0; i < ARRAY_LEN(tuples); i++)
        tuples[i]->budget = budget;
    for (size_t i = 0; i < ARRAY_LEN(pairs); i++)
        pairs[i]->budget = budget;

    uint32_t widest = 1;
    for (uint32_t i = 0; i < p->domains.n; i++)
        widest = max_of(widest, p->domains.p[i].words);
    m->n_root_words = (p->n_roots + 31) / 32 + 1;
    m->n_state_words = (p->n_bits + 31) / 32;
    m->row = calloc(widest, sizeof *m->row);
    m->domain = calloc(p->domains.n, sizeof *m->domain);
    m->node_value = calloc(p->nodes.n, sizeof *m->node_value);
    m->column_text = calloc(p->domains.n, sizeof *m->column_text);
    m->frame_cache = calloc(MATCH_FRAME_CACHE, sizeof *m->frame_cache);
    m->root_words = calloc(m->n_root_words, sizeof *m->root_words);
    m->step_words = calloc(m->n_state_words, sizeof *m->step_words);
    m->step_actions = calloc(2 * p->facts.n + p->n_regs + p->eaches.n + 1, sizeof *m->step_actions);
    m->in_region = calloc(p->regions.n, sizeof *m->in_region);
    if (!m->row || !m->domain || !m->node_value || !m->column_text || !m->frame_cache || !m->root_words ||
        !m->step_words || !m->step_actions || !m->in_region ||
        pattern_scratch_init(&m->scratch, p->atoms_max) < 0)
        return rules_matcher_free(m);
    for (uint32_t i = 0; i < p->domains.n; i++)
        m->domain[i].rows.budget = budget;
    m->epoch = 1;
    return m;
}

struct rules_matcher *rules_matcher_free(struct rules_matcher *m)
{
    if (!m)
        return NULL;
    if (m->domain && m->frame_cache)
        forget(m);
    pattern_scratch_release(&m->scratch);
    free(m->row);
    free(m->domain);
    free(m->node_value);
    free(m->column_text);
    free(m->frame_cache);
    free(m->root_words);
    free(m->step_words);
    free(m->step_actions);
    free(m->in_region);
    free(m);
    return NULL;
}

void rules_matcher_begin(struct rules_matcher *m)
{
    bool full = m->n_strings > RULES_STRINGS_MAX || m->string_bytes > RULES_STRING_BYTES_MAX ||
                m->classes.n > RULES_CLASSES_MAX || m->frame_keys.n > RULES_STRINGS_MAX ||
                m->n_nodes > RULES_PATHS_MAX || m->n_outcomes > RULES_PATHS_MAX ||
                m->n_entries > 4 * RULES_PATHS_MAX || m->n_kept > RULES_PATHS_MAX ||
                m->n_kept_rates > 4 * RULES_PATHS_MAX;
    if (full || m->error < 0) {
        forget(m);
        m->resets++;
    }
    m->error = 0;
}

uint32_t rules_matcher_epoch(const struct rules_matcher *m)
{
    return m->epoch;
}

int rules_matcher_error(const struct rules_matcher *m)
{
    return m->error;
}

struct rules_matcher_figures rules_matcher_figures(const struct rules_matcher *m)
{
    return (struct rules_matcher_figures){.strings = m->n_strings,
                                          .resets = m->resets,
                                          .regex_gave_up = m->scratch.regex.gave_up,
                                          .states = m->states.n,
                                          .classes = m->classes.n,
                                          .outcomes = m->n_outcomes};
}

/* ---- strings
 * --------------------------------------------------------------------------------------------------- */

static int grow_string_slots(struct rules_matcher *m)
{
    struct string_slot *slot = NULL;
    uint32_t n = 0;
    if (charged_grow(m->budget, &slot, &n, m->n_string_slots ? m->n_string_slots * 2 : 1024, sizeof *slot) <
        0)
        return -ENOMEM;
    memset(slot, 0, n * sizeof *slot);
    for (uint32_t i = 0; i < m->n_string_slots; i++) {
        if (m->string_slot[i].id == 0)
            continue;
        uint32_t j = (uint32_t)m->string_slot[i].hash & (n - 1);
        while (slot[j].id != 0)
            j = (j + 1) & (n - 1);
        slot[j] = m->string_slot[i];
    }
    charged_free(m->budget, &m->string_slot, &m->n_string_slots, sizeof *slot);
    m->string_slot = slot;
    m->n_string_slots = n;
    return 0;
}

static uint32_t keep_string(struct rules_matcher *m, struct bytes text)
{
    uint32_t id = m->n_strings;
    if (charged_grow(m->budget, &m->text, &m->cap_text, id + 1, sizeof *m->text) < 0 ||
        charged_grow(m->budget, &m->library, &m->cap_library, id + 1, sizeof *m->library) < 0)
        return matcher_oom(m);
    struct bytes copy = arena_copy(&m->text_arena, text);
    if (!copy.p)
        return matcher_oom(m);
    m->text[id] = copy;
    m->library[id] = 0;
    m->string_bytes += text.n + sizeof copy;
    m->n_strings++;
    return id;
}

uint32_t rules_matcher_string(struct rules_matcher *m, struct bytes text)
{
    if (unlikely((uint64_t)(m->n_strings + 1) * 2 > m->n_string_slots) && grow_string_slots(m) < 0)
        return matcher_oom(m);
    uint64_t h = hash_bytes(text, m->seed);
    uint32_t mask = m->n_string_slots - 1, i = (uint32_t)h & mask;
    for (; m->string_slot[i].id != 0; i = (i + 1) & mask)
        if (m->string_slot[i].hash == h && m->string_slot[i].length == (uint32_t)text.n)
            return m->string_slot[i].id - 1;
    uint32_t id = keep_string(m, text);
    if (id != RULES_NONE)
        m->string_slot[i] = (struct string_slot){h, (uint32_t)text.n, id + 1};
    return id;
}

struct bytes rules_matcher_text(const struct rules_matcher *m, uint32_t string)
{
    return m->text[string];
}

uint32_t rules_matcher_library(struct rules_matcher *m, uint32_t mapping)
{
    if (mapping == RULES_NONE)
        return RULES_NONE;
    if (m->library[mapping] == 0) {
        uint32_t library = rules_matcher_string(m, bytes_after_last(m->text[mapping], '/'));
        if (library == RULES_NONE)
            return RULES_NONE;
        m->library[mapping] = library + 1;
    }
    return m->library[mapping] - 1;
}

static uint32_t classify_string(struct rules_matcher *m, uint32_t domain, uint32_t string)
{
    struct string_class *c = &m->domain[domain];
    const struct lower_domain *d = &m->p->domains.p[domain];
    uint32_t cap = c->cap;
    if (charged_grow(m->budget, &c->of, &c->cap, string + 1, sizeof *c->of) < 0) {
        matcher_oom(m);
        return 0;
    }
    memset(c->of + cap, 0, (c->cap - cap) * sizeof *c->of);
    if (c->of[string] != 0)
        return c->of[string];
    m->row[0] = 0;
    if (d->set)
        pattern_set_match(d->set, &m->scratch, m->text[string], m->row);
    uint32_t row = tuples_add(&c->rows, (const uint32_t *)m->row, 2 * d->words);
    if (row == TUPLES_NONE) {
        matcher_oom(m);
        return 0;
    }
    return c->of[string] = row + 1;
}

uint32_t matcher_string_class(struct rules_matcher *m, uint32_t domain, uint32_t string)
{
    const struct string_class *c = &m->domain[domain];
    if (string == RULES_NONE)
        return 0;
    if (likely(string < c->cap && c->of[string] != 0))
        return c->of[string];
    return classify_string(m, domain, string);
}

bool matcher_string_bit(struct rules_matcher *m, uint32_t domain, uint32_t string, uint32_t bit)
{
    uint32_t class = matcher_string_class(m, domain, string);
    if (class == 0 || !m->p->domains.p[domain].set)
        return false;
    return tuples_get(&m->domain[domain].rows, class - 1)[bit / 32] >> (bit % 32) & 1;
}

/* ---- frames
 * ---------------------------------------------------------------------------------------------------- */

uint32_t rules_program_fields(const struct rules_program *p)
{
    return p->key_fields;
}

bool rules_program_wants_inlined(const struct rules_program *p)
{
    for (uint32_t i = 0; i < p->nodes.n; i++)
        if (p->nodes.p[i].op == NODE_INLINED)
            return true;
    return false;
}

uint32_t rules_matcher_text_class(struct rules_matcher *m, enum rule_field field, uint32_t string)
{
    if (m->p->cell_fields & 1u << field)
        return RULES_NONE;
    uint32_t class = matcher_string_class(m, (uint32_t)field, string);
    return likely(m->error == 0) ? class : RULES_NONE;
}

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

/* What the predicates can say knowing only the type. */
enum partial { NO, YES, OPEN };

/* `fields` collects what open predicates look at. */
static enum partial partial_node(struct rules_matcher *m, uint32_t node, uint32_t type, uint32_t *fields)
{
    const struct lower_node *n = &m->p->nodes.p[node];
    uint32_t own = 0;
    enum partial v = OPEN, kid;
    switch (n->op) {
    case NODE_TRUE: return YES;
    case NODE_NOT:
        kid = partial_node(m, n->a, type, fields);
        return kid == OPEN ? OPEN : kid == YES ? NO : YES;
    case NODE_AND:
    case NODE_OR:
        v = n->op == NODE_AND ? YES : NO;
        for (uint32_t i = 0; i < n->b; i++) {
            kid = partial_node(m, m->p->kids.p[n->a + i], type, &own);
            if (kid == (n->op == NODE_AND ? NO : YES))
                return kid; /* whatever the others say */
            v = kid == OPEN ? OPEN : v;
        }
        break;
    case NODE_MATCH:
    case NODE_PRESENT:
        if (n->a == RULE_FIELD_TYPE)
            return (n->op == NODE_PRESENT ? type != RULES_NONE : matcher_string_bit(m, n->a, type, n->b))
                       ? YES
                       : NO;
        own = n->a < LOWER_FIELDS ? 1u << n->a : m->p->key_fields;
        break;
    case NODE_INLINED: break; /* in every key */
    }
    *fields |= v == OPEN ? own : 0;
    return v;
}

uint32_t rules_matcher_fields(struct rules_matcher *m, uint32_t type)
{
    uint32_t *at = &m->none_fields, was = m->cap_type_fields;
    if (type != RULES_NONE) {
        if (charged_grow(m->budget, &m->type_fields, &m->cap_type_fields, type + 1, sizeof *at) < 0) {
            matcher_oom(m);
            return m->p->key_fields;
        }
        memset(m->type_fields + was, 0, (m->cap_type_fields - was) * sizeof *at);
        at = &m->type_fields[type];
    }
    if (*at == 0) {
        uint32_t fields = m->p->key_fields & 1u << RULE_FIELD_TYPE;
        for (uint32_t i = 0; i < m->p->nodes.n; i++)
            if (m->p->nodes.p[i].root != LOWER_NONE)
                partial_node(m, i, type, &fields);
        *at = fields | 1u << 31;
    }
    return *at & ~(1u << 31);
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

uint32_t rules_matcher_frame(struct rules_matcher *m, const struct rules_frame *frame)
{
    uint32_t key[RULES_FIELDS + 1], n = 0;
    for (uint32_t left = m->p->key_fields; left; left &= left - 1) {
        uint32_t f = (uint32_t)__builtin_ctz(left);
        key[n++] =
            m->p->cell_fields & 1u << f ? frame->field[f] : matcher_string_class(m, f, frame->field[f]);
    }
    key[n++] = frame->inlined;
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
