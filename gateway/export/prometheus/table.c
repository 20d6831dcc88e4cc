/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/export/prometheus/table.h"

#include <errno.h>
#include <stdlib.h>

#include "gateway/export/prometheus/parts.h"
#include "proto/base/hash.h"
#include "proto/base/macros.h"

#define NONE UINT32_MAX

/* Of what is made for one family, the memory that is kept for the next. */
#define FAMILY_KEEP (64u << 10)

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
    struct arena arena;
    struct prometheus_labels labels;
    struct intern names;      /* of families */
    struct intern target_ids; /* job, 0, instance → target number */
    VEC(struct target) targets;
    VEC(struct prometheus_family) families;
    VEC(struct source) sources;
    struct intern ids; /* labels → series number, of the family that was asked for */
    VEC(struct prometheus_series) series;
    struct buffer scratch, escaped;
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

/* ---- parts ---- */

/* Makes a part of the settled labels in the set, whose names have numbers; the tail is a resource's. */
static int part_make(struct prometheus_table *t, bool is_resource, struct arena *arena,
                     struct label_part *ret)
{
    const struct prometheus_labels *l = &t->labels;
    struct label_place *places = arena_calloc(arena, l->n_set, sizeof *places);
    int r = places ? 0 : -ENOMEM;
    t->scratch.n = 0;
    for (uint32_t i = 0; r == 0 && i < l->n_set; i++) {
        r = t->options.label(&l->set[i], &t->scratch);
        places[i] = (struct label_place){intern_find(&l->names, l->set[i].name), (uint32_t)t->scratch.n};
    }
    if (r == 0 && is_resource)
        r = t->options.tail(t->options.user, l->set, l->n_set, &t->scratch);
    if (r < 0)
        return r;
    *ret = (struct label_part){places, l->n_set, arena_copy(arena, buffer_bytes(&t->scratch))};
    return ret->text.p ? 0 : -ENOMEM;
}

/* Numbers of the names in the set. */
static int number_names(struct prometheus_table *t)
{
    struct prometheus_labels *l = &t->labels;
    for (uint32_t i = 0; i < l->n_set; i++)
        if (intern_add(&l->names, l->set[i].name) == INTERN_NONE)
            return -ENOMEM;
    return vec_extend(&t->is_resources, l->names.n);
}

/* Empty labels count: in a point they hide the resource's. */
static int resource_part(struct prometheus_table *t, struct label_part *ret)
{
    if (!t->options.label)
        return 0;
    struct prometheus_labels *l = &t->labels;
    prometheus_labels_take(l, l->of_resource, l->n_of_resource);
    int r = number_names(t);
    for (uint32_t i = 0; r == 0 && i < l->n_set; i++)
        t->is_resources.p[intern_find(&l->names, l->set[i].name)] = true;
    if (r == 0)
        r = prometheus_labels_settle(l);
    if (r == 0)
        r = part_make(t, true, &t->arena, ret);
    if (r < 0)
        return r;
    uint32_t known = t->parts.n, id = intern_add_slice(&t->parts, ret->text);
    t->resources_are_alike |= id != known;
    return id == INTERN_NONE ? -ENOMEM : 0;
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

/* Adds to the series of the family with these labels, which are settled. */
static int series_add(struct prometheus_table *t, const struct prometheus_family *f,
                      const struct prometheus_label *labels, uint32_t n, const struct metric_point *p)
{
    t->scratch.n = 0;
    int r = t->options.labels(t->options.user, f, labels, n, &t->scratch);
    if (r < 0)
        return r;
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
    arena_reset(&t->family, FAMILY_KEEP);
    int r = prometheus_labels_of_resource(&t->labels, res, &t->family);
    for (uint32_t i = 0; r == 0 && i < metric->n_points; i++) {
        struct metric_point room;
        const struct metric_point *point = metric_point_of(t->batch, metric, i, &room);
        if (point->stale && !t->options.keep_stale)
            continue;
        r = prometheus_labels_of_point(&t->labels, point);
        if (r == 0)
            r = series_add(t, f, t->labels.merged, t->labels.n_merged, point);
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
    const struct prometheus_label *of = t->labels.of_resource;
    const uint32_t n = t->labels.n_of_resource;
    struct bytes job = label_value(of, n, "job"), instance = label_value(of, n, "instance");
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
        keep_common(&t->targets.p[id], of, n);
        return 0;
    }
    struct prometheus_label *labels = arena_calloc(&t->arena, n, sizeof *labels);
    if (!labels)
        return -ENOMEM;
    memcpy(labels, of, n * sizeof *labels);
    return vec_append(&t->targets, (struct target){labels, n});
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
        prometheus_labels_take(&t->labels, target->labels, target->n);
        r = prometheus_labels_settle(&t->labels);
        if (r == 0)
            r = series_add(t, f, t->labels.set, t->labels.n_set, &one);
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
        r = prometheus_labels_of_resource(&t->labels, res, &t->arena);
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
    prometheus_labels_init(&t->labels, batch, &t->options.names);
    t->names = (struct intern)INTERN_INIT(budget);
    t->ids = (struct intern)INTERN_INIT(budget);
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
    prometheus_labels_release(&t->labels);
    intern_release(&t->names);
    intern_release(&t->ids);
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
    struct prometheus_labels *l = &t->labels;
    int r = prometheus_labels_own(l, point);
    if (r == 0)
        r = number_names(t);
    for (uint32_t i = 0; r == 0 && i < l->n_set; i++)
        if (t->is_resources.p[intern_find(&l->names, l->set[i].name)])
            return PROMETHEUS_TABLE_ADDS_UP;
    if (r == 0)
        r = prometheus_labels_settle(l);
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
    const uint32_t n = t->labels.names.n;
    if (t->rank.n == n)
        return 0;
    autofree struct ranked *names = calloc(n, sizeof *names);
    if (!names || vec_extend(&t->rank, n) < 0)
        return -ENOMEM;
    for (uint32_t i = 0; i < n; i++)
        names[i] = (struct ranked){intern_get(&t->labels.names, i), i};
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
    arena_reset(&t->family, FAMILY_KEEP);
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
