/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/export/prometheus/table.h"

#include <errno.h>
#include <stdlib.h>

#include "proto/base/macros.h"

/* More labels than a resource's and a label set's attributes together do not occur (gateway/aggregate bounds
 * each at 256); what is beyond is left out. */
#define LABELS_MAX 520u

struct prometheus_table {
    const struct metric_batch *batch;
    struct prometheus_table_options options;
    struct arena arena;
    struct intern names;      /* of families */
    struct intern ids;        /* labels + family number (4 bytes) → series number */
    struct intern target_ids; /* job, 0, instance → target number */
    struct target *targets;
    uint32_t cap_targets;
    struct prometheus_family *families;
    struct prometheus_series *series;
    uint32_t cap_families, cap_series;
    struct buffer scratch, escaped;
    struct prometheus_label resource[LABELS_MAX]; /* of the resource being read */
    uint32_t n_resource;
    struct prometheus_label set[LABELS_MAX];
    uint32_t n_set;
};

/* ---- labels ---- */

/* A name as it will be written, in the table's memory; .p NULL when memory is out. */
static struct bytes label_name(struct prometheus_table *t, struct bytes key)
{
    const struct prometheus_options *o = &t->options.names;
    t->scratch.n = t->escaped.n = 0;
    if (prometheus_label_name(key, o->strategy, &t->scratch) < 0 ||
        prometheus_escape(buffer_bytes(&t->scratch), o->escaping, true, &t->escaped) < 0)
        return (struct bytes){0};
    struct bytes made = buffer_bytes(&t->escaped);
    return bytes_is(made, "job")        ? BYTES_LIT("exported_job")
           : bytes_is(made, "instance") ? BYTES_LIT("exported_instance")
                                        : arena_copy(&t->arena, made);
}

/* name: NULL for what is made of the key. */
static int label_add(struct prometheus_table *t, struct prometheus_label *list, uint32_t *n, struct bytes key,
                     const char *name, struct bytes value)
{
    if (*n >= LABELS_MAX)
        return 0;
    struct bytes final = name ? bytes_str(name) : label_name(t, key);
    if (!final.p || !value.p)
        return -ENOMEM;
    list[(*n)++] = (struct prometheus_label){key, final, value};
    return 0;
}

static const struct attr *attr_find(const struct attr *attrs, uint32_t n, const char *key)
{
    for (uint32_t i = 0; i < n; i++)
        if (bytes_is(attrs[i].key, key))
            return &attrs[i];
    return NULL;
}

static bool makes_target(struct bytes key)
{
    return bytes_is(key, "service.name") || bytes_is(key, "service.namespace") ||
           bytes_is(key, "service.instance.id");
}

static int target_labels(struct prometheus_table *t, const struct metric_resource *res)
{
    const struct attr *name = attr_find(res->attrs, res->n_attrs, "service.name");
    const struct attr *space = attr_find(res->attrs, res->n_attrs, "service.namespace");
    const struct attr *instance = attr_find(res->attrs, res->n_attrs, "service.instance.id");
    int r = 0;
    if (name) {
        struct bytes job = prometheus_value_text(&t->arena, &name->value);
        struct bytes prefix = space ? prometheus_value_text(&t->arena, &space->value) : (struct bytes){0};
        if (job.p && prefix.n > 0)
            job = bytes_str(arena_printf(&t->arena, "%.*s/%.*s", BYTES_FMT(prefix), BYTES_FMT(job)));
        r = label_add(t, t->resource, &t->n_resource, BYTES_LIT("job"), "job", job);
    }
    if (r == 0 && instance)
        r = label_add(t, t->resource, &t->n_resource, BYTES_LIT("instance"), "instance",
                      prometheus_value_text(&t->arena, &instance->value));
    return r;
}

