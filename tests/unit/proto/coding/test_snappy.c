/* SPDX-License-Identifier: Apache-2.0 */
/* needs: dep_snappy */
#include <errno.h>
#include <snappy-c.h>
#include <stdlib.h>

#include "proto/coding/coding.h"
#include "proto/base/room.h"
#include "tests/lib/unit.h"

#define LIMIT ((size_t)1 << 20)

static struct coding_decoder *decoder(void)
{
    struct coding_decoder *d = unit_made(coding_decoder_new());
    return d;
}

static int unpack(struct bytes in, size_t limit, struct bytes want)
{
    struct budget budget = BUDGET_INIT(4 << 20, NULL);
    struct coding_decoder *d = decoder();
    struct buffer out = {0};
    int r = coding_decode(d, CODING_SNAPPY, in, limit, 0, &budget, &out);
    if (r == 0)
        ck_assert(bytes_eq(buffer_bytes(&out), want));
    else
        ck_assert_uint_eq(out.n, 0);
    ck_assert_uint_eq(atomic_load(&budget.used), out.cap);
    room_release(&out, &budget);
    coding_decoder_free(d);
    return r;
}

#define ID "\xff\x06\x00\x00sNaPpY"

/* RFC 3720, B.4, masked, as Snappy's frames have it: bit by bit, as nobody else here does it. */
static uint32_t masked_crc(struct bytes b)
{
    uint32_t crc = ~0u;
    for (size_t i = 0; i < b.n; i++) {
        crc ^= b.p[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78u : 0);
    }
    crc = ~crc;
    return (crc >> 15 | crc << 17) + 0xa282ead8;
}

/* A chunk "as it is", by hand. */
UNIT(a_stream_by_hand)
{
    const uint32_t crc = 0xe3069283, masked = (crc >> 15 | crc << 17) + 0xa282ead8;
    cleanup(buffer_release) struct buffer in = {0};
    buffer_add(&in, ID, 10);
    const uint8_t head[] = {1,
                            13,
                            0,
                            0,
                            (uint8_t)masked,
                            (uint8_t)(masked >> 8),
                            (uint8_t)(masked >> 16),
                            (uint8_t)(masked >> 24)};
    buffer_add(&in, head, sizeof head);
    buffer_add(&in, "123456789", 9);
    ck_assert_int_eq(unpack(buffer_bytes(&in), LIMIT, BYTES_LIT("123456789")), 0);
    ck_assert_int_eq(unpack(buffer_bytes(&in), 9, BYTES_LIT("123456789")), 0);
    ck_assert_int_eq(unpack(buffer_bytes(&in), 8, BYTES_LIT("123456789")), CODING_TOO_LARGE);
    for (size_t i = 11; i < in.n; i++) { /* length, checksum or data: any of them wrong is noticed */
        in.p[i] ^= 0x40;
        ck_assert_int_eq(unpack(buffer_bytes(&in), LIMIT, BYTES_LIT("123456789")), CODING_CORRUPT);
        in.p[i] ^= 0x40;
    }
    in.p[10] = 0x02; /* reserved, unskippable */
    ck_assert_int_eq(unpack(buffer_bytes(&in), LIMIT, BYTES_LIT("")), CODING_CORRUPT);
    in.p[10] = 0x7f;
    ck_assert_int_eq(unpack(buffer_bytes(&in), LIMIT, BYTES_LIT("")), CODING_CORRUPT);
    in.p[10] = 0x80; /* reserved, skippable */
    ck_assert_int_eq(unpack(buffer_bytes(&in), LIMIT, BYTES_LIT("")), 0);
    in.p[10] = 0xfe; /* padding */
    ck_assert_int_eq(unpack(buffer_bytes(&in), LIMIT, BYTES_LIT("")), 0);
    in.p[10] = 0xff; /* an identifier of another stream */
    ck_assert_int_eq(unpack(buffer_bytes(&in), LIMIT, BYTES_LIT("")), CODING_CORRUPT);
}

UNIT(nothing_is_the_stream_of_nothing)
{
    ck_assert_int_eq(unpack(BYTES_LIT(""), LIMIT, BYTES_LIT("")), 0);
    ck_assert_int_eq(unpack(bytes_of(ID, 10), LIMIT, BYTES_LIT("")), 0);
    ck_assert_int_eq(unpack(bytes_of(ID ID, 20), LIMIT, BYTES_LIT("")), 0);
}

