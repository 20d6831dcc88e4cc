/* SPDX-License-Identifier: Apache-2.0 */
#include "rules/resolve/check.h"

#include "proto/base/macros.h"
#include "rules/source/report.h"

enum rule_value check_default_value(bool gauge, bool each)
{
    return each ? RULE_VALUE_ONE : gauge ? RULE_VALUE_SUM : RULE_VALUE_TIME;
}

/* The unit of `on "TYPE/UNIT"`, when the pattern is one glob without a star in its unit. */
static struct bytes unit_of_pattern(const struct rule_pattern *on)
{
    if (!on || on->n_atoms != 1 || on->atoms[0]->kind != RULE_GLOB || on->atoms[0]->star_last ||
        on->atoms[0]->n_pieces == 0)
        return (struct bytes){0};
    struct bytes last = on->atoms[0]->pieces[on->atoms[0]->n_pieces - 1];
    const uint8_t *slash = memchr(last.p, '/', last.n);
    return slash ? bytes_of(slash + 1, (size_t)(last.p + last.n - slash - 1)) : (struct bytes){0};
}

/* clang-format off */
static const struct { const char *profile, *metric; bool time; } units[] = {
    {"count", "1", true},  /* samples × the period may be a time */
    {"bytes", "By", false},
    {"nanoseconds", "ns", true},
    {"microseconds", "us", true},
    {"milliseconds", "ms", true},
    {"seconds", "s", true},
};
/* clang-format on */

static int known_unit(const struct rule_source *s)
{
    struct bytes unit = unit_of_pattern(s->on);
    for (size_t i = 0; i < ARRAY_LEN(units); i++) {
        if (bytes_is(unit, units[i].profile))
            return (int)i;
    }
    return s->on_kind && s->kind == RULE_KIND_ALLOC ? 1 : -1;
}

struct bytes check_default_unit(const struct rule_source *source)
{
    if (source->value == RULE_VALUE_TIME)
        return BYTES_LIT("s");
    if (source->value != RULE_VALUE_SUM)
        return BYTES_LIT("1");
    int unit = known_unit(source);
    return unit < 0 ? BYTES_LIT("") : bytes_str(units[unit].metric);
}

/* A number of things: 1, or a word for them in braces (UCUM annotation). */
static bool is_count(struct bytes unit)
{
    return bytes_is(unit, "1") || (unit.n >= 2 && unit.p[0] == '{' && unit.p[unit.n - 1] == '}');
}

static bool check_unit(struct report *report, const struct ast_metric *a, const struct rule_source *s,
                       struct bytes unit)
{
    static const char *const values[] = {"time", "samples", "sum", "events", "one"};
    const char *want = NULL;
    struct rule_place place = a->at[CLAUSE_UNIT].line > 0 ? a->at[CLAUSE_UNIT] : a->place;
    int known = known_unit(s);
    if (s->value == RULE_VALUE_TIME) {
        if (known >= 0 && !units[known].time) {
            report_plain(report, "E122", a->at[CLAUSE_VALUE].line > 0 ? a->at[CLAUSE_VALUE] : place,
                         "write: value sum", "bytes are no time");
            return false;
        }
        want = bytes_is(unit, "s") ? NULL : "s";
    } else if (s->value == RULE_VALUE_SUM) {
        want = known >= 0 && !bytes_is(unit, units[known].metric) && !(known == 0 && is_count(unit))
                   ? units[known].metric
                   : NULL;
    } else if (!is_count(unit)) {
        want = "1";
    }
    if (!want)
        return true;
    report_at(report, "E122", place, "unit \"%.*s\" does not go with `value %s`", BYTES_FMT(unit),
              values[s->value]);
    report_propose(report, "write: unit \"%s\"", want);
    report_done(report);
    return false;
}

bool check_metric(struct report *report, const struct ast_metric *a, const struct rule_source *source,
                  struct bytes unit)
{
    bool good = true;
    if (a->at[CLAUSE_COMBINE].line > 0 && !a->gauge) {
        report_plain(report, "E121", a->at[CLAUSE_COMBINE], "a counter adds up; make it a gauge",
                     "`combine` belongs to a gauge");
        good = false;
    }
    if (a->largest && a->gauge) {
        report_plain(report, "E121", a->at[CLAUSE_LIMIT], "write: limit N",
                     "`largest` belongs to a counter: a gauge may fall");
        good = false;
    }
    return check_unit(report, a, source, unit) && good;
}
