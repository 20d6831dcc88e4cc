/* SPDX-License-Identifier: Apache-2.0 */
/* needs: proto/otlp/view rules rules/match rules/program proto/pprof proto/coding dep_jsonc */
/* What is answered of real requests: trees that add up, the same numbers by every endpoint, and words for
 * what is wrong. */
#include "gateway/look/answer.h"

#include <json-c/json.h>
#include <stdlib.h>

#include "gateway/look/querier.h"
#include "gateway/look/tap.h"
#include "proto/base/clock.h"
#include "proto/pprof/pprof.h"
#include "rules/program/program.h"
#include "tests/unit/rules/rules_helper.h"

#define NOW (1795338000ull * NSEC_PER_SEC)

static const char *const captures[] = {"connector/ebpf-go-0003.pb", "connector/ebpf-mixed-0003.pb",
                                       "connector/ebpf-python-0003.pb"};

static struct look_store *store;
static struct look_tap *tap;
static struct profiles view;
static struct look_answer answer;
static uint64_t pushed; /* nanoseconds */

static void push(const char *name, uint64_t now)
{
    struct error e = {""};
    size_t n;
    autofree unsigned char *body = unit_data(name, &n);
    ck_assert_int_eq(profiles_decode(&view, bytes_of(body, n), &profiles_limits_default, &e), 0);
    for (uint32_t i = 0; i < view.profile.n; i++) {
        view.profile.time_unix_nano[i] = now;
        for (uint32_t k = view.profile.samples_at[i]; k < view.profile.samples_at[i + 1]; k++)
            pushed += (uint64_t)profiles_sample_value(&view, k) * (uint64_t)view.profile.period[i];
    }
    look_tap_push(tap, &view, now);
    look_store_add(store, look_tap_take(tap), now);
}

static void begin_with(uint32_t samples_per_second)
{
    const struct look_store_options options = {64u << 20, 24 * 3600ull * NSEC_PER_SEC, samples_per_second};
    store = unit_made(look_store_new(&options, NULL));
    tap = unit_made(look_tap_new(&store->rates, &store->budget, 8u << 20));
    ck_assert_int_eq(profiles_init(&view, NULL), 0);
    pushed = 0;
    for (size_t i = 0; i < ARRAY_LEN(captures); i++)
        push(captures[i], NOW - (ARRAY_LEN(captures) - i) * LOOK_SLICE_NS);
}

static void begin(void)
{
    begin_with(100000);
}

static void end(void)
{
    look_tap_free(tap);
    profiles_release(&view);
    look_store_free(store);
    buffer_release(&answer.body);
}

static uint32_t ask(enum look_endpoint endpoint, const char *query)
{
    buffer_release(&answer.body);
    ck_assert_int_eq(look_answer(store, endpoint, bytes_str(query), NOW, 0, &answer), 0);
    return answer.status;
}

static json_object *json(enum look_endpoint endpoint, const char *query)
{
    ck_assert_uint_eq(ask(endpoint, query), 200);
    buffer_add(&answer.body, "", 1);
    json_object *o = json_tokener_parse((char *)answer.body.p);
    ck_assert_msg(o != NULL, "%s", (char *)answer.body.p);
    return o;
}

static json_object *member(json_object *o, const char *name)
{
    json_object *value;
    ck_assert_msg(json_object_object_get_ex(o, name, &value), "no %s in %s", name,
                  json_object_to_json_string(o));
    return value;
}

static uint64_t at(json_object *array, size_t i)
{
    return json_object_get_uint64(json_object_array_get_idx(array, i));
}

static size_t length(json_object *array)
{
    return json_object_array_length(array);
}

/* total = self + totals of children + more, parents first; the root's total. */
static uint64_t check_nodes(json_object *node, size_t n_frames)
{
    json_object *parent = member(node, "parent"), *self = member(node, "self"),
                *total = member(node, "total");
    json_object *more = member(node, "more"), *frame = member(node, "frame");
    const size_t n = length(parent);
    ck_assert(n > 0 && length(self) == n && length(total) == n && length(more) == n && length(frame) == n);
    uint64_t *sum = unit_made(calloc(n, sizeof *sum));
    for (size_t i = n; i-- > 0;) {
        sum[i] += at(self, i) + at(more, i);
        ck_assert_uint_eq(sum[i], at(total, i));
        if (i == 0)
            break;
        ck_assert_uint_lt(at(parent, i), i);
        ck_assert_uint_lt(at(frame, i), n_frames);
        sum[at(parent, i)] += sum[i];
    }
    free(sum);
    return at(total, 0);
}

