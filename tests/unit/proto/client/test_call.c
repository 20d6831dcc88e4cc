/* SPDX-License-Identifier: Apache-2.0 */
/* needs: dep_jsonc */
#include "tests/lib/unit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "proto/base/base64.h"
#include "proto/base/clock.h"
#include "proto/base/macros.h"
#include "proto/client/call.h"
#include "proto/grpc/status.h"
#include "proto/grpc/text.h"

#define HEADERS(...)             \
    (const struct http_header[]) \
    {                            \
        __VA_ARGS__              \
    }
#define H(n, v)                                 \
    {                                           \
        {(const uint8_t *)(n), sizeof(n) - 1},  \
        {                                       \
            (const uint8_t *)(v), sizeof(v) - 1 \
        }                                       \
    }

static struct call_head head_of(const struct client_options *o, struct endpoint *endpoint)
{
    struct call_head h;
    struct error e = {""};
    ck_assert_int_eq(endpoint_parse(endpoint, o->endpoint, 4317, &e), 0);
    ck_assert_msg(call_head_init(&h, o, endpoint, &e) == 0, "%s", e.text);
    return h;
}

static const char *header(const struct http_request *r, const char *name)
{
    static char text[512];
    struct bytes v = http_header_find(r->headers, r->n_headers, name);
    if (!v.p)
        return NULL;
    snprintf(text, sizeof text, "%.*s", BYTES_FMT(v));
    return text;
}

static struct call_body body_of(enum coding coding, const char *text)
{
    struct call_body body;
    ck_assert_int_eq(call_body_init(&body, coding, bytes_str(text)), 0);
    return body;
}

UNIT(grpc_request)
{
    struct client_options o = CLIENT_DEFAULT;
    cleanup(endpoint_release) struct endpoint endpoint;
    struct client_header headers[] = {{"X-Scope-OrgID", "team"}, {"authorization", "Bearer x"}};
    char timeout[16];
    o.endpoint = "https://host:1/ignored";
    o.headers = headers;
    o.n_headers = 2;
    cleanup(call_head_release) struct call_head h = head_of(&o, &endpoint);
    struct call_body body = body_of(CODING_GZIP, "x"), plain = body_of(CODING_IDENTITY, "hello");
    struct http_request r = call_request(&h, &body, 1500 * NSEC_PER_MSEC, NULL, timeout);
    ck_assert(bytes_eq(r.prefix, BYTES_LIT("\1\0\0\0\1")));
    ck_assert_ptr_eq(r.body.p, body.bytes.p);
    ck_assert_str_eq(r.method, "POST");
    ck_assert_str_eq(r.scheme, "https");
    ck_assert_str_eq(r.authority, "host:1");
    ck_assert_str_eq(r.path, "/opentelemetry.proto.collector.profiles.v1development.ProfilesService/Export");
    ck_assert_str_eq(header(&r, "te"), "trailers");
    ck_assert_str_eq(header(&r, "content-type"), "application/grpc");
    ck_assert_str_eq(header(&r, "grpc-encoding"), "gzip");
    ck_assert_str_eq(header(&r, "x-scope-orgid"), "team");
    ck_assert_str_eq(header(&r, "authorization"), "Bearer x");
    ck_assert_str_eq(header(&r, "user-agent"), "OTel-OTLP-Exporter-C/" PROFGATE_VERSION " profgate");
    uint64_t ns;
    ck_assert_int_eq(grpc_timeout_parse(bytes_str(header(&r, "grpc-timeout")), &ns), 0);
    ck_assert_uint_eq(ns, 1500 * NSEC_PER_MSEC);
    r = call_request(&h, &plain, NSEC_PER_SEC, NULL,
                     timeout); /* again: neither a coding nor a second timeout */
    ck_assert_uint_eq(r.n_headers, h.n_headers + 1);
    ck_assert(bytes_eq(r.prefix, BYTES_LIT("\0\0\0\0\5")));
    ck_assert(bytes_is(r.body, "hello"));
}

