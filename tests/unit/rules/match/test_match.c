/* SPDX-License-Identifier: Apache-2.0 */
/* needs: rules */
/*
 * Program and matcher from rule texts: regions, references, chains, tables, `each`, attributes; and that what
 * is remembered, or flushed, never changes an answer.
 */
#include "rules/match/match.h"
#include "rules/match/keep.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/base/buffer.h"
#include "proto/base/macros.h"
#include "proto/base/rng.h"
#include "rules/match/parts.h"
#include "rules/match/weigh.h"
#include "rules/program/program.h"
#include "tests/lib/unit.h"
#include "tests/unit/rules/rules_helper.h"

#define FRAMES_MAX 400

struct world {
    struct rule_set *set;
    struct rules_program *program;
    struct rules_matcher *m;
    struct budget budget;
    struct rules_frame frame[FRAMES_MAX];
    uint32_t items[FRAMES_MAX], classes[FRAMES_MAX], n;
    const char *thread;  /* sample["thread.name"] */
    const char *service; /* resource["service.name"] */
    bool linked;
    const char *type, *unit;
};

static struct world *world_new(const char *rules, size_t budget)
{
    struct world *w = calloc(1, sizeof *w);
    struct buffer text = BUFFER_INIT(0);
    struct error e = {.text = ""};
    buffer_add_str(&text, "rules 1\npack t\n");
    buffer_add_str(&text, rules);
    w->set = compile_text(buffer_bytes(&text));
    buffer_release(&text);
    w->program = unit_made(rules_program_new(w->set, &e));
    w->budget = (struct budget)BUDGET_INIT(budget, NULL);
    w->m = unit_made(rules_matcher_new(w->program, &w->budget));
    rules_matcher_begin(w->m);
    w->type = "samples";
    w->unit = "count";
    return w;
}

static void world_free(struct world *w)
{
    rules_matcher_free(w->m);
    ck_assert_uint_eq(w->budget.used, 0);
    rules_program_free(w->program);
    rules_set_free(w->set);
    free(w);
}

static uint32_t ask_field(void *context, uint32_t frame, enum rule_field field)
{
    return ((struct world *)context)->frame[frame].field[field];
}
static bool ask_inlined(void *context, uint32_t frame)
{
    return ((struct world *)context)->frame[frame].inlined;
}
static uint32_t ask_attr(void *context, enum rule_scope scope, uint32_t key)
{
    struct world *w = context;
    struct bytes name = rules_program_attr(w->program, key);
    if (w->thread && bytes_is(name, "thread.name") &&
        (scope == RULE_SCOPE_SAMPLE || scope == RULE_SCOPE_ATTR))
        return rules_matcher_string(w->m, bytes_str(w->thread));
    if (w->service && bytes_is(name, "service.name") &&
        (scope == RULE_SCOPE_RESOURCE || scope == RULE_SCOPE_ATTR))
        return rules_matcher_string(w->m, bytes_str(w->service));
    return RULES_NONE;
}
static uint32_t ask_type(void *context)
{
    struct world *w = context;
    return rules_matcher_string(w->m, bytes_str(w->type));
}
static uint32_t ask_unit(void *context)
{
    struct world *w = context;
    return rules_matcher_string(w->m, bytes_str(w->unit));
}
static bool ask_linked(void *context)
{
    return ((struct world *)context)->linked;
}

