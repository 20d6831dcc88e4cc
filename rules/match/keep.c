/* SPDX-License-Identifier: Apache-2.0 */
#include "rules/match/keep.h"

uint32_t rules_keep_probability(const struct rules_kept *kept, uint32_t of_profile)
{
    if (kept->dropped != RULES_NONE)
        return 0;
    double not_kept = (1 - (double)kept->share[RULE_OF_STACKS] / RULE_SHARE_ONE) *
                      (1 - (double)of_profile / RULE_SHARE_ONE) *
                      (1 - (double)kept->share[RULE_OF_SAMPLES] / RULE_SHARE_ONE);
    return (uint32_t)((1 - not_kept) * RULE_SHARE_ONE + 0.5);
}
