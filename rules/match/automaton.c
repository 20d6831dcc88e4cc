/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A state is a walk as it stands between two frames (match_walk_save). A transition is computed by the walk
 * itself the first time a (state, frame class) pair is met and stored in a dense table; nearly every frame of
 * a long stack leaves the state as it is, so the common step is one load and a well-predicted branch. What
 * changes the state may also remember the frame in registers: the transition's actions.
 *
 * What independent rules find out multiplies: five facts in five packs have 32 states together. Stacks as
 * programs make them have some hundred of these products; stacks drawn at random, or made by somebody who
 * knows the rules, a new one each. So the table is bounded, and nothing depends on it: where it does not know
 * the next state and has no room for it, the walk itself goes on from there (match_walk_rest), at a cost that
 * is the same for any stack. Nothing is thrown away in mid-walk. When many walks were not known to the end,
 * the table is made anew as a request begins, for it seems not to be of today; each time that did not help,
 * more seldom.
 */
#include "rules/match/automaton.h"

#include <stdlib.h>
#include <string.h>

#include "proto/base/macros.h"

/* A cell: the frame changes nothing; not known; else a transition's number + CELL_FIRST. */
#define CELL_STAY       0u
#define CELL_FIRST      1u
#define CELL_UNKNOWN    UINT16_MAX
#define TRANSITIONS_MAX (CELL_UNKNOWN - CELL_FIRST)

#define STRIDE_MIN 16u
#define STRIDE_MAX 2048u /* columns; with more classes than that, all walks are done step by step */
#define LEFT_FIRST (1u << 14)
#define LEFT_MOST  (1u << 24)

/* ---- life ------------------------------------------------------------------------------------ */

int match_automaton_init(struct match_automaton *a, struct match_walk *walk)
{
    struct budget *budget = walk->memory->budget;
    a->p = walk->p;
    a->memory = walk->memory;
    a->walk = walk;
    a->of_root = walk->root_is != LOWER_NONE;
    a->found = walk->words;
    a->left_max = LEFT_FIRST;
    tuples_init(&a->states, budget);
    a->cells.budget = a->transitions.budget = a->taken.budget = a->registers.budget = budget;
    a->numbers.budget = budget;
    a->saved = calloc(walk->n_saved, sizeof *a->saved);
    a->scratch = calloc(a->p->n_regs + 1, sizeof *a->scratch);
    return a->saved && a->scratch ? 0 : -ENOMEM;
}

void match_automaton_clear(struct match_automaton *a)
{
    tuples_clear(&a->states);
    vec_release(&a->cells);
    vec_release(&a->transitions);
    vec_release(&a->taken);
    vec_release(&a->registers);
    vec_release(&a->numbers);
    a->stride = a->classes = a->state = 0;
    a->left = 0;
    a->found = a->walk->words;
}

void match_automaton_release(struct match_automaton *a)
{
    if (!a->walk)
        return;
    match_automaton_clear(a);
    free(a->saved);
    free(a->scratch);
}

void match_automaton_begin(struct match_automaton *a)
{
    if (a->left <= a->left_max)
        return;
    match_automaton_clear(a);
    a->left_max = min_of(4 * a->left_max, (uint64_t)LEFT_MOST);
}

/* ---- the table ------------------------------------------------------------------------------- */

/* The columns of the root's class are in the other half of a row. Column 0 is RULES_MANY's and never known.
 */
static uint32_t half(const struct match_automaton *a)
{
    return a->of_root ? a->stride / 2 : a->stride;
}

static uint32_t column_of(const struct match_automaton *a, uint32_t class, bool at_root)
{
    return class + 1 + (at_root && a->of_root ? half(a) : 0);
}

static int add_row(struct match_automaton *a)
{
    if (vec_reserve(&a->cells, (uint64_t)a->cells.n + a->stride) < 0 || vec_append(&a->numbers, 0) < 0)
        return -ENOMEM;
    memset(a->cells.p + a->cells.n, 0xff, a->stride * sizeof *a->cells.p); /* CELL_UNKNOWN */
    a->cells.n += a->stride;
    return 0;
}

/* Columns for more classes: the table is made anew, which is as often as there are powers of two. */
static int widen(struct match_automaton *a, uint32_t classes)
{
    match_automaton_clear(a);
    a->stride = STRIDE_MIN;
    while (classes + 1 > half(a))
        a->stride *= 2;
    a->classes = half(a) - 1;
    match_walk_start(a->walk);
    match_walk_save(a->walk, a->saved, 0);
    for (uint32_t state = 0; state < 2; state++) /* 0 is none */
        if (add_row(a) < 0)
            return -ENOMEM;
    return tuples_add(&a->states, a->saved, a->walk->n_saved) == TUPLES_NONE ? -ENOMEM : 0;
}

static bool is_full(const struct match_automaton *a)
{
    return a->states.n >= MATCH_WALKED_MAX || a->cells.n + a->stride > MATCH_CELLS_MAX ||
           a->transitions.n == TRANSITIONS_MAX;
}

