/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/admin/pages.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

#include "gateway/access/access.h"
#include "proto/base/clock.h"
#include "proto/base/log.h"
#include "proto/base/macros.h"
#include "proto/http/query.h"

/* Kept from answer to answer. */
#define KEEP_BYTES ((size_t)64 << 10)

/* Of a body that comes while a password is being verified. */
#define WAITING_BYTES ((size_t)256 << 10)

struct pages {
    struct pages_names names;
    struct pages_guard guard;
    struct buffer text;
    uint32_t n;
    struct admin_page rows[];
};

struct pages *pages_new(const struct admin_page *rows, uint32_t n, const struct pages_names *names,
                        const struct pages_guard *guard)
{
    struct pages *p = calloc(1, sizeof *p + n * sizeof *rows);
    if (!p)
        return NULL;
    if (n > 0)
        memcpy(p->rows, rows, n * sizeof *rows);
    p->n = n;
    p->names = *names;
    p->guard = *guard;
    return p;
}

struct pages *pages_free(struct pages *p)
{
    if (!p)
        return NULL;
    buffer_release(&p->text);
    free(p);
    return NULL;
}

static struct bytes header_of(const struct http_exchange *x, const char *name)
{
    return http_header_find(x->headers, x->n_headers, name);
}

/* ---- the list at / --------------------------------------------------------------------------- */

#define DOC_COLUMN 8 /* paths are so wide at least, and then there are three blanks */

static int list_page(const struct admin_page *page, struct buffer *out)
{
    bool posts = strcmp(page->method, "POST") == 0;
    int r = buffer_printf(out, "%-*s   %s", DOC_COLUMN, page->path, posts ? "POST: " : "");
    for (const char *line = page->doc, *end; r == 0; line = end + 1) {
        end = strchrnul(line, '\n');
        r = buffer_printf(out, "%.*s\n", (int)(end - line), line);
        if (!*end)
            break;
        if (r == 0)
            r = buffer_printf(out, "%*s", DOC_COLUMN + 3, "");
    }
    return r;
}

static void show_index(void *context, const struct http_exchange *x, struct admin_answer *a)
{
    const struct pages *p = context;
    int r = buffer_add_str(a->text, "profgate " PROFGATE_VERSION "\n\n");
    for (uint32_t i = 0; i < p->n && r == 0; i++)
        if (p->rows[i].doc)
            r = list_page(&p->rows[i], a->text);
    if (r < 0)
        admin_say(a, 500, "out of memory\n");
}

/* ---- answering ----------------------------------------------------------------------------- */

#define MORE_MAX 2u

/* Nothing here may be cached: each answer is about this moment. */
static void reply(struct http_exchange *x, const struct admin_answer *a, const struct http_header *more,
                  uint32_t n_more)
{
    struct http_header headers[2 + MORE_MAX] = {
        {BYTES_LIT("content-type"), bytes_str(a->type)},
        {BYTES_LIT("cache-control"), BYTES_LIT("no-store")},
    };
    struct bytes body = a->words ? bytes_str(a->words) : buffer_bytes(a->text);
    uint32_t n = 2;
    for (uint32_t i = 0; i < n_more; i++)
        headers[n++] = more[i];
    /* Without memory the session resets the exchange. */
    http_reply(x,
               &(struct http_reply){.status = a->status, .headers = headers, .n_headers = n, .body = body});
}

/* A page of the web that a person has open may POST to anybody, us included; its browser then says which page
 * it was (Fetch standard, "Origin header"). */
static bool is_from_a_browser(const struct http_exchange *x)
{
    return header_of(x, "origin").p != NULL || header_of(x, "sec-fetch-site").p != NULL;
}

/* ---- whose name it was called by ------------------------------------------------------------- */

/* The host of host:port (RFC 9110 §7.2); of an IPv6 address what is in its brackets, of a name that is whole
 * what is before its last dot (RFC 1034 §3.1; scrapers are given such names, lest a search list is tried). */
static struct bytes host_of(struct bytes authority)
{
    if (authority.n > 0 && authority.p[0] == '[') {
        const uint8_t *end = memchr(authority.p, ']', authority.n);
        return end ? bytes_of(authority.p + 1, (size_t)(end - authority.p) - 1) : authority;
    }
    const uint8_t *colon = authority.n > 0 ? memchr(authority.p, ':', authority.n) : NULL;
    struct bytes host = colon ? bytes_of(authority.p, (size_t)(colon - authority.p)) : authority;
    host.n -= host.n > 1 && host.p[host.n - 1] == '.';
    return host;
}

static bool is_host(struct bytes host, const char *authority)
{
    const struct bytes other = host_of(bytes_str(authority));
    return other.n == host.n && strncasecmp((const char *)other.p, (const char *)host.p, host.n) == 0;
}

