/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "proto/base/clock.h"
#include "proto/base/nearest.h"
#include "proto/base/quantity.h"
#include "proto/base/settings/settings.h"

#define LIST_MAX 256u /* items in one list: far more than anybody writes by hand */

static const struct unit {
    uint64_t factor;
    const char *name;
} sizes[] = {{1u << 30, "GiB"}, {1u << 20, "MiB"}, {1u << 10, "KiB"}, {1, "B"}, {0, NULL}},
  times[] = {{3600 * (uint64_t)NSEC_PER_SEC, "h"},
             {60 * (uint64_t)NSEC_PER_SEC, "m"},
             {NSEC_PER_SEC, "s"},
             {NSEC_PER_MSEC, "ms"},
             {NSEC_PER_USEC, "us"},
             {1, "ns"},
             {0, NULL}},
  none[] = {{0, NULL}};

static int print_number(enum settings_type type, uint64_t v, struct buffer *out)
{
    const struct unit *u = type == SETTINGS_SIZE ? sizes : type == SETTINGS_DURATION ? times : none;
    while (u->name && (v == 0 || v % u->factor != 0))
        u++;
    return buffer_printf(out, "%llu%s", (unsigned long long)(u->name ? v / u->factor : v),
                         u->name ? u->name : "");
}

/* ---- from text ------------------------------------------------------------------------------- */

/* Says what is wrong in the row's words, if it has any. */
static int wrong(const struct settings_row *row, const char *value, struct error *e, const char *what)
{
    return row->want ? error_set(e, -EINVAL, "\"%s\" is not %s", value, row->want)
                     : error_set(e, -EINVAL, "\"%s\" %s", value, what);
}

static int out_of_range(const struct settings_row *row, const char *value, struct error *e)
{
    if (row->want)
        return wrong(row, value, e, "");
    cleanup(buffer_release) struct buffer range = BUFFER_INIT(0);
    int r = print_number(row->type, row->min, &range);
    if (r == 0)
        r = buffer_add_str(&range, " to ");
    if (r == 0)
        r = print_number(row->type, row->max, &range);
    if (r == 0)
        r = error_set(e, -EINVAL, "%s is out of range: %.*s", value, BYTES_FMT(buffer_bytes(&range)));
    return r;
}

static int set_number(const struct settings_row *row, void *field, const char *value, struct error *e)
{
    static const char *const what[] = {[SETTINGS_COUNT] = "is not a number",
                                       [SETTINGS_SIZE] = "is not a size (64MiB)",
                                       [SETTINGS_DURATION] = "is not a duration (30s)"};
    uint64_t v = 0, max = row->max > 0 ? row->max : row->type == SETTINGS_COUNT ? UINT32_MAX : UINT64_MAX;
    int r = row->type == SETTINGS_SIZE       ? quantity_size(bytes_str(value), &v)
            : row->type == SETTINGS_DURATION ? quantity_duration(bytes_str(value), &v)
                                             : quantity_u64(bytes_str(value), &v);
    if (r < 0)
        return wrong(row, value, e, what[row->type]);
    if (v < row->min || v > max)
        return out_of_range(row, value, e);
    if (row->type == SETTINGS_COUNT)
        *(uint32_t *)field = (uint32_t)v;
    else
        *(uint64_t *)field = v;
    return 0;
}

static int set_choice(const struct settings_row *row, int *field, const char *value, struct error *e)
{
    char known[256] = "is not one of ";
    struct nearest near;
    nearest_start(&near, bytes_str(value));
    for (const struct settings_word *w = row->words; w->word; w++) {
        if (strcmp(w->word, value) == 0) {
            *field = w->value;
            return 0;
        }
        size_t n = strlen(known);
        snprintf(known + n, sizeof known - n, "%s%s", w == row->words ? "" : "|", w->word);
        nearest_offer(&near, bytes_str(w->word));
    }
    size_t n = strlen(known);
    snprintf(known + n, sizeof known - n, "%s", nearest_ask(near.best).s);
    return wrong(row, value, e, known);
}

