/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/admin/pages.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>

#include "gateway/admin/query.h"
#include "gateway/stats/json.h"
#include "proto/base/macros.h"
#include "proto/base/quantity.h"
#include "proto/coding/coding.h"

/* Below this, gzip's header and the extra pass cost more than they save. */
#define GZIP_MIN 512u

/* Fast rather than small: the text is made again every few seconds and goes a short way. */
#define GZIP_LEVEL 3

/* Kept between scrapes; a page of metrics is usually less. */
#define KEEP_BYTES ((size_t)1 << 20)

struct pages {
    const struct admin_options *options;
    struct coding_encoder *gzip;
    struct buffer text, packed;
};

struct pages *pages_new(const struct admin_options *options)
{
    struct pages *p = calloc(1, sizeof *p);
    if (!p)
        return NULL;
    p->options = options;
    p->gzip = coding_encoder_new(CODING_GZIP, GZIP_LEVEL);
    return p->gzip ? p : pages_free(p);
}

struct pages *pages_free(struct pages *p)
{
    if (!p)
        return NULL;
    coding_encoder_free(p->gzip);
    buffer_release(&p->text);
    buffer_release(&p->packed);
    free(p);
    return NULL;
}

/* ---- answering ----------------------------------------------------------------------------- */

#define TEXT_PLAIN "text/plain; charset=utf-8"
#define TEXT_METRICS \
    "text/plain; version=0.0.4; charset=utf-8" /* Prometheus exposition formats, "Text format" */
#define TEXT_JSON "application/json"

/* Nothing here may be cached: each answer is about this moment. `more` may be NULL. */
static void answer(struct http_exchange *x, uint32_t status, const char *type, const struct http_header *more,
                   uint32_t n_more, struct bytes body)
{
    struct http_header headers[4] = {
        {BYTES_LIT("content-type"), bytes_str(type)},
        {BYTES_LIT("cache-control"), BYTES_LIT("no-store")},
    };
    uint32_t n = 2;
    for (uint32_t i = 0; i < n_more && n < ARRAY_LEN(headers); i++)
        headers[n++] = more[i];
    /* Without memory the session resets the exchange. */
    http_reply(x, &(struct http_reply){.status = status, .headers = headers, .n_headers = n, .body = body});
}

static void answer_text(struct http_exchange *x, uint32_t status, const char *text)
{
    answer(x, status, TEXT_PLAIN, NULL, 0, bytes_str(text));
}

static struct bytes header_of(const struct http_exchange *x, const char *name)
{
    return http_header_find(x->headers, x->n_headers, name);
}

/* ---- pages --------------------------------------------------------------------------------- */

static void page_index(struct pages *p, struct http_exchange *x)
{
    answer_text(
        x, 200,
        "profgate " PROFGATE_VERSION "\n\n"
        "/metrics   Prometheus text or OpenMetrics, by Accept: what the rules counted, and what the gateway knows about itself\n"
        "           (?collect[]=profiles or ?collect[]=self for one of the two)\n"
        "/healthz   200 while the process runs\n"
        "/readyz    200 when requests are taken and can be passed on, else 503 and why\n"
        "           (Accept: application/json for each condition)\n"
        "/api/v1/triggers   which triggers of the rules fire, and for whom (JSON)\n"
        "/api/v1/captures   of what all raw profiles are forwarded now (JSON)\n"
        "/api/v1/capture   POST: forwards all raw profiles for a time: ?lasting=5m&resource.service.name=checkout\n"
        "           (without resource.…: of everything; ?end=ID ends it)\n"
        "/api/v1/reload   POST: reads configuration, rules, credentials and certificates anew\n");
}

static void page_health(struct pages *p, struct http_exchange *x)
{
    answer_text(x, 200, "ok\n");
}

static int ready_json(const struct admin_check *check, bool is_ready, const struct error *why,
                      json_object *list)
{
    json_object *o = json_append_object(list);
    if (!o)
        return -ENOMEM;
    int r = json_put(o, "name", json_text(bytes_str(check->name)));
    r |= json_put(o, "ready", json_object_new_boolean(is_ready));
    if (!is_ready)
        r |= json_put(o, "reason", json_text(bytes_str(why->text)));
    return r == 0 ? 0 : -ENOMEM;
}

