/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/serve/route.h"

#include "proto/base/macros.h"
#include "proto/grpc/text.h"

/* The fields that matter, found in one pass. */
struct head {
    struct bytes type, coding, grpc_coding, grpc_timeout, version;
    uint32_t n_versions;
    bool expects;
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
        case 6: h->expects |= name_is(header->name, "expect"); break;
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
        case sizeof ROUTE_VERSION_HEADER - 1:
            if (name_is(header->name, ROUTE_VERSION_HEADER)) {
                h->version = header->value;
                h->n_versions++;
            }
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

/* MAJOR.MINOR[.PATCH] of a release of opentelemetry-proto, perhaps with a 'v' before it. */
static bool is_release(struct bytes value, const char *release)
{
    size_t n = strlen(release);
    if (value.n > 0 && value.p[0] == 'v') {
        value.p++;
        value.n--;
    }
    if (!bytes_starts(value, release))
        return false;
    if (value.n == n)
        return true;
    for (size_t i = n + 1; i < value.n; i++)
        if (value.p[i] < '0' || value.p[i] > '9')
            return false;
    return value.p[n] == '.' && value.n > n + 1 && value.n <= n + 4;
}

/* The proposal counts versions from 1, which is the schema of 1.10 and 1.11, and leaves the older layouts
 * without a number; the releases' names, which can be no such number, name those. Anything else, a repeated
 * header included, is to be refused before decoding. reference/gateway.md §2.3 says which releases share a
 * layout; 1.6 cannot be sent. */
static bool version_parse(const struct head *h, enum profiles_layout *ret)
{
    static const struct {
        const char *release;
        enum profiles_layout layout;
    } known[] = {
        {"1.4", PROFILES_LAYOUT_1_5},   {"1.5", PROFILES_LAYOUT_1_5}, {"1.7", PROFILES_LAYOUT_1_7},
        {"1.8", PROFILES_LAYOUT_1_8},   {"1.9", PROFILES_LAYOUT_1_9}, {"1.10", PROFILES_LAYOUT_1_10},
        {"1.11", PROFILES_LAYOUT_1_10},
    };
    if (h->n_versions == 0)
        return true;
    if (h->n_versions > 1)
        return false;
    if (bytes_is(h->version, "1")) {
        *ret = PROFILES_LAYOUT_1_10;
        return true;
    }
    for (size_t i = 0; i < ARRAY_LEN(known); i++)
        if (is_release(h->version, known[i].release)) {
            *ret = known[i].layout;
            return true;
        }
    return false;
}

enum refusal route_find(const struct serve_options *options, const struct http_exchange *x, struct route *ret)
{
    struct head h = {0};
    head_read(x, &h);
    enum media media = media_parse(h.type);
    *ret = (struct route){.dialect = DIALECT_JSON, .coding = CODING_IDENTITY, .timeout_ns = UINT64_MAX};
    ret->expects_continue = h.expects && x->version == HTTP_VERSION_1;
    enum refusal refusal = media == MEDIA_GRPC || media == MEDIA_GRPC_SUBTYPE
                               ? route_grpc(x, &h, media, ret)
                               : route_http(options, x, &h, media, ret);
    if (refusal != REFUSAL_NONE)
        return refusal;
    if (!version_parse(&h, &ret->layout))
        return REFUSAL_VERSION;
    /* JSON has names instead of numbers: it is read as what they mean today. */
    bool old = ret->layout != PROFILES_LAYOUT_UNKNOWN && ret->layout != PROFILES_LAYOUT_1_10;
    return old && ret->dialect == DIALECT_JSON ? REFUSAL_VERSION : REFUSAL_NONE;
}
