/* SPDX-License-Identifier: Apache-2.0 */
/* The answering half of a call: what a response means. */
#include <json-c/json.h>
#include <limits.h>
#include <stdio.h>
#include <time.h>

#include "proto/base/clock.h"
#include "proto/base/macros.h"
#include "proto/base/quantity.h"
#include "proto/client/call.h"
#include "proto/client/retry.h"
#include "proto/grpc/code.h"
#include "proto/grpc/frame.h"
#include "proto/grpc/status.h"
#include "proto/grpc/text.h"
#include "proto/wire/reader.h"

/* How much of a peer's words goes into a message: an error page is not a log line. */
#define PEER_WORDS_MAX 256u

static void conclude(struct call_result *ret, enum call_outcome outcome, const char *what, struct bytes words)
{
    ret->outcome = outcome;
    while (words.n > 0 && (words.p[words.n - 1] == '\n' || words.p[words.n - 1] == '\r'))
        words.n--; /* a page ends in one, a message does not */
    if (words.n > PEER_WORDS_MAX)
        words.n = PEER_WORDS_MAX;
    /* What is cut must not end inside a character. */
    while (words.n > 0 && !bytes_is_utf8(words))
        words.n--;
    error_set(&ret->message, 0, "%s%s%.*s", what, words.n ? ": " : "", BYTES_FMT(words));
}

/* The media type without its parameters. */
static struct bytes media_type(const struct http_response *response)
{
    struct bytes v = http_header_find(response->headers, response->n_headers, "content-type");
    const uint8_t *semicolon = v.n ? memchr(v.p, ';', v.n) : NULL;
    if (semicolon)
        v.n = (size_t)(semicolon - v.p);
    return bytes_trim(v);
}

/* Where a redirection points. None is followed: what is sent, and its credentials, are for who is configured.
 */
static struct bytes moved_to(const struct http_response *response)
{
    const bool moved = response->status >= 300 && response->status <= 399;
    return moved ? http_header_find(response->headers, response->n_headers, "location") : (struct bytes){0};
}

/* Proxies limit bodies, too, and lower than what is behind them: nginx takes 1 MiB if nothing is said. */
static const char *too_large(uint32_t status)
{
    return status == 413 ? " (larger than it takes, or a proxy before it: nginx's client_max_body_size)" : "";
}

/* ---- success --------------------------------------------------------------------------------- */

/* Fills the result from ExportXPartialSuccess { rejected = 1, error_message = 2 }. (E5: never repeated.) */
static void read_partial(struct call_result *ret, int64_t rejected, struct bytes words)
{
    if (rejected > 0) {
        char what[64];
        snprintf(what, sizeof what, "rejected %lld of it for good", (long long)rejected);
        ret->partial = true;
        ret->rejected = (uint64_t)rejected;
        conclude(ret, CALL_OK, what, words);
    } else if (words.n > 0) {
        conclude(ret, CALL_OK, "accepted with a warning", words);
    }
}

/* ExportProfilesServiceResponse and ExportMetricsServiceResponse have one shape: partial_success = 1. */
static bool read_protobuf(struct call_result *ret, struct bytes message)
{
    struct wire_reader outer = wire_reader(message);
    struct wire_field f;
    int64_t rejected = 0;
    struct bytes words = {0};
    int r;
    while ((r = wire_next(&outer, &f)) == 0) {
        if (f.number != 1 || f.type != WIRE_LEN)
            continue;
        struct wire_reader inner = wire_reader(f.bytes);
        struct wire_field g;
        int q;
        while ((q = wire_next(&inner, &g)) == 0) {
            if (g.number == 1 && g.type == WIRE_VARINT)
                rejected = (int64_t)g.value;
            else if (g.number == 2 && g.type == WIRE_LEN)
                words = g.bytes;
        }
        if (q != WIRE_END)
            return false;
    }
    if (r != WIRE_END)
        return false;
    read_partial(ret, rejected, words);
    return true;
}

/* {"partialSuccess":{"rejectedProfiles":"3","errorMessage":"x"}}: numbers may be strings. json-c stops at 32
 * levels. */
