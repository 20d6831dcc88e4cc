#include "gateway/export/prometheus.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "proto/base/intern.h"
#include "proto/base/macros.h"

/* More labels than a resource's and a label set's attributes together do not occur (gateway/aggregate bounds
 * each at 256); what is beyond is left out. */
#define LABELS_MAX 520u

struct label {
    struct bytes key;  /* as the attribute says: the order of joined values */
    struct bytes name; /* as Prometheus says */
    struct bytes value;
};

struct family {
    struct bytes name, help;
    enum metric_kind kind;
    bool conflict;
    uint32_t first, last; /* series, linked; NO_SERIES when there is none */
};

struct series {
    struct bytes labels; /* `{a="b"}` or empty */
    uint32_t next;
    bool is_double;
    int64_t integer;
    double real;
};

#define NO_SERIES UINT32_MAX

struct writer {
    const struct metric_batch *batch;
    struct prometheus_options options;
    struct arena arena;
    struct intern names;      /* of families */
    struct intern ids;        /* labels + family number (4 bytes) → series number */
    struct intern target_ids; /* job, 0, instance → target number */
    struct target *targets;
    uint32_t cap_targets;
    struct family *families;
    struct series *series;
    uint32_t cap_families, cap_series;
    struct buffer scratch;
    struct label resource[LABELS_MAX]; /* of the resource being written */
    uint32_t n_resource;
    struct label set[LABELS_MAX];
    uint32_t n_set;
};

/* ---- labels ---- */

static struct bytes hex_text(struct arena *arena, struct bytes raw)
{
    static const char digits[] = "0123456789abcdef";
    uint8_t *p = raw.n > SIZE_MAX / 4 ? NULL : arena_alloc(arena, raw.n * 2);
    for (size_t i = 0; p && i < raw.n; i++) {
        p[2 * i] = (uint8_t)digits[raw.p[i] >> 4];
        p[2 * i + 1] = (uint8_t)digits[raw.p[i] & 15];
    }
    return bytes_of(p, p ? raw.n * 2 : 0);
}

/* The shortest decimal that reads back as the same double. */
static void shortest(double v, char text[32])
{
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(text, 32, "%.*g", digits, v);
        if (strtod(text, NULL) == v)
            return;
    }
}

static void double_text(double v, char text[32])
{
    if (isnan(v))
        strcpy(text, "NaN");
    else if (isinf(v))
        strcpy(text, v > 0 ? "+Inf" : "-Inf");
    else
        shortest(v, text);
}

/* An attribute value as a label; .p NULL when memory is out. Lists and maps are shown as the hex of their
 * message: the projections keep none by default, and a value must not vanish silently. */
static struct bytes value_text(struct arena *arena, const struct attr_value *v)
{
    char text[32] = "";
    switch (v->kind) {
    case ATTR_STRING: return v->text.p ? v->text : BYTES_LIT("");
    case ATTR_BYTES:
    case ATTR_ARRAY:
    case ATTR_KVLIST: return hex_text(arena, v->text);
    case ATTR_BOOL: return v->boolean ? BYTES_LIT("true") : BYTES_LIT("false");
    case ATTR_INT: snprintf(text, sizeof text, "%" PRId64, v->integer); break;
    case ATTR_DOUBLE: double_text(v->real, text); break;
    case ATTR_EMPTY: break;
    }
    return arena_copy(arena, bytes_str(text));
}

static int label_add(struct writer *w, struct label *list, uint32_t *n, struct bytes key, const char *name,
                     struct bytes value)
{
    if (*n >= LABELS_MAX)
        return 0;
    struct bytes final = bytes_str(name);
    if (!name) {
        w->scratch.n = 0;
        int r = prometheus_label_name(key, &w->scratch);
        if (r < 0)
            return r;
        struct bytes made = buffer_bytes(&w->scratch);
        final = bytes_is(made, "job")        ? BYTES_LIT("exported_job")
                : bytes_is(made, "instance") ? BYTES_LIT("exported_instance")
                                             : arena_copy(&w->arena, made);
    }
    if (!final.p || !value.p)
        return -ENOMEM;
    list[(*n)++] = (struct label){key, final, value};
    return 0;
}

static const struct attr *attr_find(const struct attr *attrs, uint32_t n, const char *key)
{
    for (uint32_t i = 0; i < n; i++)
        if (bytes_is(attrs[i].key, key))
            return &attrs[i];
    return NULL;
}

static bool makes_target(struct bytes key)
{
    return bytes_is(key, "service.name") || bytes_is(key, "service.namespace") ||
           bytes_is(key, "service.instance.id");
}

