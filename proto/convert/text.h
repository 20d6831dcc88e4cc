/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a text does not say of the profile that it is, and what can be wrong with it: from_text.h.
 */
#ifndef PROTO_CONVERT_TEXT_H
#define PROTO_CONVERT_TEXT_H

#include "proto/base/error.h"
#include "proto/convert/from_pprof.h"

struct from_text_options {
    struct from_pprof_origin origin; /* keep_trace_labels is not looked at: texts have none */
    struct bytes type, unit;         /* of what folded stacks count; empty: samples, count */
    struct bytes period_type, period_unit;
    int64_t period;
    uint64_t time_unix_nano, duration_nano; /* duration 0: as the text says, where it does */
};

/* Conditions. */
enum { FROM_TEXT_MALFORMED = 1, FROM_TEXT_TOO_LARGE };

#endif
