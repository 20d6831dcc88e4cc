/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What independent rules find out multiplies: five facts in five packs have 32 states together, and 10 alone.
 * Stacks as programs make them have a few hundred of these products, and one number for all is the fastest
 * there is; stacks drawn at random, or made by somebody who knows the rules, have a new one each. So the
 * sources are dealt out to *parts*, each of which numbers only those bits that its own sources look at
 * (lower_needs.c). There is one part to begin with. When a part has MATCH_SPLIT states, or
 * MATCH_SPLIT_OUTCOMES outcomes were made of them in a few requests, it becomes two, so that as much as can
 * be seen does not multiply any more; that can happen as often as there are sources, and is for good. (Of
 * outcomes it is how fast they come that matters: many that come again are cheap, and each part is paid for
 * by every sample.)
 *
 * **The bound.** MATCH_STATES_MAX holds for all parts together. Past it, what a walk finds of a part that
 * cannot come apart any further and has no number for it is number 0, of which nothing is remembered. A part
 * that was there often forgets its states when the next request begins, for they seem not to be those of
 * today. Who knows states by number compares `generation`.
 */
#include "rules/match/states.h"

#include <stdlib.h>
#include <string.h>

#include "proto/base/hash.h"
#include "proto/base/macros.h"
#include "rules/match/bits.h"
#include "rules/match/tuples.h"

#define LOOSE_MAX (1u << 12) /* walks without a number, after which a part forgets its states */

/* ---- life ------------------------------------------------------------------------------------ */

static uint32_t n_elements(const struct match_states *x)
{
    return x->p->sources.n + 1;
}

static int init_part(struct match_states *x, struct states_part *part)
{
    struct budget *budget = x->memory->budget;
    part->words.budget = part->marks.budget = part->table.budget = budget;
    part->needs = calloc(x->p->need_words, sizeof *part->needs);
    part->mask = calloc(x->n_words, sizeof *part->mask);
    part->used = calloc(x->n_words, sizeof *part->used);
    return part->needs && part->mask && part->used ? 0 : -ENOMEM;
}

static void empty_part(struct match_states *x, struct states_part *part)
{
    x->n_states -= part->n_states;
    part->n_states = part->loose = 0;
    vec_release(&part->words);
    vec_release(&part->marks);
    hash_table_release(&part->table);
    x->generation++;
    if (x->automaton->numbers.n > 0)
        memset(x->automaton->numbers.p, 0, x->automaton->numbers.n * sizeof *x->automaton->numbers.p);
    for (uint32_t i = 0; i < x->n_parts; i++)
        if (x->parts[i].marks.n > 0)
            memset(x->parts[i].marks.p, 0, x->parts[i].marks.n * sizeof *x->parts[i].marks.p);
}

static void release_part(struct match_states *x, struct states_part *part)
{
    empty_part(x, part);
    free(part->needs);
    free(part->mask);
    free(part->used);
}

static void mark_bits(uint64_t *words, uint32_t bit, uint32_t n)
{
    for (uint32_t i = bit; i < bit + n; i++)
        words[i / 64] |= 1ull << (i % 64);
}

/* The bits that components have when a walk is over. */
static void find_mask(const struct match_states *x, const uint32_t *needs, uint64_t *mask)
{
    const struct rules_program *p = x->p;
    memset(mask, 0, x->n_words * sizeof *mask);
#define MARK_BITS(kind, list, count)                 \
    for (uint32_t i = 0; i < p->list.n; i++)         \
        if (bits_get(needs, x->component[kind] + i)) \
            mark_bits(mask, p->list.p[i].bit, (count));
    MARK_BITS(LOWER_FACT, facts, 1u)
    MARK_BITS(LOWER_IS, iss, 1u)
    MARK_BITS(LOWER_CHAIN, chains, 1u)
    MARK_BITS(LOWER_TABLE, tables, p->tables.p[i].in_state ? 16u : p->tables.p[i].source->n_rows)
    MARK_BITS(LOWER_EACH, eaches, p->eaches.p[i].by_type ? LOWER_TYPES + 1 : 0u)
#undef MARK_BITS
}

/* Makes a part of the elements that part_of says are its. */
static void gather_part(struct match_states *x, uint32_t number)
{
    struct states_part *part = &x->parts[number];
    memset(part->needs, 0, x->p->need_words * sizeof *part->needs);
    part->n_elements = part->n_outcomes = part->n_used = 0;
    for (uint32_t i = 0; i < n_elements(x); i++) {
        if (x->part_of[i] != number)
            continue;
        part->n_elements++;
        for (uint32_t k = 0; k < x->p->need_words; k++)
            part->needs[k] |= x->p->needs.p[i * x->p->need_words + k];
    }
    find_mask(x, part->needs, part->mask);
    for (uint32_t k = 0; k < x->n_words; k++)
        if (part->mask[k] != 0)
            part->used[part->n_used++] = k;
}

