/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/export/prometheus/labels.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Of what is made for one point, the memory that is kept for the next. */
#define LABELS_KEEP (64u << 10)

static struct bytes kept_name(struct prometheus_labels *l, struct bytes name)
{
    uint32_t id = intern_add(&l->names, name);
    return id == INTERN_NONE ? (struct bytes){0} : intern_get(&l->names, id);
}

/* A name as it will be written; .p NULL when memory is out. */
static struct bytes label_name(struct prometheus_labels *l, struct bytes key)
{
    const struct prometheus_options *o = l->options;
    l->scratch.n = l->escaped.n = 0;
    if (prometheus_label_name(key, o->strategy, &l->scratch) < 0 ||
        prometheus_escape(buffer_bytes(&l->scratch), o->escaping, true, &l->escaped) < 0)
        return (struct bytes){0};
    struct bytes made = buffer_bytes(&l->escaped);
    return bytes_is(made, "job")        ? BYTES_LIT("exported_job")
           : bytes_is(made, "instance") ? BYTES_LIT("exported_instance")
           : bytes_is(made, "__name__") ? BYTES_LIT("_name__") /* as where names are escaped */
                                        : kept_name(l, made);
}

/* The label of a key, without a value; its name as it will be written, .p NULL when memory is out. */
static struct prometheus_label label_of(struct prometheus_labels *l, struct bytes key)
{
    struct prometheus_label *recent = &l->recent[l->n_set % LABELS_RECENT];
    if (!recent->name.p || !bytes_eq(recent->key, key)) {
        struct bytes name = label_name(l, key);
        *recent = (struct prometheus_label){
            .key = key, .name = name, .plain = name.p && prometheus_is_plain(name, true)};
    }
    return *recent;
}

/* To the set; name: NULL for what is made of the key. */
static int label_add(struct prometheus_labels *l, struct bytes key, const char *name, struct bytes value)
{
    if (l->n_set >= LABELS_MAX)
        return 0;
    struct prometheus_label label =
        name ? (struct prometheus_label){.key = key, .name = bytes_str(name), .plain = true}
             : label_of(l, key);
    if (!label.name.p || !value.p)
        return -ENOMEM;
    label.value = value;
    l->set[l->n_set++] = label;
    return 0;
}

static const struct attr *attr_find(const struct attr *attrs, uint32_t n, struct bytes key)
{
    for (uint32_t i = 0; i < n; i++)
        if (bytes_eq(attrs[i].key, key))
            return &attrs[i];
    return NULL;
}

static bool makes_target(struct bytes key)
{
    return bytes_is(key, "service.name") || bytes_is(key, "service.namespace") ||
           bytes_is(key, "service.instance.id");
}

static int target_labels(struct prometheus_labels *l, const struct metric_resource *res, struct arena *arena)
{
    const struct attr *name = attr_find(res->attrs, res->n_attrs, BYTES_LIT("service.name"));
    const struct attr *space = attr_find(res->attrs, res->n_attrs, BYTES_LIT("service.namespace"));
    const struct attr *instance = attr_find(res->attrs, res->n_attrs, BYTES_LIT("service.instance.id"));
    int r = 0;
    if (name) {
        struct bytes job = prometheus_value_text(arena, &name->value);
        struct bytes prefix = space ? prometheus_value_text(arena, &space->value) : (struct bytes){0};
        if (job.p && prefix.n > 0)
            job = bytes_str(arena_printf(arena, "%.*s/%.*s", BYTES_FMT(prefix), BYTES_FMT(job)));
        r = label_add(l, BYTES_LIT("job"), "job", job);
    }
    if (r == 0 && instance)
        r = label_add(l, BYTES_LIT("instance"), "instance", prometheus_value_text(arena, &instance->value));
    for (uint32_t i = 0; i < l->n_set; i++)
        l->set[i].is_target = true;
    return r;
}

static int by_name_then_key(const void *a, const void *b)
{
    const struct prometheus_label *x = a, *y = b;
    int r = bytes_compare(x->name, y->name);
    return r ? r : bytes_compare(x->key, y->key);
}

/* Sets come in the order of keys, which mostly is that of names. */
static void sort_labels(struct prometheus_label *list, uint32_t n)
{
    uint32_t i = 1;
    while (i < n && by_name_then_key(&list[i - 1], &list[i]) <= 0)
        i++;
    if (i < n)
        qsort(list, n, sizeof *list, by_name_then_key);
}

