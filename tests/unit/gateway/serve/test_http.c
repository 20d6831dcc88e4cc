/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/coding/coding.h"
#include "tests/unit/gateway/serve/fake.h"

/* OTLP/HTTP: the named rows are those of gateway/serve/README.md, H. */

#define PROTO(status) status "\ncontent-type: application/x-protobuf\n"
#define JSON(status)  status "\ncontent-type: application/json\n"

static struct buffer coded(enum coding c, struct bytes plain)
{
    struct buffer out = {0};
    struct coding_encoder *e = unit_made(coding_encoder_new(c, 0));
    ck_assert_int_eq(coding_encode(e, plain, &out), 0);
    coding_encoder_free(e);
    return out;
}

UNIT(h1_the_path_and_a_listener_s_others_take_profiles_in_both_versions)
{
    struct serve *s = serve_with(1000, NULL);
    static const char *const paths[] = {HTTP_PATH, "/v1/profiles"};
    static const struct serve_listener listener = {.aliases = paths + 1, .n_aliases = 1};
    static const struct http_peer peer = {.address = "x", .listener = (void *)&listener};
    for (int i = 0; i < 4; i++) {
        struct call call = {.path = paths[i / 2],
                            .peer = &peer,
                            .version = i % 2 ? HTTP_VERSION_1 : HTTP_VERSION_2,
                            .headers = {PROTO_TYPE},
                            .body = BYTES_LIT("abc"),
                            .step = 1};
        ck_assert_str_eq(ask(s, &call), PROTO("200") "body: \n");
        ck_assert(bytes_is(buffer_bytes(&pushed), "abc"));
    }
    n_pushes = 0;
    ask(s, &(struct call){.path = paths[1], .headers = {PROTO_TYPE}, .body = BYTES_LIT("abc")});
    ck_assert_uint_eq(n_pushes, 0); /* of another listener */
    fake_release(s);
}

UNIT(h2_content_types_have_parameters_and_any_case)
{
    struct serve *s = serve_with(1000, NULL);
    struct call call = {.path = HTTP_PATH,
                        .headers = {H("content-type", "Application/X-Protobuf ; charset=utf-8")}};
    ck_assert_str_eq(ask(s, &call), PROTO("200") "body: \n");
    ck_assert_uint_eq(pushed.n, 0);
    fake_release(s);
}

UNIT(h2_json_is_taken_as_protobuf_and_answered_in_json)
{
    struct serve *s = serve_with(1000, NULL);
    struct call call = {.path = HTTP_PATH,
                        .headers = {H("content-type", "application/json; charset=utf-8")},
                        .body = BYTES_LIT("{\"dictionary\":{\"stringTable\":[\"\",\"a\"]}}"),
                        .step = 5};
    const char want[] = "\x12\x05\x2a\x00\x2a\x01"
                        "a";
    for (enum http_version version = HTTP_VERSION_1; version <= HTTP_VERSION_2; version++) {
        call.version = version;
        ck_assert_str_eq(ask(s, &call), JSON("200") "body: {}\n");
        ck_assert(bytes_eq(buffer_bytes(&pushed), bytes_of(want, sizeof want - 1)));
    }
    next_answer =
        (struct ingest_answer){.verdict = INGEST_ACCEPTED, .rejected_profiles = 3, .message = {"why"}};
    ck_assert_str_eq(
        ask(s, &call),
        JSON("200") "body: {\"partialSuccess\":{\"rejectedProfiles\":\"3\",\"errorMessage\":\"why\"}}\n");
    call.body = BYTES_LIT("{}");
    ck_assert_str_eq(ask(s, &call), JSON("200") "body: {\"partialSuccess\":{\"rejectedProfiles\":\"3\","
                                                "\"errorMessage\":\"why\"}}\n");
    ck_assert_uint_eq(pushed.n, 0);
    ck_assert_uint_eq(n_pushes, 4);
    fake_release(s);
}

/* Some samples would pass for 1.9 in protobuf (proto/otlp/layouts); JSON says by its names what
 * they are. */
UNIT(the_wire_layout_is_guessed_of_protobuf_alone)
{
    struct serve *s = serve_with(1000, NULL);
    struct call json = {.path = HTTP_PATH, .headers = {JSON_TYPE}, .body = BYTES_LIT("{}")};
    ck_assert_str_eq(ask(s, &json), JSON("200") "body: {}\n");
    ck_assert_int_eq(pushed_layout, PROFILES_LAYOUT_1_10);
    struct call proto = {.path = HTTP_PATH, .headers = {H("content-type", "application/x-protobuf")}};
    ask(s, &proto);
    ck_assert_uint_eq(n_pushes, 2);
    ck_assert_int_eq(pushed_layout, PROFILES_LAYOUT_UNKNOWN);
    fake_release(s);
}

