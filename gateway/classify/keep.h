/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A second look at the request that was counted last: what the program's keep and drop rules say of its
 * samples. Whoever forwards raw profiles decides by it. Programs without such rules never come here.
 */
#ifndef GATEWAY_CLASSIFY_KEEP_H
#define GATEWAY_CLASSIFY_KEEP_H

#include "gateway/classify/classify.h"
#include "rules/match/match.h"

struct classify_keep;

/* Beside a classify stage, which must outlive it, for its thread. NULL when memory is out. */
struct classify_keep *classify_keep_new(struct classify *c);
struct classify_keep *classify_keep_free(struct classify_keep *k);

/* Whether the program has any such rule. */
bool classify_keep_has_rules(const struct classify_keep *k);

/* Begins with the view that classify_push has just counted. 0, or -ENOMEM. */
int classify_keep_begin(struct classify_keep *k, const struct profiles *view);

/* What the rules say of a sample that is not rejected: in *ret, valid until the next call; NULL of a sample
 * without frames, which satisfies no rule. A profile's samples are asked for one after the other. 0, -ENOMEM,
 * or -E2BIG: so many stacks must be walked again for a sample's own attributes that the request costs more
 * than its bytes pay for. */
int classify_keep_sample(struct classify_keep *k, uint32_t profile, uint32_t sample,
                         const struct rules_kept **ret);

/* Rate i of those a sample may be taken by (rules_kept.rates …), and the text that `by` makes, "" if none. */
const struct rule_keep *classify_keep_rate(const struct classify_keep *k, uint32_t rate, uint32_t *ret_rule,
                                           struct bytes *ret_text);

/* The view is done with, also after a begin that failed. */
void classify_keep_end(struct classify_keep *k);

#endif