/* Asks every check; writes what is wrong as lines into p->text, or each check into `list` unless that is
 * NULL. */
static int ask_checks(struct pages *p, json_object *list, bool *ret_ready)
{
    *ret_ready = true;
    int r = 0;
    for (uint32_t i = 0; i < p->options->n_checks && r == 0; i++) {
        const struct admin_check *check = &p->options->checks[i];
        struct error why = {""};
        bool is_ready = check->is_ready(check->context, &why);
        *ret_ready &= is_ready;
        if (list)
            r = ready_json(check, is_ready, &why, list);
        else if (!is_ready)
            r = buffer_printf(&p->text, "not ready: %s%s%s\n", check->name, why.text[0] ? ": " : "",
                              why.text);
    }
    return r;
}

/* {"ready":…,"checks":[…]} into p->text. */
static int ready_document(struct pages *p, bool *ret_ready)
{
    json_object *top = json_object_new_object(), *list = json_object_new_array();
    int r = list ? ask_checks(p, list, ret_ready) : -ENOMEM;
    r |= json_put(top, "ready", json_object_new_boolean(*ret_ready));
    r |= json_put(top, "checks", list);
    if (r == 0)
        r = json_write(top, &p->text);
    json_object_put(top);
    return r;
}

static void page_ready(struct pages *p, struct http_exchange *x)
{
    bool as_json = query_accepts(header_of(x, "accept"), TEXT_JSON), is_ready = false;
    int r = as_json ? ready_document(p, &is_ready) : ask_checks(p, NULL, &is_ready);
    if (r == 0 && is_ready && !as_json)
        r = buffer_add_str(&p->text, "ok\n");
    if (r < 0)
        answer_text(x, 500, "out of memory\n");
    else
        answer(x, is_ready ? 200 : 503, as_json ? TEXT_JSON : TEXT_PLAIN, NULL, 0, buffer_bytes(&p->text));
}

/* What ?collect[]= asks for; everything by default. False: it names something that is not there. */
static bool collect_of(struct bytes query, unsigned *ret_what)
{
    unsigned what = 0;
    struct bytes name, value;
    while (query_next(&query, &name, &value)) {
        if (!query_is(name, "collect[]"))
            continue;
        if (query_is(value, "self"))
            what |= ADMIN_METRICS_SELF;
        else if (query_is(value, "profiles"))
            what |= ADMIN_METRICS_PROFILES;
        else
            return false;
    }
    *ret_what = what ? what : ADMIN_METRICS_SELF | ADMIN_METRICS_PROFILES;
    return true;
}

/* Content-Type of an answer, with the escaping where the scraper asked for one. */
static const char *metrics_type(const struct admin_metrics *m, char text[128])
{
    static const char *const types[] = {
        [ADMIN_TEXT_0_0_4] = TEXT_METRICS,
        [ADMIN_TEXT_1_0_0] = "text/plain; version=1.0.0; charset=utf-8",
        [ADMIN_OPENMETRICS_0_0_1] = "application/openmetrics-text; version=0.0.1; charset=utf-8",
        [ADMIN_OPENMETRICS_1_0_0] = "application/openmetrics-text; version=1.0.0; charset=utf-8",
    };
    static const char *const escapings[] = {[ADMIN_UNDERSCORES] = "underscores",
                                            [ADMIN_ALLOW_UTF8] = "allow-utf-8",
                                            [ADMIN_DOTS] = "dots",
                                            [ADMIN_VALUES] = "values"};
    snprintf(text, 128, "%s%s%s", types[m->format], m->escaping_is_asked_for ? "; escaping=" : "",
             m->escaping_is_asked_for ? escapings[m->escaping] : "");
    return text;
}

