/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compiles files, and texts beside the shipped packs.
 */
#ifndef TESTS_UNIT_RULES_HELPER_H
#define TESTS_UNIT_RULES_HELPER_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rules/compile.h"
#include "rules/prove/run_tests.h"
#include "tests/lib/unit.h"

/* Files that must be right. */
static inline struct rule_set *compile_set(const struct rules_input *inputs, uint32_t n)
{
    struct rules_diagnostics found;
    struct rule_set *set = rules_compile(inputs, n, &found);
    for (uint32_t i = 0; i < found.n && !set; i++)
        fputs(found.items[i].text, stderr);
    rules_diagnostics_release(&found);
    return unit_made(set);
}

static inline struct rule_set *compile_text(struct bytes text)
{
    return compile_set(&(struct rules_input){"t.rules", text, false}, 1);
}

/* How many tests the set has, all of which pass. */
static inline uint32_t pass_tests(const struct rule_set *set)
{
    struct rules_diagnostics failed;
    uint32_t run;
    ck_assert_int_eq(rules_run_tests(set, &failed, &run), 0);
    for (uint32_t i = 0; i < failed.n; i++)
        fputs(failed.items[i].text, stderr);
    ck_assert_uint_eq(failed.n, 0);
    ck_assert_uint_eq(run, set->n_tests);
    rules_diagnostics_release(&failed);
    return run;
}

struct compiled {
    struct rule_set *set;
    struct rules_diagnostics found;
};

/* Up to four user files, NULL-terminated; named a.rules, b.rules … */
static inline struct compiled compile_texts(const char *const *texts, size_t n)
{
    static const char *const names[] = {"a.rules", "b.rules", "c.rules", "d.rules"};
    struct rules_input inputs[64];
    uint32_t k = 0;
    for (const struct embedded_file *f = rules_builtin; f->name; f++)
        inputs[k++] = (struct rules_input){f->name, bytes_of(f->data, f->size), true};
    for (size_t i = 0; i < n; i++)
        inputs[k++] = (struct rules_input){names[i], bytes_str(texts[i]), false};
    struct compiled c;
    c.set = rules_compile(inputs, k, &c.found);
    return c;
}

/* Without memory there is neither a set nor a word. */
static inline const struct rules_diagnostic *first_found(const struct compiled *c)
{
    ck_assert_uint_gt(c->found.n, 0);
    return &c->found.items[0];
}

static inline void compiled_free(struct compiled *c)
{
    rules_diagnostics_release(&c->found);
    c->set = rules_set_free(c->set);
}

/* One file `rules 1 pack x` + text that must be right. */
static inline struct compiled compile_good(const char *text)
{
    char *whole = NULL;
    ck_assert_int_ge(asprintf(&whole, "rules 1\npack x\n%s\n", text), 0);
    struct compiled c = compile_texts((const char *const[]){whole}, 1);
    free(whole);
    for (uint32_t i = 0; i < c.found.n && !c.set; i++)
        fputs(c.found.items[i].text, stderr);
    ck_assert_ptr_nonnull(c.set);
    return c;
}

static inline const struct rule_metric *metric_named(const struct rule_set *set, const char *name)
{
    for (uint32_t i = 0; i < set->n_metrics; i++) {
        if (bytes_is(set->metrics[i].name, name))
            return &set->metrics[i];
    }
    ck_abort_msg("no metric %s", name);
    return NULL;
}

#define ck_assert_bytes(b, s) ck_assert_msg(bytes_is(b, s), "%.*s is not %s", BYTES_FMT(b), s)

#endif
