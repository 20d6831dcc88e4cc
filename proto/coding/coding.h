/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Content codings of a whole body in memory: gzip, deflate (the zlib format), zstd, snappy and lz4, out
 * of and into a buffer.
 *
 * A body is decoded under a limit on what may come out, and what it grows is charged to a budget, so that a
 * few hostile bytes cost no more than the limit says. One decoder or encoder per thread: they keep their
 * tables.
 */
#ifndef PROTO_CODING_CODING_H
#define PROTO_CODING_CODING_H

#include <stddef.h>

#include "proto/base/budget.h"
#include "proto/base/buffer.h"
#include "proto/base/bytes.h"

enum coding {
    CODING_IDENTITY,
    CODING_GZIP,    /* RFC 1952, any number of members */
    CODING_DEFLATE, /* RFC 1950: what HTTP (RFC 9110 §8.4.1.2) and gRPC call deflate */
    CODING_ZSTD, /* RFC 8878, window at most 8 MiB as RFC 9659 §3 asks of a content coding; no dictionary */
    CODING_SNAPPY, /* framed stream (gRPC; x-snappy-framed) or one block (HTTP's snappy): whichever it is */
    CODING_LZ4,    /* frames, any number of them; no dictionary */
    CODING_UNKNOWN,
};

/* By its HTTP or gRPC name, ASCII case ignored; empty is identity; `x-gzip` is gzip (RFC 9110 §8.4.1.3); the
 * Collector's confighttp adds `zlib`, which is deflate, `x-snappy-framed` and `lz4` (its
 * compression_algorithms).
 * Anything else, a list of several codings too, is CODING_UNKNOWN. */
enum coding coding_parse(struct bytes name);

/* "identity", "gzip", "deflate", "zstd", "snappy", "lz4"; "unknown". */
const char *coding_name(enum coding c);

/* Whether a body begins as gzip does (RFC 1952 section 2.3.1), whatever it is said to be. */
bool coding_is_gzip(struct bytes body);

/* Every coding we decode, as accept-encoding (RFC 9110 §5.6.1: blanks are optional) and grpc-accept-encoding
 * (PROTOCOL-HTTP2.md: none) list them. */
#define CODING_LIST "gzip,deflate,zstd,snappy,lz4,identity"

/* Conditions of coding_decode. */
enum {
    CODING_CORRUPT = 1, /* not such a stream, cut short, followed by something else, or of too many parts */
    CODING_TOO_LARGE,   /* more than `limit` bytes would come out */
    CODING_OVER_BUDGET, /* the budget has no room for what comes out */
};

struct coding_decoder;

/* NULL when memory is out. The tables a coding needs inside (libdeflate 11 KiB, zstd 160 KiB; snappy none)
 * are made when the coding is first met; they never grow. */
struct coding_decoder *coding_decoder_new(void);
struct coding_decoder *coding_decoder_free(struct coding_decoder *d);

/*
 * Appends the decoded bytes to `out`, at most `limit` of them, and leaves `extra` allocated bytes behind them
 * (their content is undefined). Growth of out->cap is charged to `budget` (NULL: unlimited): whoever releases
 * the buffer refunds out->cap (room_release). Cost: bounded by the limit, not by how far a body unfolds: real
 * ones reach what their coding can (deflate 1,032 times, zstd 32,768); for gzip and deflate a first guess
 * that was too small is grown fourfold and decoded again, so never more than about 4/3 of one decode on top;
 * zstd's blocks say before how much they can become (a second time only where they are many and short). 0, a
 * condition above, -ENOMEM, or -EINVAL for CODING_UNKNOWN. On failure out->n is as it was.
 */
int coding_decode(struct coding_decoder *d, enum coding c, struct bytes in, size_t limit, size_t extra,
                  struct budget *budget, struct buffer *out);

/* Of how many members (gzip) or frames (zstd, lz4, skippable ones too) the last body was that it decoded; of
 * other codings 1. Who passes such bodies on may meet a receiver that reads the first one only. */
uint32_t coding_decoder_parts(const struct coding_decoder *d);

/* Why a body of that coding was CODING_CORRUPT, where its head tells: it asks for a dictionary, or for a
 * larger window than we give. "it needs …", for a person; NULL when there is nothing more to say than
 * corrupt. */
const char *coding_explain(enum coding c, struct bytes in);

struct coding_encoder;

/* level: 1 … 12 for gzip and deflate, 1 … 19 for zstd; 0 means the usual one (6, 6 and 3); out of range is
 * cut to it; lz4 has none here, and snappy, written as a framed stream, which every reader of either kind
 * takes, has none. NULL when memory is out or the coding is CODING_UNKNOWN. */
struct coding_encoder *coding_encoder_new(enum coding c, int level);
struct coding_encoder *coding_encoder_free(struct coding_encoder *e);
enum coding coding_encoder_coding(const struct coding_encoder *e);

/* Appends `in`, encoded as one member, frame or stream. 0, -ENOMEM or -ENOBUFS (out->max). */
int coding_encode(struct coding_encoder *e, struct bytes in, struct buffer *out);

/* Appends `in` as one block of snappy, without the frames of CODING_SNAPPY: what Prometheus remote write
 * demands. 0, -ENOMEM or -ENOBUFS (out->max); -EMSGSIZE above the 4 GiB a block can say it holds. */
int coding_encode_snappy_block(struct bytes in, struct buffer *out);

#endif
