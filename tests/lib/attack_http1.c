/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/attack_kind.h"

#define OPEN_10S "held; 408 or closed after 10 s without a whole head"

static void open_line(struct attack_peer *p)
{
    wire_text(&p->out, "POST " WIRE_PATH " HTTP/1.1\r\nHost: x\r\n");
}

static bool more_small_field(struct attack_peer *p)
{
    wire_format(&p->out, "X-%llu: b\r\n", (unsigned long long)p->blocks);
    return true;
}

static bool more_large_field(struct attack_peer *p)
{
    wire_text(&p->out, "X-Large: ");
    wire_fill(&p->out, 'a', 16000);
    wire_text(&p->out, "\r\n");
    return true;
}

static void open_long_body(struct attack_peer *p)
{
    wire_text(&p->out, ATTACK_POST_HEAD "Content-Length: 1000000\r\n\r\n");
}

static bool more_byte(struct attack_peer *p)
{
    wire_text(&p->out, "\n");
    return true;
}

static bool more_pipelined(struct attack_peer *p)
{
    wire_text(&p->out, ATTACK_POST_HEAD "Content-Length: 0\r\n\r\n");
    return true;
}

/* Each answer is a refusal with a body, so that there is much to buffer for who never reads. */
static bool more_refused(struct attack_peer *p)
{
    wire_text(&p->out, ATTACK_POST_HEAD "Content-Length: 3\r\n\r\n\xff\xff\xff");
    return true;
}

static void open_chunked(struct attack_peer *p)
{
    wire_text(&p->out, ATTACK_POST_HEAD "Transfer-Encoding: chunked\r\n\r\n");
}

static bool more_tiny_chunks(struct attack_peer *p)
{
    if (p->blocks == 65535) {
        wire_text(&p->out, "0\r\n\r\n");
        return true;
    }
    if (p->blocks > 65535) { /* and again */
        open_chunked(p);
        p->blocks = 0;
    }
    wire_text(&p->out, "1\r\n\x0a\r\n");
    return true;
}

static bool more_extension(struct attack_peer *p)
{
    wire_text(&p->out, "1;a=\"");
    wire_fill(&p->out, 'e', 15000);
    wire_text(&p->out, "\"\r\na\r\n");
    return true;
}

static void open_trailers(struct attack_peer *p)
{
    open_chunked(p);
    wire_text(&p->out, "0\r\n");
}

/* Two readers of one connection must never see two different sequences of requests: each of these has to be
 * refused, or read in the one way there is, before the request hidden behind it is. RFC 9112 §6.3, §11.2. */
static const char *const shapes[] = {
    ATTACK_POST_HEAD "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    ATTACK_POST_HEAD "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
    ATTACK_POST_HEAD "Content-Length: 0\r\nContent-Length: 44\r\n\r\n",
    ATTACK_POST_HEAD "Content-Length: 0, 44\r\n\r\n",
    ATTACK_POST_HEAD "Content-Length: +0\r\n\r\n",
    ATTACK_POST_HEAD "Content-Length: 0x0\r\n\r\n",
    ATTACK_POST_HEAD "Content-Length: -1\r\n\r\n",
    ATTACK_POST_HEAD "Content-Length: 18446744073709551616\r\n\r\n",
    ATTACK_POST_HEAD "Content-Length : 0\r\n\r\n",
    ATTACK_POST_HEAD "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    ATTACK_POST_HEAD "Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
    ATTACK_POST_HEAD "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    ATTACK_POST_HEAD "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
    ATTACK_POST_HEAD "Transfer-Encoding:\x0b"
                     "chunked\r\n\r\n0\r\n\r\n",
    ATTACK_POST_HEAD "X: y\r\n Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    ATTACK_POST_HEAD "X: y\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    ATTACK_POST_HEAD "X: y\rTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    ATTACK_POST_HEAD "Transfer-Encoding: chunked\r\n\r\n0x0\r\n\r\n",
    ATTACK_POST_HEAD "Transfer-Encoding: chunked\r\n\r\n-1\r\n\r\n",
    ATTACK_POST_HEAD "Transfer-Encoding: chunked\r\n\r\n10000000000000000\r\n",
    ATTACK_POST_HEAD "Transfer-Encoding: chunked\r\n\r\n1;\nx\r\na\r\n0\r\n\r\n",
    ATTACK_POST_HEAD "Transfer-Encoding: chunked\r\n\r\n1\r\nab\r\n0\r\n\r\n",
    "POST " WIRE_PATH " HTTP/1.1\r\nHost: x\r\nHost: y\r\nContent-Length: 0\r\n\r\n",
    "POST " WIRE_PATH " HTTP/1.1\r\nContent-Length: 0\r\n\r\n",
    "POST " WIRE_PATH " HTTP/1.1\nHost: x\nContent-Length: 0\n\n",
    "POST  " WIRE_PATH " HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n",
    "POST " WIRE_PATH " HTTP/1.9\r\nHost: x\r\nTransfer-Encoding: chunked\r\nContent-Length: 0\r\n\r\n",
    "POST " WIRE_PATH " HTTP/1.0\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    ATTACK_POST_HEAD "X\001Y: z\r\nContent-Length: 0\r\n\r\n",
};