int match_states_init(struct match_states *x, struct match_automaton *automaton)
{
    x->p = automaton->p;
    x->memory = automaton->memory;
    x->automaton = automaton;
    x->n_words = automaton->walk->n_words / 2;
    for (uint32_t kind = 0; kind <= LOWER_COMPONENTS; kind++)
        x->component[kind] = lower_component(x->p, (enum lower_kind)kind, 0);
    x->part_of = calloc(n_elements(x), sizeof *x->part_of);
    x->keys = calloc(x->n_words, sizeof *x->keys);
    x->n_parts = 1;
    if (!x->part_of || !x->keys || init_part(x, &x->parts[0]) < 0)
        return -ENOMEM;
    for (uint32_t k = 0; k < x->n_words; k++)
        x->keys[k] = hash_mix(hash_seed(), k) | 1;
    gather_part(x, 0);
    return 0;
}

void match_states_clear(struct match_states *x)
{
    for (uint32_t i = 0; i < x->n_parts; i++)
        empty_part(x, &x->parts[i]);
}

void match_states_release(struct match_states *x)
{
    if (!x->automaton)
        return;
    for (uint32_t i = 0; i < x->n_parts; i++)
        release_part(x, &x->parts[i]);
    free(x->part_of);
    free(x->keys);
}

void match_states_begin(struct match_states *x)
{
    for (uint32_t i = 0; i < x->n_parts; i++) {
        x->parts[i].n_outcomes -= x->parts[i].n_outcomes / MATCH_SPLIT_FADES;
        if (x->parts[i].loose > LOOSE_MAX)
            empty_part(x, &x->parts[i]);
    }
}

/* ---- numbers --------------------------------------------------------------------------------- */

static bool may_split(const struct match_states *x, const struct states_part *part)
{
    return part->n_elements > 1 && x->n_parts < RULES_PARTS_MAX;
}

void match_states_outcome(struct match_states *x, uint32_t part)
{
    struct states_part *of = &x->parts[part];
    if (++of->n_outcomes >= MATCH_SPLIT_OUTCOMES && may_split(x, of))
        x->full = of;
}

/* Of what the walk found, the bits that a part looks at, in a word. */
static inline uint64_t word_of(const uint32_t *words, const uint64_t *mask, uint32_t k)
{
    uint64_t word;
    memcpy(&word, words + 2 * (size_t)k, sizeof word);
    if (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__)
        word = word << 32 | word >> 32;
    return word & mask[k];
}

/* The number of a state that has none; 0 when there is no room. RULES_NONE: memory is out, or (no error,
 * x->full) the part has to come apart. */
static __attribute__((noinline)) uint32_t add_state(struct match_states *x, struct states_part *part,
                                                    struct hash_at at)
{
    if (part->n_states >= MATCH_SPLIT && may_split(x, part)) {
        x->full = part;
        return RULES_NONE;
    }
    if (x->n_states >= MATCH_STATES_MAX) {
        part->loose++;
        return 0;
    }
    uint32_t n = part->n_used;
    if (vec_extend(&part->words, (part->n_states + 1) * n) < 0 ||
        vec_extend(&part->marks, part->n_states + 2) < 0 ||
        hash_table_add(&part->table, at, part->n_states) < 0)
        return match_memory_out(x->memory);
    for (uint32_t k = 0; k < n; k++)
        part->words.p[(size_t)part->n_states * n + k] =
            word_of(x->automaton->found, part->mask, part->used[k]);
    x->n_states++;
    return ++part->n_states;
}

/* Hashed by a sum of products with secret odd numbers, whose high half is what nobody can foresee. */
static inline uint32_t find_state(struct match_states *x, struct states_part *part)
{
    const uint32_t *words = x->automaton->found, *used = part->used, n = part->n_used;
    const uint64_t *mask = part->mask, *keys = x->keys;
    uint64_t sum = 0;
    for (uint32_t k = 0; k < n; k++) {
        uint64_t word = word_of(words, mask, used[k]);
        sum += (word ^ word >> 32) * keys[k];
    }
    struct hash_at at = hash_table_at(&part->table, sum >> 32);
    for (uint32_t i; (i = hash_table_next(&part->table, &at)) != HASH_NONE;) {
        const uint64_t *state = part->words.p + (size_t)i * n;
        uint64_t differ = 0;
        for (uint32_t k = 0; k < n; k++)
            differ |= state[k] ^ word_of(words, mask, used[k]);
        if (likely(differ == 0))
            return i + 1;
    }
    return add_state(x, part, at);
}

/* ---- coming apart ---------------------------------------------------------------------------- */

