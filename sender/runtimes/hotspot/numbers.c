/* SPDX-License-Identifier: Apache-2.0 */
#include "sender/runtimes/hotspot/numbers.h"

#include "proto/base/macros.h"

void numbers_begin(struct numbers *s, const struct source *memory, uint64_t at, uint32_t most, bool no_zeros)
{
    s->memory = memory;
    s->at = at;
    s->left = most;
    s->excluded = no_zeros;
    s->i = s->n = 0;
}

int numbers_byte(struct numbers *s)
{
    if (s->i == s->n) {
        s->n = (uint32_t)source_read_some(s->memory, s->at, s->piece,
                                          min_of(s->left, (uint32_t)sizeof s->piece));
        s->at += s->n;
        s->left -= s->n;
        s->i = 0;
        if (s->n == 0)
            return -1;
    }
    return s->piece[s->i++];
}

#define LAST_BELOW 192
#define BYTES_MAX  5u

bool numbers_next(struct numbers *s, uint32_t *ret)
{
    *ret = 0;
    for (uint32_t i = 0; i < BYTES_MAX; i++) {
        int byte = numbers_byte(s);
        if (byte < (int)s->excluded)
            return false;
        *ret += ((uint32_t)byte - s->excluded) << 6 * i;
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
