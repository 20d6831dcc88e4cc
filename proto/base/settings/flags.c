/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/base/settings/flags.h"

#include <errno.h>
#include <string.h>

#include "proto/base/macros.h"
#include "proto/base/nearest.h"

bool settings_is_help(const char *word)
{
    return strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0;
}

bool settings_asks_help(int argc, char **argv)
{
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (settings_is_help(argv[i]))
            return true;
    return false;
}

static int unknown(const struct settings_section *s, const char *written, struct error *e)
{
    struct bytes name = bytes_str(written);
    struct nearest near;
    const char *equals = strchr(written, '=');
    if (equals)
        name.n = (size_t)(equals - written);
    for (; name.n > 0 && name.p[0] == '-'; name.p++)
        name.n--;
    nearest_start(&near, name);
    for (uint32_t i = 0; i < s->n_rows; i++)
        if (s->rows[i].key)
            nearest_offer(&near, bytes_str(s->rows[i].key));
    if (near.best.n > 0)
        return error_set(e, -EINVAL, "there is no flag %s; did you mean --%.*s? (--help lists them)", written,
                         BYTES_FMT(near.best));
    return error_set(e, -EINVAL, "there is no flag %s (--help lists them)", written);
}

/* Puts the n arguments at `from` before those at `to`. */
static void move_up(char **argv, int to, int from, int n)
{
    for (; n > 0 && from > to; n--, from++, to++) {
        char *one = argv[from];
        memmove(&argv[to + 1], &argv[to], (size_t)(from - to) * sizeof *argv);
        argv[to] = one;
    }
}

int settings_flags(const struct settings_section *s, int argc, char **argv, void *base, struct arena *arena,
                   int *ret_rest, struct error *e)
{
    int rest = 1;
    for (int i = 1; i < argc; i++) {
        const int from = i;
        if (argv[i][0] != '-' || argv[i][1] == 0)
            continue;
        if (strcmp(argv[i], "--") == 0) {
            move_up(argv, rest++, from, 1);
            break;
        }
        const char *name = argv[i] + 2, *equals = strchr(name, '='), *value = NULL;
        size_t n = equals ? (size_t)(equals - name) : strlen(name);
        const struct settings_row *row =
            strncmp(argv[i], "--", 2) == 0 ? settings_find(s, bytes_of(name, n)) : NULL;
        if (!row)
            return unknown(s, argv[i], e);
        if (!row->metavar && equals)
            return error_set(e, -EINVAL, "--%s takes no value", row->key);
        if (row->metavar && !(value = equals ? equals + 1 : i + 1 < argc ? argv[++i] : NULL))
            return error_set(e, -EINVAL, "--%s wants a value: %s", row->key, row->metavar);
        int r = settings_set(row, base, value, arena, e);
        if (r < 0)
            return error_prefix(e, r, "--%s: ", row->key);
        move_up(argv, rest, from, i + 1 - from);
        rest += i + 1 - from;
    }
    *ret_rest = rest;
    return 0;
}

/* As it is said: "--config FILE". Returns how long it is. */
static int flag_text(const struct settings_row *row, char *ret, size_t size)
{
    return snprintf(ret, size, "--%s%s%s", row->key, row->metavar ? " " : "",
                    row->metavar ? row->metavar : "");
}

void settings_flags_help(const struct settings_section *s, FILE *to)
{
    char text[64];
    int width = 0;
    for (uint32_t i = 0; i < s->n_rows; i++)
        if (s->rows[i].key)
            width = max_of(width, flag_text(&s->rows[i], text, sizeof text));
    for (uint32_t i = 0; i < s->n_rows; i++) {
        if (!s->rows[i].key)
            continue;
        flag_text(&s->rows[i], text, sizeof text);
        fprintf(to, "  %-*s  %s\n", width, text, s->rows[i].doc);
    }
}
