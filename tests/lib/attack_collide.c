/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/attack_collide.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/base/hash.h"

#define LANE_STRIPE   (12u * 64u) /* where word 0 of the key's other word of the pair meets the input */
#define DIFFERENCE    UINT64_C(0x060a0410) /* of the low halves of words 0 and 12: the likeliest */
#define STREAM_FACTOR UINT32_C(2654435769)

/* Bits of the high half whose keys are mostly equal then. None is a byte's highest: the names are ASCII. */
static const uint8_t free_bit[] = {0, 1, 2, 3, 4, 5, 10, 14, 27, 28, 29, 30};
_Static_assert(COLLIDE_LONGS == 1u << sizeof free_bit, "one name for each choice");

void collide_long(uint8_t ret[COLLIDE_LONG_BYTES], uint32_t i)
{
    memset(ret, 'a', COLLIDE_LONG_BYTES);
    uint64_t one, other;
    memcpy(&one, ret, sizeof one);
    other = one ^ DIFFERENCE;
    for (uint32_t k = 0; k < sizeof free_bit; k++) {
        uint64_t bit = UINT64_C(1) << (32 + free_bit[k]);
        one = i >> k & 1 ? one | bit : one & ~bit;
        other = i >> k & 1 ? other & ~bit : other | bit;
    }
    memcpy(ret, &one, sizeof one);
    memcpy(ret + LANE_STRIPE, &other, sizeof other);
}

size_t collide_short(char *ret, uint64_t *at, unsigned bits)
{
    for (;;) {
        int n = snprintf(ret, COLLIDE_SHORT_MAX, "%llx", (unsigned long long)(*at)++);
        if (hash_bytes(bytes_of(ret, (size_t)n), 0) << (64 - bits) == 0)
            return (size_t)n;
    }
}

uint64_t collide_pair(uint64_t *at, unsigned bits)
{
    for (;;) {
        uint64_t n = (*at)++, key = (n >> 16) << 32 | (n & 0xffff);
        if (hash_mix(key, 0) << (64 - bits) == 0)
            return key;
    }
}

static int by_number(const void *a, const void *b)
{
    const uint32_t *x = a, *y = b;
    return *x < *y ? -1 : *x > *y;
}

void collide_streams(uint32_t *ret, uint32_t n)
{
    uint32_t inverse = 1; /* Newton: each step doubles the bits that are right */
    for (int i = 0; i < 5; i++)
        inverse *= 2 - STREAM_FACTOR * inverse;
    uint32_t found = 0;
    for (uint32_t product = 1; found < n; product += 2) {
        uint32_t stream = product * inverse;
        if (stream < UINT32_C(1) << 31)
            ret[found++] = stream;
    }
    qsort(ret, n, sizeof *ret, by_number);
}