static bool read_json(struct call_result *ret, enum otlp_signal signal, struct bytes text)
{
    static const char *const rejected_key[] = {
        [OTLP_PROFILES] = "rejectedProfiles", [OTLP_METRICS] = "rejectedDataPoints"};
    if (text.n == 0)
        return true;
    if (text.n > INT_MAX)
        return false;
    json_tokener *tokener = json_tokener_new();
    if (!tokener)
        return false;
    json_object *root = json_tokener_parse_ex(tokener, (const char *)text.p, (int)text.n);
    json_object *partial = NULL, *rejected = NULL, *words = NULL;
    bool ok = root && json_object_is_type(root, json_type_object);
    if (ok && json_object_object_get_ex(root, "partialSuccess", &partial) &&
        json_object_is_type(partial, json_type_object)) {
        json_object_object_get_ex(partial, rejected_key[signal], &rejected);
        json_object_object_get_ex(partial, "errorMessage", &words);
        read_partial(ret, json_object_get_int64(rejected),
                     bytes_str(json_object_is_type(words, json_type_string) ? json_object_get_string(words)
                                                                            : NULL));
    }
    json_object_put(root);
    json_tokener_free(tokener);
    return ok;
}

/* ---- HTTP ------------------------------------------------------------------------------------ */

/* Retry-After: seconds, or an HTTP-date (RFC 9110 §10.2.3; only IMF-fixdate is still sent). 0: nothing
 * usable. */
static uint64_t retry_after(struct bytes value, int64_t unix_s)
{
    uint64_t seconds = 0;
    char text[64];
    value = bytes_trim(value);
    if (value.n == 0 || value.n >= sizeof text)
        return 0;
    if (quantity_u64(value, &seconds) < 0) {
        struct tm tm = {0};
        memcpy(text, value.p, value.n);
        text[value.n] = 0;
        const char *end = strptime(text, "%a, %d %b %Y %H:%M:%S GMT", &tm);
        int64_t at = end && *end == 0 ? timegm(&tm) : 0;
        seconds = at > unix_s ? (uint64_t)(at - unix_s) : 0;
    }
    return min_of(seconds, (uint64_t)(RETRY_PEER_DELAY_MAX_NS / NSEC_PER_SEC)) * NSEC_PER_SEC;
}

/* The body with its content-encoding taken off; an empty one has none, whatever a server that labels all its
 * answers says. A slice of the response or of *room. 0, a condition of
 * coding_decode, or -ENOMEM. */
static int plain_body(const struct call_head *h, const struct http_response *response,
                      struct coding_decoder *decoder, struct buffer *room, struct bytes *ret)
{
    enum coding coding =
        coding_parse(http_header_find(response->headers, response->n_headers, "content-encoding"));
    *ret = response->body;
    if (coding == CODING_IDENTITY || response->body.n == 0)
        return response->body.n > h->response_max ? CODING_TOO_LARGE : 0;
    if (coding == CODING_UNKNOWN)
        return CODING_CORRUPT;
    int r = coding_decode(decoder, coding, response->body, h->response_max, 0, NULL, room);
    *ret = buffer_bytes(room);
    return r;
}

static void read_http_success(const struct call_head *h, const struct http_response *response,
                              struct bytes body, struct call_result *ret)
{
    struct bytes type = media_type(response);
    char what[160];
    bool ok;
    ret->outcome = CALL_OK;
    if (h->any_success) {
        ok = true;
    } else if (bytes_is_nocase(type, "application/x-protobuf")) {
        ok = read_protobuf(ret, body);
    } else if (bytes_is_nocase(type, "application/json")) {
        ok = read_json(ret, h->signal, body);
    } else if (type.n == 0 && body.n == 0) {
        ok = true; /* an empty message is a valid one, and nothing says that it is anything else (204, for
                      one) */
    } else {
        snprintf(what, sizeof what, "HTTP %u with content type \"%.*s\": that is no OTLP server at %s",
                 response->status, (int)min_of(type.n, (size_t)60), (const char *)type.p, h->path);
        conclude(ret, CALL_FINAL, what, bytes_of(NULL, 0));
        return;
    }
    if (!ok) {
        snprintf(what, sizeof what, "HTTP %u with a body that is no OTLP response", response->status);
        conclude(ret, CALL_FINAL, what, bytes_of(NULL, 0));
    }
}

