/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Room in an output for resources that are new, where there are as many as it may have, and the end of series
 * that nobody looks at. Private to this folder.
 */
#ifndef GATEWAY_AGGREGATE_ROOM_H
#define GATEWAY_AGGREGATE_ROOM_H

#include "gateway/aggregate/cells.h"

/* If resources were refused since the last call: makes room for some, at most a quarter of what there may be.
 * Those go that nothing was added to lately; what they have not told is in the overflow resource then. Call
 * between hand-overs. */
void output_make_room(struct output *o);

/* Of an output that is asked (options.is_pulled): ends what has been idle for metric_expiration, whether
 * anybody asked or not. */
void output_expire(struct output *o);

#endif
