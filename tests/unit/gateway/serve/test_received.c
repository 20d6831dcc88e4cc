/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What ingest is told of how a request came: the coding, and whether its bytes may go on as they are.
 */
#include "proto/base/macros.h"
#include "proto/coding/coding.h"
#include "proto/grpc/frame.h"
#include "tests/unit/gateway/serve/fake.h"

#define TEXT "what profiles are here does not matter"

static const enum coding codings[] = {CODING_GZIP, CODING_DEFLATE, CODING_ZSTD, CODING_SNAPPY};

static struct buffer coded(enum coding c)
{
    struct coding_encoder *e = unit_made(coding_encoder_new(c, 0));
    struct buffer b = {0};
    ck_assert_int_eq(coding_encode(e, BYTES_LIT(TEXT), &b), 0);
    coding_encoder_free(e);
    return b;
}

/* One request with that body, by gRPC or HTTP. */
static void send_coded(struct serve *s, bool grpc, enum coding c, struct bytes body)
{
    cleanup(buffer_release) struct buffer wire = {0};
    uint8_t prefix[GRPC_PREFIX_BYTES];
    grpc_prefix_write(prefix, true, (uint32_t)body.n);
    if (grpc)
        ck_assert_int_eq(buffer_add(&wire, prefix, sizeof prefix), 0);
    ck_assert_int_eq(buffer_add_bytes(&wire, body), 0);
    struct call call = {.path = grpc ? GRPC_PATH : HTTP_PATH, .body = buffer_bytes(&wire)};
    call.headers[0] = grpc ? (struct http_header)GRPC_TYPE : (struct http_header)PROTO_TYPE;
    call.headers[1] = (struct http_header){grpc ? BYTES_LIT("grpc-encoding") : BYTES_LIT("content-encoding"),
                                           bytes_str(coding_name(c))};
    const unsigned before = n_pushes;
    ask(s, &call);
    ck_assert_uint_eq(n_pushes, before + 1);
    ck_assert(bytes_is(buffer_bytes(&pushed), TEXT));
    ck_assert_int_eq(received_coding, c);
}

UNIT(one_whole_member_may_go_on_as_it_is)
{
    struct budget budget = BUDGET_INIT(1 << 20, NULL);
    struct serve *s = serve_with(1 << 20, &budget);
    for (int grpc = 0; grpc < 2; grpc++)
        for (size_t i = 0; i < ARRAY_LEN(codings); i++) {
            cleanup(buffer_release) struct buffer b = coded(codings[i]);
            send_coded(s, grpc, codings[i], buffer_bytes(&b));
            ck_assert(received_whole);
            ck_assert(bytes_eq(buffer_bytes(&received_bytes), buffer_bytes(&b)));
        }
    fake_release(s);
}

/* Of several members many receivers read the first one only. */
UNIT(several_members_may_not)
{
    struct serve *s = serve_with(1 << 20, NULL);
    static const uint8_t skippable[] = {0x50, 0x2a, 0x4d, 0x18, 0, 0, 0, 0};
    struct buffer gzip = coded(CODING_GZIP), zstd = coded(CODING_ZSTD);
    struct coding_encoder *e = unit_made(coding_encoder_new(CODING_GZIP, 0));
    ck_assert_int_eq(coding_encode(e, bytes_of(NULL, 0), &gzip), 0); /* an empty one behind it */
    ck_assert_int_eq(buffer_add(&zstd, skippable, sizeof skippable), 0);
    for (int grpc = 0; grpc < 2; grpc++) {
        send_coded(s, grpc, CODING_GZIP, buffer_bytes(&gzip));
        ck_assert(!received_whole);
        send_coded(s, grpc, CODING_ZSTD, buffer_bytes(&zstd));
        ck_assert(!received_whole);
    }
    coding_encoder_free(e);
    buffer_release(&gzip);
    buffer_release(&zstd);
    fake_release(s);
}

/* gRPC: the flag decides, not the head. */
UNIT(plain_bytes_came_plain)
{
    struct serve *s = serve_with(1 << 20, NULL);
    const struct call calls[] = {
        {.path = HTTP_PATH, .headers = {PROTO_TYPE}, .body = BYTES_LIT("x")},
        {.path = GRPC_PATH,
         .headers = {GRPC_TYPE, H("grpc-encoding", "gzip")},
         .body = BYTES_LIT("\0\0\0\0\1x")},
    };
    for (size_t i = 0; i < ARRAY_LEN(calls); i++) {
        ask(s, &calls[i]);
        ck_assert_int_eq(received_coding, CODING_IDENTITY);
        ck_assert(!received_whole);
    }
    fake_release(s);
}

/* What is written again as protobuf is not what came, however that was coded. */
UNIT(json_may_not)
{
    struct serve *s = serve_with(1 << 20, NULL);
    struct coding_encoder *e = unit_made(coding_encoder_new(CODING_GZIP, 0));
    struct buffer b = {0};
    ck_assert_int_eq(coding_encode(e, BYTES_LIT("{}"), &b), 0);
    struct call call = {
        .path = HTTP_PATH, .headers = {JSON_TYPE, H("content-encoding", "gzip")}, .body = buffer_bytes(&b)};
    ask(s, &call);
    ck_assert_uint_eq(n_pushes, 1);
    ck_assert_int_eq(received_coding, CODING_GZIP);
    ck_assert(!received_whole);
    coding_encoder_free(e);
    buffer_release(&b);
    fake_release(s);
}

/* What is taken over is off the budget and gone, and the next request finds memory anew. */
UNIT(memory_that_was_taken_over)
{
    struct budget budget = BUDGET_INIT(1 << 20, NULL);
    struct serve *s = serve_with(1 << 20, &budget);
    size_t before = 0;
    take_received = true;
    for (int i = 0; i < 4; i++)
        for (int grpc = 0; grpc < 2; grpc++) {
            struct buffer b = coded(CODING_GZIP);
            send_coded(s, grpc, CODING_GZIP, buffer_bytes(&b));
            ck_assert(before == 0 || atomic_load(&budget.used) == before);
            before = atomic_load(&budget.used);
            buffer_release(&b);
            struct call plain = {.path = HTTP_PATH, .headers = {PROTO_TYPE}, .body = BYTES_LIT(TEXT)};
            ask(s, &plain);
            ck_assert(bytes_is(buffer_bytes(&pushed), TEXT));
        }
    take_received = false;
    fake_release(s);
    ck_assert_uint_eq(atomic_load(&budget.used), 0);
}
