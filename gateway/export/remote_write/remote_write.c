/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/export/remote_write/remote_write.h"

#include <errno.h>
#include <stdlib.h>

#include "gateway/export/prometheus/table.h"
#include "proto/base/clock.h"
#include "proto/base/macros.h"
#include "proto/wire/writer.h"

/* What a series takes beside its strings: tags, lengths, numbers, an exemplar's ids, metadata. */
#define SERIES_FIXED 224u
/* What a string takes beside itself: tag and length, and where it is referred to. */
#define STRING_FIXED 12u

struct remote_write {
    enum remote_write_version version;
    struct prometheus_table *table;
    const struct prometheus_family *families;
    const struct prometheus_series *series; /* of the family `loaded` */
    uint32_t n_families, n_series, loaded;
    uint32_t family, next; /* where the next request begins: a series of a family */
    struct intern symbols; /* of the request being written; 0 is "" */
    struct buffer body;    /* its series */
};

/* ---- a series' labels: each name and value behind its length ---- */

static int add_text(struct buffer *out, struct bytes text)
{
    uint32_t n = (uint32_t)text.n;
    int r = text.n > UINT32_MAX ? -ENOBUFS : buffer_add(out, &n, sizeof n);
    return r < 0 ? r : buffer_add_bytes(out, text);
}

static struct bytes take_text(struct bytes *rest)
{
    uint32_t n;
    memcpy(&n, rest->p, sizeof n);
    struct bytes text = bytes_of(rest->p + sizeof n, n);
    *rest = bytes_of(text.p + n, rest->n - sizeof n - n);
    return text;
}

static int add_pair(struct buffer *out, struct bytes name, struct bytes value)
{
    int r = add_text(out, name);
    return r < 0 ? r : add_text(out, value);
}

/* With the metric's name in its place: receivers want all of them sorted, and capitals stand before '_'. */
static int add_labels(void *user, const struct prometheus_family *family,
                      const struct prometheus_label *labels, uint32_t n, struct buffer *out)
{
    const struct bytes name = BYTES_LIT("__name__");
    bool named = false;
    int r = 0;
    for (uint32_t i = 0; r == 0 && i < n; i++) {
        if (!named && bytes_compare(labels[i].name, name) > 0) {
            named = true;
            r = add_pair(out, name, family->name);
        }
        if (r == 0)
            r = add_pair(out, labels[i].name, labels[i].value);
    }
    return r < 0 || named ? r : add_pair(out, name, family->name);
}

/* ---- writing ---- */

static int64_t milliseconds(uint64_t ns)
{
    return (int64_t)(ns / NSEC_PER_MSEC);
}

static double series_value(const struct prometheus_series *s)
{
    uint64_t stale = REMOTE_WRITE_STALE;
    double v = prometheus_value(s);
    if (s->stale)
        memcpy(&v, &stale, sizeof v);
    return v;
}

/* An id in hex, as an exemplar's label value. */
static struct bytes id_text(const uint8_t *id, size_t n, char text[32])
{
    uint8_t any = 0;
    bytes_to_hex(bytes_of(id, n), text);
    for (size_t i = 0; i < n; i++)
        any |= id[i];
    return bytes_of(text, any ? 2 * n : 0);
}

static void put_label(struct wire_writer *w, struct bytes name, struct bytes value)
{
    size_t mark = wire_begin(w, 1);
    wire_put_bytes(w, 1, name);
    wire_put_bytes(w, 2, value);
    wire_end(w, mark);
}

static void put_exemplar_1(struct wire_writer *w, const struct prometheus_series *s)
{
    char trace[32], span[32];
    struct bytes span_id = id_text(s->exemplar.span_id, sizeof s->exemplar.span_id, span);
    size_t mark = wire_begin(w, 3);
    if (span_id.n > 0)
        put_label(w, BYTES_LIT("span_id"), span_id);
    put_label(w, BYTES_LIT("trace_id"), id_text(s->exemplar.trace_id, sizeof s->exemplar.trace_id, trace));
    wire_put_double(w, 2, s->exemplar_value);
    wire_put_int(w, 3, milliseconds(s->exemplar.time_unix_nano));
    wire_end(w, mark);
}

