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

static inline uint32_t read_cue(struct eval *e, const struct path_node *node)
{
    if (node->cue_field == MATCH_NO_CUE)
        return eval_read(e, node->spec - 1);
    uint32_t frame = eval_frame(e, node->cue_reg);
    if (node->cue_field == RULE_FIELD_TYPE && e->asker->types)
        return e->asker->types[frame];
    return e->asker->field(e->asker->context, frame, (enum rule_field)node->cue_field);
}

/* Follows what is known from a root; the leaf's content, or RULES_NONE where the tree ends. */
uint32_t paths_follow(struct eval *e, uint32_t node)
{
    struct rules_matcher *m = e->m;
    while (m->nodes[node].leaf == 0) {
        struct path_node *at = &m->nodes[node];
        if (at->spec == 0)
            return RULES_NONE;
        uint32_t child, cue = read_cue(e, at), way = cue % MATCH_WAYS;
        if (likely(at->way[way].cue == cue && at->way[way].child != 0)) {
            node = at->way[way].child;
            continue;
        }
        uint32_t value = at->cue_field == MATCH_NO_CUE ? cue : eval_read(e, at->spec - 1);
        if (m->error < 0 || !pairs_find(&m->children, pair_key(node, value), &child))
            return RULES_NONE;
        at->way[way].cue = cue;
        at->way[way].child = node = child;
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
        struct path_node *at = &m->nodes[node];
        at->spec = e->notes[i].spec + 1;
        if (!eval_cue(m, e->notes[i].spec, &at->cue_reg, &at->cue_field))
            at->cue_field = MATCH_NO_CUE;
        node = paths_root(m, &m->children, pair_key(node, e->notes[i].value));
        if (node == RULES_NONE)
            return RULES_NONE;
    }
    m->nodes[node].leaf = content + 1;
    return content;
}
