/*
 * profsend: samples the whole host and sends what it saw as OTLP profiles.
 *
 * One libuv loop: a timer visits the ring buffer, another ends a window (names, request, hand over to the
 * exporter), signals and --duration end the program after a last window.
 */
#include <errno.h>
#include <malloc.h>
#include <signal.h>
#include <stdlib.h>

#include "proto/base/clock.h"
#include "proto/base/log.h"
#include "proto/base/macros.h"
#include "sender/privilege.h"
#include "sender/program.h"

enum { EXIT_DONE = 0, EXIT_FAILED = 1, EXIT_USAGE = 2, EXIT_REFUSED = 3 };

/* How often the ring buffer is visited; a new process wakes us at once, so this only bounds how full it gets.
 */
#define DRAIN_MS 250u
/* Intervals differ by up to this much, so that a fleet does not report in step. */
#define JITTER 0.2
/* At the end: how long what is queued may take to arrive. */
#define FAREWELL_NS (5 * (uint64_t)NSEC_PER_SEC)
/* Requests that wait while the receiver is away: minutes of them. The oldest go first. */
#define QUEUE_BYTES (8u << 20)
#define QUEUE_SIZE  256u
/* Memory of names and tables is small; what one window needed is given back between windows. */
#define TRIM_WINDOWS 6u
/* Our own figures go out with the first window and every so many. */
#define METRICS_WINDOWS 6u
/* How often is looked whether the spool is empty, at the end. */
#define FAREWELL_MS    20u
#define MMAP_THRESHOLD (128 << 10)

static void on_stack(void *user, const struct sample_head *head, const uint64_t *address)
{
    struct program *p = user;
    collector_stack(&p->collector, head, address, clock_monotonic());
}

/* The kernel side has room for CONTEXT_PLACES processes: what is above has samples without links, and it is
 * said. */
static void on_place(void *user, uint32_t pid, const struct context_place *place)
{
    struct program *p = user;
    int r = sampler_place(p->sampler, pid, place);
    if (r < 0)
        log_limited(LOG_LEVEL_WARN, "pid %u: the contexts of its threads are not read: %s", pid,
                    strerror(-r));
}

static void on_notice(void *user, const struct sample_head *head)
{
    struct program *p = user;
    collector_notice(&p->collector, head, clock_monotonic());
}

static void on_exec(void *user, const struct sample_head *head, const char *path)
{
    struct program *p = user;
    collector_exec(&p->collector, head, path, clock_monotonic());
}

static int push(void *user, struct buffer *out, uint64_t hits)
{
    struct program *p = user;
    int r = delivery_push(&p->delivery, out, hits);
    if (r < 0)
        log_limited(LOG_LEVEL_ERROR, "%llu samples could not be queued: %s", (unsigned long long)hits,
                    strerror(-r));
    return 0; /* counted there; the rest of the window may fare better */
}

static uint64_t boot_time(void)
{
    struct timespec t;
    clock_gettime(CLOCK_BOOTTIME, &t);
    return (uint64_t)t.tv_sec * NSEC_PER_SEC + (uint64_t)t.tv_nsec;
}

static int send_window(struct program *p, uint64_t now)
{
    struct request_facts facts = {
        .kinds = &p->options.kinds,
        .realtime_offset = (int64_t)(clock_realtime() - clock_monotonic()),
        .boot_offset = (int64_t)(clock_realtime() - boot_time()),
        .start = p->window_begun,
        .end = now,
        .max_bytes = REQUEST_BYTES_MAX,
    };
    host_facts(&p->host, &facts);
    return request_build(p->build, &p->collector, &facts, push, p);
}

/* Says once what keeps kernel frames without names. */
static void check_kernel_names(struct program *p)
{
    if (p->collector.kernel_state == 0 || p->said_hidden)
        return;
    p->said_hidden = true;
    if (p->collector.kernel_state == KALLSYMS_HIDDEN)
        log_warn(
            "kernel frames have addresses but no names: CAP_SYSLOG is missing, or kernel.kptr_restrict is 2");
    else
        log_warn("kernel frames have addresses but no names: reading /proc/kallsyms failed: %s",
                 strerror(-p->collector.kernel_state));
}

