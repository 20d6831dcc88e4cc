/* SPDX-License-Identifier: Apache-2.0 */
/* needs: rules rules/prove */
/* Conditions about a frame that depend on the sample: what they mean is what the table's column says of that
 * frame, which is found another way (the residual, not the walk). */
#include "proto/base/buffer.h"
#include "proto/base/rng.h"
#include "rules/prove/run_tests.h"
#include "tests/lib/sweep.h"
#include "tests/unit/rules/rules_helper.h"

/* Without the shipped packs: they would be most of the work. */
static struct compiled compile_alone(const char *text)
{
    struct compiled c;
    char *whole = NULL;
    ck_assert_int_ge(asprintf(&whole, "rules 1\npack x\n%s\n", text), 0);
    c.set = rules_compile(&(struct rules_input){"x.rules", bytes_str(whole), false}, 1, &c.found);
    free(whole);
    return c;
}

/* Compiles a text and runs its tests: what fails is said. */
static void passes(const char *text, uint32_t tests)
{
    struct compiled c = compile_alone(text);
    for (uint32_t i = 0; i < c.found.n && !c.set; i++)
        fputs(c.found.items[i].text, stderr);
    ck_assert_ptr_nonnull(c.set);
    struct rules_diagnostics d;
    uint32_t run;
    ck_assert_int_eq(rules_run_tests(c.set, &d, &run), 0);
    for (uint32_t i = 0; i < d.n; i++)
        fputs(d.items[i].text, stderr);
    ck_assert_msg(d.n_errors == 0 && run >= tests, "of:\n%s", text);
    rules_diagnostics_release(&d);
    compiled_free(&c);
}

#define NAMES                                                                       \
    "sample shop = resource[\"service.name\"] == \"shop\"\n"                        \
    "table names (name, who) {\n"                                                   \
    "    \"a*\" when linked => \"A\", \"x\"\n"                                      \
    "    \"a*\" when shop   => \"B\", resource[\"service.name\"] ?? function\n"     \
    "    go when linked   => \"G\", -\n"                                            \
    "    \"b*\"             => \"b\", function\n"                                   \
    "    else             => \"other\", resource[\"service.name\"] ?? \"nobody\"\n" \
    "}\n"

UNIT(in_every_place_that_asks_a_frame)
{
    passes(
        NAMES
        "frame  linked_a = names.name == \"A\"\n"
        "frame  mine     = names.who ~ \"sho*\" | \"bx\"\n"
        "region tail     = frames after linked_a\n"
        "table  t (v) over tail { \"z\" => \"z\"  else => \"-\" }\n"
        "table  u (v) over frames nearest leaf {\n"
        "    names.name == \"G\" => \"g:\" + type   mine => function\n"
        "}\n"
        "counter d.any   { on cpu where any frame is linked_a }\n"
        "counter d.first { on cpu label f = function of first (names.name == \"b\") }\n"
        "counter d.mine  { on cpu where any frame is mine label n = function of last mine ?? \"none\" }\n"
        "counter d.calls { on cpu where linked_a calls mine }\n"
        "counter d.tail  { on cpu where any frame in tail is \"z\" label v = t.v }\n"
        "counter d.u     { on cpu label v = u.v ?? \"?\" }\n"
        "counter d.each  { on cpu each frame is mine value one label f = function of frame }\n"
        "counter d.root  { on cpu where root is linked_a and leaf is not_b }\n"
        "frame  not_b    = not (names.name == \"b\")\n"
        "keep 10% where any frame is linked_a\n"
        "test \"linked\" {\n"
        "    stack cpython \"bx\" < cpython \"b1\" < native \"a1\" < native \"z\" linked\n"
        "    expect d.any  expect d.first { f = \"bx\" }  expect d.mine { n = \"bx\" }  expect d.calls\n"
        "    expect d.tail { v = \"z\" }  expect d.u { v = \"bx\" }  expect d.each 1 { f = \"bx\" }\n"
        "    expect kept 10%\n"
        "}\n"
        "test \"shop\" {\n"
        "    resource[\"service.name\"] = \"shop\"\n"
        "    stack go \"q\" < native \"a1\" < native \"z\"\n"
        "    expect d.first { }  expect d.mine { n = \"z\" }  expect d.u { v = \"q\" }\n"
        "    expect d.each 1 { f = \"q\" }  expect d.each 1 { f = \"a1\" }  expect d.each 1 { f = \"z\" }\n"
        "    expect that no frame is linked_a and every frame is mine\n"
        "    expect kept 0%\n"
        "}\n"
        "test \"linked, of the shop\" {\n"
        "    resource[\"service.name\"] = \"shop\"\n"
        "    stack go \"q\" < native \"a1\" linked\n"
        "    expect d.any  expect d.first { }  expect d.u { v = \"g:go\" }  expect d.root\n"
        "    expect that no frame is mine\n"
        "}\n",
        3);
}

