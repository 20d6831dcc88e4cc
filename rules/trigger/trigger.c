/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A group (one combination of `per` values) remembers its running totals at points a step apart, 60 or so in
 * a window, in a ring. Its rate is the newest total less that of the newest point which is a whole window
 * old, and there is none as long as no point is: so a metric that begins to exist does not jump, and after a
 * gap or a total that fell the ring begins anew.
 *
 * Each second every group takes one step: idle, until `when` has held for its `for`; then it is ready. Those
 * that are ready fire in the order of how far they are beyond the threshold, as far as there may be more that
 * fire; the others stay ready. Firing ends when `lasting` is over or `until` has held for its `for`, and
 * cooldown follows. What is told is the two edges, into firing and out of it.
 */
#include "rules/trigger/trigger.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "proto/base/bytes_list.h"
#include "proto/base/hash.h"
#include "proto/base/macros.h"
#include "proto/base/vec.h"
#include "rules/pattern/pattern.h"
#include "rules/pattern/regex_match.h"

#define SECOND  UINT64_C(1000000000)
#define BUCKETS 1024u

struct point {
    uint64_t time;
    struct trigger_totals totals;
};

enum state { IDLE, FIRING, COOLDOWN };

struct group {
    struct group *next; /* of its bucket */
    uint64_t hash;
    struct point points[TRIGGER_POINTS]; /* a ring: the newest is points[(n - 1) % TRIGGER_POINTS] */
    uint64_t n;
    struct point latest;
    enum state state;
    uint64_t changed;           /* when it got into its state */
    uint64_t when_at, until_at; /* since when the condition holds; UINT64_MAX: it does not */
    bool ready, known;
    double value;
    size_t bytes; /* charged */
    struct bytes values[];
};

struct trigger {
    const struct rule_trigger *rule;
    uint64_t step; /* between points */
    struct group *buckets[BUCKETS];
    struct trigger_figures figures;
};

/* The regexes of a selector's patterns, found by their atom. */
struct selector_regex {
    const struct rule_atom *atom;
    struct regex *regex;
};

struct triggers {
    struct budget *budget;
    struct trigger *items;
    uint32_t n;
    VEC(struct selector_regex) regexes;
    struct regex_scratch scratch;
    uint64_t seed;
};

/* ---- life ------------------------------------------------------------------------------------ */

static int add_regexes(struct triggers *t, const struct rule_selector *s, struct error *e)
{
    for (uint32_t i = 0; i < s->n_labels; i++) {
        const struct rule_pattern *p = s->labels[i].pattern;
        for (uint32_t k = 0; p && k < p->n_atoms; k++) {
            if (p->atoms[k]->kind != RULE_REGEX)
                continue;
            struct selector_regex made = {.atom = p->atoms[k]};
            if (vec_reserve(&t->regexes, t->regexes.n + 1) < 0)
                return error_set(e, -ENOMEM, "out of memory");
            int r = regex_new(&made.regex, p->atoms[k]->text, p->atoms[k]->nocase, e);
            if (r < 0)
                return r;
            t->regexes.p[t->regexes.n++] = made;
        }
    }
    return 0;
}

static int init(struct triggers *t, const struct rule_set *set, struct error *e)
{
    t->items = calloc(set->n_triggers + 1, sizeof *t->items);
    if (!t->items || regex_scratch_init(&t->scratch) < 0)
        return error_set(e, -ENOMEM, "out of memory");
    for (uint32_t i = 0; i < set->n_triggers; i++) {
        const struct rule_trigger *rule = &set->triggers[i];
        if (!rule->enabled)
            continue;
        /* Points a step apart, so that those of a window fit and one is old enough. */
        uint64_t seconds = (rule->over_ns + SECOND - 1) / SECOND, points = TRIGGER_POINTS - 4;
        t->items[t->n++] = (struct trigger){.rule = rule, .step = (seconds + points - 1) / points * SECOND};
        int r = add_regexes(t, &rule->part, e);
        if (r == 0)
            r = add_regexes(t, &rule->whole, e);
        if (r < 0)
            return r;
    }
    return 0;
}

