/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/http/http1_head.h"

#include <errno.h>
#include <llhttp.h>

#include "proto/base/macros.h"
#include "proto/http/headers.h"

/* A line is complete: text ends with its CRLF. 1: it was the empty line; 0; or a status code. */
static int end_line(struct http1_head *h)
{
    size_t n = h->text.n - h->line_at - 2;
    if (n == 0 && h->have_request_line)
        return 1;
    if (n == 0) {
        h->text.n = 0;
        return ++h->empty_lines > HTTP1_EMPTY_LINES ? 400 : 0;
    }
    uint8_t first = h->text.p[h->line_at];
    if (first == ' ' ||
        first == '\t') /* obs-fold, or a request that begins with a blank: RFC 9112 §2.2, §5.2 */
        return 400;
    h->have_request_line = true;
    h->line_at = (uint32_t)h->text.n;
    return 0;
}

/* Takes the rest of a line, or what there is of it. As end_line. */
static int gather_line(struct http1_head *h, const uint8_t *p, size_t n, bool ends)
{
    const size_t from = h->text.n - h->after_cr;
    memcpy(h->text.p + h->text.n, p, n);
    h->text.n += n;
    const uint8_t *span = h->text.p + from, *last = h->text.p + h->text.n - 1;
    const uint8_t *cr = memchr(span, '\r', h->text.n - from);
    h->after_cr = cr == last;
    if (memchr(p, '\0', n) || (ends ? !cr || cr + 1 != last : cr && cr != last))
        return 400; /* a bare CR or LF, or a NUL */
    if (!h->have_request_line && h->text.n - ends > HTTP1_TARGET_MAX)
        return 414;
    return ends ? end_line(h) : 0;
}

int http1_head_gather(struct http1_head *h, struct bytes *in, uint32_t header_bytes)
{
    /* Everything is one raw byte at least of what the limits count, but for the punctuation of each line. */
    size_t max = (size_t)header_bytes + HTTP1_TARGET_MAX + 4 * HTTP1_HEADERS_MAX;
    size_t room = max + 1 - min_of(h->text.n, max), take = min_of(in->n, (size_t)HTTP1_GATHER);
    take = min_of(take, room);
    int r = buffer_reserve(&h->text, take);
    if (r < 0)
        return -ENOMEM;
    while (take > 0 && r == 0) {
        const size_t max_n = h->have_request_line ? take : min_of(take, HTTP1_TARGET_MAX + 1 - h->text.n);
        const uint8_t *lf = memchr(in->p, '\n', max_n);
        const size_t n = lf ? (size_t)(lf - in->p) + 1 : max_n;
        r = gather_line(h, in->p, n, lf != NULL);
        *in = bytes_from(*in, n);
        take -= n;
    }
    return r == 0 && h->text.n > max ? 431 : r;
}

/* ---- llhttp's callbacks: the head is one piece, so every span is whole ---- */

struct reading {
    llhttp_t parser;
    struct http1_head *head;
    bool complete, too_many, no_memory;
};

static struct http1_head *head_of(llhttp_t *parser)
{
    return container_of(parser, struct reading, parser)->head;
}

static int on_url(llhttp_t *parser, const char *at, size_t n)
{
    head_of(parser)->target = bytes_of(at, n);
    return 0;
}

static int on_name(llhttp_t *parser, const char *at, size_t n)
{
    struct http1_head *h = head_of(parser);
    if (h->headers.n == HTTP1_HEADERS_MAX) {
        container_of(parser, struct reading, parser)->too_many = true;
        return -1;
    }
    if (vec_append(&h->headers, (struct http_header){.name = bytes_of(at, n)}) < 0) {
        container_of(parser, struct reading, parser)->no_memory = true;
        return -1;
    }
    return 0;
}

static int on_value(llhttp_t *parser, const char *at, size_t n)
{
    struct http1_head *h = head_of(parser);
    if (h->headers.n > 0)
        vec_last(&h->headers)->value = bytes_trim(bytes_of(at, n));
    return 0;
}

static int on_headers_complete(llhttp_t *parser)
{
    container_of(parser, struct reading, parser)->complete = true;
    parser->upgrade = 0; /* an offer we do not take (RFC 9110 §7.8) */
    return 1;            /* the body is not llhttp's business */
}

/* ---- what the fields say ---- */

/* Whether a comma-separated list has this token. */
static bool list_has(struct bytes list, const char *token)
{
    while (list.n > 0) {
        const uint8_t *comma = memchr(list.p, ',', list.n);
        size_t n = comma ? (size_t)(comma - list.p) : list.n;
        if (bytes_is_nocase(bytes_trim(bytes_of(list.p, n)), token))
            return true;
        list = comma ? bytes_of(comma + 1, list.n - n - 1) : bytes_of(NULL, 0);
    }
    return false;
}

/* One field of those that frame the message. 0 or a status code. */
static int judge_field(struct http1_head *h, const struct http_header *f, uint32_t *n_hosts)
{
    if (bytes_is(f->name, "host")) {
        h->authority = f->value;
        ++*n_hosts;
    } else if (bytes_is(f->name, "content-length")) {
        /* Also two equal ones are refused: RFC 9112 §6.3 allows that. */
        if (h->content_length >= 0 || !header_length(f->value, &h->content_length))
            return 400;
    } else if (bytes_is(f->name, "transfer-encoding")) {
        if (h->chunked)
            return 400;
        if (!bytes_is_nocase(f->value, "chunked")) /* a coding we cannot undo, RFC 9112 §6.1 */
            return 501;
        h->chunked = true;
    } else if (bytes_is(f->name, "connection")) {
        h->close |= list_has(f->value, "close");
    } else if (bytes_is(f->name, "expect")) {
        if (!bytes_is_nocase(f->value, "100-continue"))
            return 417;
        h->expects_continue = true;
    }
    return 0;
}

