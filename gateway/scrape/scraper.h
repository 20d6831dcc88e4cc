/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fetches profiles from who serves them (net/http/pprof and what speaks like it), each target's each profile
 * at its own moments, and pushes them to ingest as if they had been sent here. Of the control loop's thread;
 * what takes long is done on lanes.
 */
#ifndef GATEWAY_SCRAPE_SCRAPER_H
#define GATEWAY_SCRAPE_SCRAPER_H

#include "gateway/scrape/options.h"
#include "proto/base/budget.h"
#include "proto/base/buffer.h"
#include "proto/base/error.h"

struct access;
struct from_pprof_links;
struct io_loop;
struct lanes;
struct scraper;
struct stats;

/* What it works with. */
struct scraper_means {
    struct io_loop *loop;
    struct lanes *lanes;
    struct budget *budget;
    struct access *access; /* NULL: nobody is limited */
    struct stats *stats;   /* of the loop's thread: what access counts */
};

struct scraper_options {
    const struct scrape_job *jobs; /* these stay, with all they point to */
    uint32_t n_jobs;
    struct scraper_means with;
    const struct from_pprof_links *links; /* how labels name spans; NULL: as usual */
    uint64_t request_bytes;               /* of a profile, unpacked, and of the request it becomes */
};

/* Begins: the first time anywhere within the interval, so that targets are not all asked at once. 0, or a
 * negative errno with *e naming the target or the file. */
int scraper_new(struct scraper **ret, const struct scraper_options *options, struct error *e);

/* Asks nobody any more, and waits for what a lane is doing. Before the lanes stop; again is fine. */
void scraper_stop(struct scraper *s);

/* What a scraper, which is stopped, was asked to fetch and another one is, too (job, target and profile),
 * goes on there: with the dump that the next one is compared with, its counts and the time of its next
 * scrape, where that is not further off than the interval. */
void scraper_inherit(struct scraper *s, struct scraper *from);

/* After the loop has run for the last time, or before. NULL is fine; returns NULL. */
struct scraper *scraper_free(struct scraper *s);

/* How the scrapes went, as Prometheus text 0.0.4. 0 or -ENOMEM. */
int scraper_show(const struct scraper *s, struct buffer *out);

#endif
