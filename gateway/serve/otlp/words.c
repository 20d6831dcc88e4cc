/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/serve/otlp/words.h"

#include <inttypes.h>
#include <stdio.h>

#include "proto/base/clock.h"
#include "proto/base/json.h"
#include "proto/grpc/status.h"
#include "proto/wire/writer.h"

/* ---- ExportProfilesServiceResponse ---- */

enum { RESPONSE_PARTIAL_SUCCESS = 1, PARTIAL_REJECTED_PROFILES = 1, PARTIAL_ERROR_MESSAGE = 2 };

/* When everything is well, partial_success must be unset (OTLP specification, "Full Success"). */
static int accepted_json(struct buffer *out, uint64_t rejected, struct bytes message)
{
    struct json j = JSON_INIT(out);
    bool partial = rejected > 0 || message.n > 0;
    json_open(&j, '{');
    if (partial)
        json_key(&j, "partialSuccess"), json_open(&j, '{');
    if (rejected > 0)
        json_key(&j, "rejectedProfiles"), json_quoted_u64(&j, rejected);
    if (message.n > 0)
        json_key(&j, "errorMessage"), json_string(&j, message);
    if (partial)
        json_close(&j, '}');
    json_close(&j, '}');
    return j.r;
}

static int accepted_proto(struct buffer *out, uint64_t rejected, struct bytes message)
{
    if (rejected == 0 && message.n == 0)
        return 0;
    struct wire_writer w = wire_writer(out);
    size_t mark = wire_begin(&w, RESPONSE_PARTIAL_SUCCESS);
    wire_put_uint_nonzero(&w, PARTIAL_REJECTED_PROFILES, rejected);
    wire_put_bytes_nonempty(&w, PARTIAL_ERROR_MESSAGE, message);
    wire_end(&w, mark);
    return w.failed;
}

/* ---- google.rpc.Status ---- */

/* As proto3 JSON: a detail is its message with "@type" added, a Duration is "1.500s". */

static void put_retry(struct json *j, uint64_t ns)
{
    char delay[40];
    uint64_t seconds = ns / NSEC_PER_SEC, rest = ns % NSEC_PER_SEC;
    if (rest > 0)
        snprintf(delay, sizeof delay, "%" PRIu64 ".%09" PRIu64 "s", seconds, rest);
    else
        snprintf(delay, sizeof delay, "%" PRIu64 "s", seconds);
    json_key(j, "@type"), json_string(j, BYTES_LIT(GRPC_TYPE_RETRY_INFO));
    json_key(j, "retryDelay"), json_string(j, bytes_str(delay));
}

static void put_violation(struct json *j, const struct grpc_status *s)
{
    json_key(j, "@type"), json_string(j, BYTES_LIT(GRPC_TYPE_BAD_REQUEST));
    json_key(j, "fieldViolations"), json_open(j, '['), json_open(j, '{');
    json_key(j, "field"), json_string(j, s->field);
    json_key(j, "description"), json_string(j, s->description);
    json_close(j, '}'), json_close(j, ']');
}

static int refused_json(struct buffer *out, const struct grpc_status *s)
{
    struct json j = JSON_INIT(out);
    json_open(&j, '{');
    json_key(&j, "code"), json_i64(&j, s->code);
    json_key(&j, "message"), json_string(&j, s->message);
    if (s->has_retry || s->has_violation) {
        json_key(&j, "details"), json_open(&j, '['), json_open(&j, '{');
        if (s->has_retry)
            put_retry(&j, s->retry_ns);
        else
            put_violation(&j, s);
        json_close(&j, '}'), json_close(&j, ']');
    }
    json_close(&j, '}');
    return j.r;
}

static int refused_proto(struct buffer *out, const struct grpc_status *s)
{
    return grpc_status_encode(s, out);
}

const struct intake_words otlp_words_grpc = {
    .media_type = BYTES_LIT("application/grpc"),
    .accepted = accepted_proto,
};

const struct intake_words otlp_words_proto = {
    .media_type = BYTES_LIT("application/x-protobuf"),
    .accepted = accepted_proto,
    .refused = refused_proto,
};

const struct intake_words otlp_words_json = {
    .media_type = BYTES_LIT("application/json"),
    .accepted = accepted_json,
    .refused = refused_json,
};
