/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/export/prometheus/table.h"

#include <errno.h>
#include <stdlib.h>

#include "gateway/export/prometheus/parts.h"
#include "proto/base/hash.h"
#include "proto/base/macros.h"

/* More labels than a resource's and a label set's attributes together do not occur (gateway/aggregate bounds
 * each at 256); what is beyond is left out. */
#define LABELS_MAX 520u

#define NONE UINT32_MAX

/* Of what is made for one point, the memory that is kept for the next. */
#define POINT_KEEP (64u << 10)

/* Of keys, the names they became. */
#define RECENT 16u

/* Of metrics, the families they are. */
#define MEMBERS_MAX 256u

/* A metric of a resource: where a family's series come from. */
struct source {
    uint32_t resource, metric, next;
};

/* The labels of a label set; the points of a batch share its attributes. */
struct own {
    const struct attr *attrs;
    uint32_t n_attrs;
    uint32_t text; /* equal text, equal number */
    struct label_part part;
};

/* A metric of which resources before had one, too: the batch has its strings once. */
struct member {
    const uint8_t *name, *unit;
    enum metric_kind kind;
    uint32_t family;
};

/* One for each (job, instance). Of several resources with one job and instance it says what they agree on: a
 * second line would break every join with it. */
struct target {
    struct prometheus_label *labels;
    uint32_t n;
};

struct prometheus_table {
    const struct metric_batch *batch;
    struct prometheus_table_options options;
    struct arena arena, point; /* point: of what one point's labels are made of */
    struct intern names;       /* of families */
    struct intern target_ids;  /* job, 0, instance → target number */
    VEC(struct target) targets;
    VEC(struct prometheus_family) families;
    VEC(struct source) sources;
    struct intern ids; /* labels → series number, of the family that was asked for */
    VEC(struct prometheus_series) series;
    struct buffer scratch, escaped;
    struct prometheus_label set[LABELS_MAX], merged[2 * LABELS_MAX];
    struct prometheus_label of_resource[LABELS_MAX]; /* the labels that every series of a resource has */
    uint32_t n_set, n_of_resource;
    struct intern label_names;
    struct prometheus_label recent[RECENT]; /* by place in the set: points of a family have the same keys */
    VEC(struct member) members;
    uint32_t member; /* resources have the same metrics in the same order: the next one */
    /* For lines. */
    struct label_part *resources;
    struct intern parts;      /* their texts */
    bool resources_are_alike; /* two have the same labels */
    VEC(bool) is_resources;   /* by number of a label's name: a resource has it */
    VEC(uint32_t) rank;       /* by number of a label's name: its place among them */
    struct arena family;      /* parts of the family that was asked for */
    VEC(struct own) own;
    struct hash_table own_of; /* attributes → own */
    struct intern own_texts;
    VEC(uint32_t) said; /* by own text: the source that had it last, + 1 */
    VEC(struct prometheus_line) lines;
};

/* ---- labels ---- */

static struct bytes kept_name(struct prometheus_table *t, struct bytes name)
{
    uint32_t id = intern_add(&t->label_names, name);
    return id == INTERN_NONE ? (struct bytes){0} : intern_get(&t->label_names, id);
}

/* A name as it will be written; .p NULL when memory is out. */
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
           : bytes_is(made, "__name__") ? BYTES_LIT("_name__") /* as where names are escaped */
                                        : kept_name(t, made);
}

/* The label of a key, without a value; its name as it will be written, .p NULL when memory is out. */
static struct prometheus_label label_of(struct prometheus_table *t, struct bytes key)
{
    struct prometheus_label *recent = &t->recent[t->n_set % RECENT];
    if (!recent->name.p || !bytes_eq(recent->key, key)) {
        struct bytes name = label_name(t, key);
        *recent = (struct prometheus_label){
            .key = key, .name = name, .plain = name.p && prometheus_is_plain(name, true)};
    }
    return *recent;
}

/* To the set; name: NULL for what is made of the key. */
static int label_add(struct prometheus_table *t, struct bytes key, const char *name, struct bytes value)
{
    if (t->n_set >= LABELS_MAX)
        return 0;
    struct prometheus_label label =
        name ? (struct prometheus_label){.key = key, .name = bytes_str(name), .plain = true}
             : label_of(t, key);
    if (!label.name.p || !value.p)
        return -ENOMEM;
    label.value = value;
    t->set[t->n_set++] = label;
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

static int target_labels(struct prometheus_table *t, const struct metric_resource *res, struct arena *arena)
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
        r = label_add(t, BYTES_LIT("job"), "job", job);
    }
    if (r == 0 && instance)
        r = label_add(t, BYTES_LIT("instance"), "instance", prometheus_value_text(arena, &instance->value));
    for (uint32_t i = 0; i < t->n_set; i++)
        t->set[i].is_target = true;
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

