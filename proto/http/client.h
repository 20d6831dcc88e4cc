/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table by which client.c calls the client side of either version. For proto/http only.
 */
#ifndef PROTO_HTTP_CLIENT_H
#define PROTO_HTTP_CLIENT_H

#include "proto/http/exchange.h"

/* Each function as its namesake in exchange.h. */
struct http_client_ops {
    void (*free)(struct http_client *c);
    struct http_call *(*call)(struct http_client *c, const struct http_request *request, http_call_fn done,
                              void *user);
    void (*cancel)(struct http_client *c, struct http_call *call);
    int (*feed)(struct http_client *c, struct bytes in);
    void (*feed_eof)(struct http_client *c);
    int (*drain)(struct http_client *c, struct buffer *out, size_t max);
    bool (*has_output)(const struct http_client *c);
    bool (*is_ready)(const struct http_client *c);
    bool (*is_done)(const struct http_client *c);
};

/* A version's own object begins with this. */
struct http_client {
    const struct http_client_ops *ops;
    size_t response_max;
    struct budget *budget;      /* of responses; NULL: unlimited */
    struct http_places *places; /* of the drain that is under way; NULL: bodies are copied */
};

/* Drains so much of *body, which moves on: copies it, or leaves it in its place. 0 or -ENOMEM. */
int http_places_add(struct http_places *p, struct buffer *out, struct bytes *body, size_t n);

/* Copies into `out` what was left in its place. 0 or -ENOMEM. */
int http_places_copy(struct http_places *p, struct buffer *out);

/* NULL: memory is out. */
struct http_client *http1_client_new(size_t response_max);
struct http_client *http2_client_new(size_t response_max);

#endif
