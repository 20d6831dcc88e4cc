/* SPDX-License-Identifier: Apache-2.0 */
/* needs: proto/otlp/write rules */
/*
 * The view on its way to the matcher: fields of frames, attributes of every kind and scope, weights,
 * siblings, and memory that runs out.
 */
#include <errno.h>
#include <string.h>

#include "gateway/classify/classify.h"
#include "gateway/classify/parts.h"
#include "gateway/stats/stats.h"
#include "proto/base/clock.h"
#include "proto/base/buffer.h"
#include "proto/otlp/write/build.h"
#include "proto/otlp/view/profiles.h"
#include "rules/match/parts.h"
#include "rules/program/program.h"
#include "tests/lib/unit.h"
#include "tests/unit/rules/rules_helper.h"
#include "tests/unit/gateway/classify/fake_aggregate.h"

struct world {
    struct rule_set *set;
    struct rules_program *program;
    struct aggregate *aggregate;
    struct stats *stats;
    struct budget budget;
    struct classify *classify;
    struct build *b;
    struct profiles view;
    uint8_t *body;
};

static struct world *world_new(const char *rules)
{
    struct world *w = calloc(1, sizeof *w);
    struct buffer text = BUFFER_INIT(0);
    struct error e = {.text = ""};
    buffer_add_str(&text, "rules 1\npack t\n");
    buffer_add_str(&text, rules);
    w->set = compile_text(buffer_bytes(&text));
    buffer_release(&text);
    w->program = unit_made(rules_program_new(w->set, &e));
    w->aggregate = unit_made(aggregate_new(NULL, 0, NULL));
    w->stats = unit_made(stats_new());
    w->budget = (struct budget)BUDGET_INIT((size_t)1 << 30, NULL);
    w->classify = classify_new(w->program, w->aggregate, w->stats, &w->budget);
    w->b = unit_made(build_new(NULL));
    ck_assert(w->classify && w->b && profiles_init(&w->view, NULL) == 0);
    return w;
}

static void world_free(struct world *w)
{
    classify_free(w->classify);
    ck_assert_uint_eq(w->budget.used, 0);
    profiles_release(&w->view);
    build_free(w->b);
    aggregate_free(w->aggregate);
    rules_program_free(w->program);
    rules_set_free(w->set);
    free(w->body);
    free(w);
}

static uint32_t str(struct world *w, const char *text)
{
    return build_string(w->b, bytes_str(text));
}

static uint32_t function(struct world *w, const char *name, const char *file)
{
    return build_function(w->b, &(struct build_function){.name = str(w, name), .filename = str(w, file)});
}

/* A location of one line. */
static uint32_t frame(struct world *w, const char *type, const char *name)
{
    uint32_t attr = build_attribute_text(w->b, "profile.frame.type", bytes_str(type));
    struct build_line line = {.function = function(w, name, "")};
    return build_location(
        w->b, &(struct build_location){.lines = &line, .n_lines = 1, .attrs = &attr, .n_attrs = 1});
}

static void profile_of_id(struct world *w, const char *type, const char *unit, int64_t period, uint64_t time,
                          const char *id)
{
    build_profile(w->b, &(struct build_profile){.type = str(w, type),
                                                .unit = str(w, unit),
                                                .period_type = period ? str(w, "cpu") : 0,
                                                .period_unit = period ? str(w, "nanoseconds") : 0,
                                                .period = period,
                                                .time_unix_nano = time,
                                                .profile_id = (const uint8_t *)id});
}

static void profile(struct world *w, const char *type, const char *unit, int64_t period, uint64_t time)
{
    profile_of_id(w, type, unit, period, time, NULL);
}

