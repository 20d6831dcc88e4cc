/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A state is a tuple of bits (rules/program/lowered.h). A transition is computed by step_…() the first time a
 * (state, frame class) pair is met and stored in a dense table; nearly every frame of a long stack leaves the
 * state as it is, so the common step is one load and a well-predicted branch. What changes the state may also
 * remember the frame in registers, or in the list of an `each`: the transition's actions.
 *
 * When the table is full it is emptied in the middle of whatever happens: the current state is entered anew
 * and the walk goes on. So memory is bounded and no answer ever changes; who knows states by number compares
 * `generation`. A state that no frame can change any more is absorbing, and ends the walk.
 */
#include "rules/match/walk.h"

#include <stdlib.h>
#include <string.h>

#include "proto/base/macros.h"
#include "rules/match/bits.h"

enum { PHASE_BEFORE, PHASE_IN, PHASE_DONE };

/* A cell: the frame changes nothing; not computed yet; else a transition's number + CELL_FIRST. */
#define CELL_STAY    0u
#define CELL_FIRST   1u
#define CELL_UNKNOWN UINT32_MAX

#define STRIDE_MIN 256u

int match_walk_init(struct match_walk *w, const struct match_frames *frames)
{
    const struct rules_program *p = frames->p;
    struct budget *budget = frames->memory->budget;
    w->p = p;
    w->memory = frames->memory;
    w->frames = frames;
    tuples_init(&w->states, budget);
    w->cells.budget = w->absorbing.budget = w->marks.budget = w->transitions.budget = budget;
    w->actions.budget = w->list.budget = budget;
    w->n_state_words = (p->n_bits + 31) / 32;
    w->words = calloc(w->n_state_words, sizeof *w->words);
    w->step_actions = calloc(2 * p->facts.n + p->n_regs + p->eaches.n + 1, sizeof *w->step_actions);
    w->in_region = calloc(p->regions.n, sizeof *w->in_region);
    return w->words && w->step_actions && w->in_region ? 0 : -ENOMEM;
}

/* ---- one step -------------------------------------------------------------------------------- */

struct step {
    struct match_walk *w;
    uint32_t *words;      /* the state, being changed */
    const uint32_t *bits; /* the frame class */
};

static bool holds(const struct step *s, uint32_t node)
{
    return bits_get(s->bits, s->w->p->nodes.p[node].root);
}

static void act(const struct step *s, uint32_t action)
{
    s->w->step_actions[s->w->n_step_actions++] = action;
}

static void put_phase(uint32_t *words, uint32_t bit, uint32_t phase)
{
    bits_clear(words, bit);
    bits_clear(words, bit + 1);
    if (phase & 1)
        bits_set(words, bit);
    if (phase & 2)
        bits_set(words, bit + 1);
}

static void step_regions(struct step *s)
{
    for (uint32_t i = 0; i < s->w->p->regions.n; i++) {
        const struct lower_region *r = &s->w->p->regions.p[i];
        uint32_t phase = bits_number(s->words, r->bit, 2), next = phase;
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
        s->w->in_region[i] = in;
        if (next != phase)
            put_phase(s->words, r->bit, next);
    }
}

static void step_facts(struct step *s)
{
    const struct rules_program *p = s->w->p;
    for (uint32_t i = 0; i < p->iss.n; i++) {
        const struct lower_is *is = &p->iss.p[i];
        const struct lower_fact *f = &p->facts.p[is->fact];
        if (!s->w->in_region[f->region] || !holds(s, f->test) || (!is->last && bits_get(s->words, f->bit)))
            continue;
        bits_clear(s->words, is->bit);
        if (holds(s, is->test))
            bits_set(s->words, is->bit);
    }
    for (uint32_t i = 0; i < p->facts.n; i++) {
        const struct lower_fact *f = &p->facts.p[i];
        if (!s->w->in_region[f->region] || !holds(s, f->test))
            continue;
        if (!bits_get(s->words, f->bit) && f->first != LOWER_NONE)
            act(s, f->first);
        if (f->last != LOWER_NONE && i != 0) /* the root is known without watching every frame */
            act(s, f->last);
        bits_set(s->words, f->bit);
    }
}

