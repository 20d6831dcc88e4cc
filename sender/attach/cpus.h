/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lists of CPUs as the kernel writes them: "0-3,8".
 */
#ifndef SENDER_ATTACH_CPUS_H
#define SENDER_ATTACH_CPUS_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/base/bytes.h"

/* As many as a kernel can be built for (CONFIG_NR_CPUS on x86-64 with MAXSMP). */
#define CPUS_MAX 8192u

struct cpus {
    uint64_t bit[CPUS_MAX / 64];
};

/* Parses such a list, a trailing newline allowed. 0, or -EINVAL (malformed, or a CPU above the maximum). */
int cpus_parse(struct cpus *ret, struct bytes text);

/* The CPUs online now, from /sys/devices/system/cpu/online. 0 or -errno. */
int cpus_online(struct cpus *ret);

static inline bool cpus_has(const struct cpus *c, uint32_t cpu)
{
    return cpu < CPUS_MAX && (c->bit[cpu / 64] >> (cpu % 64) & 1);
}

#endif