static void sample(struct world *w, uint32_t location, uint32_t n_timestamps, const int64_t *value)
{
    static const uint64_t times[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    build_sample(w->b, &(struct build_sample){.stack = build_stack(w->b, &location, 1),
                                              .timestamps = times,
                                              .n_timestamps = n_timestamps,
                                              .values = value,
                                              .n_values = value ? 1 : 0});
}

static void resource(struct world *w, const char *name)
{
    const struct attr attr = {BYTES_LIT("service.name"), {ATTR_STRING, {.text = bytes_str(name)}}};
    build_resource(w->b, &attr, 1, BYTES_LIT(""));
    build_scope(w->b, BYTES_LIT("s"), BYTES_LIT(""), NULL, 0, BYTES_LIT(""));
}

/* Decodes what was built, ready for classify_push. */
static void finish(struct world *w)
{
    struct buffer out = BUFFER_INIT(0);
    struct error e = {.text = ""};
    ck_assert_int_eq(build_finish(w->b, &out), 0);
    free(w->body);
    w->body = calloc(1, out.n + PROFILES_PADDING);
    memcpy(w->body, out.p, out.n);
    ck_assert_msg(profiles_decode(&w->view, bytes_of(w->body, out.n), &profiles_limits_default, &e) == 0,
                  "%s", e.text);
    ck_assert_uint_eq(w->view.rejected.samples, 0);
    buffer_release(&out);
    build_begin(w->b);
}

/* The number of a series, "METRIC{name=value,…}" with names in order, over all resources; -1 where there is
 * none. */
static int64_t sum_of(struct world *w, const char *want)
{
    int64_t total = -1;
    for (uint32_t i = 0; i < w->aggregate->n_sums; i++) {
        struct bytes series = intern_get(&w->aggregate->series, w->aggregate->sums[i].series);
        const struct rule_metric *m =
            rules_program_metric(w->program, (uint32_t)atoi((const char *)series.p));
        char text[1024];
        int n = snprintf(text, sizeof text, "%.*s{%s", BYTES_FMT(m->name),
                         strchr((const char *)series.p, '\n') + 1);
        for (char *p = text; *p; p++)
            *p = *p == '\n' ? ',' : *p;
        snprintf(text + n - (text[n - 1] == ','), 2, "}");
        if (strcmp(text, want) == 0)
            total = (total < 0 ? 0 : total) + w->aggregate->sums[i].value;
        else if (getenv("TELL"))
            fprintf(stderr, "%s %lld\n", text, (long long)w->aggregate->sums[i].value);
    }
    return total;
}

static void push(struct world *w)
{
    w->aggregate->n_sums = 0;
    ck_assert_int_eq(classify_push(w->classify, &w->view), 0);
}

#define C(name, rest) "counter " name " { describe \"d\" unit \"1\" on any value one " rest " }\n"

UNIT(fields_of_frames)
{
    struct world *w = world_new(
        C("f", "each frame label inl = \"y\" when frame is (inlined) ?? \"n\" label fn = function of frame"
               "    label ty = type of frame label fi = file of frame")
            C("m", "label lib = library of leaf label map = mapping of leaf label id = build_id of leaf")
                C("i", "where any frame is (inlined)"));
    uint32_t ids[2] = {build_attribute_text(w->b, "process.executable.build_id.htlhash", BYTES_LIT("H")),
                       build_attribute_text(w->b, "process.executable.build_id.gnu", BYTES_LIT("G"))};
    uint32_t mapping = build_mapping(w->b, &(struct build_mapping){.memory_start = 1,
                                                                   .memory_limit = 2,
                                                                   .filename = str(w, "/usr/lib/libx.so"),
                                                                   .attrs = ids,
                                                                   .n_attrs = 2});
    uint32_t types[2] = {build_attribute_int(w->b, "profile.frame.type", 7),
                         build_attribute_text(w->b, "profile.frame.type", BYTES_LIT("go"))};
    struct build_line lines[2] = {{.function = function(w, "inner", "a.c")},
                                  {.function = function(w, "outer", "b.c")}};
    uint32_t stack[3] = {
        build_location(
            w->b,
            &(struct build_location){.mapping = mapping, .address = 1, .attrs = &types[1], .n_attrs = 1}),
        build_location(w->b,
                       &(struct build_location){.lines = lines, .n_lines = 2, .attrs = types, .n_attrs = 2}),
        build_location(w->b, &(struct build_location){.address = 9})};
    resource(w, "s");
    profile(w, "samples", "count", 0, 1);
    int64_t one = 1;
    build_sample(w->b,
                 &(struct build_sample){.stack = build_stack(w->b, stack, 3), .values = &one, .n_values = 1});
    finish(w);
    for (int twice = 0; twice < 2; twice++) {
        push(w);
        ck_assert_uint_eq(w->aggregate->n_sums, 6);
        ck_assert_int_eq(sum_of(w, "f{inl=n,ty=go}"), 1);
        ck_assert_int_eq(sum_of(w, "f{fi=a.c,fn=inner,inl=y,ty=}"), 1);
        ck_assert_int_eq(sum_of(w, "f{fi=b.c,fn=outer,inl=n,ty=}"), 1);
        ck_assert_int_eq(sum_of(w, "f{inl=n}"), 1);
        ck_assert_int_eq(sum_of(w, "m{id=G,lib=libx.so,map=/usr/lib/libx.so}"), 1);
        ck_assert_int_eq(sum_of(w, "i{}"), 1);
    }
    world_free(w);
}

/* One function in frames of several types: of two of them its name alone matters, of the third the mapping
 * too. In any order, each frame is what it says itself. */
UNIT(a_function_is_asked_for_each_type_of_its_frames)
{
    static const char *const orders[] = {"kgxy", "gkxy", "xkgy", "xykg", "kxgy", "ggxk", "kykx", "yxyg"};
    for (size_t o = 0; o < ARRAY_LEN(orders); o++) {
        struct world *w =
            world_new(C("k", "where leaf is (kernel and \"f*\")") C("g", "where leaf is (go and \"*f\")")
                          C("x", "where leaf is (native and library ~ \"x*\" and \"f\")"));
        uint32_t mapping[2] = {build_mapping(w->b, &(struct build_mapping){.filename = str(w, "/x.so")}),
                               build_mapping(w->b, &(struct build_mapping){.filename = str(w, "/y.so")})};
        struct build_line line = {.function = function(w, "f", "")};
        int64_t one = 1, want[3] = {0};
        resource(w, "s");
        profile(w, "samples", "count", 0, 1);
        for (const char *at = orders[o]; *at; at++) {
            uint32_t type = build_attribute_text(w->b, "profile.frame.type",
                                                 bytes_str(*at == 'k'   ? "kernel"
                                                           : *at == 'g' ? "go"
                                                                        : "native"));
            uint32_t location =
                build_location(w->b, &(struct build_location){.mapping = *at == 'x'   ? mapping[0]
                                                                         : *at == 'y' ? mapping[1]
                                                                                      : 0,
                                                              .address = (uint64_t)(at - orders[o]),
                                                              .lines = &line,
                                                              .n_lines = 1,
                                                              .attrs = &type,
                                                              .n_attrs = 1});
            sample(w, location, 0, &one);
            want[0] += *at == 'k';
            want[1] += *at == 'g';
            want[2] += *at == 'x';
        }
        finish(w);
        for (int twice = 0; twice < 2; twice++) {
            push(w);
            ck_assert_int_eq(sum_of(w, "k{}"), want[0] ? want[0] : -1);
            ck_assert_int_eq(sum_of(w, "g{}"), want[1] ? want[1] : -1);
            ck_assert_int_eq(sum_of(w, "x{}"), want[2] ? want[2] : -1);
        }
        world_free(w);
    }
}

UNIT(attributes_of_every_kind_and_scope)
{
    struct world *w =
        world_new(C("r", "label a = resource[\"i\"] label b = resource[\"b\"] label c = resource[\"d\"]"
                         "    label d = resource[\"x\"] label e = resource[\"l\"] label f = resource[\"m\"]")
                      C("s", "where sample[\"t\"] != none label t = sample[\"t\"] label p = profile[\"p\"]"
                             "    label any = attr[\"p\"] label sc = scope[\"k\"]"));
    static const uint8_t list[] = {0x0a, 3, 0x0a, 1, 'a', 0x0a, 2, 0x18, 3, 0x0a, 5, 0x2a, 3, 0x0a, 1, 0x0a};
    static const uint8_t map[] = {0x0a, 9, 0x0a, 3, 'k', '"', 'y', 0x12, 2, 0x10, 1};
    const struct attr attrs[] = {{BYTES_LIT("i"), {ATTR_INT, {.integer = -5}}},
                                 {BYTES_LIT("b"), {ATTR_BOOL, {.boolean = true}}},
                                 {BYTES_LIT("d"), {ATTR_DOUBLE, {.real = 0.1}}},
                                 {BYTES_LIT("x"), {ATTR_BYTES, {.text = BYTES_LIT("\x01\xff")}}},
                                 {BYTES_LIT("l"), {ATTR_ARRAY, {.text = bytes_of(list, 9)}}},
                                 {BYTES_LIT("m"), {ATTR_KVLIST, {.text = bytes_of(map, sizeof map)}}}};
    const struct attr key = {BYTES_LIT("k"), {ATTR_STRING, {.text = BYTES_LIT("scoped")}}};
    uint32_t on_profile = build_attribute_text(w->b, "p", BYTES_LIT("P"));
    build_resource(w->b, attrs, 6, BYTES_LIT(""));
    build_scope(w->b, BYTES_LIT("s"), BYTES_LIT(""), &key, 1, BYTES_LIT(""));
    build_profile(w->b, &(struct build_profile){.type = str(w, "x"),
                                                .unit = str(w, "y"),
                                                .time_unix_nano = 1,
                                                .attrs = &on_profile,
                                                .n_attrs = 1});
    uint32_t location = frame(w, "go", "f");
    for (int i = 0; i < 4; i++) {
        uint32_t attr = build_attribute_int(w->b, "t", i / 2);
        int64_t one = 1;
        build_sample(w->b, &(struct build_sample){.stack = build_stack(w->b, &location, 1),
                                                  .values = &one,
                                                  .n_values = 1,
                                                  .attrs = &attr,
                                                  .n_attrs = i < 3 ? 1 : 0});
    }
    finish(w);
    push(w);
    ck_assert_int_eq(sum_of(w, "r{a=-5,b=true,c=0.1,d=01ff,e=[\"a\",3],f={\"k\\\"y\":true}}"), 4);
    ck_assert_int_eq(sum_of(w, "s{any=P,p=P,sc=scoped,t=0}"), 2);
    ck_assert_int_eq(sum_of(w, "s{any=P,p=P,sc=scoped,t=1}"), 1);
    ck_assert_uint_eq(w->aggregate->n_sums, 3);
    world_free(w);
}

/* Samples of one stack that differ in what no rule reads, in what one does, and in whether they have a span.
 * A stack is walked again only where something read is another than that of the sample before: the walks are
 * told by the work counted. */
UNIT(samples_that_are_alike_share_their_stacks_outcome)
{
    struct world *w = world_new(C("s", "label t = sample[\"t\"]") C("l", "where linked"));
    static const struct {
        const char *t;
        int cpu, link;
    } of[] = {{"a", 0, 0}, {"a", 1, 0},  {"a", 2, 0},  {"b", 2, 0}, {"b", 3, 0},
              {"a", 3, 0}, {NULL, 3, 0}, {NULL, 4, 0}, {"a", 4, 1}, {"a", 5, 2}};
    uint32_t links[] = {0, build_link(w->b, (const uint8_t *)"0123456789abcdef", (const uint8_t *)"01234567"),
                        build_link(w->b, (const uint8_t *)"0123456789abcdef", (const uint8_t *)"abcdefgh")};
    resource(w, "x");
    profile(w, "x", "y", 0, 1);
    uint32_t location = frame(w, "go", "f");
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        uint32_t attrs[2] = {build_attribute_int(w->b, "cpu", of[i].cpu)};
        if (of[i].t)
            attrs[1] = build_attribute_text(w->b, "t", bytes_str(of[i].t));
        int64_t one = 1;
        build_sample(w->b, &(struct build_sample){.stack = build_stack(w->b, &location, 1),
                                                  .link = links[of[i].link],
                                                  .values = &one,
                                                  .n_values = 1,
                                                  .attrs = attrs,
                                                  .n_attrs = of[i].t ? 2 : 1});
    }
    finish(w);
    push(w);
    ck_assert_int_eq(sum_of(w, "s{t=a}"), 6);
    ck_assert_int_eq(sum_of(w, "s{t=b}"), 2);
    ck_assert_int_eq(sum_of(w, "s{}"), 2);
    ck_assert_int_eq(sum_of(w, "l{}"), 2);
    /* a, b, a, none, a linked: four walks again; and looking for the examples' samples asks no more */
    ck_assert_uint_eq(w->classify->request.work, 4);
    world_free(w);
}

