/* needs: rules */
/*
 * Rule files through the whole front end: beside the shipped packs' definitions or alone, every outcome must
 * be a set or diagnostics, never both nothing, and nothing may leak.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "rules/compile.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

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
    rules_set_free(set);
    return 0;
}