static bool is_address(struct bytes host)
{
    char text[INET6_ADDRSTRLEN];
    uint8_t any[sizeof(struct in6_addr)];
    if (host.n >= sizeof text)
        return false;
    memcpy(text, host.p, host.n);
    text[host.n] = 0;
    return inet_pton(AF_INET, text, any) == 1 || inet_pton(AF_INET6, text, any) == 1;
}

/* A page of the web may have its own name point to us, and then reads what we answer as if it were its own
 * (DNS rebinding); the browser says by which name it came. A name without a dot is nobody's to point
 * anywhere: localhost, a service in its own cluster. */
static bool is_called_by_its_name(const struct pages *p, const struct http_exchange *x)
{
    struct bytes host = host_of(x->authority);
    if (host.n == 0 || is_address(host) || (!memchr(host.p, '.', host.n) && !memchr(host.p, '[', host.n)))
        return true;
    bool is_ours = p->names.own && is_host(host, p->names.own);
    for (uint32_t i = 0; i < p->names.n_more && !is_ours; i++)
        is_ours = strcmp(p->names.more[i], "*") == 0 || is_host(host, p->names.more[i]);
    return is_ours;
}

static const struct admin_page *find(const struct pages *p, struct bytes path)
{
    for (uint32_t i = 0; i < p->n; i++)
        if (bytes_is(path, p->rows[i].path))
            return &p->rows[i];
    return NULL;
}

/* What is at /: for who asks for HTML, as browsers do, the page that somebody has made for them; else the
 * list. */
static const struct admin_page *find_root(const struct pages *p, const struct http_exchange *x,
                                          const struct admin_page *list)
{
    const struct admin_page *page = find(p, BYTES_LIT("/"));
    return page && query_accepts(header_of(x, "accept"), "text/html") ? page : list;
}

static bool method_fits(const struct http_exchange *x, const struct admin_page *page)
{
    return bytes_is(x->method, page->method) ||
           (strcmp(page->method, "GET") == 0 && bytes_is(x->method, "HEAD"));
}

#define NOT_HERE \
    "this is the admin address: profiles go to those of receivers.otlp, port 4317 or 4318 by default"

/* A profiler that was given this address shows its user what we say. gRPC's client looks at the trailers
 * alone, and of an answer without a body these are its headers (PROTOCOL-HTTP2, "Trailers-Only"). */
static void refuse_profiles(struct http_exchange *x)
{
    struct admin_answer a = {.type = ADMIN_TYPE_TEXT};
    static const struct http_header trailers[] = {{BYTES_LIT("grpc-status"),
                                                   BYTES_LIT("12")}, /* UNIMPLEMENTED */
                                                  {BYTES_LIT("grpc-message"), BYTES_LIT(NOT_HERE)}};
    if (bytes_starts(header_of(x, "content-type"), "application/grpc")) {
        a = (struct admin_answer){.status = 200, .type = "application/grpc", .words = ""};
        reply(x, &a, trailers, ARRAY_LEN(trailers));
    } else {
        admin_say(&a, 404, NOT_HERE "\n");
        reply(x, &a, NULL, 0);
    }
}

/* `is_known`: who asks has said who he is, or nobody is asked. Whether the page has taken it; else it is
 * answered, and may be gone. */
static bool answer(struct pages *p, struct http_exchange *x, bool is_known)
{
    const struct admin_page index = {"GET", "/", "", show_index, p};
    const struct admin_page *page = bytes_is(x->path, "/") ? find_root(p, x, &index) : find(p, x->path);
    const bool posts = page && strcmp(page->method, "POST") == 0;
    const struct http_header allow = {BYTES_LIT("allow"), posts ? BYTES_LIT("POST") : BYTES_LIT("GET, HEAD")};
    const bool is_wrong_method = page && !method_fits(x, page);
    struct admin_answer a = {.status = 200, .type = ADMIN_TYPE_TEXT, .text = &p->text};
    if (!page && bytes_is(x->method, "POST"))
        return refuse_profiles(x), false;
    if (!page)
        admin_say(&a, 404, "nothing here; / lists what is\n");
    else if (is_wrong_method)
        admin_say(&a, 405, posts ? "only POST here\n" : "only GET and HEAD here\n");
    else if (posts && is_from_a_browser(x))
        admin_say(&a, 403, "not from a browser\n");
    else if (page->take)
        return page->take(page->context, x), true;
    else
        page->handle(page->context, x, &a);
    if (!is_known) {
        a.type = ADMIN_TYPE_TEXT;
        a.words = a.status == 200 ? "ok\n" : "no; who says who he is hears why\n";
    }
    reply(x, &a, &allow, a.status == 405);
    buffer_clear(&p->text, KEEP_BYTES);
    return false;
}

