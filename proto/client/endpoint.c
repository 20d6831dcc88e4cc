/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/client/endpoint.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/base/buffer.h"
#include "proto/base/bytes.h"
#include "proto/base/macros.h"
#include "proto/base/quantity.h"
#include "proto/client/basic.h"

void endpoint_release(struct endpoint *p)
{
    free(p->host);
    free(p->authority);
    free(p->path);
    *p = (struct endpoint){0};
}

/* Takes "scheme://" off the front. 0, or -EINVAL for one we do not speak. */
static int take_scheme(struct bytes *s, bool *ret_tls, const char *text, struct error *e)
{
    static const struct {
        const char *name;
        bool tls;
    } known[] = {{"http", false}, {"https", true}, {"grpc", false}, {"grpcs", true}};
    const uint8_t *colon = memmem(s->p, s->n, "://", 3);
    *ret_tls = false;
    if (!colon)
        return 0;
    struct bytes scheme = bytes_of(s->p, (size_t)(colon - s->p));
    for (size_t i = 0; i < ARRAY_LEN(known); i++) {
        if (!bytes_is_nocase(scheme, known[i].name))
            continue;
        *ret_tls = known[i].tls;
        *s = bytes_from(*s, scheme.n + 3);
        return 0;
    }
    return error_set(e, -EINVAL, "endpoint \"%s\": scheme \"%.*s\" is not http, https, grpc, grpcs or unix",
                     text, BYTES_FMT(scheme));
}

/* Splits "host", "host:port", "[v6]:port" into host and port text (.p == NULL: none). */
static int split_host(struct bytes s, struct bytes *ret_host, struct bytes *ret_port)
{
    *ret_port = bytes_of(NULL, 0);
    if (s.n && s.p[0] == '[') {
        const uint8_t *end = memchr(s.p, ']', s.n);
        if (!end)
            return -EINVAL;
        *ret_host = bytes_of(s.p + 1, (size_t)(end - s.p) - 1);
        struct bytes rest = bytes_from(s, ret_host->n + 2);
        if (rest.n == 0)
            return 0;
        if (rest.p[0] != ':')
            return -EINVAL;
        *ret_port = bytes_from(rest, 1);
        return 0;
    }
    const uint8_t *colon = s.n ? memchr(s.p, ':', s.n) : NULL;
    if (!colon) {
        *ret_host = s;
        return 0;
    }
    *ret_host = bytes_of(s.p, (size_t)(colon - s.p));
    *ret_port = bytes_from(s, ret_host->n + 1);
    return memchr(ret_port->p, ':', ret_port->n) ? -EINVAL : 0; /* a bare IPv6 address: ambiguous */
}

static int parse_unix(struct endpoint *p, struct bytes path, const char *text, struct error *e)
{
    if (bytes_starts(path, "//"))
        path = bytes_from(path, 2);
    /* sun_path has 108 bytes with its NUL (unix(7)). */
    if (path.n == 0 || path.n > 107)
        return error_set(e, -EINVAL, "endpoint \"%s\": the socket's path must have 1 to 107 bytes", text);
    p->is_unix = true;
    p->host = bytes_dup(path);
    p->authority = strdup("localhost");
    p->path = strdup("");
    return p->host && p->authority && p->path ? 0 : -ENOMEM;
}