/* "type:function,type:function@/mapping", leaf first; "-" for none. */
static void set_stack(struct world *w, const char *stack)
{
    char *copy = strdup(stack), *save = NULL;
    w->n = 0;
    for (char *f = strtok_r(copy, ",", &save); f; f = strtok_r(NULL, ",", &save)) {
        char *function = strchr(f, ':'), *mapping = strchr(f, '@');
        struct rules_frame *frame = &w->frame[w->n];
        memset(frame->field, 0xff, sizeof frame->field);
        if (mapping)
            *mapping++ = 0;
        *function++ = 0;
        if (strcmp(f, "-") != 0)
            frame->field[RULE_FIELD_TYPE] = rules_matcher_string(w->m, bytes_str(f));
        if (strcmp(function, "-") != 0)
            frame->field[RULE_FIELD_FUNCTION] = rules_matcher_string(w->m, bytes_str(function));
        if (mapping)
            frame->field[RULE_FIELD_MAPPING] = rules_matcher_string(w->m, bytes_str(mapping));
        frame->field[RULE_FIELD_LIBRARY] = rules_matcher_library(w->m, frame->field[RULE_FIELD_MAPPING]);
        frame->inlined = false;
        w->items[w->n] = w->n;
        w->classes[w->n] = rules_matcher_frame(w->m, frame);
        w->n++;
    }
    free(copy);
}

static void put_entry(struct world *w, struct buffer *out, const struct rules_entry *e)
{
    const struct rules_series_label *labels;
    uint32_t n = rules_matcher_series_labels(w->m, e->series, &labels);
    const struct rule_metric *metric =
        rules_program_metric(w->program, rules_matcher_series_metric(w->m, e->series));
    buffer_printf(out, "%s%.*s{", out->n ? " " : "", BYTES_FMT(metric->name));
    for (uint32_t i = 0; i < n; i++)
        buffer_printf(out, "%s%.*s=%.*s", i ? "," : "",
                      BYTES_FMT(rules_program_name(w->program, labels[i].name)),
                      BYTES_FMT(rules_matcher_text(w->m, labels[i].value)));
    buffer_add_str(out, "}");
}

/* What the sample on the stack adds to, as text in a static buffer; *level (may be NULL) what it depended on.
 */
static const char *ask(struct world *w, const char *stack, enum rules_level *level)
{
    static char text[8192];
    struct rules_register registers[64];
    struct rules_verdict v = {.registers = registers};
    struct rules_asker asker = {w, ask_field, ask_inlined, ask_attr, ask_type, ask_unit, ask_linked};
    struct rules_profile profile = {bytes_str(w->type), bytes_str(w->unit), BYTES_LIT("nanoseconds"),
                                    10000000};
    struct buffer out = BUFFER_INIT(sizeof text - 1);
    ck_assert_uint_le(rules_program_registers(w->program), 64);
    if (stack)
        set_stack(w, stack);
    uint32_t active = rules_matcher_choose_one(w->m, &profile);
    text[0] = 0;
    if (!rules_matcher_walk(w->m, &(struct rules_stack){w->items, w->n, NULL, w->classes, NULL}, &v))
        return text;
    struct rules_found found;
    if (!rules_matcher_find(w->m, &v, active, &asker, &found))
        return text;
    const struct rules_entry *entries;
    uint32_t n = rules_matcher_entries(w->m, &v, &found, &asker, &entries);
    for (uint32_t i = 0; i < n; i++)
        put_entry(w, &out, &entries[i]);
    if (level)
        *level = found.level;
    for (uint32_t i = 0; level && i < found.n; i++) /* frames may have read more */
        *level = max_of(*level, rules_matcher_outcome_at(w->m, found.outcome[i])->level);
    if (rules_program_keeps(w->program) > 0) {
        uint32_t kept = rules_matcher_kept(w->m, &v, rules_matcher_keep_active(w->m, &profile), &asker);
        ck_assert_uint_ne(kept, RULES_NONE);
        buffer_printf(&out, " kept %u", rules_matcher_kept_at(w->m, kept)->share[RULE_OF_STACKS]);
    }
    if (out.n)
        memcpy(text, out.p, out.n);
    text[out.n] = 0;
    buffer_release(&out);
    return text;
}

#define C(name, rest) "counter " name " { describe \"d\" unit \"1\" on any value one " rest " }\n"

/* Asks twice: what is remembered must answer as what was computed. */
#define IS(stack, expected)                              \
    do {                                                 \
        ck_assert_str_eq(ask(w, stack, NULL), expected); \
        ck_assert_str_eq(ask(w, stack, NULL), expected); \
    } while (0)

