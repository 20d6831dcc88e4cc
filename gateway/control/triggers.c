/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Each enabled trigger of the rules has a watch in the merger (aggregate/watch.h), which adds up, for each
 * group of resources, what the trigger's two metrics say. Once a second the totals of all groups are fed to
 * the rules' own evaluation (rules/trigger), which tells who begins to fire and who ends; here that becomes a
 * log line, a count, and where the trigger says `keep all` a capture of the group's resources. What fires is
 * a list of its own, since pages show it and a reload must take it back.
 */
#include "gateway/control/triggers.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gateway/control/parts.h"
#include "proto/base/bytes_list.h"
#include "proto/base/clock.h"
#include "proto/base/log.h"
#include "proto/base/macros.h"

/* Looking twice at a moment gives no news. */
#define TICK_MIN_NS ((uint64_t)NSEC_PER_SEC / 2)

/* A group that adds nothing is still there, and its rate is 0; after so long beyond what the trigger looks
 * back it counts as gone, and what is missing is false. */
#define IDLE_NS (300u * (uint64_t)NSEC_PER_SEC)

/* ---- what is watched ---- */

static bool is_metric(const struct rule_selector *s, struct bytes name)
{
    return s->metric && bytes_eq(s->metric->name, name);
}

void control_triggers_mark(const struct rule_set *rules, struct aggregate_metric *metrics, uint32_t n_metrics)
{
    for (uint32_t i = 0; i < rules->n_triggers; i++) {
        const struct rule_trigger *rule = &rules->triggers[i];
        for (uint32_t m = 0; m < n_metrics && rule->enabled && rule->share; m++)
            metrics[m].is_counted |= is_metric(&rule->whole, metrics[m].name);
    }
}

_Static_assert(TRIGGER_PART == 1 && TRIGGER_WHOLE == 2, "bit i of select is sum[i] of a watch");

static unsigned select_series(void *context, const struct aggregate_metric *metric,
                              const struct aggregate_label *labels, uint32_t n)
{
    struct active_trigger *a = context;
    const struct rule_metric named = {.name = metric->name};
    struct trigger_label copy[256]; /* as many as a set has */
    double unit = metric->is_seconds ? 1.0 / NSEC_PER_SEC : 1;
    if (!is_metric(&a->rule->part, metric->name) && !is_metric(&a->rule->whole, metric->name))
        return 0;
    n = min_of(n, (uint32_t)ARRAY_LEN(copy));
    for (uint32_t i = 0; i < n; i++)
        copy[i] = (struct trigger_label){labels[i].name, labels[i].value};
    unsigned sums = triggers_select(a->owner->triggers, a->number, &named, copy, n);
    if (sums & TRIGGER_PART)
        a->part_unit = unit;
    if (sums & TRIGGER_WHOLE)
        a->whole_unit = unit;
    return sums;
}

/* before: the triggers of the rules before, or NULL. */
static int start_trigger(struct control_triggers *c, const struct control_triggers *before, uint32_t number)
{
    struct active_trigger *a = &c->items[number];
    const struct rule_trigger *rule = triggers_at(c->triggers, number);
    *a = (struct active_trigger){.owner = c, .number = number, .rule = rule, .part_unit = 1, .whole_unit = 1};
    for (uint32_t i = 0; before && i < before->n; i++)
        if (bytes_eq(before->items[i].rule->name, rule->name))
            a->fired = before->items[i].fired;
    struct watch_options options = {
        .keys = rule->per,
        .n_keys = rule->n_per,
        .select = select_series,
        .text = capture_text,
        .context = a,
        .groups_max = TRIGGER_GROUPS_MAX,
        .idle_ns = rule->over_ns + rule->when.for_ns + IDLE_NS,
    };
    a->watch = store_add_watch(c->store, &options);
    return a->watch ? 0 : -ENOMEM;
}

struct control_triggers *control_triggers_new(const struct control_triggers_options *options, struct error *e)
{
    struct control_triggers *c = calloc(1, sizeof *c);
    if (!c) {
        error_set(e, -ENOMEM, "out of memory");
        return NULL;
    }
    c->store = options->store;
    c->captures = options->captures;
    c->triggers = triggers_new(options->rules, options->budget, e);
    if (!c->triggers)
        return control_triggers_free(c);
    uint32_t n = triggers_count(c->triggers);
    c->items = calloc(n + 1, sizeof *c->items);
    int r = c->items ? 0 : -ENOMEM;
    for (; r == 0 && c->n < n; c->n++)
        r = start_trigger(c, options->before, c->n);
    if (r == 0)
        return c;
    error_set(e, r, "out of memory");
    return control_triggers_free(c);
}

/* ---- firing ---- */

static bool keeps_all(const struct rule_trigger *rule)
{
    for (uint32_t i = 0; i < rule->n_actions; i++)
        if (rule->actions[i].kind == RULE_ACTION_KEEP_ALL)
            return true;
    return false;
}

static struct firing *firing_free(struct firing *f)
{
    if (f) {
        free(f->text);
        free(f->values);
        free(f);
    }
    return NULL;
}

