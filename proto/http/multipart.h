/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parts of a multipart/form-data body (RFC 7578, RFC 2046 section 5.1), over bytes somebody else owns.
 * Line ends are CRLF. Nothing is copied, nothing nests, and the time is linear in the body.
 */
#ifndef PROTO_HTTP_MULTIPART_H
#define PROTO_HTTP_MULTIPART_H

#include "proto/base/bytes.h"

/* RFC 2046 section 5.1.1. */
#define MULTIPART_BOUNDARY_MAX 70u

/* Of one part's header fields; browsers and clients' libraries write two or three lines. */
#define MULTIPART_HEAD_MAX (8u << 10)

/* A form of more fields is nobody's. */
#define MULTIPART_PARTS_MAX 64u

struct multipart {
    struct bytes rest;
    uint8_t delimiter[4 + MULTIPART_BOUNDARY_MAX]; /* CRLF "--" boundary */
    size_t n_delimiter;
    uint32_t n_parts;
    const char *wrong; /* after MULTIPART_MALFORMED */
};

struct multipart_part {
    struct bytes name; /* of the field, as it is quoted; empty: none is said */
    struct bytes body;
};

/* Conditions. */
enum {
    MULTIPART_END = 1,
    MULTIPART_MALFORMED, /* `wrong` says what */
};

/* Begins. The boundary is in the Content-Type. 0 or MULTIPART_MALFORMED. */
int multipart_begin(struct multipart *m, struct bytes content_type, struct bytes body);

/* The next part, in order. 0, MULTIPART_END, MULTIPART_MALFORMED. */
int multipart_next(struct multipart *m, struct multipart_part *ret);

#endif
