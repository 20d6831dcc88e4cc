/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/unit.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "proto/base/macros.h"
#include "proto/client/endpoint.h"

static void good(const char *text, bool tls, const char *host, unsigned port, const char *authority,
                 const char *path)
{
    cleanup(endpoint_release) struct endpoint p;
    struct error e;
    ck_assert_msg(endpoint_parse(&p, text, 4317, &e) == 0, "%s: %s", text, e.text);
    ck_assert_msg(p.tls == tls, "%s", text);
    ck_assert_str_eq(p.host, host);
    ck_assert_uint_eq(p.port, port);
    ck_assert_str_eq(p.authority, authority);
    ck_assert_str_eq(p.path, path);
}

UNIT(forms)
{
    good("http://collector:14317", false, "collector", 14317, "collector:14317", "");
    good("HTTPS://collector", true, "collector", 4317, "collector:4317", "");
    good("https://host/otlp/", true, "host", 4317, "host:4317", "/otlp");
    good("http://host:80/a/b", false, "host", 80, "host:80", "/a/b");
    good("localhost", false, "localhost", 4317, "localhost:4317", "");
    good("localhost:4318", false, "localhost", 4318, "localhost:4318", "");
    good("grpcs://h:1", true, "h", 1, "h:1", "");
    good("[::1]:4317", false, "::1", 4317, "[::1]:4317", "");
    good("http://[fe80::1]", false, "fe80::1", 4317, "[fe80::1]:4317", "");
    good("127.0.0.1:65535", false, "127.0.0.1", 65535, "127.0.0.1:65535", "");
}

UNIT(ports_of_schemes)
{
    static const struct {
        const char *text;
        unsigned port;
    } urls[] = {{"https://auth.example/token", 443},
                {"http://auth.example", 80},
                {"https://h:8443", 8443},
                {"h", 80}};
    for (size_t i = 0; i < ARRAY_LEN(urls); i++) {
        cleanup(endpoint_release) struct endpoint p;
        struct error e;
        ck_assert_int_eq(endpoint_parse(&p, urls[i].text, 0, &e), 0);
        ck_assert_msg(p.port == urls[i].port, "%s: %u", urls[i].text, p.port);
    }
}

UNIT(unix_sockets)
{
    struct endpoint p;
    ck_assert_int_eq(endpoint_parse(&p, "unix:///run/x.sock", 1, NULL), 0);
    ck_assert(p.is_unix && !p.tls);
    ck_assert_str_eq(p.host, "/run/x.sock");
    ck_assert_str_eq(p.authority, "localhost");
    endpoint_release(&p);
    ck_assert_int_eq(endpoint_parse(&p, "unix:relative.sock", 1, NULL), 0);
    ck_assert_str_eq(p.host, "relative.sock");
    endpoint_release(&p);
}

UNIT(refused)
{
    static const char *const bad[] = {
        "",           "ftp://host", "http://", ":4317",        "host:0", "host:65536",
        "host:abc",   "host:",      "::1",     "[::1",         "[::1]x", "http://u:p@host",
        "host/x?y=1", "host/x#y",   "ho st",   "host\r\nX: y", "unix:",  "unix://",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct endpoint p;
        struct error e = {""};
        ck_assert_msg(endpoint_parse(&p, bad[i], 4317, &e) == -EINVAL, "\"%s\" was taken", bad[i]);
        ck_assert_msg(e.text[0] != 0, "\"%s\" refused without a word", bad[i]);
    }
    autofree char *lengthy = malloc(10001);
    memset(lengthy, 'a', 10000);
    lengthy[10000] = 0;
    struct endpoint p;
    struct error e = {""};
    ck_assert_int_eq(endpoint_parse(&p, lengthy, 4317, NULL), -EINVAL);
    ck_assert_int_eq(endpoint_parse(&p, "http:/host:4317", 4317, &e), -EINVAL);
    ck_assert_ptr_nonnull(strstr(e.text, "no port behind the colon; a URL begins with http://"));
}
