/* SPDX-License-Identifier: Apache-2.0 */
/* What rules keep. */
#include "tests/lib/unit.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "gateway/stats/stats.h"
#include "proto/base/macros.h"
#include "tests/unit/gateway/forward/fake.h"

/* Rules that say what the test wants, by sample. */
struct fake_rules {
    bool none;
    struct keep_said (*say)(uint32_t sample);
    uint32_t asked, begun, ended;
    int error;
};

static bool fake_has_rules(void *context)
{
    return !((struct fake_rules *)context)->none;
}

static int fake_begin(void *context, const struct profiles *view)
{
    ((struct fake_rules *)context)->begun++;
    return 0;
}

static int fake_sample(void *context, uint32_t profile, uint32_t sample, struct keep_said *ret)
{
    struct fake_rules *r = context;
    r->asked++;
    *ret = r->say(sample);
    return r->error;
}

static void fake_rate(void *context, uint32_t rate, struct keep_rate *ret)
{
    *ret = (struct keep_rate){.rule = 0, .text = BYTES_LIT(""), .count = 10};
}

static void fake_end(void *context)
{
    ((struct fake_rules *)context)->ended++;
}

/* Forwards n samples of stacks of their own; what was pushed is in x->all, as many as x->pushes. */
static void by_rules(struct fake_rules *rules, double keep, struct export_profiles *x, struct stats *stats,
                     uint32_t n_samples)
{
    size_t n;
    autofree uint8_t *p = many_stacks(n_samples, "a", &n);
    cleanup(profiles_release) struct profiles view = decoded(bytes_of(p, n));
    struct forward_options o = {
        .keep = keep,
        .seed = 3,
        .decider = {rules, fake_has_rules, fake_begin, fake_sample, fake_rate, fake_end},
    };
    *x = (struct export_profiles){.room = 10 * n, .all = calloc(FAKE_PUSHES_MAX, sizeof *x->all)};
    struct forward *f = unit_made(forward_new(&o, x, stats, NULL));
    ck_assert(forward_reserve(f, n));
    forward_push(f, &view, NULL, n);
    ck_assert(x->reserved == 0 && x->requests == 0);
    ck_assert_uint_eq(rules->begun, rules->ended);
    ck_assert_uint_eq(stats->value[STATS_FORWARD_SAMPLES] + stats->value[STATS_FORWARD_THINNED] +
                          stats->value[STATS_FORWARD_DROPPED],
                      n_samples);
    forward_free(f);
}

static void release_pushes(struct export_profiles *x)
{
    for (uint32_t i = 0; i < x->pushes; i++)
        buffer_release(&x->all[i]);
    free(x->all);
    free(x->body);
}

/* The value of this attribute of the only profile, or 0. */
static double mark_of(const struct profiles *v, const char *key)
{
    for (uint32_t k = v->profile.attrs_at[0]; k < v->profile.attrs_at[1]; k++) {
        uint32_t a = v->attr_index.attribute[k];
        if (bytes_is(profiles_string(v, v->attribute.key[a]), key))
            return v->attribute.value[a].real;
    }
    return 0;
}

/* A quarter is dropped, one kept whatever happens, one kept with 10 %, one not mentioned. */
static struct keep_said in_quarters(uint32_t sample)
{
    switch (sample % 4) {
    case 0: return (struct keep_said){.dropped = true, .of_stacks = KEEP_ONE};
    case 1: return (struct keep_said){.of_stacks = KEEP_ONE};
    case 2: return (struct keep_said){.of_stacks = KEEP_ONE / 10};
    }
    return (struct keep_said){0};
}

UNIT(rules_come_before_the_configuration)
{
    enum { N = 4000 };
    struct fake_rules rules = {.say = in_quarters};
    cleanup(release_pushes) struct export_profiles x;
    struct stats *stats = unit_made(stats_new());
    double seen[3] = {0};
    by_rules(&rules, 0.5, &x, stats, N);
    ck_assert_uint_eq(rules.asked, N);
    ck_assert_uint_eq(x.pushes, 3); /* each probability its own */
    for (uint32_t i = 0; i < x.pushes; i++) {
        cleanup(profiles_release) struct profiles v = decoded(buffer_bytes(&x.all[i]));
        double p = mark_of(&v, "profgate.keep.share");
        ck_assert(p == 0 || p == 0.1 || p == 0.5);
        seen[p == 0 ? 0 : p == 0.1 ? 1 : 2] = v.sample.n;
    }
    ck_assert_double_eq(seen[0], N / 4);
    ck_assert_double_le(fabs(seen[1] - N / 4 * 0.1), 5 * sqrt(N / 4 * 0.1 * 0.9));
    ck_assert_double_le(fabs(seen[2] - N / 4 * 0.5), 5 * sqrt(N / 4 * 0.5 * 0.5));
}

