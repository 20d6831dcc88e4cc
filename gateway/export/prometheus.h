/*
 * A cumulative batch as Prometheus text 0.0.4 (Content-Type: text/plain; version=0.0.4; charset=utf-8).
 *
 * Names follow "Prometheus and OpenMetrics Compatibility" of the OpenTelemetry specification with the
 * translation strategy UnderscoreEscapingWithSuffixes: profile.cpu.time in s is
 * profile_cpu_time_seconds_total.
 *
 * Resources: `job` is service.namespace/service.name (or the name alone) and `instance` service.instance.id.
 * In profiles a resource is one process, and most processes have no service.instance.id; so the
 * specification's way, everything else in target_info, would leave series that cannot be told apart.
 * Therefore every resource attribute in the batch (the output's projection chose them: store.h) beside those
 * three is also a label of each series. Scrape with `honor_labels: true` to keep job and instance; an
 * attribute that would become `job` or `instance` itself is named exported_job or exported_instance, as
 * Prometheus does.
 */
#ifndef GATEWAY_EXPORT_PROMETHEUS_H
#define GATEWAY_EXPORT_PROMETHEUS_H

#include <stdbool.h>

#include "proto/base/buffer.h"
#include "proto/otlp/metrics.h"

#define PROMETHEUS_CONTENT_TYPE "text/plain; version=0.0.4; charset=utf-8"

struct prometheus_options {
    /* Adds otel_scope_name and otel_scope_version to each series. The specification has it on by default;
     * here it is off: every batch has one scope, so the labels would tell nothing and cost bytes in each
     * line. */
    bool scope_labels;
};

/* Appends the batch. No timestamps; stale points are left out (a series that is gone is stale to Prometheus).
 * Series whose labels become equal are added up. A metric whose type disagrees with an earlier one of the
 * same name is left out and a comment says so; of two descriptions the first stays. Delta sums are refused:
 * -EINVAL. 0, -ENOMEM, -ENOBUFS; the buffer is as before when it fails. options may be NULL. */
int prometheus_write(const struct metric_batch *batch, const struct prometheus_options *options,
                     struct buffer *out);

/* Appends the metric name. 0, -ENOMEM, -ENOBUFS. */
int prometheus_name(struct bytes name, struct bytes unit, enum metric_kind kind, struct buffer *out);

/* Appends the label name for an attribute key. 0, -ENOMEM, -ENOBUFS. */
int prometheus_label_name(struct bytes key, struct buffer *out);

#endif