static int target_labels(struct writer *w, const struct metric_resource *res)
{
    const struct attr *name = attr_find(res->attrs, res->n_attrs, "service.name");
    const struct attr *space = attr_find(res->attrs, res->n_attrs, "service.namespace");
    const struct attr *instance = attr_find(res->attrs, res->n_attrs, "service.instance.id");
    int r = 0;
    if (name) {
        struct bytes job = value_text(&w->arena, &name->value);
        struct bytes prefix = space ? value_text(&w->arena, &space->value) : (struct bytes){0};
        if (job.p && prefix.n > 0)
            job = bytes_str(arena_printf(&w->arena, "%.*s/%.*s", BYTES_FMT(prefix), BYTES_FMT(job)));
        r = label_add(w, w->resource, &w->n_resource, BYTES_LIT("job"), "job", job);
    }
    if (r == 0 && instance)
        r = label_add(w, w->resource, &w->n_resource, BYTES_LIT("instance"), "instance",
                      value_text(&w->arena, &instance->value));
    return r;
}

/* The labels that every series of a resource has. */
static int resource_labels(struct writer *w, const struct metric_resource *res)
{
    w->n_resource = 0;
    int r = target_labels(w, res);
    for (uint32_t i = 0; r == 0 && i < res->n_attrs; i++)
        if (!makes_target(res->attrs[i].key))
            r = label_add(w, w->resource, &w->n_resource, res->attrs[i].key, NULL,
                          value_text(&w->arena, &res->attrs[i].value));
    if (r == 0 && w->options.scope_labels) {
        r = label_add(w, w->resource, &w->n_resource, BYTES_LIT("otel_scope_name"), "otel_scope_name",
                      w->batch->scope_name);
        if (r == 0)
            r = label_add(w, w->resource, &w->n_resource, BYTES_LIT("otel_scope_version"),
                          "otel_scope_version", w->batch->scope_version);
    }
    return r;
}

static int by_name_then_key(const void *a, const void *b)
{
    const struct label *x = a, *y = b;
    int r = bytes_compare(x->name, y->name);
    return r ? r : bytes_compare(x->key, y->key);
}

static int add_escaped(struct buffer *out, struct bytes text, bool quotes)
{
    size_t from = 0;
    int r = 0;
    for (size_t i = 0; r == 0 && i < text.n; i++) {
        const char *escape = text.p[i] == '\\'            ? "\\\\"
                             : text.p[i] == '\n'          ? "\\n"
                             : text.p[i] == '"' && quotes ? "\\\""
                                                          : NULL;
        if (!escape)
            continue;
        r = buffer_add(out, text.p + from, i - from);
        if (r == 0)
            r = buffer_add_str(out, escape);
        from = i + 1;
    }
    return r < 0 ? r : buffer_add(out, text.p + from, text.n - from);
}

/* Appends `{…}` of a list: sorted by name, values of one name joined with ';' in the order of the original
 * keys, empty values left out (to Prometheus they are no label). */
static int add_label_text(struct buffer *out, struct label *list, uint32_t n)
{
    qsort(list, n, sizeof *list, by_name_then_key);
    size_t begin = out->n;
    int r = 0;
    for (uint32_t i = 0, j; r == 0 && i < n; i = j) {
        for (j = i + 1; j < n && bytes_eq(list[i].name, list[j].name);)
            j++;
        if (j == i + 1 && list[i].value.n == 0)
            continue;
        r = buffer_printf(out, "%s%.*s=\"", out->n == begin ? "{" : ",", BYTES_FMT(list[i].name));
        for (uint32_t k = i; r == 0 && k < j; k++) {
            r = k > i ? buffer_add_str(out, ";") : 0;
            if (r == 0)
                r = add_escaped(out, list[k].value, true);
        }
        if (r == 0)
            r = buffer_add_str(out, "\"");
    }
    return r == 0 && out->n > begin ? buffer_add_str(out, "}") : r;
}

/* Leaves a point's labels in scratch. Of a key in both the point and the resource the point's value counts:
 * it is the more special one. */
static int point_labels(struct writer *w, const struct metric_point *point)
{
    w->n_set = 0;
    int r = 0;
    for (uint32_t i = 0; r == 0 && i < point->n_attrs; i++)
        r = label_add(w, w->set, &w->n_set, point->attrs[i].key, NULL,
                      value_text(&w->arena, &point->attrs[i].value));
    for (uint32_t i = 0; r == 0 && i < w->n_resource && w->n_set < LABELS_MAX; i++) {
        bool generated = bytes_is(w->resource[i].name, "job") || bytes_is(w->resource[i].name, "instance");
        bool own = true;
        for (uint32_t k = 0; k < point->n_attrs && !generated; k++)
            own &= !bytes_eq(point->attrs[k].key, w->resource[i].key);
        if (own)
            w->set[w->n_set++] = w->resource[i];
    }
    w->scratch.n = 0;
    return r < 0 ? r : add_label_text(&w->scratch, w->set, w->n_set);
}

