/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/coding/coding.h"
#include "proto/grpc/frame.h"
#include "tests/unit/gateway/serve/fake.h"

/* OTLP/gRPC: the named rows are those of gateway/serve/README.md, G. */

#define REFUSED(code, message)                                   \
    "200\ncontent-type: application/grpc\nbody: \n-- trailers\n" \
    "grpc-status: " code "\ngrpc-message: " message "\n"
#define ACCEPTED \
    "200\ncontent-type: application/grpc\nbody: \\x00\\x00\\x00\\x00\\x00\n-- trailers\ngrpc-status: 0\n"

/* A length-prefixed message, the payload coded if asked for. */
static struct buffer framed(enum coding c, bool flag, struct bytes payload)
{
    struct buffer out = {0}, coded = {0};
    struct coding_encoder *e = unit_made(coding_encoder_new(c, 0));
    ck_assert_int_eq(coding_encode(e, payload, &coded), 0);
    coding_encoder_free(e);
    uint8_t prefix[GRPC_PREFIX_BYTES];
    grpc_prefix_write(prefix, flag, (uint32_t)coded.n);
    ck_assert_int_eq(buffer_add(&out, prefix, sizeof prefix), 0);
    ck_assert_int_eq(buffer_add_bytes(&out, buffer_bytes(&coded)), 0);
    buffer_release(&coded);
    return out;
}

UNIT(g1_every_coding_offered_is_taken)
{
    struct serve *s = serve_with(1000, NULL);
    static const enum coding codings[] = {CODING_IDENTITY, CODING_GZIP, CODING_DEFLATE, CODING_ZSTD};
    for (size_t i = 0; i < 4; i++) {
        cleanup(buffer_release) struct buffer body =
            framed(codings[i], codings[i] != CODING_IDENTITY, BYTES_LIT("profile profile profile"));
        struct call call = {.path = GRPC_PATH,
                            .headers = {GRPC_TYPE,
                                        {BYTES_LIT("grpc-encoding"), bytes_str(coding_name(codings[i]))}},
                            .body = buffer_bytes(&body)};
        pushed.n = 0;
        ck_assert_str_eq(ask(s, &call), ACCEPTED);
        ck_assert(bytes_is(buffer_bytes(&pushed), "profile profile profile"));
    }
    ck_assert_uint_eq(n_pushes, 4);
    fake_release(s);
}

UNIT(g1_an_encoding_named_does_not_oblige_a_message_to_use_it)
{
    struct serve *s = serve_with(1000, NULL);
    struct call call = {.path = GRPC_PATH,
                        .headers = {GRPC_TYPE, H("grpc-encoding", "gzip")},
                        .body = BYTES_LIT("\0\0\0\0\3abc")};
    ck_assert_str_eq(ask(s, &call), ACCEPTED);
    ck_assert(bytes_is(buffer_bytes(&pushed), "abc"));
    fake_release(s);
}

#define TOO_LARGE_10 REFUSED("8", "the request is larger than 10 bytes, before or after decompression")

UNIT(g2_too_large_is_resource_exhausted_without_retry_info)
{
    struct serve *s = serve_with(10, NULL);
    struct call fits = {.path = GRPC_PATH,
                        .headers = {GRPC_TYPE},
                        .content_length = 15,
                        .body = BYTES_LIT("\0\0\0\0\n0123456789")};
    ck_assert_str_eq(ask(s, &fits), ACCEPTED);
    struct call told = fits;
    told.content_length = 16;
    ck_assert_str_eq(ask(s, &told), TOO_LARGE_10);
    struct call prefix = {
        .path = GRPC_PATH, .headers = {GRPC_TYPE}, .body = BYTES_LIT("\0\0\0\0\x0b"), .step = 1};
    ck_assert_str_eq(ask(s, &prefix), TOO_LARGE_10);
    ck_assert_uint_eq(n_pushes, 1);
    fake_release(s);
}

UNIT(g2_too_large_after_decompression_too)
{
    struct serve *s = serve_with(1000, NULL);
    struct buffer zeros = {.p = calloc(1, 100000), .n = 1001, .cap = 100000};
    for (int i = 0; i < 2; i++) {
        cleanup(buffer_release) struct buffer body = framed(CODING_GZIP, true, buffer_bytes(&zeros));
        ck_assert_uint_lt(body.n, 1000);
        struct call call = {.path = GRPC_PATH,
                            .headers = {GRPC_TYPE, H("grpc-encoding", "gzip")},
                            .body = buffer_bytes(&body)};
        ck_assert_str_eq(ask(s, &call),
                         REFUSED("8",
                                 "the request is larger than 1000 bytes, before or after decompression"));
        zeros.n = 100000;
    }
    ck_assert_uint_eq(n_pushes, 0);
    buffer_release(&zeros);
    fake_release(s);
}

