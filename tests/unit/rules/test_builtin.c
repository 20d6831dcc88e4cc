/* SPDX-License-Identifier: Apache-2.0 */
/* needs: rules/prove */
/* What every shipped pack owes its reader: no warning, words for each metric, tests that count it, and where
 * its names were tried. */
#include <stdio.h>

#include "rules/prove/run_tests.h"
#include "tests/unit/rules/rules_helper.h"

#define TESTS_MIN 3 /* of each metric */

static struct compiled shipped;

static void compile_shipped(void)
{
    shipped = compile_texts(NULL, 0);
    for (uint32_t i = 0; i < shipped.found.n; i++)
        fputs(shipped.found.items[i].text, stderr);
    ck_assert_ptr_nonnull(shipped.set);
}

/* Names, without metrics, and the connector's copy, whose proof is recorded answers, have rules of their own.
 */
static bool is_ours(struct bytes pack)
{
    return !bytes_is(pack, "connector") && !bytes_is(pack, "names");
}

UNIT(no_pack_has_a_warning)
{
    compile_shipped();
    ck_assert_uint_eq(shipped.found.n, 0);
    compiled_free(&shipped);
}

UNIT(every_metric_has_words)
{
    compile_shipped();
    for (uint32_t i = 0; i < shipped.set->n_metrics; i++) {
        const struct rule_metric *m = &shipped.set->metrics[i];
        ck_assert_msg(m->describe.n > 0, "%.*s has no description", BYTES_FMT(m->name));
        ck_assert_msg(m->unit.n > 0, "%.*s has no unit", BYTES_FMT(m->name));
    }
    compiled_free(&shipped);
}

static uint32_t tests_of(const struct rule_set *set, const struct rule_metric *metric)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < set->n_tests; i++) {
        bool counts = false;
        for (uint32_t k = 0; k < set->tests[i].n_expects; k++)
            counts |= bytes_eq(set->tests[i].expects[k].metric, metric->name);
        n += counts;
    }
    return n;
}

UNIT(every_metric_is_counted_by_three_tests)
{
    compile_shipped();
    for (uint32_t i = 0; i < shipped.set->n_metrics; i++) {
        const struct rule_metric *m = &shipped.set->metrics[i];
        uint32_t n = is_ours(m->pack) ? tests_of(shipped.set, m) : TESTS_MIN;
        ck_assert_msg(n >= TESTS_MIN, "%.*s is counted by %u tests only", BYTES_FMT(m->name), n);
    }
    compiled_free(&shipped);
}

UNIT(every_pack_says_where_it_was_tried)
{
    compile_shipped();
    for (uint32_t i = 0; i < shipped.set->n_files; i++) {
        const struct rule_file *f = &shipped.set->files[i];
        ck_assert_msg(!is_ours(f->pack) || strstr((const char *)f->text.p, "\n# Tried "),
                      "%.*s does not say where it was tried", BYTES_FMT(f->name));
    }
    compiled_free(&shipped);
}
