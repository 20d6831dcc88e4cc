/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions, libraries or files by what they have. One that calls itself has its total once: the tree is
 * walked from the root, down to first children and over to siblings, and what a group has on the way down is
 * not added again below.
 */
#include <errno.h>
#include <stdlib.h>

#include "gateway/look/parts.h"

typedef VEC(uint32_t) numbers;

struct ranking {
    const struct look_tree *tree;
    struct look_dict groups;   /* its frames are the groups */
    numbers group_of;          /* [frame] */
    numbers first, next;       /* [node] child, sibling; 0: none */
    numbers open;              /* [group] nodes of it between the root and here */
    VEC(uint64_t) self, total; /* [group] */
    VEC(struct look_ranked) rows;
};

static void ranking_release(struct ranking *k)
{
    look_dict_release(&k->groups);
    vec_release(&k->group_of);
    vec_release(&k->first);
    vec_release(&k->next);
    vec_release(&k->open);
    vec_release(&k->self);
    vec_release(&k->total);
    vec_release(&k->rows);
}

/* Numbers of strings are the tree's. */
static struct look_frame group(const struct look_frame *f, enum look_by by)
{
    switch (by) {
    case LOOK_BY_LIBRARY: return (struct look_frame){.lib = f->lib, .kind = f->kind};
    case LOOK_BY_FILE: return (struct look_frame){.file = f->file};
    case LOOK_BY_FUNCTION: break;
    }
    return (struct look_frame){.name = f->name, .file = f->file, .lib = f->lib, .kind = f->kind};
}

static int make_groups(struct ranking *k, enum look_by by)
{
    const struct look_tree *t = k->tree;
    for (uint32_t i = 0; i < t->dict.frames.n; i++) {
        const struct look_frame frame = group(&t->dict.frames.p[i], by);
        const uint32_t number = look_dict_frame(&k->groups, &frame);
        if (number == LOOK_NONE || vec_append(&k->group_of, number) < 0)
            return -ENOMEM;
    }
    const uint32_t n = k->groups.frames.n;
    if (vec_extend(&k->open, n) < 0 || vec_extend(&k->self, n) < 0 || vec_extend(&k->total, n) < 0)
        return -ENOMEM;
    return 0;
}

static int link_children(struct ranking *k)
{
    const struct look_dict *d = &k->tree->dict;
    if (vec_extend(&k->first, d->nodes.n) < 0 || vec_extend(&k->next, d->nodes.n) < 0)
        return -ENOMEM;
    for (uint32_t i = d->nodes.n; i-- > 1;) {
        uint32_t *first = &k->first.p[d->nodes.p[i].parent];
        k->next.p[i] = *first;
        *first = i;
    }
    return 0;
}

static void enter(struct ranking *k, uint32_t node)
{
    const uint32_t g = k->group_of.p[k->tree->dict.nodes.p[node].frame];
    k->self.p[g] = look_add(k->self.p[g], k->tree->self[0].p[node]);
    if (k->open.p[g]++ == 0)
        k->total.p[g] = look_add(k->total.p[g], k->tree->total[0].p[node]);
}

static void leave(struct ranking *k, uint32_t node)
{
    k->open.p[k->group_of.p[k->tree->dict.nodes.p[node].frame]]--;
}

static void walk(struct ranking *k)
{
    uint32_t at = k->first.p[LOOK_ROOT];
    while (at != LOOK_ROOT) {
        enter(k, at);
        if (k->first.p[at] != 0) {
            at = k->first.p[at];
            continue;
        }
        while (at != LOOK_ROOT && k->next.p[at] == 0) {
            leave(k, at);
            at = k->tree->dict.nodes.p[at].parent;
        }
        if (at != LOOK_ROOT) {
            leave(k, at);
            at = k->next.p[at];
        }
    }
}

static int rank(struct ranking *k, bool by_total)
{
    for (uint32_t i = 0; i < k->groups.frames.n; i++) {
        const struct look_ranked row = {by_total ? k->total.p[i] : k->self.p[i], i};
        if (k->total.p[i] > 0 && vec_append(&k->rows, row) < 0)
            return -ENOMEM;
    }
    if (k->rows.n > 1)
        qsort(k->rows.p, k->rows.n, sizeof *k->rows.p, look_by_rank);
    return 0;
}

static void put_rows(const struct ranking *k, uint32_t limit, struct json *j)
{
    const struct intern *strings = &k->tree->dict.strings;
    json_key(j, "rows"), json_open(j, '[');
    for (uint32_t i = 0; i < min_of(limit, k->rows.n); i++) {
        const uint32_t g = k->rows.p[i].group;
        const struct look_frame *f = &k->groups.frames.p[g];
        json_open(j, '{');
        json_key(j, "name"), json_string(j, intern_get(strings, f->name));
        json_key(j, "lib"), json_string(j, intern_get(strings, f->lib));
        json_key(j, "file"), json_string(j, intern_get(strings, f->file));
        json_key(j, "kind"), json_string(j, intern_get(strings, f->kind));
        json_key(j, "self"), json_u64(j, k->self.p[g]);
        json_key(j, "total"), json_u64(j, k->total.p[g]);
        json_close(j, '}');
    }
    json_close(j, ']');
    json_key(j, "more"), json_u64(j, k->rows.n - min_of(limit, k->rows.n));
}

int look_write_top(const struct look_asked *asked, const struct look_tree *tree,
                   const struct look_found *found, struct json *j)
{
    cleanup(ranking_release) struct ranking k = {.tree = tree};
    k.group_of.budget = k.first.budget = k.next.budget = k.open.budget = asked->budget;
    k.self.budget = k.total.budget = k.rows.budget = asked->budget;
    int r = look_dict_init(&k.groups, asked->budget);
    if (r == 0)
        r = make_groups(&k, asked->question->by);
    if (r == 0)
        r = link_children(&k);
    if (r == 0) {
        walk(&k);
        r = rank(&k, asked->question->by_total);
    }
    if (r == 0) {
        json_key(j, "total"), json_u64(j, tree->total[0].p[LOOK_ROOT]);
        put_rows(&k, asked->question->limit, j);
    }
    return r;
}
