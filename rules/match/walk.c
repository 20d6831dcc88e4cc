/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stack automaton: one walk from leaf to root answers every region, fact, chain and table at once.
 *
 * A state is a tuple of bits (rules/program/lowered.h). A transition is computed by step() the first time a
 * (state, frame class) pair is met and stored in a dense table; nearly every frame of a long stack leaves the
 * state as it is, so the common step is one load and a well-predicted branch. When the table is full it is
 * emptied in the middle of whatever happens: the current state is entered anew and the walk goes on. So
 * memory is bounded and no answer ever changes.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "proto/base/macros.h"
#include "rules/match/parts.h"

enum { PHASE_BEFORE, PHASE_IN, PHASE_DONE };
/* A cell: the frame changes nothing; not computed yet; else a transition's number + CELL_FIRST. */
#define CELL_STAY    0u
#define CELL_FIRST   1u
#define CELL_UNKNOWN UINT32_MAX

#define STRIDE_MIN 256u

uint32_t rules_matcher_generation(const struct rules_matcher *m)
{
    return m->generation;
}

void matcher_stack_clear(struct rules_matcher *m)
{
    tuples_clear(&m->states);
    charged_free(m->budget, &m->cells, &m->cap_cells, sizeof *m->cells);
    charged_free(m->budget, &m->absorbing, &m->cap_absorbing, sizeof *m->absorbing);
    charged_free(m->budget, &m->state_root, &m->cap_state_root, sizeof *m->state_root);
    charged_free(m->budget, &m->transitions, &m->cap_transitions, sizeof *m->transitions);
    charged_free(m->budget, &m->actions, &m->cap_actions, sizeof *m->actions);
    charged_free(m->budget, &m->list, &m->cap_list, sizeof *m->list);
    m->n_transitions = m->n_actions = m->n_list = m->stride = 0;
    matcher_roots_clear(m); /* outcomes are found by state, and so is what is kept */
    pairs_clear(&m->keep_roots);
    m->generation++;
}

/* ---- one step -------------------------------------------------------------------------------- */

struct step {
    struct rules_matcher *m;
    uint32_t *words;      /* the state, being changed */
    const uint32_t *bits; /* the frame class */
};

static bool holds(const struct step *s, uint32_t node)
{
    return state_bit(s->bits, s->m->p->nodes.p[node].root);
}

static void act(const struct step *s, uint32_t action)
{
    s->m->step_actions[s->m->n_step_actions++] = action;
}

static void put_phase(uint32_t *words, uint32_t bit, uint32_t phase)
{
    state_clear(words, bit);
    state_clear(words, bit + 1);
    if (phase & 1)
        state_set(words, bit);
    if (phase & 2)
        state_set(words, bit + 1);
}

static void step_regions(struct step *s)
{
    for (uint32_t i = 0; i < s->m->p->regions.n; i++) {
        const struct lower_region *r = &s->m->p->regions.p[i];
        uint32_t phase = state_number(s->words, r->bit, 2), next = phase;
        bool in = false;
        if (phase == PHASE_BEFORE) {
            if (holds(s, r->after))
                next = PHASE_IN;
        } else if (phase == PHASE_IN) {
            if (r->while_ != LOWER_NONE && !holds(s, r->while_)) {
                next = PHASE_DONE;
            } else if (r->until != LOWER_NONE && holds(s, r->until)) {
                in = r->through;
                next = PHASE_DONE;
            } else {
                in = true;
            }
        }
        s->m->in_region[i] = in;
        if (next != phase)
            put_phase(s->words, r->bit, next);
    }
}

static void step_facts(struct step *s)
{
    const struct rules_program *p = s->m->p;
    for (uint32_t i = 0; i < p->iss.n; i++) {
        const struct lower_is *is = &p->iss.p[i];
        const struct lower_fact *f = &p->facts.p[is->fact];
        if (!s->m->in_region[f->region] || !holds(s, f->test) || (!is->last && state_bit(s->words, f->bit)))
            continue;
        state_clear(s->words, is->bit);
        if (holds(s, is->test))
            state_set(s->words, is->bit);
    }
    for (uint32_t i = 0; i < p->facts.n; i++) {
        const struct lower_fact *f = &p->facts.p[i];
        if (!s->m->in_region[f->region] || !holds(s, f->test))
            continue;
        if (!state_bit(s->words, f->bit) && f->first != LOWER_NONE)
            act(s, f->first);
        if (f->last != LOWER_NONE && i != 0) /* the root is known without watching every frame */
            act(s, f->last);
        state_set(s->words, f->bit);
    }
}

