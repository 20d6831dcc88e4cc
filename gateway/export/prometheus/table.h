/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A batch by Prometheus families: names translated, labels made, series with equal labels added up. Private
 * to this folder; text and remote write are two ways to write it down.
 *
 * How a series' labels are written is the user's: the bytes are its identity here and go out as they are.
 *
 * The families are known from the start; the series of one are made when they are wanted, and those before it
 * forgotten, so that a batch of any size needs the memory of its largest family. All of it is on the batch's
 * budget.
 */
#ifndef GATEWAY_EXPORT_PROMETHEUS_TABLE_H
#define GATEWAY_EXPORT_PROMETHEUS_TABLE_H

#include "gateway/export/prometheus/labels.h"

struct prometheus_family {
    struct bytes name, help, unit; /* unit: in words, where the name ends in it; else empty */
    enum metric_kind kind;
    bool plain;           /* the name needs no quotes */
    bool is_target;       /* target_info */
    bool conflict;        /* a metric of this name and another kind was left out */
    bool has_series;      /* at least one */
    uint32_t first, last; /* the metrics of the batch that it is made of, linked; private */
};

struct prometheus_series {
    struct bytes labels;
    bool is_double;
    bool stale; /* only where the options keep stale points, and no live one was added */
    bool has_exemplar;
    int64_t integer;
    double real;
    uint64_t start_unix_nano, time_unix_nano; /* earliest and latest of those added up */
    struct metric_exemplar exemplar;
    double exemplar_value;
};

/* Appends a series' labels: sorted by name, each name once, no empty values. */
typedef int (*prometheus_labels_fn)(void *user, const struct prometheus_family *family,
                                    const struct prometheus_label *labels, uint32_t n, struct buffer *out);

/* Appends a label as it stands in every series that has it. */
typedef int (*prometheus_label_fn)(const struct prometheus_label *label, struct buffer *out);

/* Appends what stands behind the labels of every series of a resource that has these. */
typedef int (*prometheus_tail_fn)(void *user, const struct prometheus_label *labels, uint32_t n,
                                  struct buffer *out);

struct prometheus_table_options {
    struct prometheus_options names;
    bool keep_stale; /* points that say a series has ended are series, too */
    prometheus_labels_fn labels;
    prometheus_label_fn label; /* with `tail`, for prometheus_table_lines; or NULL */
    prometheus_tail_fn tail;
    void *user;
};

struct prometheus_table;

/* 0, -EINVAL for delta sums, or -ENOMEM. */
int prometheus_table_new(struct prometheus_table **ret, const struct metric_batch *batch,
                         const struct prometheus_table_options *options);
struct prometheus_table *prometheus_table_free(struct prometheus_table *t);

/* Families in the order of their names; valid as long as the table and the batch. */
uint32_t prometheus_table_families(const struct prometheus_table *t, const struct prometheus_family **ret);

static inline double prometheus_value(const struct prometheus_series *s)
{
    return s->is_double ? s->real : (double)s->integer;
}

/* Makes the series of the i-th of the families, *ret of *ret_n, instead of those of another; valid until the
 * next call. 0, -ENOMEM, or what `labels` failed with: then there are none. */
int prometheus_table_series(struct prometheus_table *t, uint32_t i, const struct prometheus_series **ret,
                            uint32_t *ret_n);

/* A point of the batch that is a series by itself. */
struct prometheus_line {
    uint32_t source, point; /* private, as is: */
    uint32_t own;           /* whose labels are its */
};

/* Conditions of prometheus_table_lines. */
enum {
    PROMETHEUS_TABLE_ADDS_UP = 1, /* several points may be one series: prometheus_table_series knows */
};

/* The same series, where each is one point: without what prometheus_table_series makes for each, which is
 * most of a page's cost. *ret of *ret_n instead of those of another family; valid until the next call of
 * either. 0, the condition above, -ENOMEM, or what the options' functions failed with. */
int prometheus_table_lines(struct prometheus_table *t, uint32_t i, const struct prometheus_line **ret,
                           uint32_t *ret_n);

/* Appends a line's labels: of both kinds in the order of names, then the tail. 0, -ENOMEM, -ENOBUFS. */
int prometheus_line_labels(const struct prometheus_table *t, const struct prometheus_line *line,
                           struct buffer *out);

/* The series that a line is, without labels. */
struct prometheus_series prometheus_line_series(const struct prometheus_table *t,
                                                const struct prometheus_line *line);

/* The shortest decimal that reads back as the same double; NaN, +Inf, -Inf. */
void prometheus_double(double v, char text[32]);
/* Decimal. */
void prometheus_integer(int64_t v, char text[32]);

#endif
