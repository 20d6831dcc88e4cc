/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a server said to an attacker, counted: HTTP statuses, gRPC statuses, codes of GOAWAY and RST_STREAM,
 * acknowledgements, TLS alerts. Fed with the bytes of one connection after the other; counts add up over
 * all of them. For tests/bench/attack.c; one thread.
 */
#ifndef TESTS_LIB_ATTACK_HEARD_H
#define TESTS_LIB_ATTACK_HEARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define HEARD_STATUSES 600
#define HEARD_CODES    17 /* of HTTP/2: RFC 9113 §7 has 14; the last counts all others; gRPC has 17 */

struct heard_counts {
    uint64_t status[HEARD_STATUSES], grpc[HEARD_CODES], goaway[HEARD_CODES], reset[HEARD_CODES];
    uint64_t acks, alerts, bytes, tangled; /* tangled: frames out of shape */
};

/* The state of one connection. */
struct heard {
    bool h2, first;
    uint32_t matched; /* HTTP/1: bytes of "HTTP/1.1 ddd" seen, and the digits */
    unsigned digits;
    struct nghttp2_hd_inflater *inflater;
    uint8_t *frame; /* HTTP/2: the frame being collected */
    size_t n;
};

void heard_begin(struct heard *h, bool h2);
void heard_feed(struct heard *h, struct heard_counts *counts, const uint8_t *p, size_t n);
void heard_end(struct heard *h);

/* `"status": {"200": 3}, "goaway": {"ENHANCE_YOUR_CALM": 1}, …`: members of a JSON object. */
void heard_print(const struct heard_counts *counts, FILE *to);

#endif
