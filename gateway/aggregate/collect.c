/* SPDX-License-Identifier: Apache-2.0 */
/* From an output's tables to a batch. First the batch is built, and only then does the output change: so a
 * collect that finds no memory has not happened. */
#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "gateway/aggregate/attrset.h"
#include "gateway/aggregate/delta.h"
#include "gateway/aggregate/heaviest.h"
#include "gateway/aggregate/levels.h"
#include "gateway/aggregate/output.h"
#include "gateway/aggregate/store.h"
#include "gateway/aggregate/tables.h"
#include "proto/base/clock.h"
#include "proto/base/macros.h"
#include "proto/wire/writer.h"

/* A window has a length, also where the clock stepped back: one that Prometheus can tell from none, whose
 * times are milliseconds. */
#define WINDOW_MIN (1u * (uint64_t)NSEC_PER_MSEC)

struct row {
    uint32_t by[2]; /* resource, metric */
    uint32_t cell : 31, stale : 1;
};

enum { RESOURCE, METRIC };

struct collect {
    struct output *o;
    struct metric_batch *batch;
    struct row *rows;
    uint32_t n_rows;
    struct aggregate_metric *names; /* by metric: strings copied into the batch once */
    uint64_t time;
    bool in_brief;
};

static void collect_release(struct collect *c)
{
    free(c->rows);
    free(c->names);
    metric_batch_free(c->batch);
}

/* By resource or metric, all below n; those that agree stay in their order. */
static void sort_by(const struct row *from, struct row *to, uint32_t n_rows, unsigned by, uint32_t *places,
                    uint32_t n)
{
    memset(places, 0, ((size_t)n + 1) * sizeof *places);
    for (uint32_t i = 0; i < n_rows; i++)
        places[from[i].by[by] + 1]++;
    for (uint32_t k = 1; k < n; k++)
        places[k] += places[k - 1];
    for (uint32_t i = 0; i < n_rows; i++)
        to[places[from[i].by[by]]++] = from[i];
}

/* Rows are found in the order of cells: by resource, metric and cell they are after two passes. */
static int sort_rows(struct collect *c)
{
    const uint32_t n_metrics = c->o->all->n_metrics, n_resources = c->o->tables.known.n + 1;
    autofree struct row *other = malloc(((size_t)c->n_rows + 1) * sizeof *other);
    autofree uint32_t *places = malloc(((size_t)max_of(n_metrics, n_resources) + 1) * sizeof *places);
    if (!other || !places)
        return -ENOMEM;
    sort_by(c->rows, other, c->n_rows, METRIC, places, n_metrics);
    sort_by(other, c->rows, c->n_rows, RESOURCE, places, n_resources);
    return 0;
}

static bool keeps_last(const struct output *o, const struct output_cell *cell)
{
    return o->all->metrics[cell->metric].keeps_last;
}

/* A gauge that adds up for an interval. */
static bool is_gauge(const struct output *o, const struct output_cell *cell)
{
    if (keeps_last(o, cell))
        return false;
    return o->all->metrics[cell->metric].kind == METRIC_GAUGE;
}

/* What a gauge of a cumulative output shows; false while its first interval is under way. */
static bool finished_gauge(const struct output *o, const struct output_cell *cell, int64_t *ret)
{
    bool ended = cell->interval != o->interval;
    *ret = ended ? cell->value : cell->finished;
    return ended || cell->has_finished;
}

static bool wanted(const struct output *o, const struct output_cell *cell)
{
    int64_t value;
    if (!cell->live)
        return false;
    if (keeps_last(o, cell) && o->options.temporality == METRIC_DELTA)
        return cell->changed;
    return o->options.temporality == METRIC_DELTA || !is_gauge(o, cell) || finished_gauge(o, cell, &value);
}