UNIT(a_flame_adds_up_at_every_size)
{
    begin();
    for (uint32_t nodes = 1; nodes < 20000; nodes = nodes * 3 + 1) {
        char query[64];
        snprintf(query, sizeof query, "nodes=%u&lines=%u", nodes, nodes % 2);
        json_object *o = json(LOOK_FLAME, query), *node = member(o, "node");
        ck_assert_uint_eq(check_nodes(node, length(member(member(o, "frame"), "name"))), pushed);
        ck_assert_uint_le(length(member(node, "parent")), nodes);
        ck_assert_double_eq(json_object_get_double(member(o, "p")), 1);
        ck_assert_str_eq(json_object_get_string(member(o, "unit")), "nanoseconds");
        json_object_put(o);
    }
    end();
}

static int larger_first(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x < y) - (x > y);
}

UNIT(a_small_flame_has_the_heaviest_nodes)
{
    begin();
    json_object *all = json(LOOK_FLAME, "nodes=65536"), *some = json(LOOK_FLAME, "nodes=300");
    json_object *of[] = {member(member(all, "node"), "total"), member(member(some, "node"), "total")};
    uint64_t *totals[2];
    ck_assert_uint_gt(length(of[0]), 1000);
    ck_assert_uint_eq(length(of[1]), 300);
    for (int k = 0; k < 2; k++) {
        totals[k] = unit_made(calloc(length(of[k]), sizeof *totals[k]));
        for (uint32_t i = 0; i < length(of[k]); i++)
            totals[k][i] = at(of[k], i);
        qsort(totals[k], length(of[k]), sizeof *totals[k], larger_first);
    }
    ck_assert_int_eq(memcmp(totals[0], totals[1], 300 * sizeof *totals[0]), 0);
    free(totals[0]);
    free(totals[1]);
    json_object_put(all);
    json_object_put(some);
    end();
}

/* By its stacks, by its functions, over time, as pprof and as folded: one sum. */
UNIT(all_endpoints_say_the_same)
{
    begin();
    json_object *o = json(LOOK_TOP, "limit=1000&sort=self");
    json_object *rows = member(o, "rows");
    uint64_t self = 0;
    for (size_t i = 0; i < length(rows); i++) {
        json_object *row = json_object_array_get_idx(rows, i);
        self += json_object_get_uint64(member(row, "self"));
        ck_assert_uint_le(json_object_get_uint64(member(row, "self")),
                          json_object_get_uint64(member(row, "total")));
        ck_assert_uint_le(json_object_get_uint64(member(row, "total")), pushed);
    }
    if (json_object_get_uint64(member(o, "more")) == 0)
        ck_assert_uint_eq(self, pushed);
    json_object_put(o);
    o = json(LOOK_SERIES, "step=10s");
    double cores = 0;
    json_object *series = member(o, "series");
    for (size_t i = 0; i < length(series); i++) {
        json_object *values = member(json_object_array_get_idx(series, i), "values");
        for (size_t k = 0; k < length(values); k++)
            cores += json_object_get_double(json_object_array_get_idx(values, k));
    }
    ck_assert_double_eq_tol(cores * 10 * NSEC_PER_SEC, (double)pushed, 1e3);
    json_object_put(o);
    o = json(LOOK_SERVICES, "");
    uint64_t value = 0;
    for (size_t i = 0; i < length(o); i++)
        value += json_object_get_uint64(member(json_object_array_get_idx(o, i), "value"));
    ck_assert_uint_eq(value, pushed);
    json_object_put(o);
    ck_assert_uint_eq(ask(LOOK_FOLDED, ""), 200);
    buffer_add(&answer.body, "", 1);
    value = 0;
    for (char *line = strtok((char *)answer.body.p, "\n"); line; line = strtok(NULL, "\n"))
        value += strtoull(strrchr(line, ' ') + 1, NULL, 10);
    ck_assert_uint_eq(value, pushed);
    end();
}

UNIT(a_sandwich_has_the_function_in_the_middle)
{
    begin();
    json_object *o = json(LOOK_SANDWICH, "function=runtime.futexsleep");
    json_object *frame = member(o, "frame"), *strings = member(o, "strings");
    const size_t n = length(member(frame, "name"));
    ck_assert_uint_eq(check_nodes(member(o, "callers"), n), json_object_get_uint64(member(o, "total")));
    ck_assert_uint_eq(check_nodes(member(o, "callees"), n), json_object_get_uint64(member(o, "total")));
    ck_assert_uint_gt(json_object_get_uint64(member(o, "total")), 0);
    const uint64_t root = at(member(member(o, "callees"), "frame"), 0);
    ck_assert_str_eq(
        json_object_get_string(json_object_array_get_idx(strings, at(member(frame, "name"), root))),
        "runtime.futexsleep");
    json_object_put(o);
    o = json(LOOK_SANDWICH, "function=nobody");
    ck_assert_uint_eq(json_object_get_uint64(member(o, "total")), 0);
    json_object_put(o);
    end();
}

