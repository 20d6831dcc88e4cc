/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One output's own tables: private to this folder. Resources (projected), label sets and cells are numbered
 * by the output; a worker's numbers are translated through maps that die with the output's generation.
 *
 * Metrics have the store's numbers, which stay for the life of the process. Other numbers follow the workers'
 * convention (delta.h): resource 0 is overflow; series m < n_metrics is metric m's overflow; cells 0 …
 * n_metrics - 1 always exist: cell m is (resource 0, series m), so overflow never needs memory. When a reload
 * makes n_metrics larger, the tables are made anew.
 */
#ifndef GATEWAY_AGGREGATE_OUTPUT_H
#define GATEWAY_AGGREGATE_OUTPUT_H

#include "gateway/aggregate/delta.h"
#include "proto/base/idmap.h"
#include "gateway/aggregate/largest.h"
#include "gateway/aggregate/latest.h"
#include "gateway/aggregate/store.h"
#include "proto/base/intern.h"

/* 32 MiB of cells; the label sets and resources behind them are several times that. */
#define OUTPUT_CELLS_MAX (1u << 19)

/* Examples kept; beyond it newer ones are forgotten. 2.5 MiB. */
#define OUTPUT_EXEMPLARS_MAX (1u << 16)

struct output_cell {
    uint32_t resource, series, metric;
    uint32_t interval; /* gauge, cumulative: the gauge interval that value belongs to */
    bool live;         /* has something to say; a dead cell is as good as absent */
    bool changed;      /* added to since the last collect */
    bool has_finished; /* gauge, cumulative: `finished` is set */
    int64_t value;
    union {
        int64_t finished; /* gauge, cumulative: total of the last finished interval */
        int64_t told;     /* sum, cumulative: value at the last collect */
    };
    uint64_t start, last; /* window's beginning; the output's time at the last addition */
    uint32_t exemplar;    /* place in exemplars, + 1; 0: none. A dead cell keeps it to use again */
    bool has_exemplar;
    bool shown;      /* keeps_last: somebody's newest profile says it */
    bool retired;    /* `largest`, cumulative: takes no more, and ends when it has told what it has */
    int64_t window;  /* `largest`: added since the last collect */
    uint64_t chosen; /* `largest`: when it was last among the heaviest */
};

struct output_tables {
    struct budget *budget;
    struct intern resources, series; /* series: metric number (4 bytes), then the label set */
    struct output_cell *cells;
    uint32_t n_cells, cap_cells, n_dead;
    struct aggregate_exemplar *exemplars;
    uint32_t n_exemplars, cap_exemplars;
    struct idmap cell_of;   /* (resource, series) → cell */
    struct idmap n_series;  /* (resource, metric) → live label sets, overflow not counted */
    struct largest largest; /* label sets without a name, of metrics whose heaviest get one */
};

#define NO_ID UINT32_MAX

/* A worker's numbers in this output: NO_ID until asked for. */
struct output_map {
    uint32_t generation;
    uint32_t *resource, *series;
    uint32_t cap_resource, cap_series;
};

/* A worker's dictionary as the merger knows it: valid for one epoch of one generation of metrics. */
struct worker_dict {
    uint32_t generation, epoch;
    struct arena arena;
    struct bytes *resources, *series; /* by number in the dictionary */
    uint32_t n_resources, n_series, cap_resources, cap_series;
};

struct output {
    struct output *next;
    struct store *store;
    struct output_options options;
    char **keys;
    struct attr identity[OUTPUT_IDENTITY_MAX + 1]; /* and otel.metric.overflow: the overflow resource whole */
    struct output_tables tables;
    uint32_t generation;     /* of the numbers in tables; maps of another one are stale */
    struct output_map *maps; /* one per worker */
    struct buffer scratch;
    uint64_t now;          /* the highest time told */
    uint64_t window_start; /* the last collect, or the output's beginning */
    uint64_t interval_start;
    uint32_t interval;    /* number of the gauge interval under way */
    uint32_t names_at;    /* the number of label sets at which tidying them up is worth trying again */
    uint64_t levels_told; /* the newest hand-over of levels that a collect has told */
};

/* What newest profiles say (latest.h), of the resources as they came: an output adds up those that it makes
 * one. Numbers in it: resource and series as in `resources` and `series` + 1; 0 is overflow. */
struct store_levels {
    struct latest latest;
    struct intern resources, series; /* series as in the worker's dictionary, under the store's numbers */
    uint64_t now, handover;
    uint32_t prune_at; /* entries at which it is worth looking for what may go */
};

/* What the numbers of a generation of metrics are in the store: needed as long as a worker may have it. */
struct store_generation {
    struct store_generation *next; /* older */
    uint32_t number, n_metrics;
    uint32_t slot[];
};

struct watch;

struct store {
    struct aggregate_metric *metrics; /* by the store's number: of all generations */
    bool *is_gone;                    /* no longer in the newest generation */
    struct arena names;               /* what the metrics' strings are */
    uint32_t n_metrics, n_workers;
    struct store_generation *generations; /* newest first */
    struct budget *budget;
    struct stats *stats;
    struct worker_dict *workers;
    struct output *outputs;
    struct store_levels levels;
    struct watch *watches;
};

struct output *output_new(struct store *s, const struct output_options *options, uint64_t now);
struct output *output_free(struct output *o);

/* Moves the output's time and its gauge interval on, or everything back to a clock that was put back
 * (put_back.h): all streams begin anew with what no collect has told yet. Call before adding. */
void output_advance(struct output *o, uint64_t now);

/* Adds one delta cell of a worker, at the output's time. */
void output_add(struct output *o, uint32_t worker, uint32_t resource, uint32_t series, uint32_t metric,
                int64_t sum);

/* Takes what a worker heard of the newest profiles. */
void store_levels_init(struct store *s);
void store_levels_release(struct store *s);
void store_levels_apply(struct store *s, const struct worker_dict *dict, const struct aggregate_delta *d,
                        const struct store_generation *g, uint64_t now);

/* Whether names that nobody uses are many: label sets that were candidates for a while. */
bool output_has_old_names(const struct output *o);

/* Gives the series its example, if it is alive and the output wants any. */
void output_exemplar(struct output *o, uint32_t worker, const struct delta_exemplar *e);

/* Forgets the examples that were told. */
void output_forget_exemplars(struct output *o);

/* Ends a live cell. */
void output_end_cell(struct output *o, struct output_cell *cell);

/* Whether a live cell has been idle for metric_expiration. */
bool output_is_idle(const struct output *o, const struct output_cell *cell);

/* Drops dead cells and the names only they used, when they are many or stand in newcomers' way. Numbers
 * change: a new generation. */
void output_compact(struct output *o);

/* The tables as they must be for n_metrics metrics, at least the store's present number: a copy. False: no
 * memory. */
bool output_tables_for(const struct output *o, uint32_t n_metrics, struct output_tables *ret);

/* Puts them in place of the old ones. A new generation. */
void output_tables_take(struct output *o, struct output_tables *tables);

/* Empty ones for n_metrics metrics. False: no memory. */
bool output_tables_init(struct output_tables *t, uint32_t n_metrics, struct budget *budget);
void output_tables_release(struct output_tables *t);

/* Drops everything (delta, after a collect). A new generation. */
void output_clear(struct output *o);

/* Grows a charged array of n-byte items to hold `need`: false when memory or the budget is out. *items may
 * move. */
bool output_grow(struct budget *budget, void *items, uint32_t *cap, uint32_t need, size_t n);

#endif