/* ---- families ---- */

static int grow(void *items, uint32_t *cap, uint32_t need, size_t size)
{
    void **at = items;
    if (need <= *cap)
        return 0;
    uint32_t n = *cap ? *cap * 2 : 64;
    void *p = realloc(*at, n * size);
    if (!p)
        return -ENOMEM;
    *at = p;
    *cap = n;
    return 0;
}

static int family_of(struct writer *w, struct bytes name, struct bytes help, enum metric_kind kind,
                     uint32_t *ret)
{
    uint32_t known = w->names.n, id = intern_add(&w->names, name);
    if (id == INTERN_NONE || grow(&w->families, &w->cap_families, id + 1, sizeof *w->families) < 0)
        return -ENOMEM;
    if (id == known)
        w->families[id] = (struct family){intern_get(&w->names, id), help, kind, false, NO_SERIES, NO_SERIES};
    *ret = id;
    return 0;
}

/* Adds to the series of the family with the labels in scratch. */
static int series_add(struct writer *w, uint32_t family, const struct metric_point *p)
{
    size_t n = w->scratch.n;
    int r = buffer_add(&w->scratch, &family, sizeof family);
    if (r < 0)
        return r;
    uint32_t known = w->ids.n, id = intern_add(&w->ids, buffer_bytes(&w->scratch));
    if (id == INTERN_NONE || grow(&w->series, &w->cap_series, id + 1, sizeof *w->series) < 0)
        return -ENOMEM;
    struct series *s = &w->series[id];
    if (id == known) {
        *s = (struct series){.labels = bytes_of(intern_get(&w->ids, id).p, n), .next = NO_SERIES};
        struct family *f = &w->families[family];
        if (f->first == NO_SERIES)
            f->first = id;
        else
            w->series[f->last].next = id;
        f->last = id;
    }
    int64_t sum;
    if (!s->is_double && !p->is_double && !__builtin_add_overflow(s->integer, p->integer, &sum)) {
        s->integer = sum;
        return 0;
    }
    s->real = (s->is_double ? s->real : (double)s->integer) + (p->is_double ? p->real : (double)p->integer);
    s->is_double = true;
    return 0;
}

static int read_metric(struct writer *w, const struct metric *metric)
{
    uint32_t id;
    if (metric->kind == METRIC_SUM && metric->temporality != METRIC_CUMULATIVE)
        return -EINVAL;
    w->scratch.n = 0;
    int r = prometheus_name(metric->name, metric->unit, metric->kind, &w->scratch);
    if (r == 0)
        r = family_of(w, buffer_bytes(&w->scratch), metric->description, metric->kind, &id);
    if (r < 0)
        return r;
    if (w->families[id].kind != metric->kind) {
        w->families[id].conflict = true;
        return 0;
    }
    for (uint32_t i = 0; r == 0 && i < metric->n_points; i++) {
        if (metric->points[i].stale)
            continue;
        r = point_labels(w, &metric->points[i]);
        if (r == 0)
            r = series_add(w, id, &metric->points[i]);
    }
    return r;
}

/* target_info: one for each (job, instance). Of several resources with one job and instance it says what they
 * agree on: a second line would break every join with it. */
struct target {
    struct label *labels;
    uint32_t n;
};

static struct bytes label_value(const struct label *list, uint32_t n, const char *name)
{
    for (uint32_t i = 0; i < n; i++)
        if (bytes_is(list[i].name, name))
            return list[i].value;
    return (struct bytes){0};
}

static void keep_common(struct target *t, const struct label *list, uint32_t n)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < t->n; i++) {
        bool agreed = false;
        for (uint32_t k = 0; k < n && !agreed; k++)
            agreed = bytes_eq(t->labels[i].key, list[k].key) && bytes_eq(t->labels[i].value, list[k].value);
        if (agreed)
            t->labels[kept++] = t->labels[i];
    }
    t->n = kept;
}

static int target_add(struct writer *w)
{
    struct bytes job = label_value(w->resource, w->n_resource, "job");
    struct bytes instance = label_value(w->resource, w->n_resource, "instance");
    if (job.n == 0 && instance.n == 0)
        return 0;
    w->scratch.n = 0;
    int r = buffer_add_bytes(&w->scratch, job);
    if (r == 0)
        r = buffer_add(&w->scratch, "", 1);
    if (r == 0)
        r = buffer_add_bytes(&w->scratch, instance);
    if (r < 0)
        return r;
    uint32_t known = w->target_ids.n, id = intern_add(&w->target_ids, buffer_bytes(&w->scratch));
    if (id == INTERN_NONE || grow(&w->targets, &w->cap_targets, id + 1, sizeof *w->targets) < 0)
        return -ENOMEM;
    if (id != known) {
        keep_common(&w->targets[id], w->resource, w->n_resource);
        return 0;
    }
    struct label *labels = arena_calloc(&w->arena, w->n_resource, sizeof *labels);
    if (!labels)
        return -ENOMEM;
    memcpy(labels, w->resource, w->n_resource * sizeof *labels);
    w->targets[id] = (struct target){labels, w->n_resource};
    return 0;
}

