/* SPDX-License-Identifier: Apache-2.0 */
/* needs: rules/prove rules/trigger */
/* Memory failing anywhere while policies, overrides and extensions are compiled, lowered, tested and
 * evaluated: nothing but a refusal comes of it. */
#include "rules/prove/coverage.h"
#include "rules/program/program.h"
#include "rules/prove/run_tests.h"
#include "rules/trigger/trigger.h"
#include "tests/lib/sweep.h"
#include "tests/unit/rules/rules_helper.h"

static const char base[] = "rules 1 pack base\n"
                           "table t (n) over frames { \"a*\" => \"a\" }\n"
                           "counter b.time { on cpu label n = t.n }\n";
static const char mine[] =
    "rules 1 pack mine\n"
    "override counter b.time { label n = none label m = type of leaf limit 3 largest }\n"
    "extend table base.t { /(abc|b.d)/ => \"mine\" }\n"
    "keep 1% keep 5 per minute by resource[\"a\"] where leaf is go drop where linked\n"
    "trigger g { when share of b.time { m ~ /g.*o/ } in b.time per resource[\"s\"] over 2s above 40%\n"
    "    do keep all lasting 5s cooldown 5s }\n"
    "test \"t\" { stack go \"abc\" expect b.time { m = \"go\" } expect kept 1% expect kept 5 per minute }\n";

static void ignore(void *context, const struct trigger_event *e) {}

static void use_triggers(const struct rule_set *set)
{
    struct error e;
    struct triggers *t = triggers_new(set, NULL, &e);
    ck_assert(t || sweep_has_failed());
    for (uint64_t second = 1; t && second < 5; second++) {
        const struct trigger_totals totals = {(double)second, (double)second, 100 * second};
        triggers_feed(t, 0, &BYTES_LIT("x"), second * 1000000000u, &totals);
        triggers_tick(t, second * 1000000000u, ignore, NULL);
    }
    triggers_free(t);
}

OOM_SWEEP_HOW(compiling_and_using_policies, SWEEP_ONCE | SWEEP_FOR_GOOD)
{
    const struct rules_input inputs[] = {{"base.rules", BYTES_LIT(base), false},
                                         {"mine.rules", BYTES_LIT(mine), false}};
    struct rules_diagnostics found, failures = {0};
    struct error e;
    uint32_t run;
    struct rule_set *set = rules_compile(inputs, 2, &found);
    ck_assert_uint_eq(found.n_errors, 0);
    ck_assert(set || sweep_has_failed());
    if (set) {
        rules_program_free(rules_program_new(set, &e));
        use_triggers(set);
        int r = rules_run_tests(set, &failures, &run);
        ck_assert(r < 0 || sweep_has_failed() || failures.n == 0);
        rules_diagnostics_release(&failures);
        r = rules_warn_untested(set, &found);
        ck_assert(r == 0 || sweep_has_failed());
    }
    rules_diagnostics_release(&found);
    rules_set_free(set);
}
