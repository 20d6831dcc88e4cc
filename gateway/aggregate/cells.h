/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cells of one output and its numbers: the floor that everything about an output stands on. Private to
 * this folder. Resources (projected), label sets and cells are numbered by the output; a worker's numbers are
 * translated through maps that die with the output's generation.
 *
 * Metrics have the store's numbers, which stay for the life of the process. Other numbers follow the workers'
 * convention (delta.h): resource 0 is overflow; series m < n_metrics is metric m's overflow; cells 0 …
 * n_metrics - 1 always exist: cell m is (resource 0, series m), so overflow never needs memory. When a reload
 * makes n_metrics larger, the tables are made anew.
 */
#ifndef GATEWAY_AGGREGATE_CELLS_H
#define GATEWAY_AGGREGATE_CELLS_H

#include "gateway/aggregate/catalogue.h"
#include "gateway/aggregate/delta.h"
#include "proto/base/idmap.h"
#include "gateway/aggregate/largest.h"
#include "gateway/aggregate/options.h"

/* 32 MiB of cells; the label sets and resources behind them are several times that. */
#define OUTPUT_CELLS_MAX (1u << 19)

/* Examples kept; beyond it newer ones are forgotten. 2.5 MiB. */
#define OUTPUT_EXEMPLARS_MAX (1u << 16)

struct output_cell {
    uint32_t resource, series, metric;
    uint32_t interval; /* gauge, cumulative: the gauge interval that value belongs to */
    bool live;         /* has something to say; a dead cell is as good as absent */
    bool changed;      /* added to since it was told last */
    bool has_finished; /* gauge, cumulative: `finished` is set */
    int64_t value;
    union {
        int64_t finished; /* gauge, cumulative: total of the last finished interval */
        int64_t told;     /* sum, cumulative: the most of value that was told */
    };
    uint64_t start, last; /* window's beginning; the output's time at the last addition */
    uint32_t exemplar;    /* place in exemplars, + 1; 0: none. A dead cell keeps it to use again */
    bool has_exemplar;
    bool offered;    /* it was in a batch of output_show: somebody may know its value */
    bool shown;      /* keeps_last: somebody's newest profile says it */
    bool retired;    /* `largest`, cumulative: takes no more, and ends when it has told what it has */
    int64_t window;  /* `largest`: added since the last collect */
    uint64_t chosen; /* `largest`: when it was last among the heaviest */
    uint64_t number; /* for life, in the order of cells, also in tables that are made anew */
};

/* A resource of an output, beside its attributes. */
struct output_resource {
    uint64_t client; /* who brought it; 0: nobody knows */
    uint64_t hash;   /* of its attributes: its place in `seen` */
    uint64_t last;   /* when it was added to */
    uint32_t times;  /* …in so many rounds of hand-overs; it may have been seen in one before */
};

struct output_tables {
    struct budget *budget;
    struct intern resources, series;   /* series: metric number (4 bytes), then the label set */
    VEC(struct output_resource) known; /* by resource - 1 */
    struct idmap shares;               /* client → how many of them it brought */
    VEC(struct output_cell) cells;
    uint32_t n_dead;
    uint64_t next_number;
    VEC(struct aggregate_exemplar) exemplars;
    struct idmap cell_of;   /* (resource, series) → cell */
    struct idmap n_series;  /* (resource, metric) → live label sets, overflow not counted */
    struct largest largest; /* label sets without a name, of metrics whose heaviest get one */
};

/* A worker's numbers in this output. */
struct output_map {
    uint32_t generation;
    struct numbers resources, series;
};

/* Resources that were here before, by a hash of their attributes: who comes back is no name of a moment.
 * Where two have one place the later one has it. 256 KiB: three bytes of the hash, and one of when. */
#define OUTPUT_SEEN (1u << 16)

/* Additions of one round come from one worker after another, and are one visit. */
#define OUTPUT_ROUND_NS ((uint64_t)NSEC_PER_SEC / 2)

/* The last eighth is for who comes back: in a flood of names of a moment the others need not wait for room.
 */
#define OUTPUT_KEPT_FOR_BACK 8u

struct output {
    struct output *next;
    const struct catalogue *all;
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
    uint32_t interval; /* number of the gauge interval under way */
    uint32_t names_at; /* the number of label sets at which tidying them up is worth trying again */
    uint32_t seen[OUTPUT_SEEN];
    uint32_t n_refused;   /* additions that found no room for their resource since room was made */
    bool told_full;       /* that has been said */
    uint64_t expired_at;  /* when it was last looked for what has expired */
    uint64_t levels_told; /* the newest hand-over of levels that a collect has told */
    uint32_t put_back;    /* how often the clock was */
};

/* ---- numbers ---- */

/* The output's number of a resource's attributes, which a client brought (0: nobody knows who). */
uint32_t output_resource_of_set(struct output *o, struct bytes set, uint64_t client);

/* Label sets that may have a name in a resource; whether one more may live there. */
uint32_t output_limit(const struct output *o, uint32_t metric);
bool output_has_room(const struct output *o, uint32_t resource, uint32_t metric);

/* Whether a resource's attributes were here before; now they were. */
static inline bool output_see(struct output *o, uint64_t hash)
{
    uint32_t *place = &o->seen[hash % OUTPUT_SEEN];
    const uint32_t mark = (uint32_t)(hash >> 32) & ~0xffu, round = (uint8_t)(o->now / OUTPUT_ROUND_NS),
                   before = *place;
    *place = mark | round;
    return (before & ~0xffu) == mark && (uint8_t)before != round;
}

static inline bool output_is_overflow(const struct output *o, uint32_t series)
{
    return series < o->all->n_metrics;
}

/* Which label sets of the metric get a name, the heaviest say; a gauge's do not: it may fall. */
static inline bool output_names_heaviest(const struct output *o, uint32_t metric)
{
    return o->all->metrics[metric].largest && o->all->metrics[metric].kind == METRIC_SUM;
}

/* ---- cells ---- */

/* The cell of numbers of the output, alive; NULL where there is no room for it. */
struct output_cell *output_cell_live(struct output *o, uint32_t resource, uint32_t series, uint32_t metric);

/* The same, or where there is no room for one of its own the cell of its overflow: that always is. */
struct output_cell *output_cell_or_overflow(struct output *o, uint32_t resource, uint32_t series,
                                            uint32_t metric);

/* Alive or not; NULL: there is none. */
struct output_cell *output_cell_find(const struct output *o, uint32_t resource, uint32_t series);

/* A cumulative sum has a new start and counts from there, as a restart does it (data model, "Resets and
 * Gaps"), also where it would pass the end of the range: a peer chooses the values. What was told stays told,
 * what was not goes on. */
void output_begin_anew(struct output_cell *cell, uint64_t start);

/* Adds to a series that has a name, or where there is no room for one to its overflow. */
void output_add_to(struct output *o, uint32_t resource, uint32_t series, uint32_t metric, int64_t sum);

/* Ends a live cell. */
void output_end_cell(struct output *o, struct output_cell *cell);

/* Whether a live cell has been idle for metric_expiration. */
bool output_is_idle(const struct output *o, const struct output_cell *cell);

/* Gives a live cell its example. */
void output_set_exemplar(struct output *o, struct output_cell *cell, const struct aggregate_exemplar *e);

/* Forgets the examples that were told. */
void output_forget_exemplars(struct output *o);

#endif
