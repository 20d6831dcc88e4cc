/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The view of an OTLP request as speedscope's own JSON (https://www.speedscope.app/file-format-schema.json,
 * jlfwong/speedscope 1.25.0): a profile for each kind of them, the view's first one being shown.
 */
#ifndef PROTO_CONVERT_TO_SPEEDSCOPE_H
#define PROTO_CONVERT_TO_SPEEDSCOPE_H

#include "proto/base/budget.h"
#include "proto/base/buffer.h"
#include "proto/otlp/view/profiles.h"

/* Appends one document to `out`. A frame is a function with its file and its first line, or an address;
 * innermost inlined ones last. Samples without a stack or with a value below 1 are left out, which speedscope
 * would refuse. 0, -ENOMEM (memory or the budget) or -ENOBUFS (out->max): then nothing is appended. */
int to_speedscope(const struct profiles *view, struct budget *budget, struct buffer *out);

#endif
