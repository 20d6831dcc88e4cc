/* SPDX-License-Identifier: Apache-2.0 */
/* needs: gateway/serve descriptors */
/*
 * The gRPC services behind a real session: the first byte chooses the method and the size of the pieces, the
 * rest is the body of the call. Then the same bytes as one ServerReflectionRequest: its answer must be a
 * message.
 */
#include "gateway/serve/calls/reflection.h"
#include "gateway/serve/calls/services.h"
#include "proto/wire/reader.h"
#include "tests/fuzz/fuzz.h"

static void on_head(void *context, struct http_exchange *x)
{
    if (!services_take(context, x))
        abort();
}

static void not_ours(void *context, struct http_exchange *x)
{
    abort(); /* it was given away */
}

static void no_body(void *context, struct http_exchange *x, struct bytes piece)
{
    abort();
}

static void add_frame(struct buffer *b, uint8_t type, uint8_t flags, struct bytes payload)
{
    uint8_t head[9] = {0, (uint8_t)(payload.n >> 8), (uint8_t)payload.n, type, flags, 0, 0, 0, 1};
    buffer_add(b, head, sizeof head);
    buffer_add_bytes(b, payload);
}

/* Fields by name, not indexed (RFC 7541 §6.2.2); all lengths are below 127. */
static void add_field(struct buffer *b, const char *name, const char *value)
{
    const char *parts[] = {name, value};
    buffer_add(b, "", 1);
    for (int i = 0; i < 2; i++) {
        uint8_t n = (uint8_t)strlen(parts[i]);
        buffer_add(b, &n, 1);
        buffer_add_str(b, parts[i]);
    }
}

static void call(const char *path, struct bytes body, size_t step)
{
    static const struct http_handler handler = {on_head, no_body, not_ours, not_ours};
    static const struct http_peer peer = {.address = "fuzz"};
    static const struct http_server_limits limits = HTTP_SERVER_LIMITS_DEFAULT;
    static const struct services_options options = {0};
    struct services *services = services_new(&options);
    struct http_session *s = http_session_new(&handler, services, &peer, &limits, 1);
    cleanup(buffer_release) struct buffer in = BUFFER_INIT(0), fields = BUFFER_INIT(0), out = BUFFER_INIT(0);
    add_field(&fields, ":method", "POST");
    add_field(&fields, ":scheme", "http");
    add_field(&fields, ":path", path);
    add_field(&fields, "content-type", "application/grpc");
    buffer_add_str(&in, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    buffer_add(&in, "\0\0\0\4\0\0\0\0\0", 9);
    add_frame(&in, 1, 4, buffer_bytes(&fields));
    for (size_t at = 0; at < body.n; at += step)
        add_frame(&in, 0, 0, bytes_of(body.p + at, step < body.n - at ? step : body.n - at));
    add_frame(&in, 0, 1, bytes_of(NULL, 0));
    if (!s || !services || http_session_feed(s, buffer_bytes(&in), 2) < 0)
        abort();
    services_changed(services);
    http_session_drain(s, &out, 1 << 20);
    if (out.n == 0)
        abort();
    http_session_free(s);
    services_free(services);
}

static void answer(struct bytes request)
{
    cleanup(buffer_release) struct buffer out = BUFFER_INIT(0);
    if (reflection_answer(request, &out) == 0) {
        struct wire_reader r = wire_reader(buffer_bytes(&out));
        struct wire_field f;
        uint32_t last = 0;
        while (wire_next(&r, &f) == 0) {
            if (f.number == 2 && !bytes_eq(f.bytes, request))
                abort();
            last = f.number;
        }
        if (r.p != r.end || last < 4 || last > 7)
            abort();
    } else if (out.n > 0) {
        abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    static const char *const paths[] = {
        "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
        "/grpc.health.v1.Health/Check",
        "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
        "/grpc.health.v1.Health/Watch",
        "/grpc.health.v1.Health/List",
        "/grpc.health.v1.Health/None",
    };
    if (len == 0 || len > 8000)
        return 0;
    struct bytes body = bytes_of(data + 1, len - 1);
    call(paths[data[0] % 6], body, (size_t)(data[0] >> 3) * 8 + 1);
    answer(body);
    return 0;
}
