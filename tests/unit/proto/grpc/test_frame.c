/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/grpc/frame.h"

#include "proto/base/buffer.h"
#include "tests/lib/unit.h"

/* Feeds a body in pieces of `step` bytes; returns the event that ended it, MORE at a peaceful end. */
static enum grpc_read feed(struct grpc_reader *r, struct bytes body, size_t step, struct buffer *payload)
{
    for (size_t at = 0; at < body.n; at += step) {
        struct bytes piece = bytes_of(body.p + at, body.n - at < step ? body.n - at : step), part;
        for (;;) {
            enum grpc_read event = grpc_reader_next(r, &piece, &part);
            if (event == GRPC_READ_PAYLOAD)
                ck_assert_int_eq(buffer_add_bytes(payload, part), 0);
            else if (event == GRPC_READ_MORE)
                break;
            else if (event != GRPC_READ_HEAD)
                return event;
        }
        ck_assert_uint_eq(piece.n, 0);
    }
    return GRPC_READ_MORE;
}

UNIT(a_message_is_read_whatever_the_pieces)
{
    const struct bytes body = BYTES_LIT("\0\0\0\0\013hello world");
    for (size_t step = 1; step <= body.n; step++) {
        struct grpc_reader r = GRPC_READER_INIT(100);
        cleanup(buffer_release) struct buffer payload = {0};
        ck_assert_int_eq(feed(&r, body, step, &payload), GRPC_READ_MORE);
        ck_assert(grpc_reader_is_complete(&r));
        ck_assert(!r.compressed);
        ck_assert(bytes_is(buffer_bytes(&payload), "hello world"));
    }
}

UNIT(an_empty_message_is_a_message_and_an_empty_body_is_none)
{
    struct grpc_reader r = GRPC_READER_INIT(100);
    ck_assert(!grpc_reader_is_complete(&r));
    ck_assert_int_eq(feed(&r, BYTES_LIT("\0\0\0\0\0"), 5, NULL), GRPC_READ_MORE);
    ck_assert(grpc_reader_is_complete(&r));
}

UNIT(a_second_message_is_refused_at_its_first_byte)
{
    cleanup(buffer_release) struct buffer payload = {0};
    for (size_t step = 1; step < 8; step++) {
        struct grpc_reader r = GRPC_READER_INIT(100);
        ck_assert_int_eq(feed(&r, BYTES_LIT("\0\0\0\0\1a\0"), step, &payload), GRPC_READ_SECOND);
    }
    struct grpc_reader r = GRPC_READER_INIT(100);
    ck_assert_int_eq(feed(&r, BYTES_LIT("\0\0\0\0\0\0"), 6, &payload), GRPC_READ_SECOND);
}

UNIT(a_length_above_the_limit_is_refused_before_any_payload)
{
    struct grpc_reader at = GRPC_READER_INIT(256), above = GRPC_READER_INIT(255),
                       most = GRPC_READER_INIT(1 << 20);
    ck_assert_int_eq(feed(&at, BYTES_LIT("\0\0\0\1\0"), 1, NULL), GRPC_READ_MORE);
    ck_assert_int_eq(feed(&above, BYTES_LIT("\0\0\0\1\0"), 1, NULL), GRPC_READ_TOO_LARGE);
    ck_assert_int_eq(feed(&most, BYTES_LIT("\1\377\377\377\377"), 1, NULL), GRPC_READ_TOO_LARGE);
}

UNIT(a_flag_of_two_is_no_message)
{
    struct grpc_reader r = GRPC_READER_INIT(100);
    ck_assert_int_eq(feed(&r, BYTES_LIT("\2"), 1, NULL), GRPC_READ_BAD_FLAG);
}

UNIT(a_whole_body_is_cut_open)
{
    bool compressed = false;
    struct bytes message;
    ck_assert_int_eq(grpc_message_find(BYTES_LIT("\1\0\0\0\2ab"), 2, &compressed, &message),
                     GRPC_READ_PAYLOAD);
    ck_assert(compressed);
    ck_assert(bytes_is(message, "ab"));
    ck_assert_int_eq(grpc_message_find(BYTES_LIT("\0\0\0\0\0"), 2, &compressed, &message), GRPC_READ_PAYLOAD);
    ck_assert(!compressed);
    ck_assert_uint_eq(message.n, 0);
    ck_assert_int_eq(grpc_message_find(BYTES_LIT("\0\0\0\0\2a"), 2, &compressed, &message), GRPC_READ_MORE);
    ck_assert_int_eq(grpc_message_find(BYTES_LIT(""), 2, &compressed, &message), GRPC_READ_MORE);
    ck_assert_int_eq(grpc_message_find(BYTES_LIT("\0\0\0\0\3abc"), 2, &compressed, &message),
                     GRPC_READ_TOO_LARGE);
    ck_assert_int_eq(grpc_message_find(BYTES_LIT("\0\0\0\0\1ab"), 2, &compressed, &message),
                     GRPC_READ_SECOND);
}

UNIT(the_prefix_written_is_the_prefix_read)
{
    uint8_t prefix[GRPC_PREFIX_BYTES];
    grpc_prefix_write(prefix, true, 0x01020304);
    ck_assert_int_eq(memcmp(prefix, "\1\1\2\3\4", 5), 0);
}
