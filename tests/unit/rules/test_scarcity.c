/* SPDX-License-Identifier: Apache-2.0 */
/* needs: rules/match */
/* Rules without memory: compiled as they should be, or not at all; never called wrong, never with less in
 * them than was written. */
#include "proto/base/macros.h"
#include "rules/match/match.h"
#include "rules/match/keep.h"
#include "rules/match/weigh.h"
#include "rules/program/lowered.h"
#include "rules/program/program.h"
#include "tests/lib/sweep.h"
#include "tests/unit/rules/rules_helper.h"

static const char own[] =
    "rules 1\npack own\nuse names (symbol, managed)\n"
    "param pattern mine = \"own_*\"\n"
    "frame ours = (function ~ mine) or (function ~ /^m[ae]in$/)\n"
    "region kpath = frames while kernel through \"sys_*\"\n"
    "table area (name, part) {\n  \"a*\" | /b+c/ => \"ab\", \"1\"\n  \"net_*\" => \"net\", \"2\"\n}\n"
    "counter own.one { describe \"d\" unit \"1\" on any value one where any frame is ours\n"
    "  label area = area.name of leaf ?? \"other\" label thread = sample[\"thread.name\"] }\n"
    "counter own.two { describe \"d\" unit \"1\" on \"cpu/*\" | \"samples/count\" value one\n"
    "  where \"a\" calls \"b\" }\n"
    "counter own.three { describe \"d\" unit \"1\" on cpu value one\n"
    "  each distinct frame is (type != none) label t = type of frame label p = symbol.package of frame }\n"
    "counter own.four { describe \"d\" unit \"s\" on \"samples/*\" where any frame in kpath is \"tcp_*\" }\n"
    "keep all where any frame is \"*panic*\" and linked\nkeep 10% of profiles on \"off*/*\"\n"
    "keep 60 per minute by resource[\"service.name\"]\ndrop where leaf is \"swapper/*\"\n";

static const struct rules_input files[] = {{"own.rules", {(const uint8_t *)own, sizeof own - 1}, false}};

/* Shipped packs that use every construct between them. Not all twenty: a sweep takes the time of a compile
 * times its allocations, which is that of all the text squared. */
static const char *const shipped[] = {"names.rules", "connector.rules", "endpoint.rules", "ffi.rules"};

static bool is_swept(const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(shipped); i++)
        if (strcmp(name, shipped[i]) == 0)
            return true;
    return false;
}

/* Those, then our own. */
static struct rule_set *compile(struct rules_diagnostics *found)
{
    struct rules_input inputs[ARRAY_LEN(shipped) + 1];
    uint32_t n = 0;
    for (const struct embedded_file *f = rules_builtin; f->name; f++)
        if (is_swept(f->name))
            inputs[n++] = (struct rules_input){f->name, bytes_of(f->data, f->size), true};
    ck_assert_uint_eq(n, ARRAY_LEN(shipped));
    inputs[n++] = files[0];
    return rules_compile(inputs, n, found);
}

OOM_SWEEP_HOW(a_set_is_whole_or_not_at_all, SWEEP_ONCE | SWEEP_FOR_GOOD)
{
    static uint32_t n_metrics, n_keeps; /* of the set that lacked nothing */
    struct rules_diagnostics found;
    if (n_metrics == 0) {
        sweep_pause();
        struct rule_set *whole = unit_made(compile(&found));
        n_metrics = whole->n_metrics;
        n_keeps = whole->n_keeps;
        rules_set_free(whole);
        rules_diagnostics_release(&found);
        sweep_resume();
    }
    struct rule_set *set = compile(&found);
    ck_assert_msg(found.n_errors == 0, "%s", found.n ? found.items[0].text : "");
    rules_diagnostics_release(&found);
    ck_assert(set || sweep_failures() > 0);
    if (set) {
        ck_assert_uint_eq(set->n_metrics, n_metrics);
        ck_assert_uint_eq(set->n_keeps, n_keeps);
    }
    rules_set_free(set);
}

/* ---- a program, and what it says of profiles ---- */

static struct rule_set *whole_set(void)
{
    static struct rule_set *set;
    struct rules_diagnostics found;
    if (!set) {
        sweep_pause();
        set = unit_made(compile(&found));
        rules_diagnostics_release(&found);
        sweep_resume();
    }
    return set;
}

#define MASK_WORDS 4u

struct figures {
    uint32_t metrics, sources, attrs, registers, fields, keeps;
    uint64_t masks[3 * MASK_WORDS]; /* which sources three profiles suit */
};

static struct figures figures_of(const struct rules_program *p)
{
    const struct rules_profile group[3] = {{BYTES_LIT("samples"), BYTES_LIT("count"),
                                            BYTES_LIT("nanoseconds"), 10000000},
                                           {BYTES_LIT("cpu"), BYTES_LIT("nanoseconds"), {0}, 0},
                                           {BYTES_LIT("off_cpu"), BYTES_LIT("nanoseconds"), {0}, 0}};
    struct figures f = {rules_program_metrics(p),
                        rules_program_sources(p),
                        rules_program_attrs(p),
                        rules_program_registers(p),
                        p->key_fields,
                        rules_program_keeps(p),
                        {0}};
    struct rules_matcher *m = unit_made(rules_matcher_new(p, NULL));
    ck_assert_uint_le(rules_program_mask_words(p), MASK_WORDS);
    rules_matcher_begin(m);
    rules_matcher_choose(m, group, 3, f.masks);
    ck_assert_int_eq(rules_matcher_error(m), 0);
    rules_matcher_free(m);
    return f;
}

OOM_SWEEP_HOW(a_program_is_whole_or_not_at_all, SWEEP_ONCE | SWEEP_FOR_GOOD)
{
    static struct figures whole;
    const struct rule_set *set = whole_set();
    if (whole.metrics == 0) {
        sweep_pause();
        struct rules_program *p = unit_made(rules_program_new(set, NULL));
        whole = figures_of(p);
        rules_program_free(p);
        sweep_resume();
    }
    struct error e = {""};
    struct rules_program *p = rules_program_new(set, &e);
    sweep_over();
    if (p) {
        struct figures f = figures_of(p);
        ck_assert_mem_eq(&f, &whole, sizeof f);
    } else {
        ck_assert_uint_gt(sweep_failures(), 0);
        ck_assert_str_eq(e.text, "out of memory");
    }
    rules_program_free(p);
}