struct triggers *triggers_new(const struct rule_set *set, struct budget *budget, struct error *e)
{
    struct triggers *t = calloc(1, sizeof *t);
    if (!t) {
        error_set(e, -ENOMEM, "out of memory");
        return NULL;
    }
    t->budget = budget;
    t->seed = hash_seed();
    return init(t, set, e) < 0 ? triggers_free(t) : t;
}

static struct group *group_free(struct triggers *t, struct trigger *of, struct group *g)
{
    struct group *next = g->next;
    of->figures.groups--;
    of->figures.firing -= g->state == FIRING;
    budget_refund(t->budget, g->bytes);
    free(g);
    return next;
}

struct triggers *triggers_free(struct triggers *t)
{
    if (!t)
        return NULL;
    for (uint32_t i = 0; i < t->n; i++) {
        for (uint32_t b = 0; b < BUCKETS; b++) {
            for (struct group *g = t->items[i].buckets[b]; g;)
                g = group_free(t, &t->items[i], g);
        }
    }
    for (uint32_t i = 0; i < t->regexes.n; i++)
        regex_free(t->regexes.p[i].regex);
    if (t->scratch.data)
        regex_scratch_release(&t->scratch);
    vec_release(&t->regexes);
    free(t->items);
    free(t);
    return NULL;
}

uint32_t triggers_count(const struct triggers *t)
{
    return t->n;
}

const struct rule_trigger *triggers_at(const struct triggers *t, uint32_t trigger)
{
    return t->items[trigger].rule;
}

struct trigger_figures triggers_figures(const struct triggers *t, uint32_t trigger)
{
    return t->items[trigger].figures;
}

/* ---- series ---------------------------------------------------------------------------------- */

static bool atom_holds(struct triggers *t, const struct rule_atom *atom, struct bytes text)
{
    if (atom->kind == RULE_GLOB)
        return pattern_glob(atom, text);
    for (uint32_t i = 0; i < t->regexes.n; i++) {
        if (t->regexes.p[i].atom == atom)
            return regex_search(t->regexes.p[i].regex, &t->scratch, text);
    }
    return false;
}

static bool label_holds(struct triggers *t, const struct rule_selector_label *want,
                        const struct trigger_label *labels, uint32_t n)
{
    const struct bytes *value = NULL;
    for (uint32_t i = 0; i < n && !value; i++) {
        if (bytes_eq(labels[i].name, want->name))
            value = &labels[i].value;
    }
    bool holds = false;
    if (want->op == RULE_LABEL_IS)
        holds = want->value.p ? value && bytes_eq(*value, want->value) : !value;
    for (uint32_t i = 0; want->op == RULE_LABEL_MATCHES && value && i < want->pattern->n_atoms && !holds; i++)
        holds = atom_holds(t, want->pattern->atoms[i], *value);
    return holds != want->negated;
}

static bool selects(struct triggers *t, const struct rule_selector *s, const struct rule_metric *metric,
                    const struct trigger_label *labels, uint32_t n)
{
    if (!s->metric || !bytes_eq(s->metric->name, metric->name))
        return false;
    for (uint32_t i = 0; i < s->n_labels; i++) {
        if (!label_holds(t, &s->labels[i], labels, n))
            return false;
    }
    return true;
}

unsigned triggers_select(struct triggers *t, uint32_t trigger, const struct rule_metric *metric,
                         const struct trigger_label *labels, uint32_t n)
{
    const struct rule_trigger *rule = t->items[trigger].rule;
    return (selects(t, &rule->part, metric, labels, n) ? TRIGGER_PART : 0) |
           (rule->share && selects(t, &rule->whole, metric, labels, n) ? TRIGGER_WHOLE : 0);
}

/* ---- groups ---------------------------------------------------------------------------------- */

