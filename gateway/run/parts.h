/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The running gateway as its files share it: gateway.c (life and the control loop), collecting.c (counts come
 * from the workers), worker.c (what
 * runs on a worker's thread), lane.c (the lanes for large requests, which count as workers do),
 * show.c (what /metrics shows of them), readiness.c (/readyz), reload.c (new configuration while running),
 * triggers.c.
 */
#ifndef GATEWAY_RUN_PARTS_H
#define GATEWAY_RUN_PARTS_H

#include <stdatomic.h>
#include <time.h>
#include <uv.h>

#include "gateway/admin/ready.h"
#include "gateway/admin/scrape.h"
#include "gateway/control/triggers.h"
#include "gateway/run/counting.h"
#include "gateway/run/door.h"
#include "gateway/listen/listen.h"
#include "gateway/run/looking.h"
#include "gateway/run/merger.h"
#include "gateway/run/outputs.h"
#include "gateway/run/pipeline.h"
#include "gateway/run/receivers.h"
#include "gateway/run/scraping.h"
#include "proto/base/meter.h"
#include "proto/convert/from_pprof.h"
#include "proto/io/loop.h"

struct admin;
struct consumer;
struct ui;
struct io_signal;
struct io_timer;
struct lanes;
struct processor;
struct services;

/* One thread that counts, a worker's or a lane's. Of that thread, but for gateway and index, which stay, and
 * the last three. */
struct gateway_worker {
    struct gateway *gateway;
    uint32_t index;
    struct counting *counting;
    struct meter meter; /* of what requests take while they are worked on */
    struct pipeline pipeline;
    struct access_worker *access;
    struct services *services;
    struct serve *serve;    /* a worker's, as the two above */
    struct processor *lane; /* a lane's */
    struct look_tap *tap;   /* made when it counts first; NULL: nothing is kept */
    /* The control loop's: */
    bool is_asked;    /* for what it has counted, and that has not come */
    uint64_t asked;   /* when it was last */
    uint64_t counted; /* what it had counted when it was asked then is added up */
};

/* Rounds of hand-overs: each brings what every worker and lane had counted when it began. */
struct collecting {
    struct io_timer *timer, *patience;
    bool is_round;  /* one is under way … */
    uint64_t began; /* …since then */
    LIST_HEAD(, scrape_wait) waiting;
    struct merger_job tidying; /* what a round ends with: expiry, and the flush if it is time for that */
    struct merger_job looking; /* then triggers look */
    bool is_tidying, is_flushing;
    bool is_flushed;        /* the exporters have all that was counted before flushed_until */
    uint64_t flushed_until; /* of the flush that is under way */
    /* Freed memory is given back (collecting.c). */
    uv_work_t trim;
    bool has_news;         /* somebody had a delta in this round */
    bool is_trimming;      /* freed memory is being given back */
    uint32_t quiet_rounds; /* since there was news */
    bool trim_is_quiet;    /* nobody works meanwhile */
    uint64_t trim_after;
};

struct gateway {
    const struct gateway_options *options;
    const struct config *config; /* the newest one taken; the stages that cannot change keep to the first */
    struct config *reloaded;     /* the same, when it is ours */
    struct budget budget;
    struct accounts accounts; /* of clients */
    struct ingest_kept kept;  /* by all that count */
    struct io_loop *loop;
    struct stats *stats, *merger_stats; /* the control loop's; the merger's */
    struct merger *merger; /* who has it may touch the store: outputs' counts, triggers' watches */
    struct counting *counting;
    struct captures *captures;
    struct board *board;               /* what is wrong with requests */
    struct control_triggers *triggers; /* of `counting` */
    struct outputs *outputs;
    struct receivers receivers;
    struct scraping scraping;
    struct consumer *consumer;     /* NULL: no topic is read */
    struct looking *looking;       /* NULL: off */
    struct from_pprof_links links; /* of the first configuration */
    struct listen *listen;
    struct ui *ui;
    struct admin *admin;
    struct admin_door door;       /* the admin's */
    struct admin_check checks[4]; /* these three are of its pages */
    struct admin_ready ready;
    struct scrapes *scrapes;
    struct collecting collecting;
    struct io_signal *on_term, *on_int, *on_hup;
    struct lanes *lanes;
    struct io_post lane_wanted;
    bool lanes_ended;
    struct gateway_worker *workers; /* the workers, then as many lanes, of which some run */
    uint32_t n_workers;
    uint32_t connections_max; /* as configured, or as open files allow */
    uint32_t n_changing;      /* those that have not changed over to new rules, or said that they cannot */
    uint32_t n_running;       /* those that have not stopped: workers, then, while they are gone, lanes */
    uint64_t next_flush_ns;
    struct merger_job last_flush;
    atomic_bool stopping; /* workers read it, too */
    bool drained;
    uint64_t drain_by; /* the end of shutdown_timeout, once exporters drain */
    struct {
        bool again;     /* one was asked for during the one before */
        bool is_good;   /* the last one */
        time_t good_at; /* the last good one; the start is the first */
    } reload;
};

/* ---- worker.c: the worker's thread, but for the last ---- */

/* As listen_factory's; the context is the gateway. */
void *gateway_worker_start(void *context, uint32_t index, struct io_loop *loop, struct error *e);
void gateway_worker_stop(void *context, uint32_t index, void *worker);

/* A worker's counts on their way to the control loop. */
struct handover {
    struct gateway_worker *worker;
    struct aggregate_delta *delta;
    struct look_batch *look;
    uint64_t asked; /* for it, then */
    bool is_last;   /* the worker has stopped */
    struct merger_job job;
};

/* For gateway_run_on; arg is a handover of that worker, which comes back through gateway_receive. */
void gateway_worker_hand_over(void *arg, void *context);

/* The last one of a thread that has stopped, or that stops now. */
void gateway_worker_hand_over_last(struct gateway_worker *w);

/* Those who watch the gateway's health are told; arg is the worker. */
void gateway_worker_tell(void *arg, void *context);

/* What workers and lanes have in common. */
void gateway_serve_options(struct gateway_worker *w, struct serve_options *ret);

/* scraping_init with what the gateway has. */
int gateway_begin_scraping(struct gateway *g, const struct config *c, struct scraping *ret, struct error *e);

/* The worker's chain of stages for these rules. 0 or -ENOMEM. */
int gateway_worker_pipeline(struct gateway_worker *w, const struct counting *counting, struct pipeline *ret);

/* ---- gateway.c: the control loop ---- */

/* What workers counted last has arrived, and is added up. */
void gateway_all_stopped(struct gateway *g);

/* ---- collecting.c: the control loop ---- */

/* Takes a handover that comes by io_loop_post. */
void gateway_receive(void *arg);

/* 0 or -ENOMEM. */
int gateway_start_collecting(struct gateway *g);
void gateway_stop_collecting(struct gateway *g);
void gateway_free_collecting(struct gateway *g);

/* Begins a round unless one is under way, and sees to the next. */
void gateway_collect(struct gateway *g);

/* Seconds since what /metrics shows was taken from the workers. */
double gateway_age(const struct gateway *g);

/* For scrape_source: tells when what was counted before has arrived, or when a worker lets wait. */
void gateway_freshen(void *context, struct scrape_wait *w);
void gateway_forget(void *context, struct scrape_wait *w);

/* ---- triggers.c: the control loop ---- */

/* The triggers of these rules, to be put in place of those before, if any. NULL with *e set: memory is out.
 */
struct control_triggers *gateway_triggers_for(struct gateway *g, const struct counting *counting,
                                              struct error *e);

/* GET /api/v1/triggers. */
struct admin_page gateway_triggers_page(struct gateway *g);

/* ---- lane.c: the control loop ---- */

/* Before the workers. 0 or -ENOMEM. */
int gateway_make_lanes(struct gateway *g);

/* How many count now: workers, and behind them the lanes there are. */
uint32_t gateway_n_counting(const struct gateway *g);

/* Conditions of gateway_run_on. */
enum {
    GATEWAY_RUN_ON_STOPPED = 1, /* it does not run, or no more: fn will not run */
};

/* As listen_run_on_worker, for each of them; what fn is given beside arg is of no use. 0, the condition above
 * or -ENOMEM. */
int gateway_run_on(struct gateway *g, uint32_t i, void (*fn)(void *arg, void *unused), void *arg);

/* After the last worker: joins the lanes, and sends off what they counted. Once. */
void gateway_end_lanes(struct gateway *g);

/* ---- show.c: the control loop ---- */

/* An address as configured with the port really bound, for people and for tests that asked for port 0. */
struct bound_address {
    struct bytes before_port; /* all of it where there is none, a unix socket's; of the configuration */
    char port[6];
};

/* `port` 0: it has none. */
struct bound_address gateway_bound_address(const char *configured, uint16_t port);

/* For outputs_set_more; the context is the gateway. */
int gateway_show(void *context, struct buffer *out);

/* GET /metrics and /api/v1/metrics. NULL: no memory. */
struct scrapes *gateway_scrapes(struct gateway *g);

/* ---- readiness.c: the control loop ---- */

/* GET /readyz. */
struct admin_page gateway_ready_page(struct gateway *g);

/* ---- reload.c: the control loop ---- */

/* Conditions of gateway_reload. */
enum {
    GATEWAY_RELOAD_LATER = 1, /* workers are still changing over: it is done, once, when they have */
};

/* Reads everything anew that can be, and puts all of it in place or nothing; the log tells. 0; *restart, if
 * not NULL, is then the caller's: the keys that need a restart, each a line. Negative with *e saying what is
 * wrong: the gateway goes on as it was. Or the condition above. */
int gateway_reload(struct gateway *g, struct buffer *restart, struct error *e);

/* Whether what is configured is in force, for those who watch. */
void gateway_reload_outcome(struct gateway *g, bool is_good);

/* POST /api/v1/reload. */
struct admin_page gateway_reload_page(struct gateway *g);

#endif
