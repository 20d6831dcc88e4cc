/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a frame can do to a walk is an *item*: begin or end a region, be the first or last frame of a fact,
 * decide a table's row, go on with a chain. A class of frames has a mask of the items that its frames do
 * (`asks`), the walk one of those that can still matter (`live`): those of a region are live while the walk
 * is inside, and what is found out once for all is not live any more. So a frame is two loads and an AND,
 * nearly all of them do nothing, and what is done depends on how many different things a stack says, not on
 * how many rules there are. Nothing is remembered from stack to stack, so no stack can be new to it.
 *
 * The one thing that every frame says anew, its type, is gathered aside for the first `each` by type: an OR.
 *
 * automaton.c stands before this and answers what programs make again and again; alone, this is 1.3 times the
 * time of captures, and scattered stacks are as they are here.
 */
#include "rules/match/walk.h"

#include <stdlib.h>
#include <string.h>

#include "proto/base/macros.h"
#include "rules/match/bits.h"

/* As many as the shipped packs have, and who has fewer: these are compared at once. */
#define MASKS_FEW  2u
#define STRIDE_FEW 4u /* a power of two */

/* ---- items ----------------------------------------------------------------------------------- */

static inline void set(uint64_t *masks, uint32_t item)
{
    masks[item / 64] |= 1ull << (item % 64);
}

static inline void clear(uint64_t *masks, uint32_t item)
{
    masks[item / 64] &= ~(1ull << (item % 64));
}

static uint64_t *inside(const struct match_walk *w, uint32_t region)
{
    return w->of_region + (size_t)region * w->n_masks;
}

static uint32_t add_item(struct match_walk *w, enum walk_what what, uint32_t of, uint32_t node, uint32_t bit,
                         uint32_t first)
{
    w->items[w->n_items] = (struct walk_item){what, of, node, bit, first, w->p->n_regs, LOWER_NONE, 0, 0};
    return w->n_items++;
}

static void add_regions(struct match_walk *w)
{
    for (uint32_t i = 0; i < w->p->regions.n; i++) {
        const struct lower_region *r = &w->p->regions.p[i];
        if (r->after != LOWER_NONE)
            set(w->start, add_item(w, WALK_AFTER, i, LOWER_NONE, 0, 0));
        if (r->while_ != LOWER_NONE)
            set(inside(w, i), add_item(w, WALK_WHILE, i, LOWER_NONE, 0,
                                       0)); /* before UNTIL: who does not hold is not inside */
        if (r->until != LOWER_NONE)
            set(inside(w, i), add_item(w, WALK_UNTIL, i, LOWER_NONE, 0, 0));
    }
}

static uint32_t or_spare(const struct match_walk *w, uint32_t reg)
{
    return reg != LOWER_NONE ? reg : w->p->n_regs;
}

static void add_facts(struct match_walk *w)
{
    const struct rules_program *p = w->p;
    uint32_t from = w->n_items;
    for (uint32_t i = 0; i < p->facts.n; i++) {
        const struct lower_fact *f = &p->facts.p[i];
        uint32_t number = add_item(w, WALK_FOUND, i, f->test, f->bit, or_spare(w, f->first));
        set(inside(w, f->region), number);
        set(w->once, number);
        if (f->last == LOWER_NONE || i == 0) /* the root is known without */
            continue;
        w->items[number].what = WALK_FACT;
        w->items[number].last = f->last;
        clear(w->once, number);
    }
    for (uint32_t i = 0; i < p->iss.n; i++) {
        const struct lower_is *is = &p->iss.p[i];
        struct walk_item *fact = &w->items[from + is->fact];
        uint32_t *first = is->last && is->fact == 0 ? &w->root_is : &fact->is;
        w->next_is[i] = *first;
        *first = i;
        if (first == &fact->is)
            fact->what = WALK_FACT;
        if (first == &fact->is && is->last)
            clear(w->once, from + is->fact);
    }
}

