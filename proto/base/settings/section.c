/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "proto/base/settings/settings.h"

int settings_defaults(const struct settings_section *s, void *base, struct arena *arena)
{
    int r = 0;
    for (uint32_t i = 0; i < s->n_rows && r == 0; i++)
        if (s->rows[i].fallback)
            r = settings_set(&s->rows[i], base, s->rows[i].fallback, arena, NULL);
    return r;
}

int settings_environment(const struct settings_section *s, void *base, char *(*getvar)(const char *),
                         struct arena *arena, struct error *e)
{
    for (uint32_t i = 0; i < s->n_rows; i++) {
        const char *variable = s->rows[i].variable, *value = variable ? getvar(variable) : NULL;
        int r = value && value[0] ? settings_set(&s->rows[i], base, value, arena, e) : 0;
        if (r < 0)
            return error_prefix(e, r, "%s: ", variable);
    }
    return 0;
}

const struct settings_row *settings_find(const struct settings_section *s, struct bytes key)
{
    for (uint32_t i = 0; i < s->n_rows; i++)
        if (s->rows[i].key && bytes_is(key, s->rows[i].key))
            return &s->rows[i];
    return NULL;
}

/* A key with a dot is in a map of its own, which the first of them opens. */
int settings_print(const struct settings_section *s, const void *base, int indent, bool item, bool masked,
                   struct buffer *out)
{
    const char *open = "";
    size_t open_n = 0;
    int r = 0;
    for (uint32_t i = 0; i < s->n_rows && r == 0; i++) {
        const char *key = s->rows[i].key, *dot = strchr(key, '.'), *dash = item && i == 0 ? "- " : "";
        int at = indent - (int)strlen(dash);
        if (dot && ((size_t)(dot - key) != open_n || strncmp(open, key, open_n) != 0)) {
            open = key;
            open_n = (size_t)(dot - key);
            r = buffer_printf(out, "%*s%s%.*s:\n", at, "", dash, (int)open_n, open);
            dash = "";
        }
        if (r == 0)
            r = buffer_printf(out, "%*s%s%s: ", dot ? indent + 2 : at, "", dash, dot ? dot + 1 : key);
        if (r == 0)
            r = settings_print_value(&s->rows[i], base, masked, out);
        if (r == 0)
            r = buffer_add_str(out, "\n");
    }
    return r;
}

static int explain_type(const struct settings_row *row, struct buffer *out)
{
    static const char *const names[] = {
        [SETTINGS_TEXT] = "text",          [SETTINGS_BOOL] = "true or false",
        [SETTINGS_COUNT] = "number",       [SETTINGS_SIZE] = "size (64MiB)",
        [SETTINGS_SHARE] = "share (1%)",   [SETTINGS_PAIRS] = "map",
        [SETTINGS_STRINGS] = "list",       [SETTINGS_REPEATED] = "list",
        [SETTINGS_OWN] = "text",           [SETTINGS_DURATION] = "duration (30s)",
        [SETTINGS_FACTOR] = "number (1.5)"};
    int r = row->words ? 0 : buffer_add_str(out, names[row->type]);
    for (const struct settings_word *w = row->words; w && w->word && r == 0; w++)
        r = buffer_printf(out, "%s%s", w == row->words ? "" : "|", w->word);
    return r;
}

int settings_reference(const struct settings_section *s, struct buffer *out)
{
    int r = buffer_printf(out, "\n%s: %s\n", s->name, s->doc);
    for (uint32_t i = 0; i < s->n_rows && r == 0; i++) {
        const struct settings_row *row = &s->rows[i];
        const char *fallback = row->fallback ? row->fallback : "";
        r = buffer_printf(out, "  %-34s ", row->key);
        if (r == 0)
            r = explain_type(row, out);
        if (r == 0)
            r = buffer_printf(out, "%s%s%s\n      %s\n", fallback[0] ? ", default " : "", fallback,
                              row->live ? ", live" : "", row->doc);
    }
    return r;
}