UNIT(http_request)
{
    struct client_options o = CLIENT_DEFAULT;
    cleanup(endpoint_release) struct endpoint endpoint;
    char timeout[16];
    o.endpoint = "http://host:1/base/";
    o.protocol = OTLP_HTTP;
    o.signal = OTLP_METRICS;
    o.compression = CLIENT_COMPRESS_ZSTD;
    o.user_agent = "profsend/2";
    struct call_head h = head_of(&o, &endpoint);
    struct call_body body = body_of(CODING_ZSTD, "x"), plain = body_of(CODING_IDENTITY, "x");
    struct http_request r = call_request(&h, &body, 1, NULL, timeout);
    ck_assert_uint_eq(r.prefix.n, 0);
    ck_assert_str_eq(r.path, "/base/v1/metrics");
    ck_assert_str_eq(header(&r, "content-type"), "application/x-protobuf");
    ck_assert_str_eq(header(&r, "content-encoding"), "zstd");
    ck_assert_str_eq(header(&r, "user-agent"), "OTel-OTLP-Exporter-C/" PROFGATE_VERSION " profsend/2");
    ck_assert_ptr_null(header(&r, "te"));
    ck_assert_ptr_null(header(&r, "grpc-timeout"));
    call_head_release(&h);
    o.path = "custom";
    o.compression = CLIENT_COMPRESS_NONE;
    ck_assert_int_eq(call_head_init(&h, &o, &endpoint, NULL), 0);
    r = call_request(&h, &plain, 1, NULL, timeout);
    ck_assert_str_eq(r.path, "/custom");
    ck_assert_ptr_null(header(&r, "content-encoding"));
    call_head_release(&h);
}

UNIT(another_dialect)
{
    struct client_options o = CLIENT_DEFAULT;
    cleanup(endpoint_release) struct endpoint endpoint;
    char timeout[16];
    o.endpoint = "http://host:1";
    o.protocol = OTLP_HTTP;
    o.compression = CLIENT_COMPRESS_NONE;
    o.dialect.content_type = "application/x-protobuf;proto=io.prometheus.write.v2.Request";
    o.dialect.content_encoding = "snappy";
    struct call_head h = head_of(&o, &endpoint);
    struct call_body body = body_of(CODING_IDENTITY, "x");
    struct http_request r = call_request(&h, &body, 1, NULL, timeout);
    ck_assert_str_eq(header(&r, "content-type"), o.dialect.content_type);
    ck_assert_str_eq(header(&r, "content-encoding"), "snappy");
    call_head_release(&h);
    struct error e = {""};
    o.compression = CLIENT_COMPRESS_GZIP; /* it would be encoded twice and said once */
    ck_assert_int_eq(call_head_init(&h, &o, &endpoint, &e), -EINVAL);
    o.compression = CLIENT_COMPRESS_NONE;
    o.protocol = OTLP_GRPC;
    ck_assert_int_eq(call_head_init(&h, &o, &endpoint, &e), -EINVAL);
}

UNIT(headers_that_cannot_be_sent)
{
    static const struct client_header bad[] = {
        {"", "x"},     {"a b", "x"},        {":path", "x"}, {"Content-Type", "x"},
        {"Host", "x"}, {"ok", "a\r\nb: c"}, {"TE", "x"},
    };
    struct client_options o = CLIENT_DEFAULT;
    cleanup(endpoint_release) struct endpoint endpoint;
    ck_assert_int_eq(endpoint_parse(&endpoint, "h", 1, NULL), 0);
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct call_head h;
        struct error e = {""};
        o.headers = &bad[i];
        o.n_headers = 1;
        ck_assert_msg(call_head_init(&h, &o, &endpoint, &e) == -EINVAL, "%s was taken", bad[i].name);
        ck_assert_ptr_nonnull(strstr(e.text, "header"));
    }
}