static void add_rows(struct match_walk *w, uint32_t table)
{
    const struct lower_table *t = &w->p->tables.p[table];
    uint32_t from = w->n_items;
    for (uint32_t i = 0; i < t->source->n_rows; i++) {
        uint32_t node = w->p->kids.p[t->nodes + i];
        if (node == LOWER_NONE)
            continue;
        enum walk_what ends = t->source->nearest_leaf ? WALK_NEAREST : WALK_ROW;
        uint32_t number =
            add_item(w, t->source->rows[i].when ? WALK_FOUND : ends, table, node, t->bit + i, t->reg + i);
        set(inside(w, t->region), number);
        set(w->once, number);
    }
    for (uint32_t i = from; i < w->n_items; i++) {
        w->items[i].below = w->n_items - 1 - i;
        w->items[i].above = i - from;
    }
}

static void add_others(struct match_walk *w)
{
    const struct rules_program *p = w->p;
    for (uint32_t i = 0; i < p->tables.n; i++) {
        if (!p->tables.p[i].in_state) {
            add_rows(w, i);
            continue;
        }
        uint32_t number = add_item(w, WALK_TABLE, i, LOWER_NONE, p->tables.p[i].bit, p->tables.p[i].reg);
        set(inside(w, p->tables.p[i].region), number);
        set(w->once, number);
    }
    for (uint32_t i = 0; i < p->chains.n; i++) {
        set(w->start, add_item(w, WALK_CHAIN, i, LOWER_NONE, p->chains.p[i].bit, 0));
        w->chain_at[i] = w->n_passed;
        w->n_passed += p->chains.p[i].n;
    }
    for (uint32_t i = 0; i < p->eaches.n; i++) {
        const struct lower_each *each = &p->eaches.p[i];
        if (w->types_of == LOWER_NONE && each->by_type && each->region == 0)
            w->types_of = i;
        set(inside(w, each->region), add_item(w, WALK_EACH, i, LOWER_NONE, each->bit, 0));
    }
}

int match_walk_init(struct match_walk *w, const struct match_frames *frames)
{
    const struct rules_program *p = frames->p;
    uint32_t most = p->facts.n + p->chains.n + p->eaches.n, elements = 0;
    for (uint32_t i = 0; i < p->regions.n; i++)
        most += (p->regions.p[i].after != LOWER_NONE) + (p->regions.p[i].while_ != LOWER_NONE) +
                (p->regions.p[i].until != LOWER_NONE);
    for (uint32_t i = 0; i < p->chains.n; i++)
        elements += p->chains.p[i].n;
    for (uint32_t i = 0; i < p->tables.n; i++)
        most += p->tables.p[i].in_state ? 1 : p->tables.p[i].source->n_rows;
    w->p = p;
    w->memory = frames->memory;
    w->frames = frames;
    w->asks.budget = w->rows.budget = w->list.budget = w->memory->budget;
    w->root_is = w->types_of = LOWER_NONE;
    w->n_masks = max_of(most / 64 + 1, MASKS_FEW); /* the last bit is always live, and done by RULES_MANY */
    w->n_words = 2 * ((p->n_bits + 63) / 64) + 2;  /* room to add 64 bits at any place */
    w->n_saved = w->n_words + 2 * w->n_masks + elements;
    w->stride = w->n_masks == MASKS_FEW ? STRIDE_FEW : 1 + w->n_masks;
    w->items = calloc(most, sizeof *w->items);
    w->start = calloc(w->n_masks, sizeof *w->start);
    w->once = calloc(w->n_masks, sizeof *w->once);
    w->live = calloc(w->n_masks, sizeof *w->live);
    w->of_region = calloc((size_t)p->regions.n * w->n_masks, sizeof *w->of_region);
    w->next_is = calloc(p->iss.n + 1, sizeof *w->next_is);
    w->chain_at = calloc(p->chains.n + 1, sizeof *w->chain_at);
    w->words = calloc(w->n_words, sizeof *w->words);
    w->passed = calloc(elements + 1, sizeof *w->passed);
    w->begin = calloc(p->regions.n, sizeof *w->begin);
    w->end = calloc(p->regions.n, sizeof *w->end);
    if (!w->items || !w->start || !w->once || !w->live || !w->of_region || !w->next_is || !w->chain_at ||
        !w->words || !w->passed || !w->begin || !w->end)
        return -ENOMEM;
    add_regions(w);
    add_facts(w);
    add_others(w);
    set(w->start, 64 * w->n_masks - 1);
    for (uint32_t i = 0; i < p->regions.n; i++)
        for (uint32_t k = 0; k < w->n_masks && p->regions.p[i].after == LOWER_NONE; k++)
            w->start[k] |= inside(w, i)[k];
    return 0;
}