/* What samples say is known by lists of attributes, whose numbers mean something else in each request. */
UNIT(what_samples_say_is_of_their_request)
{
    enum { NAMES = 16 };
    struct world *w = world_new(C("s", "label t = sample[\"t\"]") C("l", "where linked") C("z", ""));
    for (uint32_t request = 0; request < 40; request++) {
        char text[16], want[32];
        uint32_t link = build_link(w->b, (const uint8_t *)"0123456789abcdef", (const uint8_t *)"01234567");
        resource(w, "x");
        profile(w, "x", "y", 0, 1);
        uint32_t location = frame(w, "go", "f");
        for (uint32_t i = 0; i < NAMES; i++) {
            snprintf(text, sizeof text, "t%u", (i + request) % NAMES);
            uint32_t attr = build_attribute_text(w->b, "t", bytes_str(text));
            int64_t one = 1;
            for (uint32_t k = 0; k <= (i + request) % NAMES; k++)
                build_sample(w->b, &(struct build_sample){.stack = build_stack(w->b, &location, 1),
                                                          .link = k == 0 ? link : 0,
                                                          .values = &one,
                                                          .n_values = 1,
                                                          .attrs = &attr,
                                                          .n_attrs = 1});
        }
        finish(w);
        push(w);
        for (uint32_t i = 0; i < NAMES; i++) {
            snprintf(want, sizeof want, "s{t=t%u}", i);
            ck_assert_int_eq(sum_of(w, want), i + 1);
        }
        ck_assert_int_eq(sum_of(w, "l{}"), NAMES);
        ck_assert_int_eq(sum_of(w, "z{}"), NAMES * (NAMES + 1) / 2);
    }
    world_free(w);
}