/* The labels that every series of a resource has. */
static int resource_labels(struct prometheus_table *t, const struct metric_resource *res, bool scope)
{
    t->n_resource = 0;
    int r = target_labels(t, res);
    for (uint32_t i = 0; r == 0 && i < res->n_attrs; i++)
        if (!makes_target(res->attrs[i].key))
            r = label_add(t, t->resource, &t->n_resource, res->attrs[i].key, NULL,
                          prometheus_value_text(&t->arena, &res->attrs[i].value));
    if (r == 0 && scope)
        r = label_add(t, t->resource, &t->n_resource, BYTES_LIT("otel_scope_name"), "otel_scope_name",
                      t->batch->scope_name);
    if (r == 0 && scope)
        r = label_add(t, t->resource, &t->n_resource, BYTES_LIT("otel_scope_version"), "otel_scope_version",
                      t->batch->scope_version);
    return r;
}

static int by_name_then_key(const void *a, const void *b)
{
    const struct prometheus_label *x = a, *y = b;
    int r = bytes_compare(x->name, y->name);
    return r ? r : bytes_compare(x->key, y->key);
}

/* The values of list[from … to), joined with ';'. .p NULL when memory is out. */
static struct bytes join_values(struct prometheus_table *t, const struct prometheus_label *list,
                                uint32_t from, uint32_t to)
{
    t->escaped.n = 0;
    for (uint32_t i = from; i < to; i++)
        if ((i > from && buffer_add_str(&t->escaped, ";") < 0) ||
            buffer_add_bytes(&t->escaped, list[i].value) < 0)
            return (struct bytes){0};
    return arena_copy(&t->arena, buffer_bytes(&t->escaped));
}

/* Leaves the labels of a list in scratch: sorted by name, values of one name joined in the order of the
 * original keys, empty values left out (to Prometheus they are no label). */
static int write_labels(struct prometheus_table *t, struct bytes family, struct prometheus_label *list,
                        uint32_t n)
{
    qsort(list, n, sizeof *list, by_name_then_key);
    uint32_t kept = 0;
    for (uint32_t i = 0, j; i < n; i = j) {
        for (j = i + 1; j < n && bytes_eq(list[i].name, list[j].name);)
            j++;
        struct prometheus_label one = list[i];
        if (j > i + 1)
            one.value = join_values(t, list, i, j);
        if (!one.value.p)
            return -ENOMEM;
        if (one.value.n > 0)
            list[kept++] = one;
    }
    t->scratch.n = 0;
    return t->options.labels(t->options.user, family, list, kept, &t->scratch);
}

/* Leaves a point's labels in scratch. Of a key in both the point and the resource the point's value counts:
 * it is the more special one. */
static int point_labels(struct prometheus_table *t, struct bytes family, const struct metric_point *point)
{
    t->n_set = 0;
    int r = 0;
    for (uint32_t i = 0; r == 0 && i < point->n_attrs; i++)
        r = label_add(t, t->set, &t->n_set, point->attrs[i].key, NULL,
                      prometheus_value_text(&t->arena, &point->attrs[i].value));
    for (uint32_t i = 0; r == 0 && i < t->n_resource && t->n_set < LABELS_MAX; i++) {
        bool generated = bytes_is(t->resource[i].name, "job") || bytes_is(t->resource[i].name, "instance");
        bool own = true;
        for (uint32_t k = 0; k < point->n_attrs && !generated; k++)
            own &= !bytes_eq(point->attrs[k].key, t->resource[i].key);
        if (own)
            t->set[t->n_set++] = t->resource[i];
    }
    return r < 0 ? r : write_labels(t, family, t->set, t->n_set);
}

/* ---- families ---- */

static int grow(void *items, uint32_t *cap, uint32_t need, size_t size)
{
    void **at = items;
    if (need <= *cap)
        return 0;
    uint32_t n = *cap ? *cap * 2 : 64;
    void *p = realloc(*at, n * size);
    if (!p)
        return -ENOMEM;
    *at = p;
    *cap = n;
    return 0;
}

