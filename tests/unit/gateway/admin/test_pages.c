/* SPDX-License-Identifier: Apache-2.0 */
/* needs: dep_jsonc */
#include "gateway/admin/pages.h"

#include <errno.h>
#include <json-c/json.h>

#include "gateway/admin/format.h"
#include "gateway/admin/ready.h"
#include "proto/base/macros.h"
#include "proto/http/query.h"
#include "tests/lib/unit.h"

/* http_reply and http_header_find are the test's: the answer is kept as text. */
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
    buffer_add_bytes(&body, reply->body);
    return 0;
}

static bool is_ready(void *context, struct error *why)
{
    if (context)
        error_set(why, 0, "%s", (const char *)context);
    return !context;
}

static struct admin_check checks[2] = {{"listener", is_ready, NULL}, {"exporter \"otlp\"", is_ready, NULL}};
static int document_result;

/* Somebody else's pages: one that shows, one that changes something. */
static void show_document(void *context, const struct http_exchange *x, struct admin_answer *a)
{
    admin_say_json(a, document_result < 0 ? document_result : buffer_add_str(a->text, "{\"items\":[]}\n"));
}

static void change(void *context, const struct http_exchange *x, struct admin_answer *a)
{
    ++*(unsigned *)context;
    a->status = 201;
    buffer_printf(a->text, "changed\n");
}

static void take(void *context, struct http_exchange *x)
{
    http_reply(x, &(struct http_reply){.status = 299});
}

static unsigned changes;
static struct admin_ready ready = {checks, 2};

static const char *const more[] = {"profgate.example"};
static const struct pages_names names = {"gate.internal:9464", more, 1};

static struct pages_guard guard;

static struct pages *make_pages(void)
{
    const struct admin_page rows[] = {
        admin_health_page(),
        admin_ready_page(&ready),
        {"GET", "/document", "a document\nof two lines", show_document, NULL},
        {"POST", "/change", "changes something", change, &changes},
        {"GET", "/later", "answers by itself", .take = take},
        {"GET", "/", NULL, .take = take},
    };
    return unit_made(pages_new(rows, ARRAY_LEN(rows), &names, &guard));
}

static void ask_with(const char *method, const char *path, const char *query, const char *name,
                     const char *value)
{
    struct pages *p = make_pages();
    struct http_header header = {bytes_str(name), bytes_str(value)};
    struct http_exchange x = {.method = bytes_str(method),
                              .path = bytes_str(path),
                              .query = bytes_str(query),
                              .headers = &header,
                              .n_headers = name ? 1 : 0};
    status = 0;
    pages_handler()->on_head(p, &x);
    pages_free(p);
}

static void ask(const char *path, const char *query)
{
    ask_with("GET", path, query, NULL, NULL);
}

static void done(void)
{
    buffer_release(&headers);
    buffer_release(&body);
}

UNIT(health_is_ok_while_the_process_lives)
{
    ask("/healthz", "");
    ck_assert_uint_eq(status, 200);
    ck_assert(bytes_is(buffer_bytes(&body), "ok\n"));
    ck_assert_str_eq((char *)headers.p, "content-type: text/plain; charset=utf-8\ncache-control: no-store\n");
    done();
}

UNIT(ready_is_when_every_check_is)
{
    ask("/readyz", "");
    ck_assert_uint_eq(status, 200);
    ck_assert(bytes_is(buffer_bytes(&body), "ok\n"));
    checks[1].context = (void *)"no answer since 30 s";
    ask("/readyz", "");
    ck_assert_uint_eq(status, 503);
    ck_assert(bytes_is(buffer_bytes(&body), "not ready: exporter \"otlp\": no answer since 30 s\n"));
    done();
}

