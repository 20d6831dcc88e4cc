/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stacks of recent times: epochs (epoch.h), the newest of which grows, within so many bytes and so much
 * age whatever comes. What does not fit costs the oldest epoch; what still does not fit is counted under
 * "[not kept]", so that totals are right.
 *
 * With a folder what is sealed is on disk within a second, all of it at the end; epochs that memory has no
 * more are read from there when they are asked about.
 *
 * One thread at a time; queries (answer.h) are of its thread, too.
 */
#ifndef GATEWAY_LOOK_STORE_H
#define GATEWAY_LOOK_STORE_H

#include "gateway/look/batch.h"
#include "gateway/look/epoch.h"
#include "gateway/look/rates.h"
#include "gateway/look/shelf.h"

/* In memory: more where little came in the time of one. */
#define LOOK_EPOCHS_MAX 5u

struct look_store_options {
    size_t memory;         /* bytes of all of it, batches on their way, too */
    uint64_t retention_ns; /* what is older goes */
    uint32_t samples_per_second;
};

struct look_counts {
    uint64_t seen, kept; /* samples; seen: those that were thinned, too */
    uint64_t not_kept;   /* of these without a stack */
    uint64_t late;       /* put where they came, since their time was not of now */
    uint64_t lost;       /* for want of memory: not in any total */
};

/* The rules that stacks are asked of; NULLs: none. */
struct rule_set;
struct rules_program;
struct look_rules {
    const struct rule_set *set;
    const struct rules_program *program;
};

struct look_store {
    struct look_store_options options;
    struct look_rules rules; /* of the question that comes next: whoever asks sets them */
    struct budget budget;    /* for taps, too */
    struct look_rates rates;
    struct look_epoch *epochs[LOOK_EPOCHS_MAX]; /* the oldest first */
    uint32_t n_epochs;
    struct look_shelf *shelf;    /* NULL: in memory only */
    uint64_t demand[LOOK_RATES]; /* since the last tick */
    uint64_t ticked_ns, now_ns;  /* of the last tick: monotonic, Unix */
    struct {
        uint64_t now_ns, at_ns, ahead_ns; /* Unix; monotonic: when that was, and since when the wall clock is
                                             ahead of it; 0: not */
    } age;                                /* the time by which something is old */
    uint64_t anew_ns;                     /* when all were last asked to tell anew, monotonic */
    bool has_missed;                      /* a stack that was told when there was no room for it came again */
    struct look_counts counts;
    VEC(uint32_t) strings, stacks, series; /* [number in the batch] that of the epoch, or LOOK_NONE */
};

/* `parent` is charged for all of it, and outlives it. NULL: no memory. */
struct look_store *look_store_new(const struct look_store_options *options, struct budget *parent);
struct look_store *look_store_free(struct look_store *s);

/* Keeps epochs in a folder, too, and finds those that are there (shelf.h). Once. 0, or negative with *e. */
int look_store_keep_in(struct look_store *s, const char *folder, uint64_t bytes_max, struct error *e);

/* Takes a batch of a tap, and frees it. NULL is fine. `now_ns` is Unix time. */
void look_store_add(struct look_store *s, struct look_batch *batch, uint64_t now_ns);

/* Once a second: what is over is sealed, what is old goes, and it is said anew who is thinned. Unix and
 * monotonic time. */
void look_store_tick(struct look_store *s, uint64_t now_ns, uint64_t monotonic_ns);

#endif