UNIT(the_coding_of_a_request)
{
    static const struct {
        enum client_compression compression;
        enum coding received, sent;
    } cases[] = {
        {CLIENT_COMPRESS_NONE, CODING_GZIP, CODING_IDENTITY},
        {CLIENT_COMPRESS_GZIP, CODING_ZSTD, CODING_GZIP},
        {CLIENT_COMPRESS_ZSTD, CODING_IDENTITY, CODING_ZSTD},
        {CLIENT_COMPRESS_AS_RECEIVED, CODING_IDENTITY, CODING_IDENTITY},
        {CLIENT_COMPRESS_AS_RECEIVED, CODING_GZIP, CODING_GZIP},
        {CLIENT_COMPRESS_AS_RECEIVED, CODING_ZSTD, CODING_ZSTD},
        {CLIENT_COMPRESS_AS_RECEIVED, CODING_DEFLATE, CODING_GZIP},
        {CLIENT_COMPRESS_AS_RECEIVED, CODING_SNAPPY, CODING_GZIP},
        {CLIENT_COMPRESS_AS_RECEIVED, CODING_UNKNOWN, CODING_GZIP},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        ck_assert_int_eq(call_coding(cases[i].compression, cases[i].received), cases[i].sent);
}

UNIT(a_message_has_at_most_4_gib)
{
    struct call_body body;
    ck_assert_int_eq(call_body_init(&body, CODING_IDENTITY, bytes_of(NULL, (size_t)UINT32_MAX + 1)),
                     CALL_TOO_LARGE);
    ck_assert_int_eq(call_body_init(&body, CODING_IDENTITY, bytes_of(NULL, UINT32_MAX)), 0);
}

/* ---- answers ---- */

static struct call_result answer(enum otlp_protocol protocol, enum http_call_result outcome,
                                 const struct http_response *response)
{
    struct call_head h = {.protocol = protocol, .signal = OTLP_METRICS, .response_max = 1000, .path = "/p"};
    struct coding_decoder *decoder = unit_made(coding_decoder_new());
    struct call_result result;
    call_read(&h, outcome, response, decoder, 784111777, &result); /* Sun, 06 Nov 1994 08:49:37 GMT */
    coding_decoder_free(decoder);
    return result;
}

static struct call_result grpc(const char *status, struct bytes body, const struct http_header *more,
                               uint32_t n_more)
{
    struct http_header trailers[8] = {{BYTES_LIT("grpc-status"), bytes_str(status)}};
    for (uint32_t i = 0; i < n_more; i++)
        trailers[i + 1] = more[i];
    struct http_response r = {.status = 200,
                              .headers = HEADERS(H("content-type", "application/grpc+proto")),
                              .n_headers = 1,
                              .trailers = trailers,
                              .n_trailers = n_more + 1,
                              .body = body};
    return answer(OTLP_GRPC, HTTP_CALL_DONE, &r);
}

UNIT(grpc_ok_and_partial)
{
    struct call_result r = grpc("0", BYTES_LIT("\0\0\0\0\0"), NULL, 0);
    ck_assert_int_eq(r.outcome, CALL_OK);
    ck_assert(!r.partial);
    ck_assert_str_eq(r.message.text, "");
    r = grpc("0", BYTES_LIT("\0\0\0\0\2\x0a\0"), NULL, 0); /* what the Collector answers */
    ck_assert_int_eq(r.outcome, CALL_OK);
    ck_assert(!r.partial);
    r = grpc("0", BYTES_LIT("\1\0\0\0\0"), NULL, 0); /* compressed, it says of nothing */
    ck_assert_int_eq(r.outcome, CALL_OK);
    r = grpc("0", BYTES_LIT("\0\0\0\0\x08\x0a\x06\x08\x07\x12\x02no"), NULL, 0);
    ck_assert_int_eq(r.outcome, CALL_OK);
    ck_assert(r.partial);
    ck_assert_uint_eq(r.rejected, 7);
    ck_assert_ptr_nonnull(strstr(r.message.text, "no"));
    r = grpc("0", BYTES_LIT("\0\0\0\0\x06\x0a\x04\x12\x02hm"), NULL, 0); /* a warning: G6 */
    ck_assert_int_eq(r.outcome, CALL_OK);
    ck_assert(!r.partial);
    ck_assert_ptr_nonnull(strstr(r.message.text, "hm"));
}

UNIT(grpc_ok_that_is_none)
{
    static const struct bytes bad[] = {
        {(const uint8_t *)"", 0},
        {(const uint8_t *)"\0\0\0\0\5x", 6},           /* cut short */
        {(const uint8_t *)"\0\0\0\0\1\x0a", 6},        /* not protobuf */
        {(const uint8_t *)"\1\0\0\0\1x", 6},           /* compressed with what? */
        {(const uint8_t *)"\0\0\0\x04\0", 5},          /* 1024 bytes: more than we take */
        {(const uint8_t *)"\0\0\0\0\0\0\0\0\0\0", 10}, /* two messages */
    };
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct call_result r = grpc("0", bad[i], NULL, 0);
        ck_assert_msg(r.outcome == CALL_FINAL, "%zu was believed", i);
        ck_assert(r.message.text[0] != 0);
    }
}