static int find_rows(struct collect *c)
{
    const struct output_tables *t = &c->o->tables;
    c->rows = calloc(t->cells.n + 1, sizeof *c->rows);
    if (!c->rows)
        return -ENOMEM;
    for (uint32_t i = 0; i < t->cells.n; i++) {
        const struct output_cell *cell = &t->cells.p[i];
        if (!wanted(c->o, cell))
            continue;
        /* What no collect has told yet is told before the series may end. */
        bool over = output_is_idle(c->o, cell) || c->o->all->is_gone[cell->metric] || cell->retired;
        bool stale = keeps_last(c->o, cell) ? !cell->shown : !cell->changed && over;
        c->rows[c->n_rows++] = (struct row){{cell->resource, cell->metric}, i, stale};
    }
    return sort_rows(c);
}

/* A series' labels in the batch, where they are decoded once; in front of all, overflow's. NULL: no memory.
 */
static const struct metric_labels *labels_of(struct collect *c, uint32_t series)
{
    const uint32_t n_metrics = c->o->all->n_metrics, i = series < n_metrics ? 0 : series - n_metrics + 1;
    struct metric_labels *labels = &c->batch->labels[i];
    if (labels->attrs)
        return labels;
    struct bytes set = intern_get(&c->o->tables.series, i - 1);
    set = bytes_of(set.p + sizeof(uint32_t), set.n - sizeof(uint32_t));
    return attrset_decode(set, &c->batch->arena, &labels->attrs, &labels->n) < 0 ? NULL : labels;
}

/* A cell's example, if it has one to show. */
static int fill_exemplar(struct collect *c, const struct row *row, const struct metric_exemplar **ret)
{
    const struct output_cell *cell = &c->o->tables.cells.p[row->cell];
    *ret = NULL;
    if (!cell->has_exemplar || row->stale)
        return 0;
    const struct aggregate_exemplar *from = &c->o->tables.exemplars.p[cell->exemplar - 1];
    struct metric_exemplar *to = arena_calloc(&c->batch->arena, 1, sizeof *to);
    if (!to)
        return -ENOMEM;
    memcpy(to->trace_id, from->trace_id, sizeof to->trace_id);
    memcpy(to->span_id, from->span_id, sizeof to->span_id);
    to->time_unix_nano = from->time_unix_nano;
    if (c->o->all->metrics[cell->metric].is_seconds)
        to->real = (double)from->value / NSEC_PER_SEC;
    else
        to->integer = from->value;
    *ret = to;
    return 0;
}

static int64_t value_of(const struct output *o, const struct row *row)
{
    const struct output_cell *cell = &o->tables.cells.p[row->cell];
    int64_t value = cell->value;
    if (is_gauge(o, cell) && o->options.temporality == METRIC_CUMULATIVE)
        finished_gauge(o, cell, &value);
    return row->stale ? 0 : value;
}

static int fill_point(struct collect *c, const struct row *row, struct metric_point *point)
{
    const struct output *o = c->o;
    const struct output_cell *cell = &o->tables.cells.p[row->cell];
    const struct metric_labels *labels = labels_of(c, cell->series);
    if (!labels)
        return -ENOMEM;
    *point = (struct metric_point){.attrs = labels->attrs,
                                   .n_attrs = labels->n,
                                   .start_unix_nano =
                                       o->options.temporality == METRIC_DELTA ? o->window_start : cell->start,
                                   .time_unix_nano = c->time,
                                   .stale = row->stale,
                                   .is_double = o->all->metrics[cell->metric].is_seconds};
    if (point->is_double)
        point->real = (double)value_of(o, row) / NSEC_PER_SEC;
    else
        point->integer = value_of(o, row);
    return fill_exemplar(c, row, &point->exemplar);
}

/* The same of a cumulative output. Neighbours mostly have one life. */
static int fill_brief(struct collect *c, const struct row *row, struct metric_brief *brief)
{
    struct metric_batch *b = c->batch;
    const struct output_cell *cell = &c->o->tables.cells.p[row->cell];
    const struct metric_labels *labels = labels_of(c, cell->series);
    struct metric_life life = {.start_unix_nano = cell->start, .stale = row->stale};
    if (!labels || fill_exemplar(c, row, &life.exemplar) < 0)
        return -ENOMEM;
    const struct metric_life *last = b->lives.n > 0 ? vec_last(&b->lives) : NULL;
    if ((!last || last->start_unix_nano != life.start_unix_nano || last->exemplar != life.exemplar ||
         last->stale != life.stale) &&
        vec_append(&b->lives, life) < 0)
        return -ENOMEM;
    *brief =
        (struct metric_brief){.labels = (uint32_t)(labels - b->labels), .life = (uint32_t)b->lives.n - 1};
    if (c->o->all->metrics[cell->metric].is_seconds)
        brief->real = (double)value_of(c->o, row) / NSEC_PER_SEC;
    else
        brief->integer = value_of(c->o, row);
    return 0;
}

