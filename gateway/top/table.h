/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The picture `profgate top` draws: two pages, some seconds apart, as a table of rates for a person.
 *
 * A section for each metric, in the page's order, which is the rules'. A metric that has a label `function`
 * is told by process, with the functions below each; any other by its labels, with the processes behind. What
 * is busiest comes first, and what does not fit the height is what is least.
 */
#ifndef GATEWAY_TOP_TABLE_H
#define GATEWAY_TOP_TABLE_H

#include "gateway/top/line.h"
#include "gateway/top/page.h"

struct top_view {
    const char *url;
    const char *note; /* a line under the first one; NULL: none */
    const char *hint; /* the same, of ours: of a page that does not tell functions */
    struct line_style style;
    uint32_t height; /* lines; 0: no limit (plain output) */
    bool by_amount;  /* sections by what they amount to, not as the page has them */
};

/* Appends the table: lines ended by '\n', at most height of them, none wider than the style's width. `before`
 * is the page `seconds` (> 0) earlier. 0 or -ENOMEM. */
int top_table(const struct top_view *view, const struct top_page *before, const struct top_page *now,
              double seconds, struct buffer *out);

#endif
