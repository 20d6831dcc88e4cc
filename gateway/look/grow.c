/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is asked for is added up by node of each epoch, which is one addition a pair; one pass from the last
 * node to the first then makes totals, and links those that have something to their parents.
 *
 * The tree grows from its root. A node of it is some nodes of epochs: of each epoch one, or several where
 * frames differ by what was not asked for. Its children are theirs, those of one frame together; `mark` says
 * of a frame which child has it, so that nothing is hashed. Heaviest first: no child has more than its
 * parent, so that the n heaviest are known when n are taken, and nobody looks at what is below the others.
 */
#include "gateway/look/tree.h"

#include <errno.h>

void look_gathered_init(struct look_gathered *g, struct budget *budget)
{
    *g = (struct look_gathered){0};
    g->total.budget = g->links.budget = g->frame_of.budget = g->sources.budget = budget;
}

/* The sources are of no use any more. */
static void leave_sources(struct look_gathered *g)
{
    for (uint32_t i = 0; i < g->sources.n; i++)
        look_epoch_free(g->sources.p[i].held);
    vec_clear(&g->sources);
    g->held = 0;
}

void look_gathered_release(struct look_gathered *g)
{
    leave_sources(g);
    vec_release(&g->total);
    vec_release(&g->links);
    vec_release(&g->frame_of);
    vec_release(&g->sources);
}

static int add_source(struct look_gathered *g, const struct look_dict *dict, uint32_t n_nodes)
{
    const struct look_source source = {dict, NULL, max_of(g->total.n, 1u), g->frame_of.n};
    if (vec_extend(&g->total, source.node + n_nodes) < 0 ||
        vec_extend(&g->links, source.node + n_nodes) < 0 ||
        vec_extend(&g->frame_of, source.frame + dict->frames.n) < 0)
        return -ENOMEM;
    memset(g->frame_of.p + source.frame, 0xff, dict->frames.n * sizeof *g->frame_of.p);
    return vec_append(&g->sources, source);
}

int look_gathered_begin(struct look_gathered *g, const struct look_dict *dict)
{
    return add_source(g, dict, dict->nodes.n);
}

/* Of the last source. */
static void link_nodes(struct look_gathered *g, uint32_t side, const struct look_node *nodes, uint32_t n)
{
    const struct look_source *s = vec_last(&g->sources);
    uint64_t *total = g->total.p + s->node;
    struct look_link *links = g->links.p + s->node;
    for (uint32_t i = n; i-- > 1;) {
        if (total[i] == 0)
            continue;
        const uint32_t parent = nodes[i].parent;
        total[parent] = look_add(total[parent], total[i]);
        links[i].frame = s->frame + nodes[i].frame;
        links[i].next = links[parent].first;
        links[parent].first = s->node + i;
    }
    links[LOOK_ROOT].next = g->root[side];
    g->root[side] = s->node;
}

static uint32_t frame_of(struct look_tree *t, uint32_t frame)
{
    struct look_gathered *g = &t->gathered;
    uint32_t *known = &g->frame_of.p[frame];
    if (*known == LOOK_NONE) {
        const struct look_source *s = vec_last(&g->sources);
        while (frame < s->frame)
            s--;
        *known = look_dict_copy_frame(&t->dict, s->dict, frame - s->frame, t->detail, NULL);
    }
    return *known;
}

/* ---- growing ------------------------------------------------------------------------------- */

struct bud {
    uint64_t weight;
    uint32_t node;
};

struct growing {
    struct look_tree *tree;
    VEC(uint32_t) head[LOOK_SIDES]; /* [node] the nodes of epochs that it is */
    VEC(uint8_t) taken;             /* [node] */
    VEC(struct {
        uint32_t parent; /* + 1 */
        uint32_t node;
    })
    mark;                 /* [frame] the node that has it of the parent asked about last */
    VEC(struct bud) heap; /* nodes that were not taken, the heaviest first */
    uint64_t room;        /* for nodes */
};

