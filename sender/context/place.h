/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the threads of a running process publish their contexts (OTEP 4947): the variable found in one of its
 * files, and the word in its memory that the dynamic linker has put there read.
 *
 * x86-64, glibc and musl.
 */
#ifndef SENDER_CONTEXT_PLACE_H
#define SENDER_CONTEXT_PLACE_H

#include "bpf/context.h"
#include "sender/procs/procs.h"

/* Whether the threads of a process say what they work for, by its process context: the schema this knows. */
bool place_is_published(const struct process *process);

/* What one search may cost of its user's allowance: 4 ms or so. A program of a hundred libraries takes a
 * tenth of it. */
#define PLACE_COST_MAX (8ll << 20)

/* Looks for it. 0; -ENOENT: none of its files has the variable (yet); -EDQUOT: `user`, whose allowance it is
 * charged to, has none left, or the process's files take more than any; else -errno. Reads the process's
 * memory and files; costs some tens of microseconds a file. */
int place_find(const struct procs *procs, const struct process *process, struct allowance *user,
               struct context_place *ret);

#endif
