/* SPDX-License-Identifier: Apache-2.0 */
#include "rules/match/kept.h"

#include <stdlib.h>

#include "proto/base/macros.h"
#include "rules/match/bits.h"
#include "rules/match/eval.h"

void match_kept_init(struct match_kept *x, struct match_states *states, struct match_paths *paths)
{
    struct budget *budget = states->memory->budget;
    x->p = states->p;
    x->memory = states->memory;
    x->strings = paths->reads->strings;
    x->states = states;
    x->paths = paths;
    tuples_init(&x->actives, budget);
    x->alone.budget = x->roots.budget = x->kept.budget = x->rates.budget = budget;
}

void match_kept_clear(struct match_kept *x)
{
    tuples_clear(&x->actives);
    idmap_release(&x->alone);
    idmap_release(&x->roots);
    vec_release(&x->kept);
    vec_release(&x->rates);
}

bool match_kept_full(const struct match_kept *x)
{
    return x->kept.n > RULES_PATHS_MAX || x->rates.n > 4 * RULES_PATHS_MAX;
}

/* ---- which rules a profile meets ------------------------------------------------------------- */

static bool takes(struct match_kept *x, const struct rule_keep *keep, const struct rules_profile *p)
{
    if (!keep->on_kind)
        return weigh_type_is(x->strings, keep->on, p);
    return keep->kind == RULE_KIND_ANY || weigh_kind_rank(keep->kind, RULE_VALUE_TIME, p) != RULES_NONE ||
           weigh_kind_rank(keep->kind, RULE_VALUE_SAMPLES, p) != RULES_NONE;
}

uint32_t match_kept_active(struct match_kept *x, const struct rules_profile *p)
{
    uint32_t type = match_strings_add(x->strings, weigh_name(p->type)),
             unit = match_strings_add(x->strings, weigh_name(p->unit)), active;
    uint32_t n = x->p->keeps.n, words = (n + 31) / 32 + 1;
    if (type == RULES_NONE || unit == RULES_NONE)
        return RULES_NONE;
    const uint64_t key = idmap_key(type, unit * WEIGH_FACTS + weigh_facts(p));
    const uint32_t *known = idmap_find(&x->alone, key);
    if (known)
        return *known;
    autofree uint32_t *mask = calloc(words, sizeof *mask);
    if (!mask)
        return match_memory_out(x->memory);
    for (uint32_t i = 0; i < n; i++) {
        if (takes(x, x->p->keeps.p[i].source, p))
            bits_set(mask, i);
    }
    active = tuples_add(&x->actives, mask, words);
    if (active == TUPLES_NONE || x->memory->error < 0 || !idmap_place(&x->alone, key, active))
        return match_memory_out(x->memory);
    return active;
}

/* ---- what they say --------------------------------------------------------------------------- */

static void add_rate(struct match_kept *x, struct eval *e, uint32_t keep)
{
    const struct rule_text *by = x->p->keeps.p[keep].source->by;
    uint32_t text = by ? eval_text(e, by) : RULES_NONE;
    if (vec_append(&x->rates, (struct rules_kept_rate){keep, text}) < 0)
        match_memory_out(x->memory);
}

static uint32_t evaluate(struct match_kept *x, struct eval *e, uint32_t active)
{
    struct rules_kept made = {
        .dropped = RULES_NONE, .keep = {RULES_NONE, RULES_NONE, RULES_NONE}, .rates = x->rates.n};
    for (uint32_t i = 0; i < x->p->keeps.n && x->memory->error == 0; i++) {
        const struct rule_keep *keep = x->p->keeps.p[i].source;
        if (!bits_get(tuples_get(&x->actives, active), i) || (keep->where && !eval_sample(e, keep->where)))
            continue;
        if (keep->how == RULE_KEEP_RATE) {
            add_rate(x, e, i);
        } else if (keep->how == RULE_KEEP_DROP) {
            made.dropped = min_of(made.dropped, i);
        } else if (keep->share > made.share[keep->of]) {
            made.share[keep->of] = keep->share;
            made.keep[keep->of] = i;
        }
    }
    made.n_rates = x->rates.n - made.rates;
    made.level = e->at.level;
    int r = vec_append(&x->kept, made);
    return r < 0 ? match_memory_out(x->memory) : x->kept.n - 1;
}

uint32_t match_kept_find(struct match_kept *x, const struct rules_verdict *v, uint32_t active,
                         const struct rules_asker *asker)
{
    const struct match_states *states = x->states;
    uint32_t part = states->part_of[x->p->sources.n], root = RULES_NONE, kept = RULES_NONE;
    if (x->generation != states->generation) {
        idmap_release(&x->roots);
        x->generation = states->generation;
    }
    if (v->state[part] != 0) { /* 0: a state without a number, of which nothing is remembered */
        root = match_paths_root(x->paths, &x->roots, idmap_key(active, v->state[part]));
        if (root == RULES_NONE)
            return RULES_NONE;
        kept = match_paths_follow(x->paths, root, &(struct reading){.v = v, .asker = asker});
    }
    if (kept != RULES_NONE || x->memory->error < 0)
        return kept;
    cleanup(eval_release) struct eval e;
    eval_init(&e, x->paths->reads, states->automaton->found, v, asker);
    kept = evaluate(x, &e, active);
    if (kept != RULES_NONE && root != RULES_NONE)
        kept = match_paths_lay(x->paths, root, e.notes.p, e.notes.n, kept);
    return kept;
}
