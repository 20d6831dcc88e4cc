/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The administrative HTTP server, on the control loop: the pages that their owners register (page.h), and a
 * list of them at /. Who may ask, and TLS, are as at a receiver.
 */
#ifndef GATEWAY_ADMIN_ADMIN_H
#define GATEWAY_ADMIN_ADMIN_H

#include <stdint.h>
#include <sys/queue.h>

#include "gateway/admin/page.h"
#include "gateway/admin/pages.h"
#include "proto/base/error.h"

struct admin;
struct certificates;
struct io_loop;

struct admin_options {
    const char *endpoint;           /* "localhost:9464"; port 0 picks a free one */
    const struct admin_page *pages; /* in the order of the list at /; copied, but for what they point at */
    uint32_t n_pages;
    const char *const *hosts; /* names that it may be called by beside its endpoint's (pages.h) */
    uint32_t n_hosts;
    struct certificates *certificates; /* of address 0 of these; NULL: plain */
    struct pages_guard guard;          /* who may ask */
    uint64_t stall_ns;                 /* a peer that reads nothing for so long is gone; 0: ten seconds */
};

/* Of an answer that says something once: whether it arrived. */
struct admin_receipt {
    void (*fn)(struct admin_receipt *receipt, bool was_read); /* frees it */
    SLIST_ENTRY(admin_receipt) next;                          /* the server's */
};

/* For an exchange whose answer is all written: fn is called when its reader asked for something else or ended
 * the connection in order (true), or the connection broke (false). Once, from the loop, at the latest by
 * admin_free. */
void admin_when_read(const struct http_exchange *x, struct admin_receipt *receipt);

/* Closes the connection of an exchange at once, whatever its peer has not read; the exchange closes. Not from
 * within what the session tells. */
void admin_cut(const struct http_exchange *x);

/* Listens. NULL with *e set when the address is bad or taken, or memory is out. Control loop. */
struct admin *admin_new(const struct admin_options *options, struct io_loop *loop, struct error *e);

/* Closes every connection and the listener; the rest of the closing is the loop's, so run it once more. */
struct admin *admin_free(struct admin *a);

/* The port it listens on. */
uint16_t admin_port(const struct admin *a);

#endif