UNIT(a_resource_is_known_by_its_message_only_if_that_says_all)
{
    struct world *w = world_new(C("r", "label a = resource[\"service.name\"]"));
    int64_t one = 1;
    resource(w, "here");
    profile(w, "x", "y", 0, 1);
    sample(w, frame(w, "go", "f"), 0, &one);
    finish(w);
    push(w);
    ck_assert_uint_eq(w->aggregate->by_raw, 1);
    ck_assert_int_eq(sum_of(w, "r{a=here}"), 1);
    w->view.key_value.attr[0].value.text = BYTES_LIT("there"); /* as if by string_value_strindex */
    push(w);
    ck_assert_uint_eq(w->aggregate->by_raw, 1);
    ck_assert_int_eq(sum_of(w, "r{a=there}"), 1);
    world_free(w);
}

/* The next request has its texts where the one before had its own. */
UNIT(a_long_text_is_known_by_its_place_in_one_request_alone)
{
    struct world *w = world_new(C("r", "label a = resource[\"service.name\"]"));
    char name[301], want[2][300];
    int64_t one = 1;
    for (int i = 0; i < 2; i++) {
        memset(name, 'a' + i, sizeof name - 1);
        name[sizeof name - 1] = 0;
        snprintf(want[i], sizeof want[i], "r{a=%.256s}", name);
    }
    memset(name, 'a', sizeof name - 1);
    resource(w, name);
    profile(w, "x", "y", 0, 1);
    sample(w, frame(w, "go", "f"), 0, &one);
    finish(w);
    push(w);
    ck_assert_int_eq(sum_of(w, want[0]), 1);
    struct bytes text = w->view.key_value.attr[0].value.text;
    memset((uint8_t *)text.p, 'b', text.n);
    push(w);
    ck_assert_int_eq(sum_of(w, want[1]), 1);
    world_free(w);
}

