/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The view of an OTLP request as folded stacks, as flame graph tools read them (brendangregg/FlameGraph,
 * stackcollapse): a line a sample of the first profile's kind, "root;caller;leaf VALUE".
 */
#ifndef PROTO_CONVERT_TO_FOLDED_H
#define PROTO_CONVERT_TO_FOLDED_H

#include "proto/base/buffer.h"
#include "proto/otlp/view/profiles.h"

/* Appends the lines to `out`. Frames are functions' names, innermost inlined ones last; one without a name is
 * "FILE+0xADDRESS". ';' in a name becomes ':', control characters blanks, and blanks around it go. Samples
 * without a stack or a value are left out. 0, -ENOMEM or -ENOBUFS (out->max): then nothing is appended. */
int to_folded(const struct profiles *view, struct buffer *out);

#endif