static void end_window(struct program *p)
{
    sampler_drain(p->sampler);
    uint64_t now = clock_monotonic(); /* behind the drain: no visit of a process is later than the sweep */
    p->dropped += p->collector.window.dropped + p->collector.refused;
    p->collector.refused = 0;
    if (window_samples(&p->collector.window) > 0) {
        collector_settle(&p->collector, now);
        check_kernel_names(p);
        double seconds = (double)(now - p->window_begun) / NSEC_PER_SEC;
        int r = p->options.print ? report_write(stdout, &p->collector, seconds, &p->options.kinds)
                                 : send_window(p, now);
        if (r < 0) {
            p->dropped += p->collector.window.n_times;
            log_limited(LOG_LEVEL_ERROR, "a window of %u samples was dropped: %s",
                        p->collector.window.n_times, strerror(-r));
        }
    }
    collector_next(&p->collector, now);
    p->window_begun = now;
    if (++p->windows % TRIM_WINDOWS == 0)
        malloc_trim(0);
    if (p->stopping || p->windows % METRICS_WINDOWS == 1)
        figures_send(p);
    if (!p->stopping)
        sampler_follow_cpus(p->sampler);
    figures_log(p, LOG_LEVEL_DEBUG);
    unwinder_log(p->unwinder, LOG_LEVEL_DEBUG);
}

static void close_handles(struct program *p)
{
    uv_close((uv_handle_t *)&p->drain, NULL);
    uv_close((uv_handle_t *)&p->window, NULL);
    uv_close((uv_handle_t *)&p->end, NULL);
    uv_close((uv_handle_t *)&p->ring, NULL);
    uv_close((uv_handle_t *)&p->interrupt, NULL);
    uv_close((uv_handle_t *)&p->terminate, NULL);
    uv_close((uv_handle_t *)&p->hangup, NULL);
    status_close(p->status);
    p->status = NULL;
    io_loop_stop(p->loop);
}

static void metrics_done(void *user)
{
    close_handles(user);
}

static void exporter_done(void *user)
{
    struct program *p = user;
    if (p->metrics)
        otlp_exporter_shutdown(p->metrics, p->farewell, metrics_done, p);
    else
        close_handles(p);
}

/* What is on disk is sent as long as there is time; the rest stays there. */
static void on_farewell(uv_timer_t *timer)
{
    struct program *p = timer->data;
    if (!delivery_is_done(&p->delivery) && clock_monotonic() + FAREWELL_MS * NSEC_PER_MSEC < p->farewell)
        return;
    uv_timer_stop(timer);
    delivery_shutdown(&p->delivery, p->farewell, exporter_done, p);
}

static void stop(struct program *p)
{
    if (p->stopping)
        return;
    p->stopping = true;
    uv_timer_stop(&p->window);
    uv_timer_stop(&p->drain);
    uv_poll_stop(&p->ring);
    sampler_stop(p->sampler);
    end_window(p);
    p->farewell = clock_monotonic() + FAREWELL_NS;
    if (p->delivery.exporter)
        uv_timer_start(&p->end, on_farewell, 0, FAREWELL_MS);
    else
        exporter_done(p);
}

static void on_drain(uv_timer_t *timer)
{
    struct program *p = timer->data;
    sampler_drain(p->sampler);
}

static void on_ring(uv_poll_t *poll, int status, int events)
{
    struct program *p = poll->data;
    sampler_drain(p->sampler);
}

static void on_window(uv_timer_t *timer);

static void arm_window(struct program *p)
{
    double share = 1 + JITTER * (2 * rng_unit(&p->rng) - 1);
    uv_timer_start(&p->window, on_window, (uint64_t)((double)p->options.interval_ns * share / NSEC_PER_MSEC),
                   0);
}

static void on_window(uv_timer_t *timer)
{
    struct program *p = timer->data;
    end_window(p);
    arm_window(p);
}

static void on_end(uv_timer_t *timer)
{
    stop(timer->data);
}

static void on_signal(uv_signal_t *handle, int number)
{
    struct program *p = handle->data;
    if (p->stopping) /* asked twice: do not wait for the receiver */
        _exit(128 + number);
    log_info("%s: sending the last window", strsignal(number));
    stop(p);
}

