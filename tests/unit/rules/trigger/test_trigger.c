/* SPDX-License-Identifier: Apache-2.0 */
/* needs: rules */
/* Triggers: what they become in the tree, and the evaluator fed second by second. */
#include <math.h>

#include "rules/trigger/trigger.h"
#include "tests/unit/rules/rules_helper.h"

#define S UINT64_C(1000000000)

#define METRICS                                                            \
    "counter w.time { on cpu  label area = \"x\" when linked ?? \"y\" }\n" \
    "counter w.samples { on cpu  value samples }\n"

/* One trigger, one group, and what was told. */
struct rig {
    struct compiled c;
    struct triggers *t;
    uint64_t now;
    struct trigger_totals totals;
    char log[256];
    double least; /* value of one that began to fire */
};

static void tell(void *context, const struct trigger_event *e)
{
    struct rig *r = context;
    size_t n = strlen(r->log);
    r->least = e->firing ? fmin(r->least, e->value) : r->least;
    snprintf(r->log + n, sizeof r->log - n, "%s%llu%s ", e->firing ? "+" : "-",
             (unsigned long long)(r->now / S),
             e->firing  ? ""
             : e->until ? "u"
                        : "l");
}

static struct rig rig_new(const char *clauses)
{
    struct rig r = {.now = 1000 * S, .least = INFINITY};
    char *text = NULL;
    struct error e = {""};
    ck_assert_int_ge(asprintf(&text, METRICS "trigger busy { %s }", clauses), 0);
    r.c = compile_good(text);
    free(text);
    r.t = unit_made(triggers_new(r.c.set, NULL, &e));
    ck_assert_uint_eq(triggers_count(r.t), 1);
    return r;
}

static void rig_free(struct rig *r)
{
    triggers_free(r->t);
    compiled_free(&r->c);
}

/* `seconds` ticks, at each of which the totals rise by this. */
static void run(struct rig *r, int seconds, double part, double whole, uint64_t samples)
{
    const struct bytes key = BYTES_LIT("shop");
    for (int i = 0; i < seconds; i++) {
        r->now += S;
        r->totals.part += part;
        r->totals.whole += whole;
        r->totals.samples += samples;
        ck_assert_int_eq(triggers_feed(r->t, 0, &key, r->now, &r->totals), 0);
        triggers_tick(r->t, r->now, tell, r);
    }
}

static void run_without_data(struct rig *r, int seconds)
{
    for (int i = 0; i < seconds; i++) {
        r->now += S;
        triggers_tick(r->t, r->now, tell, r);
    }
}

#define RATE "when rate of w.time per resource[\"service.name\"] over 10s above 2 "
#define DO   "do keep all  lasting 60s  cooldown 30s"

UNIT(a_trigger_as_checked)
{
    cleanup(rig_free) struct rig r =
        rig_new("describe \"d\" when share of w.time { area = \"x\", area !~ \"z*\" } in w.time "
                "per resource[\"a\"], resource[\"b\"] over 1m above 40% for 30s "
                "until below 32% for 1m do keep all, sample 97Hz, record off_cpu lasting 5m cooldown 15m");
    const struct rule_trigger *t = triggers_at(r.t, 0);
    ck_assert_bytes(t->name, "busy");
    ck_assert(t->share && t->when.above && t->until_said && !t->until.above);
    ck_assert_double_eq(t->when.value, 0.4);
    ck_assert_double_eq(t->until.value, 0.32);
    ck_assert_uint_eq(t->over_ns, 60 * S);
    ck_assert_uint_eq(t->when.for_ns, 30 * S);
    ck_assert_uint_eq(t->lasting_ns, 300 * S);
    ck_assert_uint_eq(t->cooldown_ns, 900 * S);
    ck_assert_uint_eq(t->n_per, 2);
    ck_assert_bytes(t->per[1], "b");
    ck_assert_uint_eq(t->n_actions, 3);
    ck_assert_uint_eq(t->actions[1].hertz, 97);
    ck_assert_int_eq(t->actions[2].record, RULE_KIND_OFF_CPU);
    const struct rule_metric *m = metric_named(r.c.set, "w.time");
    ck_assert_uint_eq(triggers_select(r.t, 0, m, &(struct trigger_label){BYTES_LIT("area"), BYTES_LIT("x")},
                                      1),
                      TRIGGER_PART | TRIGGER_WHOLE);
    ck_assert_uint_eq(triggers_select(r.t, 0, m, &(struct trigger_label){BYTES_LIT("area"), BYTES_LIT("y")},
                                      1),
                      TRIGGER_WHOLE);
    ck_assert_uint_eq(triggers_select(r.t, 0, metric_named(r.c.set, "w.samples"), NULL, 0), 0);
}

