/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A gzip member (RFC 1952) written piece by piece, for what is too large to be in memory whole. One thread.
 *
 * zlib, because libdeflate has no streams; what is there as a whole is coding_encode's, which is three times
 * as fast.
 */
#ifndef PROTO_CODING_GZIP_STREAM_H
#define PROTO_CODING_GZIP_STREAM_H

#include <stdbool.h>

#include "proto/base/buffer.h"
#include "proto/base/bytes.h"

struct gzip_stream;

/* What one takes: a window and hash tables of zlib's. */
#define GZIP_STREAM_BYTES (270u << 10)

/* level: 1 … 9. NULL: no memory. */
struct gzip_stream *gzip_stream_new(int level);
struct gzip_stream *gzip_stream_free(struct gzip_stream *g);

/* Appends what there is of the stream with `in` added, all of it with `is_last`; then nothing may follow. 0,
 * -ENOMEM or -ENOBUFS: then the stream is of no use any more. */
int gzip_stream_add(struct gzip_stream *g, struct bytes in, bool is_last, struct buffer *out);

#endif
