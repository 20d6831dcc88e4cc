/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/top/page.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "gateway/top/answer.h"
#include "proto/base/buffer.h"
#include "proto/base/macros.h"

/* The document's own is 5, and an attribute that is a list of lists is none that is looked at. */
#define DEPTH_MAX 16

struct reading {
    struct top_page page;
    struct buffer scratch;
    int r; /* 0, or what top_page_read says */
};

static struct bytes copy(struct reading *g, struct bytes text)
{
    struct bytes copied = text.p ? arena_copy(&g->page.arena, text) : text;
    if (!copied.p)
        g->r = -ENOMEM;
    return copied;
}

/* A string, or anything else as JSON writes it; "" for none. .p NULL: memory is out. */
static struct bytes text_of(json_object *value)
{
    if (json_object_is_type(value, json_type_string))
        return bytes_of(json_object_get_string(value), (size_t)json_object_get_string_len(value));
    const char *text = value ? json_object_to_json_string_ext(value, JSON_C_TO_STRING_PLAIN) : "";
    return bytes_of(text, text ? strlen(text) : 0);
}

static struct bytes text_at(struct reading *g, json_object *of, const char *name)
{
    return copy(g, text_of(answer_member(of, name, json_type_string)));
}

static void read_metrics(struct reading *g, json_object *list)
{
    for (size_t i = 0; i < answer_length(list) && g->r == 0; i++) {
        json_object *from = json_object_array_get_idx(list, i);
        struct top_metric m = {.name = text_at(g, from, "name"),
                               .describe = text_at(g, from, "describe"),
                               .unit = text_at(g, from, "unit"),
                               .on = text_at(g, from, "on")};
        m.is_gauge = bytes_is(text_at(g, from, "kind"), "gauge");
        json_object *labels = answer_member(from, "labels", json_type_array);
        for (size_t k = 0; k < answer_length(labels) && m.n_labels < TOP_LABELS_MAX; k++) {
            struct bytes label = copy(g, text_of(json_object_array_get_idx(labels, k)));
            m.by_function |= bytes_is(label, "function");
            m.labels[m.n_labels++] = label;
        }
        if (g->r == 0)
            g->r = vec_append(&g->page.metrics, m);
    }
}

static void add(struct reading *g, struct bytes text)
{
    if (g->r == 0)
        g->r = text.p ? buffer_add_bytes(&g->scratch, text) : -ENOMEM;
}

/* Values of the labels from `from` on but for the one that is `what`, with blanks between. */
static struct bytes rest_of(struct reading *g, const struct top_metric *m, uint32_t what, json_object *labels)
{
    g->scratch.n = 0;
    for (uint32_t i = 0; i < m->n_labels; i++) {
        json_object *value = NULL;
        if (i == what || !json_object_object_get_ex(labels, (const char *)m->labels[i].p, &value))
            continue;
        if (g->scratch.n > 0)
            add(g, BYTES_LIT(", "));
        add(g, text_of(value));
    }
    return g->scratch.n > 0 ? copy(g, buffer_bytes(&g->scratch)) : BYTES_LIT("");
}

/* The label a row is called by: `function`, else the first that the series has. */
static uint32_t naming_label(const struct top_metric *m, json_object *labels)
{
    for (uint32_t i = 0; i < m->n_labels; i++) {
        if (m->by_function ? bytes_is(m->labels[i], "function")
                           : json_object_object_get_ex(labels, (const char *)m->labels[i].p, NULL))
            return i;
    }
    return m->n_labels;
}

/* Metric, attributes and labels as they stand: the gateway writes them in one order. */
static struct bytes key_of(struct reading *g, struct bytes metric, json_object *attributes,
                           json_object *labels)
{
    g->scratch.n = 0;
    add(g, metric);
    json_object *const parts[] = {attributes, labels};
    for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
        add(g, BYTES_LIT("\n"));
        add(g, text_of(parts[i]));
    }
    return copy(g, buffer_bytes(&g->scratch));
}

static void read_series(struct reading *g, json_object *attributes, json_object *from)
{
    double number = answer_number(answer_member(from, "metric", json_type_int)), value = NAN;
    json_object *labels = answer_member(from, "labels", json_type_object), *said = NULL;
    if (json_object_is_type(from, json_type_object) && json_object_object_get_ex(from, "value", &said))
        value = answer_number(said);
    if (!(number >= 0 && number < g->page.metrics.n) || !labels || !isfinite(value))
        return;
    const struct top_metric *m = &g->page.metrics.p[(uint32_t)number];
    uint32_t what = naming_label(m, labels);
    json_object *name = NULL;
    if (what < m->n_labels)
        json_object_object_get_ex(labels, (const char *)m->labels[what].p, &name);
    struct top_series s = {.metric = (uint32_t)number, .value = value};
    s.key = key_of(g, m->name, attributes, labels);
    s.what = copy(g, text_of(name));
    s.rest = rest_of(g, m, what, labels);
    s.service = text_at(g, attributes, "service.name");
    if (s.service.n == 0)
        s.service = text_at(g, attributes, "process.executable.name");
    s.host = text_at(g, attributes, "host.name");
    s.is_overflow = json_object_object_get_ex(labels, "otel.metric.overflow", NULL);
    if (g->page.series.n == TOP_SERIES_MAX)
        g->r = TOP_PAGE_LARGE;
    if (g->r == 0)
        g->r = vec_append(&g->page.series, s);
}

static void read_document(struct reading *g, json_object *top)
{
    json_object *resources = answer_member(top, "resources", json_type_array);
    if (!resources || !answer_member(top, "metrics", json_type_array)) {
        g->r = TOP_PAGE_FOREIGN;
        return;
    }
    double samples = answer_number(answer_member(top, "samples", json_type_int));
    g->page.samples = isfinite(samples) ? samples : 0;
    read_metrics(g, answer_member(top, "metrics", json_type_array));
    for (size_t i = 0; i < answer_length(resources) && g->r == 0; i++) {
        json_object *resource = json_object_array_get_idx(resources, i);
        json_object *attributes = answer_member(resource, "attributes", json_type_object);
        json_object *series = answer_member(resource, "series", json_type_array);
        for (size_t k = 0; k < answer_length(series) && g->r == 0; k++)
            read_series(g, attributes, json_object_array_get_idx(series, k));
    }
}

int top_page_read(struct bytes text, struct top_page *ret)
{
    if (text.n > TOP_PAGE_MAX)
        return TOP_PAGE_LARGE;
    struct reading g = {.r = 0};
    json_object *top = answer_parse(text, DEPTH_MAX);
    if (top)
        read_document(&g, top);
    else
        g.r = TOP_PAGE_FOREIGN;
    json_object_put(top);
    buffer_release(&g.scratch);
    if (g.r != 0)
        top_page_release(&g.page);
    else
        *ret = g.page;
    return g.r;
}

void top_page_release(struct top_page *page)
{
    vec_release(&page->metrics);
    vec_release(&page->series);
    arena_release(&page->arena);
}
