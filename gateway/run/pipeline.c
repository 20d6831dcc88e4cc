/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/run/pipeline.h"

#include <errno.h>
#include <stdlib.h>

#include "gateway/ingest/consumer.h"
#include "proto/base/clock.h"
#include "proto/base/macros.h"
#include "proto/base/meter.h"

static bool is_seconds(const struct rule_metric *metric)
{
    for (uint32_t i = 0; i < metric->n_sources; i++)
        if (metric->sources[i].value == RULE_VALUE_TIME)
            return true;
    return false;
}

struct aggregate_metric *pipeline_metrics(const struct rules_program *program, uint32_t *ret_n)
{
    uint32_t n = rules_program_metrics(program);
    struct aggregate_metric *metrics = calloc(n + 1, sizeof *metrics);
    for (uint32_t i = 0; i < n && metrics; i++) {
        const struct rule_metric *m = rules_program_metric(program, i);
        metrics[i] = (struct aggregate_metric){
            .name = m->name,
            .description = m->describe,
            .unit = m->unit,
            .kind = m->gauge ? METRIC_GAUGE : METRIC_SUM,
            .is_seconds = is_seconds(m),
            .limit = m->limit,
            .largest = m->largest,
            .keeps_last = m->gauge && m->combine == RULE_COMBINE_LAST,
        };
    }
    *ret_n = n;
    return metrics;
}

/* ---- forward's questions to classify ---- */

static bool has_rules(void *context)
{
    return classify_keep_has_rules(context);
}

static int begin_keep(void *context, const struct profiles *view)
{
    return classify_keep_begin(context, view);
}

static int ask_keep(void *context, uint32_t profile, uint32_t sample, struct keep_said *ret)
{
    const struct rules_kept *kept;
    _Static_assert(KEEP_ONE == RULE_SHARE_ONE, "both are millionths");
    int r = classify_keep_sample(context, profile, sample, &kept);
    *ret = (struct keep_said){0};
    if (r == 0 && kept)
        *ret = (struct keep_said){
            .dropped = kept->dropped != RULES_NONE,
            .of_stacks = kept->share[RULE_OF_STACKS],
            .of_profiles = kept->share[RULE_OF_PROFILES],
            .of_samples = kept->share[RULE_OF_SAMPLES],
            .rates = kept->rates,
            .n_rates = kept->n_rates,
        };
    return r;
}

static void ask_rate(void *context, uint32_t rate, struct keep_rate *ret)
{
    const struct rule_keep *keep = classify_keep_rate(context, rate, &ret->rule, &ret->text);
    ret->count = keep->count;
    ret->per_second = keep->per_second;
}

static void end_keep(void *context)
{
    classify_keep_end(context);
}

/* ---- who wants a request's view ---- */

static int count(void *context, const struct profiles *view, const struct received *received,
                 size_t body_bytes)
{
    int r = classify_push(context, view);
    return r == CLASSIFY_TOO_MUCH_WORK ? VIEW_TOO_MUCH_WORK : r;
}

static size_t count_memory_used(const void *context)
{
    return classify_memory_used(context);
}

static size_t count_memory_peak(const void *context)
{
    return classify_memory_peak(context);
}

static void rest_count(void *context)
{
    classify_rest(context);
}

static void forget_count(void *context)
{
    classify_forget(context);
}

static void count_from(void *context, uint64_t client)
{
    classify_from(context, client);
}

static bool reserve_forward(void *context, size_t body_bytes)
{
    return forward_reserve(context, body_bytes);
}

static bool never_fits_forward(const void *context, size_t body_bytes)
{
    return forward_never_fits(context, body_bytes);
}

static int push_forward(void *context, const struct profiles *view, const struct received *received,
                        size_t body_bytes)
{
    forward_push(context, view, received, body_bytes);
    return 0;
}

static void take_over_forward(void *context, struct received *received)
{
    forward_take_over(context, received);
}

static struct promise *owed_forward(void *context)
{
    return forward_owed(context);
}

static void cancel_forward(void *context, size_t body_bytes)
{
    forward_cancel(context, body_bytes);
}

static void look_live(void *context, struct bytes body, enum profiles_layout layout,
                      const struct profiles *view)
{
    live_look(context, body, layout, view);
}