/* Bit 2i: some frame so far ends chain[i…]; 2i + 1: the frame just passed does. The whole found, the rest is
 * cleared, so that stacks which differ only in what no longer matters share a state. */
static void step_chains(struct step *s)
{
    for (uint32_t c = 0; c < s->m->p->chains.n; c++) {
        const struct lower_chain *chain = &s->m->p->chains.p[c];
        const uint32_t *nodes = &s->m->p->kids.p[chain->nodes];
        if (state_bit(s->words, chain->bit))
            continue;
        for (uint32_t i = 0; i < chain->n; i++) { /* from the rootmost: each reads its neighbour's old bits */
            bool below =
                i + 1 == chain->n || state_bit(s->words, chain->bit + 2 * (i + 1) + chain->directly[i]);
            bool now = below && holds(s, nodes[i]);
            state_clear(s->words, chain->bit + 2 * i + 1);
            if (now) {
                state_set(s->words, chain->bit + 2 * i);
                state_set(s->words, chain->bit + 2 * i + 1);
            }
        }
        if (state_bit(s->words, chain->bit)) {
            for (uint32_t i = 1; i < 2 * chain->n; i++)
                state_clear(s->words, chain->bit + i);
        }
    }
}

static void step_tables(struct step *s)
{
    for (uint32_t t = 0; t < s->m->p->tables.n; t++) {
        const struct lower_table *table = &s->m->p->tables.p[t];
        const uint32_t *nodes = &s->m->p->kids.p[table->nodes];
        if (!s->m->in_region[table->region] ||
            (table->in_state && state_number(s->words, table->bit, 16) != 0))
            continue;
        for (uint32_t i = 0; i < table->source->n_rows; i++) {
            bool settles = !table->source->rows[i].when && !table->source->nearest_leaf;
            if (nodes[i] == LOWER_NONE)
                continue;
            if (!table->in_state && state_bit(s->words, table->bit + i)) {
                if (settles)
                    break; /* rows below cannot matter any more */
                continue;
            }
            if (!holds(s, nodes[i]))
                continue;
            if (table->in_state) {
                for (uint32_t b = 0; b < 16; b++)
                    if ((i + 1) >> b & 1)
                        state_set(s->words, table->bit + b);
                act(s, table->reg);
                break;
            }
            state_set(s->words, table->bit + i);
            act(s, table->reg + i);
            if (settles) {
                for (uint32_t j = i + 1; j < table->source->n_rows; j++)
                    state_clear(s->words, table->bit + j);
                break;
            }
        }
    }
}

static void step_eaches(struct step *s)
{
    uint32_t type = s->bits[s->m->n_root_words - 1];
    for (uint32_t i = 0; i < s->m->p->eaches.n; i++) {
        const struct lower_each *each = &s->m->p->eaches.p[i];
        if (!s->m->in_region[each->region] || !holds(s, each->node))
            continue;
        if (each->by_type)
            state_set(s->words, each->bit + type);
        if (!each->by_type || type == MATCH_TYPE_MORE)
            act(s, MATCH_PUSH | i);
    }
}

