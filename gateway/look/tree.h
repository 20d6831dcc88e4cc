/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stacks of an answer as one tree: those of all epochs, of one selection or of two beside each other.
 */
#ifndef GATEWAY_LOOK_TREE_H
#define GATEWAY_LOOK_TREE_H

#include "gateway/look/store.h"
#include "gateway/look/select.h"

/* What was found of a selection. */
struct look_found {
    uint64_t from_ns, to_ns; /* that was answered */
    enum look_level level;
    uint64_t total, kept, seen; /* seen: in 1/LOOK_SEEN_ONE */
    uint64_t slice_ns;          /* of what is shown just now: how long its slice is */
    struct bytes unit;          /* of its type; the tree's */
};

/* ---- what a tree grows from (grow.c) --------------------------------------------------------- */

#define LOOK_SIDES 2u

/* Of nodes of epochs; 0: none. */
struct look_link {
    uint32_t first, next; /* child; sibling, or another node that is the same in the tree */
    uint32_t frame;       /* LOOK_NONE: no node, but what its parent has more */
};

/* A dictionary's nodes and frames stand behind those of the one before. */
struct look_source {
    const struct look_dict *dict;
    struct look_epoch *held; /* whose dictionary it is, where that is nobody else's */
    uint32_t node, frame;    /* where they begin */
};

struct look_gathered {
    VEC(uint64_t) total;         /* [node] with what is below it; of the last source its own, until it ends */
    VEC(struct look_link) links; /* [node] */
    VEC(uint32_t) frame_of;      /* [frame] that of the tree, or LOOK_NONE: not asked yet */
    VEC(struct look_source) sources;
    uint32_t root[LOOK_SIDES]; /* of the last source of a side, and the others' in its `next` */
    size_t held;               /* bytes of epochs that it holds */
};

/* ---- the tree ------------------------------------------------------------------------------ */

/* Of init: all that there are. */
#define LOOK_ALL_NODES UINT32_MAX

/* Of a tree of all nodes, and of one that is cut, which needs less memory itself. */
#define LOOK_GATHERED_MAX     (1u << 19)
#define LOOK_GATHERED_CUT_MAX (1u << 20)

/* Of names of files that are held until the tree is known. */
#define LOOK_HELD_MAX ((size_t)16 << 20)

struct look_tree {
    struct budget *budget;
    struct look_gathered gathered; /* what it grows from */
    struct look_dict dict;
    VEC(uint64_t) self[LOOK_SIDES];  /* [node] */
    VEC(uint64_t) more[LOOK_SIDES];  /* [node]: what is below it and no node; empty: nothing */
    VEC(uint64_t) total[LOOK_SIDES]; /* [node], by look_tree_sum */
    VEC(uint8_t) unit[LOOK_SIDES];   /* a text */
    enum look_detail detail;
    uint32_t most, n_sides; /* n_sides: that something was gathered for */
    uint32_t gathered_max;  /* with more nodes what was gathered becomes one tree's: 20 bytes each */
    uint32_t keep;          /* nodes that it has then, the heaviest */
};

/* For the `most` heaviest nodes: what else there is, is in their `more`. 0 or -ENOMEM. Released in any case.
 */
int look_tree_init(struct look_tree *t, struct budget *budget, enum look_detail detail, uint32_t most);
void look_tree_release(struct look_tree *t);

/* Conditions. */
enum {
    LOOK_TOO_LONG = 2, /* the deadline passed */
};

/* Which slices a selection means: of which level, from and to as slices of it. */
void look_range(const struct look_store *s, const struct look_select *select, bool is_of_services,
                struct look_found *ret, uint32_t *ret_from, uint32_t *ret_to);

/* Calls show for each section that a selection takes, or example for each example, which is of its trace if
 * it names one; `e` is its epoch and `at_ns` its slice's time. */
struct look_visit {
    const struct look_select *select;
    bool is_of_services;                               /* nothing but services and runtimes matters */
    uint64_t deadline_ns;                              /* of sections; monotonic; 0: none */
    int (*begin)(void *context, struct look_epoch *e); /* may be NULL */
    int (*show)(void *context, struct look_epoch *e, uint64_t at_ns, const struct look_section *section);
    int (*example)(void *context, struct look_epoch *e, const struct look_example *x); /* in place of show */
    int (*end)(void *context, struct look_epoch *e); /* may be NULL; one that is_read is its to free */
    void *context;
    struct budget *budget;
};
/* 0, LOOK_TOO_LONG, -ENOMEM, or what they gave that was not 0. *ret is filled but for unit. */
int look_visit(struct look_store *s, const struct look_visit *visit, struct look_found *ret);

/* Gathers all of a selection for a side; of one that names a trace its examples. As look_visit. */
int look_tree_gather(struct look_tree *t, uint32_t side, struct look_store *s,
                     const struct look_select *select, uint64_t deadline_ns, struct look_found *ret);

void look_gathered_init(struct look_gathered *g, struct budget *budget);
void look_gathered_release(struct look_gathered *g);

/* Another source, whose values are added to by node; they move with the next one. 0 or -ENOMEM. */
int look_gathered_begin(struct look_gathered *g, const struct look_dict *dict);
static inline uint64_t *look_gathered_values(const struct look_gathered *g)
{
    return g->total.p + vec_last(&g->sources)->node;
}

/* It has all its values, and is of that side. One that is_read is the tree's from here on, whatever comes;
 * others stay until it has grown. 0 or -ENOMEM. */
int look_gathered_end(struct look_tree *t, uint32_t side, struct look_epoch *e);

/* Makes a tree of what was gathered, before the store changes: of all nodes, or of the heaviest, both sides
 * together. Once. 0 or -ENOMEM. */
int look_tree_grow(struct look_tree *t);

/* Leaves out stacks without a frame whose name contains the text, or is it. 0 or -ENOMEM. */
int look_tree_filter(struct look_tree *t, struct bytes text, bool is_whole);

/* Leaves out stacks that do not begin with these n functions, the outermost first. 0 or -ENOMEM. */
int look_tree_under(struct look_tree *t, const struct bytes *names, uint32_t n);

/* Totals of all nodes. 0 or -ENOMEM. */
int look_tree_sum(struct look_tree *t);

#endif
