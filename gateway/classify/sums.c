/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "gateway/classify/parts.h"
#include "proto/base/clock.h"
#include "proto/base/macros.h"

int sums_init(struct classify *c)
{
    uint32_t n = rules_program_sources(c->program);
    c->sources = calloc(n + 1, sizeof *c->sources);
    if (!c->sources)
        return -ENOMEM;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t metric = rules_program_source_metric(c->program, i);
        const struct rule_metric *m = rules_program_metric(c->program, metric);
        enum rule_value value = rules_program_source(c->program, i)->value;
        bool sum = (value == RULE_VALUE_SAMPLES || value == RULE_VALUE_SUM) && !m->gauge;
        c->sources[i] = (struct source_facts){(uint8_t)(value + (m->gauge ? CLASSIFY_VALUES : 0)),
                                              value == RULE_VALUE_TIME ? CLASSIFY_TIMES
                                              : sum                    ? CLASSIFY_SUMS
                                                                       : 0,
                                              m->gauge && m->combine != RULE_COMBINE_SUM,
                                              aggregate_is_counted(c->aggregate, metric)};
    }
    return 0;
}

/* What a slot adds, by the weight that a source asks for: a slot has many entries, of which nobody can
 * foresee who asks for what. */
struct weights {
    int64_t of[2 * CLASSIFY_VALUES];
    uint32_t none; /* a bit a weight: nothing of it could be weighed */
};

static inline void weigh(const struct slot *slot, const struct rules_time *time, struct weights *ret)
{
    int64_t *sum = ret->of, *gauge = ret->of + CLASSIFY_VALUES;
    sum[RULE_VALUE_TIME] = gauge[RULE_VALUE_TIME] = slot->time_base * time->factor;
    sum[RULE_VALUE_SAMPLES] = slot->samples;
    sum[RULE_VALUE_SUM] = slot->sum;
    gauge[RULE_VALUE_SAMPLES] = add_clamped(slot->samples, slot->negative);
    gauge[RULE_VALUE_SUM] = add_clamped(slot->sum, slot->negative);
    sum[RULE_VALUE_EVENTS] = gauge[RULE_VALUE_EVENTS] = slot->events;
    sum[RULE_VALUE_ONE] = gauge[RULE_VALUE_ONE] = slot->n - slot->n_nothing;
    ret->none = 0;
    if (unlikely(slot->n <= slot->n_untimed))
        ret->none |= 1u << RULE_VALUE_TIME | 1u << (RULE_VALUE_TIME + CLASSIFY_VALUES);
    if (unlikely(slot->n <= slot->n_negative))
        ret->none |= 1u << RULE_VALUE_SAMPLES | 1u << RULE_VALUE_SUM;
    if (unlikely(slot->n <= slot->n_nothing))
        /* of a gauge the values are 0 then */
        ret->none |= ((1u << CLASSIFY_VALUES) - 1) | 1u << (RULE_VALUE_EVENTS + CLASSIFY_VALUES) |
                     1u << (RULE_VALUE_ONE + CLASSIFY_VALUES);
}

uint8_t sums_weighs(const struct classify *c, const struct rules_entry *entries, uint32_t n)
{
    uint8_t weighs = 0;
    for (uint32_t i = 0; i < n; i++)
        weighs |= c->sources[entries[i].source].weighs;
    return weighs;
}

/* The profile's sum for the series, new and as `none` where it has none; there is room for it. Without a
 * branch: one in three is new, as good as by chance. */
static inline struct pending *sum_of(struct pending *all, uint32_t *n, struct place *place, uint32_t stamp,
                                     const struct pending *none)
{
    uint32_t is_new = place->stamp != stamp, at = place->pending;
    at ^= (at ^ *n) & -is_new; /* else the compiler makes a branch of it */
    all[*n] = *none;
    *n += is_new;
    *place = (struct place){stamp, at};
    return &all[at];
}

