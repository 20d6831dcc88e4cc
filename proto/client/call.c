/* SPDX-License-Identifier: Apache-2.0 */
/* The asking half of a call: head, body, request. call_answer.c reads the answer. */
#include "proto/client/call.h"

#include <assert.h>
#include <ctype.h>
#include <errno.h>

#include "proto/base/macros.h"
#include "proto/grpc/text.h"

static const struct {
    const char *grpc, *http;
} signal_path[] = {
    [OTLP_PROFILES] = {"/opentelemetry.proto.collector.profiles.v1development.ProfilesService/Export",
                       "/v1development/profiles"},
    [OTLP_METRICS] = {"/opentelemetry.proto.collector.metrics.v1.MetricsService/Export", "/v1/metrics"},
};

enum coding call_coding(enum client_compression compression, enum coding received)
{
    switch (compression) {
    case CLIENT_COMPRESS_NONE: return CODING_IDENTITY;
    case CLIENT_COMPRESS_GZIP: break;
    case CLIENT_COMPRESS_ZSTD: return CODING_ZSTD;
    case CLIENT_COMPRESS_AS_RECEIVED:
        return received == CODING_IDENTITY || received == CODING_ZSTD ? received : CODING_GZIP;
    }
    return CODING_GZIP;
}

/* RFC 9110 §5.6.2 */
static bool is_token(struct bytes s)
{
    for (size_t i = 0; i < s.n; i++)
        if (!isalnum(s.p[i]) && !memchr("!#$%&'*+-.^_`|~", s.p[i], 15))
            return false;
    return s.n > 0;
}

/* Names that belong to us, to the connection, or to the session. */
static bool is_reserved(const char *name)
{
    static const char *const reserved[] = {
        "connection",
        "content-encoding",
        "content-length",
        "content-type",
        "grpc-accept-encoding",
        "grpc-encoding",
        "grpc-timeout",
        "host",
        "keep-alive",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    };
    for (size_t i = 0; i < ARRAY_LEN(reserved); i++)
        if (strcmp(name, reserved[i]) == 0)
            return true;
    return false;
}

static int head_add(struct call_head *h, const char *name, const char *value)
{
    struct http_header *at = &h->headers[h->n_headers];
    at->name = arena_copy(&h->arena, bytes_str(name));
    at->value = arena_copy(&h->arena, bytes_str(value));
    if (!at->name.p || !at->value.p)
        return -ENOMEM;
    h->n_headers++;
    return 0;
}

/* One of the operator's: lower case, as HTTP/2 demands (RFC 9113 §8.2.1). */
static int head_add_custom(struct call_head *h, const struct client_header *header, struct error *e)
{
    const char *name = header->name ? header->name : "", *value = header->value ? header->value : "";
    if (!is_token(bytes_str(name)))
        return error_set(e, -EINVAL, "headers: \"%s\" is not a header name", name);
    for (const char *p = value; *p; p++)
        if (((uint8_t)*p < 0x20 && *p != '\t') || *p == 0x7f)
            return error_set(e, -EINVAL, "headers: the value of \"%s\" has a control character in it", name);
    char *lower = arena_printf(&h->arena, "%s", name);
    if (!lower)
        return -ENOMEM;
    for (char *p = lower; *p; p++)
        *p = (char)tolower((unsigned char)*p);
    if (is_reserved(lower))
        return error_set(e, -EINVAL, "headers: \"%s\" is set by the exporter itself", name);
    return head_add(h, lower, value);
}

static int head_add_own(struct call_head *h, const struct client_options *o)
{
    bool grpc = h->protocol == OTLP_GRPC;
    /* OTLP exporter specification, "User Agent": OTel-OTLP-Exporter-LANGUAGE/VERSION, products of the
     * distribution. */
    const char *agent = arena_printf(&h->arena, "OTel-OTLP-Exporter-C/%s %s", PROFGATE_VERSION,
                                     o->user_agent ? o->user_agent : "profgate");
    bool custom_agent = http_header_find(h->headers, h->n_headers, "user-agent").p != NULL;
    int r = agent ? 0 : -ENOMEM;
    if (r == 0 && !custom_agent)
        r = head_add(h, "user-agent", agent);
    if (r == 0)
        r = head_add(h, "content-type",
                     grpc                      ? "application/grpc"
                     : o->dialect.content_type ? o->dialect.content_type
                                               : "application/x-protobuf");
    if (r == 0 && o->dialect.content_encoding)
        r = head_add(h, "content-encoding", o->dialect.content_encoding);
    if (r == 0 && grpc)
        r = head_add(h, "te", "trailers"); /* some servers refuse without (PROTOCOL-HTTP2, "TE") */
    if (r == 0 && grpc)
        r = head_add(h, "grpc-accept-encoding", "identity,gzip,zstd");
    return r;
}

