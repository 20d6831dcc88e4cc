/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Snappy's framing format: a stream of chunks with a checksum each, around Snappy's block format, which is
 * the library's business.
 *
 * Source: google/snappy, framing_format.txt (2013): §2 checksum masking, §3 the chunk layout, §4.1 … §4.6 the
 * types. Private to proto/coding.
 */
#ifndef PROTO_CODING_SNAPPY_H
#define PROTO_CODING_SNAPPY_H

#include "proto/base/buffer.h"
#include "proto/coding/job.h"

/* j->in in either format: a stream that begins with the identifier, else a block. A stream of nothing, no
 * bytes at all, is what writers make of an empty message. 0 or a condition of coding_decode; what was written
 * of a decode that failed is the caller's to take back. */
int snappy_decode(struct job *j);

/* Appends `in` as a framed stream. 0, -ENOMEM or -ENOBUFS (out->max); on failure out->n is as it was. */
int snappy_encode(struct bytes in, struct buffer *out);

#endif