/* Bit 2i: some frame so far ends chain[i…]; 2i + 1: the frame just passed does. The whole found, the rest is
 * cleared, so that stacks which differ only in what no longer matters share a state. */
static void step_chains(struct step *s)
{
    for (uint32_t c = 0; c < s->w->p->chains.n; c++) {
        const struct lower_chain *chain = &s->w->p->chains.p[c];
        const uint32_t *nodes = &s->w->p->kids.p[chain->nodes];
        if (bits_get(s->words, chain->bit))
            continue;
        for (uint32_t i = 0; i < chain->n; i++) { /* from the rootmost: each reads its neighbour's old bits */
            bool below =
                i + 1 == chain->n || bits_get(s->words, chain->bit + 2 * (i + 1) + chain->directly[i]);
            bool now = below && holds(s, nodes[i]);
            bits_clear(s->words, chain->bit + 2 * i + 1);
            if (now) {
                bits_set(s->words, chain->bit + 2 * i);
                bits_set(s->words, chain->bit + 2 * i + 1);
            }
        }
        if (bits_get(s->words, chain->bit)) {
            for (uint32_t i = 1; i < 2 * chain->n; i++)
                bits_clear(s->words, chain->bit + i);
        }
    }
}

static void step_tables(struct step *s)
{
    for (uint32_t t = 0; t < s->w->p->tables.n; t++) {
        const struct lower_table *table = &s->w->p->tables.p[t];
        const uint32_t *nodes = &s->w->p->kids.p[table->nodes];
        if (!s->w->in_region[table->region] ||
            (table->in_state && bits_number(s->words, table->bit, 16) != 0))
            continue;
        for (uint32_t i = 0; i < table->source->n_rows; i++) {
            bool settles = !table->source->rows[i].when && !table->source->nearest_leaf;
            if (nodes[i] == LOWER_NONE)
                continue;
            if (!table->in_state && bits_get(s->words, table->bit + i)) {
                if (settles)
                    break; /* rows below cannot matter any more */
                continue;
            }
            if (!holds(s, nodes[i]))
                continue;
            if (table->in_state) {
                for (uint32_t b = 0; b < 16; b++)
                    if ((i + 1) >> b & 1)
                        bits_set(s->words, table->bit + b);
                act(s, table->reg);
                break;
            }
            bits_set(s->words, table->bit + i);
            act(s, table->reg + i);
            if (settles) {
                for (uint32_t j = i + 1; j < table->source->n_rows; j++)
                    bits_clear(s->words, table->bit + j);
                break;
            }
        }
    }
}

static void step_eaches(struct step *s)
{
    uint32_t type = s->bits[s->w->frames->n_class_words - 1];
    for (uint32_t i = 0; i < s->w->p->eaches.n; i++) {
        const struct lower_each *each = &s->w->p->eaches.p[i];
        if (!s->w->in_region[each->region] || !holds(s, each->node))
            continue;
        if (each->by_type)
            bits_set(s->words, each->bit + type);
        if (!each->by_type || type == MATCH_TYPE_MORE)
            act(s, MATCH_PUSH | i);
    }
}