#define WEIGHTS                                                      \
    "counter t { describe \"d\" unit \"s\" on any value time }\n"    \
    "counter s { describe \"d\" unit \"1\" on any value samples }\n" \
    "counter e { describe \"d\" unit \"1\" on any value events }\n"  \
    "counter o { describe \"d\" unit \"1\" on any value one }\n"     \
    "gauge   g { describe \"d\" unit \"By\" on any value sum }\n"

UNIT(weights)
{
    struct world *w = world_new(WEIGHTS);
    uint64_t before = stats_read(STATS_SAMPLES_UNWEIGHED);
    uint32_t location = frame(w, "go", "f");
    resource(w, "a");
    profile(w, "samples", "count", 10000000, 1);
    sample(w, location, 3, NULL);
    sample(w, location, 0, &(int64_t){4});
    finish(w);
    push(w);
    ck_assert_int_eq(sum_of(w, "t{}"), 70000000);
    ck_assert_int_eq(sum_of(w, "s{}"), 7);
    ck_assert_int_eq(sum_of(w, "e{}"), 4);
    ck_assert_int_eq(sum_of(w, "o{}"), 2);
    ck_assert_int_eq(sum_of(w, "g{}"), 4);
    ck_assert_uint_eq(stats_read(STATS_SAMPLES_UNWEIGHED), before);

    location = frame(w, "go", "f");
    resource(w, "a");
    profile(w, "wall", "milliseconds", 10000000, 1);
    sample(w, location, 0, &(int64_t){2});
    sample(w, location, 0, &(int64_t){INT64_MAX}); /* more nanoseconds than fit */
    sample(w, location, 0, &(int64_t){-7});        /* no counter goes down */
    finish(w);
    push(w);
    ck_assert_int_eq(sum_of(w, "t{}"), 2000000);
    ck_assert_int_eq(sum_of(w, "s{}"), 2); /* each is of one period at least */
    ck_assert_int_eq(sum_of(w, "g{}"), INT64_MAX - 7);
    ck_assert_uint_eq(stats_read(STATS_SAMPLES_UNWEIGHED), before + 2);

    location = frame(w, "go", "f");
    resource(w, "a");
    profile(w, "alloc_space", "bytes", 0, 1);
    sample(w, location, 0, &(int64_t){4096});
    finish(w);
    push(w);
    ck_assert_int_eq(sum_of(w, "t{}"), -1);
    ck_assert_int_eq(sum_of(w, "g{}"), 4096);
    ck_assert_uint_eq(stats_read(STATS_SAMPLES_UNWEIGHED), before + 3);
    world_free(w);
}

UNIT(mean_averages_profiles_of_one_time_and_adds_times)
{
    struct world *w = world_new("gauge m { describe \"d\" unit \"1\" on any value one combine mean }\n"
                                "gauge a { describe \"d\" unit \"1\" on any value one }\n");
    uint32_t location = frame(w, "go", "f");
    resource(w, "r");
    for (int p = 0; p < 3; p++) {
        profile(w, p == 0 ? "x" : "y", "count", 0, p < 2 ? 100 : 200);
        for (int i = 0; i <= 3 * p; i++)
            sample(w, location, 1, NULL);
    }
    finish(w);
    push(w);
    ck_assert_int_eq(sum_of(w, "m{}"), (1 + 4) / 2 + 7);
    ck_assert_int_eq(sum_of(w, "a{}"), 1 + 4 + 7);
    world_free(w);
}

