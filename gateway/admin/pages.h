/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the admin server answers, as an http_handler: it never sees a socket, so tests ask it directly.
 */
#ifndef GATEWAY_ADMIN_PAGES_H
#define GATEWAY_ADMIN_PAGES_H

#include "gateway/admin/page.h"
#include "proto/http/exchange.h"

struct pages;

/* These pages, and a list of them at /, in their order. The rows are copied; their texts and contexts must
 * outlive it. NULL when memory is out. */
struct pages *pages_new(const struct admin_page *rows, uint32_t n);
struct pages *pages_free(struct pages *p);

/* Its context is a struct pages. Every request is answered at its head; bodies are of no interest. */
const struct http_handler *pages_handler(void);

#endif
