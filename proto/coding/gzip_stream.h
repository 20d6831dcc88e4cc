/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A gzip member (RFC 1952) written piece by piece, for what is too large to be in memory whole. One thread.
 *
 * igzip, because libdeflate has no streams. It is twice as fast as that at its level 1, and makes what Go's
 * runtime does of a profile: some 10 % more than coding_encode's level 4.
 */
#ifndef PROTO_CODING_GZIP_STREAM_H
#define PROTO_CODING_GZIP_STREAM_H

#include <stdbool.h>

#include "proto/base/buffer.h"
#include "proto/base/bytes.h"

struct gzip_stream;

/* What one takes: a window and tables. */
#define GZIP_STREAM_BYTES (410u << 10)

/* NULL: no memory. */
struct gzip_stream *gzip_stream_new(void);
struct gzip_stream *gzip_stream_free(struct gzip_stream *g);

/* Appends what there is of the stream with `in` added, all of it with `is_last`; then nothing may follow. 0,
 * -ENOMEM or -ENOBUFS: then the stream is of no use any more. */
int gzip_stream_add(struct gzip_stream *g, struct bytes in, bool is_last, struct buffer *out);

#endif
