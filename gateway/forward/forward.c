#include "gateway/forward/forward.h"

#include <stdlib.h>

#include "gateway/export/profiles.h"
#include "gateway/forward/pick.h"
#include "gateway/stats/stats.h"
#include "proto/base/arena.h"
#include "proto/base/log.h"
#include "proto/otlp/subset.h"

/* Says on a profile with what probability each of its stacks was kept (README.md). */
#define KEEP_ATTRIBUTE "profgate.keep.probability"

/* Working memory kept from one request to the next. */
#define SCRATCH_KEEP_MAX (1u << 20)

struct forward {
    struct forward_options options;
    struct export_profiles *destinations;
    struct stats *stats;
    struct pick pick;
    struct arena scratch;
};

struct forward *forward_new(const struct forward_options *options, struct export_profiles *destinations,
                            struct stats *stats, struct budget *budget)
{
    struct forward *f = calloc(1, sizeof *f);
    if (!f)
        return NULL;
    f->options = *options;
    /* A share that is none keeps nothing and says so by what it counts: never more than was asked for. */
    if (!(f->options.keep > 0))
        f->options.keep = 0;
    if (f->options.keep > 1)
        f->options.keep = 1;
    f->destinations = destinations;
    f->stats = stats;
    f->pick.budget = budget;
    f->scratch = (struct arena)ARENA_INIT(budget);
    return f;
}

struct forward *forward_free(struct forward *f)
{
    if (!f)
        return NULL;
    pick_release(&f->pick);
    arena_release(&f->scratch);
    free(f);
    return NULL;
}

bool forward_reserve(struct forward *f, size_t body_bytes)
{
    return f->options.keep == 0 || export_profiles_reserve(f->destinations, body_bytes);
}

void forward_cancel(struct forward *f, size_t body_bytes)
{
    if (f->options.keep > 0)
        export_profiles_cancel(f->destinations, body_bytes);
}

static uint64_t count_accepted(const struct profiles *view)
{
    return view->sample.n - view->rejected.samples;
}

/* The samples are lost and the reservation given back. */
static void drop(struct forward *f, size_t body_bytes, uint64_t samples, const char *why)
{
    forward_cancel(f, body_bytes);
    stats_add(f->stats, STATS_FORWARD_DROPPED, samples);
    log_limited(LOG_LEVEL_ERROR, "forwarding raw profiles: lost %llu samples: %s",
                (unsigned long long)samples, why);
}

/* A tiny request can grow by its new attribute, and an older layout by its translation to 1.10: then room is
 * needed beyond the reservation. False: there is none, and all is settled. */
static bool reserve_for(struct forward *f, size_t n, size_t *reserved, uint64_t samples)
{
    if (n <= *reserved)
        return true;
    if (!export_profiles_reserve(f->destinations, n)) {
        drop(f, *reserved, samples, "a destination's queue is full");
        return false;
    }
    export_profiles_cancel(f->destinations, *reserved);
    *reserved = n;
    return true;
}

/* keep = 1: the bytes as they came, with what we do not understand in them; of a layout before 1.10, the
 * bytes of its translation, because those behind us read 1.10. */
static void push_untouched(struct forward *f, const struct profiles *view, size_t body_bytes)
{
    uint64_t samples = count_accepted(view);
    if (!reserve_for(f, view->body.n, &body_bytes, samples))
        return;
    uint8_t *copy = malloc(view->body.n ? view->body.n : 1);
    if (!copy) {
        drop(f, body_bytes, samples, "out of memory");
        return;
    }
    memcpy(copy, view->body.p, view->body.n);
    stats_add(f->stats, STATS_FORWARD_SAMPLES, samples);
    export_profiles_push(f->destinations, copy, view->body.n, body_bytes, samples);
}

static void push_built(struct forward *f, struct buffer *out, size_t body_bytes, uint64_t samples)
{
    size_t n;
    if (!reserve_for(f, out->n, &body_bytes, samples))
        return;
    uint8_t *p = buffer_take(out, &n);
    stats_add(f->stats, STATS_FORWARD_SAMPLES, samples);
    export_profiles_push(f->destinations, p, n, body_bytes, samples);
}

static void push_thinned(struct forward *f, const struct profiles *view, size_t body_bytes)
{
    const struct subset_mark mark = {
        .key = BYTES_LIT(KEEP_ATTRIBUTE), .probability = f->options.keep, .on_profiles = true};
    if (pick_samples(&f->pick, view, f->options.keep, f->options.seed) < 0) {
        drop(f, body_bytes, count_accepted(view), "out of memory");
        return;
    }
    stats_add(f->stats, STATS_FORWARD_THINNED, f->pick.thinned);
    if (f->pick.kept == 0) {
        forward_cancel(f,
                       body_bytes); /* no empty envelopes (OTLP specification, "Empty Telemetry Envelopes") */
        return;
    }
    struct buffer out = BUFFER_INIT(0);
    if (profiles_subset(view, f->pick.keep, &mark, &f->scratch, &out) < 0)
        drop(f, body_bytes, f->pick.kept, "out of memory");
    else
        push_built(f, &out, body_bytes, f->pick.kept);
    buffer_release(&out);
}

void forward_push(struct forward *f, const struct profiles *view, size_t body_bytes)
{
    uint64_t samples = count_accepted(view);
    if (f->options.keep == 0) {
        stats_add(f->stats, STATS_FORWARD_THINNED, samples);
    } else if (samples == 0) {
        forward_cancel(f, body_bytes);
    } else if (f->options.keep == 1) {
        push_untouched(f, view, body_bytes);
    } else {
        push_thinned(f, view, body_bytes);
        arena_reset(&f->scratch, SCRATCH_KEEP_MAX);
        pick_trim(&f->pick);
    }
}