/* Leaves a resource's labels in of_resource, with values in the batch or in the arena: they are made again
 * for each that is asked for, since those of all together are more than their texts. */
static int resource_labels(struct prometheus_table *t, const struct metric_resource *res, struct arena *arena)
{
    t->n_set = 0;
    int r = target_labels(t, res, arena);
    for (uint32_t i = 0; r == 0 && i < res->n_attrs; i++)
        if (!makes_target(res->attrs[i].key))
            r = label_add(t, res->attrs[i].key, NULL, prometheus_value_text(arena, &res->attrs[i].value));
    if (r < 0)
        return r;
    sort_labels(t->set, t->n_set);
    memcpy(t->of_resource, t->set, t->n_set * sizeof *t->set);
    t->n_of_resource = t->n_set;
    return 0;
}

/* To the set, if the options want them: they are no part of a target. */
static int scope_labels(struct prometheus_table *t)
{
    if (!t->options.names.scope_labels)
        return 0;
    int r = label_add(t, BYTES_LIT("otel_scope_name"), "otel_scope_name", t->batch->scope_name);
    return r < 0
               ? r
               : label_add(t, BYTES_LIT("otel_scope_version"), "otel_scope_version", t->batch->scope_version);
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
    return arena_copy(&t->point, buffer_bytes(&t->escaped));
}

/* Of a sorted list, values of one name joined in the order of the original keys, empty values left out (to
 * Prometheus they are no label). */
static int settle_labels(struct prometheus_table *t, struct prometheus_label *list, uint32_t *n)
{
    uint32_t kept = 0;
    for (uint32_t i = 0, j; i < *n; i = j) {
        for (j = i + 1; j < *n && bytes_eq(list[i].name, list[j].name);)
            j++;
        if (j > i + 1)
            list[i].value = join_values(t, list, i, j);
        if (!list[i].value.p)
            return -ENOMEM;
        if (list[i].value.n > 0 && kept++ < i)
            list[kept - 1] = list[i];
    }
    *n = kept;
    return 0;
}

/* Leaves the labels of a sorted list in scratch. */
static int write_labels(struct prometheus_table *t, const struct prometheus_family *family,
                        struct prometheus_label *list, uint32_t n)
{
    int r = settle_labels(t, list, &n);
    t->scratch.n = 0;
    return r < 0 ? r : t->options.labels(t->options.user, family, list, n, &t->scratch);
}

/* ---- parts ---- */

/* Makes a part of the settled labels in the set, whose names have numbers; the tail is a resource's. */
static int part_make(struct prometheus_table *t, bool is_resource, struct arena *arena,
                     struct label_part *ret)
{
    struct label_place *places = arena_calloc(arena, t->n_set, sizeof *places);
    int r = places ? 0 : -ENOMEM;
    t->scratch.n = 0;
    for (uint32_t i = 0; r == 0 && i < t->n_set; i++) {
        r = t->options.label(&t->set[i], &t->scratch);
        places[i] =
            (struct label_place){intern_find(&t->label_names, t->set[i].name), (uint32_t)t->scratch.n};
    }
    if (r == 0 && is_resource)
        r = t->options.tail(t->options.user, t->set, t->n_set, &t->scratch);
    if (r < 0)
        return r;
    *ret = (struct label_part){places, t->n_set, arena_copy(arena, buffer_bytes(&t->scratch))};
    return ret->text.p ? 0 : -ENOMEM;
}

/* Numbers of the names in the set. */
static int number_names(struct prometheus_table *t)
{
    for (uint32_t i = 0; i < t->n_set; i++)
        if (intern_add(&t->label_names, t->set[i].name) == INTERN_NONE)
            return -ENOMEM;
    return vec_extend(&t->is_resources, t->label_names.n);
}

