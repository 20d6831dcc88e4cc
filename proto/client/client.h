/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A client of one destination: a bounded queue, some calls at a time, retry by OTLP's rules. It speaks OTLP,
 * or another dialect (options.h: Prometheus remote write). The gateway's exporters and the sender use it.
 *
 * It lives on one loop (proto/io/loop.h). Requests come in from any thread (reserve, cancel, push, evict),
 * everything else, callbacks included, happens on the loop's thread. Compression runs on libuv's thread pool.
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

struct io_loop;
struct client;

/* Checks the options and copies what it needs of them; opens nothing yet (the first request connects).
 * on_event may be NULL. 0, -EINVAL for options, -ENOMEM, or the errno of reading TLS files; *e says what.
 * Loop thread. */
int client_new(struct client **ret, struct io_loop *loop, const struct client_options *options,
               client_event_fn on_event, void *user, struct error *e);

/* Reserves room for one request of n bytes, or nothing and false. False after shutdown began. Reservations
 * are sums: what was reserved may be pushed and given back in other portions, as long as requests and bytes
 * add up to the same. Any thread. */
bool client_reserve(struct client *x, size_t n);

/* Gives a reservation of n bytes back. Any thread. */
void client_cancel(struct client *x, size_t n);

/* The coding in which it sends a request that came in `received` (CODING_UNKNOWN: that was made here): a body
 * that is in this one is sent as it is, and one that is in any other must be pushed plain. Any thread. */
enum coding client_coding(const struct client *x, enum coding received);

/* Queues a request under a reservation of `reserved` >= body->n bytes. Takes a reference of its own: the
 * caller still gives his back. `items` is what events report (samples, points). Any thread. */
void client_push(struct client *x, struct client_body *body, size_t reserved, uint64_t items);

/* The same of a request that its owner knows by a number above 0, which its events bear. False: it is larger
 * than max_request_bytes or came after the shutdown; then the reservation is settled and no event comes. Any
 * thread. */
bool client_push_tagged(struct client *x, struct client_body *body, size_t reserved, uint64_t items,
                        uint64_t tag);

/* Queues a request without a reservation; where there is no room, the oldest ones that are waiting are
 * dropped, and if that is not enough, this one. Takes a reference of its own, likewise. Any thread. */
void client_push_newest(struct client *x, struct client_body *body, uint64_t items);

/* Bytes reserved and queued, calls in flight included. Any thread. */
size_t client_queued_bytes(const struct client *x);

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