/* Series can be new since the last profile: their places begin unstamped. */
static int make_room(struct classify *c)
{
    if (vec_extend(&c->places, rules_matcher_series_count(c->matcher)) < 0)
        return -ENOMEM;
    if (++c->place_stamp == 0) {
        for (uint32_t i = 0; i < c->places.n; i++)
            c->places.p[i].stamp = 0;
        c->place_stamp = 1;
    }
    return 0;
}

/* How many samples a profiler took for these: one may stand for many, and says so by its value where that is
 * a number of samples or a time, else by its timestamps. */
static int64_t samples_of(const struct slot *slot, const struct rules_time *time)
{
    return time->how != RULES_TIME_NONE ? slot->samples : slot->events;
}

static int add_entries(struct classify *c, const struct slot *slot, const struct rules_time *time,
                       const struct rules_entry *entries, uint32_t n)
{
    struct classify_request *r = &c->request;
    uint32_t resource = r->view->scope.resource[r->view->profile.scope[r->profile]];
    uint32_t most = 1 + min_of(n, c->places.n); /* that become new, and one past the end */
    struct pending none = {resource, 0, r->profile, false, 0, 0};
    struct weights weights;
    if (vec_reserve(&r->pending, (uint64_t)r->pending.n + most) < 0 ||
        vec_reserve(&r->combined, (uint64_t)r->combined.n + most) < 0)
        return -ENOMEM;
    weigh(slot, time, &weights);
    /* in registers: what is written to a sum might else be one of these */
    struct pending *all = r->pending.p;
    struct place *places = c->places.p;
    const struct source_facts *sources = c->sources;
    uint32_t n_all = r->pending.n, stamp = c->place_stamp;
    for (uint32_t i = 0; i < n; i++) {
        const struct source_facts *s = &sources[entries[i].source];
        if (unlikely(weights.none >> s->weight & 1))
            continue;
        struct place *place = &places[entries[i].series];
        none.series = entries[i].series;
        struct pending *sum = unlikely(s->combined)
                                  ? sum_of(r->combined.p, &r->combined.n, place, stamp, &none)
                                  : sum_of(all, &n_all, place, stamp, &none);
        sum->value = add_clamped(sum->value, weights.of[s->weight]);
        if (unlikely(s->counted)) {
            sum->counted = true;
            sum->samples = add_clamped(sum->samples, samples_of(slot, time));
        }
    }
    r->pending.n = n_all;
    return 0;
}

/* The slot's last sample with a trace is an example of every series that it adds to. Without memory there is
 * none: the numbers do not need it. */
static void note_example(struct classify *c, const struct slot *slot, const struct rules_time *time,
                         const struct rules_entry *entries, uint32_t n)
{
    const struct profiles *v = c->request.view;
    uint32_t sample = slot->linked - 1;
    struct slot alone = {0};
    struct weights weights;
    if (v->link.trace_at[v->sample.link[sample]] == 0)
        return;
    sums_sample(c, &alone, time, sample);
    weigh(&alone, time, &weights);
    for (uint32_t i = 0; i < n && c->request.examples.n < CLASSIFY_EXAMPLES_MAX; i++) {
        const struct source_facts *s = &c->sources[entries[i].source];
        struct example e = {c->request.profile, sample, entries[i].series, weights.of[s->weight]};
        if (s->combined || weights.none >> s->weight & 1)
            continue;
        if (vec_append(&c->request.examples, e) < 0)
            return;
    }
}

int sums_profile(struct classify *c, const struct rules_time *time)
{
    if (make_room(c) < 0)
        return -ENOMEM;
    for (uint32_t i = 0; i < c->request.slots.n; i++) {
        const struct slot *slot = c->request.slots.p + i;
        const struct rules_outcome *o = rules_matcher_outcome_at(c->matcher, slot->outcome);
        bool own = slot->n_frames == 0;
        const struct rules_entry *whole = o->n_entries ? rules_matcher_entry(c->matcher, o->entries) : NULL,
                                 *counted = own ? whole : c->request.frame_entries.p + slot->frames_at;
        if (add_entries(c, slot, time, counted, own ? o->n_entries : slot->n_frames) < 0)
            return -ENOMEM;
        if (unlikely(slot->linked != 0))
            note_example(c, slot, time, whole, o->n_entries);
    }
    return 0;
}

