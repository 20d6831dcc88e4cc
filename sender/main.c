/* SPDX-License-Identifier: Apache-2.0 */
/*
 * profsend: samples the whole host and sends what it saw as OTLP profiles.
 *
 * One libuv loop: a timer visits the ring buffer, another ends a window (which a thread of its own names and
 * encodes; then it goes to the exporter), signals and --duration end the program after a last window.
 */
#include <errno.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "proto/base/clock.h"
#include "proto/base/log.h"
#include "proto/base/macros.h"
#include "proto/io/signal.h"
#include "sender/run/again.h"
#include "sender/run/privilege.h"
#include "sender/run/program.h"

/* How often the ring buffer is visited; a new process wakes us at once, so this only bounds how full it gets.
 */
#define DRAIN_MS 250u
/* Processes that have ended are forgotten once a second: of hundreds a second a window's would be megabytes.
 */
#define SWEEP_DRAINS 4u
/* Intervals differ by up to this much, so that a fleet does not report in step. */
#define JITTER 0.2
/* At the end: how long what is queued may take to arrive. */
#define FAREWELL_NS (5 * (uint64_t)NSEC_PER_SEC)
/* How often is looked whether the spool is empty, at the end. */
#define FAREWELL_MS    20u
#define MMAP_THRESHOLD (128 << 10)

static void close_handles(struct program *p)
{
    io_signal_hold(SIGHUP, true);
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
        client_shutdown(p->metrics, p->farewell, metrics_done, p);
    else
        close_handles(p);
}

/* What is on disk is sent as long as there is time; the rest stays there. */
static void on_farewell(uv_timer_t *timer)
{
    struct program *p = timer->data;
    if (!delivery_is_done(&p->delivery) && !delivery_is_stuck(&p->delivery) &&
        clock_monotonic() + FAREWELL_MS * NSEC_PER_MSEC < p->farewell)
        return;
    uv_timer_stop(timer);
    delivery_shutdown(&p->delivery, p->farewell, exporter_done, p);
}

static void stop(struct program *p)
{
    if (p->stopping)
        return;
    p->stopping = true;
    if (p->again)
        notify_reloading(p->notify);
    else
        notify_stopping(p->notify);
    uv_timer_stop(&p->window);
    uv_timer_stop(&p->drain);
    uv_poll_stop(&p->ring);
    sampler_stop(p->sampler);
    unwinder_stop(p->unwinder);
    sampler_drain(p->sampler);
    uv_timer_stop(&p->end);
    windows_finish(p);
}

void program_farewell(struct program *p)
{
    figures_send(p);
    figures_log(p, LOG_LEVEL_DEBUG);
    p->farewell = clock_monotonic() + FAREWELL_NS;
    if (p->delivery.client)
        uv_timer_start(&p->end, on_farewell, 0, FAREWELL_MS);
    else
        exporter_done(p);
}

static void drain(struct program *p)
{
    sampler_drain(p->sampler);
    words_go(p->words);
}

static void on_drain(uv_timer_t *timer)
{
    struct program *p = timer->data;
    drain(p);
    if (++p->drains % SWEEP_DRAINS == 0)
        collector_sweep(&p->collector, clock_monotonic());
}

static void on_ring(uv_poll_t *poll, int status, int events)
{
    struct program *p = poll->data;
    drain(p);
}

static void on_window(uv_timer_t *timer);

/* The first window is half as long: who has just started us looks for what comes. */
static void arm_window(struct program *p)
{
    double share = (1 + JITTER * (2 * rng_unit(&p->rng) - 1)) / (p->ticks == 0 ? 2 : 1);
    uv_timer_start(&p->window, on_window, (uint64_t)((double)p->options.interval_ns * share / NSEC_PER_MSEC),
                   0);
}

static void on_window(uv_timer_t *timer)
{
    struct program *p = timer->data;
    windows_end(p);
    arm_window(p);
}

static void on_end(uv_timer_t *timer)
{
    stop(timer->data);
}

