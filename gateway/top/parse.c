/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/top/parse.h"

#include <errno.h>
#include <stdlib.h>

#include "proto/base/macros.h"

#define NUMBER_MAX 64u /* characters of a value */

static bool is_name(uint8_t c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == ':';
}

static struct bytes from(struct bytes b, size_t at)
{
    return bytes_of(b.p + at, b.n - at);
}

/* Takes characters of a name from the front. */
static struct bytes take_name(struct bytes *rest)
{
    size_t n = 0;
    while (n < rest->n && is_name(rest->p[n]))
        n++;
    struct bytes name = bytes_of(rest->p, n);
    *rest = from(*rest, n);
    return name;
}

static void skip_blanks(struct bytes *rest)
{
    while (rest->n > 0 && (rest->p[0] == ' ' || rest->p[0] == '\t'))
        *rest = from(*rest, 1);
}

/* The length of a quoted string's inside, its escapes left; false when it does not end. rest begins behind
 * the quote. */
static bool quoted(struct bytes rest, size_t *ret)
{
    for (size_t i = 0; i < rest.n; i++) {
        if (rest.p[i] == '\\') {
            i++;
        } else if (rest.p[i] == '"') {
            *ret = i;
            return true;
        }
    }
    return false;
}

static bool any_label_next(struct bytes *rest, struct bytes *ret_name, struct bytes *ret_value)
{
    struct bytes at = *rest;
    size_t n;
    while (at.n > 0 && (at.p[0] == ',' || at.p[0] == ' '))
        at = from(at, 1);
    struct bytes name = take_name(&at);
    skip_blanks(&at);
    if (name.n == 0 || at.n == 0 || at.p[0] != '=')
        return false;
    at = from(at, 1);
    skip_blanks(&at);
    if (at.n == 0 || at.p[0] != '"' || !quoted(from(at, 1), &n))
        return false;
    *ret_name = name;
    *ret_value = bytes_of(at.p + 1, n);
    *rest = from(at, n + 2);
    return true;
}

bool top_label_next(struct bytes *rest, struct bytes *ret_name, struct bytes *ret_value)
{
    while (any_label_next(rest, ret_name, ret_value))
        if (ret_value->n > 0)
            return true;
    return false;
}

/* Takes `{…}` from the front, leaving what is between in *ret; false when it does not end or is none. */
static bool take_labels(struct bytes *rest, struct bytes *ret)
{
    struct bytes at = from(*rest, 1), name, value;
    const uint8_t *begin = at.p;
    while (top_label_next(&at, &name, &value))
        ;
    while (at.n > 0 && (at.p[0] == ',' || at.p[0] == ' '))
        at = from(at, 1);
    if (at.n == 0 || at.p[0] != '}')
        return false;
    *ret = bytes_of(begin, (size_t)(at.p - begin));
    *rest = from(at, 1);
    return true;
}

static bool parse_value(struct bytes rest, double *ret)
{
    char text[NUMBER_MAX];
    size_t n = 0;
    while (n < rest.n && rest.p[n] != ' ' && rest.p[n] != '\t')
        n++;
    if (n == 0 || n >= sizeof text)
        return false;
    memcpy(text, rest.p, n);
    text[n] = 0;
    char *stop;
    *ret = strtod(text, &stop);
    return stop == text + n;
}

static int grow(void *items, uint32_t *cap, uint32_t need, size_t size)
{
    void **at = items;
    if (need <= *cap)
        return 0;
    uint32_t n = *cap ? *cap * 2 : 256;
    void *p = realloc(*at, n * size);
    if (!p)
        return -ENOMEM;
    *at = p;
    *cap = n;
    return 0;
}

static int family_of(struct top_page *page, struct bytes name, uint32_t *ret)
{
    uint32_t known = page->names.n;
    if (known >= TOP_FAMILIES_MAX && intern_find(&page->names, name) == INTERN_NONE)
        return -E2BIG;
    uint32_t id = intern_add(&page->names, name);
    if (id == INTERN_NONE || grow(&page->families, &page->cap_families, id + 1, sizeof *page->families) < 0)
        return -ENOMEM;
    if (id == known)
        page->families[id] = (struct top_family){.name = intern_get(&page->names, id)};
    *ret = id;
    return 0;
}

/* `# HELP name text` and `# TYPE name kind`; other comments say nothing to us. */
static int read_comment(struct top_page *page, struct bytes line)
{
    bool help = bytes_starts(line, "# HELP "), type = bytes_starts(line, "# TYPE ");
    uint32_t id;
    if (!help && !type)
        return 0;
    line = from(line, sizeof "# HELP " - 1);
    skip_blanks(&line);
    struct bytes name = take_name(&line);
    skip_blanks(&line);
    if (name.n == 0)
        return 0;
    int r = family_of(page, name, &id);
    if (r < 0)
        return r;
    if (help)
        page->families[id].help = line;
    else
        page->families[id].type = bytes_is(line, "counter") ? TOP_COUNTER
                                  : bytes_is(line, "gauge") ? TOP_GAUGE
                                                            : TOP_UNTYPED;
    return 0;
}

static int read_sample(struct top_page *page, struct bytes line)
{
    struct top_sample s = {0};
    struct bytes rest = line, name = take_name(&rest);
    bool ok = name.n > 0;
    if (ok && rest.n > 0 && rest.p[0] == '{')
        ok = take_labels(&rest, &s.labels);
    s.key = bytes_of(line.p, line.n - rest.n);
    ok = ok && rest.n > 0 && (rest.p[0] == ' ' || rest.p[0] == '\t');
    skip_blanks(&rest);
    if (!ok || !parse_value(rest, &s.value)) {
        page->n_bad++;
        return 0;
    }
    if (page->n_samples >= TOP_SAMPLES_MAX)
        return -E2BIG;
    int r = family_of(page, name, &s.family);
    if (r == 0)
        r = grow(&page->samples, &page->cap_samples, page->n_samples + 1, sizeof s);
    if (r == 0)
        page->samples[page->n_samples++] = s;
    return r;
}

int top_page_read(struct bytes text, struct top_page *ret)
{
    if (text.n > TOP_TEXT_MAX)
        return -E2BIG;
    struct top_page page = {.arena = ARENA_INIT(NULL), .names = INTERN_INIT(NULL)};
    struct bytes rest = arena_copy(&page.arena, text);
    int r = rest.p ? 0 : -ENOMEM;
    while (r == 0 && rest.n > 0) {
        const uint8_t *end = memchr(rest.p, '\n', rest.n);
        size_t n = end ? (size_t)(end - rest.p) : rest.n;
        struct bytes line = bytes_trim(bytes_of(rest.p, n));
        rest = from(rest, end ? n + 1 : n);
        if (line.n > 0)
            r = line.p[0] == '#' ? read_comment(&page, line) : read_sample(&page, line);
    }
    if (r < 0) {
        top_page_release(&page);
        return r;
    }
    *ret = page;
    return 0;
}

void top_page_release(struct top_page *page)
{
    arena_release(&page->arena);
    intern_release(&page->names);
    free(page->families);
    free(page->samples);
    *page = (struct top_page){0};
}

double top_page_sum(const struct top_page *page, const char *name, double absent)
{
    uint32_t id = intern_find(&page->names, bytes_str(name));
    bool found = false;
    double sum = 0;
    for (uint32_t i = 0; id != INTERN_NONE && i < page->n_samples; i++) {
        if (page->samples[i].family != id)
            continue;
        sum += page->samples[i].value;
        found = true;
    }
    return found ? sum : absent;
}
