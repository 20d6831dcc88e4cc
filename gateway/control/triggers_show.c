/* SPDX-License-Identifier: Apache-2.0 */
/* What triggers are doing, for people and for Prometheus. */
#include <errno.h>
#include <json-c/json.h>

#include "gateway/control/parts.h"
#include "gateway/control/triggers.h"
#include "gateway/stats/exposition.h"
#include "gateway/stats/json.h"
#include "proto/base/clock.h"
#include "proto/base/hash.h"
#include "proto/base/macros.h"

/* Of a group's text in a label; a longer one is cut, and a hash tells it from others. */
#define GROUP_LABEL_MAX 200u

/* ---- Prometheus ---- */

static int add_group(struct buffer *out, const char *text)
{
    struct bytes all = bytes_str(text), part = all;
    if (part.n > GROUP_LABEL_MAX) {
        part.n = GROUP_LABEL_MAX;
        while (part.n > 0 && (all.p[part.n] & 0xc0) == 0x80) /* not inside a character (RFC 3629 §3) */
            part.n--;
    }
    int r = exposition_escape(out, part, true);
    if (r == 0 && part.n < all.n)
        r = buffer_printf(out, "#%016llx", (unsigned long long)hash_bytes(all, 0));
    return r;
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

static int write_active(const struct control_triggers *c, struct buffer *out)
{
    int r = buffer_add_str(out, "# HELP profgate_trigger_active Groups of a trigger that fire now, by name\n"
                                "# TYPE profgate_trigger_active gauge\n");
    for (uint32_t i = 0; i < c->n; i++) {
        for (const struct firing *f = c->items[i].firing; f && r == 0; f = f->next) {
            r = buffer_printf(out, "profgate_trigger_active{trigger=\"%.*s\",group=\"",
                              BYTES_FMT(c->items[i].rule->name));
            if (r == 0)
                r = add_group(out, f->text);
            if (r == 0)
                r = buffer_add_str(out, "\"} 1\n");
        }
    }
    return r;
}

int control_triggers_prometheus(const struct control_triggers *c, struct buffer *out)
{
    int r = 0;
    if (c->n == 0)
        return 0;
    for (size_t row = 0; row < ARRAY_LEN(rows) && r == 0; row++) {
        r = buffer_printf(out, "# HELP %s %s\n# TYPE %s %s\n", rows[row].name, rows[row].help, rows[row].name,
                          rows[row].type);
        for (uint32_t i = 0; i < c->n && r == 0; i++)
            r = buffer_printf(out, "%s{trigger=\"%.*s\"} %llu\n", rows[row].name,
                              BYTES_FMT(c->items[i].rule->name),
                              (unsigned long long)rows[row].value(&c->items[i]));
    }
    return r == 0 ? write_active(c, out) : r;
}

/* ---- JSON ---- */

static int add_firing(const struct active_trigger *a, uint64_t now_ns, json_object *list)
{
    int r = 0;
    for (const struct firing *f = a->firing; f && r == 0; f = f->next) {
        json_object *o = json_append_object(list);
        if (!o)
            return -ENOMEM;
        r = json_put(o, "group", json_members(a->rule->per, f->values, a->rule->n_per));
        r |= json_put(o, "value", json_object_new_double(f->value));
        r |=
            json_put(o, "for_seconds", json_object_new_double((double)(now_ns - f->since_ns) / NSEC_PER_SEC));
        r |= json_put(o, "capturing", json_object_new_boolean(f->is_captured));
    }
    return r == 0 ? 0 : -ENOMEM;
}

static int add_trigger(const struct active_trigger *a, uint64_t now_ns, json_object *list)
{
    json_object *o = json_append_object(list), *firing = json_object_new_array();
    if (!o) {
        json_object_put(firing);
        return -ENOMEM;
    }
    int r = json_put(o, "firing", firing); /* o's now, which is the list's */
    r |= json_put(o, "name", json_text(a->rule->name));
    r |= json_put(o, "pack", json_text(a->rule->pack));
    if (a->rule->describe.p)
        r |= json_put(o, "describe", json_text(a->rule->describe));
    r |= json_put(o, "groups", json_object_new_int64((int64_t)groups_of(a)));
    r |= json_put(o, "fired", json_object_new_int64((int64_t)fired_of(a)));
    r |= json_put(o, "unseen", json_object_new_int64((int64_t)unseen_of(a)));
    r |= json_put(o, "held_seconds", json_object_new_int64((int64_t)held_of(a)));
    return r == 0 ? add_firing(a, now_ns, firing) : -ENOMEM;
}

int control_triggers_json(const struct control_triggers *c, uint64_t now_ns, struct buffer *out)
{
    json_object *top = json_object_new_object(), *list = json_object_new_array();
    int r = json_put(top, "triggers", list);
    for (uint32_t i = 0; i < c->n && r == 0; i++)
        r = add_trigger(&c->items[i], now_ns, list);
    if (r == 0)
        r = json_write(top, out);
    if (r == 0)
        r = buffer_add_str(out, "\n");
    json_object_put(top);
    return r;
}
