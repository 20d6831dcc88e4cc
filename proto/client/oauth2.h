/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A bearer token from an authorization server: OAuth 2.0's client credentials (RFC 6749 §4.4), asked for when
 * the first call needs one, and again before it expires or when it is refused. Private to the client; loop
 * thread.
 */
#ifndef PROTO_CLIENT_OAUTH2_H
#define PROTO_CLIENT_OAUTH2_H

#include "proto/client/options.h"

struct io_loop;
struct oauth2;

/* Copies what it needs. on_change: there is a token, or asking for one failed. 0, -ENOMEM, or an errno with
 * *e. */
int oauth2_new(struct oauth2 **ret, struct io_loop *loop, const struct client_oauth2 *options,
               uint64_t timeout_ns, void (*on_change)(void *user), void *user, struct error *e);
struct oauth2 *oauth2_free(struct oauth2 *o); /* NULL is fine; returns NULL */

/* "Bearer …", valid until the next turn of the loop; NULL: there is none yet, and it is being asked for. */
const char *oauth2_authorization(struct oauth2 *o);

/* It was refused: it is asked for anew. */
void oauth2_forget(struct oauth2 *o);

/* Why there is none; "" if nothing is known. */
const char *oauth2_failure(const struct oauth2 *o);

#endif
