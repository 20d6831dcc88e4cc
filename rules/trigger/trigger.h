/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Triggers (LANGUAGE §6) evaluated: fed once a second with running totals of each group, it says which
 * groups begin and end firing. What firing does is the caller's.
 *
 * A group is one combination of values of the trigger's `per` attributes. Of each, a window of totals is
 * kept; while there is not a whole window, or no data, or for a share less than TRIGGER_EVIDENCE samples in
 * what it is a share of, a condition is false: neither `when` nor `until` holds.
 *
 * One object belongs to one thread. Times are of a monotonic clock, in nanoseconds.
 */
#ifndef RULES_TRIGGER_TRIGGER_H
#define RULES_TRIGGER_TRIGGER_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/base/budget.h"
#include "proto/base/error.h"
#include "rules/tree/policy.h"

/* A share of 20 % is above 40 % by chance in 0.9 % of windows of 20 samples, in none of 20 000 of 100. */
#define TRIGGER_EVIDENCE   100u
#define TRIGGER_GROUPS_MAX 4096u /* of one trigger: 2 KiB each; further ones are refused and counted */
#define TRIGGER_FIRING_MAX 64u   /* of one trigger at once, the farthest beyond its threshold first */
#define TRIGGER_POINTS     64u /* of a window: one a second, or one each 60th of the window if that is longer */

struct triggers;

/* The enabled triggers of a set, which must outlive it. NULL with *e set. */
struct triggers *triggers_new(const struct rule_set *set, struct budget *budget, struct error *e);
struct triggers *triggers_free(struct triggers *t);

uint32_t triggers_count(const struct triggers *t);
const struct rule_trigger *triggers_at(const struct triggers *t, uint32_t trigger);

/* ---- which series a trigger adds up */

struct trigger_label {
    struct bytes name, value;
};
#define TRIGGER_PART  1u
#define TRIGGER_WHOLE 2u
/* Whether a series of this metric belongs to what the trigger counts (TRIGGER_PART: of the rate or share), to
 * what it is a share of, or both. Not fast: ask once a series. */
unsigned triggers_select(struct triggers *t, uint32_t trigger, const struct rule_metric *metric,
                         const struct trigger_label *labels, uint32_t n);

/* ---- one second */

/* Totals of a group's series since any moment in the past: they only rise, and where they do not (a restart),
 * its window begins anew. Times in seconds. */
struct trigger_totals {
    double part, whole; /* whole: of shares */
    uint64_t samples;   /* that went into `whole`; of a rate unused */
};

/* What group `values` (one a `per` attribute, .p NULL where the resource lacks it) has now. 0; -ENOMEM; 1:
 * there are TRIGGER_GROUPS_MAX already, it is not watched. */
int triggers_feed(struct triggers *t, uint32_t trigger, const struct bytes *values, uint64_t now,
                  const struct trigger_totals *totals);

struct trigger_event {
    uint32_t trigger;
    const struct bytes *values; /* of the group; valid during the call */
    bool firing;                /* begins; else it ends, and every action is withdrawn */
    bool until;                 /* it ends because `until` held; else `lasting` is over */
    double value;               /* the share or rate; 0 where there is none */
};

/* Looks at every group, once all have been fed that have something to say for this second. */
void triggers_tick(struct triggers *t, uint64_t now,
                   void (*tell)(void *context, const struct trigger_event *e), void *context);

/* ---- what it is doing */

struct trigger_figures {
    uint32_t groups, firing;
    uint64_t refused; /* feeds of groups beyond the bound */
    uint64_t held;    /* seconds that a group was ready and TRIGGER_FIRING_MAX others fired */
};
struct trigger_figures triggers_figures(const struct triggers *t, uint32_t trigger);

#endif