/* ---- to the aggregate ---------------------------------------------------------------------- */

static __attribute__((noinline)) uint32_t new_series(struct classify *c, uint32_t series)
{
    const struct rules_series_label *labels;
    uint32_t n = rules_matcher_series_labels(c->matcher, series, &labels);
    struct aggregate_label *out = c->labels.p; /* room was made for every series' labels */
    for (uint32_t i = 0; i < n; i++)
        out[i] = (struct aggregate_label){rules_program_name(c->program, labels[i].name),
                                          rules_matcher_text(c->matcher, labels[i].value)};
    uint32_t made = aggregate_series(c->aggregate, rules_matcher_series_metric(c->matcher, series), out, n);
    c->series_number.p[series] = made + 1;
    return made;
}

static inline uint32_t series_number(struct classify *c, uint32_t series)
{
    uint32_t number = c->series_number.p[series];
    return likely(number != 0) ? number - 1 : new_series(c, series);
}

static inline bool inside(struct bytes part, struct bytes whole)
{
    return part.p >= whole.p && part.p < whole.p + whole.n;
}

/* Whether the Resource message says all of the resource: keys and strings, nested ones too, may be references
 * to the request's own string table instead, and then their text is somewhere else. (So is text without a
 * place, such as an empty string.) */
static bool says_all(const struct profiles *v, uint32_t resource)
{
    struct bytes raw = v->resource.raw[resource];
    for (uint32_t i = v->resource.attrs_at[resource]; i < v->resource.attrs_at[resource + 1]; i++) {
        const struct attr *attr = &v->key_value.attr[i];
        enum attr_kind kind = attr->value.kind;
        bool text = kind == ATTR_STRING || kind == ATTR_BYTES || kind == ATTR_ARRAY || kind == ATTR_KVLIST;
        if (!inside(attr->key, raw) || (text && !inside(attr->value.text, raw)))
            return false;
    }
    return true;
}

static __attribute__((noinline)) uint32_t new_resource(struct classify *c, uint32_t resource)
{
    const struct profiles *v = c->request.view;
    uint32_t at = v->resource.attrs_at[resource], n = v->resource.attrs_at[resource + 1] - at;
    const struct attr *attrs = v->key_value.attr + at;
    uint32_t made = says_all(v, resource)
                        ? aggregate_resource_of(c->aggregate, v->resource.raw[resource], attrs, n)
                        : aggregate_resource(c->aggregate, attrs, n);
    c->request.resource_number.p[resource] = made + 1;
    return made;
}

static inline uint32_t resource_number(struct classify *c, uint32_t resource)
{
    uint32_t number = c->request.resource_number.p[resource];
    return likely(number != 0) ? number - 1 : new_resource(c, resource);
}

static void add(struct classify *c, uint32_t resource, uint32_t series, int64_t value)
{
    aggregate_add(c->aggregate, resource_number(c, resource), series_number(c, series), value);
}

static int by_place(const void *a, const void *b, void *view)
{
    const struct pending *x = a, *y = b;
    const uint64_t *time = ((const struct profiles *)view)->profile.time_unix_nano;
    return order_of(x->resource, y->resource) ?: order_of(x->series, y->series)
               ?: order_of(time[x->profile], time[y->profile]);
}

/* `combine mean` of a resource and series: profiles of one time are averaged, rounding toward zero, and times
 * added up. (Within a request; the interval's other requests are added by the aggregate.) */
static int64_t mean_of(const struct classify *c, const struct pending *p, uint32_t n)
{
    int64_t total = 0;
    for (uint32_t i = 0, from = 0; i < n; from = i) {
        __int128 sum = 0;
        for (; i < n && by_place(&p[i], &p[from], (void *)c->request.view) == 0; i++)
            sum += p[i].value;
        total = add_clamped(total, (int64_t)(sum / (int64_t)(i - from)));
    }
    return total;
}

/* `combine last`: the aggregate knows which profile is the newest. One that does not say when it was taken,
 * or that comes from a clock ahead of ours, is of now: or nothing could follow it. */
