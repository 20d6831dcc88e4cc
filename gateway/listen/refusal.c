/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/listen/refusal.h"

#include <string.h>

#define WORDS "this address takes TLS only: use https or switch TLS on in the client"

/* The octets of a frame's length (RFC 9113 §4.1) and of an HTTP/1 length follow the words. */
_Static_assert(sizeof WORDS - 1 == 69, "the lengths below count these bytes");

/* SETTINGS without any, then GOAWAY (§6.8): last stream 0, INADEQUATE_SECURITY (0xc, §7), the words as debug
 * data, which gRPC clients show. */
static const char http2[] = "\0\0\0\4\0\0\0\0\0"
                            "\0\0\115\7\0\0\0\0\0"
                            "\0\0\0\0\0\0\0\14" WORDS;

static const char http1[] = "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nContent-Length: 70\r\n"
                            "Connection: close\r\n\r\n" WORDS "\n";

struct bytes refusal_of_plaintext(struct bytes first)
{
    /* "P" alone may also be a POST; a client that sends its preface in such small pieces has a strange day.
     */
    if (bytes_starts(first, "PRI"))
        return bytes_of(http2, sizeof http2 - 1);
    return bytes_of(http1, sizeof http1 - 1);
}

bool refusal_is_proxy_head(struct bytes first)
{
    static const char signature[12] = "\r\n\r\n\0\r\nQUIT\n"; /* of version 2; without a NUL behind it */
    return bytes_starts(first, "PROXY ") ||
           (first.n >= sizeof signature && memcmp(first.p, signature, sizeof signature) == 0);
}

struct bytes refusal_of_tls(void)
{
    return BYTES_LIT("HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\n"
                     "this address takes no TLS: use http or switch TLS off in the client\n");
}
