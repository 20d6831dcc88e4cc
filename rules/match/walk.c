/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A state is a tuple of bits (rules/program/lowered.h). A transition is computed by step_…() the first time a
 * (state, frame class) pair is met and stored in a dense table; nearly every frame of a long stack leaves the
 * state as it is, so the common step is one load and a well-predicted branch. What changes the state may also
 * remember the frame in registers, or in the list of an `each`: the transition's actions. A state that no
 * frame can change any more is absorbing, and ends the walk.
 *
 * **Parts.** What independent rules find out multiplies: five facts in five packs have 32 states together,
 * and 10 alone. Stacks as programs make them have a few hundred of these products, and one table of all is
 * the fastest there is; stacks drawn at random, or made by somebody who knows the rules, have a new one each.
 * So the automaton comes apart as it grows: the sources are dealt out to *parts*, each with an automaton over
 * only those bits that its own sources look at (lower_needs). There is one part to begin with. When a part
 * has MATCH_SPLIT states, or COLUMNS_MANY columns, it becomes two, so that as much as can be seen does not
 * multiply any more, and the walk begins anew; that can happen as often as there are sources, and is for
 * good. A component that two parts need is followed by both: it sets the same registers to the same frames.
 *
 * A part looks at few bits of a frame's class: classes that are equal in these have one *column* of its
 * table. (Walks go part by part. Frame by frame, with a mask of the parts that a class can concern, was twice
 * as dear.) The root of a stack has columns of its own, so that `root is P` is asked of it alone.
 *
 * **The bound.** MATCH_STATES_MAX and MATCH_CELLS_MAX hold for all parts together, MATCH_PART_CELLS_MAX for
 * each. Past them, a part that cannot come apart any further goes on without its table: the state at hand is
 * kept as bits (`loose`, the state number 0), every step is computed, and back in a state that has a number
 * the table serves again. Nothing is thrown away in mid-walk and no answer ever changes. A part that was
 * loose for long forgets its states when the next request begins (match_walk_begin), for they seem not to be
 * those of today. Who knows states by number compares `generation`.
 *
 * Measured (bench_classify --scatter 60, µs a request of the eBPF captures, of the random ones, all packs):
 * 32,000 and 24,000 with one table that was emptied when full, 510 to 580 and 240 so; connector and cpu alone
 * 76 and 160. With MATCH_SPLIT at half of what it is the random captures as they are come apart: 50 in place
 * of 35.
 */
#include "rules/match/walk.h"

#include <stdlib.h>
#include <string.h>

#include "proto/base/macros.h"
#include "rules/match/bits.h"

enum { PHASE_BEFORE, PHASE_IN, PHASE_DONE };

/* A cell: the frame changes nothing; not computed yet; else a transition's number + CELL_FIRST. */
#define CELL_STAY       0u
#define CELL_FIRST      1u
#define CELL_UNKNOWN    UINT16_MAX
#define TRANSITIONS_MAX (CELL_UNKNOWN - CELL_FIRST)

#define STRIDE_MIN   16u
#define STRIDE_MAX   4096u /* columns; what further classes do is computed each time */
#define COLUMNS_MANY 1024u /* classes, at which a part comes apart too, for each half asks less of them */
#define LOOSE_MAX    (1u << 14) /* steps without a table, after which a part forgets it */
#define COLUMN_NONE  0u         /* its cells are never known */

/* ---- life ------------------------------------------------------------------------------------ */

static uint32_t n_elements(const struct match_walk *w)
{
    return w->p->sources.n + 1;
}

static int init_part(struct match_walk *w, struct walk_part *part)
{
    struct budget *budget = w->memory->budget;
    tuples_init(&part->columns, budget);
    tuples_init(&part->states, budget);
    part->column.budget = part->cells.budget = part->transitions.budget = part->actions.budget = budget;
    part->taken.budget = part->absorbing.budget = part->marks.budget = budget;
    part->needs = calloc(w->p->need_words, sizeof *part->needs);
    part->asks = calloc(2 * w->frames->n_class_words, sizeof *part->asks);
    part->loose = calloc(w->n_state_words, sizeof *part->loose);
    return part->needs && part->asks && part->loose ? 0 : -ENOMEM;
}

static void empty_part(struct match_walk *w, struct walk_part *part)
{
    w->n_states -= part->states.n;
    w->n_cells -= part->cells.n;
    tuples_clear(&part->states);
    vec_release(&part->cells);
    vec_release(&part->transitions);
    vec_release(&part->taken);
    vec_release(&part->actions);
    vec_release(&part->absorbing);
    vec_release(&part->marks);
    part->loose_steps = 0;
    w->is_started = false;
    w->generation++;
    for (uint32_t i = 0; i < w->n_parts; i++)
        if (w->parts[i].marks.n > 0)
            memset(w->parts[i].marks.p, 0, w->parts[i].marks.n * sizeof *w->parts[i].marks.p);
}

