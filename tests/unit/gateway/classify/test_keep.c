/* SPDX-License-Identifier: Apache-2.0 */
/* needs: proto/otlp/write rules */
/* A second look at a request: what keep and drop rules say of each of its samples. */
#include <errno.h>

#include "gateway/classify/keep.h"
#include "gateway/stats/stats.h"
#include "proto/base/buffer.h"
#include "proto/otlp/write/build.h"
#include "tests/lib/unit.h"
#include "tests/unit/rules/rules_helper.h"
#include "tests/unit/gateway/classify/fake_aggregate.h"

static const char rules_text[] = "rules 1\n"
                                 "pack t\n"
                                 "keep 1%\n"
                                 "keep all where any frame is \"*panic*\" and linked\n"
                                 "keep 10% of profiles on off_cpu\n"
                                 "keep 5% of samples where sample[\"thread.name\"] == \"x\"\n"
                                 "keep 60 per minute by resource[\"service.name\"]\n"
                                 "drop where leaf is \"swapper/*\"\n";

struct world {
    struct rule_set *set;
    struct rules_program *program;
    struct aggregate *aggregate;
    struct budget budget;
    struct classify *classify;
    struct classify_keep *keep;
    struct profiles view;
    uint8_t *body;
};

static void world_init(struct world *w, const char *text)
{
    struct error e = {""};
    *w = (struct world){.budget = BUDGET_INIT((size_t)1 << 30, NULL)};
    w->set = compile_text(bytes_str(text));
    w->program = unit_made(rules_program_new(w->set, &e));
    w->aggregate = unit_made(aggregate_new(NULL, 0, NULL));
    struct stats *stats = unit_made(stats_new());
    w->classify = unit_made(classify_new(w->program, w->aggregate, stats, &w->budget));
    w->keep = unit_made(classify_keep_new(w->classify));
    ck_assert_int_eq(profiles_init(&w->view, NULL), 0);
}

static void world_release(struct world *w)
{
    classify_keep_free(w->keep);
    classify_free(w->classify);
    ck_assert_uint_eq(w->budget.used, 0);
    aggregate_free(w->aggregate);
    profiles_release(&w->view);
    rules_program_free(w->program);
    rules_set_free(w->set);
    free(w->body);
}

static uint32_t stack_of(struct build *b, const char *name)
{
    struct build_line line = {
        .function = build_function(b, &(struct build_function){.name = build_string(b, bytes_str(name))})};
    uint32_t location = build_location(b, &(struct build_location){.lines = &line, .n_lines = 1});
    return build_stack(b, &location, 1);
}

static void sample(struct build *b, uint32_t stack, bool linked, const char *thread)
{
    static const uint8_t trace[16] = {1}, span[8] = {2};
    int64_t one = 1;
    uint32_t attr = thread ? build_attribute_text(b, "thread.name", bytes_str(thread)) : 0;
    build_sample(b, &(struct build_sample){.stack = stack,
                                           .link = linked ? build_link(b, trace, span) : 0,
                                           .attrs = &attr,
                                           .n_attrs = thread ? 1 : 0,
                                           .values = &one,
                                           .n_values = 1});
}

/* Two profiles, of samples and off_cpu, with the same samples. */
static void make_request(struct world *w)
{
    struct build *b = unit_made(build_new(NULL));
    struct attr service = {BYTES_LIT("service.name"), {.kind = ATTR_STRING, .text = BYTES_LIT("shop")}};
    struct buffer out = BUFFER_INIT(0);
    static const char *const types[] = {"samples", "off_cpu"}, *const units[] = {"count", "nanoseconds"};
    build_begin(b);
    build_resource(b, &service, 1, bytes_of(NULL, 0));
    build_scope(b, BYTES_LIT("t"), bytes_of(NULL, 0), NULL, 0, bytes_of(NULL, 0));
    for (int i = 0; i < 2; i++) {
        build_profile(b, &(struct build_profile){.type = build_string(b, bytes_str(types[i])),
                                                 .unit = build_string(b, bytes_str(units[i]))});
        sample(b, stack_of(b, "main"), false, NULL);
        sample(b, stack_of(b, "gopanic"), false, NULL);
        sample(b, stack_of(b, "gopanic"), true, NULL);
        sample(b, stack_of(b, "main"), false, "x");
        sample(b, stack_of(b, "main"), false, "y");
        sample(b, stack_of(b, "swapper/3"), false, NULL);
        sample(b, 0, false, NULL);
    }
    ck_assert_int_eq(build_finish(b, &out), 0);
    build_free(b);
    size_t n = out.n;
    ck_assert_int_eq(buffer_reserve(&out, PROFILES_PADDING), 0);
    w->body = buffer_take(&out, &n);
    struct error e = {""};
    ck_assert_int_eq(profiles_decode(&w->view, bytes_of(w->body, n), &profiles_limits_default, &e), 0);
}

