/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes a hostile HTTP client sends, put together by hand: HTTP/2 frames and HPACK fields that no
 * well-behaved library would write (RFC 9113, RFC 7541), and plain text for HTTP/1. For tests/bench/attack.c;
 * one thread.
 */
#ifndef TESTS_LIB_ATTACK_WIRE_H
#define TESTS_LIB_ATTACK_WIRE_H

#include <stddef.h>
#include <stdint.h>

#define WIRE_PATH "/v1development/profiles"
#define WIRE_GRPC "/opentelemetry.proto.collector.profiles.v1development.ProfilesService/Export"

enum wire_frame { /* RFC 9113 §6 */
                  WIRE_DATA = 0,
                  WIRE_HEADERS = 1,
                  WIRE_PRIORITY = 2,
                  WIRE_RST_STREAM = 3,
                  WIRE_SETTINGS = 4,
                  WIRE_PING = 6,
                  WIRE_GOAWAY = 7,
                  WIRE_WINDOW_UPDATE = 8,
                  WIRE_CONTINUATION = 9,
};

enum wire_flag { WIRE_END_STREAM = 1, WIRE_END_HEADERS = 4 };

/* What waits to be sent. Grows as needed and ends the program when memory is out: it is a test's. */
struct wire {
    uint8_t *p;
    size_t n, at, cap; /* p[at … n) is still to be sent */
};

void wire_put(struct wire *w, const void *p, size_t n);
void wire_text(struct wire *w, const char *text);
void wire_format(struct wire *w, const char *format, ...) __attribute__((format(printf, 2, 3)));
void wire_fill(struct wire *w, int byte, size_t n);

/* One frame, whatever its length says of sense. */
void wire_frame(struct wire *w, enum wire_frame type, unsigned flags, uint32_t stream, const void *payload,
                size_t n);
/* A frame with one 32-bit number: RST_STREAM, WINDOW_UPDATE. */
void wire_frame32(struct wire *w, enum wire_frame type, uint32_t stream, uint32_t number);

/* The client's preface and a SETTINGS frame with INITIAL_WINDOW_SIZE; the server's acknowledgement is not
 * awaited. */
void wire_preface(struct wire *w, uint32_t initial_window);

/* HEADERS of a POST: a gRPC Export, or OTLP/HTTP protobuf. */
void wire_grpc_head(struct wire *w, uint32_t stream, unsigned flags);
void wire_http_head(struct wire *w, uint32_t stream, unsigned flags);

/* A field as HPACK literal without indexing (RFC 7541 §6.2.2), not Huffman coded. */
void wire_field(struct wire *w, const char *name, const char *value);

void wire_release(struct wire *w);

#endif
