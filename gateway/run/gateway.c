/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/run/gateway.h"

#include <errno.h>
#include <malloc.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gateway/admin/admin.h"
#include "gateway/config/config.h"
#include "gateway/control/capture_pages.h"
#include "gateway/run/consuming.h"
#include "gateway/run/ear.h"
#include "gateway/run/open_files.h"
#include "gateway/run/parts.h"
#include "gateway/serve/lanes/lanes.h"
#include "gateway/ui/ui.h"
#include "proto/base/clock.h"
#include "proto/base/log.h"
#include "proto/base/macros.h"
#include "proto/io/signal.h"

/* At least: loops and listeners of two workers have thirty. */
#define FILES_BESIDE_MIN 64u

static void drained(void *user)
{
    struct gateway *g = user;
    g->drained = true;
    io_loop_stop(g->loop);
}

static void flush_last(void *arg)
{
    outputs_flush(((struct gateway *)arg)->outputs, true);
}

static void flushed_last(void *arg)
{
    struct gateway *g = arg;
    g->drain_by = clock_monotonic() + g->config->shutdown_timeout_ns;
    outputs_shutdown(g->outputs, g->drain_by, drained, g);
}

/* Then what lanes did, who work for the workers, has arrived, too: it is sent, and the queues drain. */
void gateway_all_stopped(struct gateway *g)
{
    if (!g->lanes_ended) {
        g->n_running = lanes_n(g->lanes);
        gateway_end_lanes(g);
        if (g->n_running > 0)
            return;
    }
    g->last_flush = (struct merger_job){.work = flush_last, .done = flushed_last, .arg = g};
    merger_post(g->merger, &g->last_flush);
}

static void on_stop(void *user, int signum)
{
    struct gateway *g = user;
    if (g->stopping) {
        listen_shutdown(g->listen, clock_monotonic()); /* asked twice: do not wait for requests under way */
        return;
    }
    log_info("stopping signal=%d", signum);
    g->stopping = true;
    scraper_stop(g->scraping.scraper);
    consumer_stop(g->consumer);
    gateway_stop_collecting(g);
    for (uint32_t i = 0; i < g->n_workers; i++)
        listen_run_on_worker(g->listen, i, gateway_worker_tell, &g->workers[i]);
    listen_shutdown(g->listen, clock_monotonic() + g->config->shutdown_timeout_ns);
}

static void on_reload(void *user, int signum)
{
    struct gateway *g = user;
    struct error e;
    if (g->stopping) /* however often: it must not keep the end waiting */
        return;
    gateway_reload(user, NULL, &e); /* the log tells */
}

/* ---- life ---------------------------------------------------------------------------------- */

static uint32_t count_workers(const struct config *c)
{
    cpu_set_t allowed;
    if (c->workers > 0)
        return c->workers;
    if (sched_getaffinity(0, sizeof allowed, &allowed) < 0)
        return 1;
    return (uint32_t)min_of(CPU_COUNT(&allowed), (int)LISTEN_WORKERS_MAX);
}

static int start_listening(struct gateway *g, struct error *e)
{
    const struct config *c = g->config;
    struct listen_options options = {
        .addresses = g->receivers.addresses,
        .n_addresses = g->receivers.n,
        .workers = g->n_workers,
        .connections_max = g->connections_max,
        .http = HTTP_SERVER_LIMITS_DEFAULT,
    };
    options.http.request_ns = c->request_timeout_ns;
    options.http.body_rate = (uint32_t)c->request_rate;
    for (uint32_t i = 0; i < g->n_workers; i++) {
        g->workers[i] =
            (struct gateway_worker){.gateway = g, .index = i, .counting = counting_use(g->counting)};
        meter_init(&g->workers[i].meter, &g->accounts, &g->budget);
    }
    struct listen_factory factory = {
        .handler = serve_handler(),
        .worker_start = gateway_worker_start,
        .worker_stop = gateway_worker_stop,
        .context = g,
        .admit = g->receivers.access ? serve_admit : NULL,
        .leave = g->receivers.access ? serve_leave : NULL,
    };
    if (gateway_make_lanes(g) < 0)
        return error_set(e, -ENOMEM, "out of memory");
    int r = listen_new(&g->listen, &options, &factory, e);
    if (r == 0)
        r = listen_start(g->listen, e);
    if (r == 0)
        g->n_running = g->n_workers;
    return r;
}

/* Those that there always are. */
#define N_PAGES 9u

