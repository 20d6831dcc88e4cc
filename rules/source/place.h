/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Places of a rule file, and the source that stands there.
 */
#ifndef RULES_SOURCE_PLACE_H
#define RULES_SOURCE_PLACE_H

#include "proto/base/buffer.h"
#include "proto/base/bytes.h"
#include "rules/tree/tree.h"

/* A line, from 1, without its end; empty behind the last one. */
struct bytes source_line(struct bytes text, uint32_t line);

/* From the start of a to the end of b, cut to a's line. */
struct rule_place place_join(const struct rule_file *file, struct rule_place a, struct rule_place b);

/* What stands at a place. */
struct bytes place_source(const struct rule_file *file, struct rule_place place);

/* The source between two byte offsets with white space and comments folded to single blanks, cut to `max`
 * bytes, in `out`. */
void source_fold(struct bytes source, struct buffer *out, size_t max);

#endif