static void read_http(const struct call_head *h, const struct http_response *response,
                      struct coding_decoder *decoder, int64_t unix_s, struct call_result *ret)
{
    cleanup(buffer_release) struct buffer room = BUFFER_INIT(0);
    struct bytes body;
    char what[128];
    int r = plain_body(h, response, decoder, &room, &body);
    if (response->status >= 200 && response->status <= 299) {
        if (r == 0 || h->any_success)
            read_http_success(h, response, body, ret);
        else if (r == CODING_TOO_LARGE)
            conclude(ret, CALL_FINAL, "the response is larger than we take", bytes_of(NULL, 0));
        else
            conclude(ret, CALL_FINAL, "the response cannot be decompressed", bytes_of(NULL, 0));
    } else {
        struct grpc_status status = {0};
        struct bytes words = r == 0 ? body : bytes_of(NULL, 0);
        if (bytes_is_nocase(media_type(response), "application/x-protobuf") &&
            grpc_status_decode(words, &status) == 0)
            words = status.message;
        bool again = retry_http_status((int)response->status) || (h->retry_5xx && response->status >= 500);
        if (again)
            ret->retry_after_ns =
                retry_after(http_header_find(response->headers, response->n_headers, "retry-after"), unix_s);
        struct bytes to = moved_to(response);
        snprintf(what, sizeof what, "HTTP %u%s%s", response->status, too_large(response->status),
                 to.n ? ", moved to" : "");
        conclude(ret, again ? CALL_RETRYABLE : CALL_FINAL, what, to.n ? to : words);
    }
}

/* ---- gRPC ------------------------------------------------------------------------------------ */

static struct bytes grpc_field(const struct http_response *response, const char *name)
{
    struct bytes v = http_header_find(response->trailers, response->n_trailers, name);
    return v.p ? v : http_header_find(response->headers, response->n_headers, name); /* Trailers-Only */
}

bool call_is_unauthenticated(const struct call_head *h, const struct http_response *response)
{
    if (response->status == 401)
        return true;
    return h->protocol == OTLP_GRPC && bytes_is(grpc_field(response, "grpc-status"), "16");
}

static void fail_grpc(struct call_result *ret, enum grpc_code code, bool has_retry, struct bytes words)
{
    char what[64];
    snprintf(what, sizeof what, "gRPC %s", grpc_code_name(code));
    conclude(ret, retry_grpc_code((int)code, has_retry) ? CALL_RETRYABLE : CALL_FINAL, what, words);
}

/* grpc-status says something else than OK: with its message and RetryInfo. */
static void read_grpc_failure(const struct call_head *h, const struct http_response *response,
                              enum grpc_code code, struct call_result *ret)
{
    cleanup(buffer_release) struct buffer details = BUFFER_INIT(64u << 10), words = BUFFER_INIT(64u << 10);
    struct grpc_status status = {0};
    if (grpc_base64_decode(grpc_field(response, "grpc-status-details-bin"), &details) != 0 ||
        grpc_status_decode(buffer_bytes(&details), &status) != 0)
        status = (struct grpc_status){0};
    if (grpc_percent_decode(grpc_field(response, "grpc-message"), &words) < 0)
        words.n = 0;
    if (status.has_retry)
        ret->retry_after_ns = status.retry_ns;
    fail_grpc(ret, code, status.has_retry || h->retry_exhausted,
              words.n ? buffer_bytes(&words) : status.message);
}

static void read_grpc_message(const struct call_head *h, const struct http_response *response,
                              struct coding_decoder *decoder, struct call_result *ret)
{
    bool compressed;
    struct bytes message;
    cleanup(buffer_release) struct buffer room = BUFFER_INIT(0);
    enum grpc_read read = grpc_message_find(response->body, h->response_max, &compressed, &message);
    const char *wrong = NULL;
    if (read == GRPC_READ_TOO_LARGE)
        wrong = "the response is larger than we take";
    else if (read != GRPC_READ_PAYLOAD)
        wrong = "gRPC OK without exactly one message";
    if (!wrong && compressed && message.n > 0) {
        enum coding coding = coding_parse(grpc_field(response, "grpc-encoding"));
        int r = coding == CODING_IDENTITY || coding == CODING_UNKNOWN
                    ? CODING_CORRUPT
                    : coding_decode(decoder, coding, message, h->response_max, 0, NULL, &room);
        if (r != 0)
            wrong = r == CODING_TOO_LARGE ? "the response is larger than we take"
                                          : "the response cannot be decompressed";
        message = buffer_bytes(&room);
    }
    ret->outcome = CALL_OK;
    if (!wrong && !read_protobuf(ret, message))
        wrong = "gRPC OK with a message that is no OTLP response";
    if (wrong)
        conclude(ret, CALL_FINAL, wrong, bytes_of(NULL, 0));
}