/* Room for so many. A node's `self` is its total until it is taken. */
static int reserve_nodes(struct growing *w, uint64_t n)
{
    struct look_tree *t = w->tree;
    int r = vec_reserve(&t->dict.nodes, n);
    r = r < 0 ? r : vec_reserve(&w->taken, n);
    for (uint32_t side = 0; side < t->n_sides && r == 0; side++) {
        r = vec_reserve(&t->self[side], n);
        r = r < 0 ? r : vec_reserve(&w->head[side], n);
    }
    w->room = r == 0 ? n : w->room;
    return r;
}

/* There is room. */
static void add_node(struct growing *w, struct look_node node)
{
    struct look_tree *t = w->tree;
    t->dict.nodes.p[t->dict.nodes.n++] = node;
    w->taken.p[w->taken.n++] = 0;
    for (uint32_t side = 0; side < t->n_sides; side++) {
        t->self[side].p[t->self[side].n++] = 0;
        w->head[side].p[w->head[side].n++] = 0;
    }
}

/* LOOK_NONE: no memory. */
static uint32_t child_of(struct growing *w, uint32_t parent, uint32_t frame)
{
    struct look_dict *d = &w->tree->dict;
    if (frame >= w->mark.n && vec_extend(&w->mark, d->frames.n) < 0)
        return LOOK_NONE;
    if (w->mark.p[frame].parent != parent + 1) {
        if (d->nodes.n == w->room && reserve_nodes(w, 2ull * d->nodes.n) < 0)
            return LOOK_NONE;
        add_node(w, (struct look_node){parent, frame});
        w->mark.p[frame].parent = parent + 1;
        w->mark.p[frame].node = d->nodes.n - 1;
    }
    return w->mark.p[frame].node;
}

static int add_more(struct look_tree *t, uint32_t side, uint32_t node, uint64_t value)
{
    int r = vec_extend(&t->more[side], t->dict.nodes.n);
    if (r == 0)
        t->more[side].p[node] = look_add(t->more[side].p[node], value);
    return r;
}

/* Takes a node of an epoch into the tree as a child. */
static int take_child(struct growing *w, uint32_t side, uint32_t parent, uint32_t at)
{
    struct look_tree *t = w->tree;
    struct look_link *link = &t->gathered.links.p[at];
    const uint64_t total = t->gathered.total.p[at];
    uint64_t *own = &t->self[side].p[parent];
    *own -= min_of(*own, total);
    if (link->frame == LOOK_NONE)
        return add_more(t, side, parent, total);
    const uint32_t frame = frame_of(t, link->frame);
    const uint32_t child = frame == LOOK_NONE ? LOOK_NONE : child_of(w, parent, frame);
    if (child == LOOK_NONE)
        return -ENOMEM;
    t->self[side].p[child] = look_add(t->self[side].p[child], total);
    link->next = w->head[side].p[child];
    w->head[side].p[child] = at;
    return 0;
}

static int take(struct growing *w, uint32_t node)
{
    const struct look_link *links = w->tree->gathered.links.p;
    int r = 0;
    w->taken.p[node] = 1;
    for (uint32_t side = 0; side < w->tree->n_sides; side++)
        for (uint32_t at = w->head[side].p[node]; at != 0; at = links[at].next)
            for (uint32_t child = links[at].first, next; child != 0 && r == 0; child = next) {
                next = links[child].next;
                r = take_child(w, side, node, child);
            }
    return r;
}

/* ---- the heaviest -------------------------------------------------------------------------- */

static bool is_before(const struct bud *a, const struct bud *b)
{
    return a->weight != b->weight ? a->weight > b->weight : a->node < b->node;
}

static int put_bud(struct growing *w, uint32_t node)
{
    const struct look_tree *t = w->tree;
    const uint64_t other = t->n_sides > 1 ? t->self[1].p[node] : 0;
    const struct bud bud = {look_add(t->self[0].p[node], other), node};
    if (vec_append(&w->heap, bud) < 0)
        return -ENOMEM;
    struct bud *heap = w->heap.p;
    uint32_t at = w->heap.n - 1;
    for (; at > 0 && is_before(&bud, &heap[(at - 1) / 2]); at = (at - 1) / 2)
        heap[at] = heap[(at - 1) / 2];
    heap[at] = bud;
    return 0;
}

