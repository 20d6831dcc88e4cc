/* SPDX-License-Identifier: Apache-2.0 */
/* needs: proto/schema dep_protobufc */
#include "proto/grpc/status.h"

#include "proto/base/clock.h"
#include "proto/grpc/code.h"
#include "rpc.pb-c.h"
#include "tests/lib/unit.h"

static struct buffer out;

/* protobuf-c's generated code is the oracle: written independently, from the same .proto. */
static Profgate__Rpc__Status *oracle(const struct grpc_status *s)
{
    out.n = 0;
    ck_assert_int_eq(grpc_status_encode(s, &out), 0);
    Profgate__Rpc__Status *m = unit_made(profgate__rpc__status__unpack(NULL, out.n, out.p));
    return m;
}

UNIT(code_and_message_are_written)
{
    Profgate__Rpc__Status *m = oracle(&(struct grpc_status){.code = 3, .message = BYTES_LIT("no")});
    ck_assert_int_eq(m->code, 3);
    ck_assert_str_eq(m->message, "no");
    ck_assert_uint_eq(m->n_details, 0);
    profgate__rpc__status__free_unpacked(m, NULL);
    ck_assert(bytes_eq(buffer_bytes(&out), BYTES_LIT("\x08\x03\x12\x02no")));
    buffer_release(&out);
}

UNIT(retry_info_is_written_and_read_back)
{
    const uint64_t delays[] = {0, 1, 999999999, NSEC_PER_SEC, 90 * (uint64_t)NSEC_PER_SEC + 5};
    for (size_t i = 0; i < sizeof delays / sizeof *delays; i++) {
        struct grpc_status s = {
            .code = 14, .message = BYTES_LIT("busy"), .has_retry = true, .retry_ns = delays[i]};
        Profgate__Rpc__Status *m = oracle(&s);
        ck_assert_uint_eq(m->n_details, 1);
        ck_assert_str_eq(m->details[0]->type_url, "type.googleapis.com/google.rpc.RetryInfo");
        Profgate__Rpc__RetryInfo *info =
            profgate__rpc__retry_info__unpack(NULL, m->details[0]->value.len, m->details[0]->value.data);
        ck_assert_ptr_nonnull(info);
        ck_assert_ptr_nonnull(info->retry_delay);
        ck_assert_uint_eq((uint64_t)info->retry_delay->seconds * NSEC_PER_SEC +
                              (uint64_t)info->retry_delay->nanos,
                          delays[i]);
        profgate__rpc__retry_info__free_unpacked(info, NULL);
        profgate__rpc__status__free_unpacked(m, NULL);

        struct grpc_status back;
        ck_assert_int_eq(grpc_status_decode(buffer_bytes(&out), &back), 0);
        ck_assert_int_eq(back.code, 14);
        ck_assert(bytes_is(back.message, "busy"));
        ck_assert(back.has_retry);
        ck_assert_uint_eq(back.retry_ns, delays[i]);
        ck_assert(!back.has_violation);
    }
    buffer_release(&out);
}

UNIT(bad_request_is_written_and_read_back)
{
    struct grpc_status s = {.code = 3,
                            .message = BYTES_LIT("bad"),
                            .has_violation = true,
                            .field = BYTES_LIT("dictionary.stack_table[4]"),
                            .description = BYTES_LIT("leads nowhere")};
    Profgate__Rpc__Status *m = oracle(&s);
    ck_assert_uint_eq(m->n_details, 1);
    ck_assert_str_eq(m->details[0]->type_url, "type.googleapis.com/google.rpc.BadRequest");
    Profgate__Rpc__BadRequest *bad =
        profgate__rpc__bad_request__unpack(NULL, m->details[0]->value.len, m->details[0]->value.data);
    ck_assert_ptr_nonnull(bad);
    ck_assert_uint_eq(bad->n_field_violations, 1);
    ck_assert_str_eq(bad->field_violations[0]->field, "dictionary.stack_table[4]");
    ck_assert_str_eq(bad->field_violations[0]->description, "leads nowhere");
    profgate__rpc__bad_request__free_unpacked(bad, NULL);
    profgate__rpc__status__free_unpacked(m, NULL);

    struct grpc_status back;
    ck_assert_int_eq(grpc_status_decode(buffer_bytes(&out), &back), 0);
    ck_assert(back.has_violation);
    ck_assert(bytes_is(back.field, "dictionary.stack_table[4]"));
    ck_assert(bytes_is(back.description, "leads nowhere"));
    buffer_release(&out);
}