static void open_smuggled(struct attack_peer *p)
{
    wire_text(&p->out, shapes[p->index++ % (sizeof shapes / sizeof *shapes)]);
    wire_text(&p->out, "GET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n");
}

static void open_tls(struct attack_peer *p)
{
    static const uint8_t hello[] = {0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3};
    wire_put(&p->out, hello, sizeof hello);
    for (uint32_t i = 0; i < 600; i++)
        wire_put(&p->out, &(uint8_t){(uint8_t)(i * 197 + p->index)}, 1);
    p->index++;
}

/* clang-format off */
const struct attack_kind attack_http1[] = {
    {"idle", "connects and says nothing", "half-open connections", "held for the idle time", NULL, NULL, 0, ATTACK_QUIET},
    {"connect", "connects and resets, again and again", "connection flood", "accepted and forgotten", NULL, NULL, 0, ATTACK_QUIET | ATTACK_LEAVES},
    {"slow-head", "a field of a head each 100 ms", "Slowloris, CVE-2007-6750", OPEN_10S, open_line, more_small_field, 100, 0},
    {"slow-body", "a byte of 1 MB each 100 ms", "R.U.D.Y., CVE-2007-6750", "held; 503 and closed after request_ns", open_long_body, more_byte, 100, 0},
    {"large-head", "a head that never ends, 16 KB fields", "RFC 9110 §5.4, RFC 6585 §5", "431 and closed", open_line, more_large_field, 0, 0},
    {"many-fields", "a head that never ends, 8-byte fields", "RFC 6585 §5", "431 and closed", open_line, more_small_field, 0, 0},
    {"pipeline", "empty requests without waiting", "RFC 9112 §9.3.2", "200 each, in order, at the reader's pace", NULL, more_pipelined, 0, 0},
    {"stalled-reader", "refused requests whose answers nobody reads", "sockstress, CVE-2008-4609", "reading stops, closed after 30 s", NULL, more_refused, 0, ATTACK_DEAF},
    {"refused", "requests of three bad bytes", "logging and wording of refusals", "400 each", NULL, more_refused, 0, 0},
    {"tiny-chunks", "65535 chunks of one byte, again", "RFC 9112 §7.1", "200 or 400 each", open_chunked, more_tiny_chunks, 0, 0},
    {"chunk-extensions", "chunks of one byte with 15 KB extensions", "CVE-2023-39326", "400 and closed", open_chunked, more_extension, 0, 0},
    {"trailers", "a trailer section that never ends", "RFC 9112 §7.1.2", "431 or 400, closed", open_trailers, more_large_field, 0, 0},
    {"smuggling", "29 shapes two readers read differently", "RFC 9112 §11.2, CVE-2019-16276 and kin", "400 and closed; never an answer to /smuggled", open_smuggled, NULL, 0, 0},
    {"tls-garbage", "a ClientHello of random bytes to a plain port", "RFC 8446 §5.1", "closed", open_tls, NULL, 0, 0},
};
/* clang-format on */

const size_t attack_http1_n = sizeof attack_http1 / sizeof *attack_http1;
