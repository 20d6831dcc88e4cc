/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The chunked transfer coding of a request body (RFC 9112 §7.1), read strictly: CRLF and nothing else ends a
 * line, sizes are hexadecimal digits and nothing else, extensions and trailers are bounded and ignored. Our
 * own and not llhttp's, because llhttp 8 is built lenient about line ends in Debian, and two readings of one
 * body are what request smuggling is made of. For proto/http only.
 */
#ifndef PROTO_HTTP_HTTP1_CHUNKS_H
#define PROTO_HTTP_HTTP1_CHUNKS_H

#include <stdint.h>

#include "proto/base/bytes.h"

#define CHUNK_LINE_MAX    256u       /* size and extensions of one chunk */
#define CHUNK_TRAILER_MAX (8u << 10) /* the whole trailer section */
/* Extension bytes in the whole body: a stream of them is an attack, not data. */
#define CHUNK_OVERHEAD (64u << 10)

struct http1_chunks {
    uint64_t left;     /* of the chunk */
    uint32_t line;     /* bytes of the size line, or of the trailer section */
    uint32_t overhead; /* bytes of all extensions */
    uint8_t state;
    uint8_t digits;
};

enum http1_chunks_result {
    CHUNKS_MORE, /* all of the input is used up */
    CHUNKS_DATA, /* *ret is a piece of the body */
    CHUNKS_END,  /* the body is complete; *in is what follows it */
};

#define HTTP1_CHUNKS_INIT \
    {                     \
        0                 \
    }

/* Reads on, removing from *in what was read. A result above, or -EPROTO. */
int http1_chunks_next(struct http1_chunks *c, struct bytes *in, struct bytes *ret);

#endif