void match_walk_clear(struct match_walk *w)
{
    vec_release(&w->asks);
    vec_release(&w->rows);
    vec_release(&w->list);
    w->n_classes = 0;
}

void match_walk_release(struct match_walk *w)
{
    match_walk_clear(w);
    free(w->items);
    free(w->start);
    free(w->once);
    free(w->live);
    free(w->of_region);
    free(w->next_is);
    free(w->chain_at);
    free(w->words);
    free(w->passed);
    free(w->begin);
    free(w->end);
}

/* ---- what classes do ------------------------------------------------------------------------- */

static bool holds(const struct match_walk *w, const uint32_t *bits, uint32_t node)
{
    return node != LOWER_NONE && bits_get(bits, w->p->nodes.p[node].root);
}

/* The first row of a table that the class satisfies, + 1; 0: none. */
static uint32_t first_row(const struct match_walk *w, const uint32_t *bits, uint32_t table)
{
    const struct lower_table *t = &w->p->tables.p[table];
    for (uint32_t i = 0; i < t->source->n_rows; i++)
        if (holds(w, bits, w->p->kids.p[t->nodes + i]))
            return i + 1;
    return 0;
}

static bool is_in_chain(const struct match_walk *w, const uint32_t *bits, const struct lower_chain *chain)
{
    for (uint32_t i = 0; i < chain->n; i++)
        if (holds(w, bits, w->p->kids.p[chain->nodes + i]))
            return true;
    return false;
}

static bool does(const struct match_walk *w, const uint32_t *bits, const uint16_t *rows,
                 const struct walk_item *item)
{
    const struct rules_program *p = w->p;
    switch (item->what) {
    case WALK_AFTER: return holds(w, bits, p->regions.p[item->of].after);
    case WALK_WHILE: return !holds(w, bits, p->regions.p[item->of].while_);
    case WALK_UNTIL: return holds(w, bits, p->regions.p[item->of].until);
    case WALK_FACT:
    case WALK_FOUND:
    case WALK_ROW:
    case WALK_NEAREST: return holds(w, bits, item->node);
    case WALK_TABLE: return rows[item->of] != 0;
    case WALK_CHAIN: return is_in_chain(w, bits, &p->chains.p[item->of]);
    case WALK_EACH:
        return holds(w, bits, p->eaches.p[item->of].node) &&
               (item->of != w->types_of || bits[w->frames->n_class_words - 1] == MATCH_TYPE_MORE);
    }
    return false;
}

/* What a class says and asks. */
static inline uint64_t *of_class(const struct match_walk *w, uint32_t class)
{
    return w->asks.p + (size_t)(class + 1) * w->stride;
}

static int add_class(struct match_walk *w, uint32_t class)
{
    const uint32_t *bits = tuples_get(&w->frames->classes, class), tables = w->p->tables.n;
    uint64_t n_asks = (uint64_t)(class + 2) * w->stride, n_rows = (uint64_t)(class + 1) * tables;
    if (max_of(n_asks, n_rows) > UINT32_MAX || vec_extend(&w->asks, (uint32_t)n_asks) < 0 ||
        vec_extend(&w->rows, (uint32_t)n_rows) < 0)
        return -ENOMEM;
    set(w->asks.p + 1, 64 * w->n_masks - 1);
    uint64_t *asks = of_class(w, class);
    uint16_t *rows = tables ? w->rows.p + (size_t) class * tables : NULL;
    for (uint32_t i = 0; i < tables; i++)
        rows[i] = w->p->tables.p[i].in_state ? (uint16_t)first_row(w, bits, i) : 0;
    if (w->types_of != LOWER_NONE && holds(w, bits, w->p->eaches.p[w->types_of].node))
        asks[0] = 1ull << bits[w->frames->n_class_words - 1];
    for (uint32_t i = 0; i < w->n_items; i++)
        if (does(w, bits, rows, &w->items[i]))
            set(asks + 1, i);
    w->n_classes = class + 1;
    return 0;
}