static int parse_inet(struct endpoint *p, struct bytes s, const char *text, uint16_t default_port,
                      struct error *e)
{
    const uint8_t *slash = memchr(s.p, '/', s.n);
    struct bytes authority = slash ? bytes_of(s.p, (size_t)(slash - s.p)) : s;
    struct bytes path = bytes_from(s, authority.n), host, port;
    while (path.n && path.p[path.n - 1] == '/')
        path.n--;
    if (memchr(authority.p, '@', authority.n))
        return error_set(e, -EINVAL, "endpoint \"%s\": no user name or password here; use headers", text);
    if (path.n && (memchr(path.p, '?', path.n) || memchr(path.p, '#', path.n)))
        return error_set(e, -EINVAL, "endpoint \"%s\": a query or fragment has no meaning here", text);
    if (split_host(authority, &host, &port) < 0)
        return error_set(e, -EINVAL, "endpoint \"%s\": not host:port (write an IPv6 address as [::1]:4317)",
                         text);
    if (host.n == 0)
        return error_set(e, -EINVAL, "endpoint \"%s\": no host in it", text);
    if (port.p && port.n == 0)
        return error_set(e, -EINVAL,
                         "endpoint \"%s\": no port behind the colon; a URL begins with http:// or https://",
                         text);
    uint64_t number = default_port ? default_port : p->tls ? 443 : 80;
    if (port.p && (quantity_u64(port, &number) < 0 || number == 0 || number > UINT16_MAX))
        return error_set(e, -EINVAL, "endpoint \"%s\": \"%.*s\" is not a port from 1 to 65535", text,
                         BYTES_FMT(port));
    bool v6 = memchr(host.p, ':', host.n);
    p->port = (uint16_t)number;
    p->host = bytes_dup(host);
    p->path = bytes_dup(path);
    if (asprintf(&p->authority, "%s%.*s%s:%u", v6 ? "[" : "", BYTES_FMT(host), v6 ? "]" : "", p->port) < 0)
        p->authority = NULL;
    return p->host && p->path && p->authority ? 0 : -ENOMEM;
}

int endpoint_parse(struct endpoint *ret, const char *text, uint16_t default_port, struct error *e)
{
    cleanup(endpoint_release) struct endpoint p = {0};
    struct bytes s = bytes_str(text);
    if (s.n == 0)
        return error_set(e, -EINVAL, "endpoint is empty");
    if (s.n > ENDPOINT_LENGTH_MAX)
        return error_set(e, -EINVAL, "endpoint is longer than %u bytes", ENDPOINT_LENGTH_MAX);
    for (size_t i = 0; i < s.n; i++)
        if (s.p[i] <= ' ' || s.p[i] == 0x7f) /* would break the request line or a header */
            return error_set(e, -EINVAL, "endpoint has a blank or control character in it");
    int r;
    error_clear(e);
    if (bytes_starts(s, "unix:")) {
        r = parse_unix(&p, bytes_from(s, 5), text, e);
    } else {
        r = take_scheme(&s, &p.tls, text, e);
        if (r == 0)
            r = parse_inet(&p, s, text, default_port, e);
    }
    if (r < 0)
        return error_memory(e, r);
    *ret = p;
    p = (struct endpoint){0};
    return 0;
}

/* The user and the password are taken as they are written: no %-escapes. */
static int basic(struct bytes user, char **ret)
{
    struct buffer out = BUFFER_INIT(0);
    int r = basic_append(user, &out);
    if (r == 0)
        r = buffer_add(&out, "", 1);
    *ret = r == 0 ? (char *)out.p : NULL;
    if (r < 0)
        buffer_release(&out);
    return r;
}

int endpoint_parse_proxy(struct endpoint *ret, const char *text, char **ret_authorization, struct error *e)
{
    static const char scheme[] = "http://";
    const size_t n = sizeof scheme - 1;
    *ret_authorization = NULL;
    if (strncmp(text, scheme, n) != 0)
        return error_set(e, -EINVAL,
                         "proxy_url is not http://host:port: proxies are spoken to in plain HTTP");
    const char *at = strchr(text + n, '@'), *host = at ? at + 1 : text + n;
    cleanup(endpoint_release) struct endpoint proxy = {0};
    int r = endpoint_parse(&proxy, host, 0, e);
    if (r < 0)
        return error_prefix(e, r, "proxy_url: ");
    if (proxy.tls || proxy.is_unix || proxy.path[0])
        return error_set(e, -EINVAL, "proxy_url is not http://host:port");
    if (at && (r = basic(bytes_of(text + n, (size_t)(at - text) - n), ret_authorization)) < 0)
        return error_set(e, r, "out of memory");
    *ret = proxy;
    proxy = (struct endpoint){0};
    return 0;
}
