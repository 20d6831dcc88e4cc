/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a backend makes of an output's batches: the value of every stream it ever saw, by resource, metric,
 * attributes and start time. A sum over them is what arrived, however often series ended and began anew.
 */
#ifndef TESTS_STREAMS_H
#define TESTS_STREAMS_H

#include <check.h>
#include <math.h>
#include <stdlib.h>

#include "proto/base/intern.h"
#include "proto/otlp/metrics/metrics.h"
#include "tests/lib/unit.h"

struct streams {
    struct intern ids;
    int64_t *value; /* integers, or nanoseconds of seconds */
    uint64_t *time;
    uint32_t cap;
};

static inline void streams_add_attrs(struct buffer *id, const struct attr *attrs, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        ck_assert(i == 0 || bytes_compare(attrs[i - 1].key, attrs[i].key) < 0);
        buffer_printf(id, "%.*s=", BYTES_FMT(attrs[i].key));
        if (attrs[i].value.kind == ATTR_STRING)
            buffer_printf(id, "%.*s,", BYTES_FMT(attrs[i].value.text));
        else if (attrs[i].value.kind == ATTR_BOOL)
            buffer_printf(id, "%d,", attrs[i].value.boolean);
        else
            buffer_printf(id, "%lld,", (long long)attrs[i].value.integer);
    }
    buffer_add(id, ";", 1);
}

static inline void streams_point(struct streams *s, const struct metric_resource *r, const struct metric *m,
                                 const struct metric_point *p)
{
    cleanup(buffer_release) struct buffer id = BUFFER_INIT(0);
    bool is_delta = m->temporality == METRIC_DELTA;
    ck_assert_uint_gt(p->time_unix_nano, p->start_unix_nano);
    buffer_printf(&id, "%.*s;", BYTES_FMT(m->name));
    streams_add_attrs(&id, r->attrs, r->n_attrs);
    streams_add_attrs(&id, p->attrs, p->n_attrs);
    buffer_printf(&id, "%llu", is_delta ? 0ull : (unsigned long long)p->start_unix_nano);
    uint32_t known = s->ids.n, at = intern_add(&s->ids, buffer_bytes(&id));
    ck_assert_uint_ne(at, INTERN_NONE);
    if (at >= s->cap) {
        s->cap = s->cap ? s->cap * 2 : 256;
        s->value = unit_made(realloc(s->value, s->cap * sizeof *s->value));
        s->time = unit_made(realloc(s->time, s->cap * sizeof *s->time));
    }
    if (at == known)
        s->value[at] = (int64_t)(s->time[at] = 0);
    int64_t value = p->is_double ? (int64_t)llround(p->real * 1e9) : p->integer;
    ck_assert_msg(p->time_unix_nano > s->time[at], "%.*s twice", BYTES_FMT(buffer_bytes(&id)));
    if (is_delta)
        ck_assert_uint_ge(p->start_unix_nano, s->time[at]); /* windows of a stream do not overlap */
    s->time[at] = p->time_unix_nano;
    if (is_delta)
        s->value[at] += value;
    else if (!p->stale) {
        ck_assert_int_ge(value, s->value[at]); /* within one start time a sum never goes down */
        s->value[at] = value;
    }
}

static inline void streams_read(struct streams *s, const struct metric_batch *b)
{
    for (uint32_t r = 0; r < b->n_resources; r++)
        for (uint32_t m = 0; m < b->resources[r].n_metrics; m++)
            for (uint32_t p = 0; p < b->resources[r].metrics[m].n_points; p++)
                streams_point(s, &b->resources[r], &b->resources[r].metrics[m],
                              &b->resources[r].metrics[m].points[p]);
}

/* The output's clock was put back: windows of delta streams begin anew, and no cumulative stream that there
 * was goes on. */
static inline void streams_put_back(struct streams *s, bool is_delta)
{
    for (uint32_t i = 0; i < s->ids.n; i++)
        s->time[i] = is_delta ? 0 : UINT64_MAX;
}

/* Over all streams of a metric. */
static inline int64_t streams_total(const struct streams *s, const char *metric)
{
    int64_t total = 0;
    size_t n = strlen(metric);
    for (uint32_t i = 0; i < s->ids.n; i++)
        if (bytes_starts(intern_get(&s->ids, i), metric) && intern_get(&s->ids, i).p[n] == ';')
            total += s->value[i];
    return total;
}

static inline void streams_release(struct streams *s)
{
    intern_release(&s->ids);
    free(s->value);
    free(s->time);
}

#endif
