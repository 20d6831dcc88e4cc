/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whose a profile is, as its sender says beside it: names and values that become the resource's attributes.
 */
#ifndef GATEWAY_SERVE_PPROF_ORIGIN_H
#define GATEWAY_SERVE_PPROF_ORIGIN_H

#include "gateway/serve/refusal.h"
#include "proto/base/budget.h"
#include "proto/base/buffer.h"
#include "proto/convert/from_pprof.h"

/* Pyroscope's limit is 30 labels (pkg/validation/limits.go, max-label-names-per-series). */
#define ORIGIN_ATTRS_MAX 64u

struct origin {
    struct from_pprof_origin from; /* what from_pprof is given; points into this one, which may not move */
    struct attr attrs[ORIGIN_ATTRS_MAX];
    struct budget *budget;
    struct buffer text; /* values that do not stand anywhere else, on the budget */
};

/* Of nobody in particular; links: as from_pprof_origin has them. */
void origin_init(struct origin *o, const struct from_pprof_links *links, struct budget *budget);
void origin_release(struct origin *o);

/* One more; both texts must stay. REFUSAL_NONE, or REFUSAL_MALFORMED with *why: no name, twice the same, no
 * UTF-8, too many. */
enum refusal origin_add(struct origin *o, struct bytes name, struct bytes value, struct error *why);

/* Room for n more bytes of texts, so that what is decoded into them stays where it is. Once. REFUSAL_NONE or
 * REFUSAL_BUSY. */
enum refusal origin_reserve(struct origin *o, size_t n);

/* A parameter of a query string, or a part of one, as plain text behind the others: within what was reserved,
 * of which it needs encoded.n bytes. REFUSAL_NONE, or REFUSAL_MALFORMED with *why. */
enum refusal origin_decode(struct origin *o, struct bytes encoded, struct bytes *ret, struct error *why);

/* Each parameter of a query string is one; `skip` (may be NULL) is none of them. REFUSAL_NONE,
 * REFUSAL_MALFORMED with *why, REFUSAL_BUSY. */
enum refusal origin_add_query(struct origin *o, struct bytes query, const char *skip, struct error *why);

#endif
