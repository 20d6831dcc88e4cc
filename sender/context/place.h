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

/* Looks for it. 0; -ENOENT: none of its files has the variable (yet); else -errno. Reads the process's memory
 * and files; costs some tens of microseconds a file. */
int place_find(const struct procs *procs, const struct process *process, struct context_place *ret);

#endif
