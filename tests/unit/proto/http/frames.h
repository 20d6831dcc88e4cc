/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HTTP/2 frames written by hand, for what a well-behaved client would not send.
 */
#ifndef TESTS_UNIT_PROTO_HTTP_FRAMES_H
#define TESTS_UNIT_PROTO_HTTP_FRAMES_H

#include <stdint.h>

#include "proto/base/buffer.h"

static inline void frame(struct buffer *b, uint8_t type, uint8_t flags, uint32_t id, struct bytes payload)
{
    uint8_t h[9] = {
        (uint8_t)(payload.n >> 16), (uint8_t)(payload.n >> 8), (uint8_t)payload.n, type,       flags,
        (uint8_t)(id >> 24),        (uint8_t)(id >> 16),       (uint8_t)(id >> 8), (uint8_t)id};
    buffer_add(b, h, 9);
    buffer_add_bytes(b, payload);
}

static inline void preface(struct buffer *b)
{
    buffer_add_str(b, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    frame(b, 4, 0, 0, bytes_of(NULL, 0));
}

/* :method POST, :scheme http, :path /, by the static table (RFC 7541 appendix A), and :authority h. */
#define POST_HEAD BYTES_LIT("\x83\x86\x84\x01\x01h")

/* Whether a frame of this type is in the output, and its last 4 payload bytes as an error code. */
static inline bool find_frame(const struct buffer *b, uint8_t type, uint32_t *ret_error)
{
    for (size_t at = 0; at + 9 <= b->n;) {
        const uint8_t *p = b->p + at;
        size_t n = (size_t)p[0] << 16 | (size_t)p[1] << 8 | p[2];
        if (p[3] == type && n >= 4) {
            const uint8_t *e = type == 7 ? p + 9 + 4 : p + 9;
            *ret_error = (uint32_t)e[0] << 24 | (uint32_t)e[1] << 16 | (uint32_t)e[2] << 8 | e[3];
            return true;
        }
        at += 9 + n;
    }
    return false;
}

#endif