UNIT(a_block_is_taken_too)
{
    static const char plain[] = "frame;frame;frame;frame;frame;frame;frame;frame;frame;frame;frame;frame;";
    char block[256];
    size_t n = sizeof block;
    ck_assert_int_eq(snappy_compress(plain, sizeof plain - 1, block, &n), SNAPPY_OK);
    ck_assert_uint_lt(n, sizeof plain - 1);
    ck_assert_int_eq(unpack(bytes_of(block, n), LIMIT, BYTES_LIT(plain)), 0);
    ck_assert_int_eq(unpack(bytes_of(block, n), sizeof plain - 1, BYTES_LIT(plain)), 0);
    ck_assert_int_eq(unpack(bytes_of(block, n), sizeof plain - 2, BYTES_LIT(plain)), CODING_TOO_LARGE);
    for (size_t cut = 1; cut < n; cut++)
        ck_assert_int_ne(unpack(bytes_of(block, cut), LIMIT, BYTES_LIT(plain)), 0);
    ck_assert_int_eq(unpack(bytes_of("\x00", 1), LIMIT, BYTES_LIT("")), 0); /* the block of nothing */
}

/* What remote write wants: no frames; and the library takes it back. */
UNIT(a_block_is_written_too)
{
    static char plain[200000], again[sizeof plain];
    for (size_t i = 0; i < sizeof plain; i++)
        plain[i] = (char)("frame;"[i % 6] + (i / 60000));
    static const size_t sizes[] = {0, 1, 70, 65536, 65537, sizeof plain};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        cleanup(buffer_release) struct buffer out = BUFFER_INIT(0);
        size_t n = sizeof again;
        ck_assert_int_eq(buffer_add_str(&out, "before"), 0);
        ck_assert_int_eq(coding_encode_snappy_block(bytes_of(plain, sizes[i]), &out), 0);
        ck_assert_int_eq(snappy_uncompress((const char *)out.p + 6, out.n - 6, again, &n), SNAPPY_OK);
        ck_assert_uint_eq(n, sizes[i]);
        ck_assert_mem_eq(again, plain, n);
    }
    cleanup(buffer_release) struct buffer small = BUFFER_INIT(64);
    ck_assert_int_eq(coding_encode_snappy_block(bytes_of(plain, 1000), &small), -ENOBUFS);
    ck_assert_uint_eq(small.n, 0);
}

/* What a preamble says is a claim: 4 GiB - 1 out of six bytes is refused before anything is allocated. */
UNIT(a_claim_that_cannot_be_costs_nothing)
{
    const uint8_t block[] = {0xff, 0xff, 0xff, 0xff, 0x0f, 0x00};
    ck_assert_int_eq(unpack(bytes_of(block, sizeof block), LIMIT, BYTES_LIT("")), CODING_CORRUPT);
    ck_assert_int_eq(unpack(bytes_of(block, sizeof block), (size_t)5 << 30, BYTES_LIT("")), CODING_CORRUPT);
}

/* The most elements of three bytes make of a block is within what is believed. */
UNIT(the_densest_block_is_taken)
{
    cleanup(buffer_release) struct buffer in = {0}, want = {0};
    const uint32_t copies = 1000, n = 1 + 64 * copies;
    const uint8_t head[] = {(uint8_t)(n | 0x80), (uint8_t)(n >> 7 | 0x80), (uint8_t)(n >> 14), 0x00, 'a'};
    buffer_add(&in, head, sizeof head);
    for (uint32_t i = 0; i < copies; i++)
        buffer_add(&in, "\xfe\x01\x00", 3);
    for (uint32_t i = 0; i < n; i++)
        buffer_add(&want, "a", 1);
    ck_assert_int_eq(unpack(buffer_bytes(&in), LIMIT, buffer_bytes(&want)), 0);
}

UNIT(a_chunk_above_64_kib_is_refused)
{
    cleanup(buffer_release) struct buffer in = {0}, zeros = {0};
    const size_t n = 65537;
    ck_assert_int_eq(buffer_reserve(&zeros, n), 0);
    memset(zeros.p, 0, n);
    const uint32_t masked = masked_crc(bytes_of(zeros.p, n));
    const uint8_t head[] = {1,
                            0x05,
                            0x00,
                            0x01,
                            (uint8_t)masked,
                            (uint8_t)(masked >> 8),
                            (uint8_t)(masked >> 16),
                            (uint8_t)(masked >> 24)};
    buffer_add(&in, ID, 10);
    buffer_add(&in, head, sizeof head);
    buffer_add(&in, zeros.p, n);
    ck_assert_int_eq(unpack(buffer_bytes(&in), LIMIT, bytes_of(zeros.p, n)), CODING_CORRUPT);
    in.p[11] = 0x04; /* 65536: the checksum is another one, and nothing else is wrong */
    in.n--;
    const uint32_t masked2 = masked_crc(bytes_of(zeros.p, n - 1));
    for (int i = 0; i < 4; i++)
        in.p[14 + i] = (uint8_t)(masked2 >> (8 * i));
    ck_assert_int_eq(unpack(buffer_bytes(&in), LIMIT, bytes_of(zeros.p, n - 1)), 0);
}
