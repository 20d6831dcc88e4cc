/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A level is a row of bars from left to right. A bar begins where its parent's own time ends, or the bar of
 * its sibling before it; what was left out of a parent is a bar "other" behind its children. Of a bar are
 * told: how far it is from the end of the one before it in its row, its total, its own, its name; of a diff
 * the first three for each side.
 *
 * Nodes stand parents first, so one pass gives each its place, and sorting by place gives rows.
 */
#include "gateway/look/flamegraph.h"

#include <errno.h>
#include <stdlib.h>

#include "gateway/look/shown.h"
#include "proto/base/macros.h"

enum { NAME_TOTAL, NAME_OTHER, N_NAMES };

#define NUMBERS_MAX 7u /* of a bar */

struct bar {
    uint64_t at; /* on both sides together: no two bars of a level begin there */
    uint64_t x[LOOK_SIDES], total[LOOK_SIDES], self[LOOK_SIDES];
    uint32_t level, name;
};

/* Where the next child of a node begins. */
struct cursor {
    uint64_t at, x[LOOK_SIDES];
    uint32_t level; /* of the child */
};

struct drawing {
    const struct look_tree *tree;
    struct look_shown shown;
    VEC(struct bar) bars;
    VEC(struct cursor) cursors; /* [node] */
    VEC(uint32_t) name_of;      /* [string] + 1; 0: none has it */
    VEC(uint32_t) names;        /* strings behind the first N_NAMES */
    uint64_t max_self;
};

static uint32_t name_of(struct drawing *d, uint32_t node)
{
    const uint32_t string = d->tree->dict.frames.p[d->tree->dict.nodes.p[node].frame].name;
    uint32_t *name = &d->name_of.p[string];
    if (*name == 0 && vec_append(&d->names, string) == 0)
        *name = N_NAMES + d->names.n;
    return *name - 1;
}

/* A bar at the cursor, which goes behind it. */
static int draw(struct drawing *d, struct cursor *c, const uint64_t total[LOOK_SIDES],
                const uint64_t self[LOOK_SIDES], uint32_t name)
{
    struct bar bar = {.at = c->at, .level = c->level, .name = name};
    for (uint32_t side = 0; side < d->shown.n_sides; side++) {
        bar.x[side] = c->x[side];
        bar.total[side] = total[side];
        bar.self[side] = self[side];
        c->x[side] = look_add(c->x[side], total[side]);
        c->at = look_add(c->at, total[side]);
        d->max_self = max_of(d->max_self, self[side]);
    }
    return vec_append(&d->bars, bar);
}

static int draw_node(struct drawing *d, uint32_t node)
{
    const struct look_shown *s = &d->shown;
    struct cursor root = {0}, *at = node == LOOK_ROOT ? &root : &d->cursors.p[s->nodes[node].parent];
    struct cursor first = *at; /* of its children */
    uint64_t total[LOOK_SIDES], self[LOOK_SIDES];
    first.level++;
    for (uint32_t side = 0; side < s->n_sides; side++) {
        total[side] = s->total[side][node];
        self[side] = s->self[side][node];
        first.at = look_add(first.at, self[side]);
        first.x[side] = look_add(first.x[side], self[side]);
    }
    const uint32_t name = node == LOOK_ROOT ? NAME_TOTAL : name_of(d, node);
    d->cursors.p[node] = first;
    return name == UINT32_MAX ? -ENOMEM : draw(d, at, total, self, name);
}

static int draw_other(struct drawing *d, uint32_t node)
{
    const struct look_shown *s = &d->shown;
    const uint64_t more[LOOK_SIDES] = {s->more[0].p[node], s->n_sides > 1 ? s->more[1].p[node] : 0};
    return more[0] == 0 && more[1] == 0 ? 0 : draw(d, &d->cursors.p[node], more, more, NAME_OTHER);
}