UNIT(grpc_codes)
{
    static const bool retryable[17] = {[1] = 1, [4] = 1, [10] = 1, [11] = 1, [14] = 1, [15] = 1};
    for (int code = 1; code <= 16; code++) {
        char text[4];
        snprintf(text, sizeof text, "%d", code);
        struct http_header message = H("grpc-message", "over%20there %");
        struct call_result r = grpc(text, bytes_of(NULL, 0), &message, 1);
        ck_assert_int_eq(r.outcome, retryable[code] ? CALL_RETRYABLE : CALL_FINAL);
        ck_assert_ptr_nonnull(strstr(r.message.text, "over there %"));
        ck_assert_uint_eq(r.retry_after_ns, 0);
    }
}

UNIT(retry_info)
{
    cleanup(buffer_release) struct buffer status = BUFFER_INIT(0), text = BUFFER_INIT(0);
    struct grpc_status s = {
        .code = 8, .message = BYTES_LIT("calm down"), .has_retry = true, .retry_ns = 2500000000u};
    ck_assert_int_eq(grpc_status_encode(&s, &status), 0);
    ck_assert_int_eq(base64_encode(buffer_bytes(&status), false, &text), 0);
    struct http_header details = {BYTES_LIT("grpc-status-details-bin"), buffer_bytes(&text)};
    struct call_result r = grpc("8", bytes_of(NULL, 0), &details, 1);
    ck_assert_int_eq(r.outcome, CALL_RETRYABLE);
    ck_assert_uint_eq(r.retry_after_ns, 2500000000u);
    ck_assert_ptr_nonnull(strstr(r.message.text, "calm down"));
    r = grpc("14", bytes_of(NULL, 0), &details, 1);
    ck_assert_int_eq(r.outcome, CALL_RETRYABLE);
    ck_assert_uint_eq(r.retry_after_ns, 2500000000u);
    r = grpc("3", bytes_of(NULL, 0), &details, 1);
    ck_assert_int_eq(r.outcome, CALL_FINAL);
}

UNIT(grpc_from_something_else)
{
    struct http_response r = {
        .status = 200, .headers = HEADERS(H("content-type", "text/html")), .n_headers = 1};
    ck_assert_int_eq(answer(OTLP_GRPC, HTTP_CALL_DONE, &r).outcome, CALL_FINAL);
    static const struct {
        uint32_t status;
        enum call_outcome want;
    } rows[] = {{400, CALL_FINAL},     {401, CALL_FINAL}, {403, CALL_FINAL},     {404, CALL_FINAL},
                {429, CALL_RETRYABLE}, {500, CALL_FINAL}, {502, CALL_RETRYABLE}, {503, CALL_RETRYABLE},
                {504, CALL_RETRYABLE}, {302, CALL_FINAL}};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        r.status = rows[i].status;
        ck_assert_msg(answer(OTLP_GRPC, HTTP_CALL_DONE, &r).outcome == rows[i].want, "%u", rows[i].status);
    }
}