UNIT(g3_g4_an_empty_request_is_accepted_with_partial_success_unset)
{
    struct serve *s = serve_with(1000, NULL);
    struct call call = {.path = GRPC_PATH, .headers = {GRPC_TYPE}, .body = BYTES_LIT("\0\0\0\0\0")};
    ck_assert_str_eq(ask(s, &call), ACCEPTED);
    ck_assert_uint_eq(n_pushes, 1);
    ck_assert_uint_eq(pushed.n, 0);
    fake_release(s);
}

static const struct call good = {.path = GRPC_PATH, .headers = {GRPC_TYPE}, .body = BYTES_LIT("\0\0\0\0\1x")};

UNIT(g5_a_part_rejected_is_said_with_its_number_and_a_message)
{
    struct serve *s = serve_with(1000, NULL);
    next_answer.rejected_profiles = 300;
    error_set(&next_answer.message, 0, "profiles[2]: bad");
    ck_assert_str_eq(ask(s, &good),
                     "200\ncontent-type: application/grpc\n"
                     "body: \\x00\\x00\\x00\\x00\\x17\\x0a\\x15\\x08\\xac\\x02\\x12\\x10profiles[2]: bad\n"
                     "-- trailers\ngrpc-status: 0\n");
    fake_release(s);
}

UNIT(g6_a_warning_has_a_message_and_no_number)
{
    struct serve *s = serve_with(1000, NULL);
    error_set(&next_answer.message, 0, "old");
    ck_assert_str_eq(ask(s, &good), "200\ncontent-type: application/grpc\n"
                                    "body: \\x00\\x00\\x00\\x00\\x07\\x0a\\x05\\x12\\x03old\n"
                                    "-- trailers\ngrpc-status: 0\n");
    fake_release(s);
}

/* The details are base64 of code 14, the message and RetryInfo{retry_delay {1 s, 500000000 ns}}, encoded by
 * hand. */
/* 4 MiB is what clients must take (L193-204); ours is bounded by the longest text there is. */
UNIT(g7_the_longest_answer_is_far_below_4_mib)
{
    struct serve *s = serve_with(1000, NULL);
    struct call call = {.path = GRPC_PATH, .headers = {GRPC_TYPE}, .body = BYTES_LIT("\0\0\0\0\1x")};
    const enum ingest_verdict verdicts[] = {INGEST_ACCEPTED, INGEST_MALFORMED, INGEST_TOO_LARGE, INGEST_BUSY};
    for (size_t i = 0; i < sizeof verdicts / sizeof *verdicts; i++) {
        next_answer = (struct ingest_answer){
            .verdict = verdicts[i], .rejected_profiles = UINT64_MAX, .retry_after_ns = UINT64_MAX};
        memset(next_answer.message.text, '%', ERROR_TEXT_MAX - 1); /* three characters each in grpc-message */
        ck_assert_uint_lt(strlen(ask(s, &call)), 64u << 10);
    }
    fake_release(s);
}

UNIT(g8_g10_busy_is_unavailable_with_retry_info)
{
    struct serve *s = serve_with(1000, NULL);
    next_answer.verdict = INGEST_BUSY;
    next_answer.retry_after_ns = 1500000000;
    error_set(&next_answer.message, 0, "full");
    ck_assert_str_eq(
        ask(s, &good),
        REFUSED(
            "14",
            "full") "grpc-status-details-bin: CA4SBGZ1bGwaNgoodHlwZS5nb29nbGVhcGlzLmNvbS9nb29nbGUucnBjLlJldHJ5"
                    "SW5mbxIKCggIARCAyrXuAQ\n");
    fake_release(s);
}

UNIT(g9_malformed_is_invalid_argument_with_the_place)
{
    struct serve *s = serve_with(1000, NULL);
    next_answer.verdict = INGEST_MALFORMED;
    error_set(&next_answer.message, 0, "dictionary: bad\xc3\xa9%%");
    ck_assert_str_eq(
        ask(s, &good),
        REFUSED(
            "3",
            "dictionary: bad%C3%A9%25") "grpc-status-details-bin: CAMSEmRpY3Rpb25hcnk6IGJhZMOpJRpDCil0eXBlLmdvb2dsZWFwaXMuY29tL2dvb2ds"
                                        "ZS5ycGMuQmFkUmVxdWVzdBIWChQKCmRpY3Rpb25hcnkSBmJhZMOpJQ\n");
    next_answer.verdict = INGEST_UNSUPPORTED;
    ck_assert_ptr_nonnull(strstr(ask(s, &good), "grpc-status: 3\n"));
    next_answer.verdict = INGEST_TOO_LARGE;
    error_set(&next_answer.message, 0, "columns");
    ck_assert_str_eq(ask(s, &good), REFUSED("8", "columns"));
    fake_release(s);
}

