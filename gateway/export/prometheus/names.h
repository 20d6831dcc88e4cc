/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names as Prometheus takes them, and how a user wants them: "Prometheus and OpenMetrics Compatibility" of
 * the OpenTelemetry specification has four translation strategies; what then is not [a-zA-Z0-9_:] goes by the
 * escaping that the scraper asked for ("Escaping schemes" of the Prometheus documentation).
 */
#ifndef GATEWAY_EXPORT_PROMETHEUS_NAMES_H
#define GATEWAY_EXPORT_PROMETHEUS_NAMES_H

#include <stdbool.h>

#include "proto/base/buffer.h"
#include "proto/otlp/metrics/metrics.h"

/* What becomes of OpenTelemetry names (metrics.translation_strategy). */
enum prometheus_strategy {
    PROMETHEUS_UNDERSCORES_WITH_SUFFIXES,    /* UnderscoreEscapingWithSuffixes */
    PROMETHEUS_UNDERSCORES_WITHOUT_SUFFIXES, /* UnderscoreEscapingWithoutSuffixes */
    PROMETHEUS_UTF8_WITH_SUFFIXES,           /* NoUTF8EscapingWithSuffixes */
    PROMETHEUS_NO_TRANSLATION,               /* NoTranslation */
};

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
    /* Series without a job or an instance of their own say so by an empty label: a scraper that honors labels
     * then adds none of its own, and the series has the labels that remote write gives it. */
    bool own_target;
};

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