/* A table whose rows ask one that depends on the sample depends on it too; and so does one whose cells do. */
UNIT(tables_that_ask_tables)
{
    passes("table t1 (v) { go when linked => \"yes\"  else => \"no\" }\n"
           "table t2 (v) { t1.v == \"yes\" => \"Y\"  else => \"N\" }\n"
           "table t3 (v) { go => t1.v + \"!\"  else => \"-\" }\n"
           "counter i.three { on cpu label v = t3.v of leaf }\n"
           "counter i.two   { on cpu where any frame is (t2.v ~ \"Y\") label v = t2.v of leaf }\n"
           "counter i.cell  { on cpu where any frame is (t3.v ~ \"yes*\") }\n"
           "test \"linked\" { stack go \"x\" linked\n"
           "    expect i.three { v = \"yes!\" }  expect i.two { v = \"Y\" }  expect i.cell }\n"
           "test \"not\" { stack go \"x\"  expect i.three { v = \"no!\" } }\n",
           2);
}

/* ---- whatever table, frame and sample ------------------------------------------------------ */

static const char *pick(struct rng *rng, const char *const *from, size_t n)
{
    return from[rng_next(rng) % n];
}

#define PICK(rng, ...) \
    pick(rng, (const char *const[]){__VA_ARGS__}, sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *))

static void put_table(struct rng *rng, struct buffer *out)
{
    uint32_t n = 1 + (uint32_t)(rng_next(rng) % 4);
    buffer_add_str(
        out,
        "sample x = resource[\"s\"] == \"x\"\ntable u (v) { \"a*\" when linked => \"A\"  else => function }\n"
        "table t (v) {\n");
    for (uint32_t i = 0; i < n; i++)
        buffer_printf(
            out, "    %s %s => %s\n",
            PICK(rng, "go", "native", "\"a*\"", "\"*1\"", "(not go)", "function == none", "\"\"",
                 "u.v == \"A\""),
            PICK(rng, "", "when linked", "when x", "when resource[\"s\"] == \"y\"",
                 "when sample[\"t\"] ~ \"q*\"", "when linked and not x", "when x or linked",
                 "when resource[\"s\"] != \"x\"", "when resource[\"s\"] == none", "when leaf is go"),
            PICK(rng, "\"A\"", "\"B\"", "-", "function", "resource[\"s\"]", "resource[\"s\"] ?? function",
                 "function ?? resource[\"s\"]", "\"A\" when linked ?? \"B\"", "function when x",
                 "(resource[\"s\"] ?? sample[\"t\"]) ?? type", "capture /a(.*)/ from function",
                 "(function when linked ?? \"A\") + \"1\"", "resource[\"s\"] + sample[\"t\"]", "u.v",
                 "u.v ?? type", "resource[\"s\"] when linked ?? \"B\" when x",
                 "capture /(x|y)/ from resource[\"s\"]"));
    if (rng_next(rng) % 2)
        buffer_printf(out, "    else => %s\n",
                      PICK(rng, "\"A\"", "resource[\"s\"] ?? \"none\"", "function", "u.v"));
    buffer_add_str(out, "}\n");
}

static void put_test(struct rng *rng, struct buffer *out, unsigned i)
{
    const char *condition = PICK(rng, "~ \"A\" | \"a*\"", "== \"A\"", "== none", "!= none", "!= \"x\"",
                                 "!~ \"*x*\"", "== \"\"", "~ /^(A|x)/", "!= \"\"", "~ none");
    buffer_printf(out, "frame f%u = t.v %s\ntest \"%u\" {\n", i, condition, i);
    const char *value = PICK(rng, "", "", "x", "y", "A");
    if (rng_next(rng) % 4 > 0)
        buffer_printf(out, "    resource[\"s\"] = \"%s\"\n", value);
    buffer_printf(out, "    stack %s%s%s\n",
                  PICK(rng, "go \"a1\"", "native \"b1\"", "go \"\"", "untyped \"a\"", "native"),
                  rng_next(rng) % 2 ? " linked" : "",
                  rng_next(rng) % 2 ? PICK(rng, " sample[\"t\"] = \"q1\"", " sample[\"t\"] = \"\"") : "");
    buffer_printf(
        out,
        "    expect that (leaf is f%u and t.v of leaf %s) or (not leaf is f%u and not t.v of leaf %s)\n"
        "    expect that (every frame is f%u and type of first f%u == type of leaf) or "
        "(no frame is f%u and type of last f%u == none)\n}\n",
        i, condition, i, condition, i, i, i, i);
}