UNIT(regions)
{
    struct world *w =
        world_new("region kpath = frames while kernel through \"sys_*\"\n"
                  "region outer = frames after \"lib\"\n"
                  "region inner = frames before \"handler\"\n" C("a", "where any frame in kpath is \"x\"")
                      C("b", "where any frame in outer is \"x\"") C("c", "where any frame in inner is \"x\"")
                          C("d", "where every frame in kpath is \"x\"")
                              C("e", "where no frame in outer is \"x\""),
                  1 << 30);
    IS("kernel:x", "a{} c{} d{} e{}");
    IS("kernel:x,kernel:sys_a,kernel:x", "a{} c{} e{}");
    IS("kernel:sys_a,kernel:x", "c{} e{}");
    IS("go:x,kernel:x", "c{} e{}");
    IS("go:lib,go:x", "b{} c{}");
    IS("go:lib", "e{}");
    IS("go:handler,go:x", "e{}");
    IS("go:x,go:lib,go:lib,go:y,go:handler", "c{} e{}");
    world_free(w);
}

UNIT(references)
{
    struct world *w =
        world_new("frame m = go or jvm\n" C("first", "label f = function of first m")
                      C("last", "label f = function of last m") C("leaf", "label f = function of leaf")
                          C("root", "label f = function of root")
                              C("lroot", "where root is go label t = type of root")
                                  C("fis", "where first m is \"a\"") C("lis", "where last m is \"a\""),
                  1 << 30);
    IS("native:x,go:a,jvm:b,native:y", "first{f=a} last{f=b} leaf{f=x} root{f=y} fis{}");
    IS("go:a", "first{f=a} last{f=a} leaf{f=a} root{f=a} lroot{t=go} fis{} lis{}");
    IS("native:-", "first{} last{} leaf{} root{}");
    IS("jvm:b,go:a,native:z", "first{f=b} last{f=a} leaf{f=b} root{f=z} lis{}");
    world_free(w);
}

UNIT(chains)
{
    struct world *w = world_new(C("c", "where \"a\" calls \"b\"") C("d", "where \"a\" directly calls \"b\"")
                                    C("e", "where \"a\" calls \"b\" directly calls \"c\""),
                                1 << 30);
    IS("go:b,go:a", "c{} d{}");
    IS("go:b,go:x,go:a", "c{}");
    IS("go:a,go:b", "");
    IS("go:b,go:a,go:b,go:x,go:a", "c{} d{}");
    IS("go:c,go:b,go:x,go:a", "c{} e{}");
    IS("go:c,go:x,go:b,go:a", "c{} d{}");
    IS("go:c,go:b,go:x,go:c,go:x,go:a", "c{} e{}");
    IS("go:a", "");
    world_free(w);
}

UNIT(tables)
{
    struct world *w = world_new(
        "table near (n, f) over frames nearest leaf { \"a*\" => \"A\", function  \"ab\" => \"AB\", -  else => \"E\", - }\n"
        "table top (n, f) over frames { \"x\" => \"X\", function  \"a*\" => \"A\", function }\n"
        "table guard (n) over frames nearest leaf { \"p\" when sample[\"thread.name\"] == \"T\" => \"P\"  \"q\" => \"Q\"\n"
        "    \"p\" => \"late\" }\n" C("near", "label n = near.n label f = near.f")
            C("top", "label n = top.n label f = top.f") C("guard", "where guard.n != none label n = guard.n"),
        1 << 30);
    IS("go:z,go:ab,go:a", "near{n=A,f=ab} top{n=A,f=ab}");
    IS("go:z", "near{n=E} top{}");
    IS("go:a1,go:x,go:a2", "near{n=A,f=a1} top{n=X,f=x}");
    IS("go:q,go:p", "near{n=E} top{} guard{n=Q}");
    IS("go:p,go:q", "near{n=E} top{} guard{n=late}");
    w->thread = "T";
    IS("go:p,go:q", "near{n=E} top{} guard{n=P}");
    IS("go:q,go:p", "near{n=E} top{} guard{n=Q}");
    w->thread = "U";
    IS("go:p,go:q", "near{n=E} top{} guard{n=late}");
    world_free(w);
}