UNIT(calls_that_ended_without_an_answer)
{
    ck_assert_int_eq(answer(OTLP_GRPC, HTTP_CALL_REFUSED, NULL).outcome, CALL_RETRYABLE);
    ck_assert_int_eq(answer(OTLP_HTTP, HTTP_CALL_BROKEN, NULL).outcome, CALL_RETRYABLE);
    ck_assert_int_eq(answer(OTLP_GRPC, HTTP_CALL_TOO_LARGE, NULL).outcome, CALL_FINAL);
    struct call_result strange = answer(OTLP_GRPC, HTTP_CALL_NOT_HTTP, NULL);
    ck_assert_int_eq(strange.outcome, CALL_RETRYABLE);
    ck_assert_ptr_nonnull(strstr(strange.message.text, "does not speak HTTP/2"));
    static const enum call_outcome want[14] = {
        [7] = CALL_RETRYABLE, [8] = CALL_RETRYABLE, [11] = CALL_RETRYABLE};
    for (uint32_t code = 0; code < 14; code++) {
        struct http_response r = {.status = code};
        enum call_outcome expected = want[code] == CALL_RETRYABLE ? CALL_RETRYABLE : CALL_FINAL;
        ck_assert_msg(answer(OTLP_GRPC, HTTP_CALL_RESET, &r).outcome == expected, "RST_STREAM %u", code);
    }
}

static struct call_result http(uint32_t status, const char *type, struct bytes body, const char *retry_after)
{
    struct http_header headers[2] = {{BYTES_LIT("content-type"), bytes_str(type)},
                                     {BYTES_LIT("retry-after"), bytes_str(retry_after)}};
    struct http_response r = {.status = status,
                              .headers = headers,
                              .n_headers = retry_after ? 2
                                           : type      ? 1
                                                       : 0,
                              .body = body};
    return answer(OTLP_HTTP, HTTP_CALL_DONE, &r);
}

UNIT(http_success)
{
    ck_assert_int_eq(http(200, "application/x-protobuf", BYTES_LIT(""), NULL).outcome, CALL_OK);
    ck_assert_int_eq(http(202, "application/x-protobuf; a=b", BYTES_LIT("\x0a\0"), NULL).outcome, CALL_OK);
    ck_assert_int_eq(http(200, "Application/JSON; charset=utf-8", BYTES_LIT("{}"), NULL).outcome, CALL_OK);
    ck_assert_int_eq(http(204, NULL, BYTES_LIT(""), NULL).outcome, CALL_OK);
    struct call_result r = http(200, "application/x-protobuf", BYTES_LIT("\x0a\x06\x08\x07\x12\x02no"), NULL);
    ck_assert(r.outcome == CALL_OK && r.partial && r.rejected == 7);
    r = http(200, "application/json",
             BYTES_LIT("{\"partialSuccess\":{\"rejectedDataPoints\":\"9\",\"errorMessage\":\"old\"}}"), NULL);
    ck_assert(r.outcome == CALL_OK && r.partial && r.rejected == 9);
    ck_assert_ptr_nonnull(strstr(r.message.text, "old"));
}

/* Of a peer that speaks something else: its 2xx counts whatever it says, its 5xx are all repeated. */
UNIT(http_in_another_dialect)
{
    struct call_head h = {.protocol = OTLP_HTTP, .any_success = true, .response_max = 10, .path = "/p"};
    struct coding_decoder *decoder = unit_made(coding_decoder_new());
    static const struct {
        uint32_t status;
        bool retry_5xx;
        enum call_outcome want;
    } rows[] = {{200, false, CALL_OK},        {204, true, CALL_OK},        {500, false, CALL_FINAL},
                {500, true, CALL_RETRYABLE},  {599, true, CALL_RETRYABLE}, {503, false, CALL_RETRYABLE},
                {429, false, CALL_RETRYABLE}, {400, true, CALL_FINAL},     {302, true, CALL_FINAL}};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct http_header type = {BYTES_LIT("content-type"), BYTES_LIT("text/html")};
        struct http_response r = {.status = rows[i].status,
                                  .headers = &type,
                                  .n_headers = 1,
                                  .body = BYTES_LIT("a page longer than the limit")};
        struct call_result result;
        h.retry_5xx = rows[i].retry_5xx;
        call_read(&h, HTTP_CALL_DONE, &r, decoder, 0, &result);
        ck_assert_msg(result.outcome == rows[i].want, "%u: %d", rows[i].status, result.outcome);
    }
    coding_decoder_free(decoder);
}