/* The number of the state that the walk is in; there is room for it. TUPLES_NONE: no memory. */
static uint32_t enter_state(struct match_automaton *a)
{
    uint32_t known = a->states.n, id = tuples_add(&a->states, a->saved, a->walk->n_saved);
    if (id == TUPLES_NONE || (id == known && add_row(a) < 0))
        return match_memory_out(a->memory);
    return id + 1;
}

/* The registers that the scratch ones say were set are what this cell does from now on, and whether a list.
 */
static int remember(struct match_automaton *a, uint32_t state, uint32_t column, uint32_t next, bool lists)
{
    uint16_t *cell = &a->cells.p[(size_t)state * a->stride + column];
    uint32_t from = a->registers.n;
    for (uint32_t i = 0; i < a->p->n_regs; i++)
        if (a->scratch[i].frame == 0 && vec_append(&a->registers, i) < 0)
            return -ENOMEM;
    uint32_t n = a->registers.n - from;
    if (next == state && n == 0 && !lists) {
        *cell = CELL_STAY;
        return 0;
    }
    struct transition t = {.row = next * a->stride,
                           .next = (uint16_t)next,
                           .slow = n > MATCH_SETS || lists || a->p->n_regs > UINT16_MAX};
    for (uint32_t i = 0; i < MATCH_SETS && !t.slow; i++)
        t.set[i] = (uint16_t)(n == 0 ? a->p->n_regs : a->registers.p[from + min_of(i, n - 1)]);
    if (vec_reserve(&a->taken, (uint64_t)a->taken.n + 1) < 0 || vec_append(&a->transitions, t) < 0)
        return -ENOMEM;
    vec_append(&a->taken, (struct transition_actions){from, n, lists});
    *cell = (uint16_t)(CELL_FIRST + a->transitions.n - 1);
    return 0;
}

/* ---- walking --------------------------------------------------------------------------------- */

/* Where a walk is. */
struct at {
    uint32_t state, frame, position, class;
    bool at_root;
};

/* Does the step by the walk itself, with these registers; it is then in `saved`. */
static void step(struct match_automaton *a, const struct at *at, struct rules_register *registers,
                 uint32_t frame)
{
    match_walk_load(a->walk, tuples_get(&a->states, at->state - 1), at->position);
    match_walk_frame(a->walk, registers, at->class, frame, at->position);
    if (at->at_root)
        match_walk_root(a->walk, at->class);
}

/* A step nobody took before becomes one of the table. The state behind it; 0 when there is no room.
 * TUPLES_NONE: no memory. */
static uint32_t compute(struct match_automaton *a, const struct at *at)
{
    if (is_full(a))
        return 0;
    uint32_t listed = a->walk->list.n;
    memset(a->scratch, 0xff, (a->p->n_regs + 1) * sizeof *a->scratch);
    step(a, at, a->scratch, 0);
    bool lists = a->walk->list.n > listed;
    a->walk->list.n = listed;
    match_walk_save(a->walk, a->saved, at->position + 1);
    uint32_t next = a->memory->error < 0 ? TUPLES_NONE : enter_state(a);
    if (next == TUPLES_NONE)
        return next;
    if (remember(a, at->state, column_of(a, at->class, at->at_root), next, lists) < 0)
        return match_memory_out(a->memory);
    return next;
}

/* One frame the long way: a step that is new or slow. The state behind it, 0 when the table does not know it
 * and has no room. TUPLES_NONE: no memory. */
static uint32_t advance(struct match_automaton *a, const struct at *at, struct rules_register *registers)
{
    size_t place = (size_t)at->state * a->stride + column_of(a, at->class, at->at_root);
    uint32_t next = a->cells.p[place] == CELL_UNKNOWN ? compute(a, at) : at->state, cell = a->cells.p[place];
    if (next == 0 || next == TUPLES_NONE || cell == CELL_STAY)
        return next;
    const struct transition_actions *t = &a->taken.p[cell - CELL_FIRST];
    if (t->lists)
        step(a, at, registers, at->frame);
    for (uint32_t i = 0; i < t->n; i++)
        registers[a->registers.p[t->registers + i]] = (struct rules_register){at->frame, at->position};
    return a->transitions.p[cell - CELL_FIRST].next;
}

/* One item the long way. */
static __attribute__((noinline)) uint32_t walk_item(struct match_automaton *a,
                                                    const struct rules_stack *stack,
                                                    struct rules_register *registers, uint32_t state,
                                                    uint32_t i, uint32_t position)
{
    uint32_t item = stack->items[i], frame = stack->frames_at ? stack->frames_at[item] : item,
             end = stack->frames_at ? stack->frames_at[item + 1] : item + 1;
    for (; frame < end; frame++, position++) {
        struct at at = {state, frame, position, stack->classes[frame], i + 1 == stack->n && frame + 1 == end};
        state = advance(a, &at, registers);
        if (state == TUPLES_NONE)
            return state;
        if (state == 0) {
            match_walk_load(a->walk, tuples_get(&a->states, at.state - 1), position);
            match_walk_rest(a->walk, stack, i, frame, position, registers);
            return 0;
        }
    }
    return state;
}