UNIT(last_says_what_each_profile_says_and_when)
{
    struct world *w = world_new("gauge l { describe \"d\" unit \"1\" on any value one combine last }\n"
                                "gauge a { describe \"d\" unit \"1\" on any value one }\n");
    uint32_t location = frame(w, "go", "f");
    resource(w, "r");
    for (int p = 0; p < 3; p++) {
        profile(w, "x", "count", 0, p == 1 ? 0 : 300 - 100 * (uint64_t)p); /* the second does not say when */
        for (int i = 0; i <= p; i++)
            sample(w, location, 1, NULL);
    }
    finish(w);
    uint64_t before = clock_realtime();
    push(w);
    ck_assert_int_eq(sum_of(w, "a{}"), 1 + 2 + 3);
    ck_assert_int_eq(sum_of(w, "l{}"), -1); /* it is not added up */
    ck_assert_uint_eq(w->aggregate->n_kept, 3);
    uint64_t arrival[4] = {0};
    for (int i = 0; i < 3; i++) {
        const struct fake_kept *kept = &w->aggregate->kept[i];
        ck_assert(kept->value >= 1 && kept->value <= 3);
        arrival[kept->value] = kept->moment.arrival;
        if (kept->value == 2)
            ck_assert_uint_ge(kept->moment.time, before);
        else
            ck_assert_uint_eq(kept->moment.time, kept->value == 1 ? 300 : 100);
    }
    ck_assert(arrival[1] < arrival[2] && arrival[2] < arrival[3]);
    push(w);
    ck_assert_uint_eq(w->aggregate->n_kept, 6);
    ck_assert_uint_gt(w->aggregate->kept[3].moment.arrival, arrival[3]);
    world_free(w);
}

UNIT(samples_are_counted_where_somebody_asks)
{
    struct world *w = world_new(C("o", "") C("p", ""));
    uint32_t location = frame(w, "go", "f");
    resource(w, "r");
    profile(w, "samples", "count", 10000000, 1);
    sample(w, location, 0, &(int64_t){40}); /* says how many it stands for */
    sample(w, location, 3, NULL);
    profile(w, "x", "count", 0, 2);
    sample(w, location, 7, &(int64_t){1000});
    finish(w);
    push(w);
    ck_assert_uint_eq(w->aggregate->samples, 0);
    w->aggregate->counted = 1;
    classify_free(w->classify);
    w->classify = unit_made(classify_new(w->program, w->aggregate, w->stats, &w->budget));
    push(w);
    ck_assert_uint_eq(w->aggregate->samples, 40 + 3 + 7);
    world_free(w);
}

UNIT(siblings_in_one_scope_count_once)
{
    struct world *w = world_new("counter t { describe \"d\" unit \"s\" on cpu }\n" C("all", ""));
    uint32_t location = frame(w, "go", "f");
    resource(w, "r");
    profile(w, "samples", "count", 10000000, 100);
    sample(w, location, 0, &(int64_t){2});
    profile(w, "cpu", "nanoseconds", 10000000, 100);
    sample(w, location, 0, &(int64_t){20000000});
    resource(w, "another");
    profile(w, "samples", "count", 10000000, 100);
    sample(w, location, 0, &(int64_t){1});
    finish(w);
    push(w);
    ck_assert_int_eq(sum_of(w, "t{}"), 30000000);
    ck_assert_int_eq(sum_of(w, "all{}"), 3);
    ck_assert_uint_eq(w->aggregate->n_sums, 4);
    world_free(w);
}

/* A sample of a pprof has a value for each of its types: 0 says that it is about others. Alone it says what
 * it says. */
UNIT(a_sibling_s_sample_of_value_0_is_none)
{
    struct world *w = world_new(WEIGHTS "counter w { on \"wall/nanoseconds\" value samples }\n"
                                        "counter f { on any each frame label f = function of frame }\n");
    uint32_t of_one = frame(w, "go", "one"), of_other = frame(w, "go", "other");
    resource(w, "r");
    profile(w, "wall", "nanoseconds", 10000000, 100);
    sample(w, of_one, 0, &(int64_t){20000000});
    sample(w, of_other, 0, &(int64_t){0});
    profile(w, "exceptions", "count", 0, 100);
    sample(w, of_one, 0, &(int64_t){0});
    sample(w, of_other, 0, &(int64_t){7});
    resource(w, "another"); /* a profile alone */
    profile(w, "exceptions", "count", 0, 100);
    sample(w, of_other, 0, &(int64_t){0});
    finish(w);
    push(w);
    ck_assert_int_eq(sum_of(w, "w{}"), 2);
    ck_assert_int_eq(sum_of(w, "t{}"), 20000000);
    ck_assert_int_eq(sum_of(w, "s{}"), 2 + 7);
    ck_assert_int_eq(sum_of(w, "e{}"), 3);
    ck_assert_int_eq(sum_of(w, "o{}"), 3);
    ck_assert_int_eq(sum_of(w, "g{}"), 20000007);
    ck_assert_int_eq(sum_of(w, "f{f=one}"), 1);
    ck_assert_int_eq(sum_of(w, "f{f=other}"), 2);
    world_free(w);
}