UNIT(http_success_that_is_none)
{
    struct call_result r = http(200, "text/html", BYTES_LIT("<html>"), NULL);
    ck_assert_int_eq(r.outcome, CALL_FINAL);
    ck_assert_ptr_nonnull(strstr(r.message.text, "text/html"));
    ck_assert_int_eq(http(200, NULL, BYTES_LIT("hello"), NULL).outcome, CALL_FINAL);
    ck_assert_int_eq(http(200, "application/x-protobuf", BYTES_LIT("\x0a"), NULL).outcome, CALL_FINAL);
    ck_assert_int_eq(http(200, "application/json", BYTES_LIT("{"), NULL).outcome, CALL_FINAL);
    ck_assert_int_eq(http(200, "application/json", BYTES_LIT("[]"), NULL).outcome, CALL_FINAL);
    ck_assert_int_eq(http(301, "application/x-protobuf", BYTES_LIT(""), NULL).outcome, CALL_FINAL);
    static uint8_t large[1001];
    ck_assert_int_eq(http(200, "application/x-protobuf", bytes_of(large, sizeof large), NULL).outcome,
                     CALL_FINAL);
}

/* No redirection is followed: where it points is what the operator is to write. */
UNIT(a_redirection_says_where_it_points)
{
    char far[600];
    memset(far, 'x', sizeof far - 1);
    far[sizeof far - 1] = 0;
    for (uint32_t status = 301; status <= 308; status++) {
        struct http_header headers[] = {
            {BYTES_LIT("content-type"), BYTES_LIT("text/html")},
            {BYTES_LIT("location"), BYTES_LIT("https://collector:4318/v1/metrics")},
        };
        struct http_response r = {
            .status = status, .headers = headers, .n_headers = 2, .body = BYTES_LIT("<p>moved</p>")};
        struct call_result result = answer(OTLP_HTTP, HTTP_CALL_DONE, &r);
        ck_assert_int_eq(result.outcome, CALL_FINAL);
        ck_assert_ptr_nonnull(strstr(result.message.text, ", moved to: https://collector:4318/v1/metrics"));
        result = answer(OTLP_GRPC, HTTP_CALL_DONE, &r);
        ck_assert_ptr_nonnull(strstr(result.message.text, ", moved to https://collector:4318/v1/metrics"));
        headers[1].value = bytes_str(far);
        for (int grpc = 0; grpc < 2; grpc++) {
            result = answer(grpc ? OTLP_GRPC : OTLP_HTTP, HTTP_CALL_DONE, &r);
            ck_assert_ptr_nonnull(strstr(result.message.text, "moved to"));
            ck_assert_uint_lt(strlen(result.message.text), 350);
        }
    }
}

UNIT(http_failures)
{
    for (int status = 400; status < 600; status++) {
        bool again = status == 429 || status == 502 || status == 503 || status == 504;
        ck_assert_int_eq(http((uint32_t)status, NULL, BYTES_LIT(""), NULL).outcome,
                         again ? CALL_RETRYABLE : CALL_FINAL);
    }
    struct call_result r = http(400, "application/x-protobuf",
                                BYTES_LIT("\x08\x03\x12\x03"
                                          "bad"),
                                NULL);
    ck_assert_str_eq(r.message.text, "HTTP 400: bad");
    r = http(500, "text/plain", BYTES_LIT("oh \xff"), NULL);
    ck_assert_str_eq(r.message.text, "HTTP 500: oh ");
    r = http(404, "text/plain", BYTES_LIT("nothing here\r\n"), NULL);
    ck_assert_str_eq(r.message.text, "HTTP 404: nothing here");
}

