/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What every writer of Prometheus' text needs: escaping, the same in text 0.0.4 ("Comments, help text, and
 * type information", "Escaping") and in OpenMetrics 1.0 (ABNF, escaped-string).
 */
#ifndef GATEWAY_STATS_EXPOSITION_H
#define GATEWAY_STATS_EXPOSITION_H

#include <stdbool.h>

#include "proto/base/buffer.h"
#include "proto/base/bytes.h"

/* Appends text with backslash and newline escaped; with `quotes`, for what stands in them (a label's value, a
 * name that needs them), the double quote, too. 0 or a negative errno of buffer_add. Any thread. */
int exposition_escape(struct buffer *out, struct bytes text, bool quotes);

#endif