/* They are found again in the order of classes, and so get the numbers that they had. */
static void forget_columns(struct match_walk *w)
{
    for (uint32_t i = 0; i < w->n_parts; i++) {
        tuples_clear(&w->parts[i].columns);
        vec_release(&w->parts[i].column);
    }
    w->n_classes = 0;
}

static void release_part(struct match_walk *w, struct walk_part *part)
{
    empty_part(w, part);
    tuples_clear(&part->columns);
    vec_release(&part->column);
    free(part->needs);
    free(part->asks);
    free(part->loose);
}

/* Adds the bits of components that are needed to `words`. */
static void add_bits(const struct match_walk *w, const uint32_t *needs, uint32_t *words)
{
    const struct rules_program *p = w->p;
#define ADD_BITS(kind, list, count)                                                       \
    for (uint32_t i = 0; i < p->list.n; i++)                                              \
        for (uint32_t b = 0; b < (count) && bits_get(needs, w->component[kind] + i); b++) \
            bits_set(words, p->list.p[i].bit + b);
    ADD_BITS(LOWER_REGION, regions, 2u)
    ADD_BITS(LOWER_FACT, facts, 1u)
    ADD_BITS(LOWER_IS, iss, 1u)
    ADD_BITS(LOWER_CHAIN, chains, 2 * p->chains.p[i].n)
    ADD_BITS(LOWER_TABLE, tables, p->tables.p[i].in_state ? 16u : p->tables.p[i].source->n_rows)
    ADD_BITS(LOWER_EACH, eaches, p->eaches.p[i].by_type ? LOWER_TYPES + 1 : 0u)
#undef ADD_BITS
}

/* Masks of the bits of a class: what a part asks of any frame, and of the root besides. */
enum { ASKS, ASKS_ROOT };

static uint32_t *mask_of(const struct match_walk *w, const struct walk_part *part, uint32_t which)
{
    return part->asks + which * w->frames->n_class_words;
}

static void ask(const struct match_walk *w, struct walk_part *part, uint32_t which, uint32_t node)
{
    if (node != LOWER_NONE)
        bits_set(mask_of(w, part, which), w->p->nodes.p[node].root);
}

/* What a part asks of classes, after its `needs`. */
static void find_asks(const struct match_walk *w, struct walk_part *part)
{
    const struct rules_program *p = w->p;
#define NEEDS(kind) bits_get(part->needs, w->component[kind] + i)
    memset(part->asks, 0, 2 * w->frames->n_class_words * sizeof *part->asks);
    part->by_type = part->of_root = false;
    for (uint32_t i = 0; i < p->regions.n; i++) {
        if (!NEEDS(LOWER_REGION))
            continue;
        ask(w, part, ASKS, p->regions.p[i].after);
        ask(w, part, ASKS, p->regions.p[i].while_);
        ask(w, part, ASKS, p->regions.p[i].until);
    }
    for (uint32_t i = 0; i < p->facts.n; i++)
        if (NEEDS(LOWER_FACT))
            ask(w, part, ASKS, p->facts.p[i].test);
    for (uint32_t i = 0; i < p->iss.n; i++) {
        if (!NEEDS(LOWER_IS))
            continue;
        bool root = p->iss.p[i].last && p->iss.p[i].fact == 0;
        ask(w, part, root ? ASKS_ROOT : ASKS, p->iss.p[i].test);
        part->of_root |= root;
    }
    for (uint32_t i = 0; i < p->chains.n; i++)
        for (uint32_t k = 0; k < p->chains.p[i].n && NEEDS(LOWER_CHAIN); k++)
            ask(w, part, ASKS, p->kids.p[p->chains.p[i].nodes + k]);
    for (uint32_t i = 0; i < p->tables.n; i++)
        for (uint32_t k = 0; k < p->tables.p[i].source->n_rows && NEEDS(LOWER_TABLE); k++)
            ask(w, part, ASKS, p->kids.p[p->tables.p[i].nodes + k]);
    for (uint32_t i = 0; i < p->eaches.n; i++) {
        if (!NEEDS(LOWER_EACH))
            continue;
        ask(w, part, ASKS, p->eaches.p[i].node);
        part->by_type |= p->eaches.p[i].by_type;
    }
#undef NEEDS
}

/* Makes a part of the elements that part_of says are its. */
static void gather_part(struct match_walk *w, uint32_t number)
{
    struct walk_part *part = &w->parts[number];
    memset(part->needs, 0, w->p->need_words * sizeof *part->needs);
    part->n_elements = part->n_outcomes = 0;
    for (uint32_t i = 0; i < n_elements(w); i++) {
        if (w->part_of[i] != number)
            continue;
        part->n_elements++;
        for (uint32_t k = 0; k < w->p->need_words; k++)
            part->needs[k] |= w->p->needs.p[i * w->p->need_words + k];
    }
    find_asks(w, part);
}