UNIT(ready_tells_each_check_in_json_when_asked)
{
    checks[1].context = (void *)"queue \"full\"";
    ask_with("GET", "/readyz", "", "accept", "text/html, application/json;q=0.9");
    ck_assert_uint_eq(status, 503);
    ck_assert_ptr_nonnull(strstr((char *)headers.p, "content-type: application/json\n"));
    ck_assert_int_eq(buffer_add(&body, "", 1), 0);
    ck_assert_str_eq((char *)body.p, "{\"ready\":false,\"checks\":[{\"name\":\"listener\",\"ready\":true},"
                                     "{\"name\":\"exporter \\\"otlp\\\"\",\"ready\":false,"
                                     "\"reason\":\"queue \\\"full\\\"\"}]}");
    ask_with("GET", "/readyz", "", "accept", "application/json;q=0");
    ck_assert_int_eq(body.p[0], 'n');
    done();
}

UNIT(who_asks_for_html_has_a_page_instead_of_the_list)
{
    ask_with("GET", "/", "", "accept", "text/html,application/xhtml+xml,*/*;q=0.8");
    ck_assert_uint_eq(status, 299);
    for (const char *const *accept = (const char *const[]){"*/*", "text/plain", "text/html;q=0", NULL};
         *accept; accept++) {
        ask_with("GET", "/", "", "accept", *accept);
        ck_assert_uint_eq(status, 200);
        ck_assert_int_eq(buffer_add(&body, "", 1), 0);
        ck_assert_ptr_nonnull(strstr((char *)body.p, "/healthz"));
        ck_assert_ptr_null(strstr((char *)body.p, "(null)"));
    }
    done();
}

UNIT(who_takes_the_exchange_answers_by_itself)
{
    ask("/later", "");
    ck_assert_uint_eq(status, 299);
    ask_with("POST", "/later", "", NULL, NULL);
    ck_assert_uint_eq(status, 405);
    done();
}

UNIT(documents_are_json)
{
    ask("/document", "");
    ck_assert_uint_eq(status, 200);
    ck_assert(bytes_is(buffer_bytes(&body), "{\"items\":[]}\n"));
    ck_assert_str_eq((char *)headers.p, "content-type: application/json\ncache-control: no-store\n");
    ask_with("POST", "/document", "", NULL, NULL);
    ck_assert_uint_eq(status, 405);
    document_result = -ENOMEM;
    ask("/document", "");
    ck_assert_uint_eq(status, 500);
    ck_assert(bytes_is(buffer_bytes(&body), "out of memory\n"));
    ck_assert_str_eq((char *)headers.p, "content-type: text/plain; charset=utf-8\ncache-control: no-store\n");
    document_result = 0;
    done();
}

UNIT(what_changes_something_is_posted_and_not_by_browsers)
{
    ask_with("POST", "/change", "", NULL, NULL);
    ck_assert_uint_eq(status, 201);
    ck_assert(bytes_is(buffer_bytes(&body), "changed\n"));
    ck_assert_uint_eq(changes, 1);
    ask_with("POST", "/change", "", "sec-fetch-site", "cross-site");
    ck_assert_uint_eq(status, 403);
    ask_with("POST", "/change", "", "origin", "https://elsewhere.example");
    ck_assert_uint_eq(status, 403);
    ask_with("POST", "/change", "", "origin", ""); /* a browser has it all the same */
    ck_assert_uint_eq(status, 403);
    ask("/change", "");
    ck_assert_uint_eq(status, 405);
    ck_assert_ptr_nonnull(strstr((char *)headers.p, "allow: POST\n"));
    ck_assert_uint_eq(changes, 1);
    done();
}

UNIT(the_index_lists_what_is_registered)
{
    ask("/", "");
    ck_assert_uint_eq(status, 200);
    ck_assert_int_eq(buffer_add(&body, "", 1), 0);
    ck_assert_str_eq((char *)body.p,
                     "profgate " PROFGATE_VERSION "\n\n"
                     "/healthz   200 while the process runs\n"
                     "/readyz    200 when requests are taken and can be passed on, else 503 and why\n"
                     "           (Accept: application/json for each condition)\n"
                     "/document   a document\n"
                     "           of two lines\n"
                     "/change    POST: changes something\n"
                     "/later     answers by itself\n");
    done();
}

