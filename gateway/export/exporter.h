/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An exporter: where metrics or raw profiles go, of one of the kinds in kinds.c. A kind is a folder here with
 * one `struct exporter_kind`: its configuration rows and its functions. Nothing else in the tree names a
 * kind.
 *
 * One object serves one signal: an exporter that both metrics.exporters and profiles.exporters name is opened
 * twice. All of this is called on the control loop's thread, but for reserve, cancel and push_profiles, which
 * any thread calls.
 */
#ifndef GATEWAY_EXPORT_EXPORTER_H
#define GATEWAY_EXPORT_EXPORTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gateway/config/kind.h"
#include "gateway/export/prometheus/names.h"
#include "gateway/export/terms.h"
#include "proto/base/budget.h"
#include "proto/client/body.h"
#include "proto/otlp/metrics/metrics.h"

struct exporter;
struct io_loop;
struct promise;
struct stats;

/* What an exporter is opened with; what it points at outlives the exporter. */
struct export_context {
    const char *name;         /* "otlp/backend", as the configuration calls it: for the log; copied */
    enum config_takes signal; /* which of those that the kind takes */
    struct io_loop *loop;
    struct budget *budget;                /* queues are charged to it; NULL: unlimited */
    struct stats *stats;                  /* the control loop's block; NULL: nobody counts */
    uint64_t window_ns;                   /* from one batch of metrics to the next, at most */
    struct prometheus_options prometheus; /* how names and labels are written for Prometheus */
};

/* An exporter's key `temporality`, and its words. */
enum export_temporality { EXPORT_AS_METRICS_SAY, EXPORT_DELTA, EXPORT_CUMULATIVE };
/* clang-format off */
#define EXPORT_TEMPORALITIES {{"default", EXPORT_AS_METRICS_SAY}, {"delta", EXPORT_DELTA}, {"cumulative", EXPORT_CUMULATIVE}, {NULL}}
/* clang-format on */

/* How an exporter wants the metrics it gets. Zeroed: as the section `metrics` says. */
struct export_stream {
    enum export_temporality temporality;
    struct settings_strings
        attributes; /* of resources, that leave here (k8s.* is a prefix); none: the usual */
    bool own;       /* the gateway's own numbers (gateway/stats) go there, too */
    bool labels;    /* attributes become labels: the usual are those of metrics.prometheus_attributes */
};

struct exporter_kind {
    struct config_kind config; /* its name, its keys, what it takes */
    size_t size;               /* of its own struct, which begins with the exporter */

    /* May be NULL: as the section `metrics` says. */
    void (*stream)(const void *settings, struct export_stream *ret);

    /* Opens one, which is zero but for its kind, for c->signal; the settings are those of config.rows, and
     * outlive the exporter. Sets the terms of one for profiles. 0, or -EINVAL, -ENOMEM, an errno with *e
     * saying what; then it is released. */
    int (*open)(struct exporter *x, const void *settings, const struct export_context *c, struct error *e);

    /* Any thread, one at a time. Takes a batch with at least one point, splits it as far as needed and queues
     * it or writes it. Keeps nothing of the batch. Where there is no room the oldest goes: newer numbers are
     * worth more. What is lost is counted and logged. */
    void (*push_metrics)(struct exporter *x, const struct metric_batch *batch);

    /* Whether a batch would be safe now: else the window had better go on. Likewise. May be NULL: always. */
    bool (*is_ready)(struct exporter *x);

    /* Room for one request of n bytes: true, or nothing and false. Reservations are sums
     * (proto/client/client.h). */
    bool (*reserve)(struct exporter *x, size_t n);
    void (*cancel)(struct exporter *x, size_t n);

    /* Takes one ExportProfilesServiceRequest (protobuf of 1.10 that meets the terms, plain or in one of its
     * codings) under a reservation of `reserved` >= body->n bytes, with a reference of its own; cannot fail
     * but for lack of memory. NULL: there was no memory for the body; the reservation is settled and the
     * samples count as lost. One that keeps requests on disk owes `safe` (NULL: nobody waits) until this one
     * is there. */
    void (*push_profiles)(struct exporter *x, struct client_body *body, size_t reserved, uint64_t n_samples,
                          struct promise *safe);

    /* Sends what is queued until the monotonic time deadline_ns, counts the rest as lost, closes, then calls
     * `done` from the loop, never from inside this call. Once; no push afterwards. */
    void (*drain)(struct exporter *x, uint64_t deadline_ns, void (*done)(void *user), void *user);

    /* When the certificate that it shows ends, in Unix seconds; INT64_MAX: it has none. May be NULL:
     * likewise.
     */
    int64_t (*tls_expiry)(const struct exporter *x);

    /* What it holds, not itself. After `done`, or where open did not get to the end. */
    void (*release)(struct exporter *x);
};

/* First member of a kind's own struct. */
struct exporter {
    const struct exporter_kind *kind;
    struct export_terms terms; /* of one for profiles */
    bool is_durable;           /* likewise: it keeps requests on disk */
    uint32_t
        codings; /* likewise: 1 << enum coding for each in which it sends on what came in it, as it came */
};

/* Opens one of `kind` (an exporter_kind's config); errors begin with its name. -ENOMEM, or as
 * exporter_kind.open. */
int exporter_open(struct exporter **ret, const struct config_kind *kind, const void *settings,
                  const struct export_context *c, struct error *e);

/* How one of `kind` wants its metrics. */
struct export_stream exporter_stream(const struct config_kind *kind, const void *settings);

/* Whether a batch would be safe now (exporter_kind.is_ready). */
bool exporter_is_ready(struct exporter *x);

/* A batch for it, on any thread, one at a time; without a point nothing leaves (OTLP specification, "Empty
 * Telemetry Envelopes"). */
void exporter_push_metrics(struct exporter *x, const struct metric_batch *batch);

/* Whether one for profiles sends a request that came in this coding as it came; else it wants it plain. Any
 * thread. */
static inline bool exporter_sends_on(const struct exporter *x, enum coding received)
{
    return x->codings >> received & 1;
}

/* Whether one for profiles would take a request of n bytes now. Any thread. */
bool exporter_has_room(struct exporter *x, size_t n);

/* As exporter_kind.drain. Whoever was opened is drained, also when the program fails to start. */
void exporter_drain(struct exporter *x, uint64_t deadline_ns, void (*done)(void *user), void *user);

/* When the certificate that it shows ends, in Unix seconds; INT64_MAX: it has none. */
int64_t exporter_tls_expiry(const struct exporter *x);

/* NULL is fine. Returns NULL. */
struct exporter *exporter_free(struct exporter *x);

#endif
