/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/top/table.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "gateway/top/words.h"
#include "proto/base/macros.h"

#define ROWS_PLAIN   12u /* rows of a section when nothing limits the page */
#define BAR_CELLS    12u
#define SECTIONS_MAX 64u
#define COMMON_MAX   32u

/* What a family is about, for someone who never saw a profile; families not named here are titled by their
 * HELP. The order is the order on the page. */
static const struct {
    const char *family, *title;
} titles[] = {
    {"profile_cpu_time_seconds_total", "CPU by runtime and mode"},
    {"samples_kernel_count_total", "Kernel work"},
    {"samples_native_count_total", "Native libraries"},
    {"profile_gc_time_seconds_total", "Garbage collection"},
    {"profile_jit_time_seconds_total", "Just-in-time compilation"},
    {"profile_alloc_time_seconds_total", "Allocating memory"},
    {"profile_lock_time_seconds_total", "Locking"},
    {"profile_serialization_time_seconds_total", "Serialization (JSON, protobuf …)"},
    {"profile_compression_time_seconds_total", "Compression"},
    {"profile_crypto_time_seconds_total", "Cryptography"},
    {"profile_regex_time_seconds_total", "Regular expressions"},
    {"profile_logging_time_seconds_total", "Logging"},
    {"profile_database_time_seconds_total", "Database clients"},
    {"profile_rpc_time_seconds_total", "Remote calls"},
    {"profile_offcpu_time_seconds_total", "Waiting (off CPU)"},
};

/* clang-format off */
/* Labels of where something ran, by the short names people use. They stand behind a metric's own. */
static const struct {
    const char *label, *shown;
} places[] = {
    {"process_executable_name", "process"}, {"job", "service"},          {"instance", "instance"},
    {"k8s_pod_name", "pod"},                {"k8s_namespace_name", "namespace"}, {"k8s_node_name", "node"},
    {"k8s_container_name", "container"},    {"k8s_deployment_name", "deployment"}, {"k8s_cluster_name", "cluster"},
    {"k8s_daemonset_name", "daemonset"},    {"container_name", "container"}, {"container_id", "container"},
    {"deployment_environment_name", "environment"}, {"host_name", "host"},
};
/* clang-format on */

struct row {
    const struct top_sample *sample;
    double amount;  /* per second of a counter; the value of a gauge */
    uint32_t order; /* of its section */
};

struct section {
    const struct top_family *family;
    struct row *rows; /* the greatest first */
    uint32_t n_rows, shown;
    double total;
    uint32_t order;
};

struct table {
    const struct top_view *view;
    const struct top_page *before, *now;
    double seconds;
    struct row *rows;
    uint32_t n_rows;
    struct section sections[SECTIONS_MAX];
    uint32_t n_sections;
    struct buffer line; /* one line, without colours' escapes being counted: see columns() */
};

/* ---- lines ---- */

/* Appends somebody else's text: escapes of the text format undone, control characters (C0, DEL, C1 and what
 * is not UTF-8) shown as '?'. */
static int add_foreign(struct buffer *out, struct bytes text)
{
    bool utf8 = bytes_is_utf8(text);
    int r = 0;
    for (size_t i = 0; r == 0 && i < text.n; i++) {
        uint8_t c = text.p[i];
        if (c == '\\' && i + 1 < text.n) {
            c = text.p[++i];
            if (c == 'n')
                c = ' ';
        }
        bool c1 = c == 0xc2 && i + 1 < text.n && text.p[i + 1] < 0xa0;
        if (c < 0x20 || c == 0x7f || (c >= 0x80 && !utf8) || c1) {
            i += c1;
            c = '?';
        }
        r = buffer_add(out, &c, 1);
    }
    return r;
}

/* Appends the line cut to the width (a code point is a column), and ends it. */
static int flush_line(struct table *t, struct buffer *out, const char *color)
{
    size_t columns = 0, n = 0;
    for (; n < t->line.n; n++) {
        if ((t->line.p[n] & 0xc0) != 0x80 && ++columns > t->view->width)
            break;
    }
    bool colored = color && t->view->color;
    int r = buffer_printf(out, "%s%.*s%s\n", colored ? color : "", (int)n,
                          t->line.p ? (const char *)t->line.p : "", colored ? "\x1b[0m" : "");
    t->line.n = 0;
    return r;
}