/* No frame can change what this state says: the walk may end. */
static bool is_absorbing(const struct match_walk *w, const uint32_t *words)
{
    const struct rules_program *p = w->p;
#define DONE(region) (bits_number(words, p->regions.p[region].bit, 2) == PHASE_DONE)
    for (uint32_t i = 0; i < p->facts.n; i++) {
        const struct lower_fact *f = &p->facts.p[i];
        if (!DONE(f->region) && !(bits_get(words, f->bit) && (f->last == LOWER_NONE || i == 0)))
            return false;
    }
    for (uint32_t i = 0; i < p->iss.n; i++)
        if (p->iss.p[i].last && !DONE(p->facts.p[p->iss.p[i].fact].region))
            return false;
    for (uint32_t i = 0; i < p->chains.n; i++)
        if (!bits_get(words, p->chains.p[i].bit))
            return false;
    for (uint32_t i = 0; i < p->eaches.n; i++)
        if (!DONE(p->eaches.p[i].region))
            return false;
    for (uint32_t i = 0; i < p->tables.n; i++) {
        const struct lower_table *t = &p->tables.p[i];
        if (DONE(t->region) || (t->in_state && bits_number(words, t->bit, 16) != 0))
            continue;
        bool settled = false;
        for (uint32_t r = 0; r < t->source->n_rows && !t->in_state && bits_get(words, t->bit + r) && !settled;
             r++)
            settled = !t->source->rows[r].when && !t->source->nearest_leaf;
        if (!settled)
            return false;
    }
#undef DONE
    return true;
}

/* ---- the table ------------------------------------------------------------------------------- */

/* The number of the state in w->words. TUPLES_NONE: memory is out, or (no error) the table is full. */
static uint32_t enter_state(struct match_walk *w)
{
    uint32_t id = tuples_find(&w->states, w->words, w->n_state_words), n = w->states.n + 1;
    if (id != TUPLES_NONE)
        return id;
    if (n * (uint64_t)w->stride > RULES_CELLS_MAX)
        return TUPLES_NONE;
    if (vec_reserve(&w->cells, n * w->stride) < 0 || vec_extend(&w->absorbing, n) < 0 ||
        vec_extend(&w->marks, n) < 0 ||
        (id = tuples_add(&w->states, w->words, w->n_state_words)) == TUPLES_NONE)
        return match_memory_out(w->memory);
    memset(w->cells.p + w->cells.n, 0xff, w->stride * sizeof *w->cells.p); /* CELL_UNKNOWN */
    w->cells.n += w->stride;
    w->absorbing.p[id] = is_absorbing(w, w->words);
    return id;
}

static void empty_table(struct match_walk *w)
{
    tuples_clear(&w->states);
    vec_release(&w->cells);
    vec_release(&w->absorbing);
    vec_release(&w->marks);
    vec_release(&w->transitions);
    vec_release(&w->actions);
    w->stride = 0;
    w->generation++;
}

/* An empty table with the start state as number 0, wide enough for the classes there are. A step being
 * computed keeps its state in w->words. */
static int start_table(struct match_walk *w)
{
    size_t bytes = w->n_state_words * sizeof *w->words;
    autofree uint32_t *current = malloc(bytes);
    if (!current) {
        match_memory_out(w->memory);
        return -ENOMEM;
    }
    memcpy(current, w->words, bytes);
    empty_table(w);
    for (w->stride = STRIDE_MIN; w->stride <= w->frames->classes.n && w->stride < MATCH_DENSE_MAX;)
        w->stride *= 2;
    memset(w->words, 0, bytes);
    for (uint32_t i = 0; i < w->p->regions.n; i++) {
        const struct lower_region *region = &w->p->regions.p[i];
        put_phase(w->words, region->bit, region->after == LOWER_NONE ? PHASE_IN : PHASE_BEFORE);
    }
    uint32_t id = enter_state(w);
    memcpy(w->words, current, bytes);
    return id == 0 ? 0 : -ENOMEM;
}