/* How many different states there would be of those a part has, with only the bits of `needs`. */
static uint32_t count_states(struct match_states *x, const struct states_part *part, const uint32_t *needs)
{
    struct tuples seen;
    autofree uint64_t *masked = calloc(2 * (size_t)x->n_words, sizeof *masked);
    if (!masked)
        return 0;
    uint64_t *mask = masked + x->n_words;
    tuples_init(&seen, x->memory->budget);
    find_mask(x, needs, mask);
    for (uint32_t i = 0; i < part->n_states; i++) {
        const uint64_t *words = part->words.p + (size_t)i * part->n_used;
        for (uint32_t k = 0; k < part->n_used; k++)
            masked[k] = words[k] & mask[part->used[k]];
        tuples_add(&seen, (const uint32_t *)masked, 2 * x->n_words);
    }
    uint32_t n = seen.n;
    tuples_clear(&seen);
    return n;
}

static uint32_t count_with(struct match_states *x, const struct states_part *part, const uint32_t *needs,
                           uint32_t element, uint32_t *both)
{
    for (uint32_t k = 0; k < x->p->need_words; k++)
        both[k] = needs[k] | x->p->needs.p[element * x->p->need_words + k];
    return count_states(x, part, both);
}

/* An element of the part for which a count is the highest: alone, or together with `needs`. */
static uint32_t highest(struct match_states *x, const struct states_part *part, uint32_t number,
                        const uint32_t *needs, uint32_t *both)
{
    uint32_t best = UINT32_MAX, best_n = 0;
    for (uint32_t i = 0; i < n_elements(x); i++) {
        uint32_t n = x->part_of[i] == number ? count_with(x, part, needs, i, both) : 0;
        if (x->part_of[i] == number && (best == UINT32_MAX || n > best_n)) {
            best = i;
            best_n = n;
        }
    }
    return best;
}

/* Whether a side of a part that comes apart has nearly as many states as there were: of one more element it
 * could not be seen any more what it multiplies. */
static bool is_saturated(const struct states_part *part, uint32_t n)
{
    return n > part->n_states / 5 * 4;
}

/* Two parts of one. The element that has most states stays, and the one that multiplies them most goes; each
 * of the others is where it adds fewer, while that can be seen. Some milliseconds, a few times in the life of
 * a matcher. */
static __attribute__((noinline, cold)) int split(struct match_states *x)
{
    struct states_part *part = x->full;
    uint32_t number = (uint32_t)(part - x->parts), words = x->p->need_words, n[2], elements[2] = {1, 1};
    autofree uint32_t *needs = calloc(3 * (size_t)words, sizeof *needs);
    x->full = NULL;
    if (!needs || init_part(x, &x->parts[x->n_parts]) < 0) {
        release_part(x, &x->parts[x->n_parts]);
        return -ENOMEM;
    }
    uint32_t *both = needs + 2 * words;
    for (uint32_t side = 0; side < 2; side++) {
        uint32_t seed = highest(x, part, number, needs, both);
        n[side] = count_with(x, part, needs + side * words, seed, needs + side * words);
        x->part_of[seed] = (uint8_t)(RULES_PARTS_MAX + side);
    }
    for (uint32_t i = 0; i < n_elements(x); i++) {
        if (x->part_of[i] != number)
            continue;
        uint32_t more[2];
        for (uint32_t side = 0; side < 2; side++) {
            uint32_t with = count_with(x, part, needs + side * words, i, both);
            bool adds = memcmp(both, needs + side * words, words * sizeof *both) != 0;
            more[side] = adds && is_saturated(part, with) ? UINT32_MAX : with - n[side];
        }
        uint32_t to = more[0] == more[1] ? elements[0] > elements[1] : more[0] > more[1];
        n[to] = count_with(x, part, needs + to * words, i, needs + to * words);
        x->part_of[i] = (uint8_t)(RULES_PARTS_MAX + to);
        elements[to]++;
    }
    for (uint32_t i = 0; i < n_elements(x); i++)
        if (x->part_of[i] >= RULES_PARTS_MAX)
            x->part_of[i] = (uint8_t)(x->part_of[i] == RULES_PARTS_MAX ? number : x->n_parts);
    empty_part(x, part);
    gather_part(x, x->n_parts++);
    gather_part(x, number);
    return 0;
}

/* ---- finding --------------------------------------------------------------------------------- */

bool match_states_look(struct match_states *x, struct rules_verdict *v)
{
    for (uint32_t i = 0; i < x->n_parts;) {
        if (unlikely(x->full != NULL)) {
            i = 0;
            if (split(x) < 0)
                match_memory_out(x->memory);
        }
        uint32_t state = find_state(x, &x->parts[i]);
        if (unlikely(x->memory->error < 0))
            return false;
        if (likely(state != RULES_NONE)) /* else it has to come apart first */
            v->state[i++] = (uint16_t)state;
    }
    if (x->automaton->state != 0 && x->n_parts == 1)
        x->automaton->numbers.p[x->automaton->state] = v->state[0];
    v->generation = x->generation;
    return true;
}
