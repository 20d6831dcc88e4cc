/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/look/select.h"

#include <errno.h>
#include <stdio.h>
#include <time.h>

#include "proto/base/clock.h"
#include "proto/base/quantity.h"
#include "rules/pattern/regex_match.h"

#define VALUE_MAX 4096u /* of a matcher */

void look_select_release(struct look_select *s)
{
    for (uint32_t i = 0; i < s->n; i++)
        s->matchers[i].regex = regex_free(s->matchers[i].regex);
    s->n = 0;
}

static void skip_blanks(struct bytes *text)
{
    while (text->n > 0 && (text->p[0] == ' ' || text->p[0] == '\t' || text->p[0] == '\n'))
        *text = bytes_from(*text, 1);
}

static bool take(struct bytes *text, const char *word)
{
    skip_blanks(text);
    if (!bytes_starts(*text, word))
        return false;
    *text = bytes_from(*text, strlen(word));
    return true;
}

static struct bytes take_name(struct bytes *text)
{
    skip_blanks(text);
    size_t n = 0;
    while (n < text->n && text->p[n] != '=' && text->p[n] != '!' && text->p[n] != ' ' && text->p[n] != '}' &&
           text->p[n] != ',')
        n++;
    const struct bytes name = bytes_of(text->p, n);
    *text = bytes_from(*text, n);
    return name;
}

/* A quoted text, with \" \\ \n in it as Prometheus has them. */
static int take_value(struct bytes *text, struct arena *arena, struct bytes *ret)
{
    if (!take(text, "\""))
        return LOOK_WRONG;
    uint8_t *out = arena_alloc(arena, min_of(text->n, (size_t)VALUE_MAX) + 1);
    size_t n = 0;
    if (!out)
        return -ENOMEM;
    for (size_t i = 0; i < text->n; i++) {
        uint8_t c = text->p[i];
        if (c == '"') {
            *ret = bytes_of(out, n);
            *text = bytes_from(*text, i + 1);
            return 0;
        }
        if (n == VALUE_MAX)
            return LOOK_WRONG;
        if (c == '\\' && ++i < text->n)
            c = text->p[i] == 'n' ? '\n' : text->p[i];
        out[n++] = c;
    }
    return LOOK_WRONG;
}

/* Of the whole value, as Prometheus's are. */
static int make_regex(struct look_matcher *m, struct arena *arena, struct error *e)
{
    const char *source = arena_printf(arena, "^(?:%.*s)$", BYTES_FMT(m->value));
    if (!source)
        return -ENOMEM;
    int r = regex_new(&m->regex, bytes_str(source), false, e);
    return r < 0 && e->text[0] ? LOOK_WRONG : r;
}

static int take_matcher(struct look_select *s, struct bytes *text, struct arena *arena, struct error *e)
{
    if (s->n == LOOK_MATCHERS_MAX)
        return error_set(e, LOOK_WRONG, "query: at most %u labels", LOOK_MATCHERS_MAX);
    struct look_matcher *m = &s->matchers[s->n];
    const struct bytes name = take_name(text);
    *m = (struct look_matcher){.label = look_label_of(name), .is_type = bytes_is(name, LOOK_TYPE_LABEL)};
    if (take(text, "=~"))
        m->is_regex = true;
    else if (take(text, "!~"))
        m->is_regex = m->is_not = true;
    else if (take(text, "!="))
        m->is_not = true;
    else if (!take(text, "="))
        return error_set(e, LOOK_WRONG, "query: behind a label comes =, !=, =~ or !~");
    int r = take_value(text, arena, &m->value);
    if (r == LOOK_WRONG)
        error_set(e, r, "query: a value stands in double quotes and has at most %u bytes", VALUE_MAX);
    if (r == 0 && m->is_regex)
        r = make_regex(m, arena, e);
    s->n += r == 0;
    return r;
}

int look_select_parse(struct look_select *s, struct bytes text, struct arena *arena, struct error *e)
{
    const uint8_t *brace = text.n > 0 ? memchr(text.p, '{', text.n) : NULL;
    if (!brace)
        return text.n == 0 ? 0 : error_set(e, LOOK_WRONG, "query: {label=\"value\",…} belongs there");
    const struct bytes type = bytes_trim(bytes_of(text.p, (size_t)(brace - text.p)));
    if (type.n > 0)
        s->type = type;
    text = bytes_from(text, (size_t)(brace - text.p) + 1);
    while (!take(&text, "}")) {
        int r = take_matcher(s, &text, arena, e);
        if (r != 0)
            return r;
        if (!take(&text, ",") && (text.n == 0 || text.p[0] != '}'))
            return error_set(e, LOOK_WRONG, "query: labels are separated by commas and end with }");
    }
    skip_blanks(&text);
    return text.n == 0 ? 0 : error_set(e, LOOK_WRONG, "query: nothing belongs behind the }");
}

