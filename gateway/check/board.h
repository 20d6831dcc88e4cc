/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What was found in live requests: how often each rule was broken by each producer, and the last findings.
 * One for all workers; any thread, under a lock that is taken by request that was checked, never else.
 */
#ifndef GATEWAY_CHECK_BOARD_H
#define GATEWAY_CHECK_BOARD_H

#include "gateway/admin/page.h"
#include "proto/otlp/check/check.h"

struct board;

/* NULL: memory is out. */
struct board *board_new(void);
struct board *board_free(struct board *b);

/* Adds what one request of a producer (its number: gateway/stats/producers.h) brought; `service`: the name of
 * its service, "" when it has none. */
void board_add(struct board *b, uint32_t producer, struct bytes service, const struct check *found,
               uint64_t now_unix_nano);

/* Appends profgate_check_findings_total{rule,severity,producer} in Prometheus text, nothing when nothing was
 * found. 0 or a negative errno of buffer_add. */
int board_prometheus(struct board *b, struct buffer *out);

/* GET /api/v1/check. The board outlives the server. */
struct admin_page board_page(struct board *b);

#endif
