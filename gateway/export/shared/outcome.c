/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/export/shared/outcome.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "gateway/stats/stats.h"
#include "proto/base/clock.h"
#include "proto/base/macros.h"

int outcome_init(struct outcome *o, const struct export_context *c)
{
    *o = (struct outcome){
        .name = strdup(c->name), .metrics = c->signal == CONFIG_TAKES_METRICS, .stats = c->stats};
    return o->name ? 0 : -ENOMEM;
}

void outcome_release(struct outcome *o)
{
    free(take_ptr(o->name));
}

void outcome_queued(struct outcome *o, size_t bytes)
{
    /* Several exporters share the gauge, so each adds its change; all of them run on the block's own thread.
     */
    if (o->stats)
        stats_set(o->stats, STATS_EXPORT_QUEUE_BYTES,
                  o->stats->value[STATS_EXPORT_QUEUE_BYTES] + bytes - o->shown_bytes);
    o->shown_bytes = bytes;
}

void outcome_storage(struct outcome *o, bool is_failing, uint64_t times)
{
    stats_add(o->stats, STATS_STORAGE_FAILURES, times);
    if (!o->stats || is_failing == o->is_failing)
        return;
    const uint64_t others = o->stats->value[STATS_STORAGE_FAILING] - o->is_failing;
    o->is_failing = is_failing;
    stats_set(o->stats, STATS_STORAGE_FAILING, others + is_failing);
    if (others == 0)
        stats_set(o->stats, STATS_STORAGE_FAILING_SINCE, is_failing ? clock_realtime() / NSEC_PER_SEC : 0);
}

static void count(const struct outcome *o, const struct client_event *event)
{
    bool metrics = o->metrics;
    if (event->kind == CLIENT_SENT || event->kind == CLIENT_PARTIAL)
        stats_add(o->stats, metrics ? STATS_EXPORT_METRICS_SENT : STATS_EXPORT_PROFILES_SENT,
                  event->requests);
    else if (event->kind == CLIENT_RETRIED)
        stats_add(o->stats, metrics ? STATS_EXPORT_METRICS_RETRIED : STATS_EXPORT_PROFILES_RETRIED,
                  event->requests);
    else if (event->kind == CLIENT_STALE)
        stats_add(o->stats, STATS_TLS_STALE, 1);
    /* A server may say any number. Of profiles it says profiles, and items are samples: no profile has none.
     */
    if (event->kind == CLIENT_PARTIAL)
        stats_add(o->stats, metrics ? STATS_EXPORT_POINTS_DROPPED : STATS_EXPORT_PROFILES_REJECTED,
                  min_of(event->rejected, event->items));
    if (client_event_is_loss(event->kind)) {
        stats_add(o->stats, metrics ? STATS_EXPORT_METRICS_FAILED : STATS_EXPORT_PROFILES_FAILED,
                  event->requests);
        stats_add(o->stats, metrics ? STATS_EXPORT_POINTS_DROPPED : STATS_FORWARD_DROPPED, event->items);
    }
}

static void tell(struct outcome *o, const struct client_event *event)
{
    const char *what = o->metrics ? "points" : "samples";
    const char *why = event->message ? event->message : "";
    struct log_limit *limit = &o->told[event->kind];
    switch (event->kind) {
    case CLIENT_SENT:
        if (why[0])
            log_write_limited(limit, LOG_LEVEL_WARN, "destination warns destination=%s said=\"%s\"", o->name,
                              why);
        break;
    case CLIENT_PARTIAL:
        log_write_limited(limit, LOG_LEVEL_WARN, "destination rejected a part destination=%s said=\"%s\"",
                          o->name, why);
        break;
    case CLIENT_RETRIED:
        if (event->attempts == 0)
            log_write_limited(limit, LOG_LEVEL_WARN,
                              "destination is not reached and tried again destination=%s error=\"%s\"",
                              o->name, why);
        else
            log_write_limited(limit, LOG_LEVEL_WARN,
                              "attempt failed and will be repeated destination=%s attempt=%" PRIu64
                              " error=\"%s\"",
                              o->name, event->attempts, why);
        break;
    case CLIENT_STALE:
        log_write_limited(limit, LOG_LEVEL_ERROR,
                          "a certificate was not renewed, the one from before is shown destination=%s "
                          "error=\"%s\" fix=\"files that belong together; the next connection reads them\"",
                          o->name, why);
        break;
    case CLIENT_REFUSED:
        log_write_limited(limit, LOG_LEVEL_ERROR,
                          "destination refused for good destination=%s of=%s items=%" PRIu64 " error=\"%s\"",
                          o->name, what, event->items, why);
        break;
    case CLIENT_OUT_OF_TIME:
        log_write_limited(limit, LOG_LEVEL_ERROR,
                          "gave up destination=%s of=%s items=%" PRIu64 " attempts=%" PRIu64 " error=\"%s\"",
                          o->name, what, event->items, event->attempts, why);
        break;
    case CLIENT_EVICTED:
    case CLIENT_TOO_LARGE:
    case CLIENT_OUT_OF_MEMORY:
        log_write_limited(limit, LOG_LEVEL_ERROR,
                          "lost on the way destination=%s of=%s items=%" PRIu64 " error=\"%s\"", o->name,
                          what, event->items, why);
        break;
    case CLIENT_SHUT_DOWN:
        if (o->left.requests == 0)
            error_set(&o->left.why, 0, "%s", why);
        o->left.requests += event->requests;
        o->left.items += event->items;
        break;
    }
}

void outcome_event(struct outcome *o, const struct client_event *event)
{
    count(o, event);
    tell(o, event);
}

void outcome_lost(struct outcome *o, uint64_t requests, uint64_t items, const char *why)
{
    outcome_event(o, &(struct client_event){
                         .kind = CLIENT_OUT_OF_MEMORY, .requests = requests, .items = items, .message = why});
}

void outcome_end(const struct outcome *o)
{
    if (o->left.requests > 0)
        log_error("left at the end destination=%s of=%s requests=%" PRIu64 " items=%" PRIu64 " error=\"%s\"",
                  o->name, o->metrics ? "points" : "samples", o->left.requests, o->left.items,
                  o->left.why.text);
}