UNIT(a_diff_has_both_sides)
{
    begin();
    char query[128];
    const uint64_t last = (NOW - LOOK_SLICE_NS) / NSEC_PER_MSEC;
    snprintf(query, sizeof query, "b.from=%llu&a.to=%llu&nodes=300", (unsigned long long)last,
             (unsigned long long)last);
    json_object *o = json(LOOK_DIFF, query), *node = member(o, "node");
    const uint64_t a = json_object_get_uint64(member(member(o, "a"), "total")),
                   b = json_object_get_uint64(member(member(o, "b"), "total"));
    ck_assert_uint_eq(a + b, pushed);
    ck_assert(a > 0 && b > 0);
    ck_assert_uint_eq(at(member(node, "total"), 0), a);
    ck_assert_uint_eq(at(member(node, "total_b"), 0), b);
    ck_assert_uint_eq(length(member(node, "more_b")), length(member(node, "parent")));
    json_object_put(o);
    end();
}

UNIT(selections_take_what_they_name)
{
    begin();
    json_object *names = json(LOOK_LABELS, ""), *o;
    ck_assert_uint_gt(length(names), 0);
    json_object_put(names);
    names = json(LOOK_LABELS, "name=thread_name");
    ck_assert_uint_gt(length(names), 1);
    uint64_t sum = 0;
    for (size_t i = 0; i < length(names); i++) {
        char query[256];
        snprintf(query, sizeof query, "query={thread_name%%3D\"%s\"}",
                 json_object_get_string(json_object_array_get_idx(names, i)));
        o = json(LOOK_FLAME, query);
        const uint64_t total = at(member(member(o, "node"), "total"), 0);
        ck_assert_uint_gt(total, 0);
        sum += total;
        json_object_put(o);
    }
    json_object_put(names);
    o = json(LOOK_FLAME, "query={thread_name=\"\"}");
    ck_assert_uint_eq(sum + at(member(member(o, "node"), "total"), 0), pushed);
    json_object_put(o);
    o = json(LOOK_FLAME, "query={thread_name=~\".*\",no_such!=\"x\"}");
    ck_assert_uint_eq(at(member(member(o, "node"), "total"), 0), pushed);
    json_object_put(o);
    o = json(LOOK_FLAME, "query={no_such=\"x\"}");
    ck_assert_uint_eq(at(member(member(o, "node"), "total"), 0), 0);
    json_object_put(o);
    o = json(LOOK_FLAME, "filter=futexsleep");
    const uint64_t filtered = at(member(member(o, "node"), "total"), 0);
    ck_assert(filtered > 0 && filtered < pushed);
    json_object_put(o);
    end();
}

static const char *name_of(json_object *o, size_t node)
{
    const uint64_t frame = at(member(member(o, "node"), "frame"), node);
    return json_object_get_string(
        json_object_array_get_idx(member(o, "strings"), at(member(member(o, "frame"), "name"), frame)));
}

#define DEPTH_MAX 8u

/* What all nodes have together whose path has these names. */
static uint64_t total_under(json_object *o, const char *const *names, size_t n)
{
    json_object *parent = member(member(o, "node"), "parent"), *total = member(member(o, "node"), "total");
    uint64_t sum = 0, *met = calloc(length(parent), sizeof *met);
    ck_assert_ptr_nonnull(met);
    for (size_t i = 1; i < length(parent); i++) {
        const uint64_t before = met[at(parent, i)];
        met[i] = before < n && strcmp(names[before], name_of(o, i)) == 0 ? before + 1 : n + 1;
        sum += met[i] == n ? at(total, i) : 0;
    }
    free(met);
    return sum;
}

/* Each sample of the captures is of one period. */
static void check_samples(json_object *o, uint64_t total)
{
    const uint64_t samples = total / (uint64_t)view.profile.period[0];
    ck_assert_uint_eq(json_object_get_uint64(member(o, "seen")), samples);
    ck_assert_uint_eq(json_object_get_uint64(member(o, "kept")), samples);
    ck_assert(json_object_get_double(member(o, "p")) == 1);
}

