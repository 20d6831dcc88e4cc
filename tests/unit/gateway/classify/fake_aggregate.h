/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An aggregate that a test can look into: it implements gateway/aggregate/aggregate.h over plain lists.
 * Included once, by the test's own file; the linker then has no need of the real one.
 */
#ifndef TESTS_FAKE_AGGREGATE_H
#define TESTS_FAKE_AGGREGATE_H

#include <check.h>
#include <stdio.h>
#include <stdlib.h>

#include "gateway/aggregate/aggregate.h"
#include "proto/base/buffer.h"
#include "proto/base/intern.h"

struct aggregate {
    struct intern resources; /* canonical text of sorted attributes */
    struct intern series;    /* "metric number, then sorted name=value lines" */
    struct fake_sum {
        uint32_t resource, series;
        int64_t value;
    } * sums;
    uint32_t n_sums, epoch, begins, by_raw;
    struct fake_offer {
        uint32_t resource, series;
        struct aggregate_exemplar exemplar;
    } offers[64];
    uint32_t n_offers;
    struct fake_kept {
        uint32_t resource, series;
        struct aggregate_moment moment;
        int64_t value;
    } kept[64];
    uint32_t n_kept;
    uint32_t counted; /* bit m: metric m is counted */
    uint64_t samples; /* of all that are */
};

static int fake_compare(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Lines sorted, joined and freed. */
static uint32_t fake_intern(struct intern *t, const char *head, char **lines, uint32_t n)
{
    struct buffer text = BUFFER_INIT(0);
    qsort(lines, n, sizeof *lines, fake_compare);
    buffer_add_str(&text, head);
    for (uint32_t i = 0; i < n; i++) {
        buffer_add_str(&text, lines[i]);
        buffer_add_str(&text, "\n");
        free(lines[i]);
    }
    uint32_t id = intern_add(t, buffer_bytes(&text));
    buffer_release(&text);
    ck_assert_uint_ne(id, INTERN_NONE);
    return id;
}

struct aggregate *aggregate_new(const struct aggregate_metric *metrics, uint32_t n_metrics,
                                struct budget *budget)
{
    (void)metrics, (void)n_metrics, (void)budget;
    return calloc(1, sizeof(struct aggregate));
}

struct aggregate *aggregate_free(struct aggregate *a)
{
    intern_release(&a->resources);
    intern_release(&a->series);
    free(a->sums);
    free(a);
    return NULL;
}

void aggregate_from(struct aggregate *a, uint64_t client) {}

uint32_t aggregate_epoch(const struct aggregate *a)
{
    return a->epoch;
}

void aggregate_begin(struct aggregate *a)
{
    a->begins++;
}

void aggregate_forget(struct aggregate *a)
{
    a->epoch++;
}

size_t aggregate_memory_used(const struct aggregate *a)
{
    return 0;
}

uint32_t aggregate_resource(struct aggregate *a, const struct attr *attrs, uint32_t n_attrs)
{
    char *lines[64];
    ck_assert(n_attrs <= 64);
    for (uint32_t i = 0; i < n_attrs; i++) {
        const struct attr_value *v = &attrs[i].value;
        int n = -1;
        if (v->kind == ATTR_STRING)
            n = asprintf(&lines[i], "%.*s=s:%.*s", BYTES_FMT(attrs[i].key), BYTES_FMT(v->text));
        else if (v->kind == ATTR_INT)
            n = asprintf(&lines[i], "%.*s=i:%lld", BYTES_FMT(attrs[i].key), (long long)v->integer);
        else if (v->kind == ATTR_BOOL)
            n = asprintf(&lines[i], "%.*s=b:%d", BYTES_FMT(attrs[i].key), v->boolean);
        else if (v->kind == ATTR_DOUBLE)
            n = asprintf(&lines[i], "%.*s=d:%.17g", BYTES_FMT(attrs[i].key), v->real);
        else
            n = asprintf(&lines[i], "%.*s=?:%d", BYTES_FMT(attrs[i].key), (int)v->kind);
        ck_assert(n >= 0);
    }
    return fake_intern(&a->resources, "", lines, n_attrs);
}

uint32_t aggregate_resource_of(struct aggregate *a, struct bytes raw, const struct attr *attrs,
                               uint32_t n_attrs)
{
    (void)raw;
    a->by_raw++;
    return aggregate_resource(a, attrs, n_attrs);
}

uint32_t aggregate_series(struct aggregate *a, uint32_t metric, const struct aggregate_label *labels,
                          uint32_t n_labels)
{
    char *lines[64], head[16];
    ck_assert(n_labels <= 64);
    for (uint32_t i = 0; i < n_labels; i++) {
        int n = asprintf(&lines[i], "%.*s=%.*s", BYTES_FMT(labels[i].name), BYTES_FMT(labels[i].value));
        ck_assert(n >= 0);
    }
    snprintf(head, sizeof head, "%u\n", metric);
    return fake_intern(&a->series, head, lines, n_labels);
}

void aggregate_offer(struct aggregate *a, uint32_t resource, uint32_t series,
                     const struct aggregate_exemplar *e)
{
    if (a->n_offers < 64)
        a->offers[a->n_offers++] = (struct fake_offer){resource, series, *e};
}

uint64_t aggregate_arrivals(uint32_t n)
{
    static uint64_t next = 1;
    return (next += n) - n;
}

void aggregate_keep(struct aggregate *a, uint32_t resource, uint32_t series,
                    const struct aggregate_moment *moment, int64_t value)
{
    if (a->n_kept < 64)
        a->kept[a->n_kept++] = (struct fake_kept){resource, series, *moment, value};
}

bool aggregate_is_counted(const struct aggregate *a, uint32_t metric)
{
    return metric < 32 && a->counted >> metric & 1;
}

void aggregate_count(struct aggregate *a, uint32_t resource, uint32_t series, uint64_t samples)
{
    (void)resource, (void)series;
    a->samples += samples;
}

void aggregate_prefetch(const struct aggregate *a, uint32_t resource, uint32_t series)
{
    (void)a, (void)resource, (void)series;
}

void aggregate_add(struct aggregate *a, uint32_t resource, uint32_t series, int64_t value)
{
    for (uint32_t i = 0; i < a->n_sums; i++) {
        if (a->sums[i].resource == resource && a->sums[i].series == series) {
            a->sums[i].value += value;
            return;
        }
    }
    a->sums = realloc(a->sums, (a->n_sums + 1) * sizeof *a->sums);
    ck_assert(a->sums);
    a->sums[a->n_sums++] = (struct fake_sum){resource, series, value};
}

#endif