int match_walk_classes(struct match_walk *w)
{
    int r = 0;
    while (w->n_classes < w->frames->classes.n && r == 0)
        r = add_class(w, w->n_classes);
    return r;
}

/* ---- a frame that does something ------------------------------------------------------------- */

struct here {
    uint32_t class, frame, position;
    struct rules_register *registers;
};

static const uint32_t *bits_of(const struct match_walk *w, const struct here *at)
{
    return tuples_get(&w->frames->classes, at->class);
}

static inline void set_register(const struct here *at, uint32_t reg)
{
    at->registers[reg] = (struct rules_register){at->frame, at->position};
}

static void put_bit(uint32_t *words, uint32_t bit, bool value)
{
    words[bit / 32] = (words[bit / 32] & ~(1u << (bit % 32))) | (uint32_t)value << (bit % 32);
}

static void do_fact(struct match_walk *w, const struct walk_item *item, const struct here *at)
{
    bool found = bits_get(w->words, item->bit);
    for (uint32_t i = item->is; i != LOWER_NONE; i = w->next_is[i]) {
        const struct lower_is *is = &w->p->iss.p[i];
        if (is->last || !found)
            put_bit(w->words, is->bit, holds(w, bits_of(w, at), is->test));
    }
    set_register(at, found ? w->p->n_regs : item->first);
    set_register(at, item->last);
    bits_set(w->words, item->bit);
}

/* Rows below cannot matter any more: neither those to come nor those that were found. */
static void end_below(struct match_walk *w, const struct walk_item *item)
{
    uint32_t number = (uint32_t)(item - w->items);
    for (uint32_t i = 1; i <= item->below; i++) {
        clear(w->live, number + i);
        bits_clear(w->words, item[i].bit);
    }
}

/* No row of the table can matter any more that was not found by now. */
static void end_table(struct match_walk *w, const struct walk_item *item)
{
    uint32_t number = (uint32_t)(item - w->items);
    for (uint32_t i = number - item->above; i <= number + item->below; i++)
        clear(w->live, i);
}

static void do_table(struct match_walk *w, const struct walk_item *item, const struct here *at)
{
    uint64_t row = w->rows.p[(size_t)at->class * w->p->tables.n + item->of];
    w->words[item->bit / 32] |= (uint32_t)(row << (item->bit % 32));
    w->words[item->bit / 32 + 1] |= (uint32_t)(row << (item->bit % 32) >> 32);
    set_register(at, item->first);
}

/* An element goes on where its neighbour ended, so the rootmost is asked first. The whole found, the chain is
 * not live any more. */
static void do_chain(struct match_walk *w, const struct walk_item *item, const struct here *at)
{
    const struct lower_chain *chain = &w->p->chains.p[item->of];
    uint32_t *passed = w->passed + w->chain_at[item->of];
    for (uint32_t i = 0; i < chain->n; i++) {
        bool below = i + 1 == chain->n ||
                     (passed[i + 1] != 0 && (!chain->directly[i] || passed[i + 1] == at->position));
        if (below && holds(w, bits_of(w, at), w->p->kids.p[chain->nodes + i]))
            passed[i] = at->position + 1;
    }
    if (passed[0] != 0) {
        bits_set(w->words, item->bit);
        clear(w->live, (uint32_t)(item - w->items));
        memset(passed, 0,
               chain->n * sizeof *passed); /* walks that differ in what no longer matters are equal */
    }
}

static void do_each(struct match_walk *w, const struct walk_item *item, const struct here *at)
{
    uint32_t type = bits_of(w, at)[w->frames->n_class_words - 1];
    bool by_type = w->p->eaches.p[item->of].by_type;
    if (by_type)
        bits_set(w->words, item->bit + type);
    if ((!by_type || type == MATCH_TYPE_MORE) &&
        vec_append(&w->list, (struct list_item){item->of, at->frame, at->position}) < 0)
        match_memory_out(w->memory);
}

static void leave(struct match_walk *w, uint32_t region)
{
    for (uint32_t k = 0; k < w->n_masks; k++)
        w->live[k] &= ~inside(w, region)[k];
}

