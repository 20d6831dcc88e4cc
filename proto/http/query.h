/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The small languages in a request's head: query strings, Accept-Encoding and Accept.
 */
#ifndef PROTO_HTTP_QUERY_H
#define PROTO_HTTP_QUERY_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/base/bytes.h"

/* Cuts *rest at the first `mark`; the part before it is returned. */
struct bytes query_cut(struct bytes *rest, char mark);

/* Takes the next NAME=VALUE off the front of a query string. False at its end. Both are still
 * percent-encoded. */
bool query_next(struct bytes *query, struct bytes *ret_name, struct bytes *ret_value);

/* Whether percent-encoded text says `plain` (RFC 3986 §2.1; '+' is a blank in forms and stands for nothing
 * else). */
bool query_is(struct bytes encoded, const char *plain);

/* What percent-encoded text says, into out; *ret points there. 0, -E2BIG: it is longer than `max`, -EINVAL: a
 * '%' without two hex digits. */
int query_decode(struct bytes encoded, uint8_t *out, size_t max, struct bytes *ret);

/* The same of a form's (WHATWG URL standard, "application/x-www-form-urlencoded"), where '+' is a blank: what
 * clients' libraries make of parameters. */
int query_decode_form(struct bytes encoded, uint8_t *out, size_t max, struct bytes *ret);

/* Whether an Accept-Encoding value (RFC 9110 §12.5.3) allows gzip: named, or by '*', and not with q=0. */
bool query_accepts_gzip(struct bytes accept_encoding);

#define QUERY_WEIGHT_MAX 1000u

/* The weight that an Accept value gives a media type, or a range, which it names (RFC 9110 §12.5.1, §12.4.2),
 * in thousandths. 0: none; ranges that a type is in do not ask for it. */
unsigned query_accepts(struct bytes accept, const char *media_type);

#endif