static int start_admin(struct gateway *g, struct error *e)
{
    int r = admin_door_init(&g->door, &g->config->admin_door, g->loop, g->stats, &g->budget, e);
    if (r < 0)
        return r;
    door_warn_vacant(g->door.access);
    g->scrapes = gateway_scrapes(g);
    if (!g->scrapes)
        return error_set(e, -ENOMEM, "out of memory");
    g->ui = ui_new();
    if (!g->ui)
        return error_set(e, -ENOMEM, "out of memory");
    uint32_t n_ui;
    const struct admin_page *ui = ui_pages(g->ui, &n_ui);
    struct admin_page pages[N_PAGES + LOOKING_PAGES_MAX + UI_PAGES_MAX] = {
        scrapes_page(g->scrapes),  scrapes_json_page(g->scrapes), admin_health_page(),
        gateway_ready_page(g),     gateway_triggers_page(g),      captures_page(g->captures),
        capture_page(g->captures), gateway_reload_page(g),        board_page(g->board),
    };
    uint32_t n = N_PAGES;
    if (g->looking)
        n += looking_pages(g->looking, &pages[n]);
    memcpy(&pages[n], ui, n_ui * sizeof *ui);
    struct admin_options options = {
        .endpoint = g->config->admin_endpoint,
        .pages = pages,
        .n_pages = n + n_ui,
        .hosts = g->options->config->admin_hosts.items, /* which stays, whatever a reload brings */
        .n_hosts = g->options->config->admin_hosts.n,
        .certificates = &g->door.certificates,
        .guard = {g->door.worker, g->door.policy},
    };
    g->admin = admin_new(&options, g->loop, e);
    return g->admin ? 0 : -EADDRINUSE;
}

static void log_address(const char *what, const char *configured, uint16_t port)
{
    struct bound_address a = gateway_bound_address(configured, port);
    log_info("listening for=%s address=%.*s%s", what, BYTES_FMT(a.before_port), a.port);
}

/* Of the files that may be open, what connections of senders leave to the rest: the admin server,
 * destinations, loops, files to read. */
static uint32_t files_beside(uint64_t allowed)
{
    return (uint32_t)min_of(max_of(allowed / 4, (uint64_t)FILES_BESIDE_MIN), (uint64_t)LISTEN_FILES_BESIDE);
}

/* For as many connections as are configured, on each loop: a destination's file may have a high number, too.
 */
static int allow_files(struct gateway *g, struct error *e)
{
    uint32_t wanted = g->config->connections + LISTEN_FILES_BESIDE;
    uint64_t allowed = open_files_raise(wanted);
    g->connections_max = g->config->connections;
    if (allowed < wanted) {
        const uint32_t beside = files_beside(allowed);
        g->connections_max = (uint32_t)(allowed > beside ? allowed - beside : 1);
        log_warn(
            "limits.connections=%u needs %u open files, and %llu are allowed: connections beyond %u are closed; "
            "raise the limit (ulimit -Hn, LimitNOFILE= of systemd) or lower limits.connections",
            g->config->connections, wanted, (unsigned long long)allowed, g->connections_max);
    }
    int r = io_loop_reserve(g->loop, wanted);
    return r < 0 ? error_set(e, r, "no room for open files: %s", strerror(-r)) : 0;
}

/* What ear.h says of it begins with a reloader's signal, which may come before there is a gateway. */
void gateway_hold_hangup(void)
{
    io_signal_hold(SIGHUP, true);
}

/* What threads remember because it is faster may be this part of limits.memory. */
#define KEPT_SHARE 4u

static int start(struct gateway *g, struct error *e)
{
    g->n_workers = count_workers(g->config);
    g->budget = (struct budget)BUDGET_INIT(g->config->memory, NULL);
    g->links = (struct from_pprof_links){g->config->trace_labels.items, g->config->span_labels.items,
                                         g->config->trace_labels.n, g->config->span_labels.n};
    g->accounts.limit = min_of(receivers_client_counting(g->config), (uint64_t)SIZE_MAX);
    g->kept.max = g->budget.limit / KEPT_SHARE;
    g->kept.each = g->kept.max / (2 * (size_t)g->n_workers); /* and lanes */
    g->workers = calloc(2 * (size_t)g->n_workers, sizeof *g->workers);
    g->loop = io_loop_new();
    g->stats = stats_new();
    g->merger_stats = stats_new();
    g->captures = captures_new();
    g->board = board_new();
    if (!g->workers || !g->loop || !g->stats || !g->merger_stats || !g->captures || !g->board)
        return error_set(e, -ENOMEM, "out of memory");
    int r = allow_files(g, e);
    if (r < 0)
        return r;
    g->counting = counting_new(g->config, e);
    if (!g->counting)
        return -EINVAL;
    r = receivers_init(&g->receivers, g->config, &g->budget, e);
    if (r < 0)
        return r;
    door_warn_vacant(g->receivers.access);
    struct outputs_options outputs = {
        .config = g->config,
        .metrics = g->counting->metrics,
        .n_metrics = g->counting->n_metrics,
        .n_workers = 2 * g->n_workers, /* and lanes */
        .budget = &g->budget,
        .stats = g->stats,
        .merger_stats = g->merger_stats,
    };
    g->outputs = outputs_new(&outputs, g->loop, e);
    if (!g->outputs)
        return -EINVAL;
    outputs_set_more(g->outputs, gateway_show, g);
    r = merger_new(&g->merger, g->loop);
    if (r < 0)
        return error_set(e, r, "no thread to merge on: %s", strerror(-r));
    g->triggers = gateway_triggers_for(g, g->counting, e);
    if (!g->triggers)
        return -ENOMEM;
    r = gateway_start_collecting(g);
    if (r < 0)
        return error_set(e, r, "out of memory");
    ear_hold_ends(true);
    g->on_term = io_signal_new(g->loop, SIGTERM, on_stop, g);
    g->on_int = io_signal_new(g->loop, SIGINT, on_stop, g);
    g->on_hup = io_signal_new(g->loop, SIGHUP, on_reload, g);
    if (!g->on_term || !g->on_int || !g->on_hup)
        return error_set(e, -ENOMEM, "out of memory");
    r = looking_new(&g->looking, g->config, g->loop, &g->budget, e);
    looking_set_counting(g->looking, g->counting);
    r = r < 0 ? r : start_admin(g, e);
    r = r < 0 ? r : start_listening(g, e);
    r = r < 0 ? r : gateway_begin_scraping(g, g->config, &g->scraping, e);
    return r < 0 ? r : consuming_begin(&g->consumer, g->config, g, e);
}

