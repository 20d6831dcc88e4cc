/*
 * Destinations: where metrics and raw profiles go, and how they are started and stopped. The push headers
 * beside this one (metrics.h, profiles.h) are what other stages use.
 *
 * A destination is OTLP (gRPC or HTTP, proto/client/exporter.h) or, for metrics, a file of OTLP/JSON lines.
 * All of them run on the control loop.
 */
#ifndef GATEWAY_EXPORT_DESTINATION_H
#define GATEWAY_EXPORT_DESTINATION_H

#include <stddef.h>
#include <stdint.h>

#include "proto/base/error.h"
#include "proto/client/exporter.h"
#include "gateway/export/metrics.h"
#include "gateway/export/profiles.h"

struct stats;
struct io_loop;

enum destination_kind { DESTINATION_OTLP, DESTINATION_FILE };

struct destination_options {
    const char *name; /* "otlp/backend", as the configuration calls it: for the log */
    enum destination_kind kind;
    struct otlp_exporter_options otlp; /* DESTINATION_OTLP; its signal is set here, by the constructor */
    const char *path;                  /* DESTINATION_FILE */
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
