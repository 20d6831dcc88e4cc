/* SPDX-License-Identifier: Apache-2.0 */
#include "rules/match/keep.h"

#include <stdlib.h>

#include "proto/base/macros.h"
#include "rules/match/paths.h"

void matcher_keep_clear(struct rules_matcher *m)
{
    tuples_clear(&m->keep_actives);
    pairs_clear(&m->keep_alone);
    pairs_clear(&m->keep_roots);
    charged_free(m->budget, &m->kept, &m->cap_kept, sizeof *m->kept);
    charged_free(m->budget, &m->kept_rates, &m->cap_kept_rates, sizeof *m->kept_rates);
    m->n_kept = m->n_kept_rates = 0;
}

/* ---- which rules a profile meets ------------------------------------------------------------- */

static bool takes(struct rules_matcher *m, const struct rule_keep *keep, const struct rules_profile *p)
{
    if (!keep->on_kind)
        return matcher_type_is(m, keep->on, p);
    return keep->kind == RULE_KIND_ANY || matcher_kind_rank(keep->kind, RULE_VALUE_TIME, p) != RULES_NONE ||
           matcher_kind_rank(keep->kind, RULE_VALUE_SAMPLES, p) != RULES_NONE;
}

uint32_t rules_matcher_keep_active(struct rules_matcher *m, const struct rules_profile *p)
{
    uint32_t type = rules_matcher_string(m, p->type), unit = rules_matcher_string(m, p->unit), active;
    uint32_t n = m->p->keeps.n, words = (n + 31) / 32 + 1;
    if (type == RULES_NONE || unit == RULES_NONE)
        return RULES_NONE;
    if (pairs_find(&m->keep_alone, pair_key(type, unit), &active))
        return active;
    autofree uint32_t *mask = calloc(words, sizeof *mask);
    if (!mask)
        return matcher_oom(m);
    for (uint32_t i = 0; i < n; i++) {
        if (takes(m, m->p->keeps.p[i].source, p))
            state_set(mask, i);
    }
    active = tuples_add(&m->keep_actives, mask, words);
    if (active == TUPLES_NONE || m->error < 0 || pairs_set(&m->keep_alone, pair_key(type, unit), active) < 0)
        return matcher_oom(m);
    return active;
}

/* ---- what they say --------------------------------------------------------------------------- */

static int add_rate(struct eval *e, uint32_t keep)
{
    struct rules_matcher *m = e->m;
    const struct rule_text *by = m->p->keeps.p[keep].source->by;
    uint32_t text = by ? eval_text(e, by) : RULES_NONE;
    if (charged_grow(m->budget, &m->kept_rates, &m->cap_kept_rates, m->n_kept_rates + 1,
                     sizeof *m->kept_rates) < 0) {
        matcher_oom(m);
        return -1;
    }
    m->kept_rates[m->n_kept_rates++] = (struct rules_kept_rate){keep, text};
    return 0;
}

static uint32_t make_kept(struct eval *e, uint32_t active)
{
    struct rules_matcher *m = e->m;
    if (charged_grow(m->budget, &m->kept, &m->cap_kept, m->n_kept + 1, sizeof *m->kept) < 0)
        return matcher_oom(m);
    struct rules_kept made = {
        .dropped = RULES_NONE, .keep = {RULES_NONE, RULES_NONE, RULES_NONE}, .rates = m->n_kept_rates};
    for (uint32_t i = 0; i < m->p->keeps.n && m->error == 0; i++) {
        const struct rule_keep *keep = m->p->keeps.p[i].source;
        if (!state_bit(tuples_get(&m->keep_actives, active), i) ||
            (keep->where && !eval_sample(e, keep->where)))
            continue;
        if (keep->how == RULE_KEEP_RATE) {
            add_rate(e, i);
        } else if (keep->how == RULE_KEEP_DROP) {
            made.dropped = min_of(made.dropped, i);
        } else if (keep->share > made.share[keep->of]) {
            made.share[keep->of] = keep->share;
            made.keep[keep->of] = i;
        }
    }
    made.n_rates = m->n_kept_rates - made.rates;
    made.level = e->level;
    m->kept[m->n_kept] = made;
    return m->n_kept++;
}

uint32_t rules_matcher_kept(struct rules_matcher *m, const struct rules_verdict *v, uint32_t active,
                            const struct rules_asker *asker)
{
    uint32_t root = paths_root(m, &m->keep_roots, pair_key(active, v->state));
    if (root == RULES_NONE)
        return RULES_NONE;
    struct eval e;
    eval_init(&e, m, v, asker);
    uint32_t kept = paths_follow(&e, root);
    if (kept != RULES_NONE || m->error < 0)
        return kept;
    kept = make_kept(&e, active);
    if (kept != RULES_NONE)
        kept = paths_lay(&e, root, kept);
    eval_release(&e);
    return kept;
}

const struct rules_kept *rules_matcher_kept_at(const struct rules_matcher *m, uint32_t kept)
{
    return &m->kept[kept];
}

const struct rules_kept_rate *rules_matcher_kept_rate(const struct rules_matcher *m, uint32_t rate)
{
    return &m->kept_rates[rate];
}

uint32_t rules_keep_probability(const struct rules_kept *kept, uint32_t of_profile)
{
    if (kept->dropped != RULES_NONE)
        return 0;
    double not_kept = (1 - (double)kept->share[RULE_OF_STACKS] / RULE_SHARE_ONE) *
                      (1 - (double)of_profile / RULE_SHARE_ONE) *
                      (1 - (double)kept->share[RULE_OF_SAMPLES] / RULE_SHARE_ONE);
    return (uint32_t)((1 - not_kept) * RULE_SHARE_ONE + 0.5);
}
