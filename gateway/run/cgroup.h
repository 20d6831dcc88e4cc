/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How much memory the cgroups that the process is in allow it (cgroups(7)): beyond it the kernel ends it,
 * whatever limits.memory says.
 */
#ifndef GATEWAY_RUN_CGROUP_H
#define GATEWAY_RUN_CGROUP_H

#include <stdint.h>

/* The least memory.max (version 2) or memory.limit_in_bytes (version 1) of the process's cgroup and all
 * around it that can be seen from here; UINT64_MAX: none is seen. `root` is put before /proc and /sys: "", or
 * a test's. */
uint64_t cgroup_memory(const char *root);

#endif