/* What w->words, step_actions say is what this (state, class) does from now on. */
static int remember(struct match_walk *w, uint32_t state, uint32_t class, uint32_t next)
{
    uint32_t *cell = &w->cells.p[(size_t)state * w->stride + 1 + class], n = w->n_step_actions;
    if (next == state && n == 0) {
        *cell = CELL_STAY;
        return 0;
    }
    struct transition t = {.next = next,
                           .row = next * w->stride + 1,
                           .actions = w->actions.n,
                           .n_actions = n,
                           .absorbing = w->absorbing.p[next],
                           .slow = n > MATCH_SETS};
    for (uint32_t i = 0; i < n; i++)
        t.slow |= (w->step_actions[i] & MATCH_PUSH) != 0;
    for (uint32_t i = 0; i < MATCH_SETS && !t.slow; i++)
        t.set[i] = n == 0 ? w->p->n_regs : w->step_actions[min_of(i, n - 1)];
    if (vec_append_all(&w->actions, w->step_actions, n) < 0 || vec_append(&w->transitions, t) < 0)
        return -ENOMEM;
    *cell = CELL_FIRST + w->transitions.n - 1;
    return 0;
}

void match_walk_clear(struct match_walk *w)
{
    empty_table(w);
    vec_release(&w->list);
}

void match_walk_release(struct match_walk *w)
{
    match_walk_clear(w);
    free(w->words);
    free(w->step_actions);
    free(w->in_region);
}

/* Computes (state, class) → next, with its actions in w->step_actions; remembers it where there is a cell. */
static uint32_t compute(struct match_walk *w, uint32_t state, uint32_t class)
{
    struct step s = {.w = w, .words = w->words, .bits = tuples_get(&w->frames->classes, class)};
    memcpy(w->words, tuples_get(&w->states, state), w->n_state_words * sizeof *w->words);
    w->n_step_actions = 0;
    step_regions(&s);
    step_facts(&s);
    step_chains(&s);
    step_tables(&s);
    step_eaches(&s);
    uint32_t next = enter_state(w);
    if (next == TUPLES_NONE && w->memory->error == 0) { /* full: begin a new table in this state */
        if (start_table(w) < 0)
            return match_memory_out(w->memory);
        next = enter_state(w);
        return next == TUPLES_NONE ? match_memory_out(w->memory) : next;
    }
    if (next != TUPLES_NONE && class + 1 < w->stride && remember(w, state, class, next) < 0)
        return match_memory_out(w->memory);
    return next;
}

static int run_actions(struct match_walk *w, const uint32_t *actions, uint32_t n, struct rules_verdict *v,
                       uint32_t frame, uint32_t position)
{
    for (uint32_t i = 0; i < n; i++) {
        if (!(actions[i] & MATCH_PUSH)) {
            v->registers[actions[i]] = (struct rules_register){frame, position};
            continue;
        }
        if (vec_append(&w->list, (struct list_item){actions[i] & ~MATCH_PUSH, frame, position}) < 0)
            return -ENOMEM;
    }
    return 0;
}

/* A step nobody took before, or one that appends to lists. */
static __attribute__((noinline)) uint32_t advance(struct match_walk *w, uint32_t state, uint32_t cell,
                                                  uint32_t class, struct rules_verdict *v, uint32_t frame,
                                                  uint32_t position)
{
    if (cell == CELL_UNKNOWN) {
        uint32_t next = compute(w, state, class);
        if (next == TUPLES_NONE || run_actions(w, w->step_actions, w->n_step_actions, v, frame, position) < 0)
            return match_memory_out(w->memory);
        return next;
    }
    const struct transition *t = &w->transitions.p[cell - CELL_FIRST];
    if (run_actions(w, w->actions.p + t->actions, t->n_actions, v, frame, position) < 0)
        return match_memory_out(w->memory);
    return t->next;
}

struct walk_end {
    uint32_t state, position;
};

/* One item the long way: of several frames, or with a step that is new or slow. TUPLES_NONE as the state when
 * memory is out; the walk is over too when that is absorbing. */