/* The family of this name; made when it is new. */
static int family_of(struct prometheus_table *t, struct bytes name, const struct prometheus_family *fresh,
                     uint32_t *ret)
{
    uint32_t known = t->names.n, id = intern_add(&t->names, name);
    if (id == INTERN_NONE || grow(&t->families, &t->cap_families, id + 1, sizeof *t->families) < 0)
        return -ENOMEM;
    if (id == known) {
        t->families[id] = *fresh;
        t->families[id].name = intern_get(&t->names, id);
        t->families[id].first = t->families[id].last = PROMETHEUS_NO_SERIES;
    }
    *ret = id;
    return 0;
}

static void add_value(struct prometheus_series *s, const struct metric_point *p)
{
    int64_t sum;
    if (!s->is_double && !p->is_double && !__builtin_add_overflow(s->integer, p->integer, &sum)) {
        s->integer = sum;
        return;
    }
    s->real = prometheus_value(s) + (p->is_double ? p->real : (double)p->integer);
    s->is_double = true;
}

static void add_point(struct prometheus_series *s, const struct metric_point *p)
{
    if (s->start_unix_nano == 0 || (p->start_unix_nano && p->start_unix_nano < s->start_unix_nano))
        s->start_unix_nano = p->start_unix_nano;
    s->time_unix_nano = max_of(s->time_unix_nano, p->time_unix_nano);
    if (p->stale)
        return;
    s->stale = false;
    add_value(s, p);
    if (p->exemplar && (!s->has_exemplar || p->exemplar->time_unix_nano > s->exemplar.time_unix_nano)) {
        s->exemplar = *p->exemplar;
        s->exemplar_value = p->is_double ? p->exemplar->real : (double)p->exemplar->integer;
        s->has_exemplar = true;
    }
}

/* Adds to the series of the family with the labels in scratch. */
static int series_add(struct prometheus_table *t, uint32_t family, const struct metric_point *p)
{
    size_t n = t->scratch.n;
    int r = buffer_add(&t->scratch, &family, sizeof family);
    if (r < 0)
        return r;
    uint32_t known = t->ids.n, id = intern_add(&t->ids, buffer_bytes(&t->scratch));
    if (id == INTERN_NONE || grow(&t->series, &t->cap_series, id + 1, sizeof *t->series) < 0)
        return -ENOMEM;
    struct prometheus_series *s = &t->series[id];
    if (id == known) {
        *s = (struct prometheus_series){
            .labels = bytes_of(intern_get(&t->ids, id).p, n), .next = PROMETHEUS_NO_SERIES, .stale = true};
        struct prometheus_family *f = &t->families[family];
        if (f->first == PROMETHEUS_NO_SERIES)
            f->first = id;
        else
            t->series[f->last].next = id;
        f->last = id;
    }
    add_point(s, p);
    return 0;
}

static bool ends_in_word(struct bytes name, struct bytes word)
{
    return word.n > 0 && name.n > word.n && name.p[name.n - word.n - 1] == '_' &&
           memcmp(name.p + name.n - word.n, word.p, word.n) == 0;
}

/* The unit in words, if the name without _total ends in it (OpenMetrics 1.0, "Unit": it must be a suffix). */
static int family_unit(struct prometheus_table *t, struct bytes name, struct bytes unit, struct bytes *ret)
{
    struct buffer words = BUFFER_INIT(0);
    int r = prometheus_unit(unit, &words);
    if (ends_in_word(name, BYTES_LIT("total")))
        name.n -= sizeof "_total" - 1;
    *ret = (struct bytes){0};
    if (r == 0 && ends_in_word(name, buffer_bytes(&words))) {
        *ret = arena_copy(&t->arena, buffer_bytes(&words));
        r = ret->p ? 0 : -ENOMEM;
    }
    buffer_release(&words);
    return r;
}

