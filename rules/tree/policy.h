/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is kept of raw profiles and when senders are asked for more: `keep`, `drop` (LANGUAGE §5) and
 * `trigger` (§6) of the checked tree. Like the rest of it (tree.h): in the arena of its rule_set, immutable
 * once compiled.
 */
#ifndef RULES_TREE_POLICY_H
#define RULES_TREE_POLICY_H

#include "rules/tree/tree.h"

/* ---- keep, drop ------------------------------------------------------------------------------ */

/* What a decision is made for. */
enum rule_keep_of { RULE_OF_STACKS, RULE_OF_PROFILES, RULE_OF_SAMPLES };
#define RULE_KEEP_OFS 3u

#define RULE_SHARE_ONE 1000000u /* shares are millionths: 0.0001% is the smallest that can be said */

struct rule_keep {
    enum {
        RULE_KEEP_SHARE, /* `of` a share of stacks, profiles or samples; `keep all`: of stacks, all of it */
        RULE_KEEP_RATE,  /* at most `count` samples a second or minute for each text `by` */
        RULE_KEEP_DROP,
    } how;
    bool all; /* said as `all` */
    enum rule_keep_of of;
    uint32_t share; /* 1 … RULE_SHARE_ONE */
    uint32_t count;
    bool per_second;            /* else per minute */
    const struct rule_text *by; /* NULL: one rate for all */
    /* On profiles of a kind, of TYPE/UNITs that a pattern meets, or (RULE_KIND_ANY) of all. A kind takes all
     * siblings that are of it: a raw profile is not counted. */
    bool on_kind;
    enum rule_kind kind;
    const struct rule_pattern *on;
    const struct rule_sample *where; /* NULL: every sample */
    bool enabled;                    /* its pack is */
    struct bytes pack;
    struct rule_place place;
};

/* ---- triggers -------------------------------------------------------------------------------- */

struct rule_selector_label {
    struct bytes name;
    enum { RULE_LABEL_IS, RULE_LABEL_MATCHES } op;
    bool negated;
    struct bytes value; /* IS; .p NULL: `none`, the series lacks the label */
    const struct rule_pattern *pattern;
};

/* Some series of a metric. */
struct rule_selector {
    const struct rule_metric *metric;
    const struct rule_selector_label *labels; /* all must hold */
    uint32_t n_labels;
};

struct rule_threshold {
    bool above;   /* else below */
    double value; /* of a share: a fraction; of a rate: units of the metric a second */
    uint64_t for_ns;
};

struct rule_action {
    enum { RULE_ACTION_KEEP_ALL, RULE_ACTION_SAMPLE, RULE_ACTION_RECORD } kind;
    uint32_t hertz;        /* SAMPLE */
    enum rule_kind record; /* RECORD */
};

struct rule_trigger {
    struct bytes name, pack, describe;
    bool enabled;
    bool share;                       /* else a rate: `whole` is unused */
    struct rule_selector part, whole; /* `share of PART in WHOLE`, `rate of PART` */
    const struct bytes *per;          /* keys of resource attributes: a group each combination of values */
    uint32_t n_per;
    uint64_t over_ns;
    struct rule_threshold when, until;
    bool until_said; /* else it is the exact opposite of `when`, without delay */
    const struct rule_action *actions;
    uint32_t n_actions;
    uint64_t lasting_ns, cooldown_ns;
    struct rule_place place;
};

#endif
