/* SPDX-License-Identifier: Apache-2.0 */
/*
 * profsend while it runs: what open.c opens, main.c runs and closes, windows.c hands on, and
 * figures.c tells of it.
 */
#ifndef SENDER_RUN_PROGRAM_H
#define SENDER_RUN_PROGRAM_H

#include <uv.h>

#include "proto/base/rng.h"
#include "proto/io/loop.h"
#include "sender/attach/sampler.h"
#include "sender/deliver/delivery.h"
#include "sender/run/host.h"
#include "sender/run/known.h"
#include "sender/run/namer.h"
#include "sender/run/notify.h"
#include "sender/run/surroundings.h"
#include "sender/options/options.h"
#include "sender/report/status.h"
#include "sender/symbolize/cache/stored.h"
#include "sender/symbolize/fetch.h"
#include "sender/run/unwinder.h"

enum { EXIT_DONE = 0, EXIT_FAILED = 1, EXIT_USAGE = 2, EXIT_REFUSED = 3 };

struct program {
    struct options options;
    struct host host;
    struct sampler *sampler;
    struct unwinder *unwinder;
    struct known *known;
    struct collector collector;
    struct fetch *fetch;   /* NULL: nobody is asked for debug files */
    struct stored *stored; /* NULL: names are not kept on disk */
    struct words *words;
    struct pods *pods; /* NULL: nobody is asked for names of pods */
    struct namer *namer;
    struct delivery delivery;
    struct client *metrics; /* NULL: our figures go nowhere */
    struct status *status;
    struct surroundings surroundings;
    struct notify *notify;
    struct io_loop *loop;
    uv_timer_t drain, window, end;
    uv_poll_t ring;
    uv_signal_t interrupt, terminate, hangup;
    struct rng rng;
    uint64_t begun, window_begun, farewell;
    uint32_t drains, ticks;      /* of the timers that visit the ring, and end windows */
    uint64_t windows, stretched; /* handed on; not ended yet when it was time */
    uint64_t naming_ns;          /* that naming and encoding took */
    uint64_t dropped;            /* samples */
    uint64_t unwanted;           /* likewise: that rules left out */
    uint32_t named;              /* samples of the window that is being named */
    bool stopping, said_hidden, again;
    uint32_t n_farewells; /* at the end: how often names were waited for, */
    uint64_t end_cpu;     /* and what CPU time we had used when that began */
    bool is_last;         /* the last window was handed on */
    bool is_late;         /* names took too long, at the end: what is not named yet is not sent */
    bool is_left;         /* at the end: what cannot be waited for is under way */
    int argc;
    char **argv;
};

/* Everything up to the loop, by p->options. 0, or the exit status, and why was logged. */
int program_open(struct program *p);

/* What exporters of ours have in common: who sends, how, and how long it may take. The queue has one
 * consumer; the rest is the caller's. */
struct client_options exporter_options(const struct options *o, enum otlp_signal signal,
                                       const char *endpoint);

/* Ends the window: takes what is in the ring, and hands the window on to be named. While the one before it
 * still is, the window goes on. */
void windows_end(struct program *p);

/* At the end, when no sample comes any more: hands on what there is; program_farewell is called when all
 * windows were named, or it took too long. */
void windows_finish(struct program *p);

/* Sends what is queued, as long as there is time, and ends the loop. (main.c) */
void program_farewell(struct program *p);

/* For namer_options: a request is delivered; a window was named. */
void windows_request(void *program, struct buffer *out, uint64_t hits);
void windows_named(void *program, const struct namer_result *result);

/* What profsend itself cost and lost so far, as one line of the log. */
void figures_log(struct program *p, enum log_level level);

/* The same for the status page; a status_write_fn of status.h. 0 or -ENOMEM. */
int figures_status(void *program, enum status_page page, struct buffer *out);

/* Opens the exporter of our own figures: p->options.metrics_endpoint. 0, or a negative errno with *e. */
int figures_open(struct program *p, struct error *e);

/* Sends them; nothing where no exporter is open. A report that is lost is no loss: the next says the same and
 * more. */
void figures_send(struct program *p);

#endif