/* Nothing but what the rules keep, when the configuration keeps nothing. */
UNIT(rules_keep_where_the_configuration_does_not)
{
    struct fake_rules rules = {.say = in_quarters};
    struct export_profiles x;
    struct stats *stats = unit_made(stats_new());
    by_rules(&rules, 0, &x, stats, 400);
    ck_assert_uint_eq(x.pushes, 2);
    release_pushes(&x);
    rules = (struct fake_rules){.none = true};
    by_rules(&rules, 0, &x, stats = unit_made(stats_new()), 400);
    ck_assert_uint_eq(x.pushes + rules.begun, 0);
    release_pushes(&x);
}

static struct keep_said everything(uint32_t sample)
{
    return (struct keep_said){.of_stacks = KEEP_ONE};
}

UNIT(keep_all_is_untouched)
{
    struct fake_rules rules = {.say = everything};
    cleanup(release_pushes) struct export_profiles x;
    size_t n;
    autofree uint8_t *p = many_stacks(50, "a", &n);
    by_rules(&rules, 0, &x, unit_made(stats_new()), 50);
    ck_assert_uint_eq(x.pushes, 1);
    ck_assert_uint_eq(x.n, n);
    ck_assert_mem_eq(x.body, p, n);
}

/* One sample asks for a share of profiles: all of them stay or go together. Combined with a share of samples
 * the probability is that of either. */
static struct keep_said of_profiles(uint32_t sample)
{
    return (struct keep_said){.of_profiles = sample == 7 ? KEEP_ONE / 2 : 0, .dropped = sample == 8};
}

static struct keep_said of_both(uint32_t sample)
{
    return (struct keep_said){.of_profiles = KEEP_ONE / 2, .of_samples = KEEP_ONE / 2};
}

UNIT(a_profile_is_kept_as_a_whole)
{
    struct fake_rules rules = {.say = of_profiles};
    struct export_profiles x;
    struct stats *stats = unit_made(stats_new());
    by_rules(&rules, 0, &x, stats, 100);
    ck_assert(x.pushes == 0 || x.samples == 99);
    release_pushes(&x);
    rules = (struct fake_rules){.say = of_both};
    by_rules(&rules, 0, &x, stats = unit_made(stats_new()), 1000);
    if (x.pushes > 0) {
        cleanup(profiles_release) struct profiles v = decoded(buffer_bytes(&x.all[0]));
        ck_assert_double_eq(mark_of(&v, "profgate.keep.share"), 0.75);
        ck_assert(v.sample.n == 1000 || (v.sample.n > 400 && v.sample.n < 600));
    }
    release_pushes(&x);
}

static struct keep_said by_rate(uint32_t sample)
{
    return (struct keep_said){.of_stacks = sample < 5 ? KEEP_ONE : 0, .n_rates = 1};
}

/* What a rate keeps comes on top of the shares, and says so instead of a probability. */
UNIT(a_rate_takes_so_many_more)
{
    struct fake_rules rules = {.say = by_rate};
    cleanup(release_pushes) struct export_profiles x;
    bool said = false;
    by_rules(&rules, 1, &x, unit_made(stats_new()), 1000);
    ck_assert_uint_eq(x.pushes, 2);
    for (uint32_t i = 0; i < x.pushes; i++) {
        cleanup(profiles_release) struct profiles v = decoded(buffer_bytes(&x.all[i]));
        bool rate = mark_of(&v, "profgate.keep.by_rate") == 1;
        ck_assert_double_eq(mark_of(&v, "profgate.keep.share"), 0);
        ck_assert(rate ? v.sample.n == 10 || v.sample.n == 20 : v.sample.n == 5); /* 20: a minute ended */
        said |= rate;
    }
    ck_assert(said);
}

static struct keep_said all_different(uint32_t sample)
{
    return (struct keep_said){.of_stacks = KEEP_ONE - 1 - sample};
}

UNIT(more_probabilities_than_a_request_may_have)
{
    struct fake_rules rules = {.say = all_different};
    cleanup(release_pushes) struct export_profiles x;
    struct stats *stats = unit_made(stats_new());
    by_rules(&rules, 0, &x, stats, 400);
    ck_assert_uint_eq(x.pushes, PICK_GROUPS);
    ck_assert_uint_eq(stats->value[STATS_FORWARD_DROPPED],
                      400 - PICK_GROUPS - stats->value[STATS_FORWARD_THINNED]);
}

UNIT(rules_that_run_out_of_memory)
{
    struct fake_rules rules = {.say = everything, .error = -ENOMEM};
    cleanup(release_pushes) struct export_profiles x;
    struct stats *stats = unit_made(stats_new());
    by_rules(&rules, 1, &x, stats, 100);
    ck_assert_uint_eq(x.pushes, 0);
    ck_assert_uint_eq(stats->value[STATS_FORWARD_DROPPED], 100);
}