UNIT(unknown_fields_and_details_are_skipped)
{
    struct grpc_status s;
    ck_assert_int_eq(grpc_status_decode(BYTES_LIT("\x08\x05\x22\x01x\x29zzzzzzzz\x35zzzz\x30\x07"
                                                  "\x1a\x05\x0a\x03"
                                                  "a/b"),
                                        &s),
                     0);
    ck_assert_int_eq(s.code, 5);
    ck_assert(!s.has_retry);
    ck_assert_int_eq(grpc_status_decode(BYTES_LIT(""), &s), 0);
    ck_assert_int_eq(s.code, 0);
}

UNIT(malformed_statuses_are_refused)
{
    struct grpc_status s = {.code = 7, .message = BYTES_LIT("m"), .has_retry = true, .retry_ns = 5};
    out.n = 0;
    ck_assert_int_eq(grpc_status_encode(&s, &out), 0);
    size_t refused = 0;
    for (size_t n = 0; n < out.n; n++) {
        struct grpc_status back;
        refused += grpc_status_decode(bytes_of(out.p, n), &back) == GRPC_STATUS_MALFORMED;
    }
    /* Every cut but those between two fields: after 0, 2 and 5 bytes. */
    ck_assert_uint_eq(refused, out.n - 3);
    ck_assert_int_eq(grpc_status_decode(BYTES_LIT("\x0b"), &s), GRPC_STATUS_MALFORMED);
    ck_assert_int_eq(grpc_status_decode(BYTES_LIT("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"), &s),
                     GRPC_STATUS_MALFORMED);
    ck_assert(!s.has_retry);
    buffer_release(&out);
}

UNIT(an_absurd_delay_is_an_invitation_without_advice)
{
    struct grpc_status s = {.code = 8, .has_retry = true, .retry_ns = 86401 * (uint64_t)NSEC_PER_SEC}, back;
    out.n = 0;
    ck_assert_int_eq(grpc_status_encode(&s, &out), 0);
    ck_assert_int_eq(grpc_status_decode(buffer_bytes(&out), &back), 0);
    ck_assert(back.has_retry);
    ck_assert_uint_eq(back.retry_ns, 0);
    buffer_release(&out);
}

UNIT(codes_have_names_and_translate)
{
    ck_assert_str_eq(grpc_code_name(GRPC_RESOURCE_EXHAUSTED), "RESOURCE_EXHAUSTED");
    ck_assert_str_eq(grpc_code_name((enum grpc_code)17), "UNKNOWN");
    ck_assert_int_eq(grpc_code_parse(BYTES_LIT("14")), GRPC_UNAVAILABLE);
    ck_assert_int_eq(grpc_code_parse(BYTES_LIT("99")), GRPC_UNKNOWN);
    ck_assert_int_eq(grpc_code_parse(BYTES_LIT("")), GRPC_UNKNOWN);
    ck_assert_int_eq(grpc_code_parse(BYTES_LIT("-1")), GRPC_UNKNOWN);
    /* doc/http-grpc-status-mapping.md */
    ck_assert_int_eq(grpc_code_from_http(404), GRPC_UNIMPLEMENTED);
    ck_assert_int_eq(grpc_code_from_http(503), GRPC_UNAVAILABLE);
    ck_assert_int_eq(grpc_code_from_http(418), GRPC_UNKNOWN);
    /* What may be retried over gRPC may be retried over HTTP */
    const enum grpc_code retryable[] = {GRPC_CANCELLED,    GRPC_DEADLINE_EXCEEDED, GRPC_ABORTED,
                                        GRPC_OUT_OF_RANGE, GRPC_UNAVAILABLE,       GRPC_DATA_LOSS};
    for (size_t i = 0; i < sizeof retryable / sizeof *retryable; i++)
        ck_assert_uint_eq(grpc_code_to_http(retryable[i]), 503);
    ck_assert_uint_eq(grpc_code_to_http(GRPC_INVALID_ARGUMENT), 400);
    ck_assert_uint_eq(grpc_code_to_http(GRPC_RESOURCE_EXHAUSTED), 429);
    ck_assert_uint_eq(grpc_code_to_http(GRPC_UNAUTHENTICATED), 401);
}