/* No frame can change what this state says: the walk may end. */
static bool is_absorbing(const struct rules_matcher *m, const uint32_t *words)
{
    const struct rules_program *p = m->p;
#define DONE(region) (state_number(words, p->regions.p[region].bit, 2) == PHASE_DONE)
    for (uint32_t i = 0; i < p->facts.n; i++) {
        const struct lower_fact *f = &p->facts.p[i];
        if (!DONE(f->region) && !(state_bit(words, f->bit) && (f->last == LOWER_NONE || i == 0)))
            return false;
    }
    for (uint32_t i = 0; i < p->iss.n; i++)
        if (p->iss.p[i].last && !DONE(p->facts.p[p->iss.p[i].fact].region))
            return false;
    for (uint32_t i = 0; i < p->chains.n; i++)
        if (!state_bit(words, p->chains.p[i].bit))
            return false;
    for (uint32_t i = 0; i < p->eaches.n; i++)
        if (!DONE(p->eaches.p[i].region))
            return false;
    for (uint32_t i = 0; i < p->tables.n; i++) {
        const struct lower_table *t = &p->tables.p[i];
        if (DONE(t->region) || (t->in_state && state_number(words, t->bit, 16) != 0))
            continue;
        bool settled = false;
        for (uint32_t r = 0;
             r < t->source->n_rows && !t->in_state && state_bit(words, t->bit + r) && !settled; r++)
            settled = !t->source->rows[r].when && !t->source->nearest_leaf;
        if (!settled)
            return false;
    }
#undef DONE
    return true;
}

/* ---- the table ------------------------------------------------------------------------------- */

/* The number of the state in m->step_words, which is emptied into a fresh table first if there is no room. */
static uint32_t enter_state(struct rules_matcher *m)
{
    uint32_t id = tuples_find(&m->states, m->step_words, m->n_state_words);
    if (id != TUPLES_NONE)
        return id;
    if ((m->states.n + 1) * (uint64_t)m->stride > RULES_CELLS_MAX)
        return TUPLES_NONE;
    uint32_t was = m->cap_cells, n = m->states.n + 1;
    if (charged_grow(m->budget, &m->cells, &m->cap_cells, n * m->stride, sizeof *m->cells) < 0 ||
        charged_grow(m->budget, &m->absorbing, &m->cap_absorbing, n, sizeof *m->absorbing) < 0 ||
        charged_grow(m->budget, &m->state_root, &m->cap_state_root, n, sizeof *m->state_root) < 0) {
        matcher_oom(m);
        return TUPLES_NONE;
    }
    memset(m->cells + was, 0xff, (m->cap_cells - was) * sizeof *m->cells); /* CELL_UNKNOWN */
    id = tuples_add(&m->states, m->step_words, m->n_state_words);
    if (id == TUPLES_NONE)
        return matcher_oom(m);
    m->absorbing[id] = is_absorbing(m, m->step_words);
    m->state_root[id] = (struct root_memo){0};
    return id;
}

/* An empty table with the start state as number 0, wide enough for the classes there are. */
static int start_table(struct rules_matcher *m)
{
    uint32_t n_list = m->n_list, cap_list = m->cap_list;
    struct list_item *list = take_ptr(m->list); /* the walk in progress keeps its list */
    m->cap_list = 0;
    uint32_t *current = malloc(m->n_state_words * sizeof *current);
    if (!current) {
        m->list = list;
        m->cap_list = cap_list;
        matcher_oom(m);
        return -ENOMEM;
    }
    memcpy(current, m->step_words, m->n_state_words * sizeof *current);
    matcher_stack_clear(m);
    m->list = list;
    m->cap_list = cap_list;
    m->n_list = n_list;

    for (m->stride = STRIDE_MIN; m->stride <= m->classes.n && m->stride < MATCH_DENSE_MAX;)
        m->stride *= 2;
    memset(m->step_words, 0, m->n_state_words * sizeof *m->step_words);
    for (uint32_t i = 0; i < m->p->regions.n; i++)
        put_phase(m->step_words, m->p->regions.p[i].bit,
                  m->p->regions.p[i].after == LOWER_NONE ? PHASE_IN : PHASE_BEFORE);
    uint32_t id = enter_state(m);
    memcpy(m->step_words, current, m->n_state_words * sizeof *current);
    free(current);
    return id == 0 ? 0 : -ENOMEM;
}

