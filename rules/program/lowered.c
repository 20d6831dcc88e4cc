/* SPDX-License-Identifier: Apache-2.0 */
#include "rules/program/lowered.h"

#include <stdlib.h>

uint32_t lower_find(const struct rules_program *p, const void *node)
{
    const uint32_t *number = idmap_find(&p->map, (uintptr_t)node);
    return number ? *number : LOWER_NONE;
}

uint32_t lower_find_fact(const struct rules_program *p, uint32_t region, uint32_t node)
{
    for (uint32_t i = 0; i < p->facts.n; i++)
        if (p->facts.p[i].region == region && p->facts.p[i].node == node)
            return i;
    return LOWER_NONE;
}

uint32_t lower_ref_fact(const struct rules_program *p, const struct rule_ref *ref)
{
    bool end = ref->kind == RULE_REF_LEAF || ref->kind == RULE_REF_ROOT;
    uint32_t region = end || !ref->region ? 0 : lower_find(p, ref->region);
    uint32_t node = 0; /* NODE_TRUE */
    if (!end)
        node = lower_find(p, ref->frame);
    return lower_find_fact(p, region, node);
}

struct rules_program *lowered_free(struct rules_program *p)
{
    if (!p)
        return NULL;
    for (uint32_t i = 0; i < p->domains.n; i++) {
        pattern_build_free(p->domains.p[i].build);
        pattern_set_free(p->domains.p[i].set);
    }
    for (uint32_t i = 0; i < p->regexes.n; i++)
        regex_free(p->regexes.p[i]);
    vec_release(&p->domains);
    vec_release(&p->nodes);
    vec_release(&p->kids);
    vec_release(&p->regions);
    vec_release(&p->facts);
    vec_release(&p->iss);
    vec_release(&p->chains);
    vec_release(&p->tables);
    vec_release(&p->ftables);
    vec_release(&p->eaches);
    vec_release(&p->labels);
    vec_release(&p->sources);
    vec_release(&p->attrs);
    vec_release(&p->keeps);
    vec_release(&p->names);
    vec_release(&p->regexes);
    vec_release(&p->metrics);
    vec_release(&p->needs);
    idmap_release(&p->map);
    free(p);
    return NULL;
}
