/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Older wire layouts of OTLP profiles, translated to the layout of 1.10.
 *
 * The releases 1.5, 1.7, 1.8 and 1.9 share a package name with 1.10 and nothing else that matters: Sample,
 * Profile and the tables were renumbered each time. A request of one of them is rewritten once as 1.10 bytes,
 * and everything behind (the view, subset, forwarding) knows that layout only. Old senders are rare and
 * become rarer: this favours being plain over being fast, at linear time and bounded memory.
 *
 * Field numbers: opentelemetry/proto/profiles/v1development/profiles.proto at the tags v1.5.0 … v1.10.0 of
 * opentelemetry-proto. What changes with the translation, beyond numbers, is said in README.md.
 */
#ifndef PROTO_OTLP_LAYOUTS_LEGACY_H
#define PROTO_OTLP_LAYOUTS_LEGACY_H

#include "proto/base/budget.h"
#include "proto/base/buffer.h"
#include "proto/base/bytes.h"
#include "proto/base/error.h"
#include "proto/otlp/layouts/layout.h"

/* Replaces what `out` holds by `body`, which has the layout `from` (1.5 … 1.9), in the layout of 1.10, with
 * PROFILES_PADDING zero bytes behind it.
 *
 * `out` begins as BUFFER_INIT(0); its `max` is from then on what is charged for it to `budget`, so it is to
 * be given back with legacy_release, with the same budget, and may be used again before. Working memory is
 * charged too and freed before the return; it and what `out` grows by are limited by limits->column_bytes.
 *
 * Indices that lead nowhere stay such that they lead nowhere: the view's own check rejects the samples that
 * reach them. 0; PROFILES_MALFORMED (not of this layout; *e says where), PROFILES_OVER_BUDGET, -ENOMEM: then
 * `out` is empty. Any bytes are safe. Any thread. */
int legacy_transcode(enum profiles_layout from, struct bytes body, const struct profiles_limits *limits,
                     struct budget *budget, struct buffer *out, struct error *e);

/* Frees the memory of `out` and refunds it. */
void legacy_release(struct buffer *out, struct budget *budget);

#endif
