/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Regular expressions of Go (RE2's syntax, `go doc regexp/syntax`) as the rule language's: for conversion of
 * what users of the Collector wrote. What is translated finds the same texts; groups are not kept apart, for
 * only "does it match" is asked.
 */
#ifndef GATEWAY_CONNECTOR_GO_REGEX_H
#define GATEWAY_CONNECTOR_GO_REGEX_H

#include <stdbool.h>

#include "proto/base/buffer.h"
#include "proto/base/bytes.h"
#include "proto/base/error.h"

/* What regex_from_go found besides. */
enum { GO_REGEX_REFUSED = 1 };

/* Appends what stands between the slashes to *out; *ret_nocase: the language's `i` belongs behind them.
 * `pattern` is UTF-8 and its `.` is a character there, a byte here: where that makes a difference the
 * character is written out. 0; GO_REGEX_REFUSED with *e set and *ret_at the byte of `pattern` that is no
 * regex of Go, or that cannot be said; -ENOMEM. */
int regex_from_go(struct bytes pattern, struct buffer *out, bool *ret_nocase, size_t *ret_at,
                  struct error *e);

#endif