int match_walk_init(struct match_walk *w, const struct match_frames *frames)
{
    const struct rules_program *p = frames->p;
    w->p = p;
    w->memory = frames->memory;
    w->frames = frames;
    w->list.budget = w->memory->budget;
    w->n_state_words = (p->n_bits + 31) / 32;
    for (uint32_t kind = 0; kind <= LOWER_COMPONENTS; kind++)
        w->component[kind] = lower_component(p, (enum lower_kind)kind, 0);
    w->words = calloc(2 * w->n_state_words, sizeof *w->words);
    w->step_actions = calloc(2 * p->facts.n + p->n_regs + p->eaches.n + 1, sizeof *w->step_actions);
    w->in_region = calloc(p->regions.n, sizeof *w->in_region);
    w->class = calloc(frames->n_class_words + 1, sizeof *w->class);
    w->part_of = calloc(n_elements(w), sizeof *w->part_of);
    w->n_parts = 1;
    if (!w->words || !w->step_actions || !w->in_region || !w->class || !w->part_of ||
        init_part(w, &w->parts[0]) < 0)
        return -ENOMEM;
    gather_part(w, 0);
    return 0;
}

void match_walk_clear(struct match_walk *w)
{
    for (uint32_t i = 0; i < w->n_parts; i++) {
        empty_part(w, &w->parts[i]);
        w->parts[i].stride = 0;
    }
    forget_columns(w);
    vec_release(&w->list);
}

void match_walk_release(struct match_walk *w)
{
    for (uint32_t i = 0; i < w->n_parts; i++)
        release_part(w, &w->parts[i]);
    vec_release(&w->list);
    free(w->words);
    free(w->step_actions);
    free(w->in_region);
    free(w->class);
    free(w->part_of);
}

void match_walk_begin(struct match_walk *w)
{
    for (uint32_t i = 0; i < w->n_parts; i++)
        if (w->parts[i].loose_steps > LOOSE_MAX)
            empty_part(w, &w->parts[i]);
}

/* ---- one step -------------------------------------------------------------------------------- */

struct step {
    struct match_walk *w;
    const struct walk_part *part;
    uint32_t *words;      /* the state, being changed */
    const uint32_t *bits; /* the frame class */
    bool at_root;
};

static bool holds(const struct step *s, uint32_t node)
{
    return bits_get(s->bits, s->w->p->nodes.p[node].root);
}

static bool needs(const struct match_walk *w, const struct walk_part *part, enum lower_kind kind, uint32_t i)
{
    return bits_get(part->needs, w->component[kind] + i);
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
        if (!needs(s->w, s->part, LOWER_REGION, i))
            continue;
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
        if (!needs(s->w, s->part, LOWER_IS, i) || (is->last && is->fact == 0 && !s->at_root) ||
            !s->w->in_region[f->region] || !holds(s, f->test) || (!is->last && bits_get(s->words, f->bit)))
            continue;
        bits_clear(s->words, is->bit);
        if (holds(s, is->test))
            bits_set(s->words, is->bit);
    }
    for (uint32_t i = 0; i < p->facts.n; i++) {
        const struct lower_fact *f = &p->facts.p[i];
        if (!needs(s->w, s->part, LOWER_FACT, i) || !s->w->in_region[f->region] || !holds(s, f->test))
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
        if (!needs(s->w, s->part, LOWER_CHAIN, c) || bits_get(s->words, chain->bit))
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
        if (!needs(s->w, s->part, LOWER_TABLE, t) || !s->w->in_region[table->region] ||
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
        if (!needs(s->w, s->part, LOWER_EACH, i) || !s->w->in_region[each->region] || !holds(s, each->node))
            continue;
        if (each->by_type)
            bits_set(s->words, each->bit + type);
        if (!each->by_type || type == MATCH_TYPE_MORE)
            act(s, MATCH_PUSH | i);
    }
}

