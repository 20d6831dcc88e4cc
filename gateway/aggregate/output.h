/*
 * One output's own tables: private to this folder. Resources (projected), label sets and cells are numbered
 * by the output; a worker's numbers are translated through maps that die with the output's generation.
 *
 * Output numbers follow the workers' convention (delta.h): resource 0 is overflow; series m < n_metrics is
 * metric m's overflow; cells 0 … n_metrics - 1 always exist: cell m is (resource 0, series m), so overflow
 * never needs memory.
 */
#ifndef GATEWAY_AGGREGATE_OUTPUT_H
#define GATEWAY_AGGREGATE_OUTPUT_H

#include "gateway/aggregate/idmap.h"
#include "gateway/aggregate/store.h"
#include "proto/base/intern.h"

/* 40 MiB of cells; the label sets and resources behind them are several times that. */
#define OUTPUT_CELLS_MAX (1u << 19)

struct output_cell {
    uint32_t resource, series, metric;
    uint32_t interval; /* gauge, cumulative: the gauge interval that value belongs to */
    bool live;         /* has something to say; a dead cell is as good as absent */
    bool changed;      /* added to since the last collect */
    bool has_finished; /* gauge, cumulative: `finished` is set */
    int64_t value;
    int64_t finished;     /* gauge, cumulative: total of the last finished interval */
    uint64_t start, last; /* window's beginning; the output's time at the last addition */
};

struct output_tables {
    struct budget *budget;
    struct intern resources, series; /* series: metric number (4 bytes), then the label set */
    struct output_cell *cells;
    uint32_t n_cells, cap_cells, n_dead;
    struct idmap cell_of;  /* (resource, series) → cell */
    struct idmap n_series; /* (resource, metric) → live label sets, overflow not counted */
};

#define NO_ID UINT32_MAX

/* A worker's numbers in this output: NO_ID until asked for. */
struct output_map {
    uint32_t generation;
    uint32_t *resource, *series;
    uint32_t cap_resource, cap_series;
};

/* A worker's dictionary as the merger knows it: valid for one epoch. */
struct worker_dict {
    uint32_t epoch;
    struct arena arena;
    struct bytes *resources, *series; /* by number in the dictionary */
    uint32_t n_resources, n_series, cap_resources, cap_series;
};

struct output {
    struct output *next;
    struct store *store;
    struct output_options options;
    char **keys;
    struct output_tables tables;
    uint32_t generation;     /* of the numbers in tables; maps of another one are stale */
    struct output_map *maps; /* one per worker */
    struct buffer scratch;
    uint64_t now;          /* the highest time told */
    uint64_t window_start; /* the last collect, or the output's beginning */
    uint64_t interval_start;
    uint32_t interval; /* number of the gauge interval under way */
};

struct store {
    struct aggregate_metric *metrics;
    uint32_t n_metrics, n_workers;
    struct budget *budget;
    struct stats *stats;
    struct worker_dict *workers;
    struct output *outputs;
};

struct output *output_new(struct store *s, const struct output_options *options, uint64_t now);
struct output *output_free(struct output *o);

/* Moves the output's time and its gauge interval on. Call before adding. */
void output_advance(struct output *o, uint64_t now);

/* Adds one delta cell of a worker, at the output's time. */
void output_add(struct output *o, uint32_t worker, uint32_t resource, uint32_t series, uint32_t metric,
                int64_t sum);

/* Ends a live cell. */
void output_end_cell(struct output *o, struct output_cell *cell);

/* Whether a live cell has been idle for metric_expiration. */
bool output_is_idle(const struct output *o, const struct output_cell *cell);

/* Drops dead cells and the names only they used, when they are many or stand in newcomers' way. Numbers
 * change: a new generation. */
void output_compact(struct output *o);

/* Drops everything (delta, after a collect). A new generation. */
void output_clear(struct output *o);

/* Grows a charged array of n-byte items to hold `need`: false when memory or the budget is out. *items may
 * move. */
bool output_grow(struct budget *budget, void *items, uint32_t *cap, uint32_t need, size_t n);

#endif