int prometheus_labels_of_resource(struct prometheus_labels *l, const struct metric_resource *res,
                                  struct arena *arena)
{
    l->n_set = 0;
    int r = target_labels(l, res, arena);
    for (uint32_t i = 0; r == 0 && i < res->n_attrs; i++)
        if (!makes_target(res->attrs[i].key))
            r = label_add(l, res->attrs[i].key, NULL, prometheus_value_text(arena, &res->attrs[i].value));
    if (r < 0)
        return r;
    sort_labels(l->set, l->n_set);
    memcpy(l->of_resource, l->set, l->n_set * sizeof *l->set);
    l->n_of_resource = l->n_set;
    return 0;
}

/* To the set, if the options want them: they are no part of a target. */
static int scope_labels(struct prometheus_labels *l)
{
    if (!l->options->scope_labels)
        return 0;
    int r = label_add(l, BYTES_LIT("otel_scope_name"), "otel_scope_name", l->batch->scope_name);
    return r < 0
               ? r
               : label_add(l, BYTES_LIT("otel_scope_version"), "otel_scope_version", l->batch->scope_version);
}

/* The values of list[from … to), joined with ';'. .p NULL when memory is out. */
static struct bytes join_values(struct prometheus_labels *l, const struct prometheus_label *list,
                                uint32_t from, uint32_t to)
{
    l->escaped.n = 0;
    for (uint32_t i = from; i < to; i++)
        if ((i > from && buffer_add_str(&l->escaped, ";") < 0) ||
            buffer_add_bytes(&l->escaped, list[i].value) < 0)
            return (struct bytes){0};
    return arena_copy(&l->point, buffer_bytes(&l->escaped));
}

/* Of a sorted list, values of one name joined in the order of the original keys, empty values left out (to
 * Prometheus they are no label). */
static int settle(struct prometheus_labels *l, struct prometheus_label *list, uint32_t *n)
{
    uint32_t kept = 0;
    for (uint32_t i = 0, j; i < *n; i = j) {
        for (j = i + 1; j < *n && bytes_eq(list[i].name, list[j].name);)
            j++;
        if (j > i + 1)
            list[i].value = join_values(l, list, i, j);
        if (!list[i].value.p)
            return -ENOMEM;
        if (list[i].value.n > 0 && kept++ < i)
            list[kept - 1] = list[i];
    }
    *n = kept;
    return 0;
}

void prometheus_labels_take(struct prometheus_labels *l, const struct prometheus_label *list, uint32_t n)
{
    arena_reset(&l->point, LABELS_KEEP);
    memcpy(l->set, list, n * sizeof *list);
    l->n_set = n;
}

int prometheus_labels_settle(struct prometheus_labels *l)
{
    return settle(l, l->set, &l->n_set);
}

int prometheus_labels_own(struct prometheus_labels *l, const struct metric_point *point)
{
    l->n_set = 0;
    arena_reset(&l->point, LABELS_KEEP);
    int r = 0;
    for (uint32_t i = 0; r == 0 && i < point->n_attrs; i++)
        r = label_add(l, point->attrs[i].key, NULL, prometheus_value_text(&l->point, &point->attrs[i].value));
    if (r == 0)
        r = scope_labels(l);
    if (r == 0)
        sort_labels(l->set, l->n_set);
    return r;
}

int prometheus_labels_of_point(struct prometheus_labels *l, const struct metric_point *point)
{
    int r = prometheus_labels_own(l, point);
    if (r < 0)
        return r;
    uint32_t own = 0, n = 0;
    for (uint32_t i = 0; i < l->n_of_resource; i++) {
        const struct prometheus_label *label = &l->of_resource[i];
        if (!label->is_target && attr_find(point->attrs, point->n_attrs, label->key))
            continue;
        while (own < l->n_set && by_name_then_key(&l->set[own], label) <= 0)
            l->merged[n++] = l->set[own++];
        l->merged[n++] = *label;
    }
    while (own < l->n_set)
        l->merged[n++] = l->set[own++];
    l->n_merged = n;
    return settle(l, l->merged, &l->n_merged);
}

void prometheus_labels_init(struct prometheus_labels *l, const struct metric_batch *batch,
                            const struct prometheus_options *options)
{
    l->batch = batch;
    l->options = options;
    l->names = (struct intern)INTERN_INIT(batch->arena.budget);
    l->point = (struct arena)ARENA_INIT(batch->arena.budget);
}

void prometheus_labels_release(struct prometheus_labels *l)
{
    intern_release(&l->names);
    arena_release(&l->point);
    buffer_release(&l->scratch);
    buffer_release(&l->escaped);
}