UNIT(g12_the_content_type_is_a_prefix)
{
    struct serve *s = serve_with(1000, NULL);
    static const char *const types[] = {"application/grpc", "application/grpc+proto",
                                        "Application/GRPC;charset=utf-8", "application/grpc+proto ; x=y"};
    for (size_t i = 0; i < 4; i++) {
        struct call call = good;
        call.headers[0].value = bytes_str(types[i]);
        ck_assert_str_eq(ask(s, &call), ACCEPTED);
    }
    struct call json = good;
    json.headers[0].value = bytes_str("application/grpc+json");
    ck_assert_str_eq(ask(s, &json),
                     REFUSED("12", "messages must be protobuf: content-type application/grpc or "
                                   "application/grpc+proto"));
    struct call web = good;
    web.headers[0].value = bytes_str("application/grpc-web");
    ck_assert_int_eq(strncmp(ask(s, &web), "404\n", 4), 0);
    fake_release(s);
}

UNIT(unknown_services_and_methods_are_unimplemented)
{
    struct serve *s = serve_with(1000, NULL);
    struct call call = good;
    call.path = "/opentelemetry.proto.collector.trace.v1.TraceService/Export";
    ck_assert_str_eq(ask(s, &call), REFUSED("12", "unknown service; this one is " GRPC_PATH));
    call.path = "/opentelemetry.proto.collector.profiles.v1development.ProfilesService/export";
    ck_assert_str_eq(ask(s, &call), REFUSED("12", "the service has no such method"));
    call.path = HTTP_PATH;
    ck_assert_ptr_nonnull(strstr(ask(s, &call), "grpc-status: 12\n"));
    fake_release(s);
}

UNIT(unknown_encodings_are_unimplemented_and_the_known_ones_listed)
{
    struct serve *s = serve_with(1000, NULL);
    struct call call = {
        .path = GRPC_PATH, .headers = {GRPC_TYPE, H("grpc-encoding", "br")}, .body = good.body};
    ck_assert_str_eq(
        ask(s, &call),
        "200\ncontent-type: application/grpc\ngrpc-accept-encoding: gzip,deflate,zstd,snappy,lz4,identity\nbody: \n"
        "-- trailers\ngrpc-status: 12\n"
        "grpc-message: unknown grpc-encoding; these are taken: gzip,deflate,zstd,snappy,lz4,identity\n");
    fake_release(s);
}

UNIT(only_post_is_taken)
{
    struct serve *s = serve_with(1000, NULL);
    struct call call = good;
    call.method = "GET";
    ck_assert_str_eq(ask(s, &call), "405\ncontent-type: application/grpc\nallow: POST\nbody: \n-- trailers\n"
                                    "grpc-status: 13\ngrpc-message: the method must be POST\n");
    fake_release(s);
}

UNIT(http1_has_no_trailers_so_no_grpc)
{
    struct serve *s = serve_with(1000, NULL);
    struct call call = good;
    call.version = HTTP_VERSION_1;
    ck_assert_str_eq(ask(s, &call), "505\ncontent-type: application/json\n"
                                    "body: {\"code\":12,\"message\":\"gRPC needs HTTP/2\"}\n");
    fake_release(s);
}

