/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What was new of an epoch's dictionary, as bytes (proto/wire's varints): how many strings, frames, nodes and
 * series, then of each kind one column behind the other, so that what is alike is together when it is packed:
 *
 *     strings: lengths, then all texts    frames: name, file, lib, kind, line, inlined
 *     nodes: own number less the parent's, frame    series: type, unit, labels
 *
 * Numbers go on where those of the parts before ended.
 */
#ifndef GATEWAY_LOOK_DICT_PART_H
#define GATEWAY_LOOK_DICT_PART_H

#include "gateway/look/epoch.h"
#include "proto/base/buffer.h"

/* How many there are of each. */
struct look_extent {
    uint32_t strings, frames, nodes, series;
};

/* Conditions. */
enum {
    LOOK_PART_DAMAGED = 1, /* the bytes are none of a part's */
};

static inline struct look_extent look_extent_of(const struct look_epoch *e)
{
    return (struct look_extent){e->dict.strings.n, e->dict.frames.n, e->dict.nodes.n, e->series.n};
}

/* Appends what is in [from, to). 0 or -ENOMEM. */
int look_part_write(const struct look_epoch *e, struct look_extent from, struct look_extent to,
                    struct buffer *out);

/* Adds a part to an epoch that is only read: none of it can be found by what it is. 0, LOOK_PART_DAMAGED or
 * -ENOMEM. */
int look_part_read(struct look_epoch *e, struct bytes part);

#endif
