/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/aggregate/watch.h"

#include <stdlib.h>
#include <string.h>

#include "gateway/aggregate/attrset.h"
#include "gateway/aggregate/watches.h"
#include "proto/base/intern.h"
#include "proto/base/macros.h"

#define GROUP_BYTES_MAX (16u << 10) /* of a group's values together; longer ones are no group */
#define ABSENT          UINT32_MAX
#define NO_GROUP        (UINT32_MAX - 1) /* asked for, and there is none */

struct group {
    struct watch_totals totals;
    uint64_t last; /* when something was added */
};

/* A worker's numbers, for one epoch of one generation. */
struct watch_map {
    uint32_t generation, epoch, groups;
    struct numbers group, sums; /* by resource: its group; by series: the bits of `select` */
};

struct watch {
    struct watch *next;
    struct watch_options options;
    struct budget *budget;
    struct intern names; /* of groups, by number: for each key the length and text of its value, or ABSENT */
    VEC(struct group) groups;
    uint32_t generation; /* of the groups' numbers */
    uint64_t now, unseen;
    struct buffer scratch;
    struct watch_map *maps;
    uint32_t n_workers;
};

static struct watch *watch_free(struct watch *w)
{
    for (uint32_t i = 0; i < w->n_workers; i++) {
        vec_release(&w->maps[i].group.of);
        vec_release(&w->maps[i].sums.of);
    }
    vec_release(&w->groups);
    intern_release(&w->names);
    buffer_release(&w->scratch);
    free(w->maps);
    free(w);
    return NULL;
}

struct watch *watches_add(struct watches *list, const struct catalogue *all,
                          const struct watch_options *options)
{
    struct watch *w = calloc(1, sizeof *w);
    struct watch_map *maps = calloc(all->n_workers + 1, sizeof *maps);
    if (!w || !maps || options->n_keys > WATCH_KEYS_MAX) {
        free(w);
        free(maps);
        return NULL;
    }
    *w = (struct watch){.next = list->first,
                        .options = *options,
                        .budget = all->budget,
                        .names = INTERN_INIT(all->budget),
                        .generation = 1,
                        .scratch = BUFFER_INIT(GROUP_BYTES_MAX),
                        .maps = maps,
                        .n_workers = all->n_workers,
                        .groups.budget = all->budget};
    for (uint32_t i = 0; i < w->n_workers; i++)
        maps[i].group.of.budget = maps[i].sums.of.budget = all->budget;
    list->first = w;
    return w;
}

void watches_drop(struct watches *list, struct watch *w)
{
    for (struct watch **at = &list->first; *at; at = &(*at)->next) {
        if (*at == w) {
            *at = w->next;
            watch_free(w);
            return;
        }
    }
}

void watches_release(struct watches *list)
{
    while (list->first)
        watches_drop(list, list->first);
}

/* ---- whose a worker's numbers are ---- */

static int add_value(struct watch *w, struct bytes key, struct bytes set)
{
    struct attr attr;
    char space[WATCH_TEXT_SPACE];
    struct bytes value = {0};
    while (attrset_next(&set, &attr)) {
        if (bytes_eq(attr.key, key)) {
            value = w->options.text(&attr.value, space);
            break;
        }
    }
    uint32_t n = value.p ? (uint32_t)value.n : ABSENT;
    int r = buffer_add(&w->scratch, &n, sizeof n);
    return r == 0 && value.p ? buffer_add_bytes(&w->scratch, value) : r;
}

/* The group of a resource's attributes; NO_GROUP when there is no room for it. */
static uint32_t group_of_set(struct watch *w, struct bytes set)
{
    w->scratch.n = 0;
    for (uint32_t i = 0; i < w->options.n_keys; i++)
        if (add_value(w, w->options.keys[i], set) < 0)
            return NO_GROUP;
    uint32_t id = intern_find(&w->names, buffer_bytes(&w->scratch));
    if (id != INTERN_NONE)
        return id;
    if (w->groups.n >= w->options.groups_max || vec_reserve(&w->groups, w->groups.n + 1) < 0)
        return NO_GROUP;
    id = intern_add(&w->names, buffer_bytes(&w->scratch));
    if (id == INTERN_NONE)
        return NO_GROUP;
    vec_append(&w->groups, (struct group){.last = w->now});
    return id;
}

static uint32_t group_of(struct watch *w, struct watch_map *m, const struct worker_dict *dict,
                         uint32_t resource)
{
    bool unknown = resource == RESOURCE_OVERFLOW || resource > dict->resources.of.n;
    if (unknown)
        return w->options.n_keys > 0 ? NO_GROUP : group_of_set(w, (struct bytes){0});
    uint32_t *known = numbers_place(&m->group, resource - 1, dict->resources.of.n);
    if (known && *known != NO_ID)
        return *known;
    struct bytes set = dict->resources.of.p[resource - 1];
    uint32_t group = set.p || w->options.n_keys == 0 ? group_of_set(w, set) : NO_GROUP;
    if (known && group != NO_GROUP)
        *known = group;
    return group;
}

static uint32_t ask(const struct watch *w, const struct aggregate_metric *metric, struct bytes set)
{
    struct aggregate_label labels[ATTRSET_MAX];
    struct attr attr;
    uint32_t n = 0;
    while (n < ATTRSET_MAX && attrset_next(&set, &attr))
        labels[n++] = (struct aggregate_label){attr.key, attr.value.text};
    return w->options.select(w->options.context, metric, labels, n);
}

