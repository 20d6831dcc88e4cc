/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Destinations: where metrics and raw profiles go, and how they are started and stopped. The push headers
 * beside this one (metrics.h, profiles.h) are what other stages use.
 *
 * A destination is OTLP (gRPC or HTTP, proto/client/exporter.h) or, for metrics, a file of OTLP/JSON lines or
 * a Prometheus remote write receiver. All of them run on the control loop.
 */
#ifndef GATEWAY_EXPORT_DESTINATION_H
#define GATEWAY_EXPORT_DESTINATION_H

#include <stddef.h>
#include <stdint.h>

#include "proto/base/error.h"
#include "proto/client/exporter.h"
#include "gateway/export/metrics.h"
#include "gateway/export/prometheus/prometheus.h"
#include "gateway/export/profiles.h"

struct stats;
struct io_loop;

enum destination_kind { DESTINATION_OTLP, DESTINATION_FILE, DESTINATION_REMOTE_WRITE };

/* Of OTLP/HTTP bodies. */
enum destination_encoding { DESTINATION_PROTO, DESTINATION_JSON };

struct destination_options {
    const char *name; /* "otlp/backend", as the configuration calls it: for the log */
    enum destination_kind kind;
    /* Its signal is set here, by the constructor. DESTINATION_REMOTE_WRITE: protocol, compression and
     * num_consumers too (one call at a time: samples of a series must arrive in order), and the endpoint's
     * path is the whole of it: "http://prometheus:9090/api/v1/write" (no unix: here; without a port 80 or
     * 443). */
    struct otlp_exporter_options otlp;
    enum destination_encoding encoding; /* DESTINATION_OTLP, metrics; JSON only by HTTP */
    bool layout_1_9;                    /* DESTINATION_OTLP, profiles: as OTLP 1.9 has them; else 1.10 */
    const char *path;                   /* DESTINATION_FILE */
    /* DESTINATION_REMOTE_WRITE: 1 (prometheus.WriteRequest) or 2 (io.prometheus.write.v2.Request). A receiver
     * that knows only 1 may take a 2 for an empty 1 and say that all is well: 2 is for those that know it. */
    uint32_t protobuf_message;
    struct prometheus_options prometheus; /* DESTINATION_REMOTE_WRITE: strategy, scope_labels */
};

/* Everything below: control loop's thread. `stats` is that thread's block and may be NULL. */

/* 0, or -EINVAL, -ENOMEM, the errno of opening the file; *e says what. Copies what it needs of the options.
 */
int export_metrics_new(struct export_metrics **ret, struct io_loop *loop,
                       const struct destination_options *options, struct stats *stats, struct error *e);

/* Sends what is queued until the monotonic time deadline_ns, counts the rest as lost, closes, then calls
 * `done` from the loop (never from inside this call). Once; no push afterwards. */
void export_metrics_shutdown(struct export_metrics *x, uint64_t deadline_ns, void (*done)(void *user),
                             void *user);

/* After `done` only: whoever was made is shut down, also when the program fails to start. NULL is fine. */
struct export_metrics *export_metrics_free(struct export_metrics *x);

/* The same for raw profiles, to n >= 1 destinations at once. Refuses DESTINATION_FILE by name. */
int export_profiles_new(struct export_profiles **ret, struct io_loop *loop,
                        const struct destination_options *options, uint32_t n, struct stats *stats,
                        struct error *e);
void export_profiles_shutdown(struct export_profiles *x, uint64_t deadline_ns, void (*done)(void *user),
                              void *user);
struct export_profiles *export_profiles_free(struct export_profiles *x);

#endif
