/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/export/profiles.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "gateway/export/destination.h"
#include "gateway/export/outcome.h"
#include "proto/base/log.h"
#include "proto/base/macros.h"
#include "proto/otlp/layouts/layout_1_9.h"

struct export_profiles {
    uint32_t n, n_running;
    struct export_profiles_terms terms;
    struct stats *stats;
    atomic_uint_fast64_t unbuilt; /* samples lost to out of memory on a worker; counted on the loop */
    void (*done)(void *user);
    void *done_user;
    bool abandoned; /* never became anybody's: frees itself */
    bool has_1_10;
    struct profiles_destination {
        struct outcome outcome;
        bool layout_1_9;
    } to[];
};

bool export_profiles_reserve(struct export_profiles *x, size_t n)
{
    for (uint32_t i = 0; i < x->n; i++) {
        if (otlp_exporter_reserve(x->to[i].outcome.exporter, n))
            continue;
        while (i-- > 0)
            otlp_exporter_cancel(x->to[i].outcome.exporter, n);
        return false;
    }
    return true;
}

void export_profiles_cancel(struct export_profiles *x, size_t n)
{
    for (uint32_t i = 0; i < x->n; i++)
        otlp_exporter_cancel(x->to[i].outcome.exporter, n);
}

/* The body in layout 1.9: a copy, or itself if nobody else needs it. NULL: memory is out (or, which the terms
 * exclude, it is no such message). */
static struct client_body *in_1_9(struct export_profiles *x, uint8_t *body, size_t n)
{
    uint8_t *p = body;
    if (x->has_1_10) {
        p = malloc(n ? n : 1);
        if (!p)
            return NULL;
        memcpy(p, body, n);
    }
    if (profiles_to_1_9(p, n) < 0) {
        free(p);
        return NULL;
    }
    return client_body_new(p, n);
}

struct export_profiles_terms export_profiles_terms(const struct export_profiles *x)
{
    return x->terms;
}

void export_profiles_push(struct export_profiles *x, uint8_t *body, size_t n, size_t reserved,
                          uint64_t n_samples)
{
    struct client_body *older = x->terms.no_references ? in_1_9(x, body, n) : NULL;
    struct client_body *shared = x->has_1_10 ? client_body_new(body, n) : NULL;
    for (uint32_t i = 0; i < x->n; i++) {
        struct client_body *mine = x->to[i].layout_1_9 ? older : shared;
        if (mine) {
            otlp_exporter_push(x->to[i].outcome.exporter, mine, reserved, n_samples);
            continue;
        }
        otlp_exporter_cancel(x->to[i].outcome.exporter, reserved);
        atomic_fetch_add(&x->unbuilt, n_samples); /* counted with the next push, or at the end */
    }
    client_body_unref(older);
    client_body_unref(shared);
}

/* What workers could not count themselves: their blocks of counters are not ours. */
static void count_unbuilt(struct export_profiles *x)
{
    uint64_t samples = atomic_exchange(&x->unbuilt, 0);
    if (samples == 0)
        return;
    stats_add(x->stats, STATS_FORWARD_DROPPED, samples);
    log_limited(LOG_LEVEL_ERROR, "raw profiles: lost samples for lack of memory");
}

/* Whenever workers pushed something. */
static void on_queued(void *user)
{
    struct outcome *o = user;
    outcome_queued(o);
    count_unbuilt(o->context);
}

static void on_done(void *user)
{
    struct export_profiles *x = user;
    if (--x->n_running > 0)
        return;
    count_unbuilt(x);
    if (x->abandoned)
        export_profiles_free(x);
    else
        x->done(x->done_user);
}

static void shutdown_all(struct export_profiles *x, uint64_t deadline_ns)
{
    x->n_running = x->n;
    for (uint32_t i = 0; i < x->n; i++)
        otlp_exporter_shutdown(x->to[i].outcome.exporter, deadline_ns, on_done, x);
}

void export_profiles_shutdown(struct export_profiles *x, uint64_t deadline_ns, void (*done)(void *user),
                              void *user)
{
    x->done = done;
    x->done_user = user;
    shutdown_all(x, deadline_ns);
}

static int add_destination(struct export_profiles *x, struct io_loop *loop,
                           const struct destination_options *options, struct error *e)
{
    struct outcome *o = &x->to[x->n].outcome;
    struct otlp_exporter_options otlp = options->otlp;
    if (options->kind == DESTINATION_FILE)
        return error_set(e, -EINVAL,
                         "%s: raw profiles cannot be written to a file yet, only sent as OTLP; "
                         "name an otlp exporter in profiles.exporters",
                         options->name);
    if (options->kind == DESTINATION_REMOTE_WRITE)
        return error_set(e, -EINVAL, "%s: remote write takes metrics, not profiles", options->name);
    *o = (struct outcome){
        .name = strdup(options->name), .signal = OTLP_PROFILES, .stats = x->stats, .context = x};
    if (!o->name)
        return error_set(e, -ENOMEM, "out of memory");
    otlp.signal = OTLP_PROFILES;
    int r = otlp_exporter_new(&o->exporter, loop, &otlp, outcome_event, o, e);
    if (r < 0) {
        free(o->name);
        return error_prefix(e, r, "%s: ", options->name);
    }
    otlp_exporter_on_queued(o->exporter, on_queued, o);
    x->to[x->n++].layout_1_9 = options->layout_1_9;
    x->has_1_10 |= !options->layout_1_9;
    x->terms.no_references |= options->layout_1_9;
    x->terms.request_max = min_of(x->terms.request_max, otlp.max_request_bytes);
    x->terms.queue_size = min_of(x->terms.queue_size, otlp.queue.queue_size);
    return 0;
}

int export_profiles_new(struct export_profiles **ret, struct io_loop *loop,
                        const struct destination_options *options, uint32_t n, struct stats *stats,
                        struct error *e)
{
    struct export_profiles *x = calloc(1, sizeof *x + n * sizeof *x->to);
    if (!x)
        return error_set(e, -ENOMEM, "out of memory");
    x->stats = stats;
    x->terms = (struct export_profiles_terms){.request_max = SIZE_MAX, .queue_size = UINT32_MAX};
    for (uint32_t i = 0; i < n; i++) {
        int r = add_destination(x, loop, &options[i], e);
        if (r < 0) {
            x->abandoned = true; /* those before it have handles on the loop, which only the loop can close */
            if (x->n > 0)
                shutdown_all(x, 0);
            else
                export_profiles_free(x);
            return r;
        }
    }
    *ret = x;
    return 0;
}

struct export_profiles *export_profiles_free(struct export_profiles *x)
{
    if (!x)
        return NULL;
    for (uint32_t i = 0; i < x->n; i++) {
        otlp_exporter_free(x->to[i].outcome.exporter);
        free(x->to[i].outcome.name);
    }
    free(x);
    return NULL;
}
