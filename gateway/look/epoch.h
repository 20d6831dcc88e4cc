/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A dictionary (dict.h) and the slices that are written in its numbers.
 *
 * Numbers are for the epoch's life; it only grows, and ends as a whole. Everything is charged to its budget.
 */
#ifndef GATEWAY_LOOK_EPOCH_H
#define GATEWAY_LOOK_EPOCH_H

#include "gateway/look/dict.h"
#include "gateway/look/slice.h"
#include "proto/base/rng.h"

/* Series of an epoch; with more, threads become "[other]", then containers and executables, then hosts, then
 * services. */
#define LOOK_SERIES_MAX 10000u

struct look_known_stack {
    uint64_t hash;
    uint32_t node;
};

/* FINE: LOOK_SLICE_NS, all labels. COARSE: sixty times that, a series a service and type. */
enum look_level { LOOK_FINE, LOOK_COARSE, LOOK_N_LEVELS };
#define LOOK_COARSE_SLICES 60u /* fine ones */

struct look_slice {
    uint32_t at; /* of its level */
    enum look_level level;
    uint32_t n_nodes;  /* that there were when it was sealed */
    struct bytes data; /* the epoch's */
};

struct look_open {
    uint32_t at;
    enum look_level level;
    uint32_t n_merged; /* pairs when they were merged last */
    look_pairs pairs;
};

/* A sample whose trace is known. */
struct look_example {
    uint32_t at, series, node; /* fine slice */
    uint64_t value;
    uint8_t trace[16], span[8];
};

/* Of an epoch: so many of the last ones, and as many of those before, chosen by chance. In memory only. */
#define LOOK_EXAMPLES_EACH 4096u

struct look_epoch {
    struct budget budget;
    struct look_dict dict;
    VEC(struct look_series) series;
    VEC(uint32_t) coarse_of; /* [series] its coarse one, or LOOK_NONE: not asked yet */
    VEC(struct look_known_stack) stacks;
    struct hash_table series_of, stack_of;
    VEC(struct look_slice) slices;
    VEC(struct look_open) open;
    VEC(struct look_example) examples, old_examples;
    uint64_t n_examples; /* that were offered */
    struct rng rng;
    uint64_t id;             /* its file's; 0: none yet */
    bool is_read;            /* of a file: fine slices in it are part of no coarse one */
    uint64_t began_ns;       /* Unix time */
    uint32_t oldest, newest; /* fine slices; oldest > newest: none */
};

/* Its budget is a part of `parent`. NULL: no memory. */
struct look_epoch *look_epoch_new(struct budget *parent, uint64_t now_ns);
struct look_epoch *look_epoch_free(struct look_epoch *e);

/* The number of it, made if it is new; LOOK_NONE: no memory. */
uint32_t look_epoch_series(struct look_epoch *e, const struct look_series *series);

/* The node of a stack that was told, or LOOK_NONE. */
uint32_t look_epoch_find_stack(const struct look_epoch *e, uint64_t hash);
/* 0 or -ENOMEM. */
int look_epoch_know_stack(struct look_epoch *e, uint64_t hash, uint32_t node);

/* Adds to the open slice of that time. 0 or -ENOMEM. */
int look_epoch_add(struct look_epoch *e, enum look_level level, uint32_t at, const struct look_pair *pair);

/* Takes an example, for which another one may have to make room. Without memory it is none. */
void look_epoch_add_example(struct look_epoch *e, const struct look_example *example);

/* Seals the open slices that `is_over` takes. A fine one is then part of its coarse one, too. What there is
 * no memory for stays open; 0 or -ENOMEM. */
int look_epoch_seal(struct look_epoch *e, bool (*is_over)(const struct look_open *open, uint64_t now_ns),
                    uint64_t now_ns);

/* It grows no more: gives back what only that needs. */
void look_epoch_finish(struct look_epoch *e);

/* Only strings and frames are wanted from here on. */
void look_epoch_keep_names(struct look_epoch *e);

/* Takes a sealed slice, copied. 0 or -ENOMEM. */
int look_epoch_add_sealed(struct look_epoch *e, const struct look_slice *slice);

/* Shows all slices of a level, in [from, to), sealed and open, as bytes; of the coarse one also those fine
 * ones that are no part of it yet. Stops where `show` is not 0, and returns that; or -ENOMEM. */
int look_epoch_each(struct look_epoch *e, enum look_level level, uint32_t from, uint32_t to,
                    int (*show)(void *context, const struct look_slice *slice), void *context);

#endif
