/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is said to a client that speaks plainly where TLS is wanted, or TLS where there is none; and who else
 * begins with what no address takes.
 */
#ifndef GATEWAY_LISTEN_REFUSAL_H
#define GATEWAY_LISTEN_REFUSAL_H

#include <stdbool.h>

#include "proto/base/bytes.h"

/* The words for one whose first bytes these are: HTTP/2 frames if they are the beginning of its preface, else
 * an HTTP/1 response. Static. */
struct bytes refusal_of_plaintext(struct bytes first);

/* Whether it is a balancer that says first whose connection it passes on (HAProxy's PROXY protocol, version 1
 * or 2), which no address asks for: anybody could say so. */
bool refusal_is_proxy_head(struct bytes first);

/* The words for one who begins with TLS: an HTTP/1 response. No TLS client shows them, but each says of it
 * what people look for: "first record does not look like a TLS handshake" (Go), "wrong version number"
 * (OpenSSL). */
struct bytes refusal_of_tls(void);

#endif
