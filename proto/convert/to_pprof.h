/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The view of an OTLP request as one pprof, which has what the request has, as far as pprof has a place for
 * it (README.md). What from_pprof made becomes what it was made of.
 *
 * Profiles of one scope that have the same stacks, attributes and links sample by sample are the types of one
 * set of samples; else a sample has a value of its own type and 0 of the others. Attributes of a resource are
 * labels of its samples. Of several values or moments of a sample the sum, or the number, is what is kept; of
 * several profiles the whole time, and the first one's period, comments and the like. Types that differ by
 * their units alone have these in their names: lock/nanoseconds and lock_count/count. Samples that the view
 * rejected are left out, and so is what pprof has no place for at all: scopes, schema URLs, profile ids, the
 * original payload, frame types, units of texts, other attributes of profiles, mappings and locations.
 */
#ifndef PROTO_CONVERT_TO_PPROF_H
#define PROTO_CONVERT_TO_PPROF_H

#include "proto/base/buffer.h"
#include "proto/otlp/view/profiles.h"
#include "proto/otlp/write/build.h"

/* Conditions. */
enum {
    TO_PPROF_TYPES = 1, /* more kinds of profiles than pprof_read takes: PPROF_TYPES_MAX */
};

/* What pprof has no place for, in how many cases. */
struct to_pprof_lost {
    uint64_t moments;    /* samples whose timestamps went */
    uint64_t attributes; /* of samples and resources: lists of lists, maps */
    uint64_t lines;      /* without a function */
};

/* Appends the pprof to `out`; *ret_lost is set. 0, TO_PPROF_TYPES, -ENOMEM (memory or the budget), -ENOBUFS:
 * longer than out->max. On failure nothing is appended. */
int to_pprof(const struct profiles *view, struct budget *budget, struct buffer *out,
             struct to_pprof_lost *ret_lost);

/* The same, handed to `put` piece by piece, which may be before something fails; or what `put` returned that
 * is negative. */
int to_pprof_pieces(const struct profiles *view, struct budget *budget, build_put *put, void *user,
                    struct to_pprof_lost *ret_lost);

#endif