static int read_targets(struct writer *w)
{
    uint32_t id;
    int r = 0;
    for (uint32_t i = 0; r == 0 && i < w->batch->n_resources; i++) {
        bool scope = w->options.scope_labels;
        w->options.scope_labels = false; /* those are no part of the target */
        r = resource_labels(w, &w->batch->resources[i]);
        w->options.scope_labels = scope;
        if (r == 0)
            r = target_add(w);
    }
    if (r < 0 || w->target_ids.n == 0)
        return r;
    r = family_of(w, BYTES_LIT("target_info"), BYTES_LIT("Target metadata"), METRIC_GAUGE, &id);
    static const struct metric_point one = {.integer = 1};
    for (uint32_t i = 0; r == 0 && i < w->target_ids.n; i++) {
        w->scratch.n = 0;
        r = add_label_text(&w->scratch, w->targets[i].labels, w->targets[i].n);
        if (r == 0)
            r = series_add(w, id, &one);
    }
    return r;
}

/* ---- text ---- */

static int write_family(const struct writer *w, const struct family *f, struct buffer *out)
{
    int r = 0;
    if (f->conflict)
        r = buffer_printf(out, "# %.*s: a metric of this name and another type was left out\n",
                          BYTES_FMT(f->name));
    if (r < 0 || f->first == NO_SERIES)
        return r;
    if (f->help.n > 0) {
        r = buffer_printf(out, "# HELP %.*s ", BYTES_FMT(f->name));
        if (r == 0)
            r = add_escaped(out, f->help, false);
        if (r == 0)
            r = buffer_add_str(out, "\n");
    }
    if (r == 0)
        r = buffer_printf(out, "# TYPE %.*s %s\n", BYTES_FMT(f->name),
                          f->kind == METRIC_SUM ? "counter" : "gauge");
    for (uint32_t i = f->first; r == 0 && i != NO_SERIES; i = w->series[i].next) {
        const struct series *s = &w->series[i];
        char text[32];
        if (s->is_double)
            double_text(s->real, text);
        else
            snprintf(text, sizeof text, "%" PRId64, s->integer);
        r = buffer_add_bytes(out, f->name);
        if (r == 0)
            r = buffer_add_bytes(out, s->labels);
        if (r == 0)
            r = buffer_printf(out, " %s\n", text);
    }
    return r;
}

static int by_family_name(const void *a, const void *b)
{
    const struct family *x = a, *y = b;
    return bytes_compare(x->name, y->name);
}

static int write_all(struct writer *w, struct buffer *out)
{
    int r = 0;
    for (uint32_t i = 0; r == 0 && i < w->batch->n_resources; i++) {
        const struct metric_resource *res = &w->batch->resources[i];
        r = resource_labels(w, res);
        for (uint32_t m = 0; r == 0 && m < res->n_metrics; m++)
            r = read_metric(w, &res->metrics[m]);
    }
    if (r == 0)
        r = read_targets(w);
    if (r == 0 && w->names.n > 0)
        qsort(w->families, w->names.n, sizeof *w->families, by_family_name);
    size_t before = out->n;
    for (uint32_t i = 0; r == 0 && i < w->names.n; i++)
        r = write_family(w, &w->families[i], out);
    if (r < 0)
        out->n = before;
    return r;
}

int prometheus_write(const struct metric_batch *batch, const struct prometheus_options *options,
                     struct buffer *out)
{
    struct writer *w = calloc(1, sizeof *w); /* large: not for the stack */
    if (!w)
        return -ENOMEM;
    struct budget *budget = batch->arena.budget;
    w->batch = batch;
    w->options = options ? *options : (struct prometheus_options){0};
    w->arena = (struct arena)ARENA_INIT(budget);
    w->names = (struct intern)INTERN_INIT(budget);
    w->ids = (struct intern)INTERN_INIT(budget);
    w->target_ids = (struct intern)INTERN_INIT(budget);
    int r = write_all(w, out);
    arena_release(&w->arena);
    intern_release(&w->names);
    intern_release(&w->ids);
    intern_release(&w->target_ids);
    buffer_release(&w->scratch);
    free(w->families);
    free(w->series);
    free(w->targets);
    free(w);
    return r;
}