/* ---- who asks ------------------------------------------------------------------------------ */

static void refuse(const struct pages *p, struct http_exchange *x, enum access_verdict verdict)
{
    struct http_header more[MORE_MAX];
    struct admin_answer a = {.type = ADMIN_TYPE_TEXT};
    uint32_t n = 0;
    if (verdict == ACCESS_FORBIDDEN) {
        admin_say(&a, 403, "the client's certificate is not one of those that may ask here\n");
    } else if (verdict == ACCESS_MISSING || verdict == ACCESS_WRONG) {
        admin_say(&a, 401,
                  verdict == ACCESS_MISSING ? "credentials are needed; none of a kind that is taken came\n"
                                            : "these credentials are not right\n");
        n = access_challenges(p->guard.policy, verdict == ACCESS_WRONG, more);
    } else {
        admin_say(&a, 503,
                  "too many passwords are being verified just now, or there is no memory; try again\n");
        more[n++] = (struct http_header){BYTES_LIT("retry-after"), BYTES_LIT("1")};
    }
    log_debug("admin refused peer=%s path=\"%.*s\" status=%u", x->peer ? x->peer->address : "",
              BYTES_FMT(x->path), a.status);
    reply(x, &a, more, n);
}

/* As answer. */
static bool admit(struct pages *p, struct http_exchange *x, enum access_verdict verdict)
{
    if (verdict == ACCESS_YES)
        return answer(p, x, true);
    refuse(p, x, verdict);
    return false;
}

/* A request whose password is being verified; what comes of its body meanwhile is its page's afterwards. */
struct waiting {
    struct access_wait wait;
    struct pages *pages;
    struct http_exchange *exchange;
    struct buffer body;
    bool has_all; /* of the body */
};

static void waiting_free(struct waiting *w)
{
    access_cancel(&w->wait);
    buffer_release(&w->body);
    free(w);
}

static void waiting_on_body(void *context, struct http_exchange *x, struct bytes piece)
{
    struct waiting *w = context;
    if (buffer_add_bytes(&w->body, piece) == 0)
        return;
    access_cancel(&w->wait);
    refuse(w->pages, x, ACCESS_BUSY);
}

static void waiting_on_end(void *context, struct http_exchange *x)
{
    ((struct waiting *)context)->has_all = true;
}

static void waiting_on_close(void *context, struct http_exchange *x)
{
    waiting_free(context);
}

static const struct http_handler waiting_handler = {
    .on_body = waiting_on_body, .on_end = waiting_on_end, .on_close = waiting_on_close};

static void on_verified(void *user, enum access_verdict verdict)
{
    struct waiting *w = user;
    struct http_exchange *x = w->exchange;
    const bool posts = bytes_is(x->method, "POST");
    x->handler = pages_handler();
    x->context = w->pages;
    if (admit(w->pages, x, verdict) && posts) {
        if (w->body.n > 0)
            http_tell_body(x, buffer_bytes(&w->body));
        if (w->has_all)
            http_tell_end(x);
    }
    waiting_free(w);
}

/* Whether it may hear no more than an open page's status: it has not said who it is. */
static bool is_nameless(const struct pages *p, const struct http_exchange *x)
{
    const struct admin_page *page = find(p, x->path);
    return page && page->is_open && !header_of(x, "authorization").p && (!x->peer || !x->peer->identity[0]);
}

static void ask_who(struct pages *p, struct http_exchange *x)
{
    struct waiting *w = calloc(1, sizeof *w);
    if (!w) {
        refuse(p, x, ACCESS_BUSY);
        return;
    }
    *w = (struct waiting){.wait = {.done = on_verified, .user = w},
                          .pages = p,
                          .exchange = x,
                          .body = BUFFER_INIT(WAITING_BYTES)};
    const enum access_verdict verdict =
        access_check(p->guard.access, x, p->guard.policy, &w->wait, clock_monotonic());
    if (verdict == ACCESS_WAIT) {
        x->handler = &waiting_handler;
        x->context = w;
        return;
    }
    free(w);
    admit(p, x, verdict);
}

static void on_head(void *context, struct http_exchange *x)
{
    struct pages *p = context;
    if (!is_called_by_its_name(p, x)) {
        struct admin_answer a = {.type = ADMIN_TYPE_TEXT};
        admin_say(&a, 421, "not called by that name here; admin.hosts lists names\n");
        reply(x, &a, NULL, 0);
    } else if (!p->guard.policy || is_nameless(p, x)) {
        answer(p, x, !p->guard.policy);
    } else {
        ask_who(p, x);
    }
}

const struct http_handler *pages_handler(void)
{
    static const struct http_handler handler = {.on_head = on_head};
    return &handler;
}