/* Empty labels count: in a point they hide the resource's. */
static int resource_part(struct prometheus_table *t, struct label_part *ret)
{
    if (!t->options.label)
        return 0;
    arena_reset(&t->point, POINT_KEEP);
    t->n_set = t->n_of_resource;
    memcpy(t->set, t->of_resource, t->n_set * sizeof *t->set);
    int r = number_names(t);
    for (uint32_t i = 0; r == 0 && i < t->n_set; i++)
        t->is_resources.p[intern_find(&t->label_names, t->set[i].name)] = true;
    if (r == 0)
        r = settle_labels(t, t->set, &t->n_set);
    if (r == 0)
        r = part_make(t, true, &t->arena, ret);
    if (r < 0)
        return r;
    uint32_t known = t->parts.n, id = intern_add_slice(&t->parts, ret->text);
    t->resources_are_alike |= id != known;
    return id == INTERN_NONE ? -ENOMEM : 0;
}

/* A point's own labels, sorted, become the set. */
static int own_labels(struct prometheus_table *t, const struct metric_point *point)
{
    t->n_set = 0;
    arena_reset(&t->point, POINT_KEEP);
    int r = 0;
    for (uint32_t i = 0; r == 0 && i < point->n_attrs; i++)
        r = label_add(t, point->attrs[i].key, NULL, prometheus_value_text(&t->point, &point->attrs[i].value));
    if (r == 0)
        r = scope_labels(t);
    if (r == 0)
        sort_labels(t->set, t->n_set);
    return r;
}

/* Leaves the labels of a point of that resource in scratch. Of a key in both the point and the resource the
 * point's value counts: it is the more special one. */
static int point_labels(struct prometheus_table *t, const struct prometheus_family *family,
                        const struct metric_point *point)
{
    int r = own_labels(t, point);
    if (r < 0)
        return r;
    uint32_t own = 0, n = 0;
    for (uint32_t i = 0; i < t->n_of_resource; i++) {
        const struct prometheus_label *label = &t->of_resource[i];
        if (!label->is_target && attr_find(point->attrs, point->n_attrs, label->key))
            continue;
        while (own < t->n_set && by_name_then_key(&t->set[own], label) <= 0)
            t->merged[n++] = t->set[own++];
        t->merged[n++] = *label;
    }
    while (own < t->n_set)
        t->merged[n++] = t->set[own++];
    return write_labels(t, family, t->merged, n);
}

/* ---- families ---- */

