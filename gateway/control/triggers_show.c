/* SPDX-License-Identifier: Apache-2.0 */
/* What triggers are doing, for people and for Prometheus. */
#include "gateway/control/parts.h"
#include "gateway/control/triggers.h"
#include "gateway/stats/exposition.h"
#include "proto/base/clock.h"
#include "proto/base/hash.h"
#include "proto/base/macros.h"

/* Of a group's text in a label; a longer one is cut, and a hash tells it from others. */
#define GROUP_LABEL_MAX 200u

/* ---- Prometheus ---- */

static void add_group(struct exposition *x, const char *text)
{
    const struct bytes all = bytes_str(text), part = bytes_cut(all, GROUP_LABEL_MAX);
    if (x->r == 0)
        x->r = exposition_escape(x->out, part, true);
    if (part.n < all.n)
        exposition_print(x, "#%016llx", (unsigned long long)hash_bytes(all, 0));
}

static uint64_t fired_of(const struct active_trigger *a)
{
    return a->fired;
}

static uint64_t firing_of(const struct active_trigger *a)
{
    return triggers_figures(a->owner->triggers, a->number).firing;
}

static uint64_t groups_of(const struct active_trigger *a)
{
    return triggers_figures(a->owner->triggers, a->number).groups;
}

static uint64_t held_of(const struct active_trigger *a)
{
    return triggers_figures(a->owner->triggers, a->number).held;
}

static uint64_t unseen_of(const struct active_trigger *a)
{
    return watch_unseen(a->watch);
}

static const struct {
    const char *name, *type, *help;
    uint64_t (*value)(const struct active_trigger *a);
} rows[] = {
    {"profgate_trigger_fired_total", "counter", "Times a trigger began to fire, over all of its groups",
     fired_of},
    {"profgate_trigger_firing", "gauge", "Groups of a trigger that fire now", firing_of},
    {"profgate_trigger_groups", "gauge", "Groups of a trigger that are watched", groups_of},
    {"profgate_trigger_held_seconds_total", "counter",
     "Seconds that groups would have fired but for the bound on how many do at once", held_of},
    {"profgate_trigger_unseen_total", "counter",
     "Additions a trigger has not seen, for the bound on its groups or want of memory", unseen_of},
};

static void write_active(const struct control_triggers *c, struct exposition *x)
{
    exposition_family(x, "profgate_trigger_active", "gauge", "Groups of a trigger that fire now, by name");
    for (uint32_t i = 0; i < c->n; i++)
        for (const struct firing *f = c->items[i].firing; f; f = f->next) {
            exposition_print(x, "profgate_trigger_active{trigger=\"%.*s\",group=\"",
                             BYTES_FMT(c->items[i].rule->name));
            add_group(x, f->text);
            exposition_print(x, "\"} 1\n");
        }
}

int control_triggers_prometheus(const struct control_triggers *c, struct buffer *out)
{
    struct exposition x = {.out = out};
    if (c->n == 0)
        return 0;
    for (size_t row = 0; row < ARRAY_LEN(rows); row++) {
        exposition_family(&x, rows[row].name, rows[row].type, rows[row].help);
        for (uint32_t i = 0; i < c->n; i++)
            exposition_print(&x, "%s{trigger=\"%.*s\"} %llu\n", rows[row].name,
                             BYTES_FMT(c->items[i].rule->name),
                             (unsigned long long)rows[row].value(&c->items[i]));
    }
    write_active(c, &x);
    return x.r;
}

/* ---- JSON ---- */

/* Keys come from rules and from a query's parameters: no attribute that exists has a longer name. */
#define KEY_MAX 255u
/* A page is for reading. */
#define VALUE_MAX ((size_t)1 << 20)

void put_members(struct json *j, const struct bytes *keys, const struct bytes *values, uint32_t n)
{
    json_open(j, '{');
    for (uint32_t i = 0; i < n; i++) {
        json_string_key(j, bytes_of(keys[i].p, min_of(keys[i].n, (size_t)KEY_MAX)));
        if (values[i].p)
            json_string(j, bytes_of(values[i].p, min_of(values[i].n, VALUE_MAX)));
        else
            json_null(j);
    }
    json_close(j, '}');
}

static void put_firing(struct json *j, const struct active_trigger *a, uint64_t now_ns)
{
    json_open(j, '[');
    for (const struct firing *f = a->firing; f; f = f->next) {
        json_open(j, '{');
        json_key(j, "group"), put_members(j, a->rule->per, f->values, a->rule->n_per);
        json_key(j, "value"), json_double(j, f->value);
        json_key(j, "for_seconds"), json_double(j, (double)(now_ns - f->since_ns) / NSEC_PER_SEC);
        json_key(j, "capturing"), json_bool(j, f->is_captured);
        json_close(j, '}');
    }
    json_close(j, ']');
}

static void put_trigger(struct json *j, const struct active_trigger *a, uint64_t now_ns)
{
    json_open(j, '{');
    json_key(j, "firing"), put_firing(j, a, now_ns);
    json_key(j, "name"), json_string(j, a->rule->name);
    json_key(j, "pack"), json_string(j, a->rule->pack);
    if (a->rule->describe.p)
        json_key(j, "describe"), json_string(j, a->rule->describe);
    json_key(j, "groups"), json_u64(j, groups_of(a));
    json_key(j, "fired"), json_u64(j, fired_of(a));
    json_key(j, "unseen"), json_u64(j, unseen_of(a));
    json_key(j, "held_seconds"), json_u64(j, held_of(a));
    json_close(j, '}');
}

int control_triggers_json(const struct control_triggers *c, uint64_t now_ns, struct buffer *out)
{
    struct json j = JSON_INIT(out);
    json_open(&j, '{');
    json_key(&j, "triggers"), json_open(&j, '[');
    for (uint32_t i = 0; i < c->n; i++)
        put_trigger(&j, &c->items[i], now_ns);
    json_close(&j, ']');
    json_close(&j, '}');
    return j.r == 0 ? buffer_add_str(out, "\n") : j.r;
}