/* nginx before a destination, over either protocol: it is said who may be meant. */
UNIT(a_proxy_that_takes_less_is_named)
{
    struct call_result r = http(413, "text/html", BYTES_LIT("<html>"), NULL);
    ck_assert_str_eq(r.message.text, "HTTP 413 (larger than it takes, or a proxy before it: nginx's "
                                     "client_max_body_size): <html>");
    struct http_response response = {
        .status = 413, .headers = HEADERS(H("content-type", "text/html")), .n_headers = 1};
    r = answer(OTLP_GRPC, HTTP_CALL_DONE, &response);
    ck_assert_int_eq(r.outcome, CALL_FINAL);
    ck_assert_str_eq(r.message.text,
                     "gRPC UNKNOWN: HTTP 413 (larger than it takes, or a proxy before it: nginx's "
                     "client_max_body_size), content type \"text/html\", no grpc-status");
}

UNIT(retry_after)
{
    ck_assert_uint_eq(http(503, "text/plain", BYTES_LIT(""), "7").retry_after_ns, 7 * (uint64_t)NSEC_PER_SEC);
    ck_assert_uint_eq(http(429, "text/plain", BYTES_LIT(""), "Sun, 06 Nov 1994 08:50:37 GMT").retry_after_ns,
                      60 * (uint64_t)NSEC_PER_SEC);
    ck_assert_uint_eq(http(429, "text/plain", BYTES_LIT(""), "Sun, 06 Nov 1994 08:49:00 GMT").retry_after_ns,
                      0);
    ck_assert_uint_eq(http(503, "text/plain", BYTES_LIT(""), "soon").retry_after_ns, 0);
    ck_assert_uint_eq(http(503, "text/plain", BYTES_LIT(""), "18446744073709551615").retry_after_ns,
                      RETRY_PEER_DELAY_MAX_NS);
    ck_assert_uint_eq(http(400, "text/plain", BYTES_LIT(""), "7").retry_after_ns, 0);
}

UNIT(compressed_answers)
{
    cleanup(buffer_release) struct buffer body = BUFFER_INIT(0);
    struct coding_encoder *gzip = unit_made(coding_encoder_new(CODING_GZIP, 0));
    ck_assert_int_eq(coding_encode(gzip, BYTES_LIT("\x0a\x06\x08\x07\x12\x02no"), &body), 0);
    struct http_response r = {
        .status = 200,
        .headers = HEADERS(H("content-type", "application/x-protobuf"), H("content-encoding", "gzip")),
        .n_headers = 2,
        .body = buffer_bytes(&body),
    };
    struct call_result result = answer(OTLP_HTTP, HTTP_CALL_DONE, &r);
    ck_assert(result.outcome == CALL_OK && result.rejected == 7);
    r.body.n /= 2;
    ck_assert_int_eq(answer(OTLP_HTTP, HTTP_CALL_DONE, &r).outcome, CALL_FINAL);
    r.body.n = 0; /* as middleware answers that labels whatever passes */
    result = answer(OTLP_HTTP, HTTP_CALL_DONE, &r);
    ck_assert(result.outcome == CALL_OK && !result.partial);
    static uint8_t zeros[100000];
    body.n = 0;
    ck_assert_int_eq(coding_encode(gzip, bytes_of(zeros, sizeof zeros), &body), 0);
    r.body = buffer_bytes(&body);
    result = answer(OTLP_HTTP, HTTP_CALL_DONE, &r);
    ck_assert_int_eq(result.outcome, CALL_FINAL);
    ck_assert_ptr_nonnull(strstr(result.message.text, "larger"));
    coding_encoder_free(gzip);
}
