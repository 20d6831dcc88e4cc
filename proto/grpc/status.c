/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/grpc/status.h"

#include "proto/base/clock.h"
#include "proto/base/json.h"
#include "proto/grpc/code.h"
#include "proto/wire/reader.h"
#include "proto/wire/writer.h"

enum { STATUS_CODE = 1, STATUS_MESSAGE = 2, STATUS_DETAILS = 3 };
enum { ANY_TYPE_URL = 1, ANY_VALUE = 2 };
enum { RETRY_INFO_RETRY_DELAY = 1, DURATION_SECONDS = 1, DURATION_NANOS = 2 };
enum { BAD_REQUEST_FIELD_VIOLATIONS = 1, FIELD_VIOLATION_FIELD = 1, FIELD_VIOLATION_DESCRIPTION = 2 };

/* ---- writing ---- */

/* A detail whose one field, 1, is a message: begins both, whose marks are left for end_detail. */
static void begin_detail(struct wire_writer *w, const char *type, size_t marks[3])
{
    marks[0] = wire_begin(w, STATUS_DETAILS);
    wire_put_bytes(w, ANY_TYPE_URL, bytes_str(type));
    marks[1] = wire_begin(w, ANY_VALUE);
    marks[2] = wire_begin(w, 1);
}

static void end_detail(struct wire_writer *w, const size_t marks[3])
{
    for (int i = 3; i-- > 0;)
        wire_end(w, marks[i]);
}

int grpc_status_encode(const struct grpc_status *s, struct buffer *out)
{
    struct wire_writer w = wire_writer(out);
    size_t before = out->n, marks[3];
    wire_put_int_nonzero(&w, STATUS_CODE, s->code);
    wire_put_bytes_nonempty(&w, STATUS_MESSAGE, s->message);
    if (s->has_retry) {
        begin_detail(&w, GRPC_TYPE_RETRY_INFO, marks);
        wire_put_uint_nonzero(&w, DURATION_SECONDS, s->retry_ns / NSEC_PER_SEC);
        wire_put_uint_nonzero(&w, DURATION_NANOS, s->retry_ns % NSEC_PER_SEC);
        end_detail(&w, marks);
    }
    if (s->has_violation) {
        begin_detail(&w, GRPC_TYPE_BAD_REQUEST, marks);
        wire_put_bytes(&w, FIELD_VIOLATION_FIELD, s->field);
        wire_put_bytes(&w, FIELD_VIOLATION_DESCRIPTION, s->description);
        end_detail(&w, marks);
    }
    if (w.failed < 0)
        out->n = before;
    return w.failed;
}

/* ---- reading ---- */

/* The bytes of field `number`: the first, or the last where protobuf says that the last one wins; .p is NULL
 * when there is none. False: malformed. */
static bool find_bytes(struct bytes in, uint32_t number, bool last, struct bytes *ret)
{
    struct wire_reader r = wire_reader(in);
    struct wire_field f;
    int e;
    *ret = (struct bytes){0};
    while ((e = wire_next(&r, &f)) == 0)
        if (f.number == number && f.type == WIRE_LEN && (last || !ret->p))
            *ret = f.bytes;
    return e == WIRE_END;
}

/* A longer wait than this (google.protobuf.Duration's own bound is 10 000 years) is no advice. */
#define DELAY_SECONDS_MAX 86400u

static bool read_retry(struct bytes in, struct grpc_status *s)
{
    struct bytes duration;
    if (!find_bytes(in, RETRY_INFO_RETRY_DELAY, true, &duration))
        return false;
    struct wire_reader r = wire_reader(duration);
    struct wire_field f;
    int64_t seconds = 0, nanos = 0;
    int e;
    while ((e = wire_next(&r, &f)) == 0) {
        if (f.type == WIRE_VARINT && f.number == DURATION_SECONDS)
            seconds = (int64_t)f.value;
        else if (f.type == WIRE_VARINT && f.number == DURATION_NANOS)
            nanos = (int64_t)f.value;
    }
    s->has_retry = true;
    if (seconds >= 0 && seconds <= DELAY_SECONDS_MAX && nanos >= 0 && nanos < NSEC_PER_SEC)
        s->retry_ns = (uint64_t)seconds * NSEC_PER_SEC + (uint64_t)nanos;
    return e == WIRE_END;
}

static bool read_bad_request(struct bytes in, struct grpc_status *s)
{
    struct bytes violation;
    if (!find_bytes(in, BAD_REQUEST_FIELD_VIOLATIONS, false, &violation))
        return false;
    s->has_violation = violation.p != NULL;
    return find_bytes(violation, FIELD_VIOLATION_FIELD, true, &s->field) &&
           find_bytes(violation, FIELD_VIOLATION_DESCRIPTION, true, &s->description);
}

static bool read_detail(struct bytes any, struct grpc_status *s)
{
    struct bytes type, value;
    if (!find_bytes(any, ANY_TYPE_URL, true, &type) || !find_bytes(any, ANY_VALUE, true, &value))
        return false;
    /* Any's comments: what counts is the name after the last '/'. */
    type = bytes_after_last(type, '/');
    if (!s->has_retry && bytes_is(type, "google.rpc.RetryInfo"))
        return read_retry(value, s);
    if (!s->has_violation && bytes_is(type, "google.rpc.BadRequest"))
        return read_bad_request(value, s);
    return true;
}

int grpc_status_decode(struct bytes in, struct grpc_status *ret)
{
    struct wire_reader r = wire_reader(in);
    struct grpc_status s = {0};
    struct wire_field f;
    bool good = true;
    int e = 0;
    while (good && (e = wire_next(&r, &f)) == 0) {
        if (f.number == STATUS_CODE && f.type == WIRE_VARINT)
            s.code = (int32_t)f.value;
        else if (f.number == STATUS_MESSAGE && f.type == WIRE_LEN)
            s.message = f.bytes;
        else if (f.number == STATUS_DETAILS && f.type == WIRE_LEN)
            good = read_detail(f.bytes, &s);
    }
    *ret = e == WIRE_END ? s : (struct grpc_status){0};
    return e == WIRE_END ? 0 : GRPC_STATUS_MALFORMED;
}

int grpc_connect_error(struct buffer *out, int32_t code, struct bytes message)
{
    char name[32] = "";
    const char *upper = code == GRPC_CANCELLED ? "CANCELED" : grpc_code_name((enum grpc_code)code);
    for (size_t i = 0; upper[i] && i < sizeof name - 1; i++)
        name[i] = upper[i] == '_' ? '_' : (char)(upper[i] | 0x20);
    struct json j = JSON_INIT(out);
    json_open(&j, '{');
    json_key(&j, "code"), json_string(&j, bytes_str(name));
    json_key(&j, "message"), json_string(&j, message);
    json_close(&j, '}');
    return j.r;
}