int gateway_begin_scraping(struct gateway *g, const struct config *c, struct scraping *ret, struct error *e)
{
    const struct scraper_means means = {g->loop, g->lanes, &g->budget, g->receivers.access, g->stats};
    return scraping_init(ret, c, &g->links, &means, e);
}

static void announce(struct gateway *g)
{
    for (uint32_t i = 0; i < g->config->n_receivers; i++)
        log_address("otlp", g->config->receivers[i].endpoint, listen_port(g->listen, i));
    log_address("admin", g->config->admin_endpoint, admin_port(g->admin));
    log_info("ready version=%s workers=%u metrics=%u", PROFGATE_VERSION, g->n_workers,
             g->counting->n_metrics);
}

static void closed(void *user)
{
    ((struct gateway *)user)->drained = true;
}

/* 0 or GATEWAY_LEFT. */
static int release(struct gateway *g)
{
    scraper_stop(g->scraping.scraper);
    consumer_stop(g->consumer);
    listen_free(g->listen);
    gateway_end_lanes(g);
    lanes_free(g->lanes);
    consumer_free(g->consumer, g->drained, g->drain_by);
    scraping_release(&g->scraping);
    receivers_release(&g->receivers);
    admin_free(g->admin);
    admin_door_release(&g->door);
    ui_free(g->ui);
    while ((g->merger && !merger_is_over(g->merger)) || (g->scrapes && !scrapes_are_over(g->scrapes)))
        io_loop_run_once(g->loop, NSEC_PER_SEC);
    merger_free(g->merger);
    if (g->outputs && !g->drained) /* the start failed: exporters close by the loop */
        outputs_shutdown(g->outputs, 0, closed, g);
    while (g->outputs && !g->drained)
        io_loop_run_once(g->loop, NSEC_PER_SEC);
    looking_end(g->looking);
    for (uint32_t i = 0; i < 2 * g->n_workers && g->workers; i++)
        look_tap_free(g->workers[i].tap);
    g->looking = looking_free(g->looking);
    io_signal_free(g->on_term);
    io_signal_free(g->on_int);
    io_signal_free(g->on_hup);
    gateway_free_collecting(g);
    scrapes_free(g->scrapes);
    control_triggers_free(g->triggers);
    outputs_free(g->outputs);
    captures_free(g->captures);
    board_free(g->board);
    if (g->loop && io_loop_is_resolving(g->loop))
        return GATEWAY_LEFT;
    io_loop_free(g->loop);
    for (uint32_t i = 0; i < g->n_workers && g->workers; i++)
        counting_drop(g->workers[i].counting);
    counting_drop(g->counting);
    config_free(g->reloaded);
    free(g->workers);
    free(g);
    return 0;
}

/* What is as large as this has pages of its own and gives them back when it is freed: tables made anew, pages
 * of metrics, batches. glibc would raise that to 32 MB by itself, and large blocks that come and go between
 * small ones that live leave a heap full of holes. */
#define LARGE_BLOCK (512 << 10)

/* At the start: what is made then stays, and the larger it is the less of it is ever written to. So it is
 * given pages that come when they are, and not what the reading of rules has left. */
#define START_BLOCK (32 << 10)

int gateway_run(const struct gateway_options *options, struct error *e)
{
    struct gateway *g = calloc(1, sizeof *g);
    if (!g)
        return error_set(e, -ENOMEM, "out of memory");
    g->options = options;
    g->config = options->config;
    signal(SIGPIPE, SIG_IGN);
    mallopt(M_MMAP_THRESHOLD, START_BLOCK);
    int r = start(g, e);
    mallopt(M_MMAP_THRESHOLD, LARGE_BLOCK);
    if (r == 0) {
        malloc_trim(0); /* reading configuration and rules takes more than what is kept of them */
        announce(g);
        gateway_reload_outcome(g, true);
        g->next_flush_ns = io_loop_now(g->loop) + g->config->flush_interval_ns;
        gateway_collect(g);
        struct ear ear;
        bool hears = ear_begin(&ear);
        if (!hears)
            ear_hold_ends(false);
        io_loop_run(g->loop);
        if (hears)
            ear_end(&ear);
        log_info("stopped");
    }
    int left = release(g);
    return r < 0 ? r : left;
}
