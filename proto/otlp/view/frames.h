/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How many frames a request's stacks mean, bounded: a location may have any number of lines (inlined
 * functions) and a stack may name it any number of times, so that their product is what no byte pays for.
 * 1 MB can say 7e10 frames. Private to proto/otlp/view.
 */
#ifndef PROTO_OTLP_VIEW_FRAMES_H
#define PROTO_OTLP_VIEW_FRAMES_H

#include "proto/otlp/view/decode.h"

/* All stacks together. In captured requests a byte of the body means 0.3 frames; sixteen leave room for deep
 * inlining over stacks that share everything, and the rest for small requests. */
#define FRAMES_PER_BYTE 16u
#define FRAMES_FREE     (1u << 20)

/* Whether some stack has more than PROFILES_STACK_FRAMES_MAX frames, by itself. Every index must be good. */
bool frames_any_deep(const struct profiles *v);

/* Whether stack i has; its own indices must be good. */
bool frames_is_deep(const struct profiles *v, uint32_t i);

/* Whether the stacks that are not deep have too many frames together: 0, or PROFILES_TOO_LARGE with words.
 * Every index must be good. Notes whether a location has several lines. */
int frames_bound(struct profiles *v, struct error *e);

#endif
