/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A tree as Pyroscope's FlameGraph and FlameGraphDiff messages. For gateway/look only.
 */
#ifndef GATEWAY_LOOK_FLAMEGRAPH_H
#define GATEWAY_LOOK_FLAMEGRAPH_H

#include "gateway/look/tree.h"
#include "proto/wire/writer.h"

/* Appends the fields of the message: of a tree with totals, at most `nodes` of it; two sides are a diff. 0 or
 * -ENOMEM; the writer has its own failures. */
int look_put_flamegraph(const struct look_tree *t, uint32_t n_sides, uint32_t nodes, struct wire_writer *w);

#endif
