/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the parts of one matcher share: whom their memory is charged to, and whether it ran out. Running out
 * is marked here and stays marked until the next request, so that answers need no second way to fail: they
 * are RULES_NONE, or anything, and whoever wants to believe them asks `error` first.
 */
#ifndef RULES_MATCH_MEMORY_H
#define RULES_MATCH_MEMORY_H

#include <errno.h>
#include <stdint.h>

#include "proto/base/budget.h"
#include "rules/match/shapes.h"

struct match_memory {
    struct budget *budget; /* may be NULL */
    int error;             /* 0, or -ENOMEM */
};

/* Marks it; returns RULES_NONE. */
static inline uint32_t match_memory_out(struct match_memory *memory)
{
    memory->error = -ENOMEM;
    return RULES_NONE;
}

#endif
