/* SPDX-License-Identifier: Apache-2.0 */
/* needs: rules rules/prove rules/trigger */
/*
 * Rule files through the whole front end: beside the shipped packs' definitions or alone, every outcome must
 * be a set or diagnostics, never both nothing, and nothing may leak. What compiles is lowered, and its tests
 * run.
 */
#include <string.h>

#include "rules/compile.h"
#include "rules/prove/coverage.h"
#include "rules/program/program.h"
#include "rules/prove/run_tests.h"
#include "rules/trigger/trigger.h"
#include "tests/fuzz/fuzz.h"

/* What a compiled set is for; tests of the shipped pack are left out. */
static void use(const struct rule_set *set)
{
    struct error e;
    cleanup(rules_diagnostics_release) struct rules_diagnostics found = {0};
    struct rule_set meant = *set;
    uint32_t run;
    rules_program_free(rules_program_new(set, &e));
    triggers_free(triggers_new(set, NULL, &e));
    while (meant.n_tests > 0 && set->files[meant.tests[0].place.file].builtin)
        meant.tests++, meant.n_tests--;
    if (meant.n_tests > 8)
        meant.n_tests = 8;
    if (rules_run_tests(&meant, &found, &run) < 0 || rules_warn_untested(&meant, &found) < 0)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct rules_input inputs[2];
    uint32_t n = 0;
    for (const struct embedded_file *f = rules_builtin; f->name; f++) {
        if (strcmp(f->name, "names.rules") == 0) /* what other packs use */
            inputs[n++] = (struct rules_input){f->name, bytes_of(f->data, f->size), true};
    }
    inputs[n++] = (struct rules_input){"fuzz.rules", bytes_of(data, len), false};
    struct rules_diagnostics found;
    struct rule_set *set = rules_compile(inputs, n, &found);
    if (!set == (found.n_errors == 0))
        abort();
    for (uint32_t i = 0; i < found.n; i++) {
        if (found.items[i].text[0] == '\0')
            abort();
    }
    rules_diagnostics_release(&found);
    if (set)
        use(set);
    rules_set_free(set);
    return 0;
}
