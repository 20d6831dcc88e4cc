/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/config/value.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "gateway/config/rows.h"
#include "proto/base/macros.h"
#include "proto/base/quantity.h"

#define LIST_MAX 256u /* items in one list: far more than anybody writes by hand */

static int set_number(const struct config_row *row, void *field, const char *text, struct error *e)
{
    uint64_t v = 0;
    int r = row->type == CONFIG_SIZE       ? quantity_size(bytes_str(text), &v)
            : row->type == CONFIG_DURATION ? quantity_duration(bytes_str(text), &v)
                                           : quantity_u64(bytes_str(text), &v);
    if (r < 0)
        return error_set(e, -EINVAL, "\"%s\" is not a %s", text, config_type_name(row->type));
    if ((row->max > 0 && v > row->max) || v < row->min) {
        struct buffer range = {0};
        struct config_row low = *row, high = *row;
        low.offset = high.offset = 0;
        uint32_t small_min = (uint32_t)row->min, small_max = (uint32_t)row->max;
        bool is_count = row->type == CONFIG_COUNT;
        value_print(&low, is_count ? (void *)&small_min : (void *)&row->min, &range);
        buffer_add_str(&range, " to ");
        value_print(&high, is_count ? (void *)&small_max : (void *)&row->max, &range);
        r = error_set(e, -EINVAL, "%s is out of range: %.*s", text, (int)range.n, (char *)range.p);
        buffer_release(&range);
        return r;
    }
    if (row->type == CONFIG_COUNT)
        *(uint32_t *)field = (uint32_t)v;
    else
        *(uint64_t *)field = v;
    return 0;
}

/* Choice number i of "grpc|http"; empty: there are not so many. */
static struct bytes choice(const char *choices, uint32_t i)
{
    size_t n = strcspn(choices, "|");
    for (; i > 0; i--) {
        choices += n + (choices[n] == '|');
        n = strcspn(choices, "|");
    }
    return bytes_of(choices, n);
}

static int set_choice(const struct config_row *row, void *field, const char *text, struct error *e)
{
    for (uint32_t i = 0;; i++) {
        struct bytes one = choice(row->choices, i);
        if (one.n == 0)
            return error_set(e, -EINVAL, "\"%s\" is not one of %s", text, row->choices);
        if (!bytes_eq(one, bytes_str(text)))
            continue;
        *(uint32_t *)field = i; /* the enum's: they are of that size */
        return 0;
    }
}

static int set_list(struct config_strings *list, const char *text, struct arena *arena, struct error *e)
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
        if (item.n > 0) {
            struct bytes copy = arena_copy(arena, item);
            if (!copy.p)
                return -ENOMEM;
            items[n++] = (const char *)copy.p;
        }
        text += length + (text[length] == ',');
    }
    list->items = items;
    list->n = n;
    return 0;
}

static int set_pairs(struct config_pairs *pairs, const char *text, struct arena *arena, struct error *e)
{
    struct config_strings list;
    int r = set_list(&list, text, arena, e);
    if (r < 0)
        return r;
    struct config_pair *items = arena_calloc(arena, list.n + 1, sizeof *items);
    if (!items)
        return -ENOMEM;
    for (uint32_t i = 0; i < list.n; i++) {
        char *name = (char *)list.items[i], *equals = strchr(name, '=');
        if (!equals)
            return error_set(e, -EINVAL, "\"%s\" is not NAME=VALUE", name);
        *equals = 0;
        items[i] = (struct config_pair){name, equals + 1};
    }
    *pairs = (struct config_pairs){items, list.n};
    return 0;
}

int value_set(const struct config_row *row, void *base, const char *text, struct arena *arena,
              struct error *e)
{
    void *field = (char *)base + row->offset;
    switch (row->type) {
    case CONFIG_BOOL:
        if (strcmp(text, "true") != 0 && strcmp(text, "false") != 0)
            return error_set(e, -EINVAL, "\"%s\" is neither true nor false", text);
        *(bool *)field = text[0] == 't';
        return 0;
    case CONFIG_COUNT:
    case CONFIG_SIZE:
    case CONFIG_DURATION: return set_number(row, field, text, e);
    case CONFIG_SHARE: {
        double v;
        if (quantity_share(bytes_str(text), &v) < 0)
            return error_set(e, -EINVAL, "\"%s\" is not a share between 0%% and 100%%", text);
        *(double *)field = v;
        return 0;
    }
    case CONFIG_CHOICE: return set_choice(row, field, text, e);
    case CONFIG_STRINGS: return set_list(field, text, arena, e);
    case CONFIG_PAIRS: return set_pairs(field, text, arena, e);
    case CONFIG_TEXT: break;
    }
    struct bytes copy = arena_copy(arena, bytes_str(text));
    if (!copy.p)
        return -ENOMEM;
    *(const char **)field = text[0] ? (const char *)copy.p : NULL;
    return 0;
}

int value_defaults(const struct config_section *section, void *base, struct arena *arena)
{
    for (uint32_t i = 0; i < section->n_rows; i++) {
        int r = value_set(&section->rows[i], base, section->rows[i].fallback, arena, NULL);
        if (r < 0)
            return r;
    }
    return 0;
}