static int push_look(void *context, const struct profiles *view, const struct received *received,
                     size_t body_bytes)
{
    look_tap_push(context, view, clock_realtime());
    return 0;
}

static size_t look_memory_used(const void *context)
{
    return look_tap_memory_used(context);
}

/* What is charged with what a request takes while it is worked on. */
static struct budget *request_budget(const struct pipeline_options *options)
{
    return options->meter ? &options->meter->budget : options->budget;
}

/* A list of those that there are. */
static struct ingest *new_ingest(const struct pipeline *p, const struct pipeline_options *options)
{
    const struct view_consumer consumers[] = {
        {
            .push = count,
            .memory_used = count_memory_used,
            .memory_peak = count_memory_peak,
            .rest = rest_count,
            .forget = forget_count,
            .from = count_from,
            .context = p->classify,
        },
        {
            .reserve = reserve_forward,
            .full = "a destination's queue is full; try again",
            .never_fits = never_fits_forward,
            .too_large = "larger than a destination's queue or storage (queue_bytes, storage_size)",
            .push = push_forward,
            .take_over = take_over_forward,
            .owed = owed_forward,
            .cancel = cancel_forward,
            .context = p->forward,
        },
        {.push = push_look,
         .memory_used = look_memory_used,
         .memory_peak = look_memory_used,
         .context = options->tap},
        {.look = look_live, .context = p->live},
    };
    struct view_consumer wanted[ARRAY_LEN(consumers)];
    uint32_t n = 0;
    for (uint32_t i = 0; i < ARRAY_LEN(consumers); i++)
        if (consumers[i].context)
            wanted[n++] = consumers[i];
    struct ingest_options ingest = options->ingest;
    ingest.meter = options->meter;
    return ingest_new(&ingest, wanted, n, p->stats, request_budget(options));
}

static struct forward *new_forward(struct pipeline *p, const struct pipeline_options *options)
{
    struct forward_options forward = options->forward;
    forward.decider = (struct keep_decider){p->keep, has_rules, begin_keep, ask_keep, ask_rate, end_keep};
    /* Where everything is kept there is nothing to capture. */
    if (options->captures && (forward.keep < 1 || has_rules(p->keep))) {
        p->capturing = capturing_new(options->captures, &forward.decider);
        if (!p->capturing)
            return NULL;
        forward.decider = capturing_decider(p->capturing);
    }
    return forward_new(&forward, options->destinations, p->stats, options->budget);
}

int pipeline_init(struct pipeline *p, const struct pipeline_options *options)
{
    *p = (struct pipeline){.stats = options->stats ? options->stats : stats_new()};
    p->aggregate = aggregate_new(options->metrics, options->n_metrics, options->budget);
    if (p->aggregate && options->generation > 0)
        aggregate_set_generation(p->aggregate, options->generation);
    if (p->aggregate && options->value_length_limit > 0)
        aggregate_cut_values(p->aggregate, options->value_length_limit, p->stats);
    if (p->aggregate)
        aggregate_charge_to(p->aggregate, options->accounts);
    if (p->stats && p->aggregate)
        p->classify = classify_new(options->program, p->aggregate, p->stats, request_budget(options));
    if (p->classify && options->destinations)
        p->keep = classify_keep_new(p->classify);
    if (p->keep)
        p->forward = new_forward(p, options);
    const bool checks = options->board && options->check_share > 0;
    if (p->classify && checks)
        p->live = live_new(options->board, options->check_share, p->stats, options->budget);
    if (p->classify && (p->forward || !options->destinations) && (p->live || !checks))
        p->ingest = new_ingest(p, options);
    if (p->ingest)
        return 0;
    pipeline_release(p);
    return -ENOMEM;
}

void pipeline_release(struct pipeline *p)
{
    p->ingest = ingest_free(p->ingest);
    p->live = live_free(p->live);
    p->forward = forward_free(p->forward);
    p->capturing = capturing_free(p->capturing);
    p->keep = classify_keep_free(p->keep);
    p->classify = classify_free(p->classify);
    p->aggregate = aggregate_free(p->aggregate);
}

void pipeline_look(struct pipeline *p)
{
    if (p->capturing)
        capturing_look(p->capturing);
    ingest_look(p->ingest);
}