/* Overflow of a worker's table has lost its labels: all that is known is that it is none of theirs. */
static uint32_t ask_overflow(const struct watch *w, const struct aggregate_metric *metric)
{
    struct aggregate_label label = {BYTES_LIT("otel.metric.overflow"), BYTES_LIT("true")};
    return w->options.select(w->options.context, metric, &label, 1);
}

static uint32_t sums_of(struct watch *w, struct watch_map *m, const struct watching *what, uint32_t series,
                        uint32_t slot)
{
    const struct worker_dict *dict = what->dict;
    uint32_t first = what->generation->n_metrics;
    const struct aggregate_metric *metric = &what->all->metrics[slot];
    if (series < first || series - first >= dict->series.of.n || !dict->series.of.p[series - first].p)
        return ask_overflow(w, metric);
    uint32_t *known = numbers_place(&m->sums, series - first, dict->series.of.n);
    if (known && *known != NO_ID)
        return *known;
    struct bytes set = dict->series.of.p[series - first];
    uint32_t sums = ask(w, metric, bytes_of(set.p + sizeof(uint32_t), set.n - sizeof(uint32_t)));
    if (known)
        *known = sums;
    return sums;
}

static struct watch_map *map_of(struct watch *w, const struct watching *what)
{
    struct watch_map *m = &w->maps[what->worker];
    bool other_worker = m->generation != what->delta->generation || m->epoch != what->delta->epoch;
    if (other_worker)
        numbers_forget(&m->sums);
    if (other_worker || m->groups != w->generation)
        numbers_forget(&m->group);
    m->generation = what->delta->generation;
    m->epoch = what->delta->epoch;
    m->groups = w->generation;
    return m;
}

/* ---- adding ---- */

static struct group *find_group(struct watch *w, struct watch_map *m, const struct watching *what,
                                uint32_t resource)
{
    uint32_t group = group_of(w, m, what->dict, resource);
    if (group == NO_GROUP) {
        __atomic_store_n(&w->unseen, w->unseen + 1, __ATOMIC_RELAXED);
        return NULL;
    }
    w->groups.p[group].last = w->now;
    return &w->groups.p[group];
}

static void advance(struct watch *w, uint64_t now)
{
    if (was_put_back(w->now, now)) {
        for (uint32_t i = 0; i < w->groups.n; i++)
            w->groups.p[i].last = min_of(w->groups.p[i].last, now);
        w->now = now;
    }
    w->now = max_of(w->now, now);
}

static void apply(struct watch *w, const struct watching *what)
{
    const struct aggregate_delta *d = what->delta;
    struct watch_map *m = map_of(w, what);
    advance(w, what->now);
    for (uint32_t i = 0; i < d->n_cells; i++) {
        const struct delta_cell *c = &d->cells[i];
        uint32_t sums = sums_of(w, m, what, c->series, what->generation->slot[c->metric]);
        struct group *g = sums ? find_group(w, m, what, c->resource) : NULL;
        for (uint32_t k = 0; k < WATCH_SUMS && g; k++)
            if (sums >> k & 1)
                g->totals.sum[k] = add_clamped(g->totals.sum[k], c->sum);
    }
    for (uint32_t i = 0; i < d->n_counts; i++) {
        const struct delta_count *c = &d->counts[i];
        uint32_t sums = sums_of(w, m, what, c->series, what->generation->slot[c->metric]);
        struct group *g = sums ? find_group(w, m, what, c->resource) : NULL;
        for (uint32_t k = 0; k < WATCH_SUMS && g; k++)
            g->totals.samples[k] += sums >> k & 1 ? c->samples : 0;
    }
}

void watches_apply(struct watches *list, const struct watching *what)
{
    for (struct watch *w = list->first; w; w = w->next)
        apply(w, what);
}

/* ---- looking ---- */

static bool is_idle(const struct watch *w, const struct group *g)
{
    return w->now - g->last >= w->options.idle_ns;
}

/* Numbers change. Without memory to do it in, idle groups stay. */
static void forget_idle(struct watch *w)
{
    struct intern names = INTERN_INIT(w->budget);
    uint32_t n = 0, left = 0;
    for (uint32_t i = 0; i < w->groups.n; i++)
        left += !is_idle(w, &w->groups.p[i]);
    if (left == w->groups.n)
        return;
    for (uint32_t i = 0; i < w->groups.n; i++) {
        if (!is_idle(w, &w->groups.p[i]) && intern_add(&names, intern_get(&w->names, i)) == INTERN_NONE) {
            intern_release(&names);
            return;
        }
    }
    for (uint32_t i = 0; i < w->groups.n; i++)
        if (!is_idle(w, &w->groups.p[i]))
            w->groups.p[n++] = w->groups.p[i];
    w->groups.n = n;
    intern_release(&w->names);
    w->names = names;
    w->generation++;
}

void watch_each(struct watch *w, uint64_t now,
                void (*each)(void *context, const struct bytes *values, const struct watch_totals *totals),
                void *context)
{
    advance(w, now);
    forget_idle(w);
    for (uint32_t i = 0; i < w->groups.n; i++) {
        struct bytes values[WATCH_KEYS_MAX] = {{0}};
        const uint8_t *at = intern_get(&w->names, i).p;
        for (uint32_t k = 0; k < w->options.n_keys; k++) {
            uint32_t n;
            memcpy(&n, at, sizeof n);
            at += sizeof n;
            if (n == ABSENT)
                continue;
            values[k] = bytes_of(at, n);
            at += n;
        }
        each(context, values, &w->groups.p[i].totals);
    }
}

uint64_t watch_unseen(const struct watch *w)
{
    return __atomic_load_n(&w->unseen, __ATOMIC_RELAXED);
}
