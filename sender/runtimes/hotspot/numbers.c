/* SPDX-License-Identifier: Apache-2.0 */
#include "sender/runtimes/hotspot/numbers.h"

void numbers_begin(struct numbers *s, const struct source *memory, uint64_t at, uint32_t most, bool no_zeros)
{
    const struct extent of = {*memory, at, most};
    cursor_extent(&s->bytes, &of, 0);
    s->no_zeros = no_zeros;
}

#define LAST_BELOW 192
#define BYTES_MAX  5u

bool numbers_next(struct numbers *s, uint32_t *ret)
{
    *ret = 0;
    for (uint32_t i = 0; i < BYTES_MAX; i++) {
        int byte = cursor_next(&s->bytes);
        if (byte < s->no_zeros)
            return false;
        *ret += (uint32_t)(byte - s->no_zeros) << 6 * i;
        if (byte < LAST_BELOW)
            break;
    }
    return true;
}

bool numbers_signed(struct numbers *s, int32_t *ret)
{
    uint32_t number;
    bool is_there = numbers_next(s, &number);
    *ret = (int32_t)(number >> 1 ^ (0 - (number & 1)));
    return is_there;
}
