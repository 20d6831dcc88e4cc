/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which layout a request has, by its wire types.
 */
#ifndef PROTO_OTLP_LAYOUTS_SNIFF_H
#define PROTO_OTLP_LAYOUTS_SNIFF_H

#include "proto/base/bytes.h"
#include "proto/otlp/layouts/layout.h"

/* Which layout the wire types of a request's fields speak for. PROFILES_LAYOUT_UNKNOWN when nothing does.
 * Slower than a decode; safe on any bytes, which need no padding. Any thread. */
enum profiles_layout layout_sniff(struct bytes body);

#endif
