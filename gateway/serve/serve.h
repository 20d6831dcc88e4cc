/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stage that speaks to producers: OTLP/HTTP and OTLP/gRPC over HTTP/1.1 and HTTP/2 become one call of
 * ingest, and what ingest says becomes HTTP or gRPC words. One object per worker thread, used on that thread
 * alone.
 */
#ifndef GATEWAY_SERVE_SERVE_H
#define GATEWAY_SERVE_SERVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gateway/access/access.h"
#include "gateway/ingest/ingest.h"
#include "gateway/stats/stats.h"
#include "proto/base/budget.h"
#include "proto/base/meter.h"
#include "proto/http/exchange.h"

struct from_pprof_links;
struct io_loop;
struct lanes;
struct processor;
struct services;

/* What http_peer.listener points to; NULL there: an open listener of any layout. */
struct serve_listener {
    const struct access_policy *policy; /* NULL: open */
    enum profiles_layout layout;        /* PROFILES_LAYOUT_UNKNOWN: recognised. A request's own header
                                           (OTLP-Profiles-Development-Version) wins */
    const char *const *aliases; /* more HTTP paths that take profiles, beside /v1development/profiles … */
    uint32_t n_aliases;
};

struct serve_options {
    size_t request_bytes; /* a body as received, and again after decompression (OTLP specification: 64 MiB) */
    size_t keep_bytes;    /* body memory a worker keeps between requests, charged all the while */
    uint64_t retry_after_ns;              /* what a refusal for lack of memory suggests */
    const struct from_pprof_links *links; /* how labels of pprof name spans; NULL: as usual */
    struct access_worker *access;         /* this worker's; NULL: everybody may, without limits */
    struct services *services;            /* this worker's gRPC services; NULL: none */
    struct meter *meter;  /* the thread's, for what bodies are decoded to; above it is serve's budget; NULL:
                             there is none */
    struct lanes *lanes;  /* where large requests go; NULL: the worker does them itself */
    struct io_loop *loop; /* the worker's; with lanes, and where answers wait (ingest_answer.safe) */
};

#define SERVE_OPTIONS_DEFAULT                                                             \
    {                                                                                     \
        .request_bytes = 64u << 20, .keep_bytes = 4u << 20, .retry_after_ns = 1000000000u \
    }

struct serve;

/* ingest and budget must outlive it, and so must all that options point to; stats and budget may be NULL.
 * NULL when memory is out. */
struct serve *serve_new(const struct serve_options *options, struct ingest *ingest, struct stats *stats,
                        struct budget *budget);

/* After every session whose context it is has been freed. */
struct serve *serve_free(struct serve *s);

/* From the next request on it is this one that takes profiles. Not from inside a session's call. */
void serve_set_ingest(struct serve *s, struct ingest *ingest);

/* What a lane is to lanes_add: it does there what a worker does with its own requests. Of the options those
 * about bodies count. On any thread, but while the lane runs on the lane's. NULL when memory is out. */
struct processor *serve_lane_new(const struct serve_options *options, struct ingest *ingest,
                                 struct stats *stats, struct budget *budget);
struct processor *serve_lane_free(struct processor *lane);
void serve_lane_set_ingest(struct processor *lane, struct ingest *ingest);

/* Hooks for listen_factory: connections are counted to their clients (access.h). worker is the struct serve.
 */
bool serve_admit(void *context, void *worker, struct http_peer *peer);
void serve_leave(void *context, void *worker, struct http_peer *peer);

/* What http_session_new needs; the context is the struct serve. */
const struct http_handler *serve_handler(void);

#endif
