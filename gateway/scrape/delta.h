/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What happened between two dumps of one process: Go's heap, mutex and block profiles count since it began.
 * One for each profile of each target; used by one thread at a time.
 */
#ifndef GATEWAY_SCRAPE_DELTA_H
#define GATEWAY_SCRAPE_DELTA_H

#include <stdbool.h>

#include "proto/base/budget.h"
#include "proto/base/buffer.h"
#include "proto/base/error.h"
#include "proto/pprof/pprof.h"

struct delta;

/* Memory is charged to `budget` (may be NULL): 12 bytes and 8 for each type for what has a stack of its own,
 * kept from one dump to the next. NULL: there is none. */
struct delta *delta_new(struct budget *budget);
struct delta *delta_free(struct delta *d); /* returns NULL */

/* What a dump had in it beside its samples. */
struct delta_said {
    bool is_cumulative; /* some of its types count since the process began; else it is passed on as it is */
    bool is_first;      /* there is nothing yet to compare with: what counts since then is 0 in the result */
    bool restarted;     /* the process is a new one: all that it counted is new */
};

/* Writes `pprof` (plain) to `out`, empty, whose memory then is on the budget: the same but for the values,
 * which of cumulative types are what came since the dump before; samples in which that is 0, and so is all
 * else, are left out, and those of one stack and labels are one. 0; PPROF_MALFORMED with *e; -ENOMEM (memory,
 * the budget). Nothing is remembered of it before delta_keep. */
int delta_take(struct delta *d, struct bytes pprof, struct buffer *out, struct delta_said *ret,
               struct error *e);

/* What was taken last is what the next one is compared with: its result arrived. */
void delta_keep(struct delta *d);

#endif
