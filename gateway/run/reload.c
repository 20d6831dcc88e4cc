/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Each part is read anew by itself, and a bad one changes nothing: configuration with the rules, credentials,
 * certificates.
 *
 * New rules are compiled on the control loop (counting.h), told to the merger, and sent to each worker and
 * lane as a task with all memory taken beforehand, so that all go or none. A worker makes its new chain of
 * stages first, then takes the old one's last counts, exchanges the two, and sends back what it has no use
 * for any more; with no memory it stays with what it has. The merger adds counts of either generation
 * meanwhile.
 */
#include <errno.h>
#include <sched.h>
#include <stdlib.h>

#include "gateway/aggregate/store.h"
#include "gateway/run/gateway.h"
#include "gateway/run/parts.h"
#include "proto/base/log.h"
#include "proto/base/macros.h"

/* A worker's way from one set of rules to another: to its thread, and back with what it leaves behind. */
struct change {
    struct gateway_worker *worker;
    struct counting *to, *unused; /* unused: what the worker has no use for any more, or never had */
    struct aggregate_delta *delta;
};

/* ---- the worker's thread ---- */

static void on_changed(void *arg);

/* First the new chain, then the old one's last counts: a worker without memory stays with what it has, and
 * nothing is lost. */
static void on_change(void *arg, void *context)
{
    struct change *c = arg;
    struct gateway_worker *w = c->worker;
    struct pipeline next;
    c->unused = c->to;
    if (gateway_worker_pipeline(w, c->to, &next) == 0) {
        c->delta = aggregate_take(w->pipeline.aggregate);
        if (aggregate_is_empty(w->pipeline.aggregate)) {
            struct pipeline old = w->pipeline;
            c->unused = w->counting;
            w->pipeline = next;
            w->counting = c->to;
            if (w->lane)
                serve_lane_set_ingest(w->lane, next.ingest);
            else
                serve_set_ingest(w->serve, next.ingest);
            next = old;
        }
        pipeline_release(&next);
    }
    while (io_loop_post(w->gateway->loop, on_changed, c) < 0)
        sched_yield(); /* as a handover: what was counted is not lost for want of memory */
}

/* ---- the control loop ---- */

static void on_changed(void *arg)
{
    struct change *c = arg;
    struct gateway *g = c->worker->gateway;
    outputs_apply(g->outputs, c->worker->index, c->delta);
    if (c->unused == c->to)
        log_error("reload part=rules worker=%u kept=\"the old ones\" error=\"out of memory\"",
                  c->worker->index);
    counting_drop(c->unused);
    if (--g->n_changing == 0)
        log_info("reloaded part=rules metrics=%u", g->counting->n_metrics);
    free(c);
}

static void free_all(struct change **all, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        free(all[i]);
    free(all);
}

/* Sends every worker on its way; with all memory taken beforehand, so that either all go or none. */
static int change_workers(struct gateway *g, struct counting *to)
{
    const uint32_t n = gateway_n_counting(g);
    struct change **all = calloc(n, sizeof *all);
    for (uint32_t i = 0; all && i < n; i++) {
        all[i] = calloc(1, sizeof **all);
        if (!all[i]) {
            free_all(all, i);
            return -ENOMEM;
        }
        *all[i] = (struct change){.worker = &g->workers[i], .to = to};
    }
    if (!all)
        return -ENOMEM;
    for (uint32_t i = 0; i < n; i++) {
        counting_use(to);
        g->n_changing++;
        int r;
        while ((r = gateway_run_on(g, i, on_change, all[i])) < 0)
            sched_yield();
        if (r == GATEWAY_RUN_ON_STOPPED) {
            g->n_changing--;
            counting_drop(to);
            free(all[i]);
        }
    }
    free(all);
    return 0;
}

static int reload_rules(struct gateway *g, const struct config *c, struct error *e)
{
    if (g->n_changing > 0)
        return error_set(e, -EBUSY, "the workers are still taking over the rules before");
    struct counting *next = counting_new(c, e);
    if (!next)
        return -EINVAL;
    int r = outputs_replace_metrics(g->outputs, next->metrics, next->n_metrics, &next->generation);
    if (r == 0)
        r = change_workers(g, next);
    if (r != 0) {
        counting_drop(next);
        return r == OUTPUTS_FULL ? error_set(e, -ENOSPC, "too many different metrics since the start")
                                 : error_set(e, r, "out of memory");
    }
    struct counting *before = g->counting;
    g->counting = next;
    gateway_start_triggers(g); /* without memory for them the rules count all the same */
    counting_drop(before);
    return 0;
}

static void tell_restart(void *user, const char *key)
{
    log_warn("reload key=%s kept=\"the old value\" error=\"it needs a restart\"", key);
}

static int reload_config(struct gateway *g, struct error *e)
{
    struct config *c = g->options->reload(g->options->context, e);
    if (!c)
        return -EINVAL;
    int r = reload_rules(g, c, e);
    if (r < 0) {
        config_free(c);
        return r;
    }
    if (config_restart_keys(g->options->config, c, tell_restart, NULL) < 0)
        log_warn("reload: no memory to tell which keys need a restart");
    log_set_level(c->log_level);
    g->config = c;
    config_free(g->reloaded);
    g->reloaded = c;
    /* The flush that an hour's interval has set is not waited for where it is seconds now. */
    g->next_flush_ns = min_of(g->next_flush_ns, io_loop_now(g->loop) + c->flush_interval_ns);
    return 0;
}

/* One part; the first error is the answer. */
static void part(const char *name, int r, struct error *why, int *result, struct error *e)
{
    if (r < 0) {
        log_error("reload part=%s kept=\"the old one\" error=\"%s\"", name, why->text);
        if (*result == 0) {
            *result = r;
            *e = *why;
        }
    } else {
        log_info("reloaded part=%s", name);
    }
}

int gateway_reload(struct gateway *g, struct error *e)
{
    int result = 0;
    struct error why = {""};
    if (g->stopping)
        return error_set(e, -ESHUTDOWN, "stopping");
    part("configuration", reload_config(g, &why), &why, &result, e);
    if (g->receivers.access)
        part("credentials", access_reload(g->receivers.access, &why), &why, &result, e);
    part("certificates", listen_reload_tls(g->listen, &why), &why, &result, e);
    return result;
}

static void take_reload(void *context, const struct http_exchange *x, struct admin_answer *a)
{
    struct error e = {""};
    admin_say(a, 200, "reloaded\n");
    if (gateway_reload(context, &e) == 0)
        return;
    admin_say(a, 400, NULL);
    buffer_printf(a->text, "%s\n", e.text);
}

struct admin_page gateway_reload_page(struct gateway *g)
{
    return (struct admin_page){"POST", "/api/v1/reload",
                               "reads configuration, rules, credentials and certificates anew", take_reload,
                               g};
}