/* prometheus.TimeSeries */
static void put_series_1(struct wire_writer *w, const struct prometheus_series *s)
{
    size_t mark = wire_begin(w, 1);
    for (struct bytes rest = s->labels; rest.n > 0;) {
        struct bytes name = take_text(&rest), value = take_text(&rest);
        put_label(w, name, value);
    }
    size_t sample = wire_begin(w, 2);
    wire_put_double(w, 1, series_value(s));
    wire_put_int(w, 2, milliseconds(s->time_unix_nano));
    wire_end(w, sample);
    if (s->has_exemplar && !s->stale)
        put_exemplar_1(w, s);
    wire_end(w, mark);
}

/* The number of a string in the request; a failure is the writer's. */
static uint32_t symbol(struct remote_write *r, struct wire_writer *w, struct bytes text)
{
    uint32_t id = intern_add(&r->symbols, text);
    if (id == INTERN_NONE && w->failed == 0)
        w->failed = -ENOMEM;
    return id;
}

static void put_exemplar_2(struct remote_write *r, struct wire_writer *w, const struct prometheus_series *s)
{
    char trace[32], span[32];
    struct bytes trace_id = id_text(s->exemplar.trace_id, sizeof s->exemplar.trace_id, trace);
    struct bytes span_id = id_text(s->exemplar.span_id, sizeof s->exemplar.span_id, span);
    size_t mark = wire_begin(w, 4), refs = wire_begin(w, 1);
    if (span_id.n > 0) {
        wire_put_varint(w, symbol(r, w, BYTES_LIT("span_id")));
        wire_put_varint(w, symbol(r, w, span_id));
    }
    wire_put_varint(w, symbol(r, w, BYTES_LIT("trace_id")));
    wire_put_varint(w, symbol(r, w, trace_id));
    wire_end(w, refs);
    wire_put_double(w, 2, s->exemplar_value);
    wire_put_int(w, 3, milliseconds(s->exemplar.time_unix_nano));
    wire_end(w, mark);
}

/* io.prometheus.write.v2.Metadata: COUNTER is 1, GAUGE 2, INFO 6. */
static void put_metadata(struct remote_write *r, struct wire_writer *w, const struct prometheus_family *f)
{
    size_t mark = wire_begin(w, 5);
    wire_put_uint(w, 1, f->is_target ? 6 : f->kind == METRIC_SUM ? 1 : 2);
    wire_put_uint_nonzero(w, 3, symbol(r, w, f->help));
    wire_put_uint_nonzero(w, 4, symbol(r, w, f->unit));
    wire_end(w, mark);
}

/* io.prometheus.write.v2.TimeSeries. When a counter began stands in the sample since 2.0-rc.4 and stood in
 * the series before: readers of either do not know the other's field and skip it. */
static void put_series_2(struct remote_write *r, struct wire_writer *w, const struct prometheus_family *f,
                         const struct prometheus_series *s)
{
    int64_t start = f->kind == METRIC_SUM ? milliseconds(s->start_unix_nano) : 0;
    size_t mark = wire_begin(w, 5), refs = wire_begin(w, 1);
    for (struct bytes rest = s->labels; rest.n > 0;)
        wire_put_varint(w, symbol(r, w, take_text(&rest)));
    wire_end(w, refs);
    size_t sample = wire_begin(w, 2);
    wire_put_double(w, 1, series_value(s));
    wire_put_int(w, 2, milliseconds(s->time_unix_nano));
    wire_put_int_nonzero(w, 3, start);
    wire_end(w, sample);
    if (s->has_exemplar && !s->stale)
        put_exemplar_2(r, w, s);
    put_metadata(r, w, f);
    wire_put_int_nonzero(w, 6, start);
    wire_end(w, mark);
}

