/* SPDX-License-Identifier: Apache-2.0 */
#include "rules/match/weigh.h"

#include <string.h>

#include "proto/base/buffer.h"
#include "rules/match/strings.h"
#include "rules/program/program.h"

static int64_t time_unit(struct bytes unit)
{
    if (bytes_is(unit, "nanoseconds") || bytes_is(unit, "ns"))
        return 1;
    if (bytes_is(unit, "microseconds") || bytes_is(unit, "us"))
        return 1000;
    if (bytes_is(unit, "milliseconds") || bytes_is(unit, "ms"))
        return 1000000;
    return bytes_is(unit, "seconds") || bytes_is(unit, "s") ? 1000000000 : 0;
}

struct rules_time rules_time_of(const struct rules_profile *p)
{
    struct rules_time t = {.how = RULES_TIME_NONE};
    int64_t unit = time_unit(p->unit), period = time_unit(p->period_unit);
    if (period <= 0 || p->period <= 0 || __builtin_mul_overflow(p->period, period, &period))
        period = 0;
    if (unit > 0)
        t = (struct rules_time){.how = RULES_TIME_VALUES, .factor = unit, .period = period};
    else if (period > 0)
        t = (struct rules_time){.how = RULES_TIME_SAMPLES, .factor = period};
    t.limit = t.how == RULES_TIME_NONE ? 0 : INT64_MAX / t.factor;
    return t;
}

/* The table of kinds: TYPE/UNIT in order of choice, for `time` and `sum`, then for `samples`, `events`,
 * `one`. */
#define CHOICES_MAX 5
struct choice {
    const char *type, *unit; /* unit "*": any */
    enum { ALWAYS, TIMED, NOT_WALL, WALL } when;
};
#define PERF_EVENTS               \
    {                             \
        "perf_events", "*", TIMED \
    } /* of whichever event */
#define ON_CPU                       \
    {                                \
        "samples", "count", NOT_WALL \
    } /* of whatever is sampled: the period says it */
static const struct choice choices[][2][CHOICES_MAX] = {
    [RULE_KIND_CPU] = {{{"cpu", "nanoseconds"}, ON_CPU, {"itimer", "*"}, {"ctimer", "*"}, PERF_EVENTS},
                       {ON_CPU, {"cpu", "nanoseconds"}, {"itimer", "*"}, {"ctimer", "*"}, PERF_EVENTS}},
    [RULE_KIND_WALL] =
        {{{"wall", "nanoseconds"}, {"wall", "*"}, {"time", "nanoseconds", WALL}, {"samples", "count", WALL}},
         {{"wall", "nanoseconds"}, {"wall", "*"}, {"samples", "count", WALL}}},
    [RULE_KIND_OFF_CPU] = {{{"off_cpu", "nanoseconds"}, {"off_cpu", "*"}},
                           {{"off_cpu", "nanoseconds"}, {"off_cpu", "*"}}},
    [RULE_KIND_ALLOC] = {{{"alloc_space", "bytes"},
                          {"alloc_in_new_tlab_bytes", "bytes"},
                          {"alloc", "bytes"},
                          {"object_sampler", "bytes"}},
                         {{"alloc_objects", "count"},
                          {"alloc_in_new_tlab_objects", "count"},
                          {"object_sampler", "count"}}},
    [RULE_KIND_LOCK] =
        {{{"delay", "nanoseconds"}, {"lock", "nanoseconds"}, {"mutex_duration", "*"}, {"lock_tracer", "ns"}},
         {{"contentions", "count"}, {"lock", "count"}, {"mutex_count", "count"}, {"lock_tracer", "count"}}},
};

/* Bits of weigh_facts(). */
enum { IS_TIMED = 1, IS_WALL = 2 };

uint32_t weigh_facts(const struct rules_profile *p)
{
    bool is_wall = bytes_is(p->period_type, "wall") || bytes_is(p->period_type, "wallclock");
    return (rules_time_of(p).how != RULES_TIME_NONE ? IS_TIMED : 0u) | (is_wall ? IS_WALL : 0u);
}