/* The family of this name; made when it is new. */
static int family_of(struct prometheus_table *t, struct bytes name, const struct prometheus_family *fresh,
                     uint32_t *ret)
{
    uint32_t known = t->names.n, id = intern_add(&t->names, name);
    if (id == INTERN_NONE)
        return -ENOMEM;
    if (id == known) {
        struct prometheus_family family = *fresh;
        family.name = intern_get(&t->names, id);
        family.first = family.last = NONE;
        family.plain = prometheus_is_plain(family.name, false);
        if (vec_append(&t->families, family) < 0)
            return -ENOMEM;
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

/* Adds to the series with the labels in scratch. */
static int series_add(struct prometheus_table *t, const struct metric_point *p)
{
    uint32_t known = t->ids.n, id = intern_add(&t->ids, buffer_bytes(&t->scratch));
    if (id == INTERN_NONE)
        return -ENOMEM;
    if (id == known && vec_append(&t->series, (struct prometheus_series){.labels = intern_get(&t->ids, id),
                                                                         .stale = true}) < 0)
        return -ENOMEM;
    add_point(&t->series.p[id], p);
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

/* Whether a resource before had the metric. */
static bool find_member(struct prometheus_table *t, const struct metric *metric, uint32_t *ret)
{
    for (uint32_t i = 0; i < t->members.n; i++, t->member++) {
        const struct member *m = &t->members.p[t->member %= t->members.n];
        if (m->name == metric->name.p && m->unit == metric->unit.p && m->kind == metric->kind) {
            *ret = m->family;
            t->member++;
            return true;
        }
    }
    return false;
}

static int make_family(struct prometheus_table *t, const struct metric *metric, uint32_t *ret)
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

/* The metric's family. */
static int metric_family(struct prometheus_table *t, const struct metric *metric, uint32_t *ret)
{
    if (find_member(t, metric, ret))
        return 0;
    int r = make_family(t, metric, ret);
    if (r < 0 || t->members.n >= MEMBERS_MAX)
        return r;
    return vec_append(&t->members, (struct member){metric->name.p, metric->unit.p, metric->kind, *ret});
}

static bool has_point(const struct prometheus_table *t, const struct metric *metric)
{
    struct metric_point room;
    for (uint32_t i = 0; i < metric->n_points; i++)
        if (!metric_point_of(t->batch, metric, i, &room)->stale || t->options.keep_stale)
            return true;
    return false;
}

static int read_metric(struct prometheus_table *t, uint32_t resource, uint32_t place)
{
    const struct metric *metric = &t->batch->resources[resource].metrics[place];
    uint32_t id;
    if (metric->kind == METRIC_SUM && metric->temporality != METRIC_CUMULATIVE)
        return -EINVAL;
    int r = metric_family(t, metric, &id);
    if (r < 0)
        return r;
    struct prometheus_family *f = &t->families.p[id];
    if (f->kind != metric->kind) {
        f->conflict = true;
        return 0;
    }
    if (!has_point(t, metric))
        return 0;
    r = vec_append(&t->sources, (struct source){resource, place, NONE});
    if (r < 0)
        return r;
    if (f->has_series)
        t->sources.p[f->last].next = t->sources.n - 1;
    else
        f->first = t->sources.n - 1;
    f->last = t->sources.n - 1;
    f->has_series = true;
    return 0;
}

/* The series that a metric of the batch adds to its family. */
static int read_points(struct prometheus_table *t, const struct prometheus_family *f,
                       const struct source *from)
{
    const struct metric_resource *res = &t->batch->resources[from->resource];
    const struct metric *metric = &res->metrics[from->metric];
    arena_reset(&t->family, POINT_KEEP);
    int r = resource_labels(t, res, &t->family);
    for (uint32_t i = 0; r == 0 && i < metric->n_points; i++) {
        struct metric_point room;
        const struct metric_point *point = metric_point_of(t->batch, metric, i, &room);
        if (point->stale && !t->options.keep_stale)
            continue;
        r = point_labels(t, f, point);
        if (r == 0)
            r = series_add(t, point);
    }
    return r;
}

/* ---- target_info ---- */

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

/* Of the resource whose labels were made. */
static int target_add(struct prometheus_table *t)
{
    struct bytes job = label_value(t->of_resource, t->n_of_resource, "job");
    struct bytes instance = label_value(t->of_resource, t->n_of_resource, "instance");
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
    if (id == INTERN_NONE)
        return -ENOMEM;
    if (id != known) {
        keep_common(&t->targets.p[id], t->of_resource, t->n_of_resource);
        return 0;
    }
    struct prometheus_label *labels = arena_calloc(&t->arena, t->n_of_resource, sizeof *labels);
    if (!labels)
        return -ENOMEM;
    memcpy(labels, t->of_resource, t->n_of_resource * sizeof *labels);
    return vec_append(&t->targets, (struct target){labels, t->n_of_resource});
}

/* The latest of the batch: what target_info is as old as. */
static uint64_t batch_time(const struct metric_batch *b)
{
    struct metric_point room;
    uint64_t time = 0;
    for (uint32_t r = 0; r < b->n_resources; r++)
        for (uint32_t m = 0; m < b->resources[r].n_metrics; m++)
            for (uint32_t p = 0; p < b->resources[r].metrics[m].n_points; p++)
                time =
                    max_of(time, metric_point_of(b, &b->resources[r].metrics[m], p, &room)->time_unix_nano);
    return time;
}

static bool has_live_point(const struct metric_batch *b, const struct metric_resource *res)
{
    struct metric_point room;
    for (uint32_t m = 0; m < res->n_metrics; m++)
        for (uint32_t p = 0; p < res->metrics[m].n_points; p++)
            if (!metric_point_of(b, &res->metrics[m], p, &room)->stale)
                return true;
    return res->n_metrics == 0;
}

static int add_target_family(struct prometheus_table *t)
{
    static const struct prometheus_family target = {.help = {(const uint8_t *)"Target metadata", 15},
                                                    .kind = METRIC_GAUGE,
                                                    .is_target = true,
                                                    .has_series = true};
    uint32_t id;
    if (t->targets.n == 0)
        return 0;
    int r = family_of(t, BYTES_LIT("target_info"), &target, &id);
    if (r == 0 && !t->families.p[id].is_target)
        t->families.p[id].conflict = true; /* somebody's own metric of this name came first */
    return r;
}

static int target_series(struct prometheus_table *t, const struct prometheus_family *f)
{
    const struct metric_point one = {.integer = 1, .time_unix_nano = batch_time(t->batch)};
    int r = 0;
    for (uint32_t i = 0; r == 0 && i < t->targets.n; i++) {
        const struct target *target = &t->targets.p[i];
        t->n_set = target->n;
        memcpy(t->set, target->labels, target->n * sizeof *t->set);
        arena_reset(&t->point, POINT_KEEP);
        r = write_labels(t, f, t->set, t->n_set);
        if (r == 0)
            r = series_add(t, &one);
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
    t->resources = arena_calloc(&t->arena, t->batch->n_resources, sizeof *t->resources);
    int r = t->resources ? 0 : -ENOMEM;
    for (uint32_t i = 0; r == 0 && i < t->batch->n_resources; i++) {
        const struct metric_resource *res = &t->batch->resources[i];
        r = resource_labels(t, res, &t->arena);
        if (r == 0 && has_live_point(t->batch, res))
            r = target_add(t);
        if (r == 0)
            r = resource_part(t, &t->resources[i]);
        for (uint32_t m = 0; r == 0 && m < res->n_metrics; m++)
            r = read_metric(t, i, m);
    }
    vec_fit(&t->sources); /* one for each metric of a resource: half of the room may be empty */
    if (r == 0)
        r = add_target_family(t);
    if (r == 0 && t->families.n > 0)
        qsort(t->families.p, t->families.n, sizeof *t->families.p, by_family_name);
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
    t->point = (struct arena)ARENA_INIT(budget);
    t->names = (struct intern)INTERN_INIT(budget);
    t->ids = (struct intern)INTERN_INIT(budget);
    t->label_names = (struct intern)INTERN_INIT(budget);
    t->target_ids = (struct intern)INTERN_INIT(budget);
    t->parts = (struct intern)INTERN_INIT(budget);
    t->family = (struct arena)ARENA_INIT(budget);
    t->own_texts = (struct intern)INTERN_INIT(budget);
    t->targets.budget = t->families.budget = t->sources.budget = t->series.budget = budget;
    t->members.budget = t->is_resources.budget = t->rank.budget = t->own.budget = budget;
    t->said.budget = t->lines.budget = t->own_of.budget = budget;
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
    arena_release(&t->point);
    intern_release(&t->names);
    intern_release(&t->ids);
    intern_release(&t->label_names);
    intern_release(&t->target_ids);
    buffer_release(&t->scratch);
    buffer_release(&t->escaped);
    vec_release(&t->targets);
    vec_release(&t->families);
    vec_release(&t->sources);
    vec_release(&t->series);
    vec_release(&t->members);
    intern_release(&t->parts);
    vec_release(&t->is_resources);
    vec_release(&t->rank);
    arena_release(&t->family);
    vec_release(&t->own);
    hash_table_release(&t->own_of);
    intern_release(&t->own_texts);
    vec_release(&t->said);
    vec_release(&t->lines);
    free(t);
    return NULL;
}

uint32_t prometheus_table_families(const struct prometheus_table *t, const struct prometheus_family **ret)
{
    *ret = t->families.p;
    return t->families.n;
}

int prometheus_table_series(struct prometheus_table *t, uint32_t i, const struct prometheus_series **ret,
                            uint32_t *ret_n)
{
    const struct prometheus_family *f = &t->families.p[i];
    intern_clear(&t->ids);
    vec_clear(&t->series);
    *ret_n = 0;
    int r = f->is_target ? target_series(t, f) : 0;
    for (uint32_t s = f->first; r == 0 && s != NONE; s = t->sources.p[s].next)
        r = read_points(t, f, &t->sources.p[s]);
    if (r < 0)
        return r;
    *ret = t->series.p;
    *ret_n = t->series.n;
    return 0;
}

/* ---- lines ----
 *
 * A series is named by its labels: those of its resource and its own. Where no two resources of the batch
 * have the same labels, no own label has a name that any resource has, and no two points of one metric of one
 * resource have the same own labels, all points of a family are series of their own: so labels are neither
 * made nor compared for each.
 */

/* The own labels of a point; *ret in t->own. PROMETHEUS_TABLE_ADDS_UP: a resource has a label of that name.
 */
static int own_of(struct prometheus_table *t, const struct metric_point *point, uint32_t *ret)
{
    struct hash_at at = hash_table_at(&t->own_of, hash_mix((uintptr_t)point->attrs, point->n_attrs));
    while ((*ret = hash_table_next(&t->own_of, &at)) != HASH_NONE)
        if (t->own.p[*ret].attrs == point->attrs && t->own.p[*ret].n_attrs == point->n_attrs)
            return 0;
    struct own own = {.attrs = point->attrs, .n_attrs = point->n_attrs};
    int r = own_labels(t, point);
    if (r == 0)
        r = number_names(t);
    for (uint32_t i = 0; r == 0 && i < t->n_set; i++)
        if (t->is_resources.p[intern_find(&t->label_names, t->set[i].name)])
            return PROMETHEUS_TABLE_ADDS_UP;
    if (r == 0)
        r = settle_labels(t, t->set, &t->n_set);
    if (r == 0)
        r = part_make(t, false, &t->family, &own.part);
    if (r < 0)
        return r;
    own.text = intern_add_slice(&t->own_texts, own.part.text);
    if (own.text == INTERN_NONE || hash_table_reserve(&t->own_of, 1) < 0 ||
        vec_extend(&t->said, t->own_texts.n) < 0 || vec_append(&t->own, own) < 0)
        return -ENOMEM;
    *ret = t->own.n - 1;
    return hash_table_add(&t->own_of, hash_table_at(&t->own_of, hash_mix((uintptr_t)own.attrs, own.n_attrs)),
                          *ret);
}

/* The points of a metric of a resource, each a line. */
static int read_lines(struct prometheus_table *t, uint32_t source)
{
    const struct source *from = &t->sources.p[source];
    const struct metric *metric = &t->batch->resources[from->resource].metrics[from->metric];
    for (uint32_t i = 0; i < metric->n_points; i++) {
        struct prometheus_line line = {.source = source, .point = i};
        struct metric_point room;
        const struct metric_point *point = metric_point_of(t->batch, metric, i, &room);
        if (point->stale && !t->options.keep_stale)
            continue;
        int r = own_of(t, point, &line.own);
        if (r != 0)
            return r;
        uint32_t *said = &t->said.p[t->own.p[line.own].text];
        if (*said == source + 1)
            return PROMETHEUS_TABLE_ADDS_UP;
        *said = source + 1;
        if (vec_append(&t->lines, line) < 0)
            return -ENOMEM;
    }
    return 0;
}

struct ranked {
    struct bytes name;
    uint32_t number;
};

static int by_name(const void *a, const void *b)
{
    const struct ranked *x = a, *y = b;
    return bytes_compare(x->name, y->name);
}

static int rank_names(struct prometheus_table *t)
{
    const uint32_t n = t->label_names.n;
    if (t->rank.n == n)
        return 0;
    autofree struct ranked *names = calloc(n, sizeof *names);
    if (!names || vec_extend(&t->rank, n) < 0)
        return -ENOMEM;
    for (uint32_t i = 0; i < n; i++)
        names[i] = (struct ranked){intern_get(&t->label_names, i), i};
    qsort(names, n, sizeof *names, by_name);
    for (uint32_t i = 0; i < n; i++)
        t->rank.p[names[i].number] = i;
    return 0;
}

int prometheus_table_lines(struct prometheus_table *t, uint32_t i, const struct prometheus_line **ret,
                           uint32_t *ret_n)
{
    const struct prometheus_family *f = &t->families.p[i];
    vec_clear(&t->lines);
    vec_clear(&t->own);
    vec_clear(&t->said);
    hash_table_clear(&t->own_of);
    intern_clear(&t->own_texts);
    arena_reset(&t->family, POINT_KEEP);
    int r = f->is_target || t->resources_are_alike ? PROMETHEUS_TABLE_ADDS_UP : 0;
    uint32_t resource = NONE;
    for (uint32_t s = f->first; r == 0 && s != NONE; s = t->sources.p[s].next) {
        /* Two metrics whose names became one. */
        r = t->sources.p[s].resource == resource ? PROMETHEUS_TABLE_ADDS_UP : read_lines(t, s);
        resource = t->sources.p[s].resource;
    }
    if (r == 0)
        r = rank_names(t);
    if (r != 0)
        return r;
    *ret = t->lines.p;
    *ret_n = t->lines.n;
    return 0;
}

int prometheus_line_labels(const struct prometheus_table *t, const struct prometheus_line *line,
                           struct buffer *out)
{
    const struct label_part *resource = &t->resources[t->sources.p[line->source].resource],
                            *own = &t->own.p[line->own].part;
    uint8_t *to = buffer_cursor(out, resource->text.n + own->text.n);
    if (!to)
        return -ENOMEM;
    out->n += label_parts_merge(resource, own, t->rank.p, to);
    return 0;
}

struct prometheus_series prometheus_line_series(const struct prometheus_table *t,
                                                const struct prometheus_line *line)
{
    const struct source *from = &t->sources.p[line->source];
    const struct metric *metric = &t->batch->resources[from->resource].metrics[from->metric];
    struct prometheus_series s = {.stale = true};
    struct metric_point room;
    add_point(&s, metric_point_of(t->batch, metric, line->point, &room));
    return s;
}