static int draw_all(struct drawing *d)
{
    int r = 0;
    for (uint32_t i = 0; i < d->shown.n && r == 0; i++)
        if (d->shown.number.p[i] != LOOK_NONE)
            r = draw_node(d, i);
    for (uint32_t i = 0; i < d->shown.n && r == 0; i++)
        if (d->shown.number.p[i] != LOOK_NONE)
            r = draw_other(d, i);
    return r;
}

static int by_place(const void *a, const void *b)
{
    const struct bar *x = a, *y = b;
    return order_of(x->level, y->level) ?: order_of(x->at, y->at);
}

static int64_t number(uint64_t v)
{
    return (int64_t)min_of(v, (uint64_t)INT64_MAX);
}

/* ---- written ------------------------------------------------------------------------------- */

static int put_level(const struct drawing *d, const struct bar *bars, uint32_t n, struct wire_writer *w)
{
    VEC(int64_t) values = {.budget = d->tree->budget};
    uint64_t end[LOOK_SIDES] = {0};
    int r = vec_reserve(&values, (uint64_t)n * NUMBERS_MAX);
    for (uint32_t i = 0; i < n && r == 0; i++) {
        for (uint32_t side = 0; side < d->shown.n_sides; side++) {
            values.p[values.n++] = number(bars[i].x[side] - end[side]);
            values.p[values.n++] = number(bars[i].total[side]);
            values.p[values.n++] = number(bars[i].self[side]);
            end[side] = look_add(bars[i].x[side], bars[i].total[side]);
        }
        values.p[values.n++] = bars[i].name;
    }
    if (r == 0) {
        const size_t mark = wire_begin(w, 2);
        wire_put_packed64(w, 1, values.p, values.n);
        wire_end(w, mark);
    }
    vec_release(&values);
    return r;
}

static int put_all(const struct drawing *d, struct wire_writer *w)
{
    const uint64_t left = d->shown.total[0][LOOK_ROOT],
                   right = d->shown.n_sides > 1 ? d->shown.total[1][LOOK_ROOT] : 0;
    int r = 0;
    wire_put_bytes(w, 1, BYTES_LIT("total"));
    wire_put_bytes(w, 1, BYTES_LIT("other"));
    for (uint32_t i = 0; i < d->names.n; i++)
        wire_put_bytes(w, 1, intern_get(&d->tree->dict.strings, d->names.p[i]));
    for (uint32_t i = 0, n; i < d->bars.n && r == 0; i += n) {
        for (n = 1; i + n < d->bars.n && d->bars.p[i + n].level == d->bars.p[i].level;)
            n++;
        r = put_level(d, &d->bars.p[i], n, w);
    }
    wire_put_int_nonzero(w, 3, number(look_add(left, right)));
    wire_put_int_nonzero(w, 4, number(d->max_self));
    if (d->shown.n_sides > 1) {
        wire_put_int_nonzero(w, 5, number(left));
        wire_put_int_nonzero(w, 6, number(right));
    }
    return r;
}

int look_put_flamegraph(const struct look_tree *t, uint32_t n_sides, uint32_t nodes, struct wire_writer *w)
{
    struct drawing d = {.tree = t, .shown = look_shown_of(t, n_sides)};
    d.bars.budget = d.cursors.budget = d.name_of.budget = d.names.budget = t->budget;
    int r = look_shown_choose(&d.shown, nodes, t->budget);
    r = r < 0 ? r : vec_extend(&d.cursors, d.shown.n);
    r = r < 0 ? r : vec_extend(&d.name_of, t->dict.strings.n);
    r = r < 0 ? r : draw_all(&d);
    if (r == 0) {
        qsort(d.bars.p, d.bars.n, sizeof *d.bars.p, by_place);
        r = put_all(&d, w);
    }
    vec_release(&d.bars);
    vec_release(&d.cursors);
    vec_release(&d.name_of);
    vec_release(&d.names);
    look_shown_release(&d.shown);
    return r;
}