static int check_dialect(const struct client_options *o, struct error *e)
{
    const struct client_dialect *d = &o->dialect;
    if (o->protocol != OTLP_HTTP && (d->content_type || d->content_encoding))
        return error_set(e, -EINVAL, "bodies that are not OTLP protobuf need protocol http");
    if (d->content_encoding && o->compression != CLIENT_COMPRESS_NONE)
        return error_set(e, -EINVAL, "bodies that are encoded already cannot be compressed");
    return 0;
}

static const char *head_path(struct call_head *h, const struct client_options *o,
                             const struct endpoint *endpoint)
{
    if (h->protocol == OTLP_GRPC)
        return signal_path[h->signal].grpc;
    if (o->path)
        return arena_printf(&h->arena, "%s%s", o->path[0] == '/' ? "" : "/", o->path);
    return arena_printf(&h->arena, "%s%s", endpoint->path, signal_path[h->signal].http);
}

int call_head_init(struct call_head *ret, const struct client_options *o, const struct endpoint *endpoint,
                   struct error *e)
{
    cleanup(call_head_release) struct call_head h = {
        .protocol = o->protocol,
        .signal = o->signal,
        .compression = o->compression,
        .any_success = o->dialect.any_success,
        .retry_5xx = o->dialect.retry_5xx,
        .retry_exhausted = o->retry_exhausted,
        .response_max = o->max_response_bytes,
        .scheme = endpoint->tls ? "https" : "http",
        .authority = endpoint->authority,
    };
    error_clear(e);
    int r = check_dialect(o, e);
    if (r < 0)
        return r;
    if (o->n_headers > CALL_HEADERS_MAX)
        return error_set(e, -EINVAL, "headers: more than %u", CALL_HEADERS_MAX);
    if (o->path)
        for (const char *p = o->path; *p; p++)
            if ((uint8_t)*p <= ' ' || *p == 0x7f)
                return error_set(e, -EINVAL, "path has a blank or control character in it");
    h.headers = arena_calloc(&h.arena, o->n_headers + 8, sizeof *h.headers);
    h.path = head_path(&h, o, endpoint);
    r = h.headers && h.path ? 0 : -ENOMEM;
    for (uint32_t i = 0; i < o->n_headers && r == 0; i++)
        r = head_add_custom(&h, &o->headers[i], e);
    if (r == 0)
        r = head_add_own(&h, o);
    if (r < 0)
        return error_memory(e, r);
    *ret = h;
    h = (struct call_head){0};
    return 0;
}

void call_head_release(struct call_head *h)
{
    arena_release(&h->arena);
}

int call_body_init(struct call_body *ret, enum coding coding, struct bytes bytes)
{
    if (bytes.n > UINT32_MAX)
        return CALL_TOO_LARGE;
    ret->coding = coding;
    ret->bytes = bytes;
    grpc_prefix_write(ret->prefix, coding != CODING_IDENTITY, (uint32_t)bytes.n);
    return 0;
}

struct http_request call_request(const struct call_head *h, const struct call_body *body, uint64_t timeout_ns,
                                 const char *authorization, char timeout_text[16])
{
    const bool grpc = h->protocol == OTLP_GRPC;
    struct http_request request = {
        .method = "POST",
        .scheme = h->scheme,
        .authority = h->authority,
        .path = h->path,
        .headers = h->headers,
        .n_headers = h->n_headers,
        .body = body->bytes,
    };
    if (body->coding != CODING_IDENTITY)
        h->headers[request.n_headers++] =
            (struct http_header){grpc ? BYTES_LIT("grpc-encoding") : BYTES_LIT("content-encoding"),
                                 bytes_str(coding_name(body->coding))};
    if (grpc) {
        static_assert(GRPC_TIMEOUT_MAX <= 16, "room for a grpc-timeout");
        request.prefix = bytes_of(body->prefix, sizeof body->prefix);
        grpc_timeout_format(timeout_ns, timeout_text);
        h->headers[request.n_headers++] =
            (struct http_header){BYTES_LIT("grpc-timeout"), bytes_str(timeout_text)};
    }
    if (authorization)
        h->headers[request.n_headers++] =
            (struct http_header){BYTES_LIT("authorization"), bytes_str(authorization)};
    return request;
}