/* Frames beyond the first that takes a table `nearest leaf` without a guard change nothing: what is found of
 * the others does not multiply. */
UNIT(a_table_nearest_leaf_is_decided_by_its_first_row_without_guard)
{
    struct buffer text = BUFFER_INIT(0);
    struct rng rng;
    rng_seed(&rng, 1);
    buffer_add_str(&text, "table near (n) over frames nearest leaf {\n"
                          "    \"a\" when sample[\"thread.name\"] == \"T\" => \"T\"\n");
    for (int i = 0; i < 12; i++)
        buffer_printf(&text, "    \"%c\" => \"%c\"\n", 'a' + i, 'A' + i);
    buffer_add_str(&text, "}\n" C("near", "where near.n != none label n = near.n"));
    ck_assert_int_eq(buffer_add(&text, "", 1), 0);
    struct world *w = world_new((const char *)text.p, (size_t)1 << 30);
    for (int round = 0; round < 1000; round++) {
        char stack[256] = "", want[16];
        int n = 1 + (int)(rng_next(&rng) % 12), first = 0;
        for (int f = 0; f < n; f++) {
            int c = (int)(rng_next(&rng) % 12);
            first = f == 0 ? c : first;
            sprintf(stack + strlen(stack), "%sgo:x,go:%c", f ? "," : "", 'a' + c);
        }
        w->thread = round % 2 ? "T" : NULL;
        sprintf(want, "near{n=%c}", first == 0 && w->thread ? 'T' : 'A' + first);
        IS(stack, want);
    }
    ck_assert_uint_le(rules_matcher_figures(w->m).states, 12);
    buffer_release(&text);
    world_free(w);
}

UNIT(each_frame)
{
    struct world *w =
        world_new(C("e", "each frame is go label f = function of frame")
                      C("d", "each distinct frame is go label f = function of frame")
                          C("t", "each distinct frame is (type != none) label t = type of frame"),
                  1 << 30);
    IS("go:a,go:b,go:a,native:x", "t{t=go} t{t=native} e{f=a} e{f=b} e{f=a} d{f=a} d{f=b}");
    IS("native:x,-:y", "t{t=native}");
    IS("-:y", "");
    world_free(w);
}

/* Which series a stack had is known by a stamp, which comes round: what was marked long ago is not of this
 * stack. */
UNIT(stamps_come_round)
{
    struct world *w = world_new(C("d", "each distinct frame is go label f = function of frame"), 1 << 30);
    IS("go:a,go:b", "d{f=a} d{f=b}"); /* marked with the first stamp */
    w->m->outcomes.stamp = UINT32_MAX;
    IS("go:c,go:a,go:a,go:b", "d{f=c} d{f=a} d{f=b}");
    IS("go:c,go:a,go:b,go:b", "d{f=c} d{f=a} d{f=b}");
    world_free(w);
}

/* More frame types than the state keeps bits for: the rest goes by a list, and nothing is lost or counted
 * twice. */
UNIT(many_frame_types)
{
    struct world *w =
        world_new(C("t", "each distinct frame is (type != none) label t = type of frame"), 1 << 30);
    struct buffer stack = BUFFER_INIT(0);
    for (int twice = 0; twice < 2; twice++)
        for (int i = 0; i < 100; i++)
            buffer_printf(&stack, "%stype%d:f", stack.n ? "," : "", i);
    ck_assert_int_eq(buffer_add(&stack, "", 1), 0);
    const char *text = ask(w, (const char *)stack.p, NULL);
    for (int i = 0; i < 100; i++) {
        char one[32];
        snprintf(one, sizeof one, "t{t=type%d}", i);
        const char *at = strstr(text, one);
        ck_assert_msg(at && !strstr(at + 1, one), "%s not once in %s", one, text);
    }
    buffer_release(&stack);
    world_free(w);
}