/* Frames of an item beyond the first. */
static inline uint32_t more_frames(const struct rules_stack *stack, uint32_t item)
{
    return stack->frames_at ? stack->frames_at[item + 1] - stack->frames_at[item] - 1 : 0;
}

/* The registers a transition sets. */
static inline void set_registers(const struct transition *t, struct rules_register *registers, uint32_t frame,
                                 uint32_t position)
{
    uint64_t here =
        (uint64_t)position << 32 | frame; /* one store each: as two, the next would wait for them */
    _Static_assert(MATCH_SETS == 4 && sizeof *registers == sizeof here, "all of them");
    if (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__)
        here = (uint64_t)frame << 32 | position;
    memcpy(&registers[t->set[0]], &here, sizeof here);
    memcpy(&registers[t->set[1]], &here, sizeof here);
    memcpy(&registers[t->set[2]], &here, sizeof here);
    memcpy(&registers[t->set[3]], &here, sizeof here);
}

/* Where a walk by the table is. */
struct by_table {
    const uint16_t *row; /* of cells, from the column of class 0 on */
    uint32_t state;      /* 0: the rest was walked without the table; TUPLES_NONE */
    uint32_t extra;      /* frames beyond one an item, so far */
};

/* An item that changes something, by its cell. Whether the table knows how to go on. */
static inline __attribute__((always_inline)) bool change(struct match_automaton *a,
                                                         const struct rules_stack *stack,
                                                         struct rules_register *registers,
                                                         struct by_table *at, const uint32_t *item,
                                                         uint32_t cell)
{
    uint32_t i = (uint32_t)(item - stack->items);
    if (likely(cell != CELL_UNKNOWN && !a->transitions.p[cell - CELL_FIRST].slow)) {
        const struct transition *t = &a->transitions.p[cell - CELL_FIRST];
        set_registers(t, registers, stack->frames_at ? stack->frames_at[*item] : *item, i + at->extra);
        at->state = t->next;
        at->row = a->cells.p + t->row + 1;
        return true;
    }
    at->state = walk_item(a, stack, registers, at->state, i, i + at->extra);
    if (at->state == 0 || at->state == TUPLES_NONE)
        return false;
    at->extra += more_frames(stack, *item);
    at->row = a->cells.p + (size_t)at->state * a->stride + 1;
    return true;
}

/* The state behind a walk by the table, as far as that knows. Of items of several frames the class is
 * RULES_MANY, as a number -1. The root is not one more round of the loop, where it would be a test a frame.
 */
static inline uint32_t walk_by_table(struct match_automaton *a, const struct rules_stack *stack,
                                     struct rules_register *registers)
{
    const uint32_t *classes = stack->frames_at ? stack->item_classes : stack->classes, *item = stack->items,
                   *end = item + stack->n - a->of_root;
    struct by_table at = {.row = a->cells.p + a->stride + 1, .state = 1};
    for (; item < end; item++) {
        uint32_t cell = at.row[(int32_t)classes[*item]];
        if (unlikely(cell != CELL_STAY) && !change(a, stack, registers, &at, item, cell))
            return at.state;
    }
    if (a->of_root) {
        uint32_t cell = at.row[(int32_t)classes[*item] + (int32_t)half(a)];
        if (likely(cell != CELL_STAY))
            change(a, stack, registers, &at, item, cell);
    }
    return at.state;
}

/* Classes that are new since the last walk. Whether the table has columns for all of them. */
static __attribute__((noinline)) int know_classes(struct match_automaton *a, uint32_t n)
{
    uint32_t most = a->of_root ? STRIDE_MAX / 2 : STRIDE_MAX;
    if (match_walk_classes(a->walk) < 0)
        return -ENOMEM;
    return n > a->classes && n + 1 <= most ? widen(a, n) : 0;
}

bool match_automaton_walk(struct match_automaton *a, const struct rules_stack *stack,
                          struct rules_register *registers)
{
    uint32_t n = a->walk->frames->classes.n, state = 0;
    vec_clear(&a->walk->list);
    if (unlikely(stack->n == 0 || a->memory->error < 0 || n == 0))
        return false;
    if (unlikely(a->walk->n_classes < n || a->states.n == 0) && know_classes(a, n) < 0) {
        match_memory_out(a->memory);
        return false;
    }
    if (likely(n <= a->classes)) {
        state = walk_by_table(a, stack, registers);
    } else {
        uint32_t item = stack->items[0];
        match_walk_start(a->walk);
        match_walk_rest(a->walk, stack, 0, stack->frames_at ? stack->frames_at[item] : item, 0, registers);
    }
    if (unlikely(a->memory->error < 0))
        return false;
    a->left += state == 0;
    a->state = state;
    a->found = state ? tuples_get(&a->states, state - 1) : a->walk->words;
    uint32_t root = a->p->facts.p[0].last, item = stack->items[stack->n - 1];
    if (root != LOWER_NONE)
        registers[root] =
            (struct rules_register){stack->frames_at ? stack->frames_at[item + 1] - 1 : item, UINT32_MAX};
    return true;
}
