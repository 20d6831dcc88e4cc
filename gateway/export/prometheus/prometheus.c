/* SPDX-License-Identifier: Apache-2.0 */
/* The table as text, in either format, as many lines at a time as are wanted. */
#include "gateway/export/prometheus/prometheus.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "gateway/export/prometheus/table.h"
#include "gateway/stats/exposition.h"
#include "proto/base/clock.h"
#include "proto/base/macros.h"

#define TOTAL     "_total"
#define TOTAL_LEN (sizeof TOTAL - 1)

static bool is_total(struct bytes name)
{
    return name.n > TOTAL_LEN && memcmp(name.p + name.n - TOTAL_LEN, TOTAL, TOTAL_LEN) == 0;
}

/* A name, in quotes where it needs them. */
static int add_name(struct buffer *out, struct bytes name, bool is_plain)
{
    if (is_plain)
        return buffer_add_bytes(out, name);
    int r = buffer_add_str(out, "\"");
    if (r == 0)
        r = exposition_escape(out, name, true);
    return r < 0 ? r : buffer_add_str(out, "\"");
}

struct prometheus_page {
    struct prometheus_options options;
    struct prometheus_table *table;
    const struct prometheus_family *families;
    const struct prometheus_series *series; /* of the family under way; or NULL, and … */
    const struct prometheus_line *lines;    /* … as lines, whose labels are made when they are written */
    struct buffer labels;
    uint32_t n_families, n_series;
    uint32_t family, next; /* what is written next: a series of a family */
    bool begun;            /* that family's head is written */
    struct buffer *out;    /* during prometheus_page_next */
};

/* ,name="value" */
static int add_label(const struct prometheus_label *label, struct buffer *out)
{
    int r = buffer_add_str(out, ",");
    if (r == 0)
        r = add_name(out, label->name, label->plain);
    if (r == 0)
        r = buffer_add_str(out, "=\"");
    if (r == 0)
        r = exposition_escape(out, label->value, true);
    return r < 0 ? r : buffer_add_str(out, "\"");
}

/* job="" and instance="", where the series has none (names.h, own_target). */
static int add_no_target(void *user, const struct prometheus_label *labels, uint32_t n, struct buffer *out)
{
    static const char *const names[] = {"instance", "job"}, *const texts[] = {",instance=\"\"", ",job=\"\""};
    const struct prometheus_page *p = user;
    int r = 0;
    for (size_t k = 0; k < ARRAY_LEN(names) && r == 0 && p->options.own_target; k++) {
        bool has = false;
        for (uint32_t i = 0; i < n; i++)
            has |= labels[i].is_target && bytes_is(labels[i].name, names[k]);
        if (!has)
            r = buffer_add_str(out, texts[k]);
    }
    return r;
}

/* {a="b"}, or nothing. A metric's name that needs quotes stands inside, in front ("UTF-8 in Prometheus"). */
static int begin_labels(const struct prometheus_family *family, struct buffer *out)
{
    int r = family->plain ? 0 : buffer_add_str(out, "{");
    return r < 0 || family->plain ? r : add_name(out, family->name, false);
}

/* Behind the labels, which begin at `from`, each with a comma in front. */
static int end_labels(struct buffer *out, size_t from)
{
    if (out->n == from)
        return 0;
    out->p[from] = '{';
    return buffer_add_str(out, "}");
}

static int add_labels(void *user, const struct prometheus_family *family,
                      const struct prometheus_label *labels, uint32_t n, struct buffer *out)
{
    const size_t from = out->n;
    int r = begin_labels(family, out);
    for (uint32_t i = 0; r == 0 && i < n; i++)
        r = add_label(&labels[i], out);
    if (r == 0)
        r = add_no_target(user, labels, n, out);
    return r < 0 ? r : end_labels(out, from);
}

/* What the format calls the family: OpenMetrics leaves the suffix to the sample. */
static struct bytes family_name(const struct prometheus_page *p, const struct prometheus_family *f)
{
    struct bytes name = f->name;
    if (p->options.format == PROMETHEUS_TEXT)
        return name;
    if (f->is_target)
        name.n -= sizeof "_info" - 1;
    else if (f->kind == METRIC_SUM && is_total(name))
        name.n -= TOTAL_LEN;
    return name;
}

static const char *family_type(const struct prometheus_page *p, const struct prometheus_family *f)
{
    bool open = p->options.format == PROMETHEUS_OPENMETRICS;
    if (open && f->is_target)
        return "info";
    if (f->kind == METRIC_GAUGE)
        return "gauge";
    return open && !is_total(f->name) ? "unknown" : "counter";
}

