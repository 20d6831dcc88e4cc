/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/attack_wire.h"

#include <arpa/inet.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HPACK_POST 0x83 /* RFC 7541 appendix A: :method POST, :scheme http, :path by literal value */
#define HPACK_HTTP 0x86
#define HPACK_PATH 0x04

static void room(struct wire *w, size_t n)
{
    if (w->at == w->n)
        w->at = w->n = 0;
    if (w->n + n <= w->cap)
        return;
    size_t cap = w->cap ? w->cap : 1024;
    while (cap < w->n + n)
        cap *= 2;
    w->p = realloc(w->p, cap);
    if (!w->p) {
        fprintf(stderr, "attack: out of memory\n");
        exit(1);
    }
    w->cap = cap;
}

void wire_put(struct wire *w, const void *p, size_t n)
{
    room(w, n);
    if (n > 0)
        memcpy(w->p + w->n, p, n);
    w->n += n;
}

void wire_text(struct wire *w, const char *text)
{
    wire_put(w, text, strlen(text));
}

void wire_format(struct wire *w, const char *format, ...)
{
    char text[1024];
    va_list arguments;
    va_start(arguments, format);
    int n = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    wire_put(w, text, n < 0 ? 0 : (size_t)n < sizeof text ? (size_t)n : sizeof text - 1);
}

void wire_fill(struct wire *w, int byte, size_t n)
{
    room(w, n);
    memset(w->p + w->n, byte, n);
    w->n += n;
}

void wire_frame(struct wire *w, enum wire_frame type, unsigned flags, uint32_t stream, const void *payload,
                size_t n)
{
    uint8_t head[9] = {(uint8_t)(n >> 16),      (uint8_t)(n >> 8),      (uint8_t)n,
                       (uint8_t)type,           (uint8_t)flags,         (uint8_t)(stream >> 24),
                       (uint8_t)(stream >> 16), (uint8_t)(stream >> 8), (uint8_t)stream};
    wire_put(w, head, sizeof head);
    wire_put(w, payload, n);
}

void wire_frame32(struct wire *w, enum wire_frame type, uint32_t stream, uint32_t number)
{
    uint32_t big_endian = htonl(number);
    wire_frame(w, type, 0, stream, &big_endian, sizeof big_endian);
}

void wire_preface(struct wire *w, uint32_t initial_window)
{
    uint8_t setting[6] = {0,
                          4,
                          (uint8_t)(initial_window >> 24),
                          (uint8_t)(initial_window >> 16),
                          (uint8_t)(initial_window >> 8),
                          (uint8_t)initial_window};
    wire_text(w, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    wire_frame(w, WIRE_SETTINGS, 0, 0, setting, sizeof setting);
}

static void add_string(struct wire *w, const char *text)
{
    uint8_t length = (uint8_t)strlen(text); /* below 127: one byte, RFC 7541 §5.1 */
    wire_put(w, &length, 1);
    wire_put(w, text, length);
}

void wire_field(struct wire *w, const char *name, const char *value)
{
    wire_put(w, "\0", 1);
    add_string(w, name);
    add_string(w, value);
}

static void add_head(struct wire *w, uint32_t stream, unsigned flags, const char *path, const char *type)
{
    struct wire block = {0};
    const uint8_t start[] = {HPACK_POST, HPACK_HTTP, HPACK_PATH};
    wire_put(&block, start, sizeof start);
    add_string(&block, path);
    wire_field(&block, ":authority", "x");
    wire_field(&block, "content-type", type);
    wire_field(&block, "te", "trailers");
    wire_frame(w, WIRE_HEADERS, flags, stream, block.p, block.n);
    wire_release(&block);
}

void wire_grpc_head(struct wire *w, uint32_t stream, unsigned flags)
{
    add_head(w, stream, flags, WIRE_GRPC, "application/grpc");
}

void wire_http_head(struct wire *w, uint32_t stream, unsigned flags)
{
    add_head(w, stream, flags, WIRE_PATH, "application/x-protobuf");
}

void wire_release(struct wire *w)
{
    free(w->p);
    *w = (struct wire){0};
}
