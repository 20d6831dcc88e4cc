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

#include <stdbool.h>

#include "proto/base/buffer.h"
#include "proto/otlp/metrics/metrics.h"

/* translation_strategy: what becomes of OpenTelemetry names. */
enum prometheus_strategy {
    PROMETHEUS_UNDERSCORES_WITH_SUFFIXES,    /* UnderscoreEscapingWithSuffixes */
    PROMETHEUS_UNDERSCORES_WITHOUT_SUFFIXES, /* UnderscoreEscapingWithoutSuffixes */
    PROMETHEUS_UTF8_WITH_SUFFIXES,           /* NoUTF8EscapingWithSuffixes */
    PROMETHEUS_NO_TRANSLATION,               /* NoTranslation */
};

/* The specification's name of a strategy, as configuration says it. False if it is none of them. */
bool prometheus_strategy_parse(const char *name, enum prometheus_strategy *ret);

/* What becomes of characters that are not [a-zA-Z0-9_:] in the names of an answer. */
enum prometheus_escaping {
    PROMETHEUS_ESCAPE_UNDERSCORES, /* each is _ */
    PROMETHEUS_ALLOW_UTF8,         /* nothing: such names are quoted */
    PROMETHEUS_ESCAPE_DOTS,        /* . is _dot_, _ is __, others are __ */
    PROMETHEUS_ESCAPE_VALUES,      /* U__ in front, _ is __, others are _HEX_ */
};

enum prometheus_format { PROMETHEUS_TEXT, PROMETHEUS_OPENMETRICS };

struct prometheus_options {
    enum prometheus_format format;
    enum prometheus_strategy strategy;
    enum prometheus_escaping escaping;
    /* Adds otel_scope_name and otel_scope_version to each series. The specification has it on by default;
     * here it is off: every batch has one scope, so the labels would tell nothing and cost bytes in each
     * line. */
    bool scope_labels;
    /* OpenMetrics: a line NAME_created for each counter. Off: to a scraper that does not know it, it is one
     * more series for each. */
    bool created;
};

/* Appends the batch. No timestamps; stale points are left out (a series that is gone is stale to Prometheus).
 * Series whose labels become equal are added up. A metric whose type disagrees with an earlier one of the
 * same name is left out (in text a comment says so; OpenMetrics has no comments); of two descriptions the
 * first stays. Delta sums are refused: -EINVAL. 0, -ENOMEM, -ENOBUFS; the buffer is as before when it fails.
 * options may be NULL.
 *
 * OpenMetrics (1.0): counters have their exemplar, units their line where the name ends in them, a counter
 * whose name does not end in _total is `unknown`, target is an info. The end of the text is not written: see
 * prometheus_end. */
int prometheus_write(const struct metric_batch *batch, const struct prometheus_options *options,
                     struct buffer *out);

/* Appends text 0.0.4 of our own making (gateway/stats) in another format: OpenMetrics names a family without
 * _total. 0, -ENOMEM, -ENOBUFS. */
int prometheus_rewrite(struct bytes text, enum prometheus_format format, struct buffer *out);

/* Appends what stands at the end of a whole answer: "# EOF" in OpenMetrics. */
int prometheus_end(enum prometheus_format format, struct buffer *out);

/* Appends the metric name by a strategy. 0, -ENOMEM, -ENOBUFS. */
int prometheus_name(struct bytes name, struct bytes unit, enum metric_kind kind,
                    enum prometheus_strategy strategy, struct buffer *out);

/* Appends the label name for an attribute key. 0, -ENOMEM, -ENOBUFS. */
int prometheus_label_name(struct bytes key, enum prometheus_strategy strategy, struct buffer *out);

/* Appends a unit in words: "s" is seconds, "m/s" meters_per_second, "1" nothing. */
int prometheus_unit(struct bytes unit, struct buffer *out);

/* Appends a name in an escaping. is_label: a colon is no part of it. 0, -ENOMEM, -ENOBUFS. */
int prometheus_escape(struct bytes name, enum prometheus_escaping escaping, bool is_label,
                      struct buffer *out);

/* Whether a name needs no quotes: [a-zA-Z_][a-zA-Z0-9_]*, in a metric's with colons. */
bool prometheus_is_plain(struct bytes name, bool is_label);

#endif
