#include "gateway/gateway.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>

#include "gateway/admin/admin.h"
#include "gateway/listen/listen.h"
#include "gateway/outputs.h"
#include "gateway/pipeline.h"
#include "gateway/rule_files.h"
#include "gateway/serve/serve.h"
#include "proto/base/clock.h"
#include "proto/base/log.h"
#include "proto/base/macros.h"
#include "proto/io/loop.h"
#include "proto/io/signal.h"
#include "proto/io/timer.h"

/* How often workers hand over what they counted: the age a number at /metrics may have. */
#define COLLECT_INTERVAL_NS (1ull * NSEC_PER_SEC)
#define RETRY_AFTER_NS      (1ull * NSEC_PER_SEC)

struct worker {
    struct gateway *gateway;
    uint32_t index;
    struct pipeline pipeline; /* the worker's thread only */
    struct serve *serve;
};

struct gateway {
    const struct config *config;
    struct rule_files rules;
    struct aggregate_metric *metrics;
    uint32_t n_metrics;
    struct budget budget;
    struct io_loop *loop;
    struct stats *stats; /* the control loop's */
    struct outputs *outputs;
    struct listen *listen;
    struct admin *admin;
    struct io_timer *collect_timer;
    struct io_signal *on_term, *on_int, *on_hup;
    struct worker *workers;
    uint32_t n_workers;
    uint32_t n_handing_over; /* workers whose delta is still to come in this round */
    uint32_t n_running;      /* workers that have not stopped */
    uint64_t next_flush_ns;
    bool stopping, drained;
};

/* A worker's hand-over, on its way to the control loop. */
struct handover {
    struct worker *worker;
    struct aggregate_delta *delta;
    bool is_last;
};

static void begin_collect(struct gateway *g);
static void all_workers_stopped(struct gateway *g);

/* ---- the worker's side
 * ----------------------------------------------------------------------------------------- */

static void *worker_start(void *context, uint32_t index, struct io_loop *loop, struct error *e)
{
    struct gateway *g = context;
    const struct config *c = g->config;
    struct worker *w = &g->workers[index];
    struct pipeline_options options = {
        .program = g->rules.program,
        .metrics = g->metrics,
        .n_metrics = g->n_metrics,
        .destinations = outputs_profiles(g->outputs),
        .forward = {.keep = c->keep, .seed = c->keep_seed},
        .ingest = {.limits = PROFILES_LIMITS_DEFAULT, .retry_after_ns = RETRY_AFTER_NS},
        .budget = &g->budget,
    };
    options.ingest.limits.column_bytes = min_of(options.ingest.limits.column_bytes, (size_t)c->memory / 2);
    *w = (struct worker){.gateway = g, .index = index};
    if (pipeline_init(&w->pipeline, &options) < 0) {
        error_set(e, -ENOMEM, "out of memory");
        return NULL;
    }
    struct serve_options serve = SERVE_OPTIONS_DEFAULT;
    serve.request_bytes = c->request_bytes;
    serve.retry_after_ns = RETRY_AFTER_NS;
    w->serve = serve_new(&serve, w->pipeline.ingest, w->pipeline.stats, &g->budget);
    if (!w->serve) {
        pipeline_release(&w->pipeline);
        error_set(e, -ENOMEM, "out of memory");
        return NULL;
    }
    return w->serve;
}

static void receive_handover(void *arg)
{
    struct handover *h = arg;
    struct gateway *g = h->worker->gateway;
    outputs_apply(g->outputs, h->worker->index, h->delta);
    if (h->is_last && --g->n_running == 0) {
        all_workers_stopped(g);
    } else if (!h->is_last && --g->n_handing_over == 0 && !g->stopping &&
               io_loop_now(g->loop) >= g->next_flush_ns) {
        outputs_flush(g->outputs);
        g->next_flush_ns = io_loop_now(g->loop) + g->config->flush_interval_ns;
    }
    free(h);
}

