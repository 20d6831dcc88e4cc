/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A gRPC message on the wire (grpc/grpc doc/PROTOCOL-HTTP2.md "Length-Prefixed-Message"): one flag byte, four
 * bytes of length, big-endian, then the message. Where DATA frames end has nothing to do with where messages
 * do.
 *
 * The reader reads one message, which is all a unary call has; who reads a stream restarts it after each. It
 * owns no memory; it cuts the pieces it is fed into payload.
 */
#ifndef PROTO_GRPC_FRAME_H
#define PROTO_GRPC_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/base/bytes.h"

#define GRPC_PREFIX_BYTES 5u

struct grpc_reader {
    size_t max; /* of a message as it is on the wire */
    uint8_t prefix[GRPC_PREFIX_BYTES];
    uint8_t n_prefix; /* bytes of it that have come */
    bool compressed;  /* these two once the prefix is complete */
    uint32_t length;
    uint32_t got; /* payload bytes handed out */
};

#define GRPC_READER_INIT(max_) \
    {                          \
        .max = (max_)          \
    }

enum grpc_read {
    GRPC_READ_MORE,      /* *in is used up */
    GRPC_READ_HEAD,      /* the prefix is complete: .compressed and .length are known */
    GRPC_READ_PAYLOAD,   /* *ret is the next part of the message; a slice of *in as it was */
    GRPC_READ_BAD_FLAG,  /* neither 0 nor 1: not a gRPC message */
    GRPC_READ_TOO_LARGE, /* .length passes .max */
    GRPC_READ_SECOND,    /* a byte after the message: a unary call has one message */
};

/* Takes the next event out of *in, moving *in past what it used; call until GRPC_READ_MORE. Each of the last
 * three ends the reading. */
enum grpc_read grpc_reader_next(struct grpc_reader *r, struct bytes *in, struct bytes *ret);

/* Whether a complete message has been read. False for a body that ended too early, or had none at all. */
static inline bool grpc_reader_is_complete(const struct grpc_reader *r)
{
    return r->n_prefix == GRPC_PREFIX_BYTES && r->got == r->length;
}

/* Ready for the next message of a stream, once one is complete. */
static inline void grpc_reader_restart(struct grpc_reader *r)
{
    *r = (struct grpc_reader)GRPC_READER_INIT(r->max);
}

/* The message in a complete body, for who has it in one piece: GRPC_READ_PAYLOAD with *ret_compressed and
 * *ret, a slice of body; GRPC_READ_MORE when it is cut short or empty; or one of the last three above. */
enum grpc_read grpc_message_find(struct bytes body, size_t max, bool *ret_compressed, struct bytes *ret);

/* Writes the prefix of a message of n bytes. */
void grpc_prefix_write(uint8_t to[GRPC_PREFIX_BYTES], bool compressed, uint32_t n);

#endif