UNIT(other_paths_and_methods_are_refused)
{
    ask("/nothing", "");
    ck_assert_uint_eq(status, 404);
    ask("/healthz/", "");
    ck_assert_uint_eq(status, 404);
    ask_with("POST", "/healthz", "", NULL, NULL);
    ck_assert_uint_eq(status, 405);
    ck_assert_ptr_nonnull(strstr((char *)headers.p, "allow: GET, HEAD\n"));
    ask_with("HEAD", "/healthz", "", NULL, NULL);
    ck_assert_uint_eq(status, 200);
    done();
}

/* Whose profiler was given this address hears which one it should be: of gRPC by its status, whose client
 * shows nothing else. */
UNIT(who_sends_profiles_here_hears_where_they_go)
{
    ask_with("POST", "/v1development/profiles", "", "content-type", "application/x-protobuf");
    ck_assert_uint_eq(status, 404);
    ck_assert(bytes_starts(buffer_bytes(&body),
                           "this is the admin address: profiles go to those of receivers.otlp"));
    ask_with("POST", "/opentelemetry.proto.collector.profiles.v1development.ProfilesService/Export", "",
             "content-type", "application/grpc+proto");
    ck_assert_uint_eq(status, 200);
    ck_assert_uint_eq(body.n, 0);
    ck_assert_ptr_nonnull(strstr((char *)headers.p, "content-type: application/grpc\n"));
    ck_assert_ptr_nonnull(
        strstr((char *)headers.p, "grpc-status: 12\ngrpc-message: this is the admin address"));
    done();
}

UNIT(queries_are_read_percent_by_percent)
{
    ck_assert(query_is(BYTES_LIT("a%5b%5D"), "a[]"));
    ck_assert(query_is(BYTES_LIT(""), ""));
    ck_assert(!query_is(BYTES_LIT("a%5b%5"), "a[]"));
    ck_assert(!query_is(BYTES_LIT("a[]b"), "a[]"));
    ck_assert(!query_is(BYTES_LIT("a["), "a[]"));
    struct bytes query = BYTES_LIT("&&a=1&b&=c&"), name, value;
    ck_assert(query_next(&query, &name, &value) && bytes_is(name, "a") && bytes_is(value, "1"));
    ck_assert(query_next(&query, &name, &value) && bytes_is(name, "b") && bytes_is(value, ""));
    ck_assert(query_next(&query, &name, &value) && bytes_is(name, "") && bytes_is(value, "c"));
    ck_assert(!query_next(&query, &name, &value));
}

