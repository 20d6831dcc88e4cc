/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The format of metrics that a request's head asks for.
 */
#ifndef GATEWAY_ADMIN_FORMAT_H
#define GATEWAY_ADMIN_FORMAT_H

#include "gateway/admin/metrics.h"
#include "proto/base/bytes.h"

/* enum prometheus_escaping, as Accept and Content-Type have it. */
extern const char *const format_escapings[4];

/* The metrics format that an Accept value likes best: by weight, of equal ones the first (RFC 9110 §12.5.1).
 * Wildcards, and a list in which there is nothing of ours, mean text 0.0.4: an answer is better than a 406.
 * Sets format and escaping of *ret. */
void query_metrics_format(struct bytes accept, struct admin_metrics *ret);

#endif
