/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which layout a request has: all that it holds is asked, and what is known of its producer.
 */
#ifndef PROTO_OTLP_LAYOUTS_SNIFF_H
#define PROTO_OTLP_LAYOUTS_SNIFF_H

#include "proto/base/bytes.h"
#include "proto/otlp/layouts/layout.h"

/* The layout of a request, PROFILES_LAYOUT_1_10 when nothing speaks against it. What is known of its producer
 * adds its weight to what the request says of itself; *ret_contradicts: that says another layout. Linear,
 * iterative, without memory of its own; slower than a decode; safe on any bytes, which need no padding. Any
 * thread. */
enum profiles_layout layout_sniff(struct bytes body, const struct profiles_producer *producer,
                                  bool *ret_contradicts);

#endif
