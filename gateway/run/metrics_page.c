/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/run/metrics_page.h"

#include <errno.h>
#include <stdlib.h>

#include "gateway/aggregate/store.h"
#include "gateway/export/prometheus/prometheus.h"
#include "gateway/run/counting.h"
#include "gateway/run/metrics_json.h"
#include "gateway/run/outputs.h"
#include "proto/base/macros.h"

/* Large enough that a page is few pieces, small enough that one is written within a millisecond. */
#define PIECE_BYTES ((size_t)64 << 10)

struct metrics_page {
    struct prometheus_options options;
    struct outputs *outputs;    /* NULL: what was counted is not asked for */
    struct metric_batch *batch; /* what was counted */
    struct output_receipt *receipt;
    struct prometheus_page *counted;
    struct counting *counting; /* what `json` speaks of; in text nobody's */
    const char *pack;
    struct metrics_json *json; /* instead of all else */
    struct buffer self;        /* what the gateway knows of itself */
};

static struct prometheus_options options_of(const struct outputs *o, const struct admin_metrics *wanted)
{
    struct prometheus_options options = outputs_names(o);
    bool open = wanted->format == ADMIN_OPENMETRICS_0_0_1 || wanted->format == ADMIN_OPENMETRICS_1_0_0;
    options.format = open ? PROMETHEUS_OPENMETRICS : PROMETHEUS_TEXT;
    options.escaping = wanted->escaping;
    options.own_target = true;
    return options;
}

/* Where metrics.exporters has no prometheus nothing is collected for pages: an empty one says so. */
static int begin_json(struct metrics_page *p)
{
    if (!p->batch)
        p->batch = metric_batch_new(NULL);
    if (!p->batch)
        return -ENOMEM;
    p->json = metrics_json_new(p->batch, p->counting->rules.program, p->pack);
    return p->json ? 0 : -ENOMEM;
}

int metrics_page_new(struct metrics_page **ret, struct outputs *o, struct counting *counting,
                     const struct admin_metrics *wanted)
{
    struct metrics_page *p = calloc(1, sizeof *p);
    if (!p)
        return -ENOMEM;
    p->options = options_of(o, wanted);
    p->outputs = wanted->what & ADMIN_METRICS_PROFILES ? o : NULL;
    int r = 0;
    if (wanted->format == ADMIN_JSON) {
        p->counting = counting_use(counting);
        p->pack = wanted->pack;
    }
    if (wanted->what & ADMIN_METRICS_SELF)
        r = outputs_self(o, p->options.format, &p->self);
    if (r < 0)
        metrics_page_free(p);
    else
        *ret = p;
    return r;
}

struct metrics_page *metrics_page_free(struct metrics_page *p)
{
    if (!p)
        return NULL;
    prometheus_page_free(p->counted);
    metrics_json_free(p->json);
    counting_drop(p->counting);
    metric_batch_free(p->batch);
    output_receipt_free(p->receipt);
    buffer_release(&p->self);
    free(p);
    return NULL;
}

int metrics_page_take(struct metrics_page *p)
{
    int r = p->outputs ? outputs_show(p->outputs, &p->batch, &p->receipt) : 0;
    return r == 0 && p->counting ? begin_json(p) : r;
}

struct output_receipt *metrics_page_receipt(struct metrics_page *p)
{
    return take_ptr(p->receipt);
}

static int next_counted(struct metrics_page *p, struct buffer *out)
{
    int r = p->counted ? 0 : prometheus_page_new(&p->counted, p->batch, &p->options);
    if (r == 0)
        r = prometheus_page_next(p->counted, PIECE_BYTES, out);
    if (r == PROMETHEUS_PAGE_ENDS) {
        p->counted = prometheus_page_free(p->counted);
        p->batch = metric_batch_free(p->batch);
        r = 0;
    }
    return r;
}

int metrics_page_next(struct metrics_page *p, struct buffer *out)
{
    if (p->json) {
        int r = metrics_json_next(p->json, PIECE_BYTES, out);
        return r == METRICS_JSON_ENDS ? METRICS_PAGE_ENDS : r;
    }
    if (p->batch)
        return next_counted(p, out);
    int r = buffer_add_bytes(out, buffer_bytes(&p->self));
    if (r == 0)
        r = prometheus_end(p->options.format, out);
    return r < 0 ? r : METRICS_PAGE_ENDS;
}
