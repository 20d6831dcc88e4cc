/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/commands/flags.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static const struct flag *find(const struct flag *flags, unsigned n_flags, const char *name, size_t n)
{
    for (unsigned i = 0; i < n_flags; i++)
        if (strlen(flags[i].name) == n && strncmp(flags[i].name, name, n) == 0)
            return &flags[i];
    return NULL;
}

int flags_parse(const struct flag *flags, unsigned n_flags, int argc, char **argv, void *target,
                int *ret_rest, struct error *e)
{
    int i = 1;
    for (; i < argc && argv[i][0] == '-' && argv[i][1] != 0; i++) {
        if (strcmp(argv[i], "--") == 0) {
            i++;
            break;
        }
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
            return FLAGS_HELP;
        const char *name = argv[i] + 2, *equals = strchr(name, '=');
        size_t n = equals ? (size_t)(equals - name) : strlen(name);
        const struct flag *flag = strncmp(argv[i], "--", 2) == 0 ? find(flags, n_flags, name, n) : NULL;
        if (!flag)
            return error_set(e, -EINVAL, "there is no flag %s (--help lists them)", argv[i]);
        const char *value = NULL;
        if (flag->value && equals)
            value = equals + 1;
        else if (flag->value && i + 1 < argc)
            value = argv[++i];
        if ((flag->value == NULL) != (value == NULL) || (!flag->value && equals))
            return error_set(e, -EINVAL, flag->value ? "--%s wants a value: %s" : "--%s takes no value%s",
                             flag->name, flag->value ? flag->value : "");
        int r = flag->set(target, value, e);
        if (r < 0)
            return error_prefix(e, r, "--%s: ", flag->name);
    }
    *ret_rest = i;
    return 0;
}

void flags_help(const char *usage, const char *text, const struct flag *flags, unsigned n_flags)
{
    printf("usage: profgate %s\n\n%s", usage, text);
    if (n_flags > 0)
        printf("\nflags:\n");
    for (unsigned i = 0; i < n_flags; i++) {
        char left[64];
        snprintf(left, sizeof left, "--%s%s%s", flags[i].name, flags[i].value ? " " : "",
                 flags[i].value ? flags[i].value : "");
        printf("  %-24s %s\n", left, flags[i].doc);
    }
}