/* A YAML plain scalar would do for nearly all of our values; quoting always is right for all of them. */
static int print_quoted(const char *text, struct buffer *out)
{
    int r = buffer_add_str(out, "\"");
    for (const char *p = text ? text : ""; *p && r == 0; p++) {
        if (*p == '"' || *p == '\\')
            r = buffer_printf(out, "\\%c", *p);
        else if (*p == '$')
            r = buffer_add_str(out, "$$"); /* value_expand turns it back */
        else
            r = buffer_add(out, p, 1);
    }
    return r < 0 ? r : buffer_add_str(out, "\"");
}

static int print_scaled(uint64_t v, const uint64_t *factors, const char *const *units, uint32_t n,
                        struct buffer *out)
{
    for (uint32_t i = 0; i < n; i++)
        if (v > 0 && v % factors[i] == 0)
            return buffer_printf(out, "%llu%s", (unsigned long long)(v / factors[i]), units[i]);
    return buffer_printf(out, "0");
}

int value_print(const struct config_row *row, const void *base, struct buffer *out)
{
    static const uint64_t sizes[] = {1u << 30, 1u << 20, 1u << 10, 1};
    static const char *const size_units[] = {"GiB", "MiB", "KiB", "B"};
    static const uint64_t times[] = {3600000000000u, 60000000000u, 1000000000u, 1000000u, 1000u, 1};
    static const char *const time_units[] = {"h", "m", "s", "ms", "us", "ns"};
    const void *field = (const char *)base + row->offset;

    switch (row->type) {
    case CONFIG_BOOL: return buffer_add_str(out, *(const bool *)field ? "true" : "false");
    case CONFIG_COUNT: return buffer_printf(out, "%u", *(const uint32_t *)field);
    case CONFIG_SIZE: return print_scaled(*(const uint64_t *)field, sizes, size_units, ARRAY_LEN(sizes), out);
    case CONFIG_DURATION:
        return print_scaled(*(const uint64_t *)field, times, time_units, ARRAY_LEN(times), out);
    case CONFIG_SHARE: return buffer_printf(out, "%.15g%%", *(const double *)field * 100);
    case CONFIG_TEXT: return print_quoted(*(const char *const *)field, out);
    case CONFIG_CHOICE:
        return buffer_printf(out, "\"%.*s\"", BYTES_FMT(choice(row->choices, *(const uint32_t *)field)));
    case CONFIG_STRINGS: {
        const struct config_strings *list = field;
        int r = buffer_add_str(out, "[");
        for (uint32_t i = 0; i < list->n && r == 0; i++)
            if ((r = buffer_add_str(out, i ? ", " : "")) == 0)
                r = print_quoted(list->items[i], out);
        return r < 0 ? r : buffer_add_str(out, "]");
    }
    case CONFIG_PAIRS: {
        const struct config_pairs *pairs = field;
        int r = buffer_add_str(out, "{");
        for (uint32_t i = 0; i < pairs->n && r == 0; i++)
            if ((r = buffer_add_str(out, i ? ", " : "")) == 0 &&
                (r = print_quoted(pairs->items[i].name, out)) == 0 && (r = buffer_add_str(out, ": ")) == 0)
                r = print_quoted(pairs->items[i].value, out);
        return r < 0 ? r : buffer_add_str(out, "}");
    }
    }
    return 0;
}

/* One ${env:…}; at points behind the "${". Returns the place behind the '}', or NULL. */
static const char *expand_one(const char *at, struct buffer *out, struct error *e)
{
    const char *end = strchr(at, '}');
    if (!end || strncmp(at, "env:", 4) != 0) {
        error_set(e, -EINVAL, "\"${%.40s\" is not ${env:NAME} or ${env:NAME:-default}", at);
        return NULL;
    }
    char name[128];
    const char *fallback = memmem(at, (size_t)(end - at), ":-", 2);
    size_t n = (size_t)((fallback ? fallback : end) - (at + 4));
    if (n == 0 || n >= sizeof name) {
        error_set(e, -EINVAL, "\"${%.40s\" has no variable name of 1 to 127 bytes", at);
        return NULL;
    }
    memcpy(name, at + 4, n);
    name[n] = 0;
    const char *value = getenv(name);
    if (!value && !fallback) {
        error_set(e, -EINVAL,
                  "the environment has no variable %s; write ${env:%s:-DEFAULT} if it may be absent", name,
                  name);
        return NULL;
    }
    int r = value ? buffer_add_str(out, value) : buffer_add(out, fallback + 2, (size_t)(end - fallback - 2));
    return r < 0 ? NULL : end + 1;
}

const char *value_expand(const char *text, struct arena *arena, struct error *e)
{
    struct buffer out = {0};
    while (text && *text) {
        size_t plain = strcspn(text, "$");
        if (buffer_add(&out, text, plain) < 0)
            text = NULL;
        else if (text[plain] == 0)
            text += plain;
        else if (text[plain + 1] == '{')
            text = expand_one(text + plain + 2, &out, e);
        else if (buffer_add_str(&out, "$") < 0)
            text = NULL;
        else
            text += plain + 1 + (text[plain + 1] == '$');
    }
    /* always a copy: the caller's text belongs to the YAML document */
    struct bytes copy = text ? arena_copy(arena, buffer_bytes(&out)) : (struct bytes){0};
    buffer_release(&out);
    return (const char *)copy.p;
}
