#include "gateway/gateway.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "gateway/admin/admin.h"
#include "gateway/listen/listen.h"
#include "gateway/outputs.h"
#include "gateway/pipeline.h"
#include "gateway/receivers.h"
#include "gateway/rule_files.h"
#include "gateway/serve/serve.h"
#include "gateway/serve/services.h"
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
    struct pipeline pipeline; /* the worker's thread only, and so are the others */
    struct access_worker *access;
    struct services *services;
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
    struct receivers receivers;
    struct listen *listen;
    struct admin *admin;
    struct io_timer *collect_timer;
    struct io_signal *on_term, *on_int, *on_hup;
    struct worker *workers;
    uint32_t n_workers;
    uint32_t n_handing_over; /* workers whose delta is still to come in this round */
    uint32_t n_running;      /* workers that have not stopped */
    uint64_t next_flush_ns;
    atomic_bool stopping; /* workers read it, too */
    bool drained;
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

static bool is_serving(void *context)
{
    return !((struct gateway *)context)->stopping;
}

static bool is_stopping(void *context)
{
    return ((struct gateway *)context)->stopping;
}

static int worker_pipeline(struct worker *w)
{
    struct gateway *g = w->gateway;
    const struct config *c = g->config;
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
    return pipeline_init(&w->pipeline, &options);
}

/* In the reverse order of making; what is missing was not made. */
static void worker_release(struct worker *w)
{
    w->serve = serve_free(w->serve);
    w->services = services_free(w->services);
    w->access = access_worker_free(w->access);
}

static int worker_serve(struct worker *w, struct io_loop *loop)
{
    struct gateway *g = w->gateway;
    struct services_options services = {is_serving, is_stopping, g};
    w->services = services_new(&services);
    if (g->receivers.access)
        w->access = access_worker_new(g->receivers.access, loop, w->pipeline.stats);
    struct serve_options serve = SERVE_OPTIONS_DEFAULT;
    serve.request_bytes = g->config->request_bytes;
    serve.retry_after_ns = RETRY_AFTER_NS;
    serve.access = w->access;
    serve.services = w->services;
    if (w->services && (w->access || !g->receivers.access))
        w->serve = serve_new(&serve, w->pipeline.ingest, w->pipeline.stats, &g->budget);
    if (w->serve)
        return 0;
    worker_release(w);
    return -ENOMEM;
}

static void *worker_start(void *context, uint32_t index, struct io_loop *loop, struct error *e)
{
    struct gateway *g = context;
    struct worker *w = &g->workers[index];
    *w = (struct worker){.gateway = g, .index = index};
    int r = worker_pipeline(w);
    if (r == 0 && (r = worker_serve(w, loop)) < 0)
        pipeline_release(&w->pipeline);
    if (r == 0)
        return w->serve;
    error_set(e, r, "out of memory");
    return NULL;
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
    worker_release(w);
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

static int write_metrics(void *context, const struct admin_metrics *wanted, struct buffer *out)
{
    return outputs_metrics(((struct gateway *)context)->outputs, wanted, out);
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

/* Those who watch the health of the gateway hear that it stops. */
static void tell_watchers(void *arg, void *context)
{
    services_changed(((struct worker *)arg)->services);
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
    for (uint32_t i = 0; i < g->n_workers; i++)
        listen_run_on_worker(g->listen, i, tell_watchers, &g->workers[i]);
    listen_shutdown(g->listen, clock_monotonic() + g->config->shutdown_timeout_ns);
}

/* Each part is all or nothing; one bad file leaves the others' news in force and is named. */
static void on_reload(void *user, int signum)
{
    struct gateway *g = user;
    struct error e;
    int credentials = g->receivers.access ? access_reload(g->receivers.access, &e) : 0;
    if (credentials < 0)
        log_error("reload part=credentials kept=\"the old ones\" error=\"%s\"", e.text);
    int certificates = listen_reload_tls(g->listen, &e);
    if (certificates < 0)
        log_error("reload part=certificates kept=\"the old ones\" error=\"%s\"", e.text);
    if (credentials == 0 && certificates == 0)
        log_info("reloaded credentials and certificates");
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
    struct listen_options options = {
        .addresses = g->receivers.addresses,
        .n_addresses = g->receivers.n,
        .workers = g->n_workers,
        .connections_max = c->connections,
        .http = HTTP_SERVER_LIMITS_DEFAULT,
    };
    struct listen_factory factory = {
        .handler = serve_handler(),
        .worker_start = worker_start,
        .worker_stop = worker_stop,
        .context = g,
        .admit = g->receivers.access ? serve_admit : NULL,
        .leave = g->receivers.access ? serve_leave : NULL,
    };
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
    if (port == 0) { /* a unix socket */
        log_info("listening for=%s address=%s", what, address);
        return;
    }
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
    if (r == 0)
        r = receivers_init(&g->receivers, g->config, &g->budget, e);
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
    receivers_release(&g->receivers);
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