static void on_signal(uv_signal_t *handle, int number)
{
    struct program *p = handle->data;
    if (p->stopping && !p->again) /* asked twice: do not wait for the receiver */
        _exit(128 + number);
    log_info("%s: sending the last window", strsignal(number));
    p->again = false; /* while it stopped to start anew */
    if (p->stopping)
        notify_stopping(p->notify);
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
    if (delivery_is_stuck(&p->delivery)) { /* execve waits for all threads */
        log_error("SIGHUP: nothing was changed: the spool's disk does not answer");
        return;
    }
    log_info("SIGHUP: starting anew");
    p->again = true;
    stop(p);
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
    uv_update_time(uv); /* the start may have taken seconds, which are none of --duration's */
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

static int run(struct program *p)
{
    int status = program_open(p);
    if (status) {
        again_back(p->argv);
        return status; /* the process ends: the kernel detaches and frees what was opened */
    }
    again_settle();
    int r = start_handles(p);
    if (r < 0) {
        log_error("starting: %s", uv_strerror(r));
        return EXIT_FAILED;
    }
    const uint32_t cpus = sampler_follow_cpus(p->sampler);
    char what[64] = "sampling events, not CPU time";
    if (!p->options.without_cpu)
        snprintf(what, sizeof what, "sampling %u CPUs at %u Hz", cpus, p->options.frequency);
    log_info("%s%s%s", what, p->options.print ? "" : ", sending to ",
             p->options.print ? "" : p->options.endpoint);
    io_signal_hold(SIGHUP, false);
    notify_ready(p->notify, p->loop);
    io_loop_run(p->loop);
    p->notify = notify_close(p->notify);
    surroundings_say_idle(&p->surroundings, &p->options, sampler_counts(p->sampler).taken, UINT64_MAX);
    figures_log(p, LOG_LEVEL_INFO);
    unwinder_log(p->unwinder, LOG_LEVEL_INFO);
    status = p->delivery.counts.lost || p->is_late ? EXIT_FAILED : EXIT_DONE;
    if (namer_is_busy(p->namer))
        return status; /* late: its thread cannot be waited for, and what it uses is left alone */
    namer_stop(p->namer);
    p->words = p->collector.words = words_free(p->words);
    delivery_close(&p->delivery);
    p->metrics = client_free(p->metrics);
    p->unwinder = unwinder_free(p->unwinder);
    p->known = known_free(p->known);
    p->is_left = io_loop_is_resolving(p->loop);
    if (p->is_left)
        return status;
    p->loop = io_loop_free(p->loop); /* closes the handles, one of which looks at the sampler's descriptor */
    p->sampler = sampler_close(p->sampler);
    p->namer = namer_free(p->namer);
    collector_release(&p->collector);
    p->fetch = fetch_free(p->fetch);
    p->stored = stored_free(p->stored);
    p->pods = pods_free(p->pods);
    p->is_left = p->fetch || p->pods;
    return status;
}

/* Who still names finds all closed then, for which libuv aborts. */
static void leave(int number)
{
    _exit(EXIT_FAILED);
}

int main(int argc, char **argv)
{
    static struct program p;
    struct error e = {0};
    signal(SIGPIPE, SIG_IGN);
    signal(SIGCHLD, SIG_IGN); /* who ran errands for who we were before SIGHUP has nobody to wait for him */
    io_signal_hold(SIGHUP, true);
    prctl(PR_SET_NAME, program_invocation_short_name); /* "exe", when it has started anew */
    /* What one file's debug information needs for a moment goes back at once; glibc would raise this to 32
     * MiB. */
    mallopt(M_MMAP_THRESHOLD, MMAP_THRESHOLD);
    if (options_read(&p.options, argc, argv, getenv, &e) < 0) {
        fprintf(stderr, "profsend: %s\n", e.text);
        again_back(argv);
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
    if (p.options.completion || p.options.manual) {
        p.options.manual ? options_manual(stdout) : options_completion(&p.options, stdout);
        return EXIT_DONE;
    }
    log_set_level(p.options.log_level);
    p.argc = argc;
    p.argv = argv;
    int status = run(&p);
    if (p.again && !p.delivery.was_left) {
        int r = again_start(argv, p.options.text);
        log_error("starting anew: %s", strerror(-r));
        status = EXIT_FAILED;
    }
    if (p.is_late || p.is_left) {
        signal(SIGABRT, leave);
        syscall(SYS_close_range, 3, ~0u, 0); /* who runs an errand shares them, and may stay */
        _exit(status);
    }
    options_release(&p.options);
    return status;
}
