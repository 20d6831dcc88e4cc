/* SPDX-License-Identifier: Apache-2.0 */
#include "rules/program/program.h"

#include <stdlib.h>

#include "rules/program/lower.h"

struct rules_program *rules_program_new(const struct rule_set *set, struct error *e)
{
    return lower_program(set, &(struct lower_options){0}, e);
}

struct rules_program *rules_program_free(struct rules_program *p)
{
    if (!p)
        return NULL;
    for (uint32_t i = 0; i < p->domains.n; i++) {
        pattern_build_free(p->domains.p[i].build);
        pattern_set_free(p->domains.p[i].set);
    }
    for (uint32_t i = 0; i < p->regexes.n; i++)
        regex_free(p->regexes.p[i]);
    free(p->domains.p);
    free(p->nodes.p);
    free(p->kids.p);
    free(p->regions.p);
    free(p->facts.p);
    free(p->iss.p);
    free(p->chains.p);
    free(p->tables.p);
    free(p->ftables.p);
    free(p->eaches.p);
    free(p->labels.p);
    free(p->sources.p);
    free(p->attrs.p);
    free(p->keeps.p);
    free(p->names.p);
    free(p->regexes.p);
    free(p->metrics.p);
    free(p->map);
    free(p);
    return NULL;
}

uint32_t rules_program_metrics(const struct rules_program *p)
{
    return p->metrics.n;
}

const struct rule_metric *rules_program_metric(const struct rules_program *p, uint32_t i)
{
    return p->metrics.p[i];
}