/* SIGHUP: what was written is checked first, and a mistake changes nothing. Then the last window is sent and
 * the program starts anew in the same process: everything, frequency and kinds included, is as the file says.
 */
static void on_hangup(uv_signal_t *handle, int number)
{
    struct program *p = handle->data;
    struct options fresh;
    struct error e = {0};
    if (p->stopping)
        return;
    if (options_read(&fresh, p->argc, p->argv, getenv, &e) < 0) {
        log_error("SIGHUP: nothing was changed: %s", e.text);
        return;
    }
    options_release(&fresh);
    log_info("SIGHUP: starting anew");
    p->again = true;
    stop(p);
}

static int open_exporter(struct program *p, struct error *e)
{
    struct spool *spool = NULL;
    int r = p->options.spool ? spool_open(&spool, p->options.spool, p->options.spool_bytes, e) : 0;
    r = r < 0 || !p->options.metrics_endpoint ? r : figures_open(p, e);
    if (r < 0)
        return r;
    struct otlp_exporter_options x = OTLP_EXPORTER_DEFAULT;
    x.endpoint = p->options.endpoint;
    x.path = p->options.path;
    x.protocol = p->options.protocol;
    x.signal = OTLP_PROFILES;
    x.compression = p->options.compression;
    x.headers = p->options.header;
    x.n_headers = p->options.n_headers;
    x.user_agent = "profsend/" PROFGATE_VERSION;
    x.tls = p->options.tls;
    x.timeout_ns = p->options.timeout_ns;
    x.max_request_bytes = QUEUE_BYTES;
    x.queue.num_consumers = 1; /* one after the other keeps the order, and this is one host's data */
    x.queue.queue_size = QUEUE_SIZE;
    x.queue.queue_bytes = QUEUE_BYTES;
    return delivery_open(&p->delivery, p->loop, &x, spool, e);
}

/* Where names come from. A library that is missing is no reason not to profile. */
static void open_names(struct program *p)
{
    struct error e = {0};
    if (!p->options.addresses_only && fetch_new(&p->fetch, &e) < 0)
        log_warn("%s", e.text);
    binaries_configure(p->collector.binaries,
                       &(struct binaries_options){.addresses_only = p->options.addresses_only,
                                                  .fetch = p->fetch});
}

static int start_handles(struct program *p)
{
    uv_loop_t *uv = io_loop_uv(p->loop);
    uv_timer_init(uv, &p->drain);
    uv_timer_init(uv, &p->window);
    uv_timer_init(uv, &p->end);
    uv_signal_init(uv, &p->interrupt);
    uv_signal_init(uv, &p->terminate);
    uv_signal_init(uv, &p->hangup);
    int r = uv_poll_init(uv, &p->ring, sampler_fd(p->sampler));
    if (r < 0)
        return r;
    p->drain.data = p->window.data = p->end.data = p->ring.data = p->interrupt.data = p->terminate.data = p;
    p->hangup.data = p;
    uv_timer_start(&p->drain, on_drain, DRAIN_MS, DRAIN_MS);
    if (p->options.duration_ns)
        uv_timer_start(&p->end, on_end, p->options.duration_ns / NSEC_PER_MSEC, 0);
    r = uv_poll_start(&p->ring, UV_READABLE, on_ring);
    r = r < 0 ? r : uv_signal_start(&p->interrupt, on_signal, SIGINT);
    r = r < 0 ? r : uv_signal_start(&p->terminate, on_signal, SIGTERM);
    r = r < 0 ? r : uv_signal_start(&p->hangup, on_hangup, SIGHUP);
    arm_window(p);
    return r;
}

