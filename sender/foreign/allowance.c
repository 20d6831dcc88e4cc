/* SPDX-License-Identifier: Apache-2.0 */
#include "sender/foreign/allowance.h"

#include "proto/base/clock.h"
#include "proto/base/hash.h"
#include "proto/base/macros.h"

/* Above this all is saved up, whatever was spent; products stay small. */
#define LONG_AGO_NS (3600 * (uint64_t)NSEC_PER_SEC)

bool allowance_is_spent(const struct allowance *a)
{
    for (; a; a = a->from)
        if (a->left <= 0)
            return true;
    return false;
}

void allowance_charge(struct allowance *a, int64_t cost)
{
    for (; a; a = a->from) {
        a->left -= cost;
        a->charged += cost;
    }
}

void allowance_settle(struct allowance *a, int64_t charged, int64_t cost)
{
    int64_t rest = cost - (a->charged - charged);
    if (rest > 0)
        allowance_charge(a, rest);
}

void ledger_init(struct ledger *l, int64_t first)
{
    *l = (struct ledger){.all.left = LEDGER_SHARES * first};
    for (uint32_t i = 0; i < LEDGER_USERS; i++)
        l->user[i] = (struct allowance){.left = first, .from = &l->all};
}

static void refill(struct allowance *a, uint64_t *when, uint64_t now, int64_t shares)
{
    uint64_t passed = now > *when ? min_of(now - *when, LONG_AGO_NS) : 0;
    int64_t back = (int64_t)(passed / 1000) * LEDGER_SECOND / 1000000 * shares;
    if (back == 0)
        return; /* too little: it is not lost */
    *when = now;
    if (a->left < LEDGER_SAVED * shares) /* above: some of what was there first is left */
        a->left = min_of(a->left + back, LEDGER_SAVED * shares);
}

struct allowance *ledger_of(struct ledger *l, uint32_t user, uint64_t now)
{
    uint32_t i = (uint32_t)(hash_mix(user, 0) % LEDGER_USERS);
    refill(&l->all, &l->all_when, now, LEDGER_SHARES);
    refill(&l->user[i], &l->when[i], now, 1);
    l->user[i].user = user;
    return &l->user[i];
}