static int set_text(const struct settings_row *row, const char **field, const char *value,
                    struct arena *arena)
{
    if (row->fallback && !value[0])
        value = NULL;
    else if (arena && !(value = (const char *)arena_copy(arena, bytes_str(value)).p))
        return -ENOMEM;
    *field = value;
    return 0;
}

static int set_list(struct settings_strings *list, const char *text, struct arena *arena, struct error *e)
{
    const char **items = arena_calloc(arena, LIST_MAX, sizeof *items);
    uint32_t n = 0;
    if (!items)
        return -ENOMEM;
    while (*text) {
        size_t length = strcspn(text, ",");
        struct bytes item = bytes_trim(bytes_of(text, length));
        if (n == LIST_MAX)
            return error_set(e, -EINVAL, "more than %u items", LIST_MAX);
        if (item.n > 0 && !(items[n++] = (const char *)arena_copy(arena, item).p))
            return -ENOMEM;
        text += length + (text[length] == ',');
    }
    *list = (struct settings_strings){items, n};
    return 0;
}

static int set_pairs(struct settings_pairs *pairs, const char *text, struct arena *arena, struct error *e)
{
    struct settings_strings list;
    int r = set_list(&list, text, arena, e);
    if (r < 0)
        return r;
    struct settings_pair *items = arena_calloc(arena, list.n + 1, sizeof *items);
    if (!items)
        return -ENOMEM;
    for (uint32_t i = 0; i < list.n; i++) {
        char *name = (char *)(uintptr_t)list.items[i],
             *equals = strchr(name, '='); /* ours: set_list made it */
        if (!equals)
            return error_set(e, -EINVAL, "\"%s\" is not NAME=VALUE", name);
        *equals = 0;
        items[i] = (struct settings_pair){name, equals + 1};
    }
    *pairs = (struct settings_pairs){items, list.n};
    return 0;
}

/* One more; the array is made anew, since an arena cannot grow it and there are few. */
static int append(const struct settings_row *row, struct settings_strings *list, const char *value,
                  struct arena *arena, struct error *e)
{
    uint32_t max = row->max > 0 ? (uint32_t)row->max : LIST_MAX;
    if (list->n >= max)
        return row->want ? error_set(e, -EINVAL, "%s", row->want)
                         : error_set(e, -EINVAL, "given more than %u times", max);
    const char **items = arena_calloc(arena, list->n + 1, sizeof *items);
    if (!items)
        return -ENOMEM;
    if (list->n > 0)
        memcpy(items, list->items, list->n * sizeof *items);
    if (!(items[list->n] = (const char *)arena_copy(arena, bytes_str(value)).p))
        return -ENOMEM;
    *list = (struct settings_strings){items, list->n + 1};
    return 0;
}

static int set(const struct settings_row *row, void *base, const char *value, struct arena *arena,
               struct error *e)
{
    void *field = (char *)base + row->offset;
    switch (row->type) {
    case SETTINGS_TEXT: return set_text(row, field, value, arena);
    case SETTINGS_BOOL:
        if (value && strcmp(value, "true") != 0 && strcmp(value, "false") != 0)
            return wrong(row, value, e, "is neither true nor false");
        *(bool *)field = !value || value[0] == 't';
        return 0;
    case SETTINGS_COUNT:
    case SETTINGS_SIZE:
    case SETTINGS_DURATION: return set_number(row, field, value, e);
    case SETTINGS_SHARE: {
        double v;
        if (strcmp(value, "1") == 0)
            return wrong(row, value, e, "could be all or a hundredth: write 100% or 1%");
        if (quantity_share(bytes_str(value), &v) < 0)
            return wrong(row, value, e, "is not a share between 0% and 100%");
        *(double *)field = v;
        return 0;
    }
    case SETTINGS_FACTOR: {
        double v;
        if (quantity_decimal(bytes_str(value), &v) < 0)
            return wrong(row, value, e, "is not a number (1.5)");
        if (v < (double)row->min || (row->max > 0 && v > (double)row->max))
            return out_of_range(row, value, e);
        *(double *)field = v;
        return 0;
    }
    case SETTINGS_CHOICE: return set_choice(row, field, value, e);
    case SETTINGS_STRINGS: return set_list(field, value, arena, e);
    case SETTINGS_REPEATED: return append(row, field, value, arena, e);
    case SETTINGS_PAIRS: return set_pairs(field, value, arena, e);
    case SETTINGS_OWN: return row->set(base, value, arena, e);
    }
    return 0;
}

