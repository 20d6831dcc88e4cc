#include "gateway/serve/route.h"

#include "proto/grpc/text.h"

/* The fields that matter, found in one pass. */
struct head {
    struct bytes type, coding, grpc_coding, grpc_timeout;
    bool coded_twice; /* a second field is a list (RFC 9110 §5.3): two codings, one over the other */
};

static bool name_is(struct bytes name, const char *what)
{
    return memcmp(name.p, what, name.n) == 0;
}

static void head_set_coding(struct head *h, struct bytes *to, struct bytes value)
{
    h->coded_twice |= to->p != NULL;
    *to = value;
}

static void head_read(const struct http_exchange *x, struct head *h)
{
    for (uint32_t i = 0; i < x->n_headers; i++) {
        const struct http_header *header = &x->headers[i];
        switch (header->name.n) {
        case 12:
            if (name_is(header->name, "content-type"))
                h->type = header->value;
            else if (name_is(header->name, "grpc-timeout"))
                h->grpc_timeout = header->value;
            break;
        case 13:
            if (name_is(header->name, "grpc-encoding"))
                head_set_coding(h, &h->grpc_coding, header->value);
            break;
        case 16:
            if (name_is(header->name, "content-encoding"))
                head_set_coding(h, &h->coding, header->value);
            break;
        default: break;
        }
    }
}

enum media { MEDIA_OTHER, MEDIA_PROTO, MEDIA_JSON, MEDIA_GRPC, MEDIA_GRPC_SUBTYPE };

/* The media type alone: type "/" subtype, parameters cut off (RFC 9110 §8.3.1). gRPC's is a prefix: "+proto"
 * and parameters may follow (PROTOCOL-HTTP2.md "Content-Type"); application/grpc-web is another protocol. */
static enum media media_parse(struct bytes type)
{
    const char grpc[] = "application/grpc";
    const uint8_t *semicolon = type.n ? memchr(type.p, ';', type.n) : NULL;
    if (semicolon)
        type.n = (size_t)(semicolon - type.p);
    type = bytes_trim(type);
    if (bytes_is_nocase(type, "application/x-protobuf"))
        return MEDIA_PROTO;
    if (bytes_is_nocase(type, "application/json"))
        return MEDIA_JSON;
    if (type.n < sizeof grpc - 1 || !bytes_is_nocase(bytes_of(type.p, sizeof grpc - 1), grpc))
        return MEDIA_OTHER;
    struct bytes rest = bytes_of(type.p + sizeof grpc - 1, type.n - (sizeof grpc - 1));
    if (rest.n == 0 || bytes_is_nocase(rest, "+proto"))
        return MEDIA_GRPC;
    return rest.p[0] == '+' ? MEDIA_GRPC_SUBTYPE : MEDIA_OTHER;
}

static enum refusal route_grpc(const struct http_exchange *x, const struct head *h, enum media media,
                               struct route *ret)
{
    if (x->version != HTTP_VERSION_2)
        return REFUSAL_GRPC_HTTP1;
    ret->dialect = DIALECT_GRPC;
    if (!bytes_is(x->method, "POST"))
        return REFUSAL_NOT_POST;
    if (!bytes_starts(x->path, ROUTE_GRPC_SERVICE))
        return REFUSAL_NO_SERVICE;
    if (!bytes_is(x->path, ROUTE_GRPC_SERVICE ROUTE_GRPC_METHOD))
        return REFUSAL_NO_METHOD;
    if (media == MEDIA_GRPC_SUBTYPE)
        return REFUSAL_MEDIA_TYPE;
    ret->coding = coding_parse(h->grpc_coding);
    if (ret->coding == CODING_UNKNOWN || h->coded_twice)
        return REFUSAL_CODING;
    if (h->grpc_timeout.p && grpc_timeout_parse(h->grpc_timeout, &ret->timeout_ns) < 0)
        return REFUSAL_BAD_TIMEOUT;
    return REFUSAL_NONE;
}

static bool path_is_ours(const struct serve_options *options, struct bytes path)
{
    if (bytes_is(path, ROUTE_HTTP_PATH))
        return true;
    for (uint32_t i = 0; i < options->n_aliases; i++)
        if (bytes_is(path, options->aliases[i]))
            return true;
    return false;
}

static enum refusal route_http(const struct serve_options *options, const struct http_exchange *x,
                               const struct head *h, enum media media, struct route *ret)
{
    ret->dialect = media == MEDIA_PROTO ? DIALECT_PROTO : DIALECT_JSON;
    if (!path_is_ours(options, x->path))
        return REFUSAL_NO_PATH;
    if (!bytes_is(x->method, "POST"))
        return REFUSAL_NOT_POST;
    if (media != MEDIA_PROTO && media != MEDIA_JSON)
        return REFUSAL_MEDIA_TYPE;
    ret->coding = coding_parse(h->coding);
    return ret->coding == CODING_UNKNOWN || h->coded_twice ? REFUSAL_CODING : REFUSAL_NONE;
}

enum refusal route_find(const struct serve_options *options, const struct http_exchange *x, struct route *ret)
{
    struct head h = {0};
    head_read(x, &h);
    enum media media = media_parse(h.type);
    *ret = (struct route){.dialect = DIALECT_JSON, .coding = CODING_IDENTITY, .timeout_ns = UINT64_MAX};
    if (media == MEDIA_GRPC || media == MEDIA_GRPC_SUBTYPE)
        return route_grpc(x, &h, media, ret);
    return route_http(options, x, &h, media, ret);
}