UNIT(texts_and_levels)
{
    enum rules_level level;
    struct world *w = world_new(
        "text tu = profile.type + \"_\" + profile.unit\n" C("s", "where any frame is \"stack\"") C(
            "p",
            "where any frame is \"profile\" label tu = tu label svc = resource[\"service.name\"] ?? \"?\"")
            C("x",
              "where any frame is \"sample\" and attr[\"thread.name\"] ~ \"GC*\" label l = \"yes\" when linked ?? \"no\"")
                C("cap", "where any frame is \"cap*\" label c = capture /^cap(.*)$/ from function of leaf"),
        1 << 30);
    ck_assert_str_eq(ask(w, "go:stack", &level), "s{}");
    ck_assert_int_eq(level, RULES_LEVEL_STACK);
    ck_assert_str_eq(ask(w, "go:profile", &level), "p{tu=samples_count,svc=?}");
    ck_assert_int_eq(level, RULES_LEVEL_PROFILE);
    w->service = "shop";
    IS("go:profile", "p{tu=samples_count,svc=shop}");
    w->service = "";
    IS("go:profile", "p{tu=samples_count,svc=?}");
    w->type = "cpu";
    w->unit = "nanoseconds";
    IS("go:profile", "p{tu=cpu_nanoseconds,svc=?}");
    ck_assert_str_eq(ask(w, "go:sample", &level), "");
    ck_assert_int_eq(level, RULES_LEVEL_SAMPLE);
    w->thread = "GC Thread#1";
    IS("go:sample", "x{l=no}");
    w->linked = true;
    IS("go:sample", "x{l=yes}");
    w->thread = "main";
    IS("go:sample", "");
    IS("go:cap", "cap{c=}");
    IS("go:caps", "cap{c=s}");
    world_free(w);
}

UNIT(columns_of_frame_tables_are_fields)
{
    struct world *w =
        world_new("table symbol (name, package) {\n"
                  "    jvm => capture /([^( ]+)\\s*(?:\\(|$)/ from function ?? function, \"j\"\n"
                  "    go  => function, capture /^(\\w+)/ from function\n"
                  "    else => function, none }\n" C("m", "where any frame is (symbol.name ~ \"com.acme.*\")")
                      C("l", "where leaf is go label p = symbol.package of leaf label q = library of leaf"),
                  1 << 30);
    IS("jvm:void com.acme.A.b(int)", "m{}");
    IS("jvm:void x.Y.z(com.acme.A)", "");
    IS("go:com.acme.x@/usr/lib/a.so", "m{} l{p=com,q=a.so}");
    IS("go:-", "l{}");
    world_free(w);
}

UNIT(long_label_is_cut_at_a_character)
{
    struct world *w = world_new(C("l", "label f = function of leaf"), 1 << 30);
    char stack[400] = "go:";
    memset(stack + 3, 'a', 255);
    strcpy(stack + 258, "\xc3\xa9\xc3\xa9");
    const char *text = ask(w, stack, NULL);
    ck_assert_uint_eq(strlen(text), strlen("l{f=") + 255 + 1);
    world_free(w);
}

/* A rule set whose states and classes run into thousands, against itself without any memory of what came
 * before. */
static struct world *busy_world(void)
{
    cleanup(buffer_release) struct buffer text = BUFFER_INIT(0);
    for (int i = 0; i < 14; i++)
        buffer_printf(
            &text,
            C("m%d",
              "where any frame is \"*%c*\" and \"%c*\" calls \"*%c\" label f = function of last \"*%c*\""),
            i, 'a' + i, 'b' + i, 'a' + i, 'c' + i);
    for (int i = 0; i < 14; i++)
        buffer_printf(&text, "keep %d%% where any frame is \"%c*%c\"\n", i + 1, 'a' + i, 'b' + i);
    ck_assert_int_eq(buffer_add(&text, "", 1), 0);
    struct world *w = world_new((const char *)text.p, (size_t)1 << 30);
    return w;
}

