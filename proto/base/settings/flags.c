/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/base/settings/flags.h"

#include <errno.h>
#include <string.h>

int settings_flags(const struct settings_section *s, int argc, char **argv, void *base, struct arena *arena,
                   int *ret_rest, struct error *e)
{
    int i = 1;
    for (; i < argc && argv[i][0] == '-' && argv[i][1] != 0; i++) {
        if (strcmp(argv[i], "--") == 0) {
            i++;
            break;
        }
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
            return SETTINGS_HELP;
        const char *name = argv[i] + 2, *equals = strchr(name, '='), *value = NULL;
        size_t n = equals ? (size_t)(equals - name) : strlen(name);
        const struct settings_row *row =
            strncmp(argv[i], "--", 2) == 0 ? settings_find(s, bytes_of(name, n)) : NULL;
        if (!row)
            return error_set(e, -EINVAL, "there is no flag %s (--help lists them)", argv[i]);
        if (!row->metavar && equals)
            return error_set(e, -EINVAL, "--%s takes no value", row->key);
        if (row->metavar && !(value = equals ? equals + 1 : i + 1 < argc ? argv[++i] : NULL))
            return error_set(e, -EINVAL, "--%s wants a value: %s", row->key, row->metavar);
        int r = settings_set(row, base, value, arena, e);
        if (r < 0)
            return error_prefix(e, r, "--%s: ", row->key);
    }
    *ret_rest = i;
    return 0;
}

void settings_flags_help(const struct settings_section *s, int width, FILE *to)
{
    for (uint32_t i = 0; i < s->n_rows; i++) {
        const struct settings_row *row = &s->rows[i];
        char left[64];
        if (!row->key)
            continue;
        snprintf(left, sizeof left, "--%s%s%s", row->key, row->metavar ? " " : "",
                 row->metavar ? row->metavar : "");
        fprintf(to, "  %-*s %s\n", width, left, row->doc);
    }
}
