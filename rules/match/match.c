/* SPDX-License-Identifier: Apache-2.0 */
#include "rules/match/match.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "proto/base/hash.h"
#include "proto/base/macros.h"
#include "rules/match/parts.h"

/* ---- life ------------------------------------------------------------------------------------ */

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
    matcher_frame_clear(m);
    for (uint32_t i = 0; i < m->p->domains.n; i++) {
        charged_free(m->budget, &m->domain[i].of, &m->domain[i].cap, sizeof *m->domain[i].of);
        tuples_clear(&m->domain[i].rows);
    }
    charged_free(m->budget, &m->string_slot, &m->n_string_slots, sizeof *m->string_slot);
    charged_free(m->budget, &m->text, &m->cap_text, sizeof *m->text);
    charged_free(m->budget, &m->library, &m->cap_library, sizeof *m->library);
    arena_release(&m->text_arena);
    m->n_strings = 0;
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
    struct tuples *tuples[] = {&m->frame_keys, &m->classes, &m->kinds,  &m->states,
                               &m->specs,      &m->actives, &m->series, &m->keep_actives};
    struct pairs *pairs[] = {&m->captures, &m->children,   &m->roots,      &m->each_roots,
                             &m->alone,    &m->more_kinds, &m->keep_alone, &m->keep_roots};
    for (size_t i = 0; i < ARRAY_LEN(tuples); i++)
        tuples[i]->budget = budget;
    for (size_t i = 0; i < ARRAY_LEN(pairs); i++)
        pairs[i]->budget = budget;

    uint32_t widest = 1;
    for (uint32_t i = 0; i < p->domains.n; i++)
        widest = max_of(widest, p->domains.p[i].words);
    m->n_state_words = (p->n_bits + 31) / 32;
    m->row = calloc(widest, sizeof *m->row);
    m->domain = calloc(p->domains.n, sizeof *m->domain);
    m->step_words = calloc(m->n_state_words, sizeof *m->step_words);
    m->step_actions = calloc(2 * p->facts.n + p->n_regs + p->eaches.n + 1, sizeof *m->step_actions);
    m->in_region = calloc(p->regions.n, sizeof *m->in_region);
    m->lately = calloc(MATCH_LATELY, sizeof *m->lately);
    if (!m->row || !m->domain || !m->lately || !m->step_words || !m->step_actions || !m->in_region ||
        matcher_frame_init(m) < 0 || pattern_scratch_init(&m->scratch, p->atoms_max) < 0)
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
    if (m->epoch > 0) /* it was made whole */
        forget(m);
    pattern_scratch_release(&m->scratch);
    free(m->row);
    free(m->domain);
    matcher_frame_free(m);
    free(m->step_words);
    free(m->step_actions);
    free(m->in_region);
    free(m->lately);
    free(m);
    return NULL;
}

void rules_matcher_begin(struct rules_matcher *m)
{
    bool full = m->n_strings > RULES_STRINGS_MAX || m->string_bytes > RULES_STRING_BYTES_MAX ||
                m->classes.n > RULES_CLASSES_MAX || m->frame_keys.n > RULES_STRINGS_MAX ||
                m->kinds.n > RULES_STRINGS_MAX || m->more_kinds.n > 2 * RULES_STRINGS_MAX ||
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

/* ---- strings --------------------------------------------------------------------------------- */

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
