/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A list of header fields in memory of its own: one block of text and one array, both used again for the next
 * message.
 */
#ifndef PROTO_HTTP_HEADERS_H
#define PROTO_HTTP_HEADERS_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/base/buffer.h"
#include "proto/base/vec.h"
#include "proto/http/exchange.h"

/* What RFC 9113 §6.5.2 adds to each field's name and value when it counts a header list. */
#define HEADER_OVERHEAD 32u

struct header_list {
    struct buffer text;
    VEC(struct http_header) items; /* until it is sealed, .p of a slice is an offset into text */
    uint64_t size;                 /* as SETTINGS_MAX_HEADER_LIST_SIZE counts */
};

/* Copies a field into the list. 0 or -ENOMEM. Not after header_list_seal. */
int header_list_add(struct header_list *l, struct bytes name, struct bytes value);

/* Makes the slices of the items point into the text: no more additions until header_list_clear. */
void header_list_seal(struct header_list *l);

/* Empties it; keeps its memory unless that is more than keep_max bytes of text. */
void header_list_clear(struct header_list *l, size_t keep_max);
void header_list_release(struct header_list *l);

/* Folds A–Z in place. */
void header_lower(uint8_t *p, size_t n);

/* RFC 9110 §5.6.2 token; §5.5 field value (obs-text allowed, control characters but HT not). */
bool header_name_is_valid(struct bytes name);
bool header_value_is_valid(struct bytes value);

/* A field value as digits only, as Content-Length (RFC 9110 §8.6). False if it is not or does not fit. */
bool header_length(struct bytes value, int64_t *ret);

/* Splits a request target at its first '?'. */
void target_split(struct bytes target, struct bytes *ret_path, struct bytes *ret_query);

#endif
