/* SPDX-License-Identifier: Apache-2.0 */
/* needs: proto/http */
/*
 * An HTTP/1 connection: the first byte chooses the side, the size of the pieces and how the handler answers;
 * the rest is what the peer says. Whatever it is, each exchange and call is closed exactly once, and what is
 * fed in pieces means the same as in one piece.
 */
#include "tests/fuzz/http.h"

static struct seen serve(struct bytes in, size_t step, int answer, bool pieces)
{
    static const struct http_reply reply = {.status = 200, .body = {(const uint8_t *)"ok", 2}};
    struct seen seen = {.answer = answer, .pieces = pieces, .reply = &reply};
    struct http_session *s = session_of(&seen);
    struct buffer out = BUFFER_INIT(0);
    for (uint64_t now = 2; in.n > 0; now++) {
        size_t n = in.n < step ? in.n : step;
        if (http_session_feed(s, bytes_of(in.p, n), now) < 0)
            break;
        out.n = 0;
        require(http_session_drain(s, &out, 1 << 16) >= 0);
        in.p += n;
        in.n -= n;
    }
    http_session_feed_eof(s);
    http_session_drain(s, &out, 1 << 16);
    http_session_tick(s, UINT64_MAX - 1);
    http_session_shutdown(s);
    http_session_drain(s, &out, 1 << 16);
    http_session_free(s);
    buffer_release(&out);
    require(seen.n_close == seen.n_head && seen.n_end <= seen.n_head);
    return seen;
}

static void call(struct bytes in, size_t step)
{
    struct seen seen = {0};
    struct http_client *c = http_client_new(HTTP_VERSION_1, 10000);
    struct http_request q = {.method = "GET", .scheme = "http", .authority = "h", .path = "/"};
    struct buffer out = BUFFER_INIT(0);
    require(c && http_client_call(c, &q, on_done, &seen));
    http_client_drain(c, &out, 1 << 16);
    while (in.n > 0) {
        size_t n = in.n < step ? in.n : step;
        if (http_client_feed(c, bytes_of(in.p, n)) < 0)
            break;
        in.p += n;
        in.n -= n;
    }
    http_client_feed_eof(c);
    http_client_free(c);
    buffer_release(&out);
    require(seen.n_done == 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    if (len == 0)
        return 0;
    struct bytes in = bytes_of(data + 1, len - 1);
    size_t step = (data[0] >> 2 & 0x1f) + 1u;
    bool echo = data[0] >> 7;
    if (data[0] % 4 == 3) {
        call(in, step);
        return 0;
    }
    struct seen pieces = serve(in, step, data[0] % 4, echo), whole = serve(in, SIZE_MAX, data[0] % 4, echo);
    /* An answer that is never given holds up what follows, so there the end of the input comes at another
     * point. */
    require(data[0] % 4 == 2 || (pieces.n_head == whole.n_head && pieces.n_end == whole.n_end));
    return 0;
}
