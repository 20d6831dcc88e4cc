/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/stats/stats.h"

#include <errno.h>
#include <inttypes.h>

#include "gateway/stats/histograms.h"
#include "gateway/stats/process.h"
#include "gateway/stats/producers.h"
#include "proto/base/clock.h"
#include "proto/base/macros.h"

enum stats_kind { COUNTER, GAUGE };

static const struct row {
    const char *name, *labels,
        *description; /* description: of the first row of a name, "" in those that follow it */
    enum stats_kind kind;
} rows[STATS_N] = {
#define STATS_ROW(id, name_, labels_, kind_, description_) {name_, labels_, description_, kind_},
    STATS_TABLE(STATS_ROW)
#undef STATS_ROW
};

/* Whether row i is the first of its name. */
static bool is_first(int i)
{
    for (int k = 0; k < i; k++)
        if (!strcmp(rows[k].name, rows[i].name))
            return false;
    return true;
}

/* ---- the process, as rows that are read rather than counted -------------------------------- */

struct process_row {
    const char *name, *otlp_name, *unit, *description;
    enum stats_kind kind;
    bool is_double;
    double real;
    uint64_t integer;
};

#define PROCESS_ROWS 7

static void process_rows(struct process_row row[PROCESS_ROWS])
{
    struct process_facts f;
    process_facts_read(&f);
    const struct process_row all[PROCESS_ROWS] = {
        {"process_cpu_seconds_total", "process.cpu.time", "s",
         "CPU time of the gateway itself, user and system", COUNTER, true, f.cpu_seconds, 0},
        {"process_resident_memory_bytes", "process.memory.usage", "By", "Resident memory of the gateway",
         GAUGE, false, 0, f.resident_bytes},
        {"process_virtual_memory_bytes", "process.memory.virtual", "By", "Virtual memory of the gateway",
         GAUGE, false, 0, f.virtual_bytes},
        {"process_threads", "process.thread.count", "{thread}", "Threads of the gateway", GAUGE, false, 0,
         f.threads},
        {"process_open_fds", "process.unix.file_descriptor.count", "{file_descriptor}",
         "File descriptors open now", GAUGE, false, 0, f.open_files},
        {"process_max_fds", "process.unix.file_descriptor.limit", "{file_descriptor}",
         "File descriptors that may be open", GAUGE, false, 0, f.max_files},
        {"process_start_time_seconds", "process.start_time", "s", "When the gateway started, in Unix time",
         GAUGE, true, f.start_seconds, 0},
    };
    memcpy(row, all, sizeof all);
}

/* ---- Prometheus text ----------------------------------------------------------------------- */

static const char *type_of(enum stats_kind kind)
{
    return kind == COUNTER ? "counter" : "gauge";
}

static void write_rows(struct exposition *x, int first)
{
    exposition_family(x, rows[first].name, type_of(rows[first].kind), rows[first].description);
    for (int i = first; i < STATS_N; i++) {
        bool labelled = rows[i].labels[0] != 0;
        if (!strcmp(rows[i].name, rows[first].name))
            exposition_print(x, "%s%s%s%s %" PRIu64 "\n", rows[i].name, labelled ? "{" : "", rows[i].labels,
                             labelled ? "}" : "", stats_read((enum stats_id)i));
    }
}

static void write_process(struct exposition *x)
{
    struct process_row row[PROCESS_ROWS];
    process_rows(row);
    for (int i = 0; i < PROCESS_ROWS; i++) {
        exposition_family(x, row[i].name, type_of(row[i].kind), row[i].description);
        if (row[i].is_double)
            exposition_print(x, "%s %.2f\n", row[i].name, row[i].real);
        else
            exposition_print(x, "%s %" PRIu64 "\n", row[i].name, row[i].integer);
    }
    exposition_family(x, "profgate_build_info", "gauge", "The version that runs");
    exposition_print(x, "profgate_build_info{version=\"%s\"} 1\n", PROFGATE_VERSION);
}

int stats_prometheus(struct buffer *out)
{
    const size_t before = out->n;
    struct exposition x = {.out = out};
    for (int i = 0; i < STATS_N; i++)
        if (is_first(i))
            write_rows(&x, i);
    producers_prometheus(&x);
    histograms_prometheus(&x);
    write_process(&x);
    if (x.r < 0)
        out->n = before;
    return x.r < 0 ? -ENOMEM : 0;
}

/* ---- OTLP ---------------------------------------------------------------------------------- */

/* `a="x",b="y"` as attributes. The table is ours: no value holds a quote. */
static int parse_labels(struct arena *arena, const char *labels, struct metric_point *point)
{
    uint32_t n = 0;
    for (const char *at = labels; (at = strchr(at, '=')); at++)
        n++;
    struct attr *attrs = arena_calloc(arena, n, sizeof *attrs);
    if (!attrs)
        return -ENOMEM;
    for (uint32_t i = 0; i < n; i++) {
        const char *equals = strchr(labels, '='), *value = equals + 2, *quote = strchr(value, '"');
        attrs[i] = (struct attr){bytes_of(labels, (size_t)(equals - labels)),
                                 {.kind = ATTR_STRING, .text = bytes_of(value, (size_t)(quote - value))}};
        labels = quote[1] ? quote + 2 : quote + 1;
    }
    point->attrs = attrs;
    point->n_attrs = n;
    return 0;
}

