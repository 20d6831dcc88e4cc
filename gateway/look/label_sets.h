/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pyroscope's Series and SelectSeries: what of a selection there is by some labels, and how much over time.
 * For gateway/look only.
 */
#ifndef GATEWAY_LOOK_LABEL_SETS_H
#define GATEWAY_LOOK_LABEL_SETS_H

#include "gateway/look/parts.h"
#include "proto/wire/writer.h"

/* All that there are, and the type. */
#define LOOK_SET_LABELS_MAX (LOOK_N_LABELS + 1u)

/* Labels by name, in the order of their names in an answer. */
struct look_label_names_of {
    enum look_label label[LOOK_SET_LABELS_MAX]; /* LOOK_NO_LABEL: the type */
    uint32_t n;
};

/* The label of that name, once; one that nothing has is passed over. */
void look_set_add_label(struct look_label_names_of *names, struct bytes name);
void look_set_add_all(struct look_label_names_of *names);

/* Points are sums over (t - step, t]; the first t is from_ns. A slice is shared out over the steps it lies
 * in. */
struct look_steps {
    uint64_t from_ns, step_ns;
    uint32_t n;
    uint32_t limit; /* the largest so many series; 0: all */
};

/* Appends a message in `field` for each set: Labels; with steps Series, largest first where there is a limit.
 * 0, LOOK_TOO_LONG or -ENOMEM. */
int look_put_label_sets(const struct look_asked *asked, const struct look_label_names_of *names,
                        const struct look_steps *steps, uint32_t field, struct wire_writer *w);

#endif
