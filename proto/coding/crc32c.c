/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/coding/crc32c.h"

#define POLYNOMIAL 0x82f63b78u /* reflected */

static uint32_t table[256];

static uint32_t update_by_table(uint32_t crc, const uint8_t *p, size_t n)
{
    for (; n > 0; p++, n--)
        crc = table[(crc ^ *p) & 0xff] ^ crc >> 8;
    return crc;
}

static uint32_t (*update)(uint32_t crc, const uint8_t *p, size_t n) = update_by_table;

#if defined(__x86_64__)

/* SSE 4.2 has an instruction for this very polynomial. */
__attribute__((target("sse4.2"))) static uint32_t update_by_sse42(uint32_t crc, const uint8_t *p, size_t n)
{
    uint64_t wide = crc, word;
    for (; n >= sizeof word; p += sizeof word, n -= sizeof word) {
        memcpy(&word, p, sizeof word);
        wide = __builtin_ia32_crc32di(wide, word);
    }
    crc = (uint32_t)wide;
    for (; n > 0; p++, n--)
        crc = __builtin_ia32_crc32qi(crc, *p);
    return crc;
}

#endif

/* Before main, so that no thread sees it change. */
__attribute__((constructor)) static void prepare(void)
{
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t crc = i;
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? POLYNOMIAL : 0);
        table[i] = crc;
    }
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("sse4.2"))
        update = update_by_sse42;
#endif
}

uint32_t crc32c(struct bytes b)
{
    return ~update(~0u, b.p, b.n);
}
