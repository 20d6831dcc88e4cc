/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One page over HTTP/1.1, plain or through TLS: connect, GET, the body or the reason why not.
 */
#ifndef GATEWAY_TOP_FETCH_H
#define GATEWAY_TOP_FETCH_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/base/buffer.h"
#include "proto/base/bytes.h"
#include "proto/base/error.h"

struct io_loop;
struct tls_context;

#define TOP_PATH_DEFAULT "/api/v1/metrics"

/* How a gateway that asks who comes is asked. Whoever makes it frees its parts. */
struct top_way {
    struct tls_context *tls;     /* NULL: plain only */
    struct buffer authorization; /* the header's value; empty: none */
};

/* Where a page is. */
struct top_url {
    char host[256], authority[300], path[1024];
    uint16_t port;
    bool is_https;
    const struct top_way *way; /* the caller's to set: https needs one; must stay in place. NULL: none */
};

/* http[s]://host[:port][/path]; "http://" may be left out, the port is 9464 (the admin address's), and no
 * path or "/" means TOP_PATH_DEFAULT. 0, or -EINVAL with *e set. */
int top_url_parse(const char *text, struct top_url *ret, struct error *e);

/* How it ended: error 0 and the body, or a negative errno and words for a person; both valid during the call.
 */
typedef void (*top_fetch_fn)(void *user, int error, const char *message, struct bytes body);

struct top_fetch;

/* Begins; `done` is called exactly once, from the loop, at the latest after timeout_ns. url must stay in
 * place. NULL: memory is out. */
struct top_fetch *top_fetch_start(struct io_loop *loop, const struct top_url *url, uint64_t timeout_ns,
                                  top_fetch_fn done, void *user);

/* Forgets it; `done` is not called. NULL is fine. Returns NULL. */
struct top_fetch *top_fetch_cancel(struct top_fetch *f);

#endif