static __attribute__((noinline)) void do_more(struct match_walk *w, const struct walk_item *item,
                                              const struct here *at)
{
    switch (item->what) {
    case WALK_AFTER:
        clear(w->live, (uint32_t)(item - w->items));
        w->begin[w->n_begin++] = item->of;
        break;
    case WALK_WHILE: leave(w, item->of); break;
    case WALK_UNTIL:
        if (w->p->regions.p[item->of].through)
            w->end[w->n_end++] = item->of;
        else
            leave(w, item->of);
        break;
    case WALK_FACT: do_fact(w, item, at); break;
    case WALK_FOUND: break; /* who calls does it */
    case WALK_ROW:
        bits_set(w->words, item->bit);
        set_register(at, item->first);
        end_below(w, item);
        break;
    case WALK_NEAREST:
        bits_set(w->words, item->bit);
        set_register(at, item->first);
        end_table(w, item);
        break;
    case WALK_TABLE: do_table(w, item, at); break;
    case WALK_CHAIN: do_chain(w, item, at); break;
    case WALK_EACH: do_each(w, item, at); break;
    }
}

static __attribute__((noinline)) void begin_and_end(struct match_walk *w)
{
    for (uint32_t i = 0; i < w->n_begin; i++)
        for (uint32_t k = 0; k < w->n_masks; k++)
            w->live[k] |= inside(w, w->begin[i])[k];
    for (uint32_t i = 0; i < w->n_end; i++)
        leave(w, w->end[i]);
    w->n_begin = w->n_end = 0;
}

static inline __attribute__((always_inline)) void do_items(struct match_walk *w, const uint64_t *asks,
                                                           uint32_t n_masks, const struct here *at)
{
    for (uint32_t k = 0; k < n_masks; k++) {
        uint64_t left = asks[k] & w->live[k], done = 0;
        while (left) {
            const struct walk_item *item = &w->items[64 * k + (uint32_t)__builtin_ctzll(left)];
            done |= left & -left;
            left &= left - 1;
            if (likely(item->what == WALK_FOUND)) {
                bits_set(w->words, item->bit);
                set_register(at, item->first);
                continue;
            }
            do_more(w, item, at);
            left &= w->live[k]; /* a region may have ended */
        }
        w->live[k] &= ~(done & w->once[k]);
    }
    if (unlikely(w->n_begin + w->n_end > 0))
        begin_and_end(w);
}

static __attribute__((noinline)) void do_frame(struct match_walk *w, struct rules_register *registers,
                                               uint32_t class, uint32_t frame, uint32_t position)
{
    const struct here at = {class, frame, position, registers};
    const uint64_t *asks = of_class(w, class) + 1;
    w->steps++;
    if (likely(w->n_masks == MASKS_FEW))
        do_items(w, asks, MASKS_FEW, &at);
    else
        do_items(w, asks, w->n_masks, &at);
}

/* ---- walking --------------------------------------------------------------------------------- */

void match_walk_start(struct match_walk *w)
{
    memset(w->words, 0, w->n_words * sizeof *w->words);
    memset(w->passed, 0, w->n_passed * sizeof *w->passed);
    memcpy(w->live, w->start, w->n_masks * sizeof *w->live);
}

static void put_types(struct match_walk *w, uint64_t types)
{
    if (types == 0)
        return;
    uint32_t bit = w->p->eaches.p[w->types_of].bit, shift = bit % 32, *words = w->words + bit / 32;
    words[0] |= (uint32_t)(types << shift);
    words[1] |= (uint32_t)(types >> (32 - shift));
    words[2] |= (uint32_t)(types >> 32 >> (32 - shift)); /* 0 if it fits two words */
}

void match_walk_frame(struct match_walk *w, struct rules_register *registers, uint32_t class, uint32_t frame,
                      uint32_t position)
{
    do_frame(w, registers, class, frame, position);
    put_types(w, *of_class(w, class));
}

void match_walk_root(struct match_walk *w, uint32_t class)
{
    const uint32_t *bits = tuples_get(&w->frames->classes, class);
    for (uint32_t i = w->root_is; i != LOWER_NONE; i = w->next_is[i])
        put_bit(w->words, w->p->iss.p[i].bit, holds(w, bits, w->p->iss.p[i].test));
}