UNIT(h3_json_is_taken_after_its_content_encoding)
{
    struct serve *s = serve_with(1000, NULL);
    static const enum coding codings[] = {CODING_GZIP, CODING_DEFLATE, CODING_ZSTD};
    for (size_t i = 0; i < 3; i++) {
        cleanup(buffer_release) struct buffer body = coded(codings[i], BYTES_LIT("{\"dictionary\":{}}"));
        struct call call = {.path = HTTP_PATH,
                            .headers = {JSON_TYPE,
                                        {BYTES_LIT("content-encoding"), bytes_str(coding_name(codings[i]))}},
                            .body = buffer_bytes(&body)};
        ck_assert_str_eq(ask(s, &call), JSON("200") "body: {}\n");
        ck_assert(bytes_eq(buffer_bytes(&pushed), BYTES_LIT("\x12\x00")));
    }
    fake_release(s);
}

UNIT(h8_malformed_json_names_the_place)
{
    struct serve *s = serve_with(1000, NULL);
    struct call call = {.path = HTTP_PATH,
                        .headers = {JSON_TYPE},
                        .body = BYTES_LIT("{\"dictionary\":{\"stackTable\":[{\"locationIndices\":[1.5]}]}}")};
    ck_assert_str_eq(
        ask(s, &call),
        JSON(
            "400") "body: {\"code\":3,\"message\":\"dictionary.stackTable[0].locationIndices[0]: not an integer at "
                   "byte 49\",\"details\":[{\"@type\":\"type.googleapis.com/google.rpc.BadRequest\","
                   "\"fieldViolations\":[{\"field\":\"dictionary.stackTable[0].locationIndices[0]\","
                   "\"description\":\"not an integer at byte 49\"}]}]}\n");
    call.body = (struct bytes){0}; /* as protobuf an empty body is an empty request; as JSON it is nothing */
    ck_assert_int_eq(strncmp(ask(s, &call), JSON("400"), strlen(JSON("400"))), 0);
    ck_assert_uint_eq(n_pushes, 0);
    fake_release(s);
}

UNIT(h4_json_that_grows_past_the_limit_is_too_large)
{
    struct serve *s = serve_with(90, NULL); /* negative numbers grow: 89 bytes of JSON become 126 */
    struct call call = {.path = HTTP_PATH,
                        .headers = {JSON_TYPE},
                        .body = BYTES_LIT("{\"dictionary\":{\"stackTable\":[{\"locationIndices\":["
                                          "-1,-1,-1,-1,-1,-1,-1,-1,-1,-1,-1,-1]}]}}")};
    ck_assert_str_eq(ask(s, &call),
                     JSON("413") "body: {\"code\":8,\"message\":\"the request is larger than 90 "
                                 "bytes, before or after decompression\"}\n");
    ck_assert_uint_eq(n_pushes, 0);
    fake_release(s);
}

UNIT(h3_content_encodings_are_taken)
{
    struct serve *s = serve_with(1000, NULL);
    static const enum coding codings[] = {CODING_IDENTITY, CODING_GZIP, CODING_DEFLATE, CODING_ZSTD};
    for (size_t i = 0; i < 4; i++) {
        cleanup(buffer_release) struct buffer body = coded(codings[i], BYTES_LIT("profile profile profile"));
        struct call call = {.path = HTTP_PATH,
                            .headers = {PROTO_TYPE,
                                        {BYTES_LIT("content-encoding"), bytes_str(coding_name(codings[i]))}},
                            .body = buffer_bytes(&body),
                            .step = 3};
        pushed.n = 0;
        ck_assert_str_eq(ask(s, &call), PROTO("200") "body: \n");
        ck_assert(bytes_is(buffer_bytes(&pushed), "profile profile profile"));
    }
    fake_release(s);
}

#define CODING_REFUSED                                                                                         \
    PROTO("415")                                                                                               \
    "accept-encoding: gzip,deflate,zstd,snappy,lz4,identity\nbody: \\x08\\x0c\\x12Punknown content-encoding; " \
    "these are taken: gzip,deflate,zstd,snappy,lz4,identity\n"

