/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The page /metrics, for whoever has metrics: what a scraper asks for in its query and its Accept.
 */
#ifndef GATEWAY_ADMIN_SCRAPE_H
#define GATEWAY_ADMIN_SCRAPE_H

#include "gateway/admin/metrics.h"
#include "gateway/admin/page.h"

struct admin_scrape {
    /* Appends the metrics as they were asked for, to the end of the text ("# EOF"). 0 or a negative errno
     * (then the answer is 500). */
    int (*write)(void *context, const struct admin_metrics *wanted, struct buffer *out);
    void *context;
};

/* s must outlive the server. */
struct admin_page admin_scrape_page(struct admin_scrape *s);

#endif