UNIT(below_a_root_is_what_was_left_out)
{
    begin();
    json_object *all = json(LOOK_FLAME, "nodes=65536"), *o = json(LOOK_FLAME, "nodes=8"), *below;
    json_object *node = member(o, "node");
    for (size_t i = 1; i < length(member(node, "parent")); i++) {
        const char *names[DEPTH_MAX];
        char query[4096];
        size_t n = 0, used = (size_t)snprintf(query, sizeof query, "nodes=65536");
        for (size_t k = i; k > 0; k = at(member(node, "parent"), k))
            n++;
        for (size_t k = i, to = n; k > 0; k = at(member(node, "parent"), k))
            names[--to] = name_of(o, k);
        for (size_t k = 0; k < n; k++) {
            used += (size_t)snprintf(query + used, sizeof query - used, "&root=");
            for (const char *c = names[k]; *c; c++)
                used += (size_t)snprintf(query + used, sizeof query - used, "%%%02X", (unsigned char)*c);
        }
        below = json(LOOK_FLAME, query);
        const uint64_t total =
            check_nodes(member(below, "node"), length(member(member(below, "frame"), "name")));
        ck_assert_uint_eq(total, total_under(all, names, n));
        ck_assert_uint_gt(total, 0);
        ck_assert_uint_eq(total, total_under(below, names, n));
        check_samples(below, total); /* theirs, not those of the whole selection */
        ck_assert(at(member(node, "more"), i) == 0 ||
                  length(member(member(below, "node"), "parent")) > n + 1);
        json_object_put(below);
    }
    json_object_put(all);
    json_object_put(o);
    o = json(LOOK_FLAME, "root=nobody.calls.me");
    ck_assert_uint_eq(at(member(member(o, "node"), "total"), 0), 0);
    check_samples(o, 0);
    json_object_put(o);
    o = json(LOOK_TOP, "filter=a");
    ck_assert_uint_lt(json_object_get_uint64(member(o, "total")), pushed);
    check_samples(o, json_object_get_uint64(member(o, "total")));
    json_object_put(o);
    end();
}

UNIT(what_is_wrong_is_said)
{
    static const struct {
        enum look_endpoint endpoint;
        const char *query;
    } bad[] = {
        {LOOK_FLAME, "nodes=0"},
        {LOOK_RULES, "metric.mode=kernel"},
        {LOOK_FLAME, "nodes=65537"},
        {LOOK_FLAME, "from=yesterday"},
        {LOOK_FLAME, "from=now&to=1"},
        {LOOK_FLAME, "query={a}"},
        {LOOK_FLAME, "query={a=b}"},
        {LOOK_FLAME, "query={a=\"b\""},
        {LOOK_FLAME, "query={a=\"b"},
        {LOOK_FLAME, "query={a=~\"(\"}"},
        {LOOK_FLAME, "query={}x"},
        {LOOK_FLAME, "query=x"},
        {LOOK_FLAME, "query=%zz"},
        {LOOK_SANDWICH, ""},
        {LOOK_TOP, "by=x"},
        {LOOK_TOP, "sort=totals"},
        {LOOK_FLAME, "lines=yes"},
        {LOOK_TOP, "limit=1001"},
        {LOOK_SERIES, "group=nothing"},
        {LOOK_SERIES, "limit=21"},
        {LOOK_SERIES, "step=0"},
        {LOOK_SERIES, "step=1e300"},
        {LOOK_SERIES, "step=1000000000001"},
        {LOOK_SERIES, "step=18446744073708"}, /* all but 2^64 ns, which whole slices would pass */
        {LOOK_DIFF, "a.query={"},
        {LOOK_FLAME, "from=2026-01-01"},
        {LOOK_FLAME, "trace_id=0102"},
        {LOOK_FLAME, "trace_id=0102030405060708090a0b0c0d0e0f1x"},
        {LOOK_FLAME, "metric=profile.cpu.time"}, /* there are no rules here */
        {LOOK_RULES, ""},
    };
    begin();
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        ck_assert_msg(ask(bad[i].endpoint, bad[i].query) == 400, "%s", bad[i].query);
        ck_assert(bytes_starts(buffer_bytes(&answer.body), "{\"error\":\""));
    }
    end();
}

UNIT(an_empty_store_answers)
{
    const struct look_store_options options = {1u << 20, NSEC_PER_SEC, 1};
    store = unit_made(look_store_new(&options, NULL));
    for (uint32_t i = 0; i < LOOK_N_ENDPOINTS; i++)
        ck_assert_uint_eq(ask((enum look_endpoint)i, "function=x"), i == LOOK_RULES ? 400 : 200);
    look_store_free(store);
    buffer_release(&answer.body);
}