static int fill_names(struct collect *c, uint32_t m)
{
    struct aggregate_metric *to = &c->names[m];
    const struct aggregate_metric *from = &c->o->all->metrics[m];
    if (to->name.p)
        return 0;
    to->description = arena_copy(&c->batch->arena, from->description);
    to->unit = arena_copy(&c->batch->arena, from->unit);
    to->name = arena_copy(&c->batch->arena, from->name);
    return to->name.p && to->unit.p && to->description.p ? 0 : -ENOMEM;
}

/* The rows [from, to) are one metric of one resource. */
static int fill_metric(struct collect *c, uint32_t from, uint32_t to, struct metric *metric)
{
    uint32_t m = c->rows[from].by[METRIC];
    if (fill_names(c, m) < 0)
        return -ENOMEM;
    *metric = (struct metric){.name = c->names[m].name,
                              .description = c->names[m].description,
                              .unit = c->names[m].unit,
                              .kind = c->o->all->metrics[m].kind,
                              .temporality = c->o->options.temporality,
                              .n_points = to - from,
                              .is_brief = c->in_brief,
                              .is_double = c->o->all->metrics[m].is_seconds};
    const size_t each = c->in_brief ? sizeof *metric->briefs : sizeof *metric->points;
    metric->points = arena_alloc(&c->batch->arena, (to - from) * each);
    int r = metric->points ? 0 : -ENOMEM;
    for (uint32_t i = from; r == 0 && i < to; i++)
        r = c->in_brief ? fill_brief(c, &c->rows[i], &metric->briefs[i - from])
                        : fill_point(c, &c->rows[i], &metric->points[i - from]);
    return r;
}

/* The mark and the identity, in the order of keys as in every other set. */
static int fill_overflow_attrs(struct collect *c, struct metric_resource *to)
{
    cleanup(buffer_release) struct buffer set = BUFFER_INIT(0);
    int r = attrset_encode(&set, c->o->identity, c->o->options.n_identity + 1);
    if (r == 0)
        r = attrset_decode(buffer_bytes(&set), &c->batch->arena, &to->attrs, &to->n_attrs);
    return r < 0 ? -ENOMEM : 0;
}

static int fill_attrs(struct collect *c, uint32_t resource, struct metric_resource *to)
{
    if (resource == RESOURCE_OVERFLOW)
        return fill_overflow_attrs(c, to);
    return attrset_decode(intern_get(&c->o->tables.resources, resource - 1), &c->batch->arena, &to->attrs,
                          &to->n_attrs);
}

/* The end of the run of rows that begins at `from` and is of one resource, or of a resource's metric. */
static uint32_t run_end(const struct collect *c, uint32_t from, uint32_t n, unsigned by)
{
    uint32_t to = from + 1;
    while (to < n && c->rows[to].by[by] == c->rows[from].by[by])
        to++;
    return to;
}

static uint32_t count_runs(const struct collect *c, uint32_t from, uint32_t to, unsigned by)
{
    uint32_t runs = 0;
    for (uint32_t i = from; i < to; i = run_end(c, i, to, by))
        runs++;
    return runs;
}

static int fill_resource(struct collect *c, uint32_t from, uint32_t to, struct metric_resource *resource)
{
    uint32_t n = count_runs(c, from, to, METRIC);
    *resource = (struct metric_resource){0};
    resource->metrics = arena_alloc(&c->batch->arena, n * sizeof *resource->metrics);
    if (!resource->metrics || fill_attrs(c, c->rows[from].by[RESOURCE], resource) < 0)
        return -ENOMEM;
    for (uint32_t i = from, end; i < to; i = end) {
        end = run_end(c, i, to, METRIC);
        if (fill_metric(c, i, end, &resource->metrics[resource->n_metrics++]) < 0)
            return -ENOMEM;
    }
    return 0;
}