static int remember(struct rules_matcher *m, uint32_t state, uint32_t class, uint32_t next)
{
    uint32_t *cell = &m->cells[(size_t)state * m->stride + 1 + class];
    if (next == state && m->n_step_actions == 0) {
        *cell = CELL_STAY;
        return 0;
    }
    if (charged_grow(m->budget, &m->transitions, &m->cap_transitions, m->n_transitions + 1,
                     sizeof *m->transitions) < 0 ||
        charged_grow(m->budget, &m->actions, &m->cap_actions, m->n_actions + m->n_step_actions,
                     sizeof *m->actions) < 0)
        return -ENOMEM;
    struct transition *t = &m->transitions[m->n_transitions];
    *t = (struct transition){.next = next,
                             .row = next * m->stride + 1,
                             .actions = m->n_actions,
                             .n_actions = m->n_step_actions,
                             .absorbing = m->absorbing[next],
                             .slow = m->n_step_actions > MATCH_SETS};
    for (uint32_t i = 0; i < m->n_step_actions; i++)
        t->slow |= (m->step_actions[i] & MATCH_PUSH) != 0;
    for (uint32_t i = 0; i < MATCH_SETS && !t->slow; i++)
        t->set[i] = m->n_step_actions == 0 ? m->p->n_regs : m->step_actions[min_of(i, m->n_step_actions - 1)];
    if (m->n_step_actions > 0)
        memcpy(m->actions + m->n_actions, m->step_actions, m->n_step_actions * sizeof *m->actions);
    m->n_actions += m->n_step_actions;
    *cell = CELL_FIRST + m->n_transitions++;
    return 0;
}

/* Computes (state, class) → next, with its actions in m->step_actions; remembers it where there is a cell. */
static uint32_t compute(struct rules_matcher *m, uint32_t state, uint32_t class)
{
    struct step s = {.m = m, .words = m->step_words, .bits = tuples_get(&m->classes, class)};
    memcpy(m->step_words, tuples_get(&m->states, state), m->n_state_words * sizeof *m->step_words);
    m->n_step_actions = 0;
    step_regions(&s);
    step_facts(&s);
    step_chains(&s);
    step_tables(&s);
    step_eaches(&s);
    uint32_t next = enter_state(m);
    if (next == TUPLES_NONE && m->error == 0) { /* full: begin a new table in this state */
        if (start_table(m) < 0)
            return matcher_oom(m);
        next = enter_state(m);
        return next == TUPLES_NONE ? matcher_oom(m) : next;
    }
    if (next != TUPLES_NONE && class + 1 < m->stride && remember(m, state, class, next) < 0)
        return matcher_oom(m);
    return next;
}

static int run_actions(struct rules_matcher *m, const uint32_t *actions, uint32_t n, struct rules_verdict *v,
                       uint32_t frame, uint32_t position)
{
    for (uint32_t i = 0; i < n; i++) {
        if (!(actions[i] & MATCH_PUSH)) {
            v->registers[actions[i]] = (struct rules_register){frame, position};
            continue;
        }
        if (charged_grow(m->budget, &m->list, &m->cap_list, m->n_list + 1, sizeof *m->list) < 0)
            return -ENOMEM;
        m->list[m->n_list++] = (struct list_item){actions[i] & ~MATCH_PUSH, frame, position};
    }
    return 0;
}

/* A step nobody took before, or one that appends to lists. */
static __attribute__((noinline)) uint32_t advance(struct rules_matcher *m, uint32_t state, uint32_t cell,
                                                  uint32_t class, struct rules_verdict *v, uint32_t frame,
                                                  uint32_t position)
{
    if (cell == CELL_UNKNOWN) {
        uint32_t next = compute(m, state, class);
        if (next == TUPLES_NONE || run_actions(m, m->step_actions, m->n_step_actions, v, frame, position) < 0)
            return matcher_oom(m);
        return next;
    }
    const struct transition *t = &m->transitions[cell - CELL_FIRST];
    if (run_actions(m, m->actions + t->actions, t->n_actions, v, frame, position) < 0)
        return matcher_oom(m);
    return t->next;
}

struct walk_end {
    uint32_t state, position;
};

/* One item the long way: of several frames, or with a step that is new or slow. TUPLES_NONE as the state when
 * memory is out; the walk is over too when that is absorbing. */