/* Everything up to the loop. 0, or the exit status, said why. */
static int open_program(struct program *p)
{
    struct error e = {0};
    struct sampler_options sampling = {
        .frequency = p->options.frequency,
        .only_pid = p->options.pid,
        .with_idle = p->options.idle,
        .kinds = &p->options.kinds,
        .wait_min_ns = p->options.wait_min_ns,
        .wait_by_ticket = p->options.wait_by_ticket,
        .lock_min_ns = p->options.lock_min_ns,
        .trace_map = p->options.trace_map,
        .probe_interval = p->options.alloc_interval,
        .rule = p->options.rule,
        .n_rules = p->options.n_rules,
    };
    struct sampler_handler handler = {.stack = on_stack, .exec = on_exec, .notice = on_notice, .user = p};
    bool has_probes = p->options.n_probes || p->options.n_allocs;
    privilege_drop(PRIVILEGE_NICE | (has_probes ? PRIVILEGE_PROBE : 0)); /* before there are threads */
    host_read(&p->host);
    rng_seed(&p->rng, clock_realtime() ^ clock_monotonic() << 20 ^ (uint64_t)getpid());
    p->build = build_new(NULL);
    p->loop = io_loop_new();
    if (!p->build || !p->loop || collector_init(&p->collector, "/proc", "/proc/kallsyms") < 0) {
        log_error("out of memory");
        return EXIT_FAILED;
    }
    if (!p->options.print && open_exporter(p, &e) < 0) {
        log_error("%s", e.text);
        return EXIT_USAGE;
    }
    open_names(p);
    p->collector.place = on_place;
    p->collector.place_user = p;
    p->begun = p->window_begun = clock_monotonic();
    int r = sampler_open(&p->sampler, &sampling, &handler, &e);
    if (r == 0 && unwinder_new(&p->unwinder, p->sampler, p->collector.vdso) < 0)
        r = error_set(&e, -ENOMEM, "out of memory, or no thread can be made");
    if (r == 0)
        (void)procs_scan(p->collector.procs, clock_monotonic()); /* without it, names come with the samples */
    r = r ? r : sampler_start(p->sampler, &e);
    if (r != 0) {
        log_error("%s", e.text);
        return r == SAMPLER_REFUSED ? EXIT_REFUSED : EXIT_FAILED;
    }
    privilege_drop(0);
    if (p->options.status && status_open(&p->status, p->loop, p->options.status, figures_status, p, &e) < 0) {
        log_error("%s", e.text);
        return EXIT_REFUSED;
    }
    if (p->status)
        log_info("status page at port %d", status_port(p->status));
    r = start_handles(p);
    if (r < 0) {
        log_error("starting: %s", uv_strerror(r));
        return EXIT_FAILED;
    }
    return 0;
}

static int run(struct program *p)
{
    int status = open_program(p);
    if (status)
        return status; /* the process ends: the kernel detaches and frees what was opened */
    log_info("sampling %u CPUs at %u Hz%s%s", sampler_follow_cpus(p->sampler), p->options.frequency,
             p->options.print ? "" : ", sending to ", p->options.print ? "" : p->options.endpoint);
    io_loop_run(p->loop);
    figures_log(p, LOG_LEVEL_INFO);
    unwinder_log(p->unwinder, LOG_LEVEL_INFO);
    status = p->delivery.counts.lost ? EXIT_FAILED : EXIT_DONE;
    delivery_close(&p->delivery);
    p->metrics = otlp_exporter_free(p->metrics);
    p->unwinder = unwinder_free(p->unwinder);
    p->loop = io_loop_free(p->loop); /* closes the handles, one of which looks at the sampler's descriptor */
    p->sampler = sampler_close(p->sampler);
    collector_release(&p->collector);
    p->fetch = fetch_free(p->fetch);
    p->build = build_free(p->build);
    return status;
}

int main(int argc, char **argv)
{
    static struct program p;
    struct error e = {0};
    signal(SIGPIPE, SIG_IGN);
    /* What one file's debug information needs for a moment goes back at once; glibc would raise this to 32
     * MiB. */
    mallopt(M_MMAP_THRESHOLD, MMAP_THRESHOLD);
    if (options_read(&p.options, argc, argv, getenv, &e) < 0) {
        fprintf(stderr, "profsend: %s\n", e.text);
        return EXIT_USAGE;
    }
    if (p.options.help) {
        options_help(stdout);
        return EXIT_DONE;
    }
    if (p.options.version) {
        puts("profsend " PROFGATE_VERSION);
        return EXIT_DONE;
    }
    log_set_level(p.options.log_level);
    p.argc = argc;
    p.argv = argv;
    int status = run(&p);
    if (p.again) {
        execv("/proc/self/exe", argv);
        log_error("starting anew: %s", strerror(errno));
        status = EXIT_FAILED;
    }
    options_release(&p.options);
    return status;
}
