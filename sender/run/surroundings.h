/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether where we run, and what we are told to sample, can give samples: what cannot is said, not left to be
 * found out.
 */
#ifndef SENDER_RUN_SURROUNDINGS_H
#define SENDER_RUN_SURROUNDINGS_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/base/error.h"
#include "sender/options/options.h"

/* What it takes, with some room: 20 to 40 MB of our own, 9 of maps in the kernel, and what loading the
 * programs takes for a moment. */
#define SURROUNDINGS_MEMORY_MIN (64ull << 20)
/* Without a sample for so long it is said whom the options let through. */
#define SURROUNDINGS_IDLE_NS 10000000000u

/* Zeroed is fresh. */
struct surroundings {
    bool said_idle;
};

/* Before anything is opened. Warns of a memory limit that is too small, of options that change nothing, and
 * of a pid that nobody has. 0, or -EINVAL with *e: /proc shows a PID namespace that is not the kernel's, in
 * which no sample finds its process. -EACCES: OBI's map, or where it is pinned, is another user's.
 */
int surroundings_check(const struct options *o, struct error *e);

/* Says once that nothing was sampled, if that may be because of the options: `taken` samples since the start,
 * `passed` ns ago (UINT64_MAX: it ends). */
void surroundings_say_idle(struct surroundings *s, const struct options *o, uint64_t taken, uint64_t passed);

/* The smallest memory limit on the way from a cgroup (as in the text of /proc/PID/cgroup, version 2) up to
 * `root`; UINT64_MAX: there is none. */
uint64_t surroundings_memory(const char *root, struct bytes cgroup);

#endif
