/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The section receivers.pprof_scrape as gateway/scrape wants it.
 */
#ifndef GATEWAY_RUN_SCRAPING_H
#define GATEWAY_RUN_SCRAPING_H

#include "gateway/config/config.h"
#include "gateway/scrape/scraper.h"

struct scraping {
    struct scrape_job *jobs;
    struct scraper *scraper; /* NULL: nobody is asked */
};

/* c and links must outlive it. With no targets it is empty. 0, or negative with *e; release is fine either
 * way. */
int scraping_init(struct scraping *s, const struct config *c, const struct from_pprof_links *links,
                  struct io_loop *loop, struct lanes *lanes, struct budget *budget, struct error *e);
void scraping_release(struct scraping *s);

#endif
