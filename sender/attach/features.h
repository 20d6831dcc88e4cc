/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the kernel side has to do in another way on this kernel, or cannot do: by the kernel's BTF, for
 * distributions take much back into kernels whose numbers are old.
 */
#ifndef SENDER_ATTACH_FEATURES_H
#define SENDER_ATTACH_FEATURES_H

#include <stdbool.h>
#include <stdint.h>

#include "sender/attach/kinds.h"

struct btf;

struct features {
    bool btf;                            /* there is any to go by */
    bool sched_switch, block, sys_enter; /* tracepoints */
    bool sched_exit;                     /* another one: a tracepoint in the thread that is back (6.16) */
    bool prev_state;                     /* sched_switch says in what state a thread leaves (5.18) */
    bool block_queue;                    /* block_rq_insert and _issue say the queue first (before 5.11) */
    bool task_storage;                   /* in tracepoints (5.12) */
    bool cookies;                        /* tell events and probes apart (5.15) */
    bool mappings_by_task;               /* an iterator over the mappings of one process (6.1) */
    bool hash_allocates;                 /* perf events may use hashes that allocate (6.1) */
    bool memlock; /* maps are charged to RLIMIT_MEMLOCK (before 5.11), not to the cgroup */
};

/* Asks a kernel's BTF; NULL: there is none, and nothing is true. */
struct features features_of(const struct btf *btf);

/* The running kernel's. */
struct features features(void);

/* Why a kind of samples cannot be had here beside those before it, for the user; NULL: it can. */
const char *features_lack(const struct features *f, const struct kinds *kinds, uint32_t source);

#endif