static uint64_t hash_values(const struct triggers *t, const struct bytes *values, uint32_t n)
{
    uint64_t hash = t->seed;
    for (uint32_t i = 0; i < n; i++)
        hash = hash_mix(hash, values[i].p ? hash_bytes(values[i], t->seed) : 1);
    return hash;
}

static bool same_values(const struct bytes *a, const struct bytes *b, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        if (!a[i].p != !b[i].p || (a[i].p && !bytes_eq(a[i], b[i])))
            return false;
    }
    return true;
}

static struct group *find_group(const struct trigger *of, const struct bytes *values, uint64_t hash)
{
    struct group *g = of->buckets[hash % BUCKETS];
    while (g && (g->hash != hash || !same_values(g->values, values, of->rule->n_per)))
        g = g->next;
    return g;
}

static struct group *add_group(struct triggers *t, struct trigger *to, const struct bytes *values,
                               uint64_t hash, uint64_t now)
{
    uint32_t n = to->rule->n_per;
    size_t texts = bytes_total(values, n), head = sizeof(struct group) + n * sizeof(struct bytes);
    if (!budget_charge(t->budget, head + texts))
        return NULL;
    struct group *g = calloc(1, head + texts);
    if (!g) {
        budget_refund(t->budget, head + texts);
        return NULL;
    }
    g->bytes = head + texts;
    bytes_copy_list(g->values, values, n, (uint8_t *)g + head);
    g->hash = hash;
    g->changed = now;
    g->when_at = g->until_at = UINT64_MAX;
    g->next = to->buckets[hash % BUCKETS];
    to->buckets[hash % BUCKETS] = g;
    to->figures.groups++;
    return g;
}

static void add_point(struct group *g, const struct point *p)
{
    g->points[g->n++ % TRIGGER_POINTS] = *p;
}

int triggers_feed(struct triggers *t, uint32_t trigger, const struct bytes *values, uint64_t now,
                  const struct trigger_totals *totals)
{
    struct trigger *of = &t->items[trigger];
    uint64_t hash = hash_values(t, values, of->rule->n_per);
    struct group *g = find_group(of, values, hash);
    if (!g && of->figures.groups == TRIGGER_GROUPS_MAX) {
        of->figures.refused++;
        return 1;
    }
    if (!g && !(g = add_group(t, of, values, hash, now)))
        return -ENOMEM;
    const struct trigger_totals *was = &g->latest.totals;
    bool fell = totals->part < was->part || totals->whole < was->whole || totals->samples < was->samples;
    /* A gap is no data: what rose meanwhile is of another time than the window's. */
    if (g->n > 0 && (fell || now < g->latest.time || now - g->latest.time > 2 * of->step + SECOND))
        g->n = 0;
    g->latest = (struct point){now, *totals};
    if (g->n == 0 || now - g->points[(g->n - 1) % TRIGGER_POINTS].time >= of->step)
        add_point(g, &g->latest);
    return 0;
}

/* ---- conditions ------------------------------------------------------------------------------ */

/* The newest point that is a whole window old. */
static const struct point *window_start(const struct group *g, uint64_t over, uint64_t now)
{
    uint64_t kept = min_of(g->n, (uint64_t)TRIGGER_POINTS);
    for (uint64_t i = 1; i <= kept; i++) {
        const struct point *p = &g->points[(g->n - i) % TRIGGER_POINTS];
        if (now - p->time >= over)
            return p;
    }
    return NULL;
}

static void measure(const struct rule_trigger *rule, struct group *g, uint64_t now)
{
    g->known = false;
    g->value = 0;
    if (g->latest.time != now)
        return;
    const struct point *from = window_start(g, rule->over_ns, now);
    if (!from)
        return;
    double part = g->latest.totals.part - from->totals.part;
    double whole = g->latest.totals.whole - from->totals.whole;
    if (rule->share) {
        g->known = whole > 0 && g->latest.totals.samples - from->totals.samples >= TRIGGER_EVIDENCE;
        g->value = g->known ? part / whole : 0;
    } else {
        g->known = true;
        g->value = part * (double)SECOND / (double)(now - from->time);
    }
}

