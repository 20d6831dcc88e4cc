/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files of pprof, gzip or plain, as one request: for each intake that has some in its bodies.
 */
#ifndef GATEWAY_SERVE_PPROF_TAKING_H
#define GATEWAY_SERVE_PPROF_TAKING_H

#include "gateway/serve/refusal.h"
#include "proto/base/budget.h"
#include "proto/base/buffer.h"
#include "proto/convert/from_pprof.h"

struct coding_decoder;

struct pprof_taking {
    struct from_pprof *converter;
    struct coding_decoder *decoder;
    struct budget *budget;
    struct buffer plain,
        newer;        /* the file out of its gzip; as pprof, where it is of before that was protobuf */
    size_t max, left; /* of the request; of what all files are when they are plain */
};

/* REFUSAL_NONE or REFUSAL_BUSY; then release is fine, too. */
enum refusal pprof_taking_init(struct pprof_taking *t, size_t max, struct budget *budget);
void pprof_taking_release(struct pprof_taking *t);

/* The file out of its gzip, and what pprof was before it was protobuf (proto/pprof/legacy.h) as pprof; it
 * stays until the next one or release. Any other one is what it was. REFUSAL_NONE; REFUSAL_MALFORMED with
 * *why; REFUSAL_TOO_LARGE; REFUSAL_BUSY. */
enum refusal pprof_unpack(struct pprof_taking *t, struct bytes *file, struct error *why);

/* One more profile, of `origin`. Likewise. */
enum refusal pprof_take(struct pprof_taking *t, struct bytes file, const struct from_pprof_origin *origin,
                        struct error *why);

/* All that were taken as one request, as intake.decode does. */
enum refusal pprof_taking_end(struct pprof_taking *t, struct buffer *out);

/* How many bytes the file is out of its gzip, by what it says at its end. */
size_t pprof_plain_size(struct bytes file);

#endif