static uint32_t take_bud(struct growing *w)
{
    struct bud *heap = w->heap.p;
    const uint32_t heaviest = heap[0].node, n = --w->heap.n;
    const struct bud last = heap[n];
    uint32_t at = 0;
    for (uint32_t child; (child = 2 * at + 1) < n; at = child) {
        child += child + 1 < n && is_before(&heap[child + 1], &heap[child]);
        if (is_before(&last, &heap[child]))
            break;
        heap[at] = heap[child];
    }
    heap[at] = last;
    return heaviest;
}

/* Besides the root and what was not kept, which every tree has. */
static int take_heaviest(struct growing *w, uint32_t most)
{
    const struct look_dict *d = &w->tree->dict;
    int r = take(w, LOOK_NODE_NOT_KEPT);
    for (uint32_t seen = LOOK_FIRST_NODE; r == 0;) {
        for (; seen < d->nodes.n && r == 0; seen++)
            r = put_bud(w, seen);
        if (r < 0 || w->heap.n == 0 || most-- == 0)
            break;
        r = take(w, take_bud(w));
    }
    return r;
}

/* Those that were not taken are their parents' `more`; parents stand before children as ever. */
static int leave_out(struct growing *w)
{
    struct look_tree *t = w->tree;
    uint32_t *number = w->head[0].p, n = 0;
    for (uint32_t side = 0; side < t->n_sides; side++)
        if (vec_extend(&t->more[side], t->dict.nodes.n) < 0)
            return -ENOMEM;
    for (uint32_t i = 0; i < t->dict.nodes.n; i++) {
        const struct look_node node = t->dict.nodes.p[i];
        const uint32_t parent = i > 0 ? number[node.parent] : LOOK_ROOT;
        for (uint32_t side = 0; side < t->n_sides; side++) {
            uint64_t *self = t->self[side].p, *more = t->more[side].p;
            if (w->taken.p[i]) {
                self[n] = self[i];
                more[n] = more[i];
            } else {
                more[parent] = look_add(more[parent], self[i]);
            }
        }
        if (w->taken.p[i]) {
            number[i] = n;
            t->dict.nodes.p[n++] = (struct look_node){parent, node.frame};
        }
    }
    t->dict.nodes.n = n;
    for (uint32_t side = 0; side < t->n_sides; side++)
        t->self[side].n = t->more[side].n = n;
    return 0;
}

static void begin_root(struct growing *w)
{
    struct look_tree *t = w->tree;
    const struct look_gathered *g = &t->gathered;
    for (uint32_t side = 0; side < t->n_sides; side++) {
        w->head[side].p[LOOK_ROOT] = g->root[side];
        for (uint32_t at = g->root[side]; at != 0; at = g->links.p[at].next)
            t->self[side].p[LOOK_ROOT] = look_add(t->self[side].p[LOOK_ROOT], g->total.p[at]);
    }
    w->mark.p[0].parent = LOOK_ROOT + 1;
    w->mark.p[0].node = LOOK_NODE_NOT_KEPT;
}

static int grow(struct look_tree *t, uint32_t most)
{
    const bool is_cut = most < t->gathered.total.n;
    struct growing w = {.tree = t};
    w.taken.budget = w.head[0].budget = w.head[1].budget = w.mark.budget = w.heap.budget = t->budget;
    for (uint32_t side = 0; side < t->n_sides; side++) {
        vec_clear(&t->self[side]);
        vec_clear(&t->more[side]);
    }
    int r = vec_extend(&w.mark, t->dict.frames.n);
    const uint32_t each = t->gathered.total.n / max_of(t->gathered.sources.n, 1u);
    r = r < 0 ? r : reserve_nodes(&w, LOOK_FIRST_NODE + (is_cut ? most : each));
    if (r == 0) {
        t->dict.nodes.n = 0;
        add_node(&w, (struct look_node){LOOK_ROOT, LOOK_NONE});
        add_node(&w, (struct look_node){LOOK_ROOT, 0});
        begin_root(&w);
        r = take(&w, LOOK_ROOT);
    }
    if (r == 0 && is_cut)
        r = take_heaviest(&w, most);
    for (uint32_t i = 1; !is_cut && i < t->dict.nodes.n && r == 0; i++)
        r = take(&w, i);
    if (r == 0 && is_cut)
        r = leave_out(&w);
    vec_release(&w.head[0]);
    vec_release(&w.head[1]);
    vec_release(&w.taken);
    vec_release(&w.mark);
    vec_release(&w.heap);
    return r;
}