/* With what would make two groups look like one escaped. */
static char *group_text(const struct rule_trigger *rule, const struct bytes *values)
{
    size_t size;
    char *text = NULL;
    FILE *out = open_memstream(&text, &size);
    if (!out)
        return NULL;
    for (uint32_t i = 0; i < rule->n_per; i++) {
        fprintf(out, "%s%.*s%s", i ? "," : "", BYTES_FMT(rule->per[i]), values[i].p ? "=" : "");
        for (size_t k = 0; k < values[i].n; k++) {
            if (values[i].p[k] != '\0' && strchr("\\,=", values[i].p[k]))
                putc('\\', out);
            putc(values[i].p[k], out);
        }
    }
    const bool is_cut = ferror(out);
    if (fclose(out) == 0 && !is_cut)
        return text;
    free(text);
    return NULL;
}

/* In one piece: the slices, then their bytes. */
static struct bytes *copy_values(const struct bytes *values, uint32_t n)
{
    struct bytes *copy = calloc(1, n * sizeof *copy + bytes_total(values, n) + 1);
    if (copy)
        bytes_copy_list(copy, values, n, (uint8_t *)(copy + n));
    return copy;
}

static bool is_group(const struct firing *f, const struct bytes *values, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (!f->values[i].p != !values[i].p || !bytes_eq(f->values[i], values[i]))
            return false;
    return true;
}

static void begin_capture(struct control_triggers *c, const struct rule_trigger *rule, struct firing *f)
{
    struct capture_rule capture = {
        .keys = rule->per, .values = f->values, .n = rule->n_per, .until_ns = c->now_ns + rule->lasting_ns};
    int r = captures_begin(c->captures, &capture, &f->capture_id);
    f->is_captured = r == 0;
    if (r != 0)
        log_error("trigger name=%.*s group=\"%.200s\" kept=\"as before\" error=\"%s\"", BYTES_FMT(rule->name),
                  f->text, r == CAPTURES_FULL ? "too many captures at once" : "out of memory");
}

static void begin(struct active_trigger *a, const struct trigger_event *e)
{
    struct control_triggers *c = a->owner;
    struct firing *f = calloc(1, sizeof *f);
    a->fired++;
    if (f) {
        *f = (struct firing){.text = group_text(a->rule, e->values),
                             .values = copy_values(e->values, a->rule->n_per),
                             .since_ns = c->now_ns,
                             .value = e->value};
    }
    if (!f || !f->text || !f->values) {
        firing_free(f);
        log_error("trigger fired name=%.*s kept=\"as before\" error=\"out of memory\"",
                  BYTES_FMT(a->rule->name));
        return;
    }
    if (keeps_all(a->rule))
        begin_capture(c, a->rule, f);
    f->next = a->firing;
    a->firing = f;
    log_info("trigger fired name=%.*s group=\"%.200s\" value=%.6g threshold=%.6g lasting_seconds=%.0f",
             BYTES_FMT(a->rule->name), f->text, e->value, a->rule->when.value,
             (double)a->rule->lasting_ns / NSEC_PER_SEC);
}

/* Takes the group out of those that fire, and withdraws what it asked for. */
static void end(struct active_trigger *a, struct firing **at, const char *why, double value)
{
    struct control_triggers *c = a->owner;
    struct firing *f = *at;
    *at = f->next;
    if (f->is_captured)
        captures_end(c->captures, f->capture_id);
    log_info("trigger ended name=%.*s group=\"%.200s\" reason=\"%s\" value=%.6g seconds=%.0f",
             BYTES_FMT(a->rule->name), f->text, why, value, (double)(c->now_ns - f->since_ns) / NSEC_PER_SEC);
    firing_free(f);
}

static void tell(void *context, const struct trigger_event *e)
{
    struct active_trigger *a = &((struct control_triggers *)context)->items[e->trigger];
    if (e->firing) {
        begin(a, e);
        return;
    }
    for (struct firing **at = &a->firing; *at; at = &(*at)->next) {
        if (is_group(*at, e->values, a->rule->n_per)) {
            end(a, at, e->until ? "until" : "lasting", e->value);
            return;
        }
    }
}

struct control_triggers *control_triggers_free(struct control_triggers *c)
{
    if (!c)
        return NULL;
    for (uint32_t i = 0; i < c->n; i++) {
        while (c->items[i].firing)
            end(&c->items[i], &c->items[i].firing, "no longer evaluated", c->items[i].firing->value);
        if (c->items[i].watch)
            store_drop_watch(c->store, c->items[i].watch);
    }
    triggers_free(c->triggers);
    free(c->items);
    free(c);
    return NULL;
}

/* ---- each second ---- */

static void feed(void *context, const struct bytes *values, const struct watch_totals *totals)
{
    struct active_trigger *a = context;
    struct trigger_totals now = {.part = (double)totals->sum[0] * a->part_unit,
                                 .whole = (double)totals->sum[1] * a->whole_unit,
                                 .samples = totals->samples[1]};
    /* A group that cannot be fed for want of memory has no data, and fires for nothing. */
    triggers_feed(a->owner->triggers, a->number, values, a->owner->now_ns, &now);
}

void control_triggers_second(struct control_triggers *c, uint64_t now_ns, uint64_t unix_ns)
{
    if (c->n == 0 || now_ns - c->now_ns < TICK_MIN_NS)
        return;
    c->now_ns = now_ns;
    for (uint32_t i = 0; i < c->n; i++)
        watch_each(c->items[i].watch, unix_ns, feed, &c->items[i]);
    triggers_tick(c->triggers, now_ns, tell, c);
}
