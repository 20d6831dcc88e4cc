/* SPDX-License-Identifier: Apache-2.0 */
#include "rules/program/program.h"

#include "proto/base/macros.h"
#include "rules/program/lower.h"

struct rules_program *rules_program_new(const struct rule_set *set, struct error *e)
{
    return lower_program(set, &(struct lower_options){0}, e);
}

struct rules_program *rules_program_free(struct rules_program *p)
{
    return lowered_free(p);
}

uint32_t rules_program_metrics(const struct rules_program *p)
{
    return p->metrics.n;
}

const struct rule_metric *rules_program_metric(const struct rules_program *p, uint32_t i)
{
    return p->metrics.p[i];
}

bool rules_program_wants_inlined(const struct rules_program *p)
{
    for (uint32_t i = 0; i < p->nodes.n; i++)
        if (p->nodes.p[i].op == NODE_INLINED)
            return true;
    return false;
}

uint32_t rules_program_registers(const struct rules_program *p)
{
    return p->n_regs + 1; /* and a spare one */
}

uint32_t rules_program_sources(const struct rules_program *p)
{
    return p->sources.n;
}

const struct rule_source *rules_program_source(const struct rules_program *p, uint32_t source)
{
    return p->sources.p[source].source;
}

uint32_t rules_program_source_metric(const struct rules_program *p, uint32_t source)
{
    return p->sources.p[source].metric;
}

uint32_t rules_program_attrs(const struct rules_program *p)
{
    return p->attrs.n;
}

struct bytes rules_program_attr(const struct rules_program *p, uint32_t key)
{
    return p->attrs.p[key].key;
}

struct bytes rules_program_name(const struct rules_program *p, uint32_t name)
{
    return p->names.p[name];
}

uint32_t rules_program_mask_words(const struct rules_program *p)
{
    return max_of((p->sources.n + 63) / 64, 1u);
}

uint32_t rules_program_keeps(const struct rules_program *p)
{
    return p->keeps.n;
}

const struct rule_keep *rules_program_keep(const struct rules_program *p, uint32_t keep)
{
    return p->keeps.p[keep].source;
}
