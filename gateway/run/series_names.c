/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A metric holds two names: that of its samples, and in OpenMetrics that of its family, without _total. Both
 * must be free, in the order of definition.
 */
#include "gateway/run/series_names.h"

#include <errno.h>
#include <stdlib.h>

#include "gateway/stats/stats.h"
#include "proto/base/intern.h"
#include "proto/base/macros.h"
#include "rules/source/report.h"

#define OURS UINT32_MAX /* instead of a metric's number */

#define TOTAL     "_total"
#define TOTAL_LEN (sizeof TOTAL - 1)
#define PREFIX    "profgate_"

struct check {
    const struct rule_set *set;
    enum prometheus_strategy strategy;
    struct intern names;
    VEC(uint32_t) holders; /* of each name, a metric of the set or OURS */
    struct buffer raw, name;
};

static struct bytes family_of(struct bytes name)
{
    if (name.n > TOTAL_LEN && memcmp(name.p + name.n - TOTAL_LEN, TOTAL, TOTAL_LEN) == 0)
        name.n -= TOTAL_LEN;
    return name;
}

static int hold(struct check *c, struct bytes name, uint32_t holder)
{
    uint32_t id = intern_add(&c->names, name);
    if (id == INTERN_NONE || (id == c->holders.n && vec_append(&c->holders, holder) < 0))
        return -ENOMEM;
    return 0;
}

static int hold_with(struct check *c, struct bytes name, const char *suffix)
{
    c->name.n = 0;
    int r = buffer_printf(&c->name, "%.*s%s", BYTES_FMT(name), suffix);
    return r < 0 ? r : hold(c, buffer_bytes(&c->name), OURS);
}

/* Of a line `# TYPE NAME TYPE`; of others nothing. */
static int hold_line(struct check *c, struct bytes line)
{
    static const char head[] = "# TYPE ";
    static const char *const of_histograms[] = {"_bucket", "_count", "_sum"};
    if (!bytes_starts(line, head))
        return 0;
    struct bytes name = bytes_of(line.p + sizeof head - 1, line.n - (sizeof head - 1));
    const uint8_t *end = memchr(name.p, ' ', name.n);
    const size_t n = end ? (size_t)(end - name.p) : name.n;
    const bool is_histogram = end && bytes_starts(bytes_of(end, name.n - n), " histogram");
    name.n = n;
    int r = hold(c, name, OURS);
    if (r == 0)
        r = hold(c, family_of(name), OURS);
    for (size_t i = 0; is_histogram && r == 0 && i < ARRAY_LEN(of_histograms); i++)
        r = hold_with(c, name, of_histograms[i]);
    return r;
}

/* What the page says of ourselves, read from such a page; and target_info. What begins with PREFIX is ours
 * whether or not it is on this one. */
static int hold_ours(struct check *c)
{
    cleanup(buffer_release) struct buffer page = BUFFER_INIT(0);
    int r = stats_prometheus(&page);
    for (size_t i = 0; r == 0 && i < page.n;) {
        const uint8_t *end = memchr(page.p + i, '\n', page.n - i);
        const size_t n = end ? (size_t)(end - (page.p + i)) : page.n - i;
        r = hold_line(c, bytes_of(page.p + i, n));
        i += n + 1;
    }
    if (r == 0)
        r = hold(c, BYTES_LIT("target_info"), OURS);
    return r < 0 ? r : hold(c, BYTES_LIT("target"), OURS);
}

static bool find(const struct check *c, struct bytes name, uint32_t *ret)
{
    uint32_t id = intern_find(&c->names, name);
    *ret = id == INTERN_NONE ? OURS : c->holders.p[id];
    return id != INTERN_NONE || bytes_starts(name, PREFIX);
}

static void complain(const struct rule_set *set, const struct rule_metric *m, struct bytes family,
                     uint32_t holder, struct report *report)
{
    if (holder == OURS) {
        report_plain(report, "E137", m->place, "give it another name",
                     "Prometheus takes `%.*s` for a metric of profgate's own, %.*s", BYTES_FMT(m->name),
                     BYTES_FMT(family));
        return;
    }
    const struct rule_metric *other = &set->metrics[holder];
    report_plain(report, "E137", m->place, "rename one of them, or disable it",
                 "Prometheus takes `%.*s` and `%.*s` (%.*s:%u) for one metric, %.*s", BYTES_FMT(m->name),
                 BYTES_FMT(other->name), BYTES_FMT(set->files[other->place.file].name), other->place.line,
                 BYTES_FMT(family));
}

/* Leaves the name of its samples in c->name. */
static int name_metric(struct check *c, const struct rule_metric *m)
{
    c->raw.n = 0;
    c->name.n = 0;
    int r = prometheus_name(m->name, m->unit, m->gauge ? METRIC_GAUGE : METRIC_SUM, c->strategy, &c->raw);
    return r < 0 ? r
                 : prometheus_escape(buffer_bytes(&c->raw), PROMETHEUS_ESCAPE_UNDERSCORES, false, &c->name);
}

static int check_metric(struct check *c, uint32_t i, struct report *report)
{
    const struct rule_metric *m = &c->set->metrics[i];
    uint32_t holder;
    int r = name_metric(c, m);
    if (r < 0)
        return r;
    const struct bytes name = buffer_bytes(&c->name), family = m->gauge ? name : family_of(name);
    if (find(c, name, &holder) || find(c, family, &holder)) {
        complain(c->set, m, family, holder, report);
        return 0;
    }
    r = hold(c, name, i);
    return r < 0 ? r : hold(c, family, i);
}

int series_names_check(const struct rule_set *set, enum prometheus_strategy strategy,
                       struct rules_diagnostics *ret)
{
    struct check c = {.set = set, .strategy = strategy, .raw = BUFFER_INIT(0), .name = BUFFER_INIT(0)};
    autofree uint32_t *counts = calloc(2 * (size_t)set->n_files, sizeof *counts);
    struct report report = {.out = ret, .files = set->files, .errors = counts};
    if (!counts)
        return -ENOMEM;
    report.warnings = counts + set->n_files;
    int r = hold_ours(&c);
    for (uint32_t i = 0; i < set->n_metrics && r == 0; i++)
        if (set->metrics[i].enabled)
            r = check_metric(&c, i, &report);
    report_finish(&report);
    intern_release(&c.names);
    vec_release(&c.holders);
    buffer_release(&c.raw);
    buffer_release(&c.name);
    return r == 0 && report.oom ? -ENOMEM : r;
}