UNIT(framing_errors_have_their_codes)
{
    struct serve *s = serve_with(1000, NULL);
    static const struct {
        struct bytes body;
        const char *answer;
    } cases[] = {
        {BYTES_LIT(""), REFUSED("13", "the call ended without a message")},
        {BYTES_LIT("\0\0\0"), REFUSED("13", "the message was cut short")},
        {BYTES_LIT("\0\0\0\0\2a"), REFUSED("13", "the message was cut short")},
        {BYTES_LIT("\2\0\0\0\1a"),
         REFUSED("13", "malformed message prefix: the compressed flag is neither 0 nor 1")},
        {BYTES_LIT("\1\0\0\0\1a"), REFUSED("13", "compressed flag set without a grpc-encoding")},
        {BYTES_LIT("\0\0\0\0\1a\0\0\0\0\1b"), REFUSED("12", "more than one message in a unary call")},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (size_t step = 1; step < 8; step++) {
            struct call call = {
                .path = GRPC_PATH, .headers = {GRPC_TYPE}, .body = cases[i].body, .step = step};
            ck_assert_str_eq(ask(s, &call), cases[i].answer);
        }
    struct call flag = {.path = GRPC_PATH,
                        .headers = {GRPC_TYPE, H("grpc-encoding", "identity")},
                        .body = BYTES_LIT("\1\0\0\0\1a")};
    ck_assert_str_eq(ask(s, &flag), REFUSED("13", "compressed flag set without a grpc-encoding"));
    ck_assert_uint_eq(n_pushes, 0);
    fake_release(s);
}

UNIT(corrupt_compression_is_internal)
{
    struct serve *s = serve_with(1000, NULL);
    struct call call = {.path = GRPC_PATH,
                        .headers = {GRPC_TYPE, H("grpc-encoding", "gzip")},
                        .body = BYTES_LIT("\1\0\0\0\3abc")};
    ck_assert_str_eq(ask(s, &call), REFUSED("13", "the body is not what its encoding, gzip, says"));
    call.body = BYTES_LIT("\1\0\0\0\0");
    ck_assert_str_eq(ask(s, &call), REFUSED("13", "the body is not what its encoding, gzip, says"));
    fake_release(s);
}

UNIT(deadlines_are_kept)
{
    struct serve *s = serve_with(1000, NULL);
    struct call call = {
        .path = GRPC_PATH, .headers = {GRPC_TYPE, H("grpc-timeout", "10S")}, .body = good.body};
    ck_assert_str_eq(ask(s, &call), ACCEPTED);
    call.headers[1].value = bytes_str("0n");
    ck_assert_str_eq(ask(s, &call), REFUSED("4", "the deadline passed before the request was complete"));
    call.headers[1].value = bytes_str("soon");
    ck_assert_str_eq(ask(s, &call), REFUSED("13", "malformed grpc-timeout"));
    ck_assert_uint_eq(n_pushes, 1);
    fake_release(s);
}

UNIT(frame_boundaries_do_not_matter)
{
    struct serve *s = serve_with(100000, NULL);
    struct buffer text = {0};
    for (int i = 0; text.n < 20000; i++)
        ck_assert_int_eq(buffer_printf(&text, "%d,", i), 0);
    struct buffer body = framed(CODING_IDENTITY, false, buffer_bytes(&text));
    static const size_t steps[] = {1, 2, 3, 4, 5, 6, 7, 4096, 16384};
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        struct call call = {
            .path = GRPC_PATH, .headers = {GRPC_TYPE}, .body = buffer_bytes(&body), .step = steps[i]};
        ck_assert_str_eq(ask(s, &call), ACCEPTED);
        ck_assert(bytes_eq(buffer_bytes(&pushed), buffer_bytes(&text)));
    }
    buffer_release(&body);
    buffer_release(&text);
    fake_release(s);
}

/* Both are what clients repeat, and when is said. */
UNIT(g8_a_body_that_is_too_slow_may_be_sent_again)
{
    const struct http_handler *h = serve_handler();
    struct serve *s = serve_with(1000, NULL);
    struct call calls[] = {
        {.path = GRPC_PATH, .headers = {GRPC_TYPE}, .content_length = 100},
        {.path = HTTP_PATH, .headers = {H("content-type", "application/x-protobuf")}, .content_length = 100},
    };
    for (int i = 0; i < 2; i++) {
        struct http_exchange x;
        exchange_begin(&calls[i], &x);
        said.n = n_replies = 0;
        h->on_head(s, &x);
        h->on_body(s, &x, BYTES_LIT("\0\0\0\0\5a"));
        ck_assert_uint_eq(n_replies, 0);
        h->on_slow(s, &x);
        ck_assert_uint_eq(n_replies, 1);
        h->on_close(s, &x);
        ck_assert_int_eq(buffer_add(&said, "", 1), 0);
        const char *text = (const char *)said.p;
        if (i == 0) {
            ck_assert_ptr_nonnull(strstr(text, "\ngrpc-status: 14\n"));
            ck_assert_ptr_nonnull(strstr(text, "\ngrpc-status-details-bin: ")); /* RetryInfo */
        } else {
            ck_assert(strncmp(text, "503\n", 4) == 0 && strstr(text, "\nretry-after: 2\n"));
        }
    }
    ck_assert_uint_eq(n_pushes, 0);
    fake_release(s);
}