UNIT(an_automaton_come_apart_changes_no_answer)
{
    struct world *w = busy_world(), *fresh;
    struct rng rng;
    rng_seed(&rng, 3);
    uint32_t generation = rules_matcher_generation(w->m), compared = 0;
    for (int round = 0; round < 12000; round++) {
        char stack[2048] = "";
        for (int f = 0, n = 1 + (int)(rng_next(&rng) % 60); f < n; f++) {
            char name[16] = "";
            for (int k = 0; k < 3; k++)
                name[k] = (char)('a' + rng_next(&rng) % 18);
            sprintf(stack + strlen(stack), "%sgo:%s", f ? "," : "", name);
        }
        autofree char *was = strdup(ask(w, stack, NULL));
        ck_assert_int_eq(rules_matcher_error(w->m), 0);
        if (round % 400 == 399) {
            fresh = busy_world();
            ck_assert_str_eq(ask(fresh, stack, NULL), was);
            world_free(fresh);
            compared++;
        }
    }
    ck_assert_uint_eq(compared, 30);
    ck_assert_uint_gt(rules_matcher_generation(w->m), generation);
    ck_assert_uint_gt(rules_matcher_figures(w->m).parts, 1); /* it did */
    world_free(w);
}

UNIT(memory_out_is_said_and_survived)
{
    const char *rules =
        C("e", "each frame is go label f = function of frame") C("l", "label f = function of leaf");
    struct world *w = world_new(rules, 1 << 30);
    autofree char *want = strdup(ask(w, "go:a,go:b", NULL));
    size_t full = w->budget.used;
    world_free(w);
    for (size_t budget = 0; budget < full; budget += full / 60) {
        w = world_new(rules, budget);
        ask(w, "go:a,go:b", NULL);
        ck_assert_int_lt(rules_matcher_error(w->m), 0);
        w->budget.limit = 1 << 30;
        uint32_t epoch = rules_matcher_epoch(w->m);
        rules_matcher_begin(w->m);
        ck_assert_uint_ne(rules_matcher_epoch(w->m), epoch);
        ck_assert_str_eq(ask(w, "go:a,go:b", NULL), want);
        world_free(w);
    }
}

UNIT(an_empty_stack_satisfies_nothing)
{
    struct world *w = world_new(C("c", ""), 1 << 30);
    IS("go:a", "c{}");
    w->n = 0;
    ck_assert_str_eq(ask(w, NULL, NULL), "");
    world_free(w);
}

UNIT(siblings_count_once)
{
    struct world *w = world_new("counter t { describe \"d\" unit \"s\" on cpu }\n"
                                "counter n { describe \"d\" unit \"1\" on cpu value samples }\n"
                                "counter p { describe \"d\" unit \"1\" on \"cpu/*\" value one }\n" C("a", ""),
                                1 << 30);
    struct rules_profile group[3] = {{BYTES_LIT("samples"), BYTES_LIT("count"), BYTES_LIT("nanoseconds"),
                                      10000000},
                                     {BYTES_LIT("cpu"), BYTES_LIT("nanoseconds"), {0}, 0},
                                     {BYTES_LIT("alloc_space"), BYTES_LIT("bytes"), {0}, 0}};
    uint64_t masks[3];
    rules_matcher_choose(w->m, group, 3, masks);
    ck_assert_uint_eq(masks[0], 1 << 1 | 1 << 3);
    ck_assert_uint_eq(masks[1], 1 << 0 | 1 << 2 | 1 << 3);
    ck_assert_uint_eq(masks[2], 1 << 3);
    rules_matcher_choose(w->m, group, 1, masks);
    ck_assert_uint_eq(masks[0], 1 << 0 | 1 << 1 | 1 << 3);
    world_free(w);
}

/* async-profiler names types after its engines: perf_events of whichever event, of which only time is CPU
 * time. */
