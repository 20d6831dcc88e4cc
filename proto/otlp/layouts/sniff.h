/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which layout a request has: all that it holds is asked, and what is known of its producer.
 */
#ifndef PROTO_OTLP_LAYOUTS_SNIFF_H
#define PROTO_OTLP_LAYOUTS_SNIFF_H

#include "proto/base/bytes.h"
#include "proto/otlp/layouts/layout.h"

struct layout_verdict {
    enum profiles_layout layout; /* 1.10 when nothing speaks against it */
    bool told;                   /* by the request itself: something in it is of no other kind of Sample */
    bool contradicts;            /* by itself the request is surely of another than its producer's */
};

/* Which layout a request has, with the weight of what is known of its producer. The body has PROFILES_PADDING
 * readable bytes behind it. Linear, iterative, without memory of its own; a good deal slower than a decode;
 * safe on any bytes. Any thread. */
struct layout_verdict layout_sniff(struct bytes body, const struct profiles_producer *producer);

#endif