static bool suits(const struct choice *c, const struct rules_profile *p)
{
    if (!bytes_is(p->type, c->type) || (c->unit[0] != '*' && !bytes_is(p->unit, c->unit)))
        return false;
    switch (c->when) {
    case ALWAYS: return true;
    case TIMED: return weigh_facts(p) & IS_TIMED;
    case NOT_WALL: return !(weigh_facts(p) & IS_WALL);
    case WALL: return weigh_facts(p) & IS_WALL;
    }
    return false;
}

uint32_t weigh_kind_rank(enum rule_kind kind, enum rule_value value, const struct rules_profile *p)
{
    const struct choice *row = choices[kind][value != RULE_VALUE_TIME && value != RULE_VALUE_SUM];
    for (uint32_t i = 0; i < CHOICES_MAX && row[i].type; i++)
        if (suits(&row[i], p))
            return i;
    return RULES_NONE;
}

static bool meets(struct match_strings *strings, const struct rule_pattern *on, struct bytes text)
{
    uint32_t string = match_strings_add(strings, text);
    return match_strings_bit(strings, LOWER_DOMAIN_TEXT, string, lower_find(strings->p, on));
}

/* The same with `to` for each `from` in the type, which is the first n bytes; false, too, if it has none. */
static bool meets_with(struct match_strings *strings, const struct rule_pattern *on, struct buffer *text,
                       size_t n, uint8_t from, uint8_t to)
{
    bool changed = false;
    for (size_t i = 0; i < n; i++) {
        if (text->p[i] != from)
            continue;
        text->p[i] = to;
        changed = true;
    }
    return changed && meets(strings, on, buffer_bytes(text));
}

bool weigh_type_is(struct match_strings *strings, const struct rule_pattern *on,
                   const struct rules_profile *p)
{
    struct buffer joined = BUFFER_INIT(0);
    bool takes = false;
    if (p->type.n + p->unit.n > WEIGH_TYPE_MAX)
        return false;
    if (buffer_add_bytes(&joined, p->type) < 0 || buffer_add(&joined, "/", 1) < 0 ||
        buffer_add_bytes(&joined, p->unit) < 0)
        match_memory_out(strings->memory);
    else
        takes = meets(strings, on, buffer_bytes(&joined)) ||
                meets_with(strings, on, &joined, p->type.n, '-', '_') ||
                meets_with(strings, on, &joined, p->type.n, '_', '-');
    buffer_release(&joined);
    return takes;
}

/* The sibling whose TYPE/UNIT comes first among those that suit the value; if none suits, among all that
 * match. */
static uint32_t first_choice(const struct rule_source *source, const struct rules_profile *group, uint32_t n)
{
    uint32_t best = RULES_NONE, best_rank = RULES_NONE;
    for (int must_suit = 1; must_suit >= 0 && best == RULES_NONE; must_suit--) {
        for (uint32_t i = 0; i < n; i++) {
            uint32_t rank = weigh_kind_rank(source->kind, source->value, &group[i]);
            bool suits = source->value != RULE_VALUE_TIME || rules_time_of(&group[i]).how != RULES_TIME_NONE;
            if (rank < best_rank && (suits || !must_suit)) {
                best_rank = rank;
                best = i;
            }
        }
    }
    return best;
}

void weigh_choose(struct match_strings *strings, const struct rules_profile *group, uint32_t n,
                  uint64_t *masks)
{
    const struct rules_program *program = strings->p;
    uint32_t words = rules_program_mask_words(program);
    memset(masks, 0, (size_t)n * words * sizeof *masks);
    for (uint32_t s = 0; s < program->sources.n; s++) {
        const struct rule_source *source = program->sources.p[s].source;
        bool all = !source || (source->on_kind && source->kind == RULE_KIND_ANY);
        uint32_t chosen = all || !source->on_kind ? RULES_NONE : first_choice(source, group, n);
        for (uint32_t i = 0; i < n; i++) {
            bool takes = all;
            if (!all && !source->on_kind)
                takes = weigh_type_is(strings, source->on, &group[i]);
            else if (!all) /* two siblings of one type are two parts of one whole, not two views of it */
                takes = chosen != RULES_NONE && bytes_eq(group[i].type, group[chosen].type) &&
                        bytes_eq(group[i].unit, group[chosen].unit);
            if (takes)
                masks[(size_t)i * words + s / 64] |= 1ull << (s % 64);
        }
    }
}