int look_tree_grow(struct look_tree *t)
{
    int r = grow(t, t->most);
    look_gathered_release(&t->gathered);
    return r;
}

/* ---- one of many --------------------------------------------------------------------------- */

/* A side of the tree is a source. */
static int gather_side(struct look_tree *t, uint32_t side)
{
    struct look_gathered *g = &t->gathered;
    const uint32_t n = t->dict.nodes.n;
    uint32_t with_more = 0;
    int r = vec_extend(&t->more[side], n);
    for (uint32_t i = 0; i < n && r == 0; i++)
        with_more += t->more[side].p[i] > 0;
    r = r < 0 ? r : add_source(g, &t->dict, n + with_more);
    if (r < 0)
        return r;
    const struct look_source *s = vec_last(&g->sources);
    for (uint32_t i = 0; i < t->dict.frames.n; i++)
        g->frame_of.p[s->frame + i] = i;
    for (uint32_t i = 0; i < n; i++)
        g->total.p[s->node + i] = look_add(t->self[side].p[i], t->more[side].p[i]);
    link_nodes(g, side, t->dict.nodes.p, n);
    for (uint32_t i = 0, at = s->node + n; i < n; i++) {
        if (t->more[side].p[i] == 0)
            continue;
        g->total.p[at] = t->more[side].p[i];
        g->links.p[at] = (struct look_link){.next = g->links.p[s->node + i].first, .frame = LOOK_NONE};
        g->links.p[s->node + i].first = at++;
    }
    return 0;
}

/* Frames that no node of the tree has. */
static int forget_frames(struct look_tree *t)
{
    struct look_dict now;
    VEC(uint32_t) strings = {.budget = t->budget}, frames = {.budget = t->budget};
    int r = look_dict_init(&now, t->budget);
    r = r < 0 ? r : vec_reserve(&strings, t->dict.strings.n);
    r = r < 0 ? r : vec_reserve(&frames, t->dict.frames.n);
    if (r == 0) {
        memset(strings.p, 0xff, t->dict.strings.n * sizeof *strings.p);
        memset(frames.p, 0xff, t->dict.frames.n * sizeof *frames.p);
    }
    for (uint32_t i = LOOK_ROOT + 1; i < t->dict.nodes.n && r == 0; i++) {
        struct look_node *node = &t->dict.nodes.p[i];
        uint32_t *frame = &frames.p[node->frame];
        if (*frame == LOOK_NONE)
            *frame = look_dict_copy_frame(&now, &t->dict, node->frame, t->detail, strings.p);
        node->frame = *frame;
        r = *frame == LOOK_NONE ? -ENOMEM : 0;
    }
    vec_release(&strings);
    vec_release(&frames);
    if (r == 0) {
        vec_release(&now.nodes);
        now.nodes = t->dict.nodes;
        t->dict.nodes = (__typeof__(now.nodes)){0};
        look_dict_release(&t->dict);
        t->dict = now;
        return 0;
    }
    look_dict_release(&now);
    return r;
}

/* All that was gathered becomes a tree, and that what was gathered. */
static int gather_anew(struct look_tree *t)
{
    struct look_gathered *g = &t->gathered;
    int r = grow(t, t->keep);
    leave_sources(g);
    vec_clear(&g->total);
    vec_clear(&g->links);
    vec_clear(&g->frame_of);
    memset(g->root, 0, sizeof g->root);
    if (r == 0 && t->keep != LOOK_ALL_NODES)
        r = forget_frames(t);
    for (uint32_t side = 0; side < t->n_sides && r == 0; side++)
        r = gather_side(t, side);
    return r;
}

int look_gathered_end(struct look_tree *t, uint32_t side, struct look_epoch *e)
{
    struct look_gathered *g = &t->gathered;
    link_nodes(g, side, e->dict.nodes.p, e->dict.nodes.n);
    if (e->is_read) {
        look_epoch_keep_names(e);
        vec_last(&g->sources)->held = e;
        g->held += e->budget.used;
    }
    return g->total.n > t->gathered_max || g->held > LOOK_HELD_MAX ? gather_anew(t) : 0;
}