static void page_metrics(struct pages *p, struct http_exchange *x)
{
    struct admin_metrics wanted = {.format = ADMIN_TEXT_0_0_4};
    char type[128];
    if (!collect_of(x->query, &wanted.what)) {
        answer_text(x, 400, "collect[] is one of: profiles, self\n");
        return;
    }
    query_metrics_format(header_of(x, "accept"), &wanted);
    if (p->options->metrics(p->options->metrics_context, &wanted, &p->text) < 0) {
        answer_text(x, 500, "the metrics could not be collected\n");
        return;
    }
    struct http_header more[] = {{BYTES_LIT("vary"), BYTES_LIT("accept, accept-encoding")},
                                 {BYTES_LIT("content-encoding"), BYTES_LIT("gzip")}};
    bool packed = p->text.n >= GZIP_MIN && query_accepts_gzip(header_of(x, "accept-encoding")) &&
                  coding_encode(p->gzip, buffer_bytes(&p->text), &p->packed) == 0;
    answer(x, 200, metrics_type(&wanted, type), more, packed ? 2 : 1,
           buffer_bytes(packed ? &p->packed : &p->text));
}

/* A page of the web that a person has open may POST to anybody, us included; its browser then says which page
 * it was (Fetch standard, "Origin header"). */
static bool is_from_a_browser(const struct http_exchange *x)
{
    return header_of(x, "origin").n > 0 || header_of(x, "sec-fetch-site").n > 0;
}

static void page_reload(struct pages *p, struct http_exchange *x)
{
    struct error e = {""};
    if (!p->options->reload) {
        answer_text(x, 404, "nothing here; / lists what is\n");
    } else if (is_from_a_browser(x)) {
        answer_text(x, 403, "not from a browser\n");
    } else if (p->options->reload(p->options->reload_context, &e) < 0) {
        buffer_printf(&p->text, "%s\n", e.text);
        answer(x, 400, TEXT_PLAIN, NULL, 0, buffer_bytes(&p->text));
    } else {
        answer_text(x, 200, "reloaded\n");
    }
}

static void page_triggers(struct pages *p, struct http_exchange *x)
{
    if (!p->options->triggers)
        answer_text(x, 404, "nothing here; / lists what is\n");
    else if (p->options->triggers(p->options->triggers_context, &p->text) < 0)
        answer_text(x, 500, "out of memory\n");
    else
        answer(x, 200, TEXT_JSON, NULL, 0, buffer_bytes(&p->text));
}

/* ---- captures ------------------------------------------------------------------------------ */

/* Names and values of a query together; a service's name is some dozen bytes. */
#define CAPTURE_TEXT_BYTES 2048u
#define RESOURCE           "resource."

/* One parameter. False with *why. */
static bool capture_parameter(struct bytes name, struct bytes value, struct admin_capture *c,
                              uint32_t *ret_end, const char **why)
{
    uint64_t id;
    if (bytes_is(name, "lasting")) {
        *why = "lasting is a duration, as 30s or 5m\n";
        return quantity_duration(value, &c->lasting_ns) == 0 && c->lasting_ns > 0;
    }
    if (bytes_is(name, "end")) {
        *why = "end is the id of a capture (/api/v1/captures)\n";
        bool good = quantity_u64(value, &id) == 0 && id > 0 && id <= UINT32_MAX;
        *ret_end = good ? (uint32_t)id : 0;
        return good;
    }
    *why = "parameters are lasting, end and resource.KEY (at most 8)\n";
    if (!bytes_starts(name, RESOURCE) || name.n == strlen(RESOURCE) || c->n == ADMIN_CAPTURE_KEYS_MAX)
        return false;
    c->keys[c->n] = bytes_of(name.p + strlen(RESOURCE), name.n - strlen(RESOURCE));
    c->values[c->n++] = value;
    return true;
}

/* What the query asks for; *ret_end is not 0 where a capture is to end. False with *why. */
static bool capture_of(struct bytes query, uint8_t text[CAPTURE_TEXT_BYTES], struct admin_capture *c,
                       uint32_t *ret_end, const char **why)
{
    struct bytes name, value;
    size_t used = 0;
    *why = "the query is too long, or not percent-encoded\n";
    while (query_next(&query, &name, &value)) {
        if (query_decode(name, text + used, CAPTURE_TEXT_BYTES - used, &name) < 0)
            return false;
        used += name.n;
        if (query_decode(value, text + used, CAPTURE_TEXT_BYTES - used, &value) < 0)
            return false;
        used += value.n;
        if (!capture_parameter(name, value, c, ret_end, why))
            return false;
    }
    *why = "say how long: ?lasting=5m, and of what: &resource.service.name=checkout\n";
    return *ret_end != 0 || c->lasting_ns > 0;
}

