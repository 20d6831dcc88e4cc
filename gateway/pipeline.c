#include "gateway/pipeline.h"

#include <errno.h>
#include <stdlib.h>

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
        };
    }
    *ret_n = n;
    return metrics;
}

int pipeline_init(struct pipeline *p, const struct pipeline_options *options)
{
    *p = (struct pipeline){.stats = options->stats ? options->stats : stats_new()};
    p->aggregate = aggregate_new(options->metrics, options->n_metrics, options->budget);
    if (p->aggregate && options->generation > 0)
        aggregate_set_generation(p->aggregate, options->generation);
    if (p->stats && p->aggregate)
        p->classify = classify_new(options->program, p->aggregate, p->stats, options->budget);
    if (p->classify && options->destinations)
        p->forward = forward_new(&options->forward, options->destinations, p->stats, options->budget);
    if (p->classify && (p->forward || !options->destinations))
        p->ingest = ingest_new(&options->ingest, p->classify, p->forward, p->stats, options->budget);
    if (p->ingest)
        return 0;
    pipeline_release(p);
    return -ENOMEM;
}

void pipeline_release(struct pipeline *p)
{
    p->ingest = ingest_free(p->ingest);
    p->forward = forward_free(p->forward);
    p->classify = classify_free(p->classify);
    p->aggregate = aggregate_free(p->aggregate);
}
