/* SPDX-License-Identifier: Apache-2.0 */
#include "sender/foreign/allowance.h"

#include "proto/base/clock.h"
#include "proto/base/hash.h"
#include "proto/base/macros.h"
#include "sender/foreign/payer.h"

/* Above this all is saved up, whatever was spent; products stay small. */
#define LONG_AGO_NS (3600 * (uint64_t)NSEC_PER_SEC)

int64_t allowance_left(const struct allowance *a)
{
    int64_t left = INT64_MAX;
    for (; a; a = a->from)
        left = min_of(left, a->left);
    return left;
}

bool allowance_is_spent(const struct allowance *a)
{
    return allowance_left(a) <= 0;
}

void allowance_charge(struct allowance *a, int64_t cost)
{
    for (; a; a = a->from) {
        a->left -= cost;
        a->charged += cost;
    }
}

void allowance_exhaust(struct allowance *a)
{
    for (const struct allowance *first = a; a && (a == first || a->from); a = a->from) /* not everybody's */
        a->left = min_of(a->left, INT64_C(0));
}

struct allowance allowance_beside(const struct allowance *share)
{
    struct allowance *user = share && share->from && share->from->from ? share->from : NULL;
    return (struct allowance){
        .left = user ? allowance_left(user) / 2 : 0, .from = user, .user = user ? user->user : UINT32_MAX};
}

uint32_t allowance_user(const struct allowance *a)
{
    while (a->from && a->from->from)
        a = a->from;
    return a->user;
}

void allowance_settle(struct allowance *a, int64_t charged, int64_t cost)
{
    int64_t rest = cost - (a->charged - charged);
    if (rest > 0)
        allowance_charge(a, rest);
}

void ledger_init(struct ledger *l, int64_t first)
{
    *l = (struct ledger){.all.left = LEDGER_SHARES * first, .first = first};
    for (uint32_t i = 0; i < LEDGER_USERS; i++)
        l->user[i] = (struct allowance){.left = first, .from = &l->all};
}

/* With `shares` of `of` shares of a user's. */
static void refill(struct allowance *a, uint64_t *when, uint64_t now, int64_t shares, int64_t of)
{
    uint64_t passed = now > *when ? min_of(now - *when, LONG_AGO_NS) : 0;
    int64_t back = (int64_t)(passed / 1000) * LEDGER_SECOND / 1000000 * shares / of,
            saved = LEDGER_SAVED * shares / of;
    if (back == 0)
        return; /* too little: it is not lost */
    *when = now;
    if (a->left < saved) /* above: some of what was there first is left */
        a->left = min_of(a->left + back, saved);
}

/* How many others have asked lately. */
static int64_t count_others(const struct ledger *l, uint32_t i, uint64_t now)
{
    int64_t n = 0;
    for (uint32_t other = 0; other < LEDGER_USERS; other++)
        n += other != i && l->asked[other] && now - l->asked[other] < LEDGER_ACTIVE_NS;
    return n;
}

struct allowance *ledger_of(struct ledger *l, uint32_t user, uint64_t now)
{
    const uint32_t payer = payer_of(user), i = (uint32_t)(hash_mix(payer, 0) % LEDGER_USERS);
    struct allowance *a = &l->user[i];
    int64_t n = 1 + count_others(l, i, now), of = n > LEDGER_SHARES ? n + 1 : LEDGER_SHARES;
    refill(&l->all, &l->all_when, now, LEDGER_SHARES, 1);
    refill(a, &l->when[i], now, LEDGER_SHARES, of);
    if (n > LEDGER_SHARES) /* as of a process */
        a->left = min_of(a->left, max_of(l->all.left, INT64_C(0)) / of);
    l->asked[i] = now;
    a->user = payer;
    return a;
}

/* A process is one of eight places, by hash. */
#define WAYS 8u

static bool is_active(const struct ledger_process *p, uint64_t now)
{
    return p->allowance.from && now - p->when < LEDGER_ACTIVE_NS;
}

/* Its place, or that which was not asked for for longest: while that still is another's, what he owes is its,
 * too. */
static struct ledger_process *place_of(struct ledger *l, const struct allowance *user, uint64_t whose)
{
    struct ledger_process *set = l->process + hash_mix(whose, user->user) % (LEDGER_PROCESSES / WAYS) * WAYS,
                          *oldest = set;
    for (struct ledger_process *p = set; p < set + WAYS; p++) {
        if (p->allowance.from == user && p->whose == whose)
            return p;
        if (p->when < oldest->when)
            oldest = p;
    }
    return oldest;
}

struct allowance *ledger_share(struct ledger *l, uint32_t user, uint64_t whose, uint64_t now)
{
    struct allowance *from = ledger_of(l, user, now);
    struct ledger_process *p = place_of(l, from, whose);
    int64_t n = 1;
    for (struct ledger_process *other = l->process; other < l->process + LEDGER_PROCESSES; other++)
        n += other != p && other->allowance.from == from && is_active(other, now);
    int64_t of = n > 1 ? n + 1 : 1;
    if (!is_active(p, now))
        *p = (struct ledger_process){.allowance.left = l->first, .when = now};
    p->whose = whose;
    p->allowance.from = from;
    p->allowance.user = from->user;
    refill(&p->allowance, &p->when, now, 1, of);
    if (n > 1) /* what one has saved up is no claim on what the user has left */
        p->allowance.left = min_of(p->allowance.left, max_of(from->left, INT64_C(0)) / of);
    return &p->allowance;
}
