/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/check/live.h"

#include <stdlib.h>

#include "gateway/stats/block.h"
#include "gateway/stats/producers.h"
#include "proto/base/clock.h"
#include "proto/base/macros.h"

struct live {
    struct board *board;
    struct check *check;
    struct stats *stats;
    double share;
    int64_t credit_ns; /* CPU time that may be spent; below 0: what is owed */
    uint64_t earned_until;
};

struct live *live_new(struct board *board, double share, struct stats *stats, struct budget *budget)
{
    struct live *l = calloc(1, sizeof *l);
    struct check *check = check_new(1, budget);
    if (!l || !check) {
        free(l);
        check_free(check);
        return NULL;
    }
    *l = (struct live){board, check, stats, share, LIVE_CREDIT_MAX_NS, clock_monotonic()};
    return l;
}

struct live *live_free(struct live *l)
{
    if (!l)
        return NULL;
    check_free(l->check);
    free(l);
    return NULL;
}

static void earn(struct live *l)
{
    const uint64_t now = clock_monotonic();
    const double earned = (double)(now - l->earned_until) * l->share;
    l->credit_ns = earned < (double)(LIVE_CREDIT_MAX_NS - l->credit_ns) ? l->credit_ns + (int64_t)earned
                                                                        : LIVE_CREDIT_MAX_NS;
    l->earned_until = now;
}

/* Of the first resource; "" when it says none. */
static struct bytes service_of(const struct profiles *view)
{
    if (!view || view->resource.n == 0)
        return BYTES_LIT("");
    for (uint32_t i = view->resource.attrs_at[0]; i < view->resource.attrs_at[1]; i++) {
        const struct attr *a = &view->key_value.attr[i];
        if (bytes_is(a->key, "service.name") && a->value.kind == ATTR_STRING)
            return a->value.text;
    }
    return BYTES_LIT("");
}

void live_look(struct live *l, struct bytes body, enum profiles_layout layout, const struct profiles *view)
{
    earn(l);
    if (l->credit_ns <= 0 || body.n > LIVE_BYTES_MAX) {
        stats_add(l->stats, body.n > LIVE_BYTES_MAX ? STATS_CHECK_TOO_LARGE : STATS_CHECK_SKIPPED, 1);
        return;
    }
    const uint64_t began = clock_thread();
    /* Some are made from JSON, and nobody here knows which. */
    int r = check_request(l->check, body, view ? view->layout : layout, false);
    stats_add(l->stats, r == 0 ? STATS_CHECK_CHECKED : STATS_CHECK_SKIPPED, 1);
    if (r == 0)
        board_add(l->board, producers_number(producers_of(view)), service_of(view), l->check,
                  clock_realtime());
    check_clear(l->check);
    l->credit_ns -= (int64_t)(clock_thread() - began);
}
