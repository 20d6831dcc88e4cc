/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The picture `profgate top` draws: two pages, some seconds apart, as a table of rates for a person.
 *
 * Text from the pages may be anybody's (process names, thread names): control characters never reach the
 * terminal.
 */
#ifndef GATEWAY_TOP_TABLE_H
#define GATEWAY_TOP_TABLE_H

#include <stdbool.h>
#include <stdint.h>

#include "gateway/top/parse.h"
#include "proto/base/buffer.h"

struct top_view {
    const char *url;
    uint32_t width, height; /* of the terminal; height 0: no limit (plain output) */
    bool color;
};

/* Appends the table: lines ended by '\n', at most height of them, none wider than width. `before` is the page
 * `seconds`
 * (> 0) earlier; now_unix the wall clock in seconds. 0 or -ENOMEM. */
int top_table(const struct top_view *view, const struct top_page *before, const struct top_page *now,
              double seconds, double now_unix, struct buffer *out);

#endif