UNIT(engines_of_async_profiler_are_of_a_kind)
{
    struct world *w = world_new("counter t { describe \"d\" unit \"s\" on cpu }\n"
                                "counter n { describe \"d\" unit \"1\" on cpu value samples }\n"
                                "counter l { describe \"d\" unit \"s\" on lock }\n"
                                "counter m { describe \"d\" unit \"1\" on lock value samples }\n"
                                "counter b { describe \"d\" unit \"By\" on alloc value sum }\n"
                                "counter o { describe \"d\" unit \"1\" on alloc value samples }\n",
                                1 << 30);
    const struct {
        struct rules_profile p;
        uint64_t takes;
    } cases[] = {
        {{BYTES_LIT("perf_events"), BYTES_LIT("count"), BYTES_LIT("ns"), 1000000}, 1 | 2},
        {{BYTES_LIT("perf_events"), BYTES_LIT("ns"), BYTES_LIT("ns"), 1000000}, 1 | 2},
        {{BYTES_LIT("perf_events"), BYTES_LIT("count"), BYTES_LIT("total"), 1000}, 0}, /* cache misses */
        {{BYTES_LIT("perf_events"), BYTES_LIT("count"), {0}, 0}, 0},
        {{BYTES_LIT("lock_tracer"), BYTES_LIT("ns"), BYTES_LIT("ns"), 1000}, 4},
        {{BYTES_LIT("lock_tracer"), BYTES_LIT("count"), BYTES_LIT("ns"), 1000}, 8}, /* of no length */
        {{BYTES_LIT("object_sampler"), BYTES_LIT("bytes"), BYTES_LIT("bytes"), 10240}, 16},
        {{BYTES_LIT("object_sampler"), BYTES_LIT("count"), BYTES_LIT("bytes"), 10240}, 32},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        uint64_t mask;
        rules_matcher_choose(w->m, &cases[i].p, 1, &mask);
        ck_assert_msg(mask == cases[i].takes, "case %zu: %#llx", i, (unsigned long long)mask);
    }
    world_free(w);
}

/* fgprof looks at goroutines that wait, too, and says so by its period: no CPU time, also where the same type
 * of another profile was. */
UNIT(samples_of_wall_clock_time_are_not_of_the_cpu)
{
    struct world *w = world_new("counter t { describe \"d\" unit \"s\" on cpu }\n"
                                "counter n { describe \"d\" unit \"1\" on cpu value samples }\n"
                                "counter u { describe \"d\" unit \"s\" on wall }\n"
                                "counter m { describe \"d\" unit \"1\" on wall value samples }\n"
                                "keep 1% on cpu\nkeep 2% on wall\n",
                                1 << 30);
    const struct bytes ns = BYTES_LIT("nanoseconds");
    const struct rules_profile group[2] = {{BYTES_LIT("samples"), BYTES_LIT("count"), ns, 10,
                                            BYTES_LIT("wallclock")},
                                           {BYTES_LIT("time"), ns, ns, 10, BYTES_LIT("wallclock")}},
                               cpu = {BYTES_LIT("samples"), BYTES_LIT("count"), ns, 10, BYTES_LIT("cpu")};
    uint64_t masks[2];
    rules_matcher_choose(w->m, group, 2, masks);
    ck_assert_uint_eq(masks[0], 8);
    ck_assert_uint_eq(masks[1], 4);
    rules_matcher_choose(w->m, &cpu, 1, masks);
    ck_assert_uint_eq(masks[0], 1 | 2);
    ck_assert_uint_ne(rules_matcher_choose_one(w->m, &cpu), rules_matcher_choose_one(w->m, &group[0]));
    ck_assert_uint_ne(rules_matcher_keep_active(w->m, &cpu), rules_matcher_keep_active(w->m, &group[0]));
    world_free(w);
}