/* `# WORD name text` */
static int add_head(const struct prometheus_page *p, const char *word, struct bytes name, struct bytes text)
{
    int r = buffer_printf(p->out, "# %s ", word);
    if (r == 0)
        r = add_name(p->out, name, prometheus_is_plain(name, false));
    if (r == 0)
        r = buffer_add_str(p->out, " ");
    if (r == 0)
        r = exposition_escape(p->out, text, p->options.format == PROMETHEUS_OPENMETRICS);
    return r < 0 ? r : buffer_add_str(p->out, "\n");
}

static int add_exemplar(struct buffer *out, const struct prometheus_series *s)
{
    char trace[33] = "", span[17] = "", value[32];
    uint8_t any = 0;
    bytes_to_hex(bytes_of(s->exemplar.trace_id, 16), trace);
    bytes_to_hex(bytes_of(s->exemplar.span_id, 8), span);
    for (size_t i = 0; i < 8; i++)
        any |= s->exemplar.span_id[i];
    prometheus_double(s->exemplar_value, value);
    return buffer_printf(out, " # {trace_id=\"%s\"%s%s%s} %s %" PRIu64 ".%03u", trace,
                         any ? ",span_id=\"" : "", any ? span : "", any ? "\"" : "", value,
                         s->exemplar.time_unix_nano / NSEC_PER_SEC,
                         (unsigned)(s->exemplar.time_unix_nano % NSEC_PER_SEC / NSEC_PER_MSEC));
}

static int add_sample(const struct prometheus_page *p, const struct prometheus_family *f,
                      const struct prometheus_series *s)
{
    char text[32];
    if (s->is_double)
        prometheus_double(s->real, text);
    else
        prometheus_integer(s->integer, text);
    int r = f->plain ? buffer_add_bytes(p->out, f->name) : 0;
    if (r == 0)
        r = buffer_add_bytes(p->out, s->labels);
    if (r == 0)
        r = buffer_add_str(p->out, " ");
    if (r == 0)
        r = buffer_add_str(p->out, text);
    if (r == 0 && p->options.format == PROMETHEUS_OPENMETRICS && f->kind == METRIC_SUM && is_total(f->name) &&
        s->has_exemplar)
        r = add_exemplar(p->out, s);
    return r < 0 ? r : buffer_add_str(p->out, "\n");
}

/* NAME_created, with the sample's labels: of a name in quotes they begin with that of the sample. */
static int add_created_name(const struct prometheus_page *p, const struct prometheus_family *f,
                            struct bytes labels)
{
    const struct bytes name = family_name(p, f);
    const size_t from = p->out->n;
    int r = buffer_add_str(p->out, f->plain ? "" : "{\"");
    if (r == 0)
        r = f->plain ? buffer_add_bytes(p->out, name) : exposition_escape(p->out, name, true);
    const size_t same = f->plain ? 0 : p->out->n - from;
    if (r == 0)
        r = buffer_add_str(p->out, "_created");
    const size_t behind = f->plain ? 0 : same + TOTAL_LEN;
    return r < 0 ? r : buffer_add(p->out, labels.p + behind, labels.n - behind);
}

/* When the counter began. */
static int add_created(const struct prometheus_page *p, const struct prometheus_family *f,
                       const struct prometheus_series *s)
{
    if (!p->options.created || p->options.format != PROMETHEUS_OPENMETRICS || f->kind != METRIC_SUM ||
        !is_total(f->name) || s->start_unix_nano == 0)
        return 0;
    int r = add_created_name(p, f, s->labels);
    return r < 0 ? r
                 : buffer_printf(p->out, " %" PRIu64 ".%03u\n", s->start_unix_nano / NSEC_PER_SEC,
                                 (unsigned)(s->start_unix_nano % NSEC_PER_SEC / NSEC_PER_MSEC));
}

/* What stands before a family's series, and makes them. */
static int begin_family(struct prometheus_page *p, const struct prometheus_family *f)
{
    bool open = p->options.format == PROMETHEUS_OPENMETRICS;
    struct bytes name = family_name(p, f);
    int r = 0;
    if (f->conflict && !open)
        r = buffer_printf(p->out, "# %.*s: a metric of this name and another type was left out\n",
                          BYTES_FMT(f->name));
    if (r < 0 || !f->has_series)
        return r;
    p->series = NULL;
    r = prometheus_table_lines(p->table, p->family, &p->lines, &p->n_series);
    if (r == PROMETHEUS_TABLE_ADDS_UP)
        r = prometheus_table_series(p->table, p->family, &p->series, &p->n_series);
    if (r == 0 && f->help.n > 0)
        r = add_head(p, "HELP", name, f->help);
    if (r == 0)
        r = add_head(p, "TYPE", name, bytes_str(family_type(p, f)));
    if (r == 0 && open && f->unit.n > 0)
        r = add_head(p, "UNIT", name, f->unit);
    return r;
}

static int write_series(const struct prometheus_page *p, const struct prometheus_family *f,
                        const struct prometheus_series *s)
{
    int r = add_sample(p, f, s);
    return r < 0 ? r : add_created(p, f, s);
}

