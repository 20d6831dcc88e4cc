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

#define LOOK_SIDES 2u

struct look_tree {
    struct budget *budget;
    struct look_dict dict;
    VEC(uint64_t) self[LOOK_SIDES];  /* [node]; kept as long as dict.nodes */
    VEC(uint64_t) total[LOOK_SIDES]; /* by look_tree_sum */
    enum look_detail detail;
};

/* 0 or -ENOMEM. Released in any case. */
int look_tree_init(struct look_tree *t, struct budget *budget, enum look_detail detail);
void look_tree_release(struct look_tree *t);

/* Conditions. */
enum {
    LOOK_TOO_LONG = 2, /* the deadline passed */
};

/* Which slices a selection means: of which level, from and to as slices of it. */
void look_range(const struct look_store *s, const struct look_select *select, bool is_of_services,
                struct look_found *ret, uint32_t *ret_from, uint32_t *ret_to);

/* Calls show for each section that a selection takes; `e` is its epoch and `at_ns` its slice's time. */
struct look_visit {
    const struct look_select *select;
    bool is_of_services;                               /* nothing but services and runtimes matters */
    uint64_t deadline_ns;                              /* monotonic; 0: none */
    int (*begin)(void *context, struct look_epoch *e); /* may be NULL */
    int (*show)(void *context, struct look_epoch *e, uint64_t at_ns, const struct look_section *section);
    int (*end)(void *context, struct look_epoch *e); /* may be NULL */
    void *context;
    struct budget *budget;
};
/* 0, LOOK_TOO_LONG, -ENOMEM, or what they gave that was not 0. *ret is filled but for unit. */
int look_visit(struct look_store *s, const struct look_visit *visit, struct look_found *ret);

/* Calls show for each example that a selection takes, which is of its trace if it names one. `begin` and
 * `end` are of an epoch, and may be NULL. As look_visit. */
struct look_visit_examples {
    const struct look_select *select;
    int (*begin)(void *context, struct look_epoch *e);
    int (*show)(void *context, struct look_epoch *e, const struct look_example *example);
    int (*end)(void *context, struct look_epoch *e);
    void *context;
    struct budget *budget;
};
int look_visit_examples(struct look_store *s, const struct look_visit_examples *visit,
                        struct look_found *ret);

/* Adds all of a selection to a side; of one that names a trace its examples. As look_visit. */
int look_tree_gather(struct look_tree *t, uint32_t side, struct look_store *s,
                     const struct look_select *select, uint64_t deadline_ns, struct look_found *ret);

/* Leaves out stacks without a frame whose name contains the text, or is it. 0 or -ENOMEM. */
int look_tree_filter(struct look_tree *t, struct bytes text, bool is_whole);

/* Leaves out stacks that do not begin with these n functions, the outermost first. 0 or -ENOMEM. */
int look_tree_under(struct look_tree *t, const struct bytes *names, uint32_t n);

/* Totals of all nodes. 0 or -ENOMEM. */
int look_tree_sum(struct look_tree *t);

#endif
