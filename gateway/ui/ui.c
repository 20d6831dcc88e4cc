/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/ui/ui.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/base/embed.h"
#include "proto/base/macros.h"
#include "proto/coding/coding.h"
#include "proto/http/query.h"

#define PATH_MAX_UI    64u
#define UNPACKED_LIMIT ((size_t)1 << 20)
#define INDEX          "index.html.gz"
#define HASH           "hash"

/* Nothing but our own files runs, nothing is loaded from elsewhere, no page frames ours, and names, which are
 * anybody's, cannot become markup (Trusted Types, W3C). */
#define POLICY                                                                                            \
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " \
    "frame-ancestors 'none'; base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'"

extern const struct embedded_file ui_assets[];

struct asset {
    const struct embedded_file *file; /* gzipped */
    const char *type;
    const char *keep; /* cache-control */
    char path[PATH_MAX_UI];
    char etag[PATH_MAX_UI];
};

struct ui {
    uint32_t n;
    struct asset *assets;
    struct admin_page pages[];
};

static const char *type_of(const char *name)
{
    static const struct {
        const char *end, *type;
    } types[] = {{".html.gz", "text/html; charset=utf-8"},
                 {".css.gz", "text/css; charset=utf-8"},
                 {".js.gz", "text/javascript; charset=utf-8"}};
    for (size_t i = 0; i < ARRAY_LEN(types); i++)
        if (bytes_ends(bytes_str(name), types[i].end))
            return types[i].type;
    return NULL;
}

static int unpack(const struct embedded_file *file, struct buffer *out)
{
    struct coding_decoder *d = coding_decoder_new();
    const int r =
        d ? coding_decode(d, CODING_GZIP, bytes_of(file->data, file->size), UNPACKED_LIMIT, 0, NULL, out)
          : -1;
    coding_decoder_free(d);
    return r;
}

static struct bytes header_of(const struct http_exchange *x, const char *name)
{
    return http_header_find(x->headers, x->n_headers, name);
}

static void take(void *context, struct http_exchange *x)
{
    const struct asset *a = context;
    struct buffer unpacked = BUFFER_INIT(UNPACKED_LIMIT);
    struct bytes body = bytes_of(a->file->data, a->file->size);
    struct http_header headers[10] = {
        {BYTES_LIT("cache-control"), bytes_str(a->keep)},
        {BYTES_LIT("etag"), bytes_str(a->etag)},
        {BYTES_LIT("vary"), BYTES_LIT("accept, accept-encoding")},
        {BYTES_LIT("content-security-policy"), BYTES_LIT(POLICY)},
        {BYTES_LIT("x-content-type-options"), BYTES_LIT("nosniff")},
        {BYTES_LIT("referrer-policy"), BYTES_LIT("no-referrer")},
        {BYTES_LIT("cross-origin-resource-policy"), BYTES_LIT("same-origin")},
        {BYTES_LIT("content-type"), bytes_str(a->type)},
    };
    struct http_reply reply = {.status = 200, .headers = headers, .n_headers = 8, .body = body};
    if (bytes_is(header_of(x, "if-none-match"), a->etag)) {
        reply.status = 304;
        reply.body = (struct bytes){0};
    } else if (query_accepts_gzip(header_of(x, "accept-encoding"))) {
        headers[reply.n_headers++] = (struct http_header){BYTES_LIT("content-encoding"), BYTES_LIT("gzip")};
    } else if (unpack(a->file, &unpacked) == 0) {
        reply.body = buffer_bytes(&unpacked);
    } else {
        reply.status = 503;
        reply.body = BYTES_LIT("out of memory\n");
    }
    http_reply(x, &reply); /* without memory the session resets the exchange */
    buffer_release(&unpacked);
}

static const char *hash_of_all(void)
{
    const struct embedded_file *f = ui_assets;
    while (f->name && strcmp(f->name, HASH) != 0)
        f++;
    return f->name ? (const char *)f->data : "";
}

struct ui *ui_new(void)
{
    uint32_t n = 0;
    while (ui_assets[n].name)
        n++;
    struct ui *u = calloc(1, sizeof *u + n * sizeof *u->pages);
    struct asset *assets = calloc(n, sizeof *assets);
    if (!u || !assets) {
        free(u);
        free(assets);
        return NULL;
    }
    u->assets = assets;
    const char *hash = hash_of_all();
    for (const struct embedded_file *f = ui_assets; f->name && u->n < UI_PAGES_MAX; f++) {
        const char *type = type_of(f->name);
        if (!type)
            continue;
        struct asset *a = &u->assets[u->n];
        const bool is_index = strcmp(f->name, INDEX) == 0;
        const int name = (int)(strlen(f->name) - strlen(".gz"));
        *a = (struct asset){
            .file = f, .type = type, .keep = is_index ? "no-cache" : "public, max-age=31536000, immutable"};
        if (is_index)
            strcpy(a->path, "/");
        else
            snprintf(a->path, sizeof a->path, "/ui/%s/%.*s", hash, name, f->name);
        snprintf(a->etag, sizeof a->etag, "\"%s-%.*s\"", hash, name, f->name);
        u->pages[u->n++] = (struct admin_page){.method = "GET", .path = a->path, .context = a, .take = take};
    }
    return u;
}

struct ui *ui_free(struct ui *u)
{
    if (u)
        free(u->assets);
    free(u);
    return NULL;
}

const struct admin_page *ui_pages(const struct ui *u, uint32_t *ret_n)
{
    *ret_n = u->n;
    return u->pages;
}