int settings_set(const struct settings_row *row, void *base, const char *value, struct arena *arena,
                 struct error *e)
{
    error_clear(e);
    return error_memory(e, set(row, base, value, arena, e));
}

/* ---- to text --------------------------------------------------------------------------------- */

/* A plain scalar would do for nearly all of our values; quoting always is right for all of them. */
static int print_quoted(const char *text, struct buffer *out)
{
    int r = buffer_add_str(out, "\"");
    for (const char *p = text ? text : ""; *p && r == 0; p++) {
        if (*p == '"' || *p == '\\')
            r = buffer_printf(out, "\\%c", *p);
        else if (*p == '$')
            r = buffer_add_str(out, "$$"); /* reading a file turns it back */
        else
            r = buffer_add(out, p, 1);
    }
    return r < 0 ? r : buffer_add_str(out, "\"");
}

static const char *word_of(const struct settings_word *words, int value)
{
    while (words->word && words->value != value)
        words++;
    return words->word;
}

static int print_list(const struct settings_strings *list, struct buffer *out)
{
    int r = buffer_add_str(out, "[");
    for (uint32_t i = 0; i < list->n && r == 0; i++)
        if ((r = buffer_add_str(out, i ? ", " : "")) == 0)
            r = print_quoted(list->items[i], out);
    return r < 0 ? r : buffer_add_str(out, "]");
}

static int print_pairs(const struct settings_pairs *pairs, bool masked, struct buffer *out)
{
    int r = buffer_add_str(out, "{");
    for (uint32_t i = 0; i < pairs->n && r == 0; i++)
        if ((r = buffer_add_str(out, i ? ", " : "")) == 0 &&
            (r = print_quoted(pairs->items[i].name, out)) == 0 && (r = buffer_add_str(out, ": ")) == 0)
            r = print_quoted(masked ? SETTINGS_MASK : pairs->items[i].value, out);
    return r < 0 ? r : buffer_add_str(out, "}");
}

int settings_print_value(const struct settings_row *row, const void *base, bool masked, struct buffer *out)
{
    const void *field = (const char *)base + row->offset;
    switch (row->type) {
    case SETTINGS_TEXT: {
        const char *text = *(const char *const *)field;
        return print_quoted(masked && row->secret && text ? SETTINGS_MASK : text, out);
    }
    case SETTINGS_BOOL: return buffer_add_str(out, *(const bool *)field ? "true" : "false");
    case SETTINGS_COUNT: return print_number(row->type, *(const uint32_t *)field, out);
    case SETTINGS_SIZE:
    case SETTINGS_DURATION: return print_number(row->type, *(const uint64_t *)field, out);
    case SETTINGS_SHARE: return buffer_printf(out, "%.15g%%", *(const double *)field * 100);
    case SETTINGS_FACTOR: return buffer_printf(out, "%.15g", *(const double *)field);
    case SETTINGS_CHOICE: return print_quoted(word_of(row->words, *(const int *)field), out);
    case SETTINGS_STRINGS:
    case SETTINGS_REPEATED: return print_list(field, out);
    case SETTINGS_PAIRS: return print_pairs(field, masked && row->secret, out);
    case SETTINGS_OWN: break;
    }
    return 0;
}
