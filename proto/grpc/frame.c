/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/grpc/frame.h"

#include "proto/base/macros.h"

static enum grpc_read read_prefix(struct grpc_reader *r, struct bytes *in)
{
    size_t n = min_of(in->n, (size_t)(GRPC_PREFIX_BYTES - r->n_prefix));
    memcpy(r->prefix + r->n_prefix, in->p, n);
    r->n_prefix = (uint8_t)(r->n_prefix + n);
    *in = bytes_of(in->p + n, in->n - n);
    if (r->prefix[0] > 1)
        return GRPC_READ_BAD_FLAG;
    if (r->n_prefix < GRPC_PREFIX_BYTES)
        return GRPC_READ_MORE;
    r->compressed = r->prefix[0] == 1;
    r->length = (uint32_t)r->prefix[1] << 24 | (uint32_t)r->prefix[2] << 16 | (uint32_t)r->prefix[3] << 8 |
                (uint32_t)r->prefix[4];
    return r->length > r->max ? GRPC_READ_TOO_LARGE : GRPC_READ_HEAD;
}

enum grpc_read grpc_reader_next(struct grpc_reader *r, struct bytes *in, struct bytes *ret)
{
    if (in->n == 0)
        return GRPC_READ_MORE;
    if (r->n_prefix < GRPC_PREFIX_BYTES)
        return read_prefix(r, in);
    if (r->got == r->length)
        return GRPC_READ_SECOND;
    size_t n = min_of(in->n, (size_t)(r->length - r->got));
    r->got += (uint32_t)n;
    *ret = bytes_of(in->p, n);
    *in = bytes_of(in->p + n, in->n - n);
    return GRPC_READ_PAYLOAD;
}

enum grpc_read grpc_message_find(struct bytes body, size_t max, bool *ret_compressed, struct bytes *ret)
{
    struct grpc_reader r = GRPC_READER_INIT(max);
    struct bytes message = {body.p, 0}, piece;
    for (;;) {
        enum grpc_read event = grpc_reader_next(&r, &body, &piece);
        if (event == GRPC_READ_HEAD) {
            message = bytes_of(body.p, 0);
        } else if (event == GRPC_READ_PAYLOAD) {
            message = piece;
        } else if (event == GRPC_READ_MORE) {
            if (!grpc_reader_is_complete(&r))
                return GRPC_READ_MORE;
            *ret_compressed = r.compressed;
            *ret = message;
            return GRPC_READ_PAYLOAD;
        } else {
            return event;
        }
    }
}

void grpc_prefix_write(uint8_t to[GRPC_PREFIX_BYTES], bool compressed, uint32_t n)
{
    to[0] = compressed;
    to[1] = (uint8_t)(n >> 24);
    to[2] = (uint8_t)(n >> 16);
    to[3] = (uint8_t)(n >> 8);
    to[4] = (uint8_t)n;
}