static void read_grpc(const struct call_head *h, const struct http_response *response,
                      struct coding_decoder *decoder, struct call_result *ret)
{
    struct bytes type = media_type(response), status = grpc_field(response, "grpc-status");
    struct bytes to = moved_to(response);
    char words[160 + PEER_WORDS_MAX];
    /* PROTOCOL-HTTP2 "Responses": without grpc-status, or when this is no gRPC at all, the HTTP status is
     * what we have. */
    if (response->status != 200 || !bytes_starts(type, "application/grpc") || !status.p) {
        enum grpc_code code = grpc_code_from_http(response->status);
        int n = snprintf(words, sizeof words, "HTTP %u%s, content type \"%.*s\"%s%s%.*s", response->status,
                         too_large(response->status), (int)min_of(type.n, (size_t)60), (const char *)type.p,
                         status.p ? "" : ", no grpc-status", to.n ? ", moved to " : "",
                         (int)min_of(to.n, (size_t)PEER_WORDS_MAX), (const char *)to.p);
        if (status.p && grpc_code_parse(status) != GRPC_OK)
            read_grpc_failure(h, response, grpc_code_parse(status), ret);
        else
            fail_grpc(ret, code, false, bytes_of(words, (size_t)n));
        return;
    }
    enum grpc_code code = grpc_code_parse(status);
    if (code == GRPC_OK)
        read_grpc_message(h, response, decoder, ret);
    else
        read_grpc_failure(h, response, code, ret);
}

/* RST_STREAM's error code (RFC 9113 §7) as PROTOCOL-HTTP2 "Errors" translates it. */
static void read_reset(uint32_t h2_error, struct call_result *ret)
{
    char words[64];
    int n = snprintf(words, sizeof words, "the stream was reset (HTTP/2 error %u)", h2_error);
    struct bytes text = bytes_of(words, (size_t)n);
    switch (h2_error) {
    case 7: fail_grpc(ret, GRPC_UNAVAILABLE, false, text); break;        /* REFUSED_STREAM */
    case 8: fail_grpc(ret, GRPC_CANCELLED, false, text); break;          /* CANCEL */
    case 11: fail_grpc(ret, GRPC_RESOURCE_EXHAUSTED, true, text); break; /* ENHANCE_YOUR_CALM: later, then */
    case 12: fail_grpc(ret, GRPC_PERMISSION_DENIED, false, text); break; /* INADEQUATE_SECURITY */
    default: fail_grpc(ret, GRPC_INTERNAL, false, text); break;
    }
}

void call_read(const struct call_head *h, enum http_call_result result, const struct http_response *response,
               struct coding_decoder *decoder, int64_t unix_s, struct call_result *ret)
{
    struct bytes none = bytes_of(NULL, 0);
    *ret = (struct call_result){.outcome = CALL_FINAL};
    switch (result) {
    case HTTP_CALL_DONE:
        if (h->protocol == OTLP_GRPC)
            read_grpc(h, response, decoder, ret);
        else
            read_http(h, response, decoder, unix_s, ret);
        break;
    case HTTP_CALL_REFUSED:
        conclude(ret, CALL_RETRYABLE, "the peer is going away and did not take it", none);
        break;
    case HTTP_CALL_RESET: read_reset(response ? response->status : 2, ret); break;
    case HTTP_CALL_BROKEN:
        conclude(ret, CALL_RETRYABLE, "the connection ended before an answer", none);
        break;
    case HTTP_CALL_NOT_HTTP:
        conclude(ret, CALL_RETRYABLE,
                 h->protocol == OTLP_GRPC
                     ? "what answers does not speak HTTP/2: another protocol (OTLP/HTTP, TLS), or broken"
                     : "what answers does not speak HTTP: another protocol (gRPC, TLS), or broken",
                 none);
        break;
    case HTTP_CALL_OVER_BUDGET:
        conclude(ret, CALL_RETRYABLE, "there is no memory for the response just now", none);
        break;
    case HTTP_CALL_TOO_LARGE: conclude(ret, CALL_FINAL, "the response is larger than we take", none); break;
    }
}
