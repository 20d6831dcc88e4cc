/* SPDX-License-Identifier: Apache-2.0 */
/* Sections packed with zlib, read here and there. */
#include "tests/lib/unit.h"

#include <errno.h>
#include <string.h>
#include <zlib.h>

#include "proto/base/macros.h"
#include "sender/symbolize/elf/packed.h"

#define SIZE (5u << 20)
#define WORK (1ll << 30)

/* Bytes that pack to about a third, the same each time. */
static void fill(uint8_t *plain)
{
    uint32_t x = 12345;
    for (size_t i = 0; i < SIZE; i++) {
        if (i % 7 == 0)
            x = x * 1664525 + 1013904223;
        plain[i] = (uint8_t)(x >> (8 * (i % 3)) & 31);
    }
}

struct both {
    uint8_t *plain, *bytes;
    uLongf n;
};

static struct both both_new(int level)
{
    struct both b = {.n = compressBound(SIZE)};
    b.plain = unit_made((uint8_t *)malloc(SIZE));
    b.bytes = unit_made((uint8_t *)malloc(b.n));
    fill(b.plain);
    ck_assert_int_eq(compress2(b.bytes, &b.n, b.plain, SIZE, level), Z_OK);
    return b;
}

static void both_free(struct both *b)
{
    free(b->plain);
    free(b->bytes);
}

static void check_reads(struct packed *p, const struct both *b, uint32_t seed, int rounds)
{
    uint8_t some[70000];
    for (int i = 0; i < rounds; i++) {
        seed = seed * 1664525 + 1013904223;
        size_t at = seed % SIZE, n = (seed >> 7) % (i % 8 ? 200 : sizeof some), want = min_of(n, SIZE - at);
        ck_assert_uint_eq(packed_read(p, at, some, n), want);
        ck_assert_int_eq(memcmp(some, b->plain + at, want), 0);
    }
}

UNIT(every_part_is_read_as_if_it_were_unpacked)
{
    for (int level = 0; level <= 9; level += 3) { /* 0: stored blocks; the others end within bytes */
        struct packed *p;
        cleanup(both_free) struct both b = both_new(level);
        int64_t work = WORK;
        struct source s = source_memory(bytes_of(b.bytes, b.n));
        ck_assert_int_eq(packed_new(&s, 0, b.n, SIZE, &p), 0);
        uint8_t byte;
        ck_assert_uint_eq(packed_read(p, 0, &byte, 1), 0); /* it is not in use yet */
        packed_use(p, &s, &work);
        check_reads(p, &b, 1, 150);
        packed_rest(p);
        ck_assert_uint_eq(packed_read(p, 0, &byte, 1), 0);
        packed_use(p, &s, &work);
        check_reads(p, &b, 2, 150);
        ck_assert_uint_eq(packed_read(p, SIZE, &byte, 1), 0);
        packed_free(p);
    }
}

UNIT(what_was_passed_once_is_begun_near_by)
{
    struct packed *p;
    cleanup(both_free) struct both b = both_new(6);
    uint8_t some[100];
    int64_t work = WORK;
    struct source s = source_memory(bytes_of(b.bytes, b.n));
    ck_assert_int_eq(packed_new(&s, 0, b.n, SIZE, &p), 0);
    ck_assert_uint_lt(packed_memory(p), 8192);
    packed_use(p, &s, &work);
    ck_assert_uint_eq(packed_read(p, SIZE - 100, some, 100), 100);
    int64_t first = WORK - work;
    ck_assert_int_gt(first, SIZE); /* each byte unpacked is paid for */
    packed_rest(p);
    work = WORK;
    packed_use(p, &s, &work);
    ck_assert_uint_eq(packed_read(p, SIZE - 100, some, 100), 100);
    ck_assert_int_eq(memcmp(some, b.plain + SIZE - 100, 100), 0);
    ck_assert_int_lt((WORK - work) * 8, first);
    ck_assert_uint_gt(packed_memory(p), 20000); /* the marks */
    ck_assert_uint_lt(packed_memory(p), PACKED_MARKS_MAX * 33000 + 8192);
    packed_free(p);
}

