/* SPDX-License-Identifier: Apache-2.0 */
/*
 * grpc.health.v1.Health (grpc/grpc doc/health-checking.md, grpc/grpc-proto grpc/health/v1/health.proto).
 */
#include "gateway/serve/calls/call.h"
#include "gateway/serve/paths.h"
#include "proto/base/macros.h"
#include "proto/wire/reader.h"
#include "proto/wire/writer.h"

enum { REQUEST_SERVICE = 1, RESPONSE_STATUS = 1, LIST_STATUSES = 1, ENTRY_KEY = 1, ENTRY_VALUE = 2 };
enum { STATUS_SERVING = 1, STATUS_NOT_SERVING = 2, STATUS_SERVICE_UNKNOWN = 3 };

#define SERVICE_NONE (-1)

/* What a client may ask after; "" is the server as a whole. All of them are the gateway: one state. */
static const struct bytes known[] = {
    BYTES_LIT(""),
    {(const uint8_t *)ROUTE_GRPC_SERVICE + 1, sizeof ROUTE_GRPC_SERVICE - 3}, /* without slashes and NUL */
};

/* Reads HealthCheckRequest. The number of the service, SERVICE_NONE; or HEALTH_NOT_YET: the call is ended,
 * because it is no such message. */
static int read_service(struct call *c, struct bytes message)
{
    struct wire_reader r = wire_reader(message);
    struct wire_field f;
    struct bytes name = BYTES_LIT("");
    int e;
    while ((e = wire_next(&r, &f)) == 0)
        if (f.number == REQUEST_SERVICE && f.type == WIRE_LEN)
            name = f.bytes;
    if (e != WIRE_END) {
        call_end(c, GRPC_INVALID_ARGUMENT, "malformed HealthCheckRequest");
        return HEALTH_NOT_YET;
    }
    for (size_t i = 0; i < ARRAY_LEN(known); i++)
        if (bytes_eq(name, known[i]))
            return (int)i;
    return SERVICE_NONE;
}

static bool is_stopping(const struct services *s)
{
    return s->options.is_stopping && s->options.is_stopping(s->options.context);
}

static uint32_t status_now(const struct services *s)
{
    bool serving = !is_stopping(s) && (!s->options.is_serving || s->options.is_serving(s->options.context));
    return serving ? STATUS_SERVING : STATUS_NOT_SERVING;
}

/* Fills the message with a HealthCheckResponse. False: the call is ended. */
static bool write_status(struct call *c, uint32_t status)
{
    struct buffer *out = call_message(c);
    if (!out)
        return false;
    struct wire_writer w = wire_writer(out);
    wire_put_uint(&w, RESPONSE_STATUS, status);
    if (w.failed)
        call_end(c, GRPC_RESOURCE_EXHAUSTED, "out of memory just now");
    return !w.failed;
}

void health_check(struct call *c, struct bytes message)
{
    int service = read_service(c, message);
    if (service == SERVICE_NONE)
        call_end(c, GRPC_NOT_FOUND, "unknown service");
    else if (service >= 0 && write_status(c, status_now(c->services)))
        call_answer(c);
}

void health_list(struct call *c, struct bytes message)
{
    (void)message; /* HealthListRequest has no fields */
    struct buffer *out = call_message(c);
    if (!out)
        return;
    struct wire_writer w = wire_writer(out);
    for (size_t i = 0; i < ARRAY_LEN(known); i++) {
        size_t entry = wire_begin(&w, LIST_STATUSES);
        wire_put_bytes(&w, ENTRY_KEY, known[i]);
        size_t value = wire_begin(&w, ENTRY_VALUE);
        wire_put_uint(&w, RESPONSE_STATUS, status_now(c->services));
        wire_end(&w, value);
        wire_end(&w, entry);
    }
    if (w.failed)
        call_end(c, GRPC_RESOURCE_EXHAUSTED, "out of memory just now");
    else
        call_answer(c);
}

void health_changed(struct call *c)
{
    if (c->watched == HEALTH_NOT_YET)
        return; /* it will be told when its request is there */
    uint32_t status = c->watched == SERVICE_NONE ? STATUS_SERVICE_UNKNOWN : status_now(c->services);
    if (status != c->told && write_status(c, status)) {
        c->told = status;
        call_send(c);
    }
    if (is_stopping(c->services))
        call_end(c, GRPC_UNAVAILABLE, "the gateway is stopping");
}

void health_watch(struct call *c, struct bytes message)
{
    c->watched = read_service(c, message);
    health_changed(c);
}