UNIT(labels_choose_series_by_equality_pattern_and_absence)
{
    struct rig r = rig_new("when rate of w.time { area ~ /^(foo|bar)$/ | \"z*\" } over 10s above 2 " DO);
    const struct rule_metric *m = metric_named(r.c.set, "w.time");
    static const struct {
        const char *value;
        unsigned want;
    } rows[] = {{"foo", TRIGGER_PART}, {"food", 0}, {"zoo", TRIGGER_PART}, {"", 0}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct trigger_label label = {BYTES_LIT("area"), bytes_str(rows[i].value)};
        ck_assert_uint_eq(triggers_select(r.t, 0, m, &label, 1), rows[i].want);
    }
    ck_assert_uint_eq(triggers_select(r.t, 0, m, NULL, 0), 0);
    rig_free(&r);
    r = rig_new("when rate of w.time { area = none } over 10s above 2 " DO);
    m = metric_named(r.c.set, "w.time");
    ck_assert_uint_eq(triggers_select(r.t, 0, m, NULL, 0), TRIGGER_PART);
    ck_assert_uint_eq(
        triggers_select(r.t, 0, m, &(struct trigger_label){BYTES_LIT("area"), BYTES_LIT("")}, 1), 0);
    rig_free(&r);
}

UNIT(nothing_is_true_before_a_whole_window)
{
    cleanup(rig_free) struct rig r = rig_new(RATE DO);
    run(&r, 10, 3, 0, 0); /* ten points are nine seconds */
    ck_assert_str_eq(r.log, "");
    run(&r, 1, 3, 0, 0);
    ck_assert_str_eq(r.log, "+1011 ");
    ck_assert_double_eq_tol(r.least, 3, 1e-9);
    ck_assert_uint_eq(triggers_figures(r.t, 0).groups, 1);
    ck_assert_uint_eq(triggers_figures(r.t, 0).firing, 1);
}

UNIT(at_the_threshold_nothing_begins)
{
    cleanup(rig_free) struct rig r = rig_new(RATE DO);
    run(&r, 100, 2, 0, 0);
    ck_assert_str_eq(r.log, "");
}

UNIT(it_ends_when_lasting_is_over_and_cools_down)
{
    cleanup(rig_free) struct rig r = rig_new(RATE DO);
    run(&r, 11, 3, 0, 0); /* fires at 1011, ends at 1071, idle and firing again at 1101 */
    run(&r, 89, 3, 0, 0);
    ck_assert_str_eq(r.log, "+1011 -1071l ");
    run(&r, 1, 3, 0, 0);
    ck_assert_str_eq(r.log, "+1011 -1071l +1101 ");
    ck_assert_uint_eq(triggers_figures(r.t, 0).firing, 1);
}

UNIT(until_is_the_opposite_unless_it_is_said)
{
    cleanup(rig_free) struct rig r = rig_new(RATE DO);
    run(&r, 11, 3, 0, 0);
    run(&r, 10, 0, 0, 0); /* the window's rate falls by 0.3 a second: 2.1, 2.1 … at most 2 after four */
    ck_assert_str_eq(r.log, "+1011 -1015u ");
}