static int64_t number(json_object *o, const char *name)
{
    return json_object_get_int64(json_object_object_get(o, name));
}

static const char *text(json_object *o, const char *name)
{
    return json_object_get_string(json_object_object_get(o, name));
}

static json_object *nth(json_object *o, const char *name, size_t i)
{
    return json_object_array_get_idx(json_object_object_get(o, name), i);
}

UNIT(what_rules_count_is_told_with_its_reason_and_asked_for_by_its_name)
{
    static const char source[] =
        "rules 1\npack p\ncounter all.time { on cpu }\ncounter gc.time {\n  on cpu\n"
        "  where any frame is \"runtime.gcBgMarkWorker\"\n  label where = type of leaf\n}\n";
    struct error e = {""};
    begin();
    struct rule_set *set = compile_text(BYTES_LIT(source));
    struct rules_program *program = unit_made(rules_program_new(set, &e));
    store->rules = (struct look_rules){set, program};
    json_object *whole = json(LOOK_RULES, ""), *all = nth(whole, "rows", 0),
                *flame = json(LOOK_FLAME, "metric=all.time");
    ck_assert_str_eq(text(all, "metric"), "all.time");
    ck_assert_int_eq(number(all, "value"), number(whole, "total"));
    ck_assert_int_eq(number(whole, "total"), (int64_t)pushed);
    ck_assert_int_eq(json_object_get_int64(nth(json_object_object_get(flame, "node"), "total", 0)),
                     (int64_t)pushed);
    json_object *gc = nth(whole, "rows", 1), *why = nth(gc, "because", 0);
    ck_assert_str_eq(text(gc, "metric"), "gc.time");
    ck_assert_str_eq(text(why, "file"), "t.rules");
    ck_assert_int_eq(number(why, "line"), 6);
    ck_assert_str_eq(text(why, "is"), "runtime.gcBgMarkWorker");
    ck_assert_str_eq(json_object_get_string(nth(gc, "stack", (size_t)number(why, "frame"))),
                     "runtime.gcBgMarkWorker");
    const char *type = text(json_object_object_get(gc, "labels"), "where");
    char query[96];
    snprintf(query, sizeof query, "nodes=65536&metric=gc.time&metric.where=%s", type);
    json_object *of_gc = json(LOOK_FLAME, query), *node = json_object_object_get(of_gc, "node");
    ck_assert_int_eq(json_object_get_int64(nth(node, "total", 0)), number(gc, "value"));
    ck_assert_int_lt(number(gc, "value"), (int64_t)pushed);
    /* What a rule does not take is not there, and a label that no series has leaves nothing. */
    json_object *nothing = json(LOOK_FLAME, "metric=gc.time&metric.where=x");
    ck_assert_int_eq(json_object_get_int64(nth(json_object_object_get(nothing, "node"), "total", 0)), 0);
    ck_assert_uint_eq(ask(LOOK_FLAME, "metric=gc"), 400);
    ck_assert_ptr_nonnull(strstr((char *)answer.body.p, "none of this name"));
    json_object_put(whole);
    json_object_put(flame);
    json_object_put(of_gc);
    json_object_put(nothing);
    store->rules = (struct look_rules){0};
    rules_program_free(program);
    rules_set_free(set);
    end();
}

/* All of a request's samples say that they are of the trace that stands in its body there. */
static void push_linked(size_t at_byte)
{
    struct error e = {""};
    size_t n;
    autofree unsigned char *body = unit_data(captures[0], &n);
    ck_assert_int_eq(profiles_decode(&view, bytes_of(body, n), &profiles_limits_default, &e), 0);
    for (uint32_t i = 0; i < view.profile.n; i++)
        view.profile.time_unix_nano[i] = NOW - LOOK_SLICE_NS;
    view.link.trace_at[0] = at_byte;
    view.link.span_at[0] = at_byte + 16;
    look_tap_push(tap, &view, NOW);
    look_store_add(store, look_tap_take(tap), NOW);
}

