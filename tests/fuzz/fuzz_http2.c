/* SPDX-License-Identifier: Apache-2.0 */
/* needs: proto/http */
/*
 * An HTTP/2 connection: the first byte chooses the side, the size of the pieces and how the handler answers;
 * the rest is frames (the server gets the preface before them). Each exchange and call is closed exactly
 * once.
 */
#include "tests/fuzz/http.h"

static const struct http_header trailer = {{(const uint8_t *)"grpc-status", 11}, {(const uint8_t *)"0", 1}};
static const struct http_reply reply = {
    .status = 200, .body = {(const uint8_t *)"ok", 2}, .trailers = &trailer, .n_trailers = 1};

static void serve(struct bytes in, size_t step, int answer, bool pieces)
{
    struct seen seen = {.answer = answer, .pieces = pieces, .reply = &reply};
    struct http_session *s = session_of(&seen);
    struct buffer out = BUFFER_INIT(0);
    require(http_session_feed(s, BYTES_LIT("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), 1) >= 0);
    for (uint64_t now = 2; in.n > 0; now++) {
        size_t n = in.n < step ? in.n : step;
        if (http_session_feed(s, bytes_of(in.p, n), now) < 0)
            break;
        out.n = 0;
        http_session_drain(s, &out, 1 << 16);
        in.p += n;
        in.n -= n;
    }
    http_session_tick(s, UINT64_MAX - 1);
    http_session_shutdown(s);
    http_session_feed_eof(s);
    http_session_drain(s, &out, 1 << 16);
    http_session_free(s);
    buffer_release(&out);
    require(seen.n_close == seen.n_head && seen.n_end <= seen.n_head);
}

static void call(struct bytes in, size_t step)
{
    static const uint8_t body[100000];
    struct seen seen = {0};
    struct http_client *c = http_client_new(HTTP_VERSION_2, 10000);
    struct http_request q = {
        .method = "POST", .scheme = "http", .authority = "h", .path = "/", .body = {body, sizeof body}};
    struct buffer out = BUFFER_INIT(0);
    require(c && http_client_call(c, &q, on_done, &seen) && http_client_call(c, &q, on_done, &seen));
    while (in.n > 0) {
        size_t n = in.n < step ? in.n : step;
        out.n = 0;
        http_client_drain(c, &out, 1 << 15);
        if (http_client_feed(c, bytes_of(in.p, n)) < 0)
            break;
        in.p += n;
        in.n -= n;
    }
    http_client_free(c);
    buffer_release(&out);
    require(seen.n_done == 2);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    if (len == 0)
        return 0;
    struct bytes in = bytes_of(data + 1, len - 1);
    size_t step = 1u << (data[0] >> 4);
    if (data[0] % 4 == 3)
        call(in, step);
    else
        serve(in, step, data[0] % 4, data[0] >> 2 & 1);
    return 0;
}
