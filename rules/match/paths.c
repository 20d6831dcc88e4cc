/* SPDX-License-Identifier: Apache-2.0 */
#include "rules/match/paths.h"

#include "proto/base/macros.h"

uint32_t paths_new(struct rules_matcher *m)
{
    if (charged_grow(m->budget, &m->nodes, &m->cap_nodes, m->n_nodes + 1, sizeof *m->nodes) < 0)
        return matcher_oom(m);
    m->nodes[m->n_nodes] = (struct path_node){0};
    return m->n_nodes++;
}

uint32_t paths_root(struct rules_matcher *m, struct pairs *pairs, uint64_t key)
{
    uint32_t child;
    if (pairs_find(pairs, key, &child))
        return child;
    child = paths_new(m);
    if (child != RULES_NONE && pairs_set(pairs, key, child) < 0)
        return matcher_oom(m);
    return child;
}

/* Follows what is known from a root; the leaf's content, or RULES_NONE where the tree ends. */
uint32_t paths_follow(struct eval *e, uint32_t node)
{
    struct rules_matcher *m = e->m;
    while (m->nodes[node].leaf == 0) {
        uint32_t spec = m->nodes[node].spec;
        if (spec == 0)
            return RULES_NONE;
        uint32_t value = eval_read(e, spec - 1);
        if (m->error < 0 || !pairs_find(&m->children, pair_key(node, value), &node))
            return RULES_NONE;
    }
    return m->nodes[node].leaf - 1;
}

/* Writes the notes of an evaluation as a path from the root to a leaf with this content. */
uint32_t paths_lay(struct eval *e, uint32_t node, uint32_t content)
{
    struct rules_matcher *m = e->m;
    if (m->error < 0)
        return RULES_NONE;
    for (uint32_t i = 0; i < e->n_notes; i++) {
        m->nodes[node].spec = e->notes[i].spec + 1;
        node = paths_root(m, &m->children, pair_key(node, e->notes[i].value));
        if (node == RULES_NONE)
            return RULES_NONE;
    }
    m->nodes[node].leaf = content + 1;
    return content;
}
