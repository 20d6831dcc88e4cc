#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "gateway/classify/parts.h"
#include "proto/base/macros.h"

static int64_t add_clamped(int64_t a, int64_t b)
{
    int64_t sum;
    if (__builtin_add_overflow(a, b, &sum))
        return b > 0 ? INT64_MAX : INT64_MIN;
    return sum;
}

void sums_sample(struct classify *c, struct slot *slot, const struct rules_time *time, uint32_t sample)
{
    const struct profiles *v = c->view;
    uint32_t n_values = v->sample.n_values[sample], n_times = v->sample.n_timestamps[sample];
    int64_t sum = v->sample.value_sum[sample], events = max_of(n_times, 1u),
            samples = n_values ? sum : events;
    slot->n++;
    slot->events += events;
    if (likely(samples >= 0)) {
        slot->samples = add_clamped(slot->samples, samples);
        slot->sum = add_clamped(slot->sum, sum);
    } else {
        slot->negative = add_clamped(slot->negative, samples);
        slot->n_negative++;
    }
    int64_t base = time->how == RULES_TIME_SAMPLES ? samples : sum;
    bool timed = time->how == RULES_TIME_SAMPLES || (time->how == RULES_TIME_VALUES && n_values > 0);
    if (timed && base >= 0 && base <= time->limit - slot->time_base)
        slot->time_base += base;
    else
        slot->n_untimed++;
}

/* What an entry of this source adds for the slot; false when nothing of it could be weighed. */
static bool weigh(const struct classify *c, const struct slot *slot, const struct rules_time *time,
                  uint32_t source, int64_t *ret)
{
    const struct rule_source *s = rules_program_source(c->program, source);
    bool gauge = rules_program_metric(c->program, rules_program_source_metric(c->program, source))->gauge;
    switch (s->value) {
    case RULE_VALUE_TIME: *ret = slot->time_base * time->factor; return slot->n > slot->n_untimed;
    case RULE_VALUE_SAMPLES:
    case RULE_VALUE_SUM:
        *ret = s->value == RULE_VALUE_SUM ? slot->sum : slot->samples;
        if (gauge)
            *ret = add_clamped(*ret, slot->negative);
        return gauge || slot->n > slot->n_negative;
    case RULE_VALUE_EVENTS: *ret = slot->events; return true;
    case RULE_VALUE_ONE: *ret = slot->n; return true;
    }
    return false;
}

/* Samples of the slot that this source could not weigh. */
static int64_t unweighed(const struct classify *c, const struct slot *slot, uint32_t source)
{
    const struct rule_source *s = rules_program_source(c->program, source);
    if (s->value == RULE_VALUE_TIME)
        return slot->n_untimed;
    if (s->value != RULE_VALUE_SAMPLES && s->value != RULE_VALUE_SUM)
        return 0;
    return rules_program_metric(c->program, rules_program_source_metric(c->program, source))->gauge
               ? 0
               : slot->n_negative;
}

static int touch(struct classify *c, uint32_t series, int64_t value)
{
    int64_t *values = c->value.p;
    uint32_t *stamps = c->value_stamp.p;
    if (stamps[series] == c->value_stamp_now) {
        values[series] = add_clamped(values[series], value);
        return 0;
    }
    stamps[series] = c->value_stamp_now;
    values[series] = value;
    return column_add(c, &c->touched, &c->n_touched, &series, sizeof series);
}

/* Series can be new since the last profile: their sums begin unstamped. */
static int make_room(struct classify *c)
{
    uint32_t n = rules_matcher_series_count(c->matcher);
    size_t was = c->value_stamp.bytes;
    if (!column_need(c, &c->value, n, sizeof(int64_t)) ||
        !column_need(c, &c->value_stamp, n, sizeof(uint32_t)))
        return -ENOMEM;
    memset((char *)c->value_stamp.p + was, 0, c->value_stamp.bytes - was);
    if (++c->value_stamp_now == 0) {
        memset(c->value_stamp.p, 0, c->value_stamp.bytes);
        c->value_stamp_now = 1;
    }
    c->n_touched = 0;
    return 0;
}

static int add_entries(struct classify *c, const struct slot *slot, const struct rules_time *time,
                       const struct rules_entry *entries, uint32_t n, int64_t *worst)
{
    for (uint32_t i = 0; i < n; i++) {
        int64_t value;
        *worst = max_of(*worst, unweighed(c, slot, entries[i].source));
        if (weigh(c, slot, time, entries[i].source, &value) && touch(c, entries[i].series, value) < 0)
            return -ENOMEM;
    }
    return 0;
}

