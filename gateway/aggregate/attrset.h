/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A set of attributes as one run of bytes in canonical order: equal sets have equal bytes, so a set is looked
 * up, compared and copied like a string. Keys ascend; of attributes with one key the first counts
 * (common.proto: keys must be unique, behaviour otherwise is ours to choose). Keys and string values are
 * well-formed UTF-8: a batch with one bad byte in it would be refused whole by receivers that check.
 */
#ifndef GATEWAY_AGGREGATE_ATTRSET_H
#define GATEWAY_AGGREGATE_ATTRSET_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/base/arena.h"
#include "proto/base/buffer.h"
#include "proto/otlp/attr.h"

/* Twice what OpenTelemetry SDKs allow by default (128); sorted on the stack. */
#define ATTRSET_MAX 256u

/* The set {otel.metric.overflow=true} (metrics SDK specification, "Overflow attribute"). */
extern const struct attr attrset_overflow;

/* Appends the set. 0, -E2BIG for more than ATTRSET_MAX attributes, -ENOMEM, or -ENOBUFS from the buffer's
 * maximum; on failure the buffer is as before. */
int attrset_encode(struct buffer *out, const struct attr *attrs, uint32_t n);

/* The same with values of at most `max` bytes (at least 4): text and bytes are cut there, text between
 * characters; lists and maps, of which a part means something else, become empty. *cut counts them. */
int attrset_encode_cut(struct buffer *out, const struct attr *attrs, uint32_t n, size_t max, uint64_t *cut);

/* Moves on to the next attribute, as slices into the set (0-terminated nowhere); false at the end. Only for
 * bytes that attrset_encode wrote. */
bool attrset_next(struct bytes *rest, struct attr *ret);

/* Copies the set into an arena as an array of attributes. -ENOMEM. */
int attrset_decode(struct bytes set, struct arena *arena, const struct attr **ret, uint32_t *ret_n);

#endif
