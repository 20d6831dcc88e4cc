/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The labels of a batch, by its options: names translated, in the order of names, of a key in both a point
 * and its resource the point's value. Private to this folder and to who writes a table down.
 *
 * One set is made at a time, in place; it lasts until the next is begun. One thread.
 */
#ifndef GATEWAY_EXPORT_PROMETHEUS_LABELS_H
#define GATEWAY_EXPORT_PROMETHEUS_LABELS_H

#include "gateway/export/prometheus/names.h"
#include "proto/base/intern.h"

/* More labels than a resource's and a label set's attributes together do not occur (gateway/aggregate bounds
 * each at 256); what is beyond is left out. */
#define LABELS_MAX 520u

/* Of keys, the names they became. */
#define LABELS_RECENT 16u

struct prometheus_label {
    struct bytes key;  /* as the attribute says: the order of joined values */
    struct bytes name; /* as Prometheus says */
    struct bytes value;
    bool plain;     /* the name needs no quotes */
    bool is_target; /* job or instance, as the resource's service says */
};

struct prometheus_labels {
    const struct metric_batch *batch;
    const struct prometheus_options *options;
    struct intern names; /* of all labels so far, as written */
    struct arena point;  /* values of the set at hand */
    struct prometheus_label set[LABELS_MAX], merged[2 * LABELS_MAX], of_resource[LABELS_MAX];
    uint32_t n_set, n_merged, n_of_resource;
    struct prometheus_label
        recent[LABELS_RECENT]; /* by place in the set: points of a family have the same keys */
    struct buffer scratch, escaped;
};

/* *l is all zero; memory is on the batch's budget. The batch and the options outlive it. */
void prometheus_labels_init(struct prometheus_labels *l, const struct metric_batch *batch,
                            const struct prometheus_options *options);
void prometheus_labels_release(struct prometheus_labels *l);

/* In all that can fail: 0 or -ENOMEM. */

/* Leaves a resource's labels, sorted, in of_resource, with values in the batch or in the arena: they are made
 * again for each that is asked for, since those of all together are more than their texts. */
int prometheus_labels_of_resource(struct prometheus_labels *l, const struct metric_resource *res,
                                  struct arena *arena);

/* Leaves a point's own labels, and its scope's, sorted, in the set. */
int prometheus_labels_own(struct prometheus_labels *l, const struct metric_point *point);

/* Leaves those of a point of the resource that was asked for last in merged, settled. */
int prometheus_labels_of_point(struct prometheus_labels *l, const struct metric_point *point);

/* A sorted list, of LABELS_MAX at most, becomes the set. */
void prometheus_labels_take(struct prometheus_labels *l, const struct prometheus_label *list, uint32_t n);

/* Settles the set: values of one name are joined in the order of the original keys, empty values left out (to
 * Prometheus they are no label). */
int prometheus_labels_settle(struct prometheus_labels *l);

/* An attribute value as a label; .p NULL when memory is out. Lists and maps are shown as the hex of their
 * message: the projections keep none by default, and a value must not vanish silently. */
struct bytes prometheus_value_text(struct arena *arena, const struct attr_value *v);

#endif
