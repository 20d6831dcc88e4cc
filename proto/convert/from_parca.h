/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What parca-agent pushes as an OTLP request: samples in Arrow of its schema v2, a row each, with their
 * stacks (reporter/arrow_v2.go of parca-dev/parca-agent at cb46a8e; README.md has the table). Rows of one
 * stack and one set of attributes are one sample with a value and a timestamp for each.
 */
#ifndef PROTO_CONVERT_FROM_PARCA_H
#define PROTO_CONVERT_FROM_PARCA_H

#include "proto/base/buffer.h"
#include "proto/base/error.h"
#include "proto/convert/from_pprof.h"

struct from_parca; /* works through one stream after the other */

/* Memory is charged to `budget` (may be NULL). NULL: there is none. */
struct from_parca *from_parca_new(struct budget *budget);
struct from_parca *from_parca_free(struct from_parca *c); /* returns NULL */

/* Appends an ExportProfilesServiceRequest (1.10) to `out`, whose room is as from_pprof leaves it. `ipc` is a
 * stream of Arrow, whose compressed buffers become no more than out->max bytes either; links: as
 * from_pprof_origin has them. 0; FROM_PARCA_MALFORMED with *e; FROM_PARCA_TOO_LARGE; -ENOMEM (memory, the
 * budget). On failure nothing is appended. */
enum { FROM_PARCA_MALFORMED = 1, FROM_PARCA_TOO_LARGE };
int from_parca(struct from_parca *c, struct bytes ipc, const struct from_pprof_links *links,
               struct buffer *out, struct error *e);

#endif