/* profgate_requests_total → profgate.requests; a Prometheus exporter behind the OTLP receiver makes it the
 * same again. */
static struct bytes otlp_name(struct arena *arena, const char *name)
{
    static const char prefix[] = "profgate_", total[] = "_total";
    size_t n = strlen(name);
    if (n > sizeof total && !strcmp(name + n - (sizeof total - 1), total))
        n -= sizeof total - 1;
    if (n < sizeof prefix)
        return arena_copy(arena, bytes_of(name, n));
    n -= sizeof prefix - 1;
    return bytes_str(arena_printf(arena, "profgate.%.*s", (int)n, name + sizeof prefix - 1));
}

static struct metric *metric_begin(struct metric_resource *res, struct bytes name, const char *description,
                                   const char *unit, enum stats_kind kind)
{
    struct metric *m = &res->metrics[res->n_metrics++];
    *m = (struct metric){.name = name,
                         .description = bytes_str(description),
                         .unit = bytes_str(unit),
                         .kind = kind == COUNTER ? METRIC_SUM : METRIC_GAUGE,
                         .temporality = METRIC_CUMULATIVE};
    return m;
}

static int fill_rows(struct arena *arena, struct metric_resource *res, int first, uint64_t start,
                     uint64_t now)
{
    uint32_t n = 0;
    for (int i = first; i < STATS_N; i++)
        n += !strcmp(rows[i].name, rows[first].name);
    bool bytes = strstr(rows[first].name, "_bytes") != NULL;
    struct metric *m = metric_begin(res, otlp_name(arena, rows[first].name), rows[first].description,
                                    bytes ? "By" : "", rows[first].kind);
    m->points = arena_calloc(arena, n, sizeof *m->points);
    if (!m->points || !m->name.p)
        return -ENOMEM;
    for (int i = first; i < STATS_N; i++) {
        if (strcmp(rows[i].name, rows[first].name) != 0)
            continue;
        struct metric_point *p = &m->points[m->n_points++];
        *p = (struct metric_point){.start_unix_nano = start,
                                   .time_unix_nano = now,
                                   .integer = (int64_t)stats_read((enum stats_id)i)};
        if (parse_labels(arena, rows[i].labels, p) < 0)
            return -ENOMEM;
    }
    return 0;
}

static int fill_producers(struct arena *arena, struct metric_resource *res, uint64_t start, uint64_t now)
{
    struct metric_point *points;
    uint32_t n;
    if (producers_points(arena, start, now, &points, &n) < 0)
        return -ENOMEM;
    if (n == 0)
        return 0;
    struct metric *m =
        metric_begin(res, otlp_name(arena, PRODUCERS_NAME), PRODUCERS_DESCRIPTION, "", COUNTER);
    m->points = points;
    m->n_points = n;
    return m->name.p ? 0 : -ENOMEM;
}

static int copy_attrs(struct arena *arena, const struct attr *attrs, uint32_t n, struct metric_resource *res)
{
    struct attr *copy = arena_calloc(arena, n, sizeof *copy);
    if (!copy)
        return -ENOMEM;
    for (uint32_t i = 0; i < n; i++) {
        copy[i] = attrs[i];
        copy[i].key = arena_copy(arena, attrs[i].key);
        enum attr_kind kind = attrs[i].value.kind;
        bool has_text =
            kind == ATTR_STRING || kind == ATTR_BYTES || kind == ATTR_ARRAY || kind == ATTR_KVLIST;
        if (has_text)
            copy[i].value.text = arena_copy(arena, attrs[i].value.text);
        if (!copy[i].key.p || (has_text && !copy[i].value.text.p))
            return -ENOMEM;
    }
    res->attrs = copy;
    res->n_attrs = n;
    return 0;
}

static int fill_process(struct arena *arena, struct metric_resource *res,
                        const struct process_row row[PROCESS_ROWS], uint64_t start, uint64_t now)
{
    struct metric_point *points = arena_calloc(arena, PROCESS_ROWS, sizeof *points);
    if (!points)
        return -ENOMEM;
    for (int i = 0; i < PROCESS_ROWS; i++) {
        struct metric *m =
            metric_begin(res, bytes_str(row[i].otlp_name), row[i].description, row[i].unit, row[i].kind);
        points[i] = (struct metric_point){
            .start_unix_nano = start, .time_unix_nano = now, .is_double = row[i].is_double};
        if (row[i].is_double)
            points[i].real = row[i].real;
        else
            points[i].integer = (int64_t)row[i].integer;
        m->points = &points[i];
        m->n_points = 1;
    }
    return 0;
}

