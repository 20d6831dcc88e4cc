/*
 * profsend while it runs: what main.c opens, runs and closes, and what figures.c tells of it.
 */
#ifndef SENDER_PROGRAM_H
#define SENDER_PROGRAM_H

#include <uv.h>

#include "proto/base/rng.h"
#include "proto/io/loop.h"
#include "sender/attach/sampler.h"
#include "sender/collect/report.h"
#include "sender/delivery.h"
#include "sender/host.h"
#include "sender/options.h"
#include "sender/status.h"
#include "sender/symbolize/fetch.h"
#include "sender/unwinder.h"

struct program {
    struct options options;
    struct host host;
    struct sampler *sampler;
    struct unwinder *unwinder;
    struct collector collector;
    struct fetch *fetch; /* NULL: nobody is asked for debug files */
    struct build *build;
    struct delivery delivery;
    struct otlp_exporter *metrics; /* NULL: our figures go nowhere */
    struct status *status;
    struct io_loop *loop;
    uv_timer_t drain, window, end;
    uv_poll_t ring;
    uv_signal_t interrupt, terminate, hangup;
    struct rng rng;
    uint64_t begun, window_begun, farewell;
    uint64_t windows, dropped;
    bool stopping, said_hidden, again;
    int argc;
    char **argv;
};

/* What profsend itself cost and lost so far, as one line of the log. */
void figures_log(struct program *p, enum log_level level);

/* The same for the status page; a status_write_fn of status.h. 0 or -ENOMEM. */
int figures_status(void *program, struct buffer *out);

/* Opens the exporter of our own figures: p->options.metrics_endpoint. 0, or a negative errno with *e. */
int figures_open(struct program *p, struct error *e);

/* Sends them; nothing where no exporter is open. A report that is lost is no loss: the next says the same and
 * more. */
void figures_send(struct program *p);

#endif