UNIT(a_trace_has_its_stacks_and_a_stack_its_traces)
{
    begin();
    push_linked(16);
    push_linked(64);
    json_object *all = json(LOOK_EXAMPLES, "limit=1000");
    const size_t n = json_object_array_length(all);
    ck_assert_uint_gt(n, 300); /* of two seconds, 256 each at most */
    ck_assert_uint_le(n, 2 * LOOK_BATCH_EXAMPLES);
    json_object *one = json_object_array_get_idx(all, 0);
    ck_assert_uint_eq(strlen(text(one, "trace_id")), 32);
    ck_assert_uint_eq(strlen(text(one, "span_id")), 16);
    ck_assert_int_eq(number(one, "at"),
                     (int64_t)((NOW - LOOK_SLICE_NS) / LOOK_SLICE_NS * (LOOK_SLICE_NS / NSEC_PER_MSEC)));
    int64_t sum = 0;
    for (size_t i = 0; i < n; i++)
        if (strcmp(text(json_object_array_get_idx(all, i), "trace_id"), text(one, "trace_id")) == 0)
            sum += number(json_object_array_get_idx(all, i), "value");
    char query[96];
    snprintf(query, sizeof query, "trace_id=%s", text(one, "trace_id"));
    json_object *flame = json(LOOK_FLAME, query);
    ck_assert_int_eq(json_object_get_int64(nth(json_object_object_get(flame, "node"), "total", 0)), sum);
    const char *root = json_object_get_string(nth(one, "stack", 0));
    snprintf(query, sizeof query, "limit=1000&root=%s", root);
    json_object *below = json(LOOK_EXAMPLES, query);
    ck_assert_uint_gt(json_object_array_length(below), 0);
    for (size_t i = 0; i < json_object_array_length(below); i++)
        ck_assert_str_eq(json_object_get_string(nth(json_object_array_get_idx(below, i), "stack", 0)), root);
    json_object *none = json(LOOK_EXAMPLES, "trace_id=ffffffffffffffffffffffffffffffff");
    ck_assert_uint_eq(json_object_array_length(none), 0);
    json_object_put(all);
    json_object_put(flame);
    json_object_put(below);
    json_object_put(none);
    /* However many come, so many are kept: the last ones, and some of all before. */
    for (uint32_t i = 0; i < 60; i++)
        push_linked(16 + i);
    const struct look_epoch *e = store->epochs[store->n_epochs - 1];
    ck_assert_uint_eq(e->examples.n, LOOK_EXAMPLES_EACH);
    ck_assert_uint_eq(e->old_examples.n, LOOK_EXAMPLES_EACH);
    ck_assert_uint_gt(e->n_examples, 2 * LOOK_EXAMPLES_EACH);
    end();
}

UNIT(moments_are_read)
{
    static const struct {
        const char *text;
        uint64_t ns;
    } good[] = {{"now", NOW},
                {"now-15m", NOW - 900 * (uint64_t)NSEC_PER_SEC},
                {"now-2d", NOW - 172800 * (uint64_t)NSEC_PER_SEC},
                {"1795338000000", NOW},
                {"2026-11-22T09:00:00Z", 1795338000ull * NSEC_PER_SEC},
                {"2026-11-22T10:00:00.5+01:00", 1795338000ull * NSEC_PER_SEC + NSEC_PER_SEC / 2}};
    for (size_t i = 0; i < ARRAY_LEN(good); i++) {
        uint64_t ns = 0;
        ck_assert_msg(look_moment(bytes_str(good[i].text), NOW, &ns) == 0, "%s", good[i].text);
        ck_assert_msg(ns == good[i].ns, "%s: %llu", good[i].text, (unsigned long long)ns);
    }
}

/* A day is told by the coarse level, and says the same. */
UNIT(a_long_time_is_told_by_services)
{
    begin();
    look_store_tick(store, NOW + 3600 * (uint64_t)NSEC_PER_SEC, 1);
    json_object *o = json(LOOK_FLAME, "from=now-12h");
    ck_assert_str_eq(json_object_get_string(member(member(o, "window"), "level")), "coarse");
    ck_assert_uint_eq(at(member(member(o, "node"), "total"), 0), pushed);
    json_object_put(o);
    o = json(LOOK_FLAME, "from=now-12h&query={host_name=\"\"}");
    ck_assert_str_eq(json_object_get_string(member(member(o, "window"), "level")), "fine");
    json_object_put(o);
    end();
}

