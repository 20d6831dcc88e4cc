/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The section receivers.pprof_scrape as gateway/scrape wants it.
 */
#ifndef GATEWAY_RUN_SCRAPING_H
#define GATEWAY_RUN_SCRAPING_H

#include "gateway/config/config.h"
#include "gateway/scrape/scraper.h"

struct scraping {
    const struct config *of; /* what it was made of */
    struct config *kept;     /* the same, where it is ours now */
    struct scrape_job *jobs;
    struct scraper *scraper; /* NULL: nobody is asked */
};

/* c and links must outlive it, or c is given to it as `kept`. With no targets it is empty. 0, or negative
 * with *e; release is fine either way. */
int scraping_init(struct scraping *s, const struct config *c, const struct from_pprof_links *links,
                  const struct scraper_means *means, struct error *e);
void scraping_release(struct scraping *s);

/* `next` takes the place of *s: what both ask for goes on from where it is. Cannot fail; `next` is empty
 * then. */
void scraping_replace(struct scraping *s, struct scraping *next);

#endif
