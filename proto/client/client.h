/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A client of one destination: a bounded queue, some calls at a time, retry by OTLP's rules. It speaks OTLP,
 * or another dialect (options.h: Prometheus remote write). The gateway's exporters and the sender use it.
 *
 * It lives on one loop (proto/io/loop.h). Requests come into its queue from any thread, everything else,
 * callbacks included, happens on the loop's thread. Compression runs on libuv's thread pool.
 */
#ifndef PROTO_CLIENT_CLIENT_H
#define PROTO_CLIENT_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/base/error.h"
#include "proto/client/body.h"
#include "proto/client/event.h"
#include "proto/client/options.h"
#include "proto/client/queue.h"

struct io_loop;
struct client;

/* Checks the options and copies what it needs of them; opens nothing yet (the first request connects).
 * on_event may be NULL. 0, -EINVAL for options, -ENOMEM, or the errno of reading TLS files; *e says what.
 * Loop thread. */
int client_new(struct client **ret, struct io_loop *loop, const struct client_options *options,
               client_event_fn on_event, void *user, struct error *e);

/* When the certificate that it shows ends (tls_context_expiry). Loop thread. */
int64_t client_tls_expiry(const struct client *x);

/* Its queue, to which any thread offers requests (queue.h); after the shutdown began it takes none. */
struct send_queue *client_queue(struct client *x);

/* The coding in which it sends a request that came in `received` (CODING_UNKNOWN: that was made here): a body
 * that is in this one is sent as it is, and one that is in any other must be pushed plain. Any thread. */
enum coding client_coding(const struct client *x, enum coding received);

/* send_queue_offer_newest to its queue. */
void client_push_newest(struct client *x, struct client_body *body, uint64_t items);

/* Has fn(user) called from the loop, soon after requests came in: for a gauge of the queue. Loop thread. */
void client_on_queued(struct client *x, void (*fn)(void *user), void *user);

/* Sends what is queued until everything is settled or the monotonic time deadline_ns: what waits for its next
 * attempt is tried at once, and what fails and may be repeated is, with shorter pauses, while there is time.
 * What is left then is reported as CLIENT_SHUT_DOWN. Then closes its handles and calls `done` from the loop,
 * after which the only thing allowed is client_free. Once. Loop thread. */
void client_shutdown(struct client *x, uint64_t deadline_ns, void (*done)(void *user), void *user);

/* Frees it; only after `done`, and when no other thread will call. NULL is fine. Returns NULL. */
struct client *client_free(struct client *x);

#endif