UNIT(what_has_no_stack_is_said)
{
    begin();
    json_object *o = json(LOOK_FLAME, "");
    ck_assert_int_eq(json_object_get_int64(member(o, "not_kept")), 0);
    json_object_put(o);
    end();
    begin_with(1); /* nothing is thinned yet: what comes when there is no room has no stack */
    for (enum look_endpoint endpoint = LOOK_FLAME; endpoint <= LOOK_TOP; endpoint++) {
        if (endpoint != LOOK_FLAME && endpoint != LOOK_TOP)
            continue;
        o = json(endpoint, "");
        const int64_t without = json_object_get_int64(member(o, "not_kept"));
        ck_assert(without > 0 && without <= (int64_t)pushed);
        json_object_put(o);
        char line[64];
        snprintf(line, sizeof line, "[not kept] %lld\n", (long long)without);
        ck_assert_uint_eq(ask(LOOK_FOLDED, ""), 200);
        ck_assert_ptr_nonnull(memmem(answer.body.p, answer.body.n, line, strlen(line)));
    }
    end();
}

/* ---- Pyroscope's calls, as JSON, by which both what is asked and what is answered is tried
 * ------------------ */

static json_object *call(enum look_method method, const char *body, uint32_t status)
{
    buffer_release(&answer.body);
    ck_assert_int_eq(look_query(store, method, true, bytes_str(body), NOW, 0, &answer), 0);
    ck_assert_int_eq(buffer_add(&answer.body, "", 1), 0);
    ck_assert_msg(answer.status == status, "%u: %s", answer.status, (char *)answer.body.p);
    json_object *o = json_tokener_parse((char *)answer.body.p);
    ck_assert_msg(o != NULL, "%s", (char *)answer.body.p);
    return o;
}

#define CPU  "\"profileTypeID\":\"" LOOK_CPU_TYPE "\""
#define TIME "\"start\":\"1795337000000\",\"end\":\"1795338000000\""

/* The numbers of a level's bar i, n numbers a bar. */
static int64_t bar(json_object *levels, size_t level, size_t i, size_t n, size_t k)
{
    return json_object_get_int64(
        json_object_array_get_idx(member(json_object_array_get_idx(levels, level), "values"), i * n + k));
}

UNIT(bars_lie_in_their_parents_and_are_what_was_pushed)
{
    begin();
    json_object *o = call(LOOK_CALL_SELECT_MERGE_STACKTRACES, "{" CPU "," TIME ",\"maxNodes\":60}", 200);
    json_object *graph = member(o, "flamegraph"), *levels = member(graph, "levels"),
                *names = member(graph, "names");
    ck_assert_int_eq(json_object_get_int64(member(graph, "total")), (int64_t)pushed);
    ck_assert_str_eq(json_object_get_string(json_object_array_get_idx(names, 0)), "total");
    int64_t self = bar(levels, 0, 0, 4, 2);
    for (size_t l = 1; l < json_object_array_length(levels); l++) {
        const size_t n = json_object_array_length(member(json_object_array_get_idx(levels, l), "values")) / 4,
                     above = json_object_array_length(
                                 member(json_object_array_get_idx(levels, l - 1), "values")) /
                             4;
        int64_t at = 0, parent_at = bar(levels, l - 1, 0, 4, 0);
        for (size_t i = 0, parent = 0; i < n; i++) {
            at += bar(levels, l, i, 4, 0);
            while (at >= parent_at + bar(levels, l - 1, parent, 4, 1)) {
                parent_at += bar(levels, l - 1, parent, 4, 1);
                ck_assert_uint_lt(++parent, above);
                parent_at += bar(levels, l - 1, parent, 4, 0);
            }
            ck_assert_int_ge(at, parent_at + bar(levels, l - 1, parent, 4, 2));
            at += bar(levels, l, i, 4, 1);
            ck_assert_int_le(at, parent_at + bar(levels, l - 1, parent, 4, 1));
            self += bar(levels, l, i, 4, 2);
        }
    }
    ck_assert_int_eq(self, (int64_t)pushed);
    json_object_put(o);
    end();
}

UNIT(points_are_shared_out_over_steps_and_add_up)
{
    static const char *const steps[] = {"2.5", "10", "15", "7"};
    begin();
    for (size_t i = 0; i < ARRAY_LEN(steps); i++) {
        char body[512];
        snprintf(body, sizeof body, "{" CPU "," TIME ",\"step\":%s,\"limit\":\"1\"}", steps[i]);
        json_object *o = call(LOOK_CALL_SELECT_SERIES, body, 200), *series = member(o, "series");
        ck_assert_uint_eq(json_object_array_length(series), 1);
        json_object *points = member(json_object_array_get_idx(series, 0), "points");
        double sum = 0;
        for (size_t k = 0; k < json_object_array_length(points); k++) {
            json_object *point = json_object_array_get_idx(points, k);
            sum += json_object_get_double(member(point, "value"));
            const double at = (double)json_object_get_int64(member(point, "timestamp")) - 1795337000000.;
            ck_assert_double_eq(at / (atof(steps[i]) * 1000),
                                (double)(int64_t)(at / (atof(steps[i]) * 1000)));
        }
        /* the last step may end before the last slice does */
        ck_assert_double_le(sum, (double)pushed * 1.000001);
        ck_assert_double_ge(sum, (double)pushed * (i < 2 ? .999999 : .5));
        json_object_put(o);
    }
    json_object_put(
        call(LOOK_CALL_SELECT_SERIES, "{" CPU ",\"start\":1,\"end\":\"4102444800000\",\"step\":15}", 200));
    end();
}