/* An id is one profile's: of what was one profile of several types, the first one's. */
UNIT(a_profile_without_an_id_is_the_sibling_of_the_one_before)
{
    struct world *w = world_new("counter t { describe \"d\" unit \"s\" on cpu }\n");
    uint32_t location = frame(w, "go", "f");
    resource(w, "r");
    for (int i = 0; i < 2; i++) {
        profile_of_id(w, "cpu", "nanoseconds", 10000000, 100, i ? "0123456789abcdef" : "fedcba9876543210");
        sample(w, location, 0, &(int64_t){20000000});
        profile(w, "samples", "count", 10000000, 100);
        sample(w, location, 0, &(int64_t){2});
    }
    profile(w, "samples", "count", 10000000, 101); /* of another time */
    sample(w, location, 0, &(int64_t){3});
    resource(w, "another");
    profile(w, "samples", "count", 10000000, 100);
    sample(w, location, 0, &(int64_t){1});
    finish(w);
    push(w);
    ck_assert_int_eq(sum_of(w, "t{}"), 2 * 20000000 + 40000000);
    world_free(w);
}

UNIT(without_memory_nothing_is_counted)
{
    struct world *w = world_new(WEIGHTS C("f", "each frame label f = function of frame"));
    uint32_t location = frame(w, "go", "f");
    resource(w, "a");
    profile(w, "samples", "count", 10000000, 1);
    sample(w, location, 3, NULL);
    finish(w);
    push(w);
    size_t full = w->budget.used;
    uint32_t failures = 0;
    for (size_t limit = 0; limit < full; limit += full / 80) {
        classify_free(w->classify);
        w->budget.limit = limit;
        w->classify = unit_made(classify_new(w->program, w->aggregate, w->stats, &w->budget));
        w->aggregate->n_sums = 0;
        int r = classify_push(w->classify, &w->view);
        ck_assert(r == 0 || r == -ENOMEM);
        failures += r != 0;
        if (r != 0)
            ck_assert_uint_eq(w->aggregate->n_sums, 0);
        w->budget.limit = (size_t)1 << 30;
        push(w);
        ck_assert_int_eq(sum_of(w, "t{}"), 30000000);
        ck_assert_int_eq(sum_of(w, "f{f=f}"), 1);
    }
    ck_assert_uint_gt(failures, 70);
    world_free(w);
}

UNIT(numbers_are_asked_again_when_the_aggregate_forgets)
{
    struct world *w = world_new(C("o", ""));
    uint32_t location = frame(w, "go", "f");
    resource(w, "a");
    profile(w, "samples", "count", 0, 1);
    sample(w, location, 1, NULL);
    finish(w);
    push(w);
    intern_clear(&w->aggregate->series);
    intern_clear(&w->aggregate->resources);
    intern_add(&w->aggregate->series, BYTES_LIT("0\nanother=one\n"));
    w->aggregate->epoch++;
    push(w);
    ck_assert_int_eq(sum_of(w, "o{}"), 1);
    ck_assert_uint_eq(w->aggregate->begins, 2 * 2); /* before and after a request */
    world_free(w);
}

/* The one example offered for a series; fails the case when there is another number of them. */
static const struct aggregate_exemplar *offered(const struct world *w, uint32_t resource, const char *metric)
{
    const struct aggregate_exemplar *found = NULL;
    for (uint32_t i = 0; i < w->aggregate->n_offers; i++) {
        struct bytes series = intern_get(&w->aggregate->series, w->aggregate->offers[i].series);
        const struct rule_metric *m =
            rules_program_metric(w->program, (uint32_t)atoi((const char *)series.p));
        if (!bytes_is(m->name, metric) || w->aggregate->offers[i].resource != resource)
            continue;
        ck_assert_ptr_null(found);
        found = &w->aggregate->offers[i].exemplar;
    }
    return found;
}