/* A bar of eighths. */
static int add_bar(struct buffer *out, double share)
{
    static const char *const part[] = {" ", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
    share = share > 0 ? min_of(share, 1.0) : 0;
    uint32_t eighths = (uint32_t)(share * BAR_CELLS * 8 + 0.5);
    int r = 0;
    for (uint32_t i = 0; r == 0 && i < BAR_CELLS; i++) {
        r = buffer_add_str(out, eighths >= 8 ? "█" : part[eighths]);
        eighths -= min_of(eighths, 8u);
    }
    return r;
}

/* ---- the model ---- */

static uint32_t order_of(struct bytes family)
{
    for (uint32_t i = 0; i < ARRAY_LEN(titles); i++)
        if (bytes_is(family, titles[i].family))
            return i;
    return ARRAY_LEN(titles);
}

static bool is_shown(const struct top_family *f)
{
    return f->type != TOP_UNTYPED && !bytes_starts(f->name, "profgate_") &&
           !bytes_starts(f->name, "process_") && !bytes_is(f->name, "target_info");
}

static int by_family_then_amount(const void *a, const void *b)
{
    const struct row *x = a, *y = b;
    if (x->sample->family != y->sample->family)
        return x->sample->family < y->sample->family ? -1 : 1;
    if (x->amount != y->amount)
        return x->amount > y->amount ? -1 : 1;
    return bytes_compare(x->sample->key, y->sample->key);
}

/* The values of a page by key. */
static int index_page(const struct top_page *page, struct intern *keys, double **ret_values)
{
    double *values = calloc(page->n_samples + 1, sizeof *values);
    if (!values)
        return -ENOMEM;
    for (uint32_t i = 0; i < page->n_samples; i++) {
        uint32_t id = intern_add(keys, page->samples[i].key);
        if (id == INTERN_NONE) {
            free(values);
            return -ENOMEM;
        }
        values[id] = page->samples[i].value;
    }
    *ret_values = values;
    return 0;
}

static double amount_of(const struct table *t, const struct top_sample *s, const struct intern *keys,
                        const double *old)
{
    if (t->now->families[s->family].type == TOP_GAUGE)
        return s->value;
    uint32_t id = intern_find(keys, s->key);
    double was = id == INTERN_NONE ? 0 : old[id];
    return (s->value >= was ? s->value - was : s->value) / t->seconds; /* smaller: it began anew */
}

static int find_rows(struct table *t)
{
    struct intern keys = INTERN_INIT(NULL);
    double *old = NULL;
    t->rows = calloc(t->now->n_samples + 1, sizeof *t->rows);
    int r = t->rows ? index_page(t->before, &keys, &old) : -ENOMEM;
    for (uint32_t i = 0; r == 0 && i < t->now->n_samples; i++) {
        const struct top_sample *s = &t->now->samples[i];
        double amount = is_shown(&t->now->families[s->family]) ? amount_of(t, s, &keys, old) : 0;
        if (isfinite(amount) && amount > 0)
            t->rows[t->n_rows++] = (struct row){s, amount, 0};
    }
    if (r == 0)
        qsort(t->rows, t->n_rows, sizeof *t->rows, by_family_then_amount);
    free(old);
    intern_release(&keys);
    return r;
}

static int by_order_then_name(const void *a, const void *b)
{
    const struct section *x = a, *y = b;
    if (x->order != y->order)
        return x->order < y->order ? -1 : 1;
    return bytes_compare(x->family->name, y->family->name);
}

static void find_sections(struct table *t)
{
    for (uint32_t i = 0, j; i < t->n_rows && t->n_sections < SECTIONS_MAX; i = j) {
        struct section s = {.family = &t->now->families[t->rows[i].sample->family], .rows = &t->rows[i]};
        for (j = i; j < t->n_rows && t->rows[j].sample->family == t->rows[i].sample->family; j++)
            s.total += t->rows[j].amount;
        s.n_rows = j - i;
        s.order = order_of(s.family->name);
        t->sections[t->n_sections++] = s;
    }
    qsort(t->sections, t->n_sections, sizeof *t->sections, by_order_then_name);
}

/* How many rows of each section fit: a row each in turn, so that no section starves. Each has a blank line
 * and a heading. Sections that have no place for a single row are left out. */
static void share_lines(struct table *t, uint32_t used)
{
    uint32_t free_lines = t->view->height > used ? t->view->height - used : 0;
    bool unlimited = t->view->height == 0;
    for (uint32_t i = 0; i < t->n_sections; i++) {
        if (unlimited) {
            t->sections[i].shown = min_of(t->sections[i].n_rows, ROWS_PLAIN);
        } else if (free_lines >= 3) {
            t->sections[i].shown = 1;
            free_lines -= 3;
        }
    }
    for (bool given = true; !unlimited && given && free_lines > 0;) {
        given = false;
        for (uint32_t i = 0; i < t->n_sections && free_lines > 0; i++) {
            struct section *s = &t->sections[i];
            if (s->shown == 0 || s->shown >= s->n_rows)
                continue;
            s->shown++;
            free_lines--;
            given = true;
        }
    }
}

/* ---- drawing ---- */

struct label {
    struct bytes name, value;
};

static bool has_label(struct bytes labels, const struct label *wanted)
{
    struct label l;
    uint32_t n = 0;
    while (n++ < TOP_LABELS_MAX && top_label_next(&labels, &l.name, &l.value))
        if (bytes_eq(l.name, wanted->name))
            return bytes_eq(l.value, wanted->value);
    return false;
}

/* The labels that all rows shown of a section have alike: said once, in the heading. */
static uint32_t common_labels(const struct section *s, struct label common[COMMON_MAX])
{
    uint32_t n = 0;
    struct bytes rest = s->rows[0].sample->labels;
    struct label l;
    while (s->n_rows > 1 && n < COMMON_MAX && top_label_next(&rest, &l.name, &l.value)) {
        bool everywhere = true;
        for (uint32_t i = 1; everywhere && i < s->n_rows; i++)
            everywhere = has_label(s->rows[i].sample->labels, &l);
        if (everywhere)
            common[n++] = l;
    }
    return n;
}

static const char *place_name(struct bytes label)
{
    for (size_t i = 0; i < ARRAY_LEN(places); i++)
        if (bytes_is(label, places[i].label))
            return places[i].shown;
    return NULL;
}

static int add_label(struct buffer *out, const struct label *l)
{
    const char *place = place_name(l->name);
    int r = buffer_add_str(out, "  ");
    if (r == 0)
        r = place ? buffer_add_str(out, place) : add_foreign(out, l->name);
    if (r == 0)
        r = buffer_add_str(out, "=");
    return r < 0 ? r : add_foreign(out, l->value);
}

/* profsend calls a service that has no name by its executable: once is enough. */
static bool is_said_twice(struct bytes labels, const struct label *l)
{
    struct label job = {BYTES_LIT("job"), l->value};
    return bytes_is(l->name, "process_executable_name") && has_label(labels, &job);
}

/* The labels that are not common: the metric's own first, then where it ran. */
static int add_labels(struct buffer *out, struct bytes labels, const struct label *common, uint32_t n_common)
{
    int r = 0;
    for (int places_now = 0; r == 0 && places_now < 2; places_now++) {
        struct bytes rest = labels;
        struct label l;
        uint32_t seen = 0;
        while (r == 0 && seen++ < TOP_LABELS_MAX && top_label_next(&rest, &l.name, &l.value)) {
            bool is_common = is_said_twice(labels, &l);
            for (uint32_t i = 0; i < n_common && !is_common; i++)
                is_common = bytes_eq(common[i].name, l.name);
            if (!is_common && (place_name(l.name) != NULL) == places_now)
                r = add_label(out, &l);
        }
    }
    return r;
}

static int draw_heading(struct table *t, const struct section *s, const struct label *common,
                        uint32_t n_common, struct buffer *out)
{
    char total[32];
    top_amount(s->family, s->total, total);
    int r = 0;
    if (s->order < ARRAY_LEN(titles))
        r = buffer_add_str(&t->line, titles[s->order].title);
    else
        r = add_foreign(&t->line, s->family->help.n ? s->family->help : s->family->name);
    if (r == 0)
        r = buffer_printf(&t->line, ": %s", total);
    for (uint32_t i = 0; r == 0 && i < n_common; i++)
        r = add_label(&t->line, &common[i]);
    if (r == 0 && s->shown < s->n_rows)
        r = buffer_printf(&t->line, "   (%u of %u shown)", s->shown, s->n_rows);
    return r < 0 ? r : flush_line(t, out, "\x1b[1m");
}

static int draw_section(struct table *t, const struct section *s, struct buffer *out)
{
    struct label common[COMMON_MAX];
    uint32_t n_common = common_labels(s, common);
    int r = flush_line(t, out, NULL);
    if (r == 0)
        r = draw_heading(t, s, common, n_common, out);
    for (uint32_t i = 0; r == 0 && i < s->shown; i++) {
        const struct row *row = &s->rows[i];
        double share = s->total > 0 ? row->amount / s->total : 0;
        char amount[32];
        top_amount(s->family, row->amount, amount);
        r = buffer_printf(&t->line, "%14s %5.1f%% ", amount, 100 * share);
        if (r == 0)
            r = add_bar(&t->line, share);
        size_t before = t->line.n;
        if (r == 0)
            r = add_labels(&t->line, row->sample->labels, common, n_common);
        if (r == 0 && t->line.n == before)
            r = buffer_add_str(&t->line, "  (all)");
        if (r == 0)
            r = flush_line(t, out, NULL);
    }
    return r;
}

/* The rate of everything under a name of the gateway's own. */
static double own_rate(const struct table *t, const char *name)
{
    double was = top_page_sum(t->before, name, 0), is = top_page_sum(t->now, name, 0);
    return (is >= was ? is - was : is) / t->seconds;
}

#define HEADER_LINES 2u

static int draw_header(struct table *t, double now_unix, struct buffer *out)
{
    char up[24], rss[16], samples[16], requests[16], in[16], series[16], cpu[16];
    double start = top_page_sum(t->now, "process_start_time_seconds", now_unix);
    top_duration(now_unix - start, up);
    top_bytes(top_page_sum(t->now, "process_resident_memory_bytes", 0), rss);
    top_number(own_rate(t, "process_cpu_seconds_total"), cpu);
    top_number(own_rate(t, "profgate_samples_total"), samples);
    top_number(own_rate(t, "profgate_requests_total"), requests);
    top_bytes(own_rate(t, "profgate_request_bytes_total"), in);
    top_number(top_page_sum(t->now, "profgate_series", 0), series);
    int r = buffer_printf(&t->line, "profgate top  ");
    if (r == 0)
        r = add_foreign(&t->line, bytes_str(t->view->url));
    if (r == 0)
        r = buffer_printf(&t->line, "   up %s   memory %s   cpu %s cores", up, rss, cpu);
    if (r == 0)
        r = flush_line(t, out, "\x1b[7m");
    if (r == 0)
        r = buffer_printf(&t->line, "%s samples/s   %s requests/s   %s/s in   %s series   over %.1f s",
                          samples, requests, in, series, t->seconds);
    return r < 0 ? r : flush_line(t, out, NULL);
}

static int draw(struct table *t, double now_unix, struct buffer *out)
{
    int r = draw_header(t, now_unix, out);
    for (uint32_t i = 0; r == 0 && i < t->n_sections; i++)
        if (t->sections[i].shown > 0)
            r = draw_section(t, &t->sections[i], out);
    if (r < 0 || t->n_sections > 0)
        return r;
    r = flush_line(t, out, NULL);
    if (r == 0)
        r = buffer_add_str(&t->line,
                           own_rate(t, "profgate_samples_total") > 0
                               ? "Samples arrive; what they count comes with the next hand-over."
                               : "Nothing was counted meanwhile: does a profiler send to this gateway?");
    return r < 0 ? r : flush_line(t, out, NULL);
}

int top_table(const struct top_view *view, const struct top_page *before, const struct top_page *now,
              double seconds, double now_unix, struct buffer *out)
{
    struct table *t = calloc(1, sizeof *t); /* large: not for the stack */
    if (!t)
        return -ENOMEM;
    *t = (struct table){.view = view, .before = before, .now = now, .seconds = seconds};
    int r = find_rows(t);
    if (r == 0) {
        find_sections(t);
        share_lines(t, HEADER_LINES);
        r = draw(t, now_unix, out);
    }
    free(t->rows);
    buffer_release(&t->line);
    free(t);
    return r < 0 ? -ENOMEM : 0;
}