static __attribute__((noinline)) struct walk_end walk_item(struct match_walk *w,
                                                           const struct rules_stack *stack,
                                                           struct rules_verdict *v, uint32_t state,
                                                           uint32_t item, uint32_t position)
{
    uint32_t frame = stack->frames_at ? stack->frames_at[item] : item,
             end = stack->frames_at ? stack->frames_at[item + 1] : item + 1;
    for (; frame < end && state != TUPLES_NONE && !w->absorbing.p[state]; frame++, position++) {
        uint32_t class = stack->classes[frame], cell = CELL_UNKNOWN;
        if (class + 1 < w->stride)
            cell = w->cells.p[(size_t)state * w->stride + 1 + class];
        if (cell != CELL_STAY)
            state = advance(w, state, cell, class, v, frame, position);
    }
    return (struct walk_end){state, position};
}

/* The common walk, when every class has a cell: nearly all items are one frame. Of the others the class is
 * RULES_MANY, as a number -1: their cell is never known, so that frames which stay cost a single comparison.
 * Returns the last state or TUPLES_NONE. */
static inline uint32_t walk_items(struct match_walk *w, const struct rules_stack *stack,
                                  struct rules_verdict *v)
{
    const uint32_t *first = stack->items, *end = first + stack->n, *frames_at = stack->frames_at;
    const uint32_t *classes = frames_at ? stack->item_classes : stack->classes, *row = w->cells.p + 1;
    struct rules_register *registers = v->registers;
    uint32_t state = 0, extra = 0; /* frames beyond one an item, so far */
    for (const uint32_t *item = first; item < end; item++) {
        uint32_t cell = row[(int32_t)classes[*item]];
        if (likely(cell == CELL_STAY))
            continue;
        uint32_t position = (uint32_t)(item - first) + extra;
        if (likely(cell != CELL_UNKNOWN && !w->transitions.p[cell - CELL_FIRST].slow)) {
            const struct transition *t = &w->transitions.p[cell - CELL_FIRST];
            const struct rules_register here = {frames_at ? frames_at[*item] : *item, position};
            _Static_assert(MATCH_SETS == 4, "all of them");
            registers[t->set[0]] = registers[t->set[1]] = registers[t->set[2]] = registers[t->set[3]] = here;
            state = t->next;
            row = w->cells.p + t->row;
            if (t->absorbing)
                break;
            continue;
        }
        struct walk_end after = walk_item(w, stack, v, state, *item, position);
        state = after.state;
        if (state == TUPLES_NONE || w->absorbing.p[state])
            break;
        extra += after.position - position - 1;
        row = w->cells.p + (size_t)state * w->stride + 1;
    }
    return state;
}

/* The first walk, and those with more classes than have cells. */
static __attribute__((noinline)) uint32_t walk_anyhow(struct match_walk *w, const struct rules_stack *stack,
                                                      struct rules_verdict *v)
{
    bool widen = w->stride <= w->frames->classes.n && w->stride < MATCH_DENSE_MAX;
    if ((w->states.n == 0 || widen) && start_table(w) < 0)
        return TUPLES_NONE;
    if (w->frames->classes.n < w->stride)
        return walk_items(w, stack, v);
    struct walk_end at = {0, 0};
    for (uint32_t i = 0; i < stack->n && at.state != TUPLES_NONE && !w->absorbing.p[at.state]; i++)
        at = walk_item(w, stack, v, at.state, stack->items[i], at.position);
    return at.state;
}

bool match_walk_stack(struct match_walk *w, const struct rules_stack *stack, struct rules_verdict *v)
{
    vec_clear(&w->list);
    if (unlikely(stack->n == 0 || w->memory->error < 0 || w->frames->classes.n == 0))
        return false;
    bool dense = w->frames->classes.n < w->stride && w->states.n > 0; /* walking makes no classes */
    uint32_t state = likely(dense) ? walk_items(w, stack, v) : walk_anyhow(w, stack, v);
    if (unlikely(state == TUPLES_NONE))
        return false;
    uint32_t root = w->p->facts.p[0].last, item = stack->items[stack->n - 1];
    if (root != LOWER_NONE)
        v->registers[root] =
            (struct rules_register){stack->frames_at ? stack->frames_at[item + 1] - 1 : item, UINT32_MAX};
    v->state = state;
    v->generation = w->generation;
    return true;
}
