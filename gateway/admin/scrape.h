/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pages /metrics and /api/v1/metrics, for whoever has metrics. They can be large: one is written piece by
 * piece on a thread of libuv's pool, as fast as the scraper reads, so that neither memory nor the control
 * loop knows its size. A few are answered at once. Others wait a moment, for which whoever reads slowest is
 * cut short, and are then asked to come back.
 */
#ifndef GATEWAY_ADMIN_SCRAPE_H
#define GATEWAY_ADMIN_SCRAPE_H

#include "gateway/admin/admin.h"
#include "gateway/admin/metrics.h"

struct io_loop;
struct scrapes;

/* Whoever waits for counts that are new; the first two are its own. */
struct scrape_wait {
    void (*fn)(void *user);
    void *user;
    LIST_ENTRY(scrape_wait) others;
    uint64_t since; /* the source's */
};

/* Conditions of scrape_source.next. */
enum {
    SCRAPE_ENDS = 1, /* that was the last of the page */
};

/* Who has metrics; all on the control loop but for next. */
struct scrape_source {
    /* Has w->fn(w->user) called from the loop, soon, never from inside: when what was acknowledged before
     * this call is in the metrics, or when that takes too long. */
    void (*freshen)(void *context, struct scrape_wait *w);
    /* It will not be called. */
    void (*forget)(void *context, struct scrape_wait *w);
    /* What is to be said now, as a page of the source's own, which `wanted` outlives. 0 or a negative errno.
     */
    int (*open)(void *context, const struct admin_metrics *wanted, void **ret_page);
    /* Appends the next piece of a page. 0, the condition above, or a negative errno. Any thread. */
    int (*next)(void *page, struct buffer *out);
    void (*close)(void *page);
    /* Of a page that is all written: what is told whether it was read. May be NULL, and may give NULL. */
    struct admin_receipt *(*receipt)(void *page);
    void *context;
    struct budget *budget; /* what an answer under way takes beside its page */
};

/* The source is copied. NULL: no memory. */
struct scrapes *scrapes_new(struct io_loop *loop, const struct scrape_source *source);

/* After the server: nobody is being answered any more. What the pool still has ends with the loop. */
struct scrapes *scrapes_free(struct scrapes *s);

/* Whether nothing of the source is used any more: no page is open. */
bool scrapes_are_over(const struct scrapes *s);

/* Both of one set of limits; s must outlive the server. */
struct admin_page scrapes_page(struct scrapes *s);
struct admin_page scrapes_json_page(struct scrapes *s);

#endif
