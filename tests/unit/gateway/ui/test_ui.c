/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/ui/ui.h"

#include <stdio.h>
#include <string.h>

#include "proto/base/macros.h"
#include "proto/coding/coding.h"
#include "tests/lib/unit.h"

#define PACKED_MAX (40u << 10)

/* The reply is the test's. */
static uint32_t status;
static struct buffer headers, body;

int http_reply(struct http_exchange *x, const struct http_reply *reply)
{
    status = reply->status;
    headers.n = body.n = 0;
    for (uint32_t i = 0; i < reply->n_headers; i++)
        buffer_printf(&headers, "%.*s: %.*s\n", BYTES_FMT(reply->headers[i].name),
                      BYTES_FMT(reply->headers[i].value));
    ck_assert_int_eq(buffer_add(&headers, "", 1), 0);
    ck_assert_int_eq(buffer_add_bytes(&body, reply->body), 0);
    ck_assert_int_eq(buffer_add(&body, "", 1), 0); /* a string's end */
    return 0;
}

static void ask(const struct admin_page *page, const char *name, const char *value)
{
    struct http_header header = {bytes_str(name ? name : ""), bytes_str(value ? value : "")};
    struct http_exchange x = {.method = BYTES_LIT("GET"),
                              .path = bytes_str(page->path),
                              .headers = &header,
                              .n_headers = name ? 1 : 0};
    page->take(page->context, &x);
}

static bool says(const char *line)
{
    return strstr((const char *)headers.p, line) != NULL;
}

static const struct admin_page *page_at(const struct ui *u, const char *path)
{
    uint32_t n;
    const struct admin_page *pages = ui_pages(u, &n);
    for (uint32_t i = 0; i < n; i++)
        if (strcmp(pages[i].path, path) == 0)
            return &pages[i];
    return NULL;
}

static void done(struct ui *u)
{
    ui_free(u);
    buffer_release(&headers);
    buffer_release(&body);
}

UNIT(everything_together_is_small_and_safe)
{
    struct ui *u = unit_made(ui_new());
    uint32_t n;
    const struct admin_page *pages = ui_pages(u, &n);
    size_t packed = 0;
    ck_assert_uint_ge(n, 3);
    for (uint32_t i = 0; i < n; i++) {
        ask(&pages[i], "accept-encoding", "gzip");
        ck_assert_uint_eq(status, 200);
        ck_assert(says("content-encoding: gzip\n") && says("vary: accept, accept-encoding\n"));
        ck_assert(says("x-content-type-options: nosniff\n") && says("referrer-policy: no-referrer\n"));
        ck_assert(says("content-security-policy: default-src 'none'; script-src 'self'; style-src 'self'; "
                       "img-src 'self' data:; connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; "
                       "form-action 'none'; require-trusted-types-for 'script'\n"));
        ck_assert(coding_is_gzip(buffer_bytes(&body)));
        ck_assert_ptr_null(pages[i].doc);
        packed += body.n - 1;
    }
    printf("%u files, %zu bytes packed\n", n, packed);
    ck_assert_uint_le(packed, PACKED_MAX);
    done(u);
}

/* Asked for by name: whatever a page or a module refers to is there, at an address that changes with it. */
UNIT(what_is_referred_to_is_there)
{
    struct ui *u = unit_made(ui_new());
    const struct admin_page *index = unit_made(page_at(u, "/"));
    ask(index, NULL, NULL);
    ck_assert(says("content-type: text/html; charset=utf-8\n") && says("cache-control: no-cache\n"));
    unsigned found = 0;
    char path[128], folder[128] = "";
    for (const char *at = (const char *)body.p; (at = strstr(at, "\"ui/")); at++) {
        ck_assert_int_eq(sscanf(at, "\"%100[^\"]", path + 1), 1);
        path[0] = '/';
        ck_assert_msg(page_at(u, path) != NULL, "%s", path);
        memcpy(folder, path, (size_t)(strrchr(path, '/') - path) + 1);
        found++;
    }
    ck_assert_uint_ge(found, 2);
    uint32_t n;
    const struct admin_page *pages = ui_pages(u, &n);
    for (uint32_t i = 0; i < n; i++) {
        if (!strstr(pages[i].path, ".js"))
            continue;
        ask(&pages[i], NULL, NULL);
        ck_assert(says("content-type: text/javascript; charset=utf-8\n") && says("immutable\n"));
        for (const char *at = (const char *)body.p; (at = strstr(at, " from './")); at++) {
            snprintf(path, sizeof path, "%s%.*s", folder, (int)strcspn(at + 9, "'"), at + 9);
            ck_assert_msg(page_at(u, path) != NULL, "%s: %s", pages[i].path, path);
            found++;
        }
    }
    ck_assert_uint_ge(found, 8);
    done(u);
}

UNIT(what_a_browser_has_is_not_sent_again)
{
    struct ui *u = unit_made(ui_new());
    const struct admin_page *index = page_at(u, "/");
    ask(index, NULL, NULL);
    ck_assert(!says("content-encoding"));
    ck_assert_int_eq(strncmp((const char *)body.p, "<!doctype html>", 15), 0);
    const char *etag = strstr((const char *)headers.p, "etag: ");
    char value[128];
    ck_assert_int_eq(sscanf(etag, "etag: %100s", value), 1);
    ask(index, "if-none-match", value);
    ck_assert_uint_eq(status, 304);
    ck_assert_uint_eq(body.n, 1);
    ask(index, "if-none-match", "\"another\"");
    ck_assert_uint_eq(status, 200);
    done(u);
}