UNIT(until_has_a_threshold_and_a_delay_of_its_own)
{
    cleanup(rig_free) struct rig r = rig_new(RATE "until below 1 for 5s " DO);
    run(&r, 11, 3, 0, 0);
    run(&r, 7, 0, 0, 0); /* 0.9 at 1018 */
    run(&r, 4, 0.5, 0, 0);
    ck_assert_str_eq(r.log, "+1011 ");
    run(&r, 1, 0.5, 0, 0);
    ck_assert_str_eq(r.log, "+1011 -1023u ");
}

UNIT(for_wants_it_without_a_break)
{
    cleanup(rig_free) struct rig r =
        rig_new("when rate of w.time per resource[\"service.name\"] over 1s above 2 for 5s " DO);
    run(&r, 6, 3, 0, 0);
    run(&r, 1, 1, 0, 0);
    run(&r, 5, 3, 0, 0);
    ck_assert_str_eq(r.log, "");
    run(&r, 1, 3, 0, 0);
    ck_assert_str_eq(r.log, "+1013 ");
}

#define SHARE "when share of w.time { area = \"x\" } in w.time per resource[\"service.name\"] over 10s "

UNIT(a_share_wants_evidence)
{
    struct rig r = rig_new(SHARE "above 40% " DO);
    run(&r, 30, 1, 2, 9); /* 90 samples a window */
    ck_assert_str_eq(r.log, "");
    run(&r, 30, 1, 2, 10);
    ck_assert_str_eq(r.log, "+1040 ");
    rig_free(&r);
    r = rig_new(SHARE "below 40% " DO);
    run(&r, 30, 0, 0, 0); /* a share of nothing is neither above nor below */
    ck_assert_str_eq(r.log, "");
    run(&r, 11, 1, 4, 20);
    ck_assert_ptr_nonnull(strstr(r.log, "+"));
    rig_free(&r);
}

UNIT(missing_data_is_false_and_starts_the_window_anew)
{
    cleanup(rig_free) struct rig r = rig_new(RATE "until below 0.5 " DO);
    run(&r, 11, 3, 0, 0);
    run_without_data(&r, 20); /* neither ends it */
    ck_assert_str_eq(r.log, "+1011 ");
    run(&r, 5, 0, 0, 0); /* 1036: the old window is no window */
    ck_assert_str_eq(r.log, "+1011 ");
    run_without_data(&r, 40);
    ck_assert_str_eq(r.log, "+1011 -1071l ");
    run_without_data(&r, 60);
    ck_assert_uint_eq(triggers_figures(r.t, 0).groups, 0); /* forgotten once idle */
}

UNIT(a_restart_is_no_fall)
{
    cleanup(rig_free) struct rig r =
        rig_new("when rate of w.time per resource[\"service.name\"] over 10s below 1 " DO);
    run(&r, 30, 3, 0, 0);
    r.totals = (struct trigger_totals){0};
    run(&r, 10, 3, 0, 0);
    ck_assert_str_eq(r.log, "");
    run(&r, 20, 0, 0, 0);
    ck_assert_ptr_nonnull(strstr(r.log, "+"));
}

UNIT(a_long_window_keeps_sixty_points)
{
    cleanup(rig_free) struct rig r =
        rig_new("when rate of w.time per resource[\"service.name\"] over 1h above 2 " DO);
    run(&r, 3600, 3, 0, 0);
    ck_assert_str_eq(r.log, "");
    run(&r, 61, 3, 0, 0); /* the newest point an hour old is up to a minute older */
    ck_assert_ptr_nonnull(strstr(r.log, "+"));
    ck_assert_double_eq_tol(r.least, 3, 1e-9);
}

