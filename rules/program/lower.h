/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lowering: from a checked set of rules to a program.
 */
#ifndef RULES_PROGRAM_LOWER_H
#define RULES_PROGRAM_LOWER_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/base/error.h"
#include "rules/program/lowered.h"
#include "rules/tree/tree.h"

/* Which metrics take part: all enabled ones, or (tests) what `choose` says. `probes` are further sample
 * predicates to be answered; probe i becomes source n_sources - n_probes + i with no metric. NULL with *e set
 * on failure. */
struct lower_options {
    bool (*choose)(const struct rule_metric *metric, const void *context);
    const void *context;
    const struct rule_sample *const *probes;
    uint32_t n_probes;
};
struct rules_program *lower_program(const struct rule_set *set, const struct lower_options *options,
                                    struct error *e);

#endif
