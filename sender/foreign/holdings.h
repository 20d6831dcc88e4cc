/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How much each user holds of something that is bounded and all share. When nothing is left of it, it is who
 * holds most that makes room: so nobody drives out others' by running many programs.
 *
 *     struct holdings files = {0};
 *     uint8_t holder = holder_of(process->user);                       kept with the file
 *     holdings_add(&files, holder, 1); … holdings_take(&files, holder, 1);
 *     … one of files.most leaves …
 */
#ifndef SENDER_FOREIGN_HOLDINGS_H
#define SENDER_FOREIGN_HOLDINGS_H

#include <stdint.h>

#include "proto/base/hash.h"
#include "sender/foreign/payer.h"

/* Users are told apart by this many; of more, some share what they may hold. */
#define HOLDERS 64u

struct holdings {
    uint64_t of[HOLDERS];
    uint8_t most; /* one of those who hold most */
};

/* As whom a user counts, by who pays for him. */
static inline uint8_t holder_of(uint32_t user)
{
    return (uint8_t)(hash_mix(payer_of(user), 0) % HOLDERS);
}

static inline void holdings_add(struct holdings *h, uint8_t holder, uint64_t n)
{
    h->of[holder] += n;
    if (h->of[holder] > h->of[h->most])
        h->most = holder;
}

/* Of what it holds. */
static inline void holdings_take(struct holdings *h, uint8_t holder, uint64_t n)
{
    h->of[holder] -= n;
    if (holder != h->most)
        return;
    for (uint8_t i = 0; i < HOLDERS; i++)
        if (h->of[i] > h->of[h->most])
            h->most = i;
}

#endif