/* Leaves the metric's name in escaped, and finds its family. */
static int metric_family(struct prometheus_table *t, const struct metric *metric, uint32_t *ret)
{
    const struct prometheus_options *o = &t->options.names;
    struct prometheus_family fresh = {.help = metric->description, .kind = metric->kind};
    t->scratch.n = t->escaped.n = 0;
    int r = prometheus_name(metric->name, metric->unit, metric->kind, o->strategy, &t->scratch);
    if (r == 0)
        r = prometheus_escape(buffer_bytes(&t->scratch), o->escaping, false, &t->escaped);
    if (r == 0)
        r = family_unit(t, buffer_bytes(&t->escaped), metric->unit, &fresh.unit);
    return r < 0 ? r : family_of(t, buffer_bytes(&t->escaped), &fresh, ret);
}

static int read_metric(struct prometheus_table *t, const struct metric *metric)
{
    uint32_t id;
    if (metric->kind == METRIC_SUM && metric->temporality != METRIC_CUMULATIVE)
        return -EINVAL;
    int r = metric_family(t, metric, &id);
    if (r < 0)
        return r;
    if (t->families[id].kind != metric->kind || t->families[id].is_target) {
        t->families[id].conflict = true;
        return 0;
    }
    for (uint32_t i = 0; r == 0 && i < metric->n_points; i++) {
        if (metric->points[i].stale && !t->options.keep_stale)
            continue;
        r = point_labels(t, t->families[id].name, &metric->points[i]);
        if (r == 0)
            r = series_add(t, id, &metric->points[i]);
    }
    return r;
}

/* ---- target_info ---- */

/* One for each (job, instance). Of several resources with one job and instance it says what they agree on: a
 * second line would break every join with it. */
struct target {
    struct prometheus_label *labels;
    uint32_t n;
};

static struct bytes label_value(const struct prometheus_label *list, uint32_t n, const char *name)
{
    for (uint32_t i = 0; i < n; i++)
        if (bytes_is(list[i].name, name))
            return list[i].value;
    return (struct bytes){0};
}

static void keep_common(struct target *target, const struct prometheus_label *list, uint32_t n)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < target->n; i++) {
        bool agreed = false;
        for (uint32_t k = 0; k < n && !agreed; k++)
            agreed = bytes_eq(target->labels[i].key, list[k].key) &&
                     bytes_eq(target->labels[i].value, list[k].value);
        if (agreed)
            target->labels[kept++] = target->labels[i];
    }
    target->n = kept;
}

static int target_add(struct prometheus_table *t)
{
    struct bytes job = label_value(t->resource, t->n_resource, "job");
    struct bytes instance = label_value(t->resource, t->n_resource, "instance");
    if (job.n == 0 && instance.n == 0)
        return 0;
    t->scratch.n = 0;
    int r = buffer_add_bytes(&t->scratch, job);
    if (r == 0)
        r = buffer_add(&t->scratch, "", 1);
    if (r == 0)
        r = buffer_add_bytes(&t->scratch, instance);
    if (r < 0)
        return r;
    uint32_t known = t->target_ids.n, id = intern_add(&t->target_ids, buffer_bytes(&t->scratch));
    if (id == INTERN_NONE || grow(&t->targets, &t->cap_targets, id + 1, sizeof *t->targets) < 0)
        return -ENOMEM;
    if (id != known) {
        keep_common(&t->targets[id], t->resource, t->n_resource);
        return 0;
    }
    struct prometheus_label *labels = arena_calloc(&t->arena, t->n_resource, sizeof *labels);
    if (!labels)
        return -ENOMEM;
    memcpy(labels, t->resource, t->n_resource * sizeof *labels);
    t->targets[id] = (struct target){labels, t->n_resource};
    return 0;
}

/* The latest of the batch: what target_info is as old as. */
static uint64_t batch_time(const struct metric_batch *b)
{
    uint64_t time = 0;
    for (uint32_t r = 0; r < b->n_resources; r++)
        for (uint32_t m = 0; m < b->resources[r].n_metrics; m++)
            for (uint32_t p = 0; p < b->resources[r].metrics[m].n_points; p++)
                time = max_of(time, b->resources[r].metrics[m].points[p].time_unix_nano);
    return time;
}