int sums_profile(struct classify *c, const struct rules_time *time)
{
    const struct profiles *v = c->view;
    if (make_room(c) < 0)
        return -ENOMEM;
    for (uint32_t i = 0; i < c->n_slots; i++) {
        const struct slot *slot = (const struct slot *)c->slots.p + i;
        const struct rules_outcome *o = rules_matcher_outcome_at(c->matcher, slot->outcome);
        const struct rules_entry *frames = (const struct rules_entry *)c->frame_entries.p + slot->frames_at;
        int64_t worst = 0;
        bool own = slot->n_frames == 0;
        if (add_entries(c, slot, time, own ? rules_matcher_entry(c->matcher, o->entries) : frames,
                        own ? o->n_entries : slot->n_frames, &worst) < 0)
            return -ENOMEM;
        for (uint32_t k = 0; k < o->n_entries && !own; k++) /* counted with the outcome's slot already */
            worst -= min_of(worst, unweighed(c, slot, rules_matcher_entry(c->matcher, o->entries)[k].source));
        c->unweighed += (uint64_t)worst;
    }
    uint32_t scope = v->profile.scope[c->profile];
    for (uint32_t i = 0; i < c->n_touched; i++) {
        uint32_t series = ((const uint32_t *)c->touched.p)[i];
        const struct rule_metric *metric =
            rules_program_metric(c->program, rules_matcher_series_metric(c->matcher, series));
        bool combined = metric->gauge && metric->combine != RULE_COMBINE_SUM;
        struct pending p = {v->scope.resource[scope], series,
                            combined ? v->profile.time_unix_nano[c->profile] : 0,
                            ((const int64_t *)c->value.p)[series]};
        if (column_add(c, combined ? &c->combined : &c->pending, combined ? &c->n_combined : &c->n_pending,
                       &p, sizeof p) < 0)
            return -ENOMEM;
    }
    return 0;
}

/* ---- to the aggregate
 * ------------------------------------------------------------------------------------------ */

static uint32_t series_number(struct classify *c, uint32_t series)
{
    uint32_t *number = (uint32_t *)c->series_number.p + series;
    if (*number != 0)
        return *number - 1;
    const struct rules_series_label *labels;
    uint32_t n = rules_matcher_series_labels(c->matcher, series, &labels);
    struct aggregate_label *out = c->scratch.p; /* room was made for every series' labels */
    for (uint32_t i = 0; i < n; i++)
        out[i] = (struct aggregate_label){rules_program_name(c->program, labels[i].name),
                                          rules_matcher_text(c->matcher, labels[i].value)};
    uint32_t made = aggregate_series(c->aggregate, rules_matcher_series_metric(c->matcher, series), out, n);
    *number = made + 1;
    return made;
}

static uint32_t resource_number(struct classify *c, uint32_t resource)
{
    uint32_t *number = (uint32_t *)c->resource_number.p + resource;
    if (*number == 0) {
        const struct profiles *v = c->view;
        uint32_t at = v->resource.attrs_at[resource];
        *number = 1 + aggregate_resource(c->aggregate, v->key_value.attr + at,
                                         v->resource.attrs_at[resource + 1] - at);
    }
    return *number - 1;
}

static void add(struct classify *c, uint32_t resource, uint32_t series, int64_t value)
{
    aggregate_add(c->aggregate, resource_number(c, resource), series_number(c, series), value);
}

static int by_place(const void *a, const void *b)
{
    const struct pending *x = a, *y = b;
    if (x->resource != y->resource)
        return x->resource < y->resource ? -1 : 1;
    if (x->series != y->series)
        return x->series < y->series ? -1 : 1;
    return (x->time > y->time) - (x->time < y->time);
}

/* `combine mean`: profiles of one resource and time are averaged, rounding toward zero, and times added up.
 * `last`: the newest time is kept. (Both within a request; the interval's other requests are added by the
 * aggregate.) */
static void apply_combined(struct classify *c)
{
    struct pending *p = c->combined.p;
    if (c->n_combined > 1)
        qsort(p, c->n_combined, sizeof *p, by_place);
    for (uint32_t i = 0, end; i < c->n_combined; i = end) {
        const struct rule_metric *metric =
            rules_program_metric(c->program, rules_matcher_series_metric(c->matcher, p[i].series));
        bool mean = metric->combine == RULE_COMBINE_MEAN;
        int64_t total = 0, last = 0;
        for (end = i;
             end < c->n_combined && p[end].resource == p[i].resource && p[end].series == p[i].series;) {
            uint32_t from = end;
            __int128 sum = 0;
            for (; end < c->n_combined && by_place(&p[end], &p[from]) == 0; end++)
                sum += p[end].value;
            last = (int64_t)(mean ? sum / (int64_t)(end - from)
                                  : max_of(min_of(sum, (__int128)INT64_MAX), (__int128)INT64_MIN));
            total = add_clamped(total, last);
        }
        add(c, p[i].resource, p[i].series, mean ? total : last);
    }
}

int sums_apply(struct classify *c)
{
    uint32_t n = rules_matcher_series_count(c->matcher), most = 1;
    size_t was = c->series_number.bytes;
    if (!column_need(c, &c->series_number, n, sizeof(uint32_t)))
        return -ENOMEM;
    memset((char *)c->series_number.p + was, 0,
           c->series_number.bytes - was); /* now: what follows may fail */
    if (!column_need(c, &c->resource_number, c->view->resource.n, sizeof(uint32_t)))
        return -ENOMEM;
    memset(c->resource_number.p, 0, c->view->resource.n * sizeof(uint32_t));
    for (uint32_t i = 0; i < rules_program_sources(c->program); i++)
        most = max_of(most, rules_program_source(c->program, i)->n_labels);
    if (!column_need(c, &c->scratch, most, sizeof(struct aggregate_label)))
        return -ENOMEM;
    const struct pending *p = c->pending.p;
    for (uint32_t i = 0; i < c->n_pending; i++)
        add(c, p[i].resource, p[i].series, p[i].value);
    apply_combined(c);
    return 0;
}
