/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A worker's checking of the requests that come: as many as its share of time pays for, in order, without a
 * word to who sent them. One for each thread that counts; its thread.
 */
#ifndef GATEWAY_CHECK_LIVE_H
#define GATEWAY_CHECK_LIVE_H

#include "gateway/check/board.h"
#include "proto/base/budget.h"
#include "proto/otlp/view/profiles.h"

struct live;
struct stats;

/* A request that is larger would hold the thread for a tenth of a second, and is passed over. */
#define LIVE_BYTES_MAX ((size_t)4 << 20)

/* What may be saved up while nothing comes. */
#define LIVE_CREDIT_MAX_NS 100000000

/* `share`, above 0, is that of the thread's time. NULL: memory is out. */
struct live *live_new(struct board *board, double share, struct stats *stats, struct budget *budget);
struct live *live_free(struct live *l);

/* A request's own bytes, with PROFILES_PADDING behind them, and its view; NULL: it could not be decoded, and
 * `layout` is what is known of it. */
void live_look(struct live *l, struct bytes body, enum profiles_layout layout, const struct profiles *view);

#endif