static bool has_live_point(const struct metric_resource *res)
{
    for (uint32_t m = 0; m < res->n_metrics; m++)
        for (uint32_t p = 0; p < res->metrics[m].n_points; p++)
            if (!res->metrics[m].points[p].stale)
                return true;
    return res->n_metrics == 0;
}

static int read_targets(struct prometheus_table *t)
{
    static const struct prometheus_family target = {
        .help = {(const uint8_t *)"Target metadata", 15}, .kind = METRIC_GAUGE, .is_target = true};
    const struct metric_point one = {.integer = 1, .time_unix_nano = batch_time(t->batch)};
    uint32_t id;
    int r = 0;
    for (uint32_t i = 0; r == 0 && i < t->batch->n_resources; i++) {
        if (!has_live_point(&t->batch->resources[i]))
            continue;
        r = resource_labels(t, &t->batch->resources[i], false); /* scopes are no part of the target */
        if (r == 0)
            r = target_add(t);
    }
    if (r < 0 || t->target_ids.n == 0)
        return r;
    r = family_of(t, BYTES_LIT("target_info"), &target, &id);
    if (r == 0 && !t->families[id].is_target) {
        t->families[id].conflict = true; /* somebody's own metric of this name came first */
        return 0;
    }
    for (uint32_t i = 0; r == 0 && i < t->target_ids.n; i++) {
        r = write_labels(t, t->families[id].name, t->targets[i].labels, t->targets[i].n);
        if (r == 0)
            r = series_add(t, id, &one);
    }
    return r;
}

/* ---- the whole ---- */

static int by_family_name(const void *a, const void *b)
{
    const struct prometheus_family *x = a, *y = b;
    return bytes_compare(x->name, y->name);
}

static int read_batch(struct prometheus_table *t)
{
    int r = 0;
    for (uint32_t i = 0; r == 0 && i < t->batch->n_resources; i++) {
        const struct metric_resource *res = &t->batch->resources[i];
        r = resource_labels(t, res, t->options.names.scope_labels);
        for (uint32_t m = 0; r == 0 && m < res->n_metrics; m++)
            r = read_metric(t, &res->metrics[m]);
    }
    if (r == 0)
        r = read_targets(t);
    if (r == 0 && t->names.n > 0)
        qsort(t->families, t->names.n, sizeof *t->families, by_family_name);
    return r;
}

int prometheus_table_new(struct prometheus_table **ret, const struct metric_batch *batch,
                         const struct prometheus_table_options *options)
{
    struct prometheus_table *t = calloc(1, sizeof *t);
    if (!t)
        return -ENOMEM;
    struct budget *budget = batch->arena.budget;
    t->batch = batch;
    t->options = *options;
    t->arena = (struct arena)ARENA_INIT(budget);
    t->names = (struct intern)INTERN_INIT(budget);
    t->ids = (struct intern)INTERN_INIT(budget);
    t->target_ids = (struct intern)INTERN_INIT(budget);
    int r = read_batch(t);
    if (r < 0)
        prometheus_table_free(t);
    else
        *ret = t;
    return r;
}

struct prometheus_table *prometheus_table_free(struct prometheus_table *t)
{
    if (!t)
        return NULL;
    arena_release(&t->arena);
    intern_release(&t->names);
    intern_release(&t->ids);
    intern_release(&t->target_ids);
    buffer_release(&t->scratch);
    buffer_release(&t->escaped);
    free(t->families);
    free(t->series);
    free(t->targets);
    free(t);
    return NULL;
}

uint32_t prometheus_table_families(const struct prometheus_table *t, const struct prometheus_family **ret)
{
    *ret = t->families;
    return t->names.n;
}

const struct prometheus_series *prometheus_table_series(const struct prometheus_table *t, uint32_t i)
{
    return &t->series[i];
}
