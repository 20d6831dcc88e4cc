/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When windows end: from the collector to the namer, and from there to delivery.
 */
#include "proto/base/clock.h"
#include "proto/base/log.h"
#include "proto/base/macros.h"
#include "sender/run/program.h"

/* Our own figures go out with the first window and every so many. */
#define METRICS_WINDOWS 3u
/* At the end: how long names may take. They have an allowance of work of some seconds; more is a disk that is
 * away, or a machine that gives them little of a CPU: while they use as much as this of it they may go on, so
 * often. What was named before is being sent meanwhile. */
#define NAMING_FAREWELL_MS   10000u
#define NAMING_FAREWELLS_MAX 4u
#define NAMING_WORKS_NS      (10 * (uint64_t)NSEC_PER_MSEC)

/* Hands the collector's window on. False: there is nothing in it. */
static bool hand_on(struct program *p, uint64_t now)
{
    struct collector *c = &p->collector;
    uint64_t begun = p->window_begun;
    p->window_begun = now;
    p->dropped += c->window.dropped + c->refused;
    if (window_samples(&c->window) == 0) {
        window_clear(&c->window);
        c->refused = 0;
        return false;
    }
    struct request_facts facts = {
        .kinds = &p->options.kinds,
        .pods = p->pods,
        .relabel = p->options.relabel,
        .realtime_offset = (int64_t)(clock_realtime() - clock_monotonic()),
        .boot_offset = (int64_t)(clock_realtime() - clock_boot()),
        .start = begun,
        .end = now,
        .max_bytes = REQUEST_BYTES_MAX,
    };
    host_facts(&p->host, &facts);
    p->named = c->window.time.n;
    p->windows++;
    namer_begin(p->namer, c, &facts);
    return true;
}

void windows_end(struct program *p)
{
    sampler_drain(p->sampler);
    if (namer_is_busy(p->namer))
        p->stretched++;
    else
        (void)hand_on(p, clock_monotonic());
    if (++p->ticks % METRICS_WINDOWS == 1)
        figures_send(p);
    sampler_follow_cpus(p->sampler);
    surroundings_say_idle(&p->surroundings, &p->options, sampler_counts(p->sampler).taken,
                          clock_monotonic() - p->begun);
    figures_log(p, LOG_LEVEL_DEBUG);
    unwinder_log(p->unwinder, LOG_LEVEL_DEBUG);
}

void windows_request(void *user, struct buffer *out, uint64_t hits)
{
    struct program *p = user;
    if (p->is_late) /* counted; and delivery takes nothing any more */
        return;
    delivery_push(&p->delivery, out, hits);
}

/* Says once what keeps kernel frames without names. */
static void check_kernel_names(struct program *p)
{
    int state = namer_counts(p->namer)->kernel_state;
    if (state == 0 || p->said_hidden)
        return;
    p->said_hidden = true;
    log_warn("kernel frames have no names: %s", strerror(-state));
}

void windows_named(void *user, const struct namer_result *result)
{
    struct program *p = user;
    p->naming_ns += result->took_ns;
    p->unwanted += result->unwanted;
    if (p->is_late)
        return;
    check_kernel_names(p);
    if (result->result < 0) {
        p->dropped += result->lost;
        log_limited(LOG_LEVEL_ERROR, "%llu of a window's %u samples were dropped: %s",
                    (unsigned long long)result->lost, p->named, strerror(-result->result));
    }
    if (p->stopping)
        windows_finish(p);
}

static void on_late(uv_timer_t *timer);

static void be_patient(struct program *p)
{
    p->end_cpu = clock_process(); /* at the end hardly any thread but theirs has work */
    uv_timer_start(&p->end, on_late, NAMING_FAREWELL_MS, 0);
}

static void on_late(uv_timer_t *timer)
{
    struct program *p = timer->data;
    if (++p->n_farewells < NAMING_FAREWELLS_MAX && clock_process() - p->end_cpu >= NAMING_WORKS_NS) {
        be_patient(p);
        return;
    }
    uint64_t left = p->named + (p->is_last ? 0 : p->collector.window.time.n);
    p->is_late = true;
    p->dropped += left;
    log_error("names took longer than %u s: the last %llu samples are not sent",
              p->n_farewells * NAMING_FAREWELL_MS / 1000, (unsigned long long)left);
    program_farewell(p);
}

void windows_finish(struct program *p)
{
    bool is_busy = namer_is_busy(p->namer);
    if (!is_busy && !p->is_last) {
        p->is_last = true;
        is_busy = hand_on(p, clock_monotonic());
    }
    if (!is_busy) {
        uv_timer_stop(&p->end);
        program_farewell(p);
    } else if (!uv_is_active((uv_handle_t *)&p->end)) {
        be_patient(p);
    }
}
