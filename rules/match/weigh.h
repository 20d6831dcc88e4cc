/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which sources a profile feeds, and what a sample of it weighs: the language's `on` and `value`
 * (LANGUAGE §4).
 */
#ifndef RULES_MATCH_WEIGH_H
#define RULES_MATCH_WEIGH_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/base/bytes.h"
#include "proto/base/macros.h"
#include "rules/tree/tree.h"

struct match_strings;

/* What `on` and `value` want to know of a profile. */
struct rules_profile {
    struct bytes type, unit, period_unit; /* empty where absent */
    int64_t period;
    struct bytes period_type;
};

/* How its samples become time: Σ values × factor, or samples × factor nanoseconds, or not at all. `limit` is
 * the largest sum whose product still fits 63 bits. `period`: where values are times, the nanoseconds that
 * one sample stands for; 0: it does not say. */
struct rules_time {
    enum { RULES_TIME_NONE, RULES_TIME_VALUES, RULES_TIME_SAMPLES } how;
    int64_t factor, limit, period;
};

/* How many samples one sample stands for whose values, `sum`, are times: how often the period is in it, but
 * not less than once; `events` where no period says. */
static inline int64_t rules_time_samples(const struct rules_time *t, int64_t sum, int64_t events)
{
    return t->period > 0 && sum > 0 && sum <= t->limit ? max_of(sum * t->factor / t->period, (int64_t)1)
                                                       : events;
}

struct rules_time rules_time_of(const struct rules_profile *p);

/* ---- for the matcher ------------------------------------------------------------------------- */

/* rules_matcher_choose(), by the strings of a matcher. */
void weigh_choose(struct match_strings *strings, const struct rules_profile *group, uint32_t n,
                  uint64_t *masks);

/* Whether a pattern meets a profile's TYPE/UNIT, or what that is with `_` for each `-` of its type, or the
 * other way round (LANGUAGE §4, `on`); false, too, of one that is too long (§9), and when memory is out. */
bool weigh_type_is(struct match_strings *strings, const struct rule_pattern *on,
                   const struct rules_profile *p);

/* Longer ones, both together, are no names, and would be joined anew for each profile that has another unit.
 */
#define WEIGH_TYPE_MAX 1024u

/* As much of a type or unit as says which rules take it: of what is too long it is not the whole that
 * matters. */
static inline struct bytes weigh_name(struct bytes text)
{
    return bytes_of(text.p, min_of(text.n, (size_t)WEIGH_TYPE_MAX + 1));
}

/* What else than TYPE/UNIT says which kinds a profile is of: a number below WEIGH_FACTS. */
#define WEIGH_FACTS 4u
uint32_t weigh_facts(const struct rules_profile *p);

/* The place of a profile's TYPE/UNIT among those of a kind; RULES_NONE: it is not of it. */
uint32_t weigh_kind_rank(enum rule_kind kind, enum rule_value value, const struct rules_profile *p);

#endif
