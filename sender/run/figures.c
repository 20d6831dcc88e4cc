/* SPDX-License-Identifier: Apache-2.0 */
/*
 * profsend's own figures, for the log, the status page and as OTLP metrics.
 */
#include "proto/base/clock.h"
#include "sender/run/program.h"
#include "sender/report/telemetry.h"

/* Samples that windows had no room for: those that have ended, and the one that is open. */
static uint64_t dropped(const struct program *p)
{
    return p->dropped + p->collector.window.dropped + p->collector.refused;
}

void figures_log(struct program *p, enum log_level level)
{
    struct sampler_counts counts = sampler_counts(p->sampler);
    struct binaries_counts names = namer_counts(p->namer)->binaries;
    double seconds = (double)(clock_monotonic() - p->begun) / NSEC_PER_SEC;
    unsigned long long lost =
        counts.lost + counts.busy + counts.unended + counts.malformed + p->collector.pending.dropped;
    log_write(
        level,
        "own use: samples=%llu lost=%llu pending=%u exec_lost=%llu dropped=%llu sent=%llu rejected=%llu unsent=%llu "
        "stretched=%llu processes=%u files=%u with_debug=%u looked_up=%llu recalled=%llu evicted=%llu names_kb=%zu kernel_kb=%zu cpu_percent=%.3f rss_kb=%zu",
        (unsigned long long)counts.taken, lost, p->collector.pending.n, (unsigned long long)counts.exec_lost,
        (unsigned long long)dropped(p), (unsigned long long)p->delivery.counts.sent,
        (unsigned long long)p->delivery.counts.rejected, (unsigned long long)p->delivery.counts.lost,
        (unsigned long long)p->stretched, procs_count(p->collector.procs), names.files, names.debug,
        (unsigned long long)names.looked_up, (unsigned long long)names.recalled,
        (unsigned long long)names.evicted, names.memory / 1024, namer_counts(p->namer)->kernel_memory / 1024,
        100 * (double)host_own_cpu() / NSEC_PER_SEC / seconds, host_own_memory() / 1024);
}

static struct telemetry read_telemetry(struct program *p)
{
    uint64_t now = clock_realtime();
    struct loader_counts tables = unwinder_counts(p->unwinder);
    return (struct telemetry){
        .sampler = sampler_counts(p->sampler),
        .delivery = p->delivery.counts,
        .spool = delivery_spool(&p->delivery),
        .window_dropped = dropped(p),
        .unwanted = p->unwanted,
        .frames_replaced = p->collector.replaced,
        .pods = p->pods ? pods_counts(p->pods) : (struct pods_counts){0},
        .matches_given_up = p->options.relabel ? relabel_given_up(p->options.relabel) : 0,
        .tables_unpaid = tables.unpaid,
        .tables_refused = tables.tables.refused,
        .tables_failed = tables.failed,
        .pending_dropped = p->collector.pending.dropped,
        .cpu_ns = host_own_cpu(),
        .memory = host_own_memory(),
        .begun = now - (clock_monotonic() - p->begun),
        .now = now,
        .processes = procs_count(p->collector.procs),
        .files = namer_counts(p->namer)->binaries.files,
        .windows = p->windows,
        .windows_stretched = p->stretched,
        .naming_ns = p->naming_ns,
        .pending = p->collector.pending.n,
        .endpoint = p->options.print ? "standard output" : p->options.endpoint,
        .host_name = p->host.name,
    };
}

int figures_status(void *user, enum status_page page, struct buffer *out)
{
    struct telemetry t = read_telemetry(user);
    return page == STATUS_METRICS ? telemetry_exposition(&t, out) : telemetry_text(&t, out);
}

void figures_send(struct program *p)
{
    struct buffer out = {0};
    struct telemetry t = read_telemetry(p);
    if (!p->metrics || telemetry_encode(&t, &out) < 0) {
        buffer_release(&out);
        return;
    }
    size_t n;
    uint8_t *bytes = buffer_take(&out, &n);
    struct client_body *body = client_body_new(bytes, n);
    if (body)
        client_push_newest(p->metrics, body, 1);
    client_body_unref(body);
}

/* What became of a report of our own figures. The next one says the same and more: no loss to speak of. */
static void on_metrics_event(void *user, const struct client_event *event)
{
    if (client_event_is_loss(event->kind))
        log_limited(LOG_LEVEL_WARN, "our own figures were not delivered: %s",
                    event->message ? event->message : "");
}

int figures_open(struct program *p, struct error *e)
{
    struct client_options x = exporter_options(&p->options, OTLP_METRICS, p->options.metrics_endpoint);
    x.queue.queue_size = 4; /* each says all that was before */
    return client_new(&p->metrics, p->loop, &x, on_metrics_event, p, e);
}
