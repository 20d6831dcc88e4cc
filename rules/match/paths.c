/* SPDX-License-Identifier: Apache-2.0 */
#include "rules/match/paths.h"

void match_paths_init(struct match_paths *x, struct match_reads *reads)
{
    x->memory = reads->memory;
    x->reads = reads;
    x->nodes.budget = x->children.budget = reads->memory->budget;
}

void match_paths_clear(struct match_paths *x)
{
    vec_release(&x->nodes);
    idmap_release(&x->children);
}

bool match_paths_full(const struct match_paths *x)
{
    return x->nodes.n > RULES_PATHS_MAX;
}

uint32_t match_paths_new(struct match_paths *x)
{
    int r = vec_append(&x->nodes, (struct path_node){0});
    return r < 0 ? match_memory_out(x->memory) : x->nodes.n - 1;
}

uint32_t match_paths_root(struct match_paths *x, struct idmap *roots, uint64_t key)
{
    uint32_t *node = idmap_place(roots, key, RULES_NONE);
    if (!node)
        return match_memory_out(x->memory);
    if (*node == RULES_NONE)
        *node = match_paths_new(x);
    return *node;
}

uint32_t match_paths_follow(struct match_paths *x, uint32_t node, struct reading *at)
{
    while (x->nodes.p[node].leaf == 0) {
        uint32_t read = x->nodes.p[node].read;
        if (read == 0)
            return RULES_NONE;
        const struct read *what = match_reads_get(x->reads, read - 1);
        uint32_t value = match_reads_value(x->reads, what, at);
        at->level = max_of(at->level, match_reads_level(x->reads, what));
        const uint32_t *child = idmap_find(&x->children, idmap_key(node, value));
        if (x->memory->error < 0 || !child || *child == RULES_NONE)
            return RULES_NONE;
        node = *child;
    }
    return x->nodes.p[node].leaf - 1;
}

uint32_t match_paths_lay(struct match_paths *x, uint32_t node, const struct read_note *notes, uint32_t n,
                         uint32_t content)
{
    if (x->memory->error < 0)
        return RULES_NONE;
    for (uint32_t i = 0; i < n; i++) {
        x->nodes.p[node].read = notes[i].read + 1;
        node = match_paths_root(x, &x->children, idmap_key(node, notes[i].value));
        if (node == RULES_NONE)
            return RULES_NONE;
    }
    x->nodes.p[node].leaf = content + 1;
    return content;
}