UNIT(unknown_content_encodings_are_415_and_the_known_ones_listed)
{
    struct serve *s = serve_with(1000, NULL);
    struct call call = {.path = HTTP_PATH, .headers = {PROTO_TYPE, H("content-encoding", "br")}};
    ck_assert_str_eq(ask(s, &call), CODING_REFUSED);
    call.headers[1].value = bytes_str("gzip, gzip");
    ck_assert_str_eq(ask(s, &call), CODING_REFUSED);
    struct call twice = {.path = HTTP_PATH,
                         .headers = {PROTO_TYPE, H("content-encoding", "gzip"),
                                     H("content-encoding", "gzip")}};
    ck_assert_str_eq(ask(s, &twice), CODING_REFUSED);
    ck_assert_uint_eq(n_pushes, 0);
    fake_release(s);
}

#define TOO_LARGE_10 \
    PROTO("413") "body: \\x08\\x08\\x12Bthe request is larger than 10 bytes, before or after decompression\n"

UNIT(h4_too_large_is_413_told_or_streamed_before_and_after_decompression)
{
    struct serve *s = serve_with(10, NULL);
    struct call fits = {
        .path = HTTP_PATH, .headers = {PROTO_TYPE}, .content_length = 10, .body = BYTES_LIT("0123456789")};
    ck_assert_str_eq(ask(s, &fits), PROTO("200") "body: \n");
    struct call told = {.path = HTTP_PATH, .headers = {PROTO_TYPE}, .content_length = 100 << 20};
    ck_assert_str_eq(ask(s, &told), TOO_LARGE_10);
    struct call streamed = {
        .path = HTTP_PATH, .headers = {PROTO_TYPE}, .body = BYTES_LIT("0123456789a"), .step = 4};
    ck_assert_str_eq(ask(s, &streamed), TOO_LARGE_10);
    struct buffer body =
        coded(CODING_ZSTD, BYTES_LIT("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"));
    serve_free(s);
    s = serve_with(30, NULL);
    ck_assert_uint_lt(body.n, 30);
    struct call bomb = {.path = HTTP_PATH,
                        .headers = {PROTO_TYPE, H("content-encoding", "zstd")},
                        .body = buffer_bytes(&body)};
    ck_assert_int_eq(strncmp(ask(s, &bomb), "413\n", 4), 0);
    ck_assert_uint_eq(n_pushes, 0);
    buffer_release(&body);
    fake_release(s);
}

/* 100 MB streamed at the recommended limit of 64 MiB: refused at the limit, and the memory is no more than
 * that. */
UNIT(h4_a_hundred_megabytes_streamed_stop_at_the_limit)
{
    struct budget budget = BUDGET_INIT(256 << 20, NULL);
    struct serve *s = serve_with(64 << 20, &budget);
    const struct http_handler *h = serve_handler();
    struct call call = {.path = HTTP_PATH, .headers = {PROTO_TYPE}};
    struct http_exchange x;
    struct buffer piece = {.p = calloc(1, 1 << 20), .n = 1 << 20, .cap = 1 << 20};
    exchange_begin(&call, &x);
    h->on_head(s, &x);
    size_t fed = 0, most = 0;
    for (; fed < 100 && n_replies == 0; fed++) {
        h->on_body(s, &x, buffer_bytes(&piece));
        most = atomic_load(&budget.used) > most ? atomic_load(&budget.used) : most;
    }
    ck_assert_uint_eq(fed, 65);
    ck_assert_uint_le(most, (size_t)96 << 20);
    h->on_close(s, &x);
    ck_assert_uint_le(atomic_load(&budget.used), (4 << 20) + 4096);
    buffer_release(&piece);
    fake_release(s);
    ck_assert_uint_eq(atomic_load(&budget.used), 0);
}

static const struct call good = {.path = HTTP_PATH, .headers = {PROTO_TYPE}, .body = BYTES_LIT("x")};

UNIT(h5_h6_success_is_empty_and_partial_success_is_not)
{
    struct serve *s = serve_with(1000, NULL);
    ck_assert_str_eq(ask(s, &good), PROTO("200") "body: \n");
    next_answer.rejected_profiles = 2;
    error_set(&next_answer.message, 0, "bad\xff");
    ck_assert_str_eq(ask(s, &good), PROTO("200") "body: \\x0a\\x08\\x08\\x02\\x12\\x04bad?\n");
    fake_release(s);
}

UNIT(h7_h8_malformed_is_400_with_bad_request)
{
    struct serve *s = serve_with(1000, NULL);
    next_answer.verdict = INGEST_MALFORMED;
    error_set(&next_answer.message, 0, "no place here");
    ck_assert_str_eq(
        ask(s, &good),
        PROTO("400") "body: \\x08\\x03\\x12\\x0dno place here\\x1a@\\x0a)type.googleapis.com/"
                     "google.rpc.BadRequest\\x12\\x13\\x0a\\x11\\x0a\\x00\\x12\\x0dno place here\n");
    next_answer.verdict = INGEST_UNSUPPORTED;
    ck_assert_int_eq(strncmp(ask(s, &good), "400\n", 4), 0);
    next_answer.verdict = INGEST_TOO_LARGE;
    error_set(&next_answer.message, 0, "columns");
    ck_assert_str_eq(ask(s, &good), PROTO("413") "body: \\x08\\x08\\x12\\x07columns\n");
    fake_release(s);
}

