/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pages by which others see whether the gateway lives and is ready: /healthz and /readyz.
 */
#ifndef GATEWAY_ADMIN_READY_H
#define GATEWAY_ADMIN_READY_H

#include "gateway/admin/page.h"
#include "proto/base/error.h"

/* One condition of being ready. */
struct admin_check {
    const char *name; /* "exporter otlp/pyroscope" */
    /* Whether it is met; if not, *why may say why not. Control loop. */
    bool (*is_ready)(void *context, struct error *why);
    void *context;
};

struct admin_ready {
    const struct admin_check *checks; /* ready when all are met */
    uint32_t n;
};

/* 200 while the process runs. */
struct admin_page admin_health_page(void);

/* 200, or 503 and why. r must outlive the server. */
struct admin_page admin_ready_page(struct admin_ready *r);

#endif
