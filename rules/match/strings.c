/* SPDX-License-Identifier: Apache-2.0 */
#include "rules/match/strings.h"

#include <stdlib.h>

#include "rules/match/bits.h"

#define SLOTS_FIRST 1024u

int match_strings_init(struct match_strings *s, const struct rules_program *p, struct match_memory *memory)
{
    uint32_t widest = 1;
    for (uint32_t i = 0; i < p->domains.n; i++)
        widest = max_of(widest, p->domains.p[i].words);
    s->p = p;
    s->memory = memory;
    s->seed = hash_seed();
    s->arena.budget = s->slots.budget = s->texts.budget = s->libraries.budget = memory->budget;
    s->captures.budget = memory->budget;
    s->row = calloc(widest, sizeof *s->row);
    s->domains = calloc(p->domains.n, sizeof *s->domains);
    if (!s->row || !s->domains || pattern_scratch_init(&s->scratch, p->atoms_max) < 0)
        return -ENOMEM;
    for (uint32_t i = 0; i < p->domains.n; i++) {
        s->domains[i].class.budget = memory->budget;
        tuples_init(&s->domains[i].rows, memory->budget);
    }
    return 0;
}

void match_strings_clear(struct match_strings *s)
{
    for (uint32_t i = 0; i < s->p->domains.n && s->domains; i++) {
        vec_release(&s->domains[i].class);
        tuples_clear(&s->domains[i].rows);
    }
    idmap_release(&s->captures);
    vec_release(&s->slots);
    vec_release(&s->texts);
    vec_release(&s->libraries);
    arena_release(&s->arena);
    s->bytes = 0;
}

void match_strings_release(struct match_strings *s)
{
    match_strings_clear(s);
    pattern_scratch_release(&s->scratch);
    free(s->domains);
    free(s->row);
}

bool match_strings_full(const struct match_strings *s)
{
    return s->texts.n > RULES_STRINGS_MAX || s->bytes > RULES_STRING_BYTES_MAX;
}

/* ---- numbers --------------------------------------------------------------------------------- */

static int grow_slots(struct match_strings *s)
{
    VEC(struct string_slot) more = {.budget = s->slots.budget};
    if (vec_extend(&more, s->slots.n ? s->slots.n * 2 : SLOTS_FIRST) < 0)
        return -ENOMEM;
    for (uint32_t i = 0; i < s->slots.n; i++) {
        if (s->slots.p[i].id == 0)
            continue;
        uint32_t j = (uint32_t)s->slots.p[i].hash & (more.n - 1);
        while (more.p[j].id != 0)
            j = (j + 1) & (more.n - 1);
        more.p[j] = s->slots.p[i];
    }
    vec_release(&s->slots);
    s->slots.p = more.p;
    s->slots.n = more.n;
    s->slots.room = more.room;
    return 0;
}

static uint32_t keep_text(struct match_strings *s, struct bytes text)
{
    struct bytes copy = arena_copy(&s->arena, text);
    if (!copy.p || vec_append(&s->texts, copy) < 0)
        return match_memory_out(s->memory);
    s->bytes += text.n + sizeof copy;
    return s->texts.n - 1;
}

uint32_t match_strings_add_hashed(struct match_strings *s, struct bytes text, uint64_t hash)
{
    if (unlikely((uint64_t)(s->texts.n + 1) * 2 > s->slots.n) && grow_slots(s) < 0)
        return match_memory_out(s->memory);
    uint32_t mask = s->slots.n - 1, i = (uint32_t)hash & mask;
    for (; s->slots.p[i].id != 0; i = (i + 1) & mask)
        if (s->slots.p[i].hash == hash && s->slots.p[i].length == (uint32_t)text.n)
            return s->slots.p[i].id - 1;
    uint32_t id = keep_text(s, text);
    if (id != RULES_NONE)
        s->slots.p[i] = (struct string_slot){hash, (uint32_t)text.n, id + 1};
    return id;
}

uint32_t match_strings_add(struct match_strings *s, struct bytes text)
{
    return match_strings_add_hashed(s, text, hash_bytes(text, s->seed));
}

/* ---- what is made of a string ---------------------------------------------------------------- */

uint32_t match_strings_library(struct match_strings *s, uint32_t mapping)
{
    if (mapping == RULES_NONE)
        return RULES_NONE;
    if (vec_extend(&s->libraries, mapping + 1) < 0)
        return match_memory_out(s->memory);
    if (s->libraries.p[mapping] == 0) {
        uint32_t library = match_strings_add(s, bytes_after_last(s->texts.p[mapping], '/'));
        if (library == RULES_NONE)
            return RULES_NONE;
        s->libraries.p[mapping] = library + 1;
    }
    return s->libraries.p[mapping] - 1;
}

uint32_t match_strings_capture(struct match_strings *s, uint32_t regex, uint32_t string)
{
    uint32_t value = RULES_NONE;
    if (string == RULES_NONE)
        return RULES_NONE;
    const uint32_t *known = idmap_find(&s->captures, idmap_key(regex, string));
    if (known)
        return *known;
    struct bytes found;
    if (regex_capture(s->p->regexes.p[regex], &s->scratch.regex, s->texts.p[string], &found)) {
        value = match_strings_add(s, found);
        if (value == RULES_NONE)
            return value; /* memory is out */
    }
    if (!idmap_place(&s->captures, idmap_key(regex, string), value))
        return match_memory_out(s->memory);
    return value;
}

uint32_t match_strings_ask(struct match_strings *s, uint32_t domain, uint32_t string)
{
    struct string_domain *d = &s->domains[domain];
    const struct lower_domain *lowered = &s->p->domains.p[domain];
    if (string == RULES_NONE)
        return 0;
    if (vec_extend(&d->class, string + 1) < 0) {
        match_memory_out(s->memory);
        return 0;
    }
    s->row[0] = 0;
    if (lowered->set)
        pattern_set_match(lowered->set, &s->scratch, s->texts.p[string], s->row);
    uint32_t row = tuples_add(&d->rows, (const uint32_t *)s->row, 2 * lowered->words);
    if (row == TUPLES_NONE) {
        match_memory_out(s->memory);
        return 0;
    }
    return d->class.p[string] = row + 1;
}

bool match_strings_bit(struct match_strings *s, uint32_t domain, uint32_t string, uint32_t bit)
{
    uint32_t class = match_strings_class(s, domain, string);
    return class != 0 && s->p->domains.p[domain].set &&
           bits_get(tuples_get(&s->domains[domain].rows, class - 1), bit);
}