static int write_line(struct prometheus_page *p, const struct prometheus_family *f,
                      const struct prometheus_line *line)
{
    struct prometheus_series s = prometheus_line_series(p->table, line);
    p->labels.n = 0;
    int r = begin_labels(f, &p->labels);
    if (r == 0)
        r = prometheus_line_labels(p->table, line, &p->labels);
    if (r == 0)
        r = end_labels(&p->labels, 0);
    s.labels = buffer_bytes(&p->labels);
    return r < 0 ? r : write_series(p, f, &s);
}

/* In OpenMetrics a gauge `x` and a counter `x_total` would both be families x: the gauge gives way. Both
 * stand close by in the order of names, but others may be between: looked up. */
static bool gives_way(const struct prometheus_page *p, const struct prometheus_family *f)
{
    const struct prometheus_family *families = p->families;
    if (p->options.format == PROMETHEUS_TEXT || is_total(f->name))
        return false;
    uint32_t from = (uint32_t)(f - families) + 1;
    for (uint32_t i = from; i < p->n_families && families[i].name.n >= f->name.n &&
                            memcmp(families[i].name.p, f->name.p, f->name.n) == 0;
         i++)
        if (families[i].kind == METRIC_SUM && families[i].has_series &&
            families[i].name.n == f->name.n + TOTAL_LEN && is_total(families[i].name))
            return true;
    return false;
}

int prometheus_page_new(struct prometheus_page **ret, const struct metric_batch *batch,
                        const struct prometheus_options *options)
{
    struct prometheus_page *p = calloc(1, sizeof *p);
    if (!p)
        return -ENOMEM;
    if (options)
        p->options = *options;
    struct prometheus_table_options table = {
        .names = p->options, .labels = add_labels, .label = add_label, .tail = add_no_target, .user = p};
    int r = prometheus_table_new(&p->table, batch, &table);
    if (r < 0) {
        free(p);
        return r;
    }
    p->n_families = prometheus_table_families(p->table, &p->families);
    *ret = p;
    return 0;
}

struct prometheus_page *prometheus_page_free(struct prometheus_page *p)
{
    if (!p)
        return NULL;
    prometheus_table_free(p->table);
    buffer_release(&p->labels);
    free(p);
    return NULL;
}

/* The head of a family, or one of its series. */
static int write_next(struct prometheus_page *p)
{
    const struct prometheus_family *f = &p->families[p->family];
    int r = 0;
    if (!p->begun) {
        p->next = p->n_series = 0;
        if (!gives_way(p, f))
            r = begin_family(p, f);
        p->begun = r == 0;
    } else if (p->next < p->n_series) {
        r = p->series ? write_series(p, f, &p->series[p->next]) : write_line(p, f, &p->lines[p->next]);
        p->next += r == 0;
    } else {
        p->family++;
        p->begun = false;
    }
    return r;
}

int prometheus_page_next(struct prometheus_page *p, size_t enough, struct buffer *out)
{
    const size_t until = out->n + enough;
    int r = 0;
    p->out = out;
    while (r == 0 && p->family < p->n_families && out->n < until) {
        size_t before = out->n;
        r = write_next(p);
        if (r < 0)
            out->n = before;
    }
    return r < 0 || p->family < p->n_families ? r : PROMETHEUS_PAGE_ENDS;
}

/* ---- our own text ---- */

/* `# HELP name_total text` and `# TYPE name_total counter` lose the suffix. */
static int rewrite_line(struct bytes line, struct buffer *out)
{
    bool head = bytes_starts(line, "# HELP ") || bytes_starts(line, "# TYPE ");
    size_t begin = sizeof "# HELP " - 1, end = begin;
    while (head && end < line.n && line.p[end] != ' ')
        end++;
    if (!head || !is_total(bytes_of(line.p + begin, end - begin)))
        return buffer_add_bytes(out, line);
    int r = buffer_add(out, line.p, end - TOTAL_LEN);
    return r < 0 ? r : buffer_add(out, line.p + end, line.n - end);
}

int prometheus_rewrite(struct bytes text, enum prometheus_format format, struct buffer *out)
{
    size_t before = out->n;
    int r = format == PROMETHEUS_TEXT ? buffer_add_bytes(out, text) : 0;
    for (size_t i = 0; r == 0 && format == PROMETHEUS_OPENMETRICS && i < text.n;) {
        const uint8_t *end = memchr(text.p + i, '\n', text.n - i);
        size_t n = end ? (size_t)(end - (text.p + i)) + 1 : text.n - i;
        r = rewrite_line(bytes_of(text.p + i, n), out);
        i += n;
    }
    if (r < 0)
        out->n = before;
    return r;
}

int prometheus_end(enum prometheus_format format, struct buffer *out)
{
    return format == PROMETHEUS_OPENMETRICS ? buffer_add_str(out, "# EOF\n") : 0;
}