/* Backends refuse a hyphen in a type, so senders write "page_faults" now; rules of before still take it. */
UNIT(a_hyphen_of_a_type_is_an_underscore)
{
    struct world *w =
        world_new("counter a { describe \"d\" unit \"1\" on \"page-faults/count\" value samples }\n"
                  "counter b { describe \"d\" unit \"1\" on \"page_faults/*\" value samples }\n"
                  "counter c { describe \"d\" unit \"1\" on /^page-f/ value samples }\n"
                  "counter d { describe \"d\" unit \"1\" on \"page faults/count\" value samples }\n"
                  "counter e { describe \"d\" unit \"1\" on \"page-faults/c-t\" value samples }\n",
                  1 << 30);
    struct rules_profile group[3] = {{BYTES_LIT("page_faults"), BYTES_LIT("count"), {0}, 0},
                                     {BYTES_LIT("page-faults"), BYTES_LIT("count"), {0}, 0},
                                     {BYTES_LIT("page-faults"), BYTES_LIT("c_t"), {0}, 0}};
    uint64_t masks[3];
    rules_matcher_choose(w->m, group, 3, masks);
    ck_assert_uint_eq(masks[0], 7);
    ck_assert_uint_eq(masks[1], 7);
    ck_assert_uint_eq(masks[2], 2 | 4); /* the unit is as it is sent */
    world_free(w);
}

UNIT(a_type_that_is_too_long_meets_no_pattern)
{
    struct world *w = world_new("counter a { describe \"d\" unit \"1\" on \"t*\" value samples }\n"
                                "counter b { describe \"d\" unit \"1\" on any value samples }\n",
                                1 << 30);
    char text[1200];
    memset(text, 't', sizeof text);
    struct rules_profile group[2] = {{bytes_of(text, 1019), BYTES_LIT("count"), {0}, 0},
                                     {bytes_of(text, 1020), BYTES_LIT("count"), {0}, 0}};
    uint64_t masks[2];
    rules_matcher_choose(w->m, group, 2, masks);
    ck_assert_uint_eq(masks[0], 1 | 2);
    ck_assert_uint_eq(masks[1], 2);
    world_free(w);
}

UNIT(time_of_a_sample)
{
    struct rules_profile p = {BYTES_LIT("samples"), BYTES_LIT("count"), BYTES_LIT("ms"), 10};
    struct rules_time t = rules_time_of(&p);
    ck_assert_int_eq(t.how, RULES_TIME_SAMPLES);
    ck_assert_int_eq(t.factor, 10000000);
    p = (struct rules_profile){BYTES_LIT("wall"), BYTES_LIT("microseconds"), {0}, 0};
    t = rules_time_of(&p);
    ck_assert_int_eq(t.how, RULES_TIME_VALUES);
    ck_assert_int_eq(t.factor, 1000);
    ck_assert_int_eq(rules_time_samples(&t, 5, 3), 3);
    p = (struct rules_profile){BYTES_LIT("cpu"), BYTES_LIT("microseconds"), BYTES_LIT("ms"), 10};
    t = rules_time_of(&p);
    ck_assert_int_eq(t.how, RULES_TIME_VALUES);
    ck_assert_int_eq(rules_time_samples(&t, 70000, 3), 7);
    ck_assert_int_eq(rules_time_samples(&t, 0, 3), 3);
    ck_assert_int_eq(rules_time_samples(&t, 1, 3), 1);
    ck_assert_int_gt(rules_time_samples(&t, t.limit, 3), 3);
    ck_assert_int_eq(rules_time_samples(&t, t.limit + 1, 3), 3);
    p = (struct rules_profile){BYTES_LIT("alloc"), BYTES_LIT("bytes"), BYTES_LIT("bytes"), 512};
    ck_assert_int_eq(rules_time_of(&p).how, RULES_TIME_NONE);
    p = (struct rules_profile){BYTES_LIT("x"), BYTES_LIT("count"), BYTES_LIT("seconds"), INT64_MAX};
    ck_assert_int_eq(rules_time_of(&p).how, RULES_TIME_NONE);
    p = (struct rules_profile){BYTES_LIT("x"), BYTES_LIT("count"), BYTES_LIT("seconds"), -1};
    ck_assert_int_eq(rules_time_of(&p).how, RULES_TIME_NONE);
}
