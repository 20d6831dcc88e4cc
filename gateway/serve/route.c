/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One pass over the headers notes those that matter; then the intakes are asked in order. The media type says
 * which protocol it is, gRPC or any other HTTP, and each protocol has an order in which things can be wrong:
 * of gRPC version, method, service, rpc and type (PROTOCOL-HTTP2.md), of HTTP path, method and type (404,
 * 405, 415). The first thing wrong is the refusal; what was found until then words it.
 */
#include "gateway/serve/route.h"

#include "gateway/serve/intakes.h"
#include "gateway/serve/paths.h"
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

/* The media type alone: type "/" subtype, parameters cut off (RFC 9110 §8.3.1). */
static struct bytes media_type(struct bytes type)
{
    const uint8_t *semicolon = type.n ? memchr(type.p, ';', type.n) : NULL;
    if (semicolon)
        type.n = (size_t)(semicolon - type.p);
    return bytes_trim(type);
}

/* gRPC's type is a prefix: "+proto" and others may follow (PROTOCOL-HTTP2.md "Content-Type");
 * application/grpc-web is another protocol. */
static bool is_grpc(struct bytes type)
{
    const size_t n = sizeof "application/grpc" - 1;
    return type.n >= n && bytes_is_nocase(bytes_of(type.p, n), "application/grpc") &&
           (type.n == n || type.p[n] == '+');
}

/* "/package.Service/" of "/package.Service/Method". */
static struct bytes service_of(struct bytes path)
{
    return bytes_of(path.p, path.n - bytes_after_last(path, '/').n);
}

static enum refusal route_grpc(const struct http_exchange *x, const struct head *h, struct bytes type,
                               struct route *ret)
{
    const struct intake *found = NULL;
    bool is_service = false;
    if (x->version != HTTP_VERSION_2)
        return REFUSAL_GRPC_HTTP1;
    ret->protocol = INTAKE_GRPC;
    if (!bytes_is(x->method, "POST"))
        return REFUSAL_NOT_POST;
    for (const struct intake *const *i = intakes; *i && !found; i++) {
        if ((*i)->protocol != INTAKE_GRPC)
            continue;
        const struct bytes service = service_of((*i)->path);
        is_service |= x->path.n >= service.n && bytes_eq(bytes_of(x->path.p, service.n), service);
        if (bytes_eq(x->path, (*i)->path))
            found = *i;
    }
    if (!found)
        return is_service ? REFUSAL_NO_METHOD : REFUSAL_NO_SERVICE;
    ret->near = found;
    if (!intake_has_media(found, type))
        return REFUSAL_MEDIA_TYPE;
    ret->intake = found;
    ret->words = found->words;
    ret->coding = coding_parse(h->grpc_coding);
    if (ret->coding == CODING_UNKNOWN || h->coded_twice)
        return REFUSAL_CODING;
    if (h->grpc_timeout.p && grpc_timeout_parse(h->grpc_timeout, &ret->timeout_ns) < 0)
        return REFUSAL_BAD_TIMEOUT;
    return REFUSAL_NONE;
}

/* The path, where an alias means OTLP's own. */
static struct bytes path_meant(const struct route_aliases *aliases, struct bytes path)
{
    for (uint32_t i = 0; i < aliases->n; i++)
        if (bytes_is(path, aliases->paths[i]))
            return BYTES_LIT(ROUTE_HTTP_PATH);
    return path;
}

/* A refusal is worded for the first row that takes the type, wherever; where none does, for people. */
static enum refusal route_http(const struct route_aliases *aliases, const struct http_exchange *x,
                               const struct head *h, struct bytes type, struct route *ret)
{
    const struct bytes path = path_meant(aliases, x->path);
    enum refusal refusal = REFUSAL_NO_PATH;
    ret->words = NULL;
    for (const struct intake *const *i = intakes; *i && !ret->intake; i++) {
        if ((*i)->protocol != INTAKE_HTTP)
            continue;
        const bool takes_type = intake_has_media(*i, type);
        if (takes_type && !ret->words)
            ret->words = (*i)->words;
        if (!bytes_eq(path, (*i)->path))
            continue;
        if (!bytes_eq(x->method, (*i)->method)) {
            refusal = refusal == REFUSAL_NO_PATH ? REFUSAL_NOT_POST : refusal;
            continue;
        }
        refusal = REFUSAL_MEDIA_TYPE;
        ret->near = *i;
        if (takes_type)
            ret->intake = *i;
    }
    if (ret->intake)
        ret->words = ret->intake->words;
    else if (!ret->words)
        ret->words = intakes_default_words();
    if (!ret->intake)
        return refusal;
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
 * header included, is to be refused before decoding. Releases share a layout where their .proto files have
 * the same fields: 1.4 with 1.5, 1.11 with 1.10; 1.6 cannot be sent: its request message has no tables. */
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

enum refusal route_find(const struct route_aliases *aliases, const struct http_exchange *x, struct route *ret)
{
    struct head h = {0};
    head_read(x, &h);
    const struct bytes type = media_type(h.type);
    *ret =
        (struct route){.words = intakes_default_words(), .coding = CODING_IDENTITY, .timeout_ns = UINT64_MAX};
    ret->expects_continue = h.expects && x->version == HTTP_VERSION_1;
    enum refusal refusal =
        is_grpc(type) ? route_grpc(x, &h, type, ret) : route_http(aliases, x, &h, type, ret);
    if (refusal != REFUSAL_NONE)
        return refusal;
    if (!version_parse(&h, &ret->layout))
        return REFUSAL_VERSION;
    bool old = ret->layout != PROFILES_LAYOUT_UNKNOWN && ret->layout != PROFILES_LAYOUT_1_10;
    return old && !ret->intake->is_protobuf ? REFUSAL_VERSION : REFUSAL_NONE;
}
