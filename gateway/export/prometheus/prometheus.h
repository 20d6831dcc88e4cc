/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A cumulative batch as Prometheus and OpenMetrics text.
 *
 * Names follow "Prometheus and OpenMetrics Compatibility" of the OpenTelemetry specification: one of its four
 * translation strategies, then the escaping that the scraper asked for ("Scrape protocol content negotiation"
 * and "Escaping schemes" of the Prometheus documentation). By default profile.cpu.time in s is
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
#ifndef GATEWAY_EXPORT_PROMETHEUS_PROMETHEUS_H
#define GATEWAY_EXPORT_PROMETHEUS_PROMETHEUS_H

#include "gateway/export/prometheus/names.h"

struct prometheus_page;

/* Of the batch, which must outlive it. No timestamps; stale points are left out (a series that is gone is
 * stale to Prometheus). Series whose labels become equal are added up. A metric whose type disagrees with an
 * earlier one of the same name is left out (in text a comment says so; OpenMetrics has no comments); of two
 * descriptions the first stays. Delta sums are refused: -EINVAL. 0 or -ENOMEM. options may be NULL.
 *
 * OpenMetrics (1.0): counters have their exemplar, units their line where the name ends in them, a counter
 * whose name does not end in _total is `unknown`, target is an info. The end of the text is not written: see
 * prometheus_end. */
int prometheus_page_new(struct prometheus_page **ret, const struct metric_batch *batch,
                        const struct prometheus_options *options);
struct prometheus_page *prometheus_page_free(struct prometheus_page *p);

/* Conditions of prometheus_page_next. */
enum {
    PROMETHEUS_PAGE_ENDS = 1, /* that was the last of it */
};

/* Appends lines, until they are `enough` bytes or there are no more: a page can be as large as its batch many
 * times over. 0, the condition above, -ENOMEM, -ENOBUFS; on failure whole lines are there, and the same call
 * goes on behind them. Any thread, one at a time. */
int prometheus_page_next(struct prometheus_page *p, size_t enough, struct buffer *out);

/* Appends text 0.0.4 of our own making (gateway/stats) in another format: OpenMetrics names a family without
 * _total. 0, -ENOMEM, -ENOBUFS. */
int prometheus_rewrite(struct bytes text, enum prometheus_format format, struct buffer *out);

/* Appends what stands at the end of a whole answer: "# EOF" in OpenMetrics. */
int prometheus_end(enum prometheus_format format, struct buffer *out);

#endif