UNIT(accept_encoding_is_read_with_its_weights)
{
    static const struct {
        const char *value;
        bool gzip;
    } cases[] = {
        {"gzip", true},         {"", false},        {"br", false},          {"*", true},
        {"*;q=0", false},       {"GZIP", true},     {"gzip;q=0.001", true}, {"gzip; q=0.000", false},
        {"*, gzip;q=0", false}, {"br,*;q=1", true}, {"gzipped", false},     {"identity;q=0, x-gzip", true}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        ck_assert_msg(query_accepts_gzip(bytes_str(cases[i].value)) == cases[i].gzip, "%s", cases[i].value);
}

/* ---- formats ---- */

static struct admin_metrics negotiated(const char *accept)
{
    struct admin_metrics m = {0};
    query_metrics_format(bytes_str(accept), &m);
    return m;
}

UNIT(the_format_is_what_accept_likes_best)
{
    static const struct {
        const char *accept;
        enum admin_format format;
        enum prometheus_escaping escaping;
        bool asked;
    } cases[] = {
        {"", ADMIN_TEXT_0_0_4, PROMETHEUS_ESCAPE_UNDERSCORES, false},
        {"*/*", ADMIN_TEXT_0_0_4, PROMETHEUS_ESCAPE_UNDERSCORES, false},
        {"text/html,application/xhtml+xml;q=0.9,*/*;q=0.8", ADMIN_TEXT_0_0_4, PROMETHEUS_ESCAPE_UNDERSCORES,
         false},
        /* Prometheus 2.42 */
        {"application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,"
         "text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
         ADMIN_OPENMETRICS_1_0_0, PROMETHEUS_ESCAPE_UNDERSCORES, false},
        /* Prometheus 3 */
        {"application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,"
         "application/openmetrics-text;version=0.0.1;q=0.5,text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,"
         "text/plain;version=0.0.4;q=0.3,*/*;q=0.2",
         ADMIN_OPENMETRICS_1_0_0, PROMETHEUS_ALLOW_UTF8, true},
        {"text/plain;version=0.0.4;q=0.5, application/openmetrics-text; version=0.0.1; q=0.501",
         ADMIN_OPENMETRICS_0_0_1, PROMETHEUS_ESCAPE_UNDERSCORES, false},
        {"application/openmetrics-text;q=0, text/plain;version=1.0.0;escaping=DOTS;q=0.001", ADMIN_TEXT_1_0_0,
         PROMETHEUS_ESCAPE_DOTS, true},
        {"application/openmetrics-text;version=2.0.0, text/plain;q=0.1", ADMIN_TEXT_0_0_4,
         PROMETHEUS_ESCAPE_UNDERSCORES, false},
        {"Application/OpenMetrics-Text ; version=\"1.0.0\" ; escaping=values", ADMIN_OPENMETRICS_1_0_0,
         PROMETHEUS_ESCAPE_VALUES, true},
        {"application/openmetrics-text;escaping=morse", ADMIN_OPENMETRICS_1_0_0,
         PROMETHEUS_ESCAPE_UNDERSCORES, false},
        {"text/plain, application/openmetrics-text", ADMIN_TEXT_0_0_4, PROMETHEUS_ESCAPE_UNDERSCORES, false},
        {"application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited",
         ADMIN_TEXT_0_0_4, PROMETHEUS_ESCAPE_UNDERSCORES, false},
        {",;q=,;;=,application/openmetrics-text;q=1.0;q", ADMIN_OPENMETRICS_1_0_0,
         PROMETHEUS_ESCAPE_UNDERSCORES, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct admin_metrics m = negotiated(cases[i].accept);
        ck_assert_msg(m.format == cases[i].format && m.escaping == cases[i].escaping &&
                          m.escaping_is_asked_for == cases[i].asked,
                      "%s: %d %d", cases[i].accept, m.format, m.escaping);
    }
}

UNIT(only_by_its_own_names)
{
    static const struct {
        const char *authority;
        uint32_t status;
    } cases[] = {
        {"", 200},
        {"localhost", 200},
        {"LocalHost:9464", 200},
        {"127.0.0.1:9464", 200},
        {"[::1]:9464", 200},
        {"10.1.2.3", 200},
        {"profgate:9464", 200},
        {"gate.internal:1", 200},
        {"Profgate.Example", 200},
        {"localhost.:9464", 200},
        {"gate.internal.", 200},
        {"evil.example.", 421},
        {"gate.internal..", 421},
        {"evil.example:9464", 421},
        {"127.0.0.1.evil.example", 421},
        {"localhost.evil.example", 421},
        {"[::1", 421},
        {"gate.internal.evil.example", 421},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct pages *p = make_pages();
        struct http_exchange x = {.method = BYTES_LIT("GET"),
                                  .path = BYTES_LIT("/healthz"),
                                  .authority = bytes_str(cases[i].authority)};
        pages_handler()->on_head(p, &x);
        ck_assert_msg(status == cases[i].status, "%s: %u", cases[i].authority, status);
        pages_free(p);
    }
    done();
}