/* What a series adds at most: every string of it, as if none were there yet. */
static size_t series_cost(const struct prometheus_family *f, const struct prometheus_series *s)
{
    size_t strings = 0;
    for (struct bytes rest = s->labels; rest.n > 0; take_text(&rest))
        strings++;
    return s->labels.n + f->help.n + f->unit.n + strings * STRING_FIXED + SERIES_FIXED;
}

/* ---- requests ---- */

int remote_write_new(struct remote_write **ret, const struct metric_batch *batch,
                     enum remote_write_version version, const struct prometheus_options *options)
{
    struct remote_write *w = calloc(1, sizeof *w);
    if (!w)
        return -ENOMEM;
    struct prometheus_table_options table = {.names = *options, .keep_stale = true, .labels = add_labels};
    table.names.escaping = PROMETHEUS_ALLOW_UTF8;
    w->version = version;
    w->symbols = (struct intern)INTERN_INIT(batch->arena.budget);
    w->loaded = UINT32_MAX;
    int r = prometheus_table_new(&w->table, batch, &table);
    if (r < 0) {
        remote_write_free(w);
        return r;
    }
    w->n_families = prometheus_table_families(w->table, &w->families);
    *ret = w;
    return 0;
}

struct remote_write *remote_write_free(struct remote_write *w)
{
    if (!w)
        return NULL;
    prometheus_table_free(w->table);
    intern_release(&w->symbols);
    buffer_release(&w->body);
    free(w);
    return NULL;
}

/* The series to write next, or NULL at the end; steps over families without any. 0 or -ENOMEM. */
static int current(struct remote_write *w, const struct prometheus_series **ret)
{
    for (*ret = NULL; w->family < w->n_families; w->family++, w->next = 0) {
        if (w->loaded != w->family) {
            w->loaded = UINT32_MAX;
            int r = prometheus_table_series(w->table, w->family, &w->series, &w->n_series);
            if (r < 0)
                return r;
            w->loaded = w->family;
        }
        if (w->next < w->n_series) {
            *ret = &w->series[w->next];
            return 0;
        }
    }
    return 0;
}

/* The series of a request into body, the strings of a 2.0 one into symbols. */
static int write_series(struct remote_write *w, size_t max_bytes, uint32_t *ret_series)
{
    struct wire_writer writer = wire_writer(&w->body);
    const struct prometheus_series *s;
    size_t bytes = 0;
    int r = 0;
    for (*ret_series = 0; writer.failed == 0 && (r = current(w, &s)) == 0 && s; ++*ret_series) {
        const struct prometheus_family *f = &w->families[w->family];
        size_t cost = series_cost(f, s);
        if (*ret_series > 0 && (cost > max_bytes || bytes > max_bytes - cost))
            break;
        bytes += cost;
        if (w->version == REMOTE_WRITE_1)
            put_series_1(&writer, s);
        else
            put_series_2(w, &writer, f, s);
        w->next++;
    }
    return r < 0 ? r : writer.failed;
}

int remote_write_next(struct remote_write *w, size_t max_bytes, struct buffer *out, uint32_t *ret_series)
{
    const uint32_t family = w->family, next = w->next;
    size_t before = out->n;
    w->body.n = 0;
    intern_clear(&w->symbols);
    int r = intern_add(&w->symbols, BYTES_LIT("")) == INTERN_NONE ? -ENOMEM : 0;
    if (r == 0)
        r = write_series(w, max_bytes, ret_series);
    struct wire_writer request = wire_writer(out);
    for (uint32_t i = 0; r == 0 && w->version == REMOTE_WRITE_2 && *ret_series > 0 && i < w->symbols.n; i++)
        wire_put_bytes(&request, 4, intern_get(&w->symbols, i));
    if (r == 0)
        wire_put_raw(&request, buffer_bytes(&w->body));
    r = r < 0 ? r : request.failed;
    if (r < 0) {
        out->n = before;
        w->family = family;
        w->next = next;
    }
    return r;
}