/* No frame can change what this state says: the walk may end. */
static bool is_absorbing(const struct match_walk *w, const struct walk_part *part, const uint32_t *words)
{
    const struct rules_program *p = w->p;
#define DONE(region) (bits_number(words, p->regions.p[region].bit, 2) == PHASE_DONE)
    for (uint32_t i = 0; i < p->facts.n; i++) {
        const struct lower_fact *f = &p->facts.p[i];
        if (needs(w, part, LOWER_FACT, i) && !DONE(f->region) &&
            !(bits_get(words, f->bit) && (f->last == LOWER_NONE || i == 0)))
            return false;
    }
    for (uint32_t i = 0; i < p->iss.n; i++)
        if (needs(w, part, LOWER_IS, i) && p->iss.p[i].last && !DONE(p->facts.p[p->iss.p[i].fact].region))
            return false;
    for (uint32_t i = 0; i < p->chains.n; i++)
        if (needs(w, part, LOWER_CHAIN, i) && !bits_get(words, p->chains.p[i].bit))
            return false;
    for (uint32_t i = 0; i < p->eaches.n; i++)
        if (needs(w, part, LOWER_EACH, i) && !DONE(p->eaches.p[i].region))
            return false;
    for (uint32_t i = 0; i < p->tables.n; i++) {
        const struct lower_table *t = &p->tables.p[i];
        if (!needs(w, part, LOWER_TABLE, i) || DONE(t->region) ||
            (t->in_state && bits_number(words, t->bit, 16) != 0))
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

/* ---- columns --------------------------------------------------------------------------------- */

/* The one part that there is has the classes themselves as columns, and with them once more, as the root's,
 * in the other half of a row: nothing need be looked up then. */
static uint32_t row_half(const struct match_walk *w, const struct walk_part *part)
{
    return w->n_parts == 1 && part->of_root ? part->stride / 2 : part->stride;
}

/* A condition: a part (w->full) has to come apart before there can be more. */
#define MUST_SPLIT 1

static bool may_split(const struct match_walk *w, const struct walk_part *part)
{
    return part->n_elements > 1 && w->n_parts < RULES_PARTS_MAX;
}

/* Wider rows, for more columns. */
static int widen(struct match_walk *w, struct walk_part *part)
{
    uint32_t rows = part->stride ? part->cells.n / part->stride : 0, was = part->stride,
             half = row_half(w, part);
    VEC(uint16_t) cells = {.budget = part->cells.budget};
    part->stride = max_of(2 * was, STRIDE_MIN);
    if (vec_reserve(&cells, (uint64_t)rows * part->stride) < 0)
        return -ENOMEM;
    if (rows > 0)
        memset(cells.p, 0xff, (size_t)rows * part->stride * sizeof *cells.p); /* CELL_UNKNOWN */
    for (uint32_t i = 0; i < rows; i++) {
        uint16_t *to = cells.p + (size_t)i * part->stride, *from = part->cells.p + (size_t)i * was;
        memcpy(to, from, half * sizeof *to);
        memcpy(to + row_half(w, part), from + half, (was - half) * sizeof *to);
    }
    for (uint32_t i = 0; i < part->transitions.n; i++)
        part->transitions.p[i].row = part->transitions.p[i].next * part->stride;
    for (uint32_t i = 0; i < part->column.n && half < was; i++)
        if (part->column.p[i].root != COLUMN_NONE)
            part->column.p[i].root = (uint16_t)(part->column.p[i].root + row_half(w, part) - half);
    w->n_cells += rows * (part->stride - was);
    vec_release(&part->cells);
    part->cells.p = cells.p;
    part->cells.room = cells.room;
    part->cells.n = rows * part->stride;
    return 0;
}

/* The number of the bits that the part asks of a class, as any frame's or as the root's. TUPLES_NONE: no
 * memory. */
static uint32_t find_column(struct match_walk *w, struct walk_part *part, const uint32_t *bits, bool root)
{
    uint32_t n = w->frames->n_class_words;
    for (uint32_t i = 0; i < n; i++)
        w->class[i] = bits[i] & (mask_of(w, part, ASKS)[i] | (root ? mask_of(w, part, ASKS_ROOT)[i] : 0));
    w->class[n - 1] = part->by_type ? bits[n - 1] : 0;
    w->class[n] = root;
    return tuples_add(&part->columns, w->class, n + 1);
}

/* The column of a class, COLUMN_NONE when rows are as wide as they may be. 0, MUST_SPLIT or -ENOMEM. */
static int add_column(struct match_walk *w, struct walk_part *part, uint32_t class, bool root, uint16_t *ret)
{
    bool direct = w->n_parts == 1;
    uint32_t column = direct ? class : find_column(w, part, tuples_get(&w->frames->classes, class), root);
    if (column == TUPLES_NONE)
        return -ENOMEM;
    if (column >= COLUMNS_MANY && may_split(w, part)) {
        w->full = part;
        return MUST_SPLIT;
    }
    while (column + 1 >= row_half(w, part) && part->stride < STRIDE_MAX)
        if (widen(w, part) < 0)
            return -ENOMEM;
    uint32_t half = row_half(w, part), at = direct && root ? half : 0;
    *ret = column + 1 < half ? (uint16_t)(at + column + 1) : COLUMN_NONE;
    return 0;
}

static int add_class(struct match_walk *w, uint32_t class)
{
    for (uint32_t i = 0; i < w->n_parts; i++) {
        struct walk_part *part = &w->parts[i];
        struct class_columns columns;
        int r = add_column(w, part, class, false, &columns.column);
        r = r != 0 ? r : add_column(w, part, class, part->of_root, &columns.root);
        r = r != 0 ? r : vec_extend(&part->column, class + 2);
        if (r != 0)
            return r;
        part->column.p[class + 1] = columns;
    }
    w->n_classes = class + 1;
    return 0;
}

/* Classes that are new since the last walk. 0, MUST_SPLIT (w->full) or -ENOMEM. */
static int add_classes(struct match_walk *w)
{
    for (int r; w->n_classes < w->frames->classes.n;)
        if ((r = add_class(w, w->n_classes)) != 0)
            return r;
    w->is_direct = w->n_parts == 1 && w->frames->classes.n < row_half(w, &w->parts[0]);
    return 0;
}

/* ---- the table ------------------------------------------------------------------------------- */

/* State s has the words of tuple s - 1 and row s of the cells; of state 0 the words are `loose`, and none of
 * its cells is ever known. */
const uint32_t *match_walk_words(const struct match_walk *w, const struct rules_verdict *v, uint32_t part)
{
    const struct walk_part *of = &w->parts[part];
    return v->state[part] == 0 ? of->loose : tuples_get(&of->states, v->state[part] - 1);
}

const uint32_t *match_walk_whole(const struct match_walk *w, const struct rules_verdict *v)
{
    uint32_t *whole = w->words + w->n_state_words;
    memset(whole, 0, w->n_state_words * sizeof *whole);
    for (uint32_t i = 0; i < w->n_parts; i++) {
        const uint32_t *words = match_walk_words(w, v, i);
        for (uint32_t k = 0; k < w->n_state_words; k++)
            whole[k] |= words[k];
    }
    return whole;
}

static int add_row(struct match_walk *w, struct walk_part *part, bool absorbing)
{
    uint32_t n = part->absorbing.n;
    if (vec_reserve(&part->cells, (n + 1) * (uint64_t)part->stride) < 0 ||
        vec_extend(&part->marks, n + 1) < 0 || vec_append(&part->absorbing, absorbing) < 0)
        return -ENOMEM;
    memset(part->cells.p + part->cells.n, 0xff, part->stride * sizeof *part->cells.p); /* CELL_UNKNOWN */
    part->cells.n += part->stride;
    w->n_cells += part->stride;
    return 0;
}

/* The number of the state in w->words; 0 when there is no room for it, and then it is in `loose`.
 * TUPLES_NONE: memory is out, or (no error, w->full) the part has to come apart. */
static uint32_t enter_state(struct match_walk *w, struct walk_part *part)
{
    uint32_t id = tuples_find(&part->states, w->words, w->n_state_words);
    if (id != TUPLES_NONE)
        return id + 1;
    bool wide = part->cells.n + part->stride > MATCH_PART_CELLS_MAX;
    if ((part->states.n >= MATCH_SPLIT || wide) && may_split(w, part)) {
        w->full = part;
        return TUPLES_NONE;
    }
    if (part->states.n > 0 && (wide || w->n_states >= MATCH_STATES_MAX || w->n_cells >= MATCH_CELLS_MAX)) {
        memcpy(part->loose, w->words, w->n_state_words * sizeof *part->loose);
        return 0;
    }
    if (add_row(w, part, is_absorbing(w, part, w->words)) < 0 ||
        (id = tuples_add(&part->states, w->words, w->n_state_words)) == TUPLES_NONE)
        return match_memory_out(w->memory);
    w->n_states++;
    return id + 1;
}

/* The start state, which is number 1, behind the row of state 0. */
static int start_part(struct match_walk *w, struct walk_part *part)
{
    memset(w->words, 0, w->n_state_words * sizeof *w->words);
    for (uint32_t i = 0; i < w->p->regions.n; i++) {
        const struct lower_region *region = &w->p->regions.p[i];
        if (needs(w, part, LOWER_REGION, i))
            put_phase(w->words, region->bit, region->after == LOWER_NONE ? PHASE_IN : PHASE_BEFORE);
    }
    return add_row(w, part, false) == 0 && enter_state(w, part) != TUPLES_NONE ? 0 : -ENOMEM;
}

/* What w->words, step_actions say is what this cell does from now on. */
static int remember(struct match_walk *w, struct walk_part *part, uint32_t state, uint32_t column,
                    uint32_t next)
{
    uint16_t *cell = &part->cells.p[(size_t)state * part->stride + column];
    uint32_t n = w->n_step_actions;
    if (next == state && n == 0) {
        *cell = CELL_STAY;
        return 0;
    }
    if (part->transitions.n == TRANSITIONS_MAX)
        return 0;
    struct transition t = {.row = next * part->stride,
                           .next = (uint16_t)next,
                           .absorbing = part->absorbing.p[next],
                           .slow = n > MATCH_SETS || w->p->n_regs > UINT16_MAX};
    for (uint32_t i = 0; i < n; i++)
        t.slow |= (w->step_actions[i] & MATCH_PUSH) != 0;
    for (uint32_t i = 0; i < MATCH_SETS && !t.slow; i++)
        t.set[i] = (uint16_t)(n == 0 ? w->p->n_regs : w->step_actions[min_of(i, n - 1)]);
    if (vec_reserve(&part->taken, (uint64_t)part->taken.n + 1) < 0 ||
        vec_reserve(&part->transitions, (uint64_t)part->transitions.n + 1) < 0 ||
        vec_append_all(&part->actions, w->step_actions, n) < 0)
        return -ENOMEM;
    vec_append(&part->taken, (struct transition_actions){part->actions.n - n, n});
    vec_append(&part->transitions, t);
    *cell = (uint16_t)(CELL_FIRST + part->transitions.n - 1);
    return 0;
}

/* Computes (state, class) → next, with its actions in w->step_actions; remembers it where there is a cell. */
static uint32_t compute(struct match_walk *w, struct walk_part *part, uint32_t state, uint32_t class,
                        bool at_root)
{
    struct step s = {.w = w,
                     .part = part,
                     .words = w->words,
                     .bits = tuples_get(&w->frames->classes, class),
                     .at_root = at_root};
    memcpy(w->words, state == 0 ? part->loose : tuples_get(&part->states, state - 1),
           w->n_state_words * sizeof *w->words);
    w->n_step_actions = 0;
    step_regions(&s);
    step_facts(&s);
    step_chains(&s);
    step_tables(&s);
    step_eaches(&s);
    uint32_t next = enter_state(w, part), column;
    if (next == TUPLES_NONE)
        return next;
    column = at_root ? part->column.p[class + 1].root : part->column.p[class + 1].column;
    w->steps++;
    if (state == 0 || next == 0 || part->transitions.n == TRANSITIONS_MAX)
        part->loose_steps++;
    else if (column != COLUMN_NONE && remember(w, part, state, column, next) < 0)
        return match_memory_out(w->memory);
    return next;
}

/* ---- coming apart ---------------------------------------------------------------------------- */

/* How many different states there would be of those a part has, with only the bits of `needs`. */
static uint32_t count_states(struct match_walk *w, const struct walk_part *part, const uint32_t *needs)
{
    struct tuples seen;
    uint32_t *mask = w->words + w->n_state_words, n;
    tuples_init(&seen, w->memory->budget);
    memset(mask, 0, w->n_state_words * sizeof *mask);
    add_bits(w, needs, mask);
    for (uint32_t i = 0; i < part->states.n; i++) {
        const uint32_t *words = tuples_get(&part->states, i);
        for (uint32_t k = 0; k < w->n_state_words; k++)
            w->words[k] = words[k] & mask[k];
        tuples_add(&seen, w->words, w->n_state_words);
    }
    n = seen.n;
    tuples_clear(&seen);
    return n;
}

static uint32_t count_with(struct match_walk *w, const struct walk_part *part, const uint32_t *needs,
                           uint32_t element, uint32_t *both)
{
    for (uint32_t k = 0; k < w->p->need_words; k++)
        both[k] = needs[k] | w->p->needs.p[element * w->p->need_words + k];
    return count_states(w, part, both);
}

/* An element of the part for which a count is the highest: alone, or together with `needs`. */
static uint32_t highest(struct match_walk *w, const struct walk_part *part, uint32_t number,
                        const uint32_t *needs, uint32_t *both)
{
    uint32_t best = UINT32_MAX, best_n = 0;
    for (uint32_t i = 0; i < n_elements(w); i++) {
        uint32_t n = w->part_of[i] == number ? count_with(w, part, needs, i, both) : 0;
        if (w->part_of[i] == number && (best == UINT32_MAX || n > best_n)) {
            best = i;
            best_n = n;
        }
    }
    return best;
}

/* Whether a side of a part that comes apart has nearly as many states as there were: of one more element it
 * could not be seen any more what it multiplies. */
static bool is_saturated(const struct walk_part *part, uint32_t n)
{
    return n > part->states.n / 5 * 4;
}

/* Two parts of one. The element that has most states stays, and the one that multiplies them most goes; each
 * of the others is where it adds fewer, while that can be seen. Some milliseconds, a few times in the life of
 * a matcher. */
static __attribute__((noinline, cold)) int split(struct match_walk *w)
{
    struct walk_part *part = w->full;
    uint32_t number = (uint32_t)(part - w->parts), words = w->p->need_words, n[2], elements[2] = {1, 1};
    autofree uint32_t *needs = calloc(3 * (size_t)words, sizeof *needs);
    uint32_t *both = needs + 2 * words;
    w->full = NULL;
    if (!needs || init_part(w, &w->parts[w->n_parts]) < 0) {
        release_part(w, &w->parts[w->n_parts]);
        return -ENOMEM;
    }
    for (uint32_t side = 0; side < 2; side++) {
        uint32_t seed = highest(w, part, number, needs, both);
        n[side] = count_with(w, part, needs + side * words, seed, needs + side * words);
        w->part_of[seed] = (uint8_t)(RULES_PARTS_MAX + side);
    }
    for (uint32_t i = 0; i < n_elements(w); i++) {
        if (w->part_of[i] != number)
            continue;
        uint32_t more[2];
        for (uint32_t side = 0; side < 2; side++) {
            uint32_t with = count_with(w, part, needs + side * words, i, both);
            bool adds = memcmp(both, needs + side * words, words * sizeof *both) != 0;
            more[side] = adds && is_saturated(part, with) ? UINT32_MAX : with - n[side];
        }
        uint32_t to = more[0] == more[1] ? elements[0] > elements[1] : more[0] > more[1];
        n[to] = count_with(w, part, needs + to * words, i, needs + to * words);
        w->part_of[i] = (uint8_t)(RULES_PARTS_MAX + to);
        elements[to]++;
    }
    for (uint32_t i = 0; i < n_elements(w); i++)
        if (w->part_of[i] >= RULES_PARTS_MAX)
            w->part_of[i] = (uint8_t)(w->part_of[i] == RULES_PARTS_MAX ? number : w->n_parts);
    empty_part(w, part);
    part->stride = 0;
    forget_columns(w);
    gather_part(w, w->n_parts++);
    gather_part(w, number);
    return 0;
}

/* ---- walking --------------------------------------------------------------------------------- */

static int run_actions(struct match_walk *w, uint32_t part, const uint32_t *actions, uint32_t n,
                       struct rules_verdict *v, uint32_t frame, uint32_t position)
{
    for (uint32_t i = 0; i < n; i++) {
        if (!(actions[i] & MATCH_PUSH)) {
            v->registers[actions[i]] = (struct rules_register){frame, position};
            continue;
        }
        if (vec_append(&w->list, (struct list_item){part, actions[i] & ~MATCH_PUSH, frame, position}) < 0)
            return -ENOMEM;
    }
    return 0;
}

/* A step nobody took before, or one that appends to lists. */
static uint32_t advance(struct match_walk *w, struct walk_part *part, uint32_t state, uint32_t class,
                        bool at_root, struct rules_verdict *v, uint32_t frame, uint32_t position)
{
    struct class_columns columns = part->column.p[class + 1];
    uint32_t cell = part->cells.p[(size_t)state * part->stride + (at_root ? columns.root : columns.column)],
             number = (uint32_t)(part - w->parts);
    if (cell == CELL_STAY)
        return state;
    if (cell == CELL_UNKNOWN) {
        uint32_t next = compute(w, part, state, class, at_root);
        if (next != TUPLES_NONE &&
            run_actions(w, number, w->step_actions, w->n_step_actions, v, frame, position) < 0)
            return match_memory_out(w->memory);
        return next;
    }
    const struct transition_actions *t = &part->taken.p[cell - CELL_FIRST];
    if (run_actions(w, number, part->actions.p + t->actions, t->n, v, frame, position) < 0)
        return match_memory_out(w->memory);
    return part->transitions.p[cell - CELL_FIRST].next;
}

/* One item the long way: of several frames, or with a step that is new or slow. TUPLES_NONE when memory is
 * out or the part has to come apart. */
static __attribute__((noinline)) uint32_t walk_item(struct match_walk *w, struct walk_part *part,
                                                    const struct rules_stack *stack, struct rules_verdict *v,
                                                    uint32_t state, uint32_t i, uint32_t position)
{
    uint32_t item = stack->items[i], frame = stack->frames_at ? stack->frames_at[item] : item,
             end = stack->frames_at ? stack->frames_at[item + 1] : item + 1;
    for (; frame < end && state != TUPLES_NONE && !part->absorbing.p[state]; frame++, position++)
        state = advance(w, part, state, stack->classes[frame], i + 1 == stack->n && frame + 1 == end, v,
                        frame, position);
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
    for (uint32_t i = 0; i < MATCH_SETS; i++)
        memcpy(&registers[t->set[i]], &here, sizeof here);
}

/* Where a walk is. */
struct at {
    const uint16_t *row;
    uint32_t state, extra; /* extra: frames beyond one an item, so far */
};

/* The items from … to - 1 of a stack. The column of class 0 is `first` and the others follow, or it is
 * columns[2 × class]. Of items of several frames the class is RULES_MANY, as a number -1. False: the walk of
 * the part is over, for the state is absorbing, memory is out, or the part has to come apart. */
static inline __attribute__((always_inline)) bool walk_items(struct match_walk *w, struct walk_part *part,
                                                             const struct rules_stack *stack,
                                                             struct rules_verdict *v, struct at *at,
                                                             uint32_t from, uint32_t to, uint32_t first,
                                                             const uint16_t *columns)
{
    const uint32_t *items = stack->items, *end = items + to, *frames_at = stack->frames_at,
                   *classes = frames_at ? stack->item_classes : stack->classes;
    const uint16_t *row = at->row + first;
    for (const uint32_t *item = items + from; item < end; item++) {
        ptrdiff_t class = (int32_t)classes[*item];
        uint32_t cell = row[columns ? columns[2 * class] : class];
        if (likely(cell == CELL_STAY))
            continue;
        uint32_t position = (uint32_t)(item - items) + at->extra;
        if (likely(cell != CELL_UNKNOWN && !part->transitions.p[cell - CELL_FIRST].slow)) {
            const struct transition *t = &part->transitions.p[cell - CELL_FIRST];
            set_registers(t, v->registers, frames_at ? frames_at[*item] : *item, position);
            at->state = t->next;
            row = part->cells.p + t->row + first;
            if (t->absorbing)
                return false;
            continue;
        }
        at->state = walk_item(w, part, stack, v, at->state, (uint32_t)(item - items), position);
        if (at->state == TUPLES_NONE || part->absorbing.p[at->state])
            return false;
        at->extra += more_frames(stack, *item);
        row = part->cells.p + (size_t)at->state * part->stride + first;
    }
    at->row = row - first;
    return true;
}

/* While there is one part and all classes have columns. The root is the last item. False when memory is out
 * or the part has to come apart. */
static inline bool walk_direct(struct match_walk *w, const struct rules_stack *stack, struct rules_verdict *v)
{
    struct walk_part *part = &w->parts[0];
    struct at at = {part->cells.p + part->stride, 1, 0};
    uint32_t frames = stack->n - part->of_root;
    if (walk_items(w, part, stack, v, &at, 0, frames, 1, NULL) && part->of_root)
        walk_items(w, part, stack, v, &at, frames, stack->n, part->stride / 2 + 1, NULL);
    v->state[0] = (uint16_t)at.state;
    return at.state != TUPLES_NONE;
}

/* Else: part by part. */
static __attribute__((noinline)) bool walk_parts(struct match_walk *w, const struct rules_stack *stack,
                                                 struct rules_verdict *v)
{
    for (uint32_t i = 0; i < w->n_parts; i++) {
        struct walk_part *part = &w->parts[i];
        struct at at = {part->cells.p + part->stride, 1, 0};
        uint32_t frames = stack->n - part->of_root;
        if (walk_items(w, part, stack, v, &at, 0, frames, 0, &part->column.p[1].column) && part->of_root)
            walk_items(w, part, stack, v, &at, frames, stack->n, 0, &part->column.p[1].root);
        if (at.state == TUPLES_NONE)
            return false;
        v->state[i] = (uint16_t)at.state;
    }
    return true;
}

void match_walk_outcome(struct match_walk *w, uint32_t part)
{
    struct walk_part *of = &w->parts[part];
    if (++of->n_outcomes < MATCH_SPLIT_OUTCOMES || !may_split(w, of))
        return;
    w->full = of;
    w->is_started = false;
}

/* Everything that a walk needs to begin. */
static __attribute__((noinline)) int prepare(struct match_walk *w)
{
    int r = MUST_SPLIT;
    while (r == MUST_SPLIT) {
        if (w->full && split(w) < 0)
            return -ENOMEM;
        r = add_classes(w);
    }
    if (r < 0)
        return r;
    for (uint32_t i = 0; i < w->n_parts; i++)
        if (w->parts[i].absorbing.n == 0 && start_part(w, &w->parts[i]) < 0)
            return -ENOMEM;
    return 0;
}

bool match_walk_stack(struct match_walk *w, const struct rules_stack *stack, struct rules_verdict *v)
{
    vec_clear(&w->list);
    if (unlikely(stack->n == 0 || w->memory->error < 0 || w->frames->classes.n == 0))
        return false;
    bool ready = w->n_classes == w->frames->classes.n && w->is_started; /* walking makes no classes */
    while (unlikely(!ready) || !(w->is_direct ? walk_direct(w, stack, v) : walk_parts(w, stack, v))) {
        if (w->memory->error < 0)
            return false;
        if (prepare(w) < 0) {
            match_memory_out(w->memory);
            return false;
        }
        ready = w->is_started = true;
        vec_clear(&w->list);
    }
    uint32_t root = w->p->facts.p[0].last, item = stack->items[stack->n - 1];
    if (root != LOWER_NONE)
        v->registers[root] =
            (struct rules_register){stack->frames_at ? stack->frames_at[item + 1] - 1 : item, UINT32_MAX};
    v->generation = w->generation;
    return true;
}
