/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The running gateway: every stage joined, from listening sockets to exporters, until a signal ends it.
 *
 * The main thread runs the control loop (admin server, merger, exporters, signals); each worker thread
 * receives, counts and forwards on a loop of its own. The only things that cross threads are messages: a
 * worker's delta, and raw profiles into the exporters' queues.
 */
#ifndef GATEWAY_RUN_GATEWAY_H
#define GATEWAY_RUN_GATEWAY_H

#include "gateway/config/config.h"
#include "proto/base/error.h"

struct gateway_options {
    const struct config *config; /* outlives the gateway */
    /* The configuration anew, whole and checked, for SIGHUP and POST /api/v1/reload; the caller's to free.
     * NULL with *e set: it is wrong. */
    struct config *(*reload)(void *context, struct error *e);
    void *context;
};

/* First of all, before what takes time: SIGHUP waits until gateway_run hears it, instead of ending the
 * process. */
void gateway_hold_hangup(void);

/* A name is being resolved, which nothing can end, and what looks at it is left as it is: exit(3) would wait
 * for it, _exit(2) does not. */
enum { GATEWAY_LEFT = 1 };

/* Runs until SIGTERM or SIGINT and everything was handed on. 0 or GATEWAY_LEFT; negative with *e set: -EINVAL
 * for rules or configuration, another errno when the environment refuses (address in use, no memory). */
int gateway_run(const struct gateway_options *options, struct error *e);

#endif