static __attribute__((noinline)) struct walk_end walk_item(struct rules_matcher *m,
                                                           const struct rules_stack *stack,
                                                           struct rules_verdict *v, uint32_t state,
                                                           uint32_t item, uint32_t position)
{
    uint32_t frame = stack->frames_at ? stack->frames_at[item] : item,
             end = stack->frames_at ? stack->frames_at[item + 1] : item + 1;
    for (; frame < end && state != TUPLES_NONE && !m->absorbing[state]; frame++, position++) {
        uint32_t class = stack->classes[frame], cell = CELL_UNKNOWN;
        if (class + 1 < m->stride)
            cell = m->cells[(size_t)state * m->stride + 1 + class];
        if (cell != CELL_STAY)
            state = advance(m, state, cell, class, v, frame, position);
    }
    return (struct walk_end){state, position};
}

/* The common walk, when every class has a cell: nearly all items are one frame. Of the others the class is
 * RULES_MANY, as a number -1: their cell is never known, so that frames which stay cost a single comparison.
 * Returns the last state or TUPLES_NONE. */
static inline uint32_t walk_items(struct rules_matcher *m, const struct rules_stack *stack,
                                  struct rules_verdict *v)
{
    const uint32_t *first = stack->items, *end = first + stack->n, *frames_at = stack->frames_at;
    const uint32_t *classes = frames_at ? stack->item_classes : stack->classes, *row = m->cells + 1;
    struct rules_register *registers = v->registers;
    uint32_t state = 0, extra = 0; /* frames beyond one an item, so far */
    for (const uint32_t *item = first; item < end; item++) {
        uint32_t cell = row[(int32_t)classes[*item]];
        if (likely(cell == CELL_STAY))
            continue;
        uint32_t position = (uint32_t)(item - first) + extra;
        if (likely(cell != CELL_UNKNOWN && !m->transitions[cell - CELL_FIRST].slow)) {
            const struct transition *t = &m->transitions[cell - CELL_FIRST];
            const struct rules_register here = {frames_at ? frames_at[*item] : *item, position};
            _Static_assert(MATCH_SETS == 4, "all of them");
            registers[t->set[0]] = registers[t->set[1]] = registers[t->set[2]] = registers[t->set[3]] = here;
            state = t->next;
            row = m->cells + t->row;
            if (t->absorbing)
                break;
            continue;
        }
        struct walk_end after = walk_item(m, stack, v, state, *item, position);
        state = after.state;
        if (state == TUPLES_NONE || m->absorbing[state])
            break;
        extra += after.position - position - 1;
        row = m->cells + (size_t)state * m->stride + 1;
    }
    return state;
}

/* The first walk, and those with more classes than have cells. */
static __attribute__((noinline)) uint32_t walk_anyhow(struct rules_matcher *m,
                                                      const struct rules_stack *stack,
                                                      struct rules_verdict *v)
{
    bool widen = m->stride <= m->classes.n && m->stride < MATCH_DENSE_MAX;
    if ((m->states.n == 0 || widen) && start_table(m) < 0)
        return TUPLES_NONE;
    if (m->classes.n < m->stride)
        return walk_items(m, stack, v);
    struct walk_end at = {0, 0};
    for (uint32_t i = 0; i < stack->n && at.state != TUPLES_NONE && !m->absorbing[at.state]; i++)
        at = walk_item(m, stack, v, at.state, stack->items[i], at.position);
    return at.state;
}

bool rules_matcher_walk(struct rules_matcher *m, const struct rules_stack *stack, struct rules_verdict *v)
{
    m->n_list = 0;
    if (unlikely(stack->n == 0 || m->error < 0 || m->classes.n == 0))
        return false;
    bool dense = m->classes.n < m->stride && m->states.n > 0; /* walking makes no classes */
    uint32_t state = likely(dense) ? walk_items(m, stack, v) : walk_anyhow(m, stack, v);
    if (unlikely(state == TUPLES_NONE))
        return false;
    uint32_t root = m->p->facts.p[0].last, item = stack->items[stack->n - 1];
    if (root != LOWER_NONE)
        v->registers[root] =
            (struct rules_register){stack->frames_at ? stack->frames_at[item + 1] - 1 : item, UINT32_MAX};
    v->state = state;
    v->generation = m->generation;
    return true;
}