UNIT(a_sample_with_a_trace_is_offered_for_each_series_it_adds_to)
{
    struct world *w = world_new(C("all", "") "counter time { describe \"d\" unit \"s\" on cpu }\n" C(
        "kernel", "where leaf is (kernel)"));
    uint8_t trace[16], span[8] = {7}, none[16] = {0};
    memset(trace, 0xab, sizeof trace);
    uint32_t kernel = frame(w, "kernel", "k"), native = frame(w, "native", "n");
    uint32_t links[3] = {build_link(w->b, trace, span), build_link(w->b, none, span),
                         build_link(w->b, trace, none)};
    static const struct {
        uint32_t link; /* 0: none, else 1 + number */
        bool is_kernel;
        uint32_t n_times;
    } samples[] = {{0, true, 1}, {1, false, 3}, {2, true, 1}, {0, false, 1}};
    static const uint64_t times[3] = {1, 2, 3};
    resource(w, "shop");
    build_profile(w->b, &(struct build_profile){.type = str(w, "samples"),
                                                .unit = str(w, "count"),
                                                .period_type = str(w, "cpu"),
                                                .period_unit = str(w, "nanoseconds"),
                                                .period = 1000,
                                                .time_unix_nano = 5000,
                                                .duration_nano = 77});
    for (size_t i = 0; i < 4; i++)
        build_sample(w->b, &(struct build_sample){
                               .stack = build_stack(w->b, samples[i].is_kernel ? &kernel : &native, 1),
                               .link = samples[i].link ? links[samples[i].link - 1] : 0,
                               .timestamps = times,
                               .n_timestamps = samples[i].n_times});
    resource(w, "till");
    profile(w, "samples", "count", 1000, 0);
    build_sample(w->b, &(struct build_sample){.stack = build_stack(w->b, &native, 1),
                                              .link = links[2],
                                              .timestamps = times,
                                              .n_timestamps = 1});
    finish(w);
    push(w);
    const struct aggregate_exemplar *e = unit_made(offered(w, 0, "time"));
    ck_assert_mem_eq(e->trace_id, trace, 16);
    ck_assert_mem_eq(e->span_id, span, 8);
    ck_assert_uint_eq(e->time_unix_nano, 5077); /* the profile's end */
    ck_assert_int_eq(e->value, 3000);           /* its own time: three periods */
    ck_assert_int_eq(offered(w, 0, "all")->value, 1);
    ck_assert_ptr_null(offered(w, 0, "kernel")); /* its link has no trace */
    e = offered(w, 1, "time");                   /* a trace without a span, at no known time */
    ck_assert_mem_eq(e->span_id, none, 8);
    ck_assert_uint_eq(e->time_unix_nano, 0);
    ck_assert_int_eq(sum_of(w, "time{}"), 7000);
    world_free(w);
}

/* Sources dealt out to parts, as scattered stacks would have it: a sample has an outcome a part, and is
 * counted, or said not to be weighed, once. */
UNIT(parts_of_states_change_no_sum)
{
    static const char *const wants[] = {"time{}",     "sum{}",      "a{}",        "b{l=c}",     "b{l=b}",
                                        "each{fn=a}", "each{fn=b}", "each{fn=c}", "slow{fn=a}", "slow{fn=b}"};
    struct world *w =
        world_new("counter time { describe \"d\" unit \"s\" on any value time }\n"
                  "counter sum { describe \"d\" unit \"1\" on any value sum }\n"
                  "counter slow { describe \"d\" unit \"s\" on any value time  each frame is (\"a\" | \"b\")"
                  "               label fn = function of frame }\n" C("a", "where any frame is \"a\"")
                      C("b", "where any frame is \"b\" label l = function of leaf")
                          C("each", "each frame label fn = function of frame"));
    uint32_t frames[3] = {frame(w, "go", "a"), frame(w, "go", "b"), frame(w, "go", "c")};
    static const int64_t values[] = {5, -3, 7};
    int64_t sums[ARRAY_LEN(wants)];
    uint64_t unweighed = 0;
    resource(w, "shop");
    profile(w, "cpu", "nanoseconds", 0, 1);
    for (uint32_t i = 0; i < 27; i++) {
        uint32_t stack[3] = {frames[i % 3], frames[i / 3 % 3], frames[i / 9]};
        build_sample(w->b, &(struct build_sample){.stack = build_stack(w->b, stack, 1 + i % 3),
                                                  .values = &values[i % 3],
                                                  .n_values = 1});
    }
    finish(w);
    struct match_states *states = &w->classify->matcher->states;
    for (uint32_t parts = 1; parts <= 5; parts++) {
        push(w);
        ck_assert_uint_eq(states->n_parts, parts);
        for (size_t i = 0; i < ARRAY_LEN(wants); i++) {
            int64_t sum = sum_of(w, wants[i]);
            ck_assert_int_gt(sum, -1);
            ck_assert_int_eq(parts == 1 ? (sums[i] = sum) : sums[i], sum);
        }
        if (parts == 1)
            unweighed = w->classify->request.unweighed;
        ck_assert_uint_eq(w->classify->request.unweighed, 9); /* those of less than nothing */
        ck_assert_uint_eq(w->classify->request.unweighed, unweighed);
        for (uint32_t i = 0; i < parts; i++) /* the next walk splits it */
            if (states->parts[i].n_elements > 1)
                states->full = &states->parts[i];
    }
    world_free(w);
}