static bool beyond(const struct rule_threshold *threshold, double value)
{
    return threshold->above ? value > threshold->value : value < threshold->value;
}

/* Since when a condition holds, and whether that is long enough. */
static bool held(uint64_t *since, bool holds, uint64_t for_ns, uint64_t now)
{
    if (!holds)
        *since = UINT64_MAX;
    else if (*since == UINT64_MAX)
        *since = now;
    return holds && now - *since >= for_ns;
}

struct telling {
    void (*tell)(void *context, const struct trigger_event *e);
    void *context;
    uint32_t trigger;
};

static void enter_state(struct trigger *of, struct group *g, enum state state, uint64_t now, bool until,
                        const struct telling *to)
{
    bool fired = g->state == FIRING;
    of->figures.firing += state == FIRING;
    of->figures.firing -= fired;
    g->state = state;
    g->changed = now;
    g->when_at = g->until_at = UINT64_MAX;
    g->ready = false;
    if (fired || state == FIRING)
        to->tell(to->context, &(struct trigger_event){.trigger = to->trigger,
                                                      .values = g->values,
                                                      .firing = !fired,
                                                      .until = until,
                                                      .value = g->value});
}

static void step_group(struct trigger *of, struct group *g, uint64_t now, const struct telling *to)
{
    const struct rule_trigger *rule = of->rule;
    measure(rule, g, now);
    bool when = g->known && beyond(&rule->when, g->value);
    bool until = g->known && (rule->until_said ? beyond(&rule->until, g->value) : !when);
    if (g->state == COOLDOWN && now - g->changed >= rule->cooldown_ns)
        enter_state(of, g, IDLE, now, false, to);
    if (g->state == IDLE) {
        g->ready = held(&g->when_at, when, rule->when.for_ns, now);
    } else if (g->state == FIRING) {
        bool ends = held(&g->until_at, until, rule->until.for_ns, now);
        if (ends || now - g->changed >= rule->lasting_ns)
            enter_state(of, g, COOLDOWN, now, ends, to);
    }
}

/* How far beyond its threshold a group is that is ready; below 0: it is not. */
static double excess(const struct rule_trigger *rule, const struct group *g)
{
    if (!g->ready)
        return -1;
    double over = g->value - rule->when.value;
    return rule->when.above ? over : -over;
}

/* Fires those that are ready, as far as there may be more, the farthest beyond first. */
static void fire(struct trigger *of, uint64_t now, uint32_t n_ready, const struct telling *to)
{
    for (; n_ready > 0 && of->figures.firing < TRIGGER_FIRING_MAX; n_ready--) {
        struct group *best = NULL;
        for (uint32_t b = 0; b < BUCKETS; b++) {
            for (struct group *g = of->buckets[b]; g; g = g->next) {
                if (g->ready && (!best || excess(of->rule, g) > excess(of->rule, best)))
                    best = g;
            }
        }
        enter_state(of, best, FIRING, now, false, to);
    }
    of->figures.held += n_ready;
}

/* A group without data that does nothing is forgotten after a window. */
static bool is_stale(const struct trigger *of, const struct group *g, uint64_t now)
{
    return g->state == IDLE && now - g->latest.time > of->rule->over_ns + 2 * of->step;
}

void triggers_tick(struct triggers *t, uint64_t now,
                   void (*tell)(void *context, const struct trigger_event *e), void *context)
{
    for (uint32_t i = 0; i < t->n; i++) {
        struct trigger *of = &t->items[i];
        const struct telling to = {tell, context, i};
        uint32_t n_ready = 0;
        for (uint32_t b = 0; b < BUCKETS; b++) {
            for (struct group **link = &of->buckets[b]; *link;) {
                step_group(of, *link, now, &to);
                n_ready += (*link)->ready;
                if (is_stale(of, *link, now))
                    *link = group_free(t, of, *link);
                else
                    link = &(*link)->next;
            }
        }
        fire(of, now, n_ready, &to);
    }
}
