/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The administrative HTTP server, on the control loop: /healthz, /readyz, /metrics, /api/v1/triggers,
 * /api/v1/captures, POST /api/v1/capture and /api/v1/reload, and an index of them at /.
 *
 * It knows no other stage: what it shows comes through callbacks that main gives it.
 */
#ifndef GATEWAY_ADMIN_ADMIN_H
#define GATEWAY_ADMIN_ADMIN_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/base/buffer.h"
#include "proto/base/error.h"

struct io_loop;
struct admin;

/* Which metrics; or'ed. */
enum {
    ADMIN_METRICS_SELF = 1,     /* what the gateway knows about itself */
    ADMIN_METRICS_PROFILES = 2, /* what the rules counted */
};

/* How; what a scraper's Accept asked for (Prometheus documentation, "Scrape protocol content negotiation").
 */
enum admin_format { ADMIN_TEXT_0_0_4, ADMIN_TEXT_1_0_0, ADMIN_OPENMETRICS_0_0_1, ADMIN_OPENMETRICS_1_0_0 };
enum admin_escaping { ADMIN_UNDERSCORES, ADMIN_ALLOW_UTF8, ADMIN_DOTS, ADMIN_VALUES };

struct admin_metrics {
    unsigned what;
    enum admin_format format;
    enum admin_escaping escaping; /* of names that are not [a-zA-Z0-9_:] */
    bool escaping_is_asked_for;   /* then the answer names it */
};

/* POST /api/v1/capture: what to keep all raw profiles of, and for how long. */
#define ADMIN_CAPTURE_KEYS_MAX 8u /* as many attributes as a trigger's group has */
struct admin_capture {
    uint64_t lasting_ns;
    struct bytes keys[ADMIN_CAPTURE_KEYS_MAX], values[ADMIN_CAPTURE_KEYS_MAX]; /* of the resource */
    uint32_t n;                                                                /* 0: of everything */
};

struct admin_captures {
    /* Begins one; *ret_id is its name. 0, or negative with *e saying why not: -EINVAL (400), -ENOSPC, there
     * are as many as may be (429), -ENOMEM. */
    int (*begin)(void *context, const struct admin_capture *capture, uint32_t *ret_id, struct error *e);
    /* Ends it. 0, or -ENOENT: nobody began one of this name by hand, or it is over (then the answer is 404).
     */
    int (*end)(void *context, uint32_t id);
    /* Appends those that last, as JSON. 0 or a negative errno (then the answer is 500). */
    int (*list)(void *context, struct buffer *out);
    void *context;
};

/* One condition of /readyz. */
struct admin_check {
    const char *name; /* "exporter otlp/pyroscope" */
    /* Whether it is met; if not, *why may say why not. Control loop. */
    bool (*is_ready)(void *context, struct error *why);
    void *context;
};

/* Everything pointed at must outlive the server. */
struct admin_options {
    const char *endpoint; /* "localhost:9464"; port 0 picks a free one */
    /* Appends the metrics as they were asked for, to the end of the text ("# EOF"). 0 or a negative errno
     * (then the answer is 500). */
    int (*metrics)(void *context, const struct admin_metrics *wanted, struct buffer *out);
    void *metrics_context;
    /* POST /api/v1/reload: 0, or negative with *e saying why nothing changed (then the answer is 400). NULL:
     * there is no such page. */
    int (*reload)(void *context, struct error *e);
    void *reload_context;
    /* Appends what triggers are doing, as JSON, for GET /api/v1/triggers. 0 or a negative errno (then the
     * answer is 500). NULL: there is no such page. */
    int (*triggers)(void *context, struct buffer *out);
    void *triggers_context;
    struct admin_captures captures;   /* zeroed: there are no such pages */
    const struct admin_check *checks; /* ready when all are met */
    uint32_t n_checks;
};

/* Listens. NULL with *e set when the address is bad or taken, or memory is out. Control loop. */
struct admin *admin_new(const struct admin_options *options, struct io_loop *loop, struct error *e);

/* Closes every connection and the listener; the rest of the closing is the loop's, so run it once more. */
struct admin *admin_free(struct admin *a);

/* The port it listens on. */
uint16_t admin_port(const struct admin *a);

#endif