struct metric_batch *stats_batch(const struct attr *resource, uint32_t n_attrs, uint64_t now_unix_nano,
                                 struct budget *budget)
{
    struct process_row row[PROCESS_ROWS];
    struct metric_batch *b = metric_batch_new(budget);
    if (!b)
        return NULL;
    process_rows(row);
    uint64_t start = (uint64_t)(row[PROCESS_ROWS - 1].real * NSEC_PER_SEC);
    start = min_of(start, now_unix_nano); /* the clock may have stepped back since */
    b->scope_name = BYTES_LIT("profgate");
    b->scope_version = BYTES_LIT(PROFGATE_VERSION);
    struct metric_resource *res = b->resources = arena_calloc(&b->arena, 1, sizeof *res);
    if (!res || copy_attrs(&b->arena, resource, n_attrs, res) < 0)
        return metric_batch_free(b);
    res->metrics =
        arena_calloc(&b->arena, STATS_N + PROCESS_ROWS + 1 + STATS_HISTOGRAMS, sizeof *res->metrics);
    bool ok = res->metrics && fill_process(&b->arena, res, row, start, now_unix_nano) == 0;
    for (int i = 0; ok && i < STATS_N; i++)
        ok = !is_first(i) || fill_rows(&b->arena, res, i, start, now_unix_nano) == 0;
    ok = ok && histograms_metrics(&b->arena, start, now_unix_nano, &res->metrics[res->n_metrics]) == 0;
    res->n_metrics += ok ? STATS_HISTOGRAMS : 0;
    ok = ok && fill_producers(&b->arena, res, start, now_unix_nano) == 0;
    if (!ok)
        return metric_batch_free(b);
    b->n_resources = 1;
    return b;
}

/* ---- delta --------------------------------------------------------------------------------- */

static const struct metric *same_metric(const struct metric_batch *b, const struct metric *m)
{
    const struct metric_resource *res = &b->resources[0];
    for (uint32_t i = 0; i < res->n_metrics; i++)
        if (bytes_eq(res->metrics[i].name, m->name))
            return &res->metrics[i];
    return NULL;
}

/* All our attributes are texts, in one order. */
static const struct metric_point *same_point(const struct metric *m, const struct metric_point *p)
{
    for (uint32_t i = 0; i < m->n_points; i++) {
        const struct metric_point *q = &m->points[i];
        uint32_t k = 0;
        while (k < p->n_attrs && k < q->n_attrs && bytes_eq(p->attrs[k].value.text, q->attrs[k].value.text))
            k++;
        if (k == p->n_attrs && k == q->n_attrs)
            return q;
    }
    return NULL;
}

static int subtract(struct arena *arena, struct metric_point *p, const struct metric_point *earlier,
                    enum metric_kind kind)
{
    if (kind == METRIC_SUM && p->is_double)
        p->real -= earlier->real;
    else if (kind == METRIC_SUM)
        p->integer -= earlier->integer;
    if (kind != METRIC_HISTOGRAM)
        return 0;
    const struct metric_distribution *was = earlier->distribution;
    struct metric_distribution *d = arena_calloc(arena, 1, sizeof *d);
    if (!d)
        return -ENOMEM;
    *d = *p->distribution;
    d->count -= was->count;
    d->sum -= was->sum;
    d->counts = arena_calloc(arena, d->n_bounds + 1, sizeof *d->counts);
    for (uint32_t i = 0; d->counts && i <= d->n_bounds; i++)
        d->counts[i] = p->distribution->counts[i] - was->counts[i];
    p->distribution = d;
    return d->counts ? 0 : -ENOMEM;
}

static int fill_delta(struct arena *arena, struct metric *m, const struct metric_batch *earlier)
{
    const struct metric *was = earlier ? same_metric(earlier, m) : NULL;
    struct metric_point *points = arena_calloc(arena, m->n_points, sizeof *points);
    if (!points)
        return -ENOMEM;
    memcpy(points, m->points, m->n_points * sizeof *points);
    m->points = points;
    if (m->kind == METRIC_GAUGE)
        return 0;
    m->temporality = METRIC_DELTA;
    int r = 0;
    for (uint32_t k = 0; k < m->n_points && r == 0; k++) {
        const struct metric_point *before = was ? same_point(was, &points[k]) : NULL;
        if (earlier)
            points[k].start_unix_nano = earlier->resources[0].metrics[0].points[0].time_unix_nano;
        if (before)
            r = subtract(arena, &points[k], before, m->kind);
    }
    return r;
}

struct metric_batch *stats_batch_since(const struct metric_batch *now, const struct metric_batch *earlier,
                                       struct budget *budget)
{
    struct metric_batch *b = metric_batch_new(budget);
    if (!b)
        return NULL;
    const struct metric_resource *from = &now->resources[0];
    struct metric_resource *res = arena_calloc(&b->arena, 1, sizeof *res);
    struct metric *metrics = arena_calloc(&b->arena, from->n_metrics, sizeof *metrics);
    if (!res || !metrics)
        return metric_batch_free(b);
    *res = *from;
    res->metrics = memcpy(metrics, from->metrics, from->n_metrics * sizeof *metrics);
    b->scope_name = now->scope_name;
    b->scope_version = now->scope_version;
    b->resources = res;
    b->n_resources = 1;
    for (uint32_t i = 0; i < res->n_metrics; i++)
        if (fill_delta(&b->arena, &metrics[i], earlier) < 0)
            return metric_batch_free(b);
    return b;
}