UNIT(a_body_that_is_not_what_its_encoding_says_is_400)
{
    struct serve *s = serve_with(1000, NULL);
    struct call call = {.path = HTTP_PATH,
                        .headers = {PROTO_TYPE, H("content-encoding", "gzip")},
                        .body = BYTES_LIT("not gzip")};
    ck_assert_int_eq(strncmp(ask(s, &call), PROTO("400") "body: \\x08\\x03\\x12", 50), 0);
    ck_assert_uint_eq(n_pushes, 0);
    fake_release(s);
}

UNIT(h9_busy_is_503_with_retry_after_in_whole_seconds)
{
    struct serve *s = serve_with(1000, NULL);
    next_answer.verdict = INGEST_BUSY;
    next_answer.retry_after_ns = 1500000000;
    error_set(&next_answer.message, 0, "full");
    ck_assert_str_eq(ask(s, &good),
                     PROTO("503") "retry-after: 2\nbody: \\x08\\x0e\\x12\\x04"
                                  "full\\x1a6\\x0a(type.googleapis.com/google.rpc.RetryInfo"
                                  "\\x12\\x0a\\x0a\\x08\\x08\\x01\\x10\\x80\\xca\\xb5\\xee\\x01\n");
    fake_release(s);
}

/* 4 MiB is what clients must take (L544-554); ours is bounded by the longest text there is, escaped. */
UNIT(h10_the_longest_answer_is_far_below_4_mib_and_complete)
{
    struct serve *s = serve_with(1000, NULL);
    struct call call = {.path = HTTP_PATH, .headers = {JSON_TYPE}, .body = BYTES_LIT("{}")};
    const enum ingest_verdict verdicts[] = {INGEST_ACCEPTED, INGEST_MALFORMED, INGEST_TOO_LARGE, INGEST_BUSY};
    for (size_t i = 0; i < sizeof verdicts / sizeof *verdicts; i++) {
        next_answer = (struct ingest_answer){
            .verdict = verdicts[i], .rejected_profiles = UINT64_MAX, .retry_after_ns = UINT64_MAX};
        memset(next_answer.message.text, 1, ERROR_TEXT_MAX - 1); /* six characters each in JSON */
        const char *answer = ask(s, &call);
        ck_assert_uint_lt(strlen(answer), 64u << 10);
        ck_assert_str_eq(answer + strlen(answer) - 2, "}\n");
    }
    fake_release(s);
}

UNIT(h11_paths_methods_and_types_that_are_not_ours)
{
    struct serve *s = serve_with(1000, NULL);
    struct call call = {.path = "/v1/traces", .headers = {PROTO_TYPE}};
    ck_assert_str_eq(
        ask(s, &call),
        PROTO("404") "body: \\x08\\x05\\x12Gnothing is served at /v1/traces; profiles go to " HTTP_PATH "\n");
    call = (struct call){.path = HTTP_PATH, .method = "GET"};
    ck_assert_str_eq(
        ask(s, &call),
        JSON("405") "allow: POST\nbody: {\"code\":12,\"message\":\"the method must be POST\"}\n");
    call = (struct call){.path = HTTP_PATH, .headers = {H("content-type", "text/plain")}};
    ck_assert_str_eq(
        ask(s, &call),
        JSON("415") "accept: application/x-protobuf, application/json\nbody: {\"code\":3,\"message\":"
                    "\"content-type must be application/x-protobuf or application/json\"}\n");
    call.headers[0].name.p = NULL;
    ck_assert_int_eq(strncmp(ask(s, &call), "415\n", 4), 0);
    ck_assert_uint_eq(n_pushes, 0);
    fake_release(s);
}

UNIT(a_path_full_of_quotes_is_escaped_in_json)
{
    struct serve *s = serve_with(1000, NULL);
    struct call call = {.path = "/\"\\\x01", .method = "GET"};
    ck_assert_str_eq(ask(s, &call),
                     JSON("404") "body: {\"code\":5,\"message\":\"nothing is served at /\\x5c\"\\x5c\\x5c"
                                 "\\x5cu0001; profiles go to " HTTP_PATH
                                 ", pages and /metrics are at the admin address\"}\n");
    fake_release(s);
}
