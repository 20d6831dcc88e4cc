/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the admin server answers, as an http_handler: it never sees a socket, so tests ask it directly.
 */
#ifndef GATEWAY_ADMIN_PAGES_H
#define GATEWAY_ADMIN_PAGES_H

#include "gateway/admin/page.h"
#include "proto/http/exchange.h"

struct access_policy;
struct access_worker;
struct pages;

/* Names that the server may be called by beside addresses and those without a dot: its own, and what is
 * configured;
 * "*" is every name. */
struct pages_names {
    const char *own; /* of an endpoint: host:port */
    const char *const *more;
    uint32_t n_more;
};

/* Who may ask (gateway/access). No policy: everybody. */
struct pages_guard {
    struct access_worker *access;
    const struct access_policy *policy;
};

/* These pages, and a list of them at /, in their order. The rows are copied; their texts and contexts, and
 * the names, must outlive it. NULL when memory is out. */
struct pages *pages_new(const struct admin_page *rows, uint32_t n, const struct pages_names *names,
                        const struct pages_guard *guard);
struct pages *pages_free(struct pages *p);

/* Its context is a struct pages. Every request is answered at its head, or given to its page there; bodies
 * are of no interest otherwise. */
const struct http_handler *pages_handler(void);

#endif