UNIT(what_rules_say_of_each_sample)
{
    static const struct {
        uint32_t of_stacks, of_samples;
        bool dropped, none;
    } wanted[] = {{10000, 0, false, false},     {10000, 0, false, false}, {RULE_SHARE_ONE, 0, false, false},
                  {10000, 50000, false, false}, {10000, 0, false, false}, {10000, 0, true, false},
                  {0, 0, false, true}};
    cleanup(world_release) struct world w;
    world_init(&w, rules_text);
    make_request(&w);
    ck_assert(classify_keep_has_rules(w.keep));
    for (int round = 0; round < 3; round++) { /* the same each time, whatever is remembered */
        ck_assert_int_eq(classify_push(w.classify, &w.view), 0);
        ck_assert_int_eq(classify_keep_begin(w.keep, &w.view), 0);
        for (uint32_t i = 0; i < w.view.sample.n; i++) {
            const struct rules_kept *kept;
            uint32_t profile = i >= w.view.profile.samples_at[1], k = i % 7, rule;
            struct bytes text;
            ck_assert_int_eq(classify_keep_sample(w.keep, profile, i, &kept), 0);
            ck_assert_msg(wanted[k].none == !kept, "sample %u", i);
            if (!kept)
                continue;
            ck_assert_msg(kept->share[RULE_OF_STACKS] == wanted[k].of_stacks, "sample %u: %u", i,
                          kept->share[RULE_OF_STACKS]);
            ck_assert_uint_eq(kept->share[RULE_OF_SAMPLES], wanted[k].of_samples);
            ck_assert_uint_eq(kept->share[RULE_OF_PROFILES], profile == 1 ? 100000 : 0);
            ck_assert_int_eq(kept->dropped != RULES_NONE, wanted[k].dropped);
            ck_assert_uint_eq(kept->n_rates, 1);
            const struct rule_keep *rate = classify_keep_rate(w.keep, kept->rates, &rule, &text);
            ck_assert(rate->count == 60 && !rate->per_second);
            ck_assert(bytes_is(text, "shop"));
        }
        classify_keep_end(w.keep);
    }
}

UNIT(a_program_without_such_rules)
{
    cleanup(world_release) struct world w;
    world_init(&w, "rules 1\npack t\n");
    ck_assert(!classify_keep_has_rules(w.keep));
}

/* However little memory there is, it is said, given back, and enough later. */
UNIT(without_memory)
{
    cleanup(world_release) struct world w;
    world_init(&w, rules_text);
    make_request(&w);
    size_t limit = w.budget.limit;
    bool refused = false, taken = false;
    for (size_t room = 0; room < 200000 && !taken; room += 2000) {
        w.budget.limit = limit;
        ck_assert_int_eq(classify_push(w.classify, &w.view), 0);
        w.budget.limit = w.budget.used + room;
        int r = classify_keep_begin(w.keep, &w.view);
        for (uint32_t i = 0; i < w.view.sample.n && r == 0; i++) {
            const struct rules_kept *kept;
            r = classify_keep_sample(w.keep, i >= w.view.profile.samples_at[1], i, &kept);
        }
        classify_keep_end(w.keep);
        ck_assert(r == 0 || r == -ENOMEM);
        refused |= r < 0;
        taken = r == 0;
    }
    ck_assert(refused && taken);
    w.budget.limit = limit;
}