static void hand_over(struct worker *w, struct handover *h)
{
    h->worker = w;
    h->delta = aggregate_take(w->pipeline.aggregate);
    while (io_loop_post(w->gateway->loop, receive_handover, h) < 0)
        sched_yield(); /* no memory for a mailbox entry: what was counted is not lost for that */
}

/* The request to hand over carries the memory of its answer, so that answering cannot fail. */
static void on_collect(void *arg, void *context)
{
    struct handover *h = arg;
    hand_over(h->worker, h);
}

static void worker_stop(void *context, uint32_t index, void *unused)
{
    struct gateway *g = context;
    struct worker *w = &g->workers[index];
    struct handover *h;
    while (!(h = calloc(1, sizeof *h)))
        sched_yield();
    h->is_last = true;
    w->serve = serve_free(w->serve);
    hand_over(w, h);
    pipeline_release(&w->pipeline);
}

/* ---- the control loop's side
 * ----------------------------------------------------------------------------------- */

static void begin_collect(struct gateway *g)
{
    uint64_t interval = min_of(COLLECT_INTERVAL_NS, g->config->flush_interval_ns);
    io_timer_set(g->collect_timer, io_loop_now(g->loop) + interval);
    if (g->n_handing_over > 0 || g->stopping)
        return; /* a worker is busy with something long: the next round will do */
    for (uint32_t i = 0; i < g->n_workers; i++) {
        struct handover *h = calloc(1, sizeof *h);
        if (!h)
            break;
        h->worker = &g->workers[i];
        g->n_handing_over++;
        if (listen_run_on_worker(g->listen, i, on_collect, h) < 0) {
            g->n_handing_over--;
            free(h);
        }
    }
}

static void on_collect_timer(void *user)
{
    begin_collect(user);
}

static int write_metrics(void *context, unsigned what, struct buffer *out)
{
    struct gateway *g = context;
    int r = 0;
    if (what & ADMIN_METRICS_PROFILES)
        r = outputs_prometheus(g->outputs, out);
    if (r == 0 && (what & ADMIN_METRICS_SELF))
        r = stats_prometheus(out);
    return r;
}

static bool accepts_requests(void *context, struct error *why)
{
    struct gateway *g = context;
    if (g->stopping)
        error_set(why, 0, "stopping");
    return !g->stopping;
}

static void drained(void *user)
{
    struct gateway *g = user;
    g->drained = true;
    io_loop_stop(g->loop);
}

/* What workers counted last has arrived: send it, then let the queues drain. */
static void all_workers_stopped(struct gateway *g)
{
    outputs_flush(g->outputs);
    outputs_shutdown(g->outputs, clock_monotonic() + g->config->shutdown_timeout_ns, drained, g);
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
    io_timer_stop(g->collect_timer);
    listen_shutdown(g->listen, clock_monotonic() + g->config->shutdown_timeout_ns);
}

static void on_reload(void *user, int signum)
{
    log_warn("SIGHUP: this version reads its configuration at start only; nothing was changed");
}

/* ---- life
 * ------------------------------------------------------------------------------------------------------ */

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
    struct listen_address addresses[LISTEN_ADDRESSES_MAX];
    if (c->n_receivers > ARRAY_LEN(addresses))
        return error_set(e, -EINVAL, "at most %zu addresses to listen on", ARRAY_LEN(addresses));
    for (uint32_t i = 0; i < c->n_receivers; i++)
        addresses[i] = (struct listen_address){.address = c->receivers[i].endpoint};
    struct listen_options options = {
        .addresses = addresses,
        .n_addresses = c->n_receivers,
        .workers = g->n_workers,
        .connections_max = c->connections,
        .http = HTTP_SERVER_LIMITS_DEFAULT,
    };
    struct listen_factory factory = {serve_handler(), worker_start, worker_stop, g};
    int r = listen_new(&g->listen, &options, &factory, e);
    if (r == 0)
        r = listen_start(g->listen, e);
    if (r == 0)
        g->n_running = g->n_workers;
    return r;
}