static int fill_batch(struct collect *c)
{
    const struct output_tables *t = &c->o->tables;
    c->batch = metric_batch_new(c->o->all->budget);
    c->names = calloc(c->o->all->n_metrics + 1, sizeof *c->names);
    if (!c->batch || !c->names)
        return -ENOMEM;
    c->batch->time_unix_nano = c->time;
    c->batch->labels = arena_calloc(&c->batch->arena, t->series.n + 1, sizeof *c->batch->labels);
    if (!c->batch->labels)
        return -ENOMEM;
    c->batch->labels[0] = (struct metric_labels){&attrset_overflow, 1};
    c->batch->scope_name = BYTES_LIT("profgate");
    c->batch->scope_version = BYTES_LIT(PROFGATE_VERSION);
    uint32_t n = count_runs(c, 0, c->n_rows, RESOURCE);
    c->batch->resources = arena_calloc(&c->batch->arena, n, sizeof *c->batch->resources);
    if (!c->batch->resources)
        return -ENOMEM;
    for (uint32_t i = 0, end; i < c->n_rows; i = end) {
        end = run_end(c, i, c->n_rows, RESOURCE);
        if (fill_resource(c, i, end, &c->batch->resources[c->batch->n_resources++]) < 0)
            return -ENOMEM;
    }
    return 0;
}

/* ---- what is told ---- */

/* What the batch shows of each cell, which is found again by its number, in few bytes, since a receipt lies
 * beside the page that is made and waits for a minute behind it. In the order of numbers; of each a byte, in
 * which are how many numbers it is behind the one before (5 bits) and of how many bytes its value is (3),
 * and those bytes, the low ones first. Where that is not enough a 0 instead, and both with eight bytes. */
struct output_receipt {
    struct budget *budget;
    uint64_t time;     /* the batch's: a cell that starts later has another life */
    uint32_t put_back; /* as the output's: later its cells begin anew */
    uint32_t n;
    size_t n_bytes;
    uint8_t rows[];
};

#define RECEIPT_BITS 5u
#define RECEIPT_FAR  (1u << RECEIPT_BITS)
#define RECEIPT_ROW  (1 + 2 * sizeof(uint64_t)) /* the largest; of the last so much is written and read */

static uint32_t value_bytes(uint64_t value)
{
    return (71 - (uint32_t)__builtin_clzll(value | 1)) / 8;
}

static const uint8_t *get_u64(const uint8_t *from, uint64_t *ret)
{
    memcpy(ret, from, sizeof *ret);
    *ret = le64toh(*ret);
    return from + sizeof *ret;
}

/* Returns the row's end. */
static uint8_t *put_row(uint8_t *to, uint64_t behind, uint64_t value)
{
    const uint32_t n = value_bytes(value);
    if (behind >= RECEIPT_FAR || n > 7) {
        *to++ = 0;
        return wire_store_fixed64(wire_store_fixed64(to, behind), value);
    }
    *to++ = (uint8_t)(n << RECEIPT_BITS | behind);
    wire_store_fixed64(to, value);
    return to + n;
}

static const uint8_t *get_row(const uint8_t *from, uint64_t *behind, uint64_t *value)
{
    const uint8_t head = *from++;
    if (head == 0)
        return get_u64(get_u64(from, behind), value);
    const uint32_t n = head >> RECEIPT_BITS;
    *behind = head % RECEIPT_FAR;
    get_u64(from, value);
    *value &= UINT64_MAX >> (64 - 8 * n);
    return from + n;
}

/* The rows of all cells that a batch may have shown, to `to`; NULL: only their bytes are counted. */
static size_t put_rows(const struct output *o, uint8_t *to, uint32_t *ret_n)
{
    uint8_t room[RECEIPT_ROW];
    uint64_t before = 0;
    size_t n_bytes = 0;
    *ret_n = 0;
    for (uint32_t i = 0; i < o->tables.cells.n; i++) {
        const struct output_cell *cell = &o->tables.cells.p[i];
        if (!cell->live && i >= o->all->n_metrics)
            continue;
        uint8_t *at = to ? to + n_bytes : room;
        n_bytes += (size_t)(put_row(at, cell->number - before, (uint64_t)cell->value) - at);
        before = cell->number;
        ++*ret_n;
    }
    return n_bytes;
}

