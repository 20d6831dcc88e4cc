/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A reload is all or nothing. Everything that it changes is read and made aside first (struct news):
 * configuration, rules, triggers, credentials, certificates, and the memory to tell each worker. Whatever is
 * wrong is told, the rest is dropped, and the gateway goes on as it was. Only then is it all put in place,
 * in steps that cannot fail.
 *
 * The rules reach each worker and lane as a task. A worker makes its new chain of stages first, then takes
 * the old one's last counts, exchanges the two, and sends back what it has no use for any more; with no
 * memory it stays with what it has, and the reload was not successful. The merger adds counts of either
 * generation meanwhile. A reload that is asked for while workers change over is done after it, once.
 */
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <time.h>

#include "gateway/run/gateway.h"
#include "gateway/run/parts.h"
#include "proto/base/log.h"
#include "proto/base/macros.h"

/* A worker's way from one set of rules to another: to its thread, and back with what it leaves behind. */
struct change {
    struct merger_job job;
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

void gateway_reload_outcome(struct gateway *g, bool is_good)
{
    g->reload.is_good = is_good;
    if (is_good)
        g->reload.good_at = time(NULL);
}

/* Everybody has changed over, or said that he cannot. */
static void all_changed(struct gateway *g)
{
    struct error e;
    log_info("reloaded metrics=%u", g->counting->n_metrics);
    if (g->reload.again) {
        g->reload.again = false;
        gateway_reload(g, NULL, &e); /* the log tells */
    }
}

static void apply(void *arg)
{
    struct change *c = arg;
    outputs_apply(c->worker->gateway->outputs, c->worker->index, take_ptr(c->delta));
}

static void applied(void *arg)
{
    struct change *c = arg;
    struct gateway *g = c->worker->gateway;
    if (c->unused == c->to) {
        log_error("reload part=rules worker=%u kept=\"the old ones\" error=\"out of memory\"",
                  c->worker->index);
        g->reload.is_good = false;
    }
    counting_drop(c->unused);
    if (--g->n_changing == 0)
        all_changed(g);
    free(c);
}

static void on_changed(void *arg)
{
    struct change *c = arg;
    c->job = (struct merger_job){.work = apply, .done = applied, .arg = c};
    merger_post(c->worker->gateway->merger, &c->job);
}

/* ---- aside ---- */

struct news {
    struct config *config;
    struct buffer restart; /* the keys that need one, each a line */
    int restart_result;    /* of writing them; below 0: no memory */
    struct counting *counting;
    struct control_triggers *triggers;
    struct access_files *credentials, *admin_credentials; /* NULL: nobody is asked who he is */
    struct listen_certificates *certificates, *admin_certificates;
    struct scraping scraping; /* .of is NULL: it stays as it is */
    struct change **changes;  /* one for each that counts */
    uint32_t n_changes;
};

/* What was not taken. */
static void news_release(struct news *n)
{
    for (uint32_t i = 0; i < n->n_changes; i++)
        free(n->changes[i]);
    free(n->changes);
    scraping_release(&n->scraping);
    listen_drop_tls(n->certificates);
    certificates_drop(n->admin_certificates);
    access_drop(n->credentials);
    access_drop(n->admin_credentials);
    control_triggers_free(n->triggers);
    counting_drop(n->counting);
    buffer_release(&n->restart);
    config_free(n->config);
}

static void note_restart(void *user, const char *key)
{
    struct news *n = user;
    n->restart_result |= buffer_printf(&n->restart, "%s\n", key);
}

static int read_config(struct gateway *g, struct news *n, struct error *e)
{
    n->config = g->options->reload(g->options->context, e);
    if (!n->config)
        return -EINVAL;
    int r = config_restart_keys(g->options->config, n->config, note_restart, n);
    return (r | n->restart_result) < 0 ? error_set(e, -ENOMEM, "out of memory") : 0;
}

static int make_changes(struct gateway *g, struct news *n, struct error *e)
{
    const uint32_t all = gateway_n_counting(g);
    n->changes = calloc(all, sizeof *n->changes);
    while (n->changes && n->n_changes < all) {
        struct change *c = n->changes[n->n_changes] = calloc(1, sizeof *c);
        if (!c)
            break;
        *c = (struct change){.worker = &g->workers[n->n_changes++], .to = n->counting};
    }
    return n->n_changes == all ? 0 : error_set(e, -ENOMEM, "out of memory");
}

/* The last step: the merger knows the metrics then, which does no harm before anybody counts by them. */
static int tell_merger(struct gateway *g, struct news *n, struct error *e)
{
    int r = outputs_replace_metrics(g->outputs, n->counting->metrics, n->counting->n_metrics,
                                    &n->counting->generation);
    return r == OUTPUTS_FULL ? error_set(e, -ENOSPC, "too many different metrics since the start")
           : r < 0           ? error_set(e, r, "out of memory")
                             : 0;
}

static int read_rules(struct gateway *g, struct news *n, struct error *e)
{
    n->counting = counting_new(n->config, e);
    if (!n->counting)
        return -EINVAL;
    n->triggers = gateway_triggers_for(g, n->counting, e);
    return n->triggers ? make_changes(g, n, e) : -ENOMEM;
}

static int read_credentials(struct gateway *g, struct news *n, struct error *e)
{
    int r = g->receivers.access ? access_read(g->receivers.access, &n->credentials, e) : 0;
    return r == 0 && g->door.access ? access_read(g->door.access, &n->admin_credentials, e) : r;
}

static int read_scraping(struct gateway *g, struct news *n, struct error *e)
{
    int r = config_scrapes_differ(g->scraping.of, n->config);
    if (r < 0)
        return error_set(e, r, "out of memory");
    return r == 0 ? 0 : gateway_begin_scraping(g, n->config, &n->scraping, e);
}

static int read_certificates(struct gateway *g, struct news *n, struct error *e)
{
    int r = listen_read_tls(g->listen, &n->certificates, e);
    return r == 0 ? certificates_read(&g->door.certificates, &n->admin_certificates, e) : r;
}

/* Everything, or what is wrong with the first part that is. */
static int read_all(struct gateway *g, struct news *n, struct error *e)
{
    static const struct {
        const char *name;
        int (*read)(struct gateway *g, struct news *n, struct error *e);
    } parts[] = {
        {"configuration", read_config},
        {"rules", read_rules},
        {"credentials", read_credentials},
        {"certificates", read_certificates},
        {"receivers.pprof_scrape", read_scraping},
        {"metrics of the rules", tell_merger},
    };
    for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
        int r = parts[i].read(g, n, e);
        if (r < 0) {
            log_error("reload refused part=\"%s\" kept=\"everything as it was\" error=\"%s\"", parts[i].name,
                      e->text);
            return r;
        }
    }
    return 0;
}

