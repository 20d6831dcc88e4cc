/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How many fields of a request its layout does not know: what a translation to 1.10 leaves out, or may take
 * for something else.
 */
#ifndef PROTO_OTLP_LAYOUTS_UNKNOWN_H
#define PROTO_OTLP_LAYOUTS_UNKNOWN_H

#include <stdint.h>

#include "proto/base/bytes.h"
#include "proto/otlp/layouts/layout.h"

/* The fields with numbers that were not given yet in that layout, each time, as the view counts them of 1.10
 * (view/profiles.h); a message that is malformed is counted up to where it breaks. Linear, any bytes are
 * safe. Any thread. */
uint32_t layout_unknown_fields(enum profiles_layout layout, struct bytes body);

#endif
