/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A pprof as an OTLP request with nothing lost (README.md has the table): a resource, a scope, a profile for
 * each sample type. Entries keep their order, also those that no sample needs and those that are there twice;
 * samples too. Ids, and strings that nothing refers to, go.
 */
#ifndef PROTO_CONVERT_FROM_PPROF_H
#define PROTO_CONVERT_FROM_PPROF_H

#include "proto/base/buffer.h"
#include "proto/otlp/attr.h"
#include "proto/otlp/write/build.h"
#include "proto/pprof/pprof.h"

struct from_pprof; /* works through one pprof after the other */

/* Memory is charged to `budget` (may be NULL). NULL: there is none. */
struct from_pprof *from_pprof_new(struct budget *budget);
struct from_pprof *from_pprof_free(struct from_pprof *c); /* returns NULL */

/* By which labels a sample names its span: of each list the first that is an id (in lower-case hex). Both
 * together become the sample's link. */
struct from_pprof_links {
    const char *const *trace, *const *span;
    uint32_t n_trace, n_span;
};

/* trace_id and span_id. */
extern const struct from_pprof_links from_pprof_usual_links;

struct from_pprof_origin {
    const struct attr *resource; /* whose profile it is: service.name … */
    uint32_t n_resource;
    struct bytes scope, version;          /* who says so */
    bool keep_trace_labels;               /* labels that name a span stay labels */
    const struct from_pprof_links *links; /* NULL: trace_id and span_id */
    int64_t time_nanos, duration_nanos;   /* of a profile that says none itself; 0: nobody knows */
};

/* Of nobody in particular, said by profgate. */
extern const struct from_pprof_origin from_pprof_anybody;

/* Appends an ExportProfilesServiceRequest (1.10) to `out`, with PROFILES_PADDING readable bytes behind it;
 * out->cap bytes are on the budget before and after (proto/base/room.h). `pprof` is plain, not gzip. 0;
 * PPROF_MALFORMED with *e; FROM_PPROF_TOO_LARGE: longer than out->max (0: no bound), or so many types of so
 * many samples that it surely is; -ENOMEM (memory, the budget). On failure nothing is appended. */
enum { FROM_PPROF_TOO_LARGE = PPROF_CONDITIONS };
int from_pprof(struct from_pprof *c, struct bytes pprof, const struct from_pprof_origin *origin,
               struct buffer *out, struct error *e);

/* The same, but in pieces: `put` is given one after the other, the first when nothing can be wrong any more
 * with the pprof. `pages` (may be NULL) is what the pprof is a mapping of: then it is never in memory whole,
 * either. 0; PPROF_MALFORMED; FROM_PPROF_TOO_LARGE: longer than `max`; -ENOMEM; what `put` returns, which
 * ends it. */
int from_pprof_pieces(struct from_pprof *c, struct bytes pprof, struct mapping *pages,
                      const struct from_pprof_origin *origin, size_t max, build_put *put, void *user,
                      struct error *e);

/* The same of several profiles in one request, each with a resource of its own: begin, add, …, end. Of `add`
 * max is what out->max will be; after a failure only `begin` may follow. */
void from_pprof_begin(struct from_pprof *c);
int from_pprof_add(struct from_pprof *c, struct bytes pprof, const struct from_pprof_origin *origin,
                   size_t max, struct error *e);
int from_pprof_end(struct from_pprof *c, struct buffer *out);

#endif