/* ---- in place ---- */

/* Sends every worker on its way. */
static void change_workers(struct gateway *g, struct news *n)
{
    for (uint32_t i = 0; i < n->n_changes; i++) {
        struct change *c = take_ptr(n->changes[i]);
        int r;
        counting_use(c->to);
        g->n_changing++;
        while ((r = gateway_run_on(g, i, on_change, c)) < 0)
            sched_yield();
        if (r == GATEWAY_RUN_ON_STOPPED) {
            g->n_changing--;
            counting_drop(c->to);
            free(c);
        }
    }
}

static void take_config(struct gateway *g, struct config *c)
{
    log_set_level(c->log_level);
    log_set_format(c->log_format);
    g->config = c;
    if (g->reloaded && g->scraping.of == g->reloaded)
        g->scraping.kept = g->reloaded;
    else
        config_free(g->reloaded);
    g->reloaded = c;
    /* The flush that an hour's interval has set is not waited for where it is seconds now. */
    g->next_flush_ns = min_of(g->next_flush_ns, io_loop_now(g->loop) + c->flush_interval_ns);
}

static void take_all(struct gateway *g, struct news *n)
{
    change_workers(g, n);
    control_triggers_free(g->triggers);
    g->triggers = take_ptr(n->triggers);
    counting_drop(g->counting);
    g->counting = take_ptr(n->counting);
    looking_set_counting(g->looking, g->counting);
    if (n->credentials)
        access_take(g->receivers.access, take_ptr(n->credentials));
    if (n->admin_credentials)
        access_take(g->door.access, take_ptr(n->admin_credentials));
    door_warn_vacant(g->receivers.access);
    door_warn_vacant(g->door.access);
    listen_take_tls(g->listen, take_ptr(n->certificates));
    certificates_take(&g->door.certificates, take_ptr(n->admin_certificates));
    if (n->scraping.of)
        scraping_replace(&g->scraping, &n->scraping);
    take_config(g, take_ptr(n->config));
}

static void log_restart(struct bytes keys)
{
    while (keys.n > 0) {
        const uint8_t *end = memchr(keys.p, '\n', keys.n);
        struct bytes key = bytes_of(keys.p, (size_t)(end - keys.p));
        log_warn("reload key=%.*s kept=\"the old value\" error=\"it needs a restart\"", BYTES_FMT(key));
        keys = bytes_of(end + 1, keys.n - key.n - 1);
    }
}

int gateway_reload(struct gateway *g, struct buffer *restart, struct error *e)
{
    if (g->stopping)
        return error_set(e, -ESHUTDOWN, "stopping");
    if (g->n_changing > 0) {
        g->reload.again = true;
        return GATEWAY_RELOAD_LATER;
    }
    cleanup(news_release) struct news n = {.restart = BUFFER_INIT(0)};
    merger_hold(g->merger);
    int r = read_all(g, &n, e);
    if (r == 0)
        take_all(g, &n);
    merger_release(g->merger);
    if (r == 0) {
        log_restart(buffer_bytes(&n.restart));
        if (restart) {
            *restart = n.restart;
            n.restart = (struct buffer)BUFFER_INIT(0);
        }
    }
    gateway_reload_outcome(g, r == 0);
    return r;
}

/* ---- by hand, and for those who watch ---- */

static void take_reload(void *context, const struct http_exchange *x, struct admin_answer *a)
{
    struct error e = {""};
    cleanup(buffer_release) struct buffer restart = BUFFER_INIT(0);
    int r = gateway_reload(context, &restart, &e);
    if (r == GATEWAY_RELOAD_LATER) {
        admin_say(a, 202, "a reload is under way, another follows it\n");
    } else if (r < 0) {
        admin_say(a, 400, NULL);
        buffer_printf(a->text, "%s\n", e.text);
    } else if (restart.n == 0) {
        admin_say(a, 200, "reloaded\n");
    } else {
        admin_say(a, 200, NULL);
        buffer_printf(a->text, "reloaded; these keys need a restart:\n%.*s",
                      BYTES_FMT(buffer_bytes(&restart)));
    }
}

struct admin_page gateway_reload_page(struct gateway *g)
{
    return (
        struct admin_page){"POST", "/api/v1/reload",
                           "reads configuration, rules, credentials and certificates anew, all or nothing,\n"
                           "and names the keys that need a restart",
                           take_reload, g};
}