UNIT(stacks_of_a_call_site_begin_there)
{
    begin();
    json_object *o =
        call(LOOK_CALL_SELECT_MERGE_STACKTRACES,
             "{" CPU "," TIME ",\"stackTraceSelector\":{\"callSite\":[{\"name\":\"runtime.goexit\"}]}}", 200);
    json_object *graph = member(o, "flamegraph"), *levels = member(graph, "levels");
    const int64_t total = json_object_get_int64(member(graph, "total"));
    ck_assert(total > 0 && total < (int64_t)pushed);
    ck_assert_int_eq(bar(levels, 1, 0, 4, 1), total);
    ck_assert_str_eq(json_object_get_string(json_object_array_get_idx(member(graph, "names"), 2)),
                     "runtime.goexit");
    json_object_put(o);
    end();
}

UNIT(what_a_call_asks_wrongly_is_said_with_its_code)
{
    static const struct {
        enum look_method method;
        const char *body;
        uint32_t status;
        const char *code;
    } wrong[] = {
        {LOOK_CALL_SELECT_MERGE_STACKTRACES, "{\"profileTypeID\":\"cpu\"}", 400, "invalid_argument"},
        {LOOK_CALL_SELECT_MERGE_STACKTRACES, "{" CPU ",\"labelSelector\":\"{a\"}", 400, "invalid_argument"},
        {LOOK_CALL_SELECT_MERGE_STACKTRACES, "{" CPU ",\"start\":5,\"end\":1}", 400, "invalid_argument"},
        {LOOK_CALL_SELECT_MERGE_STACKTRACES, "{" CPU ",\"format\":\"PROFILE_FORMAT_TREE\"}", 501,
         "unimplemented"},
        {LOOK_CALL_SELECT_MERGE_STACKTRACES, "{" CPU ",\"spanSelector\":[\"1\"]}", 501, "unimplemented"},
        {LOOK_CALL_SELECT_MERGE_STACKTRACES, "{" CPU, 400, "invalid_argument"},
        {LOOK_CALL_SERIES, "{\"matchers\":[\"{a=\\\"1\\\"}\",\"{b=\\\"1\\\"}\"]}", 501, "unimplemented"},
        {LOOK_CALL_SELECT_SERIES, "{" CPU "," TIME "}", 400, "invalid_argument"},
        {LOOK_CALL_SELECT_SERIES, "{" CPU "," TIME ",\"step\":0.001}", 400, "invalid_argument"},
        {LOOK_CALL_SELECT_SERIES, "{" CPU "," TIME ",\"step\":1e300}", 400, "invalid_argument"},
        {LOOK_CALL_DIFF, "{\"left\":{" CPU "}}", 400, "invalid_argument"},
        {LOOK_CALL_SELECT_MERGE_SPAN_PROFILE, "{" CPU "}", 501, "unimplemented"},
        {LOOK_CALL_ANALYZE_QUERY, "{}", 501, "unimplemented"},
    };
    begin();
    for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
        json_object *o = call(wrong[i].method, wrong[i].body, wrong[i].status);
        ck_assert_str_eq(json_object_get_string(member(o, "code")), wrong[i].code);
        ck_assert_uint_gt(strlen(json_object_get_string(member(o, "message"))), 5);
        json_object_put(o);
    }
    buffer_release(&answer.body);
    ck_assert_int_eq(
        look_query(store, LOOK_CALL_LABEL_NAMES, false, BYTES_LIT("\x0a\x05{}"), NOW, 0, &answer), 0);
    ck_assert_uint_eq(answer.status, 400);
    buffer_release(&answer.body);
    ck_assert_int_eq(look_query(store, LOOK_CALL_DIFF, true,
                                BYTES_LIT("{\"left\":{" CPU "},\"right\":{" CPU "}}"), NOW, 1, &answer),
                     0);
    ck_assert_uint_eq(answer.status, 504);
    end();
}