static int start_admin(struct gateway *g, struct error *e)
{
    static struct admin_check checks[1];
    checks[0] = (struct admin_check){"receiver", accepts_requests, g};
    struct admin_options options = {
        .endpoint = g->config->admin_endpoint,
        .metrics = write_metrics,
        .metrics_context = g,
        .checks = checks,
        .n_checks = ARRAY_LEN(checks),
    };
    g->admin = admin_new(&options, g->loop, e);
    return g->admin ? 0 : -EADDRINUSE;
}

/* The address as configured with the port really bound, for people and for tests that asked for port 0. */
static void log_address(const char *what, const char *address, uint16_t port)
{
    struct bytes port_part = bytes_after_last(bytes_str(address), ':');
    int host = (int)(strlen(address) - port_part.n);
    log_info("listening for=%s address=%.*s%u", what, host, address, port);
}

static int start(struct gateway *g, struct error *e)
{
    g->n_workers = count_workers(g->config);
    g->budget = (struct budget)BUDGET_INIT(g->config->memory, NULL);
    g->workers = calloc(g->n_workers, sizeof *g->workers);
    g->loop = io_loop_new();
    g->stats = stats_new();
    if (!g->workers || !g->loop || !g->stats)
        return error_set(e, -ENOMEM, "out of memory");
    int r = rule_files_load(&g->rules, g->config, e);
    if (r < 0)
        return r;
    g->metrics = pipeline_metrics(g->rules.program, &g->n_metrics);
    if (!g->metrics)
        return error_set(e, -ENOMEM, "out of memory");
    struct outputs_options outputs = {g->config,    g->metrics, g->n_metrics,
                                      g->n_workers, &g->budget, g->stats};
    g->outputs = outputs_new(&outputs, g->loop, e);
    if (!g->outputs)
        return -EINVAL;
    g->collect_timer = io_timer_new(g->loop, on_collect_timer, g);
    g->on_term = io_signal_new(g->loop, SIGTERM, on_stop, g);
    g->on_int = io_signal_new(g->loop, SIGINT, on_stop, g);
    g->on_hup = io_signal_new(g->loop, SIGHUP, on_reload, g);
    if (!g->collect_timer || !g->on_term || !g->on_int || !g->on_hup)
        return error_set(e, -ENOMEM, "out of memory");
    r = start_admin(g, e);
    return r < 0 ? r : start_listening(g, e);
}

static void announce(struct gateway *g)
{
    for (uint32_t i = 0; i < g->config->n_receivers; i++)
        log_address("otlp", g->config->receivers[i].endpoint, listen_port(g->listen, i));
    log_address("admin", g->config->admin_endpoint, admin_port(g->admin));
    log_info("ready version=%s workers=%u metrics=%u", PROFGATE_VERSION, g->n_workers, g->n_metrics);
}

static void closed(void *user)
{
    ((struct gateway *)user)->drained = true;
}

static void release(struct gateway *g)
{
    listen_free(g->listen);
    if (g->outputs && !g->drained) /* the start failed: exporters close by the loop */
        outputs_shutdown(g->outputs, 0, closed, g);
    while (g->outputs && !g->drained)
        io_loop_run_once(g->loop, NSEC_PER_SEC);
    admin_free(g->admin);
    io_signal_free(g->on_term);
    io_signal_free(g->on_int);
    io_signal_free(g->on_hup);
    io_timer_free(g->collect_timer);
    outputs_free(g->outputs);
    if (g->loop)
        io_loop_free(g->loop);
    rule_files_release(&g->rules);
    free(g->metrics);
    free(g->workers);
    free(g);
}

int gateway_run(const struct config *config, struct error *e)
{
    struct gateway *g = calloc(1, sizeof *g);
    if (!g)
        return error_set(e, -ENOMEM, "out of memory");
    g->config = config;
    signal(SIGPIPE, SIG_IGN);
    int r = start(g, e);
    if (r == 0) {
        announce(g);
        g->next_flush_ns = io_loop_now(g->loop) + config->flush_interval_ns;
        begin_collect(g);
        io_loop_run(g->loop);
        log_info("stopped");
    }
    release(g);
    return r;
}