/* Of a chain's element: whether it was passed, and whether by the last frame. */
enum { PASSED_NOT, PASSED_BEFORE, PASSED_LAST };

void match_walk_save(const struct match_walk *w, uint32_t *saved, uint32_t position)
{
    memcpy(saved, w->words, w->n_words * sizeof *w->words);
    memcpy(saved + w->n_words, w->live, w->n_masks * sizeof *w->live);
    saved += w->n_words + 2 * w->n_masks;
    for (uint32_t i = 0; i < w->n_passed; i++)
        saved[i] = w->passed[i] == 0 ? PASSED_NOT : w->passed[i] == position ? PASSED_LAST : PASSED_BEFORE;
}

void match_walk_load(struct match_walk *w, const uint32_t *saved, uint32_t position)
{
    memcpy(w->words, saved, w->n_words * sizeof *w->words);
    memcpy(w->live, saved + w->n_words, w->n_masks * sizeof *w->live);
    saved += w->n_words + 2 * w->n_masks;
    for (uint32_t i = 0; i < w->n_passed; i++)
        w->passed[i] = saved[i] == PASSED_NOT ? 0 : saved[i] == PASSED_LAST ? position : UINT32_MAX;
}

/* The types of frames of one item, and what else they do. */
static __attribute__((noinline)) uint64_t walk_frames(struct match_walk *w, const struct rules_stack *stack,
                                                      struct rules_register *registers, uint32_t from,
                                                      uint32_t to, uint32_t position)
{
    uint64_t types = 0;
    for (uint32_t f = from; f < to; f++) {
        types |= *of_class(w, stack->classes[f]);
        do_frame(w, registers, stack->classes[f], f, position++);
    }
    return types;
}

/* Items from one on. */
static inline __attribute__((always_inline)) uint64_t walk_items(struct match_walk *w,
                                                                 const struct rules_stack *stack,
                                                                 uint32_t from, uint32_t position,
                                                                 struct rules_register *registers, bool few)
{
    const uint32_t *end = stack->items + stack->n, *frames_at = stack->frames_at,
                   *classes = frames_at ? stack->item_classes : stack->classes;
    const uint64_t *all = of_class(w, 0);
    const ptrdiff_t stride = few ? STRIDE_FEW : w->stride;
    uint64_t types = 0, live[MASKS_FEW];
    memcpy(live, w->live, sizeof live);
    position -= from; /* of an item, less its place */
    for (const uint32_t *item = stack->items + from; item < end; item++) {
        const uint64_t *asks = all + (int32_t)classes[*item] * stride;
        uint64_t any = few ? (asks[1] & live[0]) | (asks[2] & live[1]) : 0;
        for (uint32_t k = 0; k < w->n_masks && !few; k++)
            any |= asks[1 + k] & w->live[k];
        types |= asks[0];
        if (likely(any == 0))
            continue;
        uint32_t frame = frames_at ? frames_at[*item] : *item,
                 n = frames_at ? frames_at[*item + 1] - frame : 1;
        types |=
            walk_frames(w, stack, registers, frame, frame + n, (uint32_t)(item - stack->items) + position);
        position += n - 1;
        memcpy(live, w->live, sizeof live);
    }
    return types;
}

void match_walk_rest(struct match_walk *w, const struct rules_stack *stack, uint32_t item, uint32_t frame,
                     uint32_t position, struct rules_register *registers)
{
    uint64_t types = 0;
    uint32_t at = stack->items[item], root = stack->items[stack->n - 1];
    if (stack->frames_at && frame > stack->frames_at[at]) { /* the others of an item */
        uint32_t end = stack->frames_at[at + 1];
        types = walk_frames(w, stack, registers, frame, end, position);
        position += end - frame;
        item++;
    }
    types |= likely(w->n_masks == MASKS_FEW) ? walk_items(w, stack, item, position, registers, true)
                                             : walk_items(w, stack, item, position, registers, false);
    put_types(w, types);
    match_walk_root(w, stack->classes[stack->frames_at ? stack->frames_at[root + 1] - 1 : root]);
}
