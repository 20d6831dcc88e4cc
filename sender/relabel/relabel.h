/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rules over what a resource says, in the words of Prometheus's relabel_config and with their meaning: they
 * rewrite attributes, and decide whose samples are sent and how many of them.
 *
 *     { source_labels: [service.name], regex: "test-.*", action: drop }
 *     { source_labels: [k8s.namespace.name, k8s.pod.name], separator: "/", target_label: pod }
 *     { source_labels: [process.executable.name], regex: "postgres|java", action: sample, share: 10% }
 *
 * Labels are attributes, so their names may have dots; one that is not there is "". Regular expressions are
 * PCRE2's, over bytes, match whole values, and give up after RELABEL_STEPS_MAX steps: values are chosen by
 * who is profiled. What could not be matched to the end, or is longer than RELABEL_TEXT_MAX, does not match,
 * and is counted.
 *
 * What is applied is one thread's.
 */
#ifndef SENDER_RELABEL_RELABEL_H
#define SENDER_RELABEL_RELABEL_H

#include "proto/base/arena.h"
#include "proto/base/error.h"
#include "proto/base/settings/settings.h"
#include "proto/otlp/attr.h"

#define RELABEL_RULES_MAX 64u
#define RELABEL_TEXT_MAX  4096u
#define RELABEL_STEPS_MAX 10000u

enum relabel_action {
    RELABEL_REPLACE,   /* target_label := replacement, where regex matches; "" removes it */
    RELABEL_KEEP,      /* samples are sent only where regex matches */
    RELABEL_DROP,      /* they are not sent where it matches */
    RELABEL_SAMPLE,    /* a share of them is, where it matches */
    RELABEL_LABELMAP,  /* each label whose name regex matches is copied to one named replacement */
    RELABEL_LABELDROP, /* each label whose name regex matches is removed */
    RELABEL_LABELKEEP, /* each other label is */
};

/* A rule as it is written. */
struct relabel_rule {
    struct settings_strings source_labels; /* their values, with separators between them, are matched */
    const char *separator, *regex, *target_label, *replacement;
    int action;
    double share;
};
extern const struct settings_section relabel_section; /* of that; with the usual defaults */

struct relabel;

/* No rules yet. NULL when memory is out. */
struct relabel *relabel_new(void);
struct relabel *relabel_free(struct relabel *r); /* NULL is fine; returns NULL */

/* Adds a rule; copies. 0; -EINVAL with *e saying what is wrong with it; -ENOMEM. */
int relabel_add(struct relabel *r, const struct relabel_rule *rule, struct error *e);

/* The attributes of one resource. Values that are no text are matched as text and stay as they are. */
struct relabel_labels {
    struct attr *attr;
    uint32_t n, room;   /* what finds no room is left out */
    struct arena *text; /* for what is made */
};

/* The share of its samples that are sent: 0 … 1; and what the rules made of its labels. Of several that name
 * a share the last counts. At the end labels whose names begin with "__" are removed, as they are in
 * Prometheus: notes from rule to rule. */
double relabel_apply(struct relabel *r, struct relabel_labels *labels);

/* Matches that were given up so far. Any thread. */
uint64_t relabel_given_up(const struct relabel *r);

#endif