static void keep(struct classify *c, const struct pending *p, uint64_t now, uint64_t arrival)
{
    uint64_t time = c->request.view->profile.time_unix_nano[p->profile];
    struct aggregate_moment moment = {time == 0 || time > now ? now : time, arrival + p->profile};
    aggregate_keep(c->aggregate, resource_number(c, p->resource), series_number(c, p->series), &moment,
                   p->value);
}

static void apply_combined(struct classify *c)
{
    struct pending *p = c->request.combined.p;
    uint64_t now = 0, arrival = 0;
    if (c->request.combined.n > 1)
        qsort_r(p, c->request.combined.n, sizeof *p, by_place, (void *)c->request.view);
    for (uint32_t i = 0, end; i < c->request.combined.n; i = end) {
        const struct rule_metric *metric =
            rules_program_metric(c->program, rules_matcher_series_metric(c->matcher, p[i].series));
        for (end = i + 1;
             end < c->request.combined.n && p[end].resource == p[i].resource && p[end].series == p[i].series;)
            end++;
        if (metric->combine == RULE_COMBINE_MEAN) {
            add(c, p[i].resource, p[i].series, mean_of(c, &p[i], end - i));
            continue;
        }
        if (arrival == 0) {
            now = clock_realtime();
            arrival = aggregate_arrivals(c->request.view->profile.n);
        }
        for (uint32_t k = i; k < end; k++)
            keep(c, &p[k], now, arrival);
    }
}

/* When a profile's samples were counted: its end. 0: it does not say. */
static uint64_t end_of_profile(const struct profiles *v, uint32_t profile)
{
    uint64_t start = v->profile.time_unix_nano[profile], end;
    if (start == 0 || __builtin_add_overflow(start, v->profile.duration_nano[profile], &end))
        return start;
    return end;
}

static void offer_examples(struct classify *c)
{
    const struct profiles *v = c->request.view;
    const struct example *examples = c->request.examples.p;
    for (uint32_t i = 0; i < c->request.examples.n; i++) {
        const struct example *e = &examples[i];
        uint32_t link = v->sample.link[e->sample];
        struct aggregate_exemplar offered = {.time_unix_nano = end_of_profile(v, e->profile),
                                             .value = e->value};
        memcpy(offered.trace_id, v->body.p + v->link.trace_at[link], sizeof offered.trace_id);
        if (v->link.span_at[link] != 0)
            memcpy(offered.span_id, v->body.p + v->link.span_at[link], sizeof offered.span_id);
        aggregate_offer(c->aggregate, resource_number(c, v->scope.resource[v->profile.scope[e->profile]]),
                        series_number(c, e->series), &offered);
    }
}

/* Of so many sums the places in the aggregate are one wait. */
#define AHEAD 16u

int sums_apply(struct classify *c)
{
    uint32_t n_resources = c->request.view->resource.n, most = 1;
    if (vec_extend(&c->series_number, rules_matcher_series_count(c->matcher)) < 0 ||
        classify_room(&c->request.resource_number, n_resources) < 0)
        return -ENOMEM;
    memset(c->request.resource_number.p, 0, n_resources * sizeof *c->request.resource_number.p);
    for (uint32_t i = 0; i < rules_program_sources(c->program); i++)
        most = max_of(most, rules_program_source(c->program, i)->n_labels);
    if (vec_reserve(&c->labels, most) < 0)
        return -ENOMEM;
    const struct pending *p = c->request.pending.p;
    for (uint32_t i = 0; i < c->request.pending.n; i++) {
        if (likely(i + AHEAD < c->request.pending.n))
            aggregate_prefetch(c->aggregate, resource_number(c, p[i + AHEAD].resource),
                               series_number(c, p[i + AHEAD].series));
        add(c, p[i].resource, p[i].series, p[i].value);
        if (unlikely(p[i].counted) && p[i].samples > 0)
            aggregate_count(c->aggregate, resource_number(c, p[i].resource), series_number(c, p[i].series),
                            (uint64_t)p[i].samples);
    }
    apply_combined(c);
    offer_examples(c);
    return 0;
}