static void begin_capture(struct pages *p, struct http_exchange *x, const struct admin_capture *c)
{
    const struct admin_captures *captures = &p->options->captures;
    struct error e = {""};
    uint32_t id;
    int r = captures->begin(captures->context, c, &id, &e);
    if (r < 0)
        buffer_printf(&p->text, "%s\n", e.text);
    else
        buffer_printf(&p->text, "{\"id\":%u}\n", id);
    uint32_t status = r == 0 ? 201 : r == -EINVAL ? 400 : r == -ENOSPC ? 429 : 500;
    answer(x, status, r == 0 ? TEXT_JSON : TEXT_PLAIN, NULL, 0, buffer_bytes(&p->text));
}

static void page_capture(struct pages *p, struct http_exchange *x)
{
    const struct admin_captures *captures = &p->options->captures;
    struct admin_capture c = {0};
    uint8_t text[CAPTURE_TEXT_BYTES];
    const char *why;
    uint32_t end = 0;
    if (!captures->begin)
        answer_text(x, 404, "nothing here; / lists what is\n");
    else if (is_from_a_browser(x))
        answer_text(x, 403, "not from a browser\n");
    else if (!capture_of(x->query, text, &c, &end, &why))
        answer_text(x, 400, why);
    else if (end == 0)
        begin_capture(p, x, &c);
    else if (captures->end(captures->context, end) < 0)
        answer_text(x, 404, "there is no such capture, or a trigger began it\n");
    else
        answer_text(x, 200, "ended\n");
}

static void page_captures(struct pages *p, struct http_exchange *x)
{
    const struct admin_captures *captures = &p->options->captures;
    if (!captures->list)
        answer_text(x, 404, "nothing here; / lists what is\n");
    else if (captures->list(captures->context, &p->text) < 0)
        answer_text(x, 500, "out of memory\n");
    else
        answer(x, 200, TEXT_JSON, NULL, 0, buffer_bytes(&p->text));
}

static const struct {
    const char *path;
    void (*page)(struct pages *p, struct http_exchange *x);
    bool posts;
} routes[] = {
    {"/", page_index, false},
    {"/healthz", page_health, false},
    {"/readyz", page_ready, false},
    {"/metrics", page_metrics, false},
    {"/api/v1/reload", page_reload, true},
    {"/api/v1/triggers", page_triggers, false},
    {"/api/v1/captures", page_captures, false},
    {"/api/v1/capture", page_capture, true},
};

static bool method_fits(const struct http_exchange *x, bool posts)
{
    return posts ? bytes_is(x->method, "POST") : bytes_is(x->method, "GET") || bytes_is(x->method, "HEAD");
}

static void refuse_method(struct http_exchange *x, bool posts)
{
    struct http_header allow = {BYTES_LIT("allow"), posts ? BYTES_LIT("POST") : BYTES_LIT("GET, HEAD")};
    answer(x, 405, TEXT_PLAIN, &allow, 1,
           posts ? BYTES_LIT("only POST here\n") : BYTES_LIT("only GET and HEAD here\n"));
}

static void on_head(void *context, struct http_exchange *x)
{
    struct pages *p = context;
    for (size_t i = 0; i < ARRAY_LEN(routes); i++) {
        if (!bytes_is(x->path, routes[i].path))
            continue;
        if (!method_fits(x, routes[i].posts)) {
            refuse_method(x, routes[i].posts);
            return;
        }
        routes[i].page(p, x);
        buffer_clear(&p->text, KEEP_BYTES);
        buffer_clear(&p->packed, KEEP_BYTES);
        return;
    }
    answer_text(x, 404, "nothing here; / lists what is\n");
}

static void on_body(void *context, struct http_exchange *x, struct bytes piece) {}

static void on_end(void *context, struct http_exchange *x) {}

static void on_close(void *context, struct http_exchange *x) {}

const struct http_handler *pages_handler(void)
{
    static const struct http_handler handler = {on_head, on_body, on_end, on_close};
    return &handler;
}