/* Once it has come out, no part of a section that is not large costs what is before it. */
UNIT(a_small_section_is_passed_once)
{
    struct packed *p;
    cleanup(both_free) struct both b = {.n = compressBound(SIZE)};
    uint8_t some[100];
    int64_t work = WORK;
    const size_t size = PACKED_SHELF_MAX - 1000, noise = 5 * PACKED_CHUNK;
    b.plain = unit_made((uint8_t *)malloc(SIZE));
    b.bytes = unit_made((uint8_t *)malloc(b.n));
    fill(b.plain);
    for (int has_noise = 0; has_noise < 2; has_noise++) {
        for (size_t i = 0, x = 1; has_noise && i < noise; i++, x = x * 6364136223846793005 + 1)
            b.plain[size / 2 + i] = (uint8_t)(x >> 56); /* packs to nothing less: to be unpacked each time */
        b.n = compressBound(SIZE);
        ck_assert_int_eq(compress2(b.bytes, &b.n, b.plain, size, 6), Z_OK);
        struct source s = source_memory(bytes_of(b.bytes, b.n));
        ck_assert_int_eq(packed_new(&s, 0, b.n, size, &p), 0);
        packed_use(p, &s, &work);
        ck_assert_uint_eq(packed_read(p, size - 100, some, 100), 100);
        packed_rest(p);
        size_t memory = packed_memory(p);
        ck_assert_uint_lt(memory, 3 * size / 4 + 8192);
        for (size_t at = size - 100; at > 60000; at -= 54321) {
            work = WORK;
            packed_use(p, &s, &work);
            ck_assert_uint_eq(packed_read(p, at, some, 100), 100);
            ck_assert_int_eq(memcmp(some, b.plain + at, 100), 0);
            ck_assert(has_noise || WORK - work <= PACKED_CHUNK);
            packed_rest(p);
        }
        ck_assert_uint_eq(packed_memory(p), memory);
        packed_free(p);
    }
}

UNIT(without_work_nothing_is_read)
{
    struct packed *p;
    cleanup(both_free) struct both b = both_new(6);
    uint8_t some[100];
    int64_t work = 300000;
    struct source s = source_memory(bytes_of(b.bytes, b.n));
    ck_assert_int_eq(packed_new(&s, 0, b.n, SIZE, &p), 0);
    packed_use(p, &s, &work);
    ck_assert_uint_eq(packed_read(p, 100, some, 100), 100);
    ck_assert_uint_eq(packed_read(p, SIZE - 100, some, 100), 0);
    ck_assert_int_lt(work, 0);
    ck_assert_int_gt(work, -200000);
    work = WORK;
    ck_assert_uint_eq(packed_read(p, SIZE - 100, some, 100), 100);
    packed_free(p);
}

UNIT(what_is_cut_or_damaged_ends)
{
    struct packed *p;
    cleanup(both_free) struct both b = both_new(6);
    uint8_t some[100];
    int64_t work = WORK;
    struct source s = source_memory(bytes_of(b.bytes, b.n));
    ck_assert_int_eq(packed_new(&s, 0, 2, SIZE, &p), -EBADMSG);
    ck_assert_int_eq(packed_new(&s, 1, b.n - 1, SIZE, &p), -EBADMSG); /* no zlib header there */
    ck_assert_int_eq(packed_new(&s, 0, b.n, PACKED_MAX + 1, &p), -EFBIG);
    ck_assert_int_eq(packed_new(&s, 0, b.n / 2, SIZE, &p), 0);
    packed_use(p, &s, &work);
    ck_assert_uint_eq(packed_read(p, 1000, some, 100), 100);
    ck_assert_uint_eq(packed_read(p, SIZE - 100, some, 100), 0);
    ck_assert_uint_eq(packed_read(p, 1000, some, 100), 100); /* what is before it stays good */
    ck_assert_int_eq(memcmp(some, b.plain + 1000, 100), 0);
    packed_free(p);
    ck_assert_int_eq(packed_new(&s, 0, b.n, 2ull * SIZE, &p), 0); /* it says to be longer than it is */
    packed_use(p, &s, &work);
    ck_assert_uint_eq(packed_read(p, SIZE - 50, some, 100), 50);
    ck_assert_uint_eq(packed_read(p, SIZE + 50000, some, 100), 0);
    packed_free(p);
    memset(b.bytes + b.n / 2, 0xff, 4096);
    ck_assert_int_eq(packed_new(&s, 0, b.n, SIZE, &p), 0);
    packed_use(p, &s, &work);
    ck_assert_uint_eq(packed_read(p, SIZE - 100, some, 100), 0);
    ck_assert_uint_eq(packed_read(p, 1000, some, 100), 100);
    packed_free(p);
}
