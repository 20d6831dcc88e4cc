/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a destination is: what "http://host:port/path", "host:port" and "unix:/path" say.
 */
#ifndef PROTO_CLIENT_ENDPOINT_H
#define PROTO_CLIENT_ENDPOINT_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/base/error.h"

struct endpoint {
    bool tls;
    char *host; /* a name or address, without brackets; of "unix:" the socket's path */
    bool is_unix;
    uint16_t port;   /* 0 for unix */
    char *authority; /* what :authority and Host say: host:port, "[::1]:4317"; "localhost" for unix (grpc
                        naming) */
    char *path;      /* "" or "/…" without a trailing slash */
};

/* The longest endpoint taken: a URL of reasonable length (RFC 9110 §4.1 asks for 8000). */
#define ENDPOINT_LENGTH_MAX 8000u

/* Parses. Schemes http, https (TLS), grpc and grpcs likewise, none (plain), and unix:PATH or unix://PATH
 * (gRPC naming document; plain). No port: default_port, or with 0 what a URL's scheme has, 443 or 80. 0,
 * -ENOMEM, or -EINVAL with *e saying what is wrong. */
int endpoint_parse(struct endpoint *ret, const char *text, uint16_t default_port, struct error *e);

/* A proxy: "http://host:port" or "http://user:password@host:port". *ret_authorization is what the header
 * Proxy-Authorization says, the caller's to free; NULL: nothing. As endpoint_parse. */
int endpoint_parse_proxy(struct endpoint *ret, const char *text, char **ret_authorization, struct error *e);

/* Frees the strings; the endpoint may be parsed into again. */
void endpoint_release(struct endpoint *p);

#endif