static struct output_receipt *receipt_new(const struct output *o)
{
    uint32_t n;
    const size_t n_bytes = put_rows(o, NULL, &n),
                 size = sizeof(struct output_receipt) + n_bytes + RECEIPT_ROW;
    if (!budget_charge(o->all->budget, size))
        return NULL;
    struct output_receipt *r = malloc(size);
    if (!r) {
        budget_refund(o->all->budget, size);
        return NULL;
    }
    *r = (struct output_receipt){
        .budget = o->all->budget, .time = o->window_start, .put_back = o->put_back, .n_bytes = n_bytes};
    put_rows(o, r->rows, &r->n);
    return r;
}

struct output_receipt *output_receipt_free(struct output_receipt *r)
{
    if (r)
        budget_refund(r->budget, sizeof *r + r->n_bytes + RECEIPT_ROW);
    free(r);
    return NULL;
}

static void cell_told(const struct output *o, struct output_cell *cell, int64_t value)
{
    if (o->all->metrics[cell->metric].kind == METRIC_SUM) {
        cell->told = max_of(cell->told, value);
        cell->changed = cell->told != cell->value;
    } else if (cell->value == value) {
        cell->changed = false;
    }
}

/* Both are in the order of numbers. */
void output_told(struct output *o, const struct output_receipt *r)
{
    struct output_cell *cell = o->tables.cells.p, *end = cell + o->tables.cells.n;
    if (!r || r->put_back != o->put_back)
        return;
    const uint8_t *at = r->rows;
    uint64_t number = 0, behind, value;
    for (uint32_t i = 0; i < r->n; i++) {
        at = get_row(at, &behind, &value);
        number += behind;
        while (cell < end && cell->number < number)
            cell++;
        if (cell < end && cell->number == number && cell->start < r->time)
            cell_told(o, cell, (int64_t)value);
    }
}

/* The batch is made: its window is over, and what it says the end of has ended. */
static void settle(struct collect *c)
{
    struct output *o = c->o;
    o->window_start = c->time;
    o->levels_told = o->all->levels.handover;
    if (o->options.temporality == METRIC_DELTA) {
        output_clear(o);
        return;
    }
    for (uint32_t i = 0; i < c->n_rows; i++)
        if (c->rows[i].stale)
            output_end_cell(o, &o->tables.cells.p[c->rows[i].cell]);
    if (o->options.exemplars == EXEMPLARS_ONCE)
        output_forget_exemplars(o);
    output_compact(o);
}

static int collect(struct output *o, uint64_t now, bool in_brief, struct metric_batch **ret)
{
    cleanup(collect_release) struct collect c = {.o = o, .in_brief = in_brief};
    output_advance(o, now);
    c.time = o->now = max_of(o->now, o->window_start + WINDOW_MIN);
    if (o->options.gauge_interval == 0)
        o->interval++;
    int r = heaviest_choose(o);
    levels_show(o);
    if (r == 0)
        r = find_rows(&c);
    if (r == 0)
        r = fill_batch(&c);
    if (r == 0) {
        settle(&c);
        *ret = take_ptr(c.batch);
    } else if (o->options.gauge_interval == 0) {
        o->interval--;
    }
    return r;
}

int output_collect(struct output *o, uint64_t now, struct metric_batch **ret)
{
    int r = collect(o, now, false, ret);
    for (uint32_t i = 0; r == 0 && i < o->tables.cells.n; i++) {
        struct output_cell *cell = &o->tables.cells.p[i];
        cell_told(o, cell, cell->value);
    }
    return r;
}

int output_show(struct output *o, uint64_t now, struct metric_batch **ret,
                struct output_receipt **ret_receipt)
{
    int r = collect(o, now, true, ret);
    for (uint32_t i = 0; r == 0 && i < o->tables.cells.n; i++)
        o->tables.cells.p[i].offered = true;
    *ret_receipt = r == 0 ? receipt_new(o) : NULL;
    return r;
}
