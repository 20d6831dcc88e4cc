/* SPDX-License-Identifier: Apache-2.0 */
/* needs: proto/grpc */
/*
 * What gRPC peers write, on any bytes: frames in pieces and in one, percent-encoding, base64, timeouts,
 * google.rpc.Status. The two ways to read frames must agree, and what is decoded must come back when encoded.
 */
#include "proto/grpc/frame.h"
#include "proto/grpc/status.h"
#include "proto/base/base64.h"
#include "proto/grpc/text.h"
#include "tests/fuzz/fuzz.h"

#define MESSAGE_MAX 1000u

static void frames(struct bytes body, size_t step)
{
    struct grpc_reader r = GRPC_READER_INIT(MESSAGE_MAX);
    cleanup(buffer_release) struct buffer payload = {0};
    enum grpc_read last = GRPC_READ_MORE;
    for (size_t at = 0; at < body.n && last == GRPC_READ_MORE; at += step) {
        struct bytes piece = bytes_of(body.p + at, body.n - at < step ? body.n - at : step), part;
        while ((last = grpc_reader_next(&r, &piece, &part)) == GRPC_READ_HEAD || last == GRPC_READ_PAYLOAD)
            if (last == GRPC_READ_PAYLOAD && buffer_add_bytes(&payload, part) < 0)
                break;
    }
    bool compressed = false;
    struct bytes message = {0};
    enum grpc_read whole = grpc_message_find(body, MESSAGE_MAX, &compressed, &message);
    if (last != GRPC_READ_MORE) {
        if (whole != last)
            abort();
    } else if (whole != (grpc_reader_is_complete(&r) ? GRPC_READ_PAYLOAD : GRPC_READ_MORE)) {
        abort();
    } else if (whole == GRPC_READ_PAYLOAD && !bytes_eq(message, buffer_bytes(&payload))) {
        abort();
    }
}

static void texts(struct bytes in)
{
    cleanup(buffer_release) struct buffer there = {0}, back = {0};
    if (grpc_percent_encode(in, &there) == 0 && grpc_percent_decode(buffer_bytes(&there), &back) == 0 &&
        !bytes_eq(in, buffer_bytes(&back)))
        abort();
    there.n = back.n = 0;
    if (base64_encode(in, false, &there) == 0 && grpc_base64_decode(buffer_bytes(&there), &back) == 0 &&
        !bytes_eq(in, buffer_bytes(&back)))
        abort();
    back.n = 0;
    grpc_percent_decode(in, &back);
    if (back.n > in.n)
        abort();
    back.n = 0;
    grpc_base64_decode(in, &back);
    uint64_t ns, again;
    char text[GRPC_TIMEOUT_MAX];
    if (grpc_timeout_parse(in, &ns) == 0) {
        grpc_timeout_format(ns, text);
        if (grpc_timeout_parse(bytes_str(text), &again) != 0 || again < ns)
            abort();
    }
}

static bool same(const struct grpc_status *a, const struct grpc_status *b)
{
    return a->code == b->code && bytes_eq(a->message, b->message) && a->has_retry == b->has_retry &&
           a->retry_ns == b->retry_ns && a->has_violation == b->has_violation &&
           bytes_eq(a->field, b->field) && bytes_eq(a->description, b->description);
}

static void statuses(struct bytes in)
{
    struct grpc_status s, again;
    cleanup(buffer_release) struct buffer out = {0};
    if (grpc_status_decode(in, &s) == 0 && grpc_status_encode(&s, &out) == 0)
        if (grpc_status_decode(buffer_bytes(&out), &again) != 0 || !same(&s, &again))
            abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    if (len == 0)
        return 0;
    struct bytes in = bytes_of(data + 1, len - 1);
    frames(in, 1 + data[0] % 16u);
    texts(in);
    statuses(in);
    return 0;
}