/* A table may ask in more ways than there may be: then that is what is said, and nothing else. */
static bool is_within_bounds(const char *text)
{
    struct compiled c = compile_alone(text);
    bool good = c.set != NULL;
    for (uint32_t i = 0; i < c.found.n && !good; i++)
        ck_assert_msg(strncmp(c.found.items[i].text, "W", 1) == 0 ||
                          strncmp(c.found.items[i].text, "E127", 4) == 0,
                      "%s", c.found.items[i].text);
    compiled_free(&c);
    return good;
}

UNIT(a_condition_means_what_the_column_says)
{
    struct rng rng;
    unsigned asked = 0;
    rng_seed(&rng, 20);
    for (unsigned round = 0; round < 150; round++) {
        struct buffer text = BUFFER_INIT(0);
        put_table(&rng, &text);
        for (unsigned i = 0; i < 6; i++)
            put_test(&rng, &text, i);
        ck_assert_int_eq(buffer_add(&text, "", 1), 0);
        if (is_within_bounds((const char *)text.p)) {
            passes((const char *)text.p, 6);
            asked++;
        }
        buffer_release(&text);
    }
    ck_assert_uint_gt(asked, 120);
}

/* Rows for many values of one attribute exclude each other: they are as many ways as there are values. */
UNIT(values_of_one_attribute_are_no_combinations)
{
    struct buffer text = BUFFER_INIT(0);
    buffer_add_str(&text, "table t (v) {\n");
    for (unsigned i = 0; i < 60; i++)
        buffer_printf(&text, "    \"a*\" when resource[\"s\"] == \"s%u\" => \"%u\"\n", i, i);
    buffer_add_str(&text, "    else => \"-\"\n}\ncounter c.x { on cpu where any frame is (t.v == \"59\") }\n"
                          "test \"the last\" { resource[\"s\"] = \"s59\" stack go \"a\" expect c.x }\n"
                          "test \"another\" { resource[\"s\"] = \"s60\" stack go \"a\" expect nothing }\n");
    ck_assert_int_eq(buffer_add(&text, "", 1), 0);
    passes((const char *)text.p, 2);
    buffer_release(&text);
}

/* Written out as a whole, or nothing: never called wrong, never with fewer conditions than there are. */
OOM_SWEEP_HOW(written_out_as_a_whole_or_not_at_all, SWEEP_ONCE | SWEEP_FOR_GOOD)
{
    static const char text[] =
        "rules 1\npack x\n"
        "table who (n) { \"a*\" when linked => \"A\"  go => t.n + \"x\"  else => resource[\"x\"] ?? function }\n"
        "table t (n) { \"b*\" when resource[\"x\"] == \"1\" => \"B\"  else => (function when linked ?? \"b\") }\n"
        "frame dep = who.n ~ \"A*\"\nregion past = frames after dep\ntable over_past (v) over past { dep => \"1\" }\n"
        "counter own.five { on any value one where any frame in past is dep\n"
        "  label f = file of first dep in past label v = over_past.v }\n"
        "counter own.six { on any value one each frame in past is dep }\n";
    struct rules_diagnostics found;
    struct rule_set *set =
        rules_compile(&(struct rules_input){"x.rules", bytes_of(text, sizeof text - 1), false}, 1, &found);
    ck_assert_msg(found.n_errors == 0, "%s", found.n ? found.items[0].text : "");
    rules_diagnostics_release(&found);
    ck_assert(set || sweep_failures() > 0);
    if (set) {
        const struct rule_metric *five = metric_named(set, "own.five"), *six = metric_named(set, "own.six");
        /* resource x none, empty, or what meets the pattern; linked or not: as `who` and `t` ask together. */
        ck_assert_uint_eq(five->sources[0].where->n_kids, six->n_sources);
        ck_assert_uint_gt(six->n_sources, 4);
    }
    rules_set_free(set);
}

/* Definitions that use each other twice in a row of 20 are a million: refused in good time, and called what
 * it is. */
UNIT(what_would_take_too_long_is_refused)
{
    struct buffer text = BUFFER_INIT(0);
    buffer_add_str(&text, "rules 1\npack x\nsample s0 = linked\n");
    for (unsigned i = 1; i <= 20; i++)
        buffer_printf(&text, "sample s%u = s%u or not s%u\n", i, i - 1, i - 1);
    buffer_add_str(&text, "table t (v) { go when s20 => \"x\"  else => \"y\" }\n"
                          "counter c.x { on cpu where any frame is (t.v == \"x\") }\n");
    struct rules_diagnostics found;
    struct rule_set *set =
        rules_compile(&(struct rules_input){"x.rules", buffer_bytes(&text), false}, 1, &found);
    ck_assert_ptr_null(set);
    ck_assert_uint_eq(found.n_errors, 1);
    ck_assert_uint_gt(found.n, 0);
    ck_assert_msg(strncmp(found.items[0].text, "E127", 4) == 0, "%s", found.items[0].text);
    rules_diagnostics_release(&found);
    buffer_release(&text);
}