/* ---- time ---------------------------------------------------------------------------------- */

static int rfc3339(const char *text, uint64_t *ret_ns)
{
    struct tm tm = {0};
    const char *rest = strptime(text, "%Y-%m-%dT%H:%M:%S", &tm);
    if (!rest)
        return LOOK_WRONG;
    uint64_t part = 0, unit = NSEC_PER_SEC / 10;
    if (*rest == '.')
        for (rest++; *rest >= '0' && *rest <= '9'; rest++, unit /= 10)
            part += unit * (uint64_t)(*rest - '0');
    int hours = 0, minutes = 0, length = 0;
    char sign = '+';
    if (strcmp(rest, "Z") != 0 && (sscanf(rest, "%c%2d:%2d%n", &sign, &hours, &minutes, &length) != 3 ||
                                   rest[length] != 0 || (sign != '+' && sign != '-')))
        return LOOK_WRONG;
    const int64_t seconds = timegm(&tm) - (sign == '-' ? -1 : 1) * (hours * 3600ll + minutes * 60);
    if (seconds < 0 || seconds > 9000000000)
        return LOOK_WRONG;
    *ret_ns = (uint64_t)seconds * NSEC_PER_SEC + part;
    return 0;
}

/* now-DURATION, where a day is one, too. */
static int before_now(struct bytes text, uint64_t now_ns, uint64_t *ret_ns)
{
    uint64_t back, days;
    const bool is_days = text.n > 1 && text.p[text.n - 1] == 'd';
    int r = is_days ? quantity_u64(bytes_of(text.p, text.n - 1), &days) : quantity_duration(text, &back);
    if (is_days && r == 0)
        back = days < 10000 ? days * 86400 * NSEC_PER_SEC : UINT64_MAX;
    if (r < 0 || back > now_ns)
        return LOOK_WRONG;
    *ret_ns = now_ns - back;
    return 0;
}

int look_moment(struct bytes text, uint64_t now_ns, uint64_t *ret_ns)
{
    uint64_t ms;
    char copy[64];
    if (bytes_starts(text, "now-"))
        return before_now(bytes_from(text, 4), now_ns, ret_ns);
    if (bytes_is(text, "now")) {
        *ret_ns = now_ns;
        return 0;
    }
    if (quantity_u64(text, &ms) == 0) {
        *ret_ns = ms * NSEC_PER_MSEC;
        return ms <= 9000000000000 ? 0 : LOOK_WRONG;
    }
    if (text.n >= sizeof copy)
        return LOOK_WRONG;
    memcpy(copy, text.p, text.n);
    copy[text.n] = 0;
    return rfc3339(copy, ret_ns);
}

/* ---- series -------------------------------------------------------------------------------- */

bool look_select_is_of_services(const struct look_select *s)
{
    for (uint32_t i = 0; i < s->n; i++)
        if (s->matchers[i].label != LOOK_SERVICE && !s->matchers[i].is_type)
            return false;
    return true;
}

static bool meets(const struct look_matcher *m, struct regex_scratch *scratch, struct bytes value)
{
    const bool is_it = m->is_regex ? regex_search(m->regex, scratch, value) : bytes_eq(m->value, value);
    return is_it != m->is_not;
}

int look_select_series(const struct look_select *s, const struct look_epoch *e, uint8_t *ret)
{
    struct regex_scratch scratch;
    int r = regex_scratch_init(&scratch);
    if (r < 0)
        return r;
    for (uint32_t i = 0; i < e->series.n; i++) {
        const struct look_series *series = &e->series.p[i];
        ret[i] = !s->type.p || bytes_eq(intern_get(&e->dict.strings, series->type), s->type);
        for (uint32_t k = 0; k < s->n && ret[i]; k++) {
            const enum look_label label = s->matchers[k].label;
            const struct bytes value = s->matchers[k].is_type ? intern_get(&e->dict.strings, series->type)
                                       : label == LOOK_NO_LABEL
                                           ? BYTES_LIT("")
                                           : intern_get(&e->dict.strings, series->label[label]);
            ret[i] = meets(&s->matchers[k], &scratch, value);
        }
    }
    regex_scratch_release(&scratch);
    return 0;
}
