/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernel side's stepping code over memory in user space: recorded, or another process's.
 */
#ifndef TESTS_UNWIND_WALK_H
#define TESTS_UNWIND_WALK_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

struct memory {
    uint64_t start, size;
    const uint8_t *bytes;
};

static inline int memory_load(const struct memory *m, uint64_t address, uint64_t *value)
{
    uint64_t at = address - m->start;
    if (at >= m->size || m->size - at < 8)
        return -1;
    memcpy(value, m->bytes + at, 8);
    return 0;
}

#define UNWIND_WALK                    const struct memory
#define UNWIND_LOAD(m, address, value) memory_load(m, address, value)
#define UNWIND_IN_STACK(m, r, address)                                     \
    ((address) >= (r)->sp && (address) >= (m)->start && (m)->size >= 16 && \
     (address) - (m)->start <= (m)->size - 16)
#include "bpf/unwind_step.h"

#endif