UNIT(groups_are_apart_and_the_farthest_fire_first)
{
    cleanup(rig_free) struct rig r = rig_new(RATE DO);
    char names[TRIGGER_FIRING_MAX + 2][8];
    for (int second = 1; second <= 11; second++) {
        r.now += S;
        for (uint32_t g = 0; g < TRIGGER_FIRING_MAX + 2; g++) {
            snprintf(names[g], sizeof names[g], "g%u", g);
            const struct bytes key = bytes_str(names[g]);
            const struct trigger_totals totals = {.part = (g == 0 ? 1.0 : 3.0 + g) * second};
            ck_assert_int_eq(triggers_feed(r.t, 0, &key, r.now, &totals), 0);
        }
        r.log[0] = '\0';
        triggers_tick(r.t, r.now, tell, &r);
    }
    ck_assert_uint_eq(triggers_figures(r.t, 0).firing, TRIGGER_FIRING_MAX);
    ck_assert_uint_eq(triggers_figures(r.t, 0).held, 1);
    ck_assert_double_eq_tol(r.least, 5, 1e-9); /* g2's: g1 was ready, too */
}

UNIT(groups_are_bounded_and_charged)
{
    cleanup(rig_free) struct rig r = rig_new(RATE DO);
    struct budget budget = BUDGET_INIT((size_t)64 << 20, NULL);
    struct error e;
    struct triggers *t = triggers_new(r.c.set, &budget, &e);
    const struct trigger_totals totals = {.part = 1};
    ck_assert_ptr_nonnull(t);
    for (uint32_t i = 0; i <= TRIGGER_GROUPS_MAX; i++) {
        char name[16];
        snprintf(name, sizeof name, "%u", i);
        const struct bytes key = bytes_str(name);
        ck_assert_int_eq(triggers_feed(t, 0, &key, r.now, &totals), i == TRIGGER_GROUPS_MAX);
    }
    ck_assert_uint_eq(triggers_figures(t, 0).groups, TRIGGER_GROUPS_MAX);
    ck_assert_uint_eq(triggers_figures(t, 0).refused, 1);
    ck_assert_uint_gt(atomic_load(&budget.used), 0);
    ck_assert_uint_lt(atomic_load(&budget.used), TRIGGER_GROUPS_MAX * 4096u);
    triggers_free(t);
    ck_assert_uint_eq(atomic_load(&budget.used), 0);
    budget.limit = 100;
    t = unit_made(triggers_new(r.c.set, &budget, &e));
    ck_assert_int_lt(triggers_feed(t, 0, &BYTES_LIT("x"), r.now, &totals), 0);
    triggers_free(t);
}

UNIT(an_absent_attribute_is_a_group_of_its_own)
{
    cleanup(rig_free) struct rig r = rig_new(RATE DO);
    const struct trigger_totals totals = {.part = 1};
    const struct bytes absent = {0};
    ck_assert_int_eq(triggers_feed(r.t, 0, &absent, r.now, &totals), 0);
    ck_assert_uint_eq(triggers_figures(r.t, 0).groups, 1);
    ck_assert_int_eq(triggers_feed(r.t, 0, &BYTES_LIT(""), r.now, &totals), 0);
    ck_assert_uint_eq(triggers_figures(r.t, 0).groups, 2);
}

UNIT(switches_reach_triggers_by_name_and_by_pack)
{
    static const char trigger[] =
        "rules 1\npack x\ncounter w.time { on cpu }\n"
        "trigger a { when rate of w.time over 1s above 2 do keep all lasting 5m cooldown 1m }\n"
        "trigger b { when rate of w.time over 1s above 2 do keep all lasting 5m cooldown 1m }\nkeep 1%\n";
    static const struct {
        const char *file;
        bool a, b, keep;
    } rows[] = {{"", true, true, true},
                {"disable a", false, true, true},
                {"disable x", false, false, false},
                {"disable x enable b", false, true, false}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char second[128];
        snprintf(second, sizeof second, "rules 1\npack y\n%s\n", rows[i].file);
        cleanup(compiled_free) struct compiled c = compile_texts((const char *const[]){trigger, second}, 2);
        ck_assert_ptr_nonnull(c.set);
        ck_assert_int_eq(c.set->triggers[0].enabled, rows[i].a);
        ck_assert_int_eq(c.set->triggers[1].enabled, rows[i].b);
        ck_assert_int_eq(c.set->keeps[0].enabled, rows[i].keep);
    }
}