static int judge_fields(struct http1_head *h, uint32_t header_bytes)
{
    uint64_t size = 0;
    uint32_t n_hosts = 0;
    for (uint32_t i = 0; i < h->headers.n; i++) {
        struct http_header *f = &h->headers.p[i];
        if (!header_name_is_valid(f->name) || !header_value_is_valid(f->value))
            return 400;
        header_lower((uint8_t *)f->name.p, f->name.n); /* our own buffer */
        size += f->name.n + f->value.n + HEADER_OVERHEAD;
        int r = judge_field(h, f, &n_hosts);
        if (r != 0)
            return r;
    }
    if (size > header_bytes)
        return 431;
    if (h->chunked && (h->content_length >= 0 || h->minor == 0))
        return 400; /* two framings, or one that HTTP/1.0 does not know: RFC 9112 §6.1, §6.3 */
    if (n_hosts > 1 || (n_hosts == 0 && h->minor > 0))
        return 400; /* RFC 9112 §3.2 */
    if (h->minor == 0) {
        h->close = true;
        h->expects_continue = false; /* RFC 9110 §10.1.1 */
    }
    return 0;
}

/* Origin form, absolute form, or * (RFC 9112 §3.2). 0 or a status code. */
static int judge_target(struct http1_head *h)
{
    struct bytes t = h->target;
    for (size_t i = 0; i < t.n; i++)
        if (t.p[i] <= 0x20 || t.p[i] >= 0x7f)
            return 400;
    if (t.n > HTTP1_TARGET_MAX)
        return 414;
    h->scheme = BYTES_LIT("http");
    size_t scheme = bytes_starts(t, "http://") ? 4 : bytes_starts(t, "https://") ? 5 : 0;
    if (scheme > 0) {
        h->scheme = bytes_of(t.p, scheme);
        t = bytes_of(t.p + scheme + 3, t.n - scheme - 3);
        size_t n = 0;
        while (n < t.n && t.p[n] != '/' && t.p[n] != '?')
            n++;
        h->authority = bytes_of(t.p, n); /* and not Host's: RFC 9112 §3.2.2 */
        t = bytes_of(t.p + n, t.n - n);
        if (h->authority.n == 0)
            return 400;
        target_split(t, &h->path, &h->query);
        if (h->path.n == 0)
            h->path = BYTES_LIT("/");
        return 0;
    }
    if (t.n == 0 || (t.p[0] != '/' && !(bytes_is(t, "*") && bytes_is(h->method, "OPTIONS"))))
        return 400;
    target_split(t, &h->path, &h->query);
    return 0;
}

int http1_head_parse(struct http1_head *h, uint32_t header_bytes)
{
    llhttp_settings_t settings;
    llhttp_settings_init(&settings);
    settings.on_url = on_url;
    settings.on_header_field = on_name;
    settings.on_header_value = on_value;
    settings.on_headers_complete = on_headers_complete;
    struct reading reading = {.head = h};
    h->content_length = -1;
    llhttp_init(&reading.parser, HTTP_REQUEST, &settings);
    llhttp_errno_t r = llhttp_execute(&reading.parser, (const char *)h->text.p, h->text.n);
    if (reading.too_many)
        return 431;
    if (reading.no_memory)
        return 503;
    if (r == HPE_INVALID_VERSION)
        return 505;
    if (r != HPE_OK || !reading.complete || !h->target.p)
        return 400;
    if (reading.parser.http_major != 1 || reading.parser.http_minor > 1)
        return 505;
    h->minor = reading.parser.http_minor;
    const uint8_t *blank = memchr(h->text.p, ' ', h->text.n);
    h->method = bytes_of(h->text.p, blank ? (size_t)(blank - h->text.p) : 0);
    /* One blank between the words and nothing behind them (RFC 9112 §3); llhttp lets more through. */
    struct bytes rest = bytes_of(h->target.p, h->text.n - (size_t)(h->target.p - h->text.p));
    if (h->target.p != h->text.p + h->method.n + 1 || rest.n < h->target.n + 11 ||
        memcmp(rest.p + h->target.n, " HTTP/1.", 8) != 0 || memcmp(rest.p + h->target.n + 9, "\r\n", 2) != 0)
        return 400;
    h->is_head = bytes_is(h->method, "HEAD");
    if (bytes_is(h->method, "CONNECT")) /* we are no proxy */
        return 501;
    int status = judge_fields(h, header_bytes);
    return status != 0 ? status : judge_target(h);
}

bool http1_head_is_http(const struct http1_head *h)
{
    return h->text.n > 0 && memmem(h->text.p, h->text.n, " HTTP/", 6);
}

bool http1_head_is_begun(const struct http1_head *h)
{
    return h->text.n > 0;
}

void http1_head_clear(struct http1_head *h, size_t keep_max)
{
    struct http1_head empty = {.text = h->text, .headers = h->headers};
    buffer_clear(&empty.text, keep_max);
    vec_clear(&empty.headers);
    if (empty.headers.room * sizeof *empty.headers.p > keep_max)
        vec_release(&empty.headers);
    empty.content_length = -1;
    *h = empty;
}
