/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What reading of files and memory that belong to others may cost.
 *
 * The unit is a byte read, half a nanosecond or so with what is done with it; a call costs as much as
 * ALLOWANCE_CALL of them. Allowances stand in a row: a file's or process's draws on its user's, that on
 * everybody's. One that is overdrawn refuses, and those before it with it.
 *
 *     struct ledger ledger;                              one a thread
 *     ledger_init(&ledger, LEDGER_SAVED);
 *     struct allowance *user = ledger_of(&ledger, uid, now);
 *     struct allowance one = {.left = 8 << 20, .from = user};
 *     if (allowance_take(&one, n)) … read n bytes
 */
#ifndef SENDER_FOREIGN_ALLOWANCE_H
#define SENDER_FOREIGN_ALLOWANCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ALLOWANCE_CALL 2048
/* What time spent on something else than reading is worth. */
#define ALLOWANCE_OF_NS(ns) (2 * (int64_t)(ns))

struct allowance {
    int64_t left;
    int64_t charged;        /* all that ever was */
    struct allowance *from; /* whose this is a part of; NULL: nobody's */
    uint32_t user;          /* of a ledger: who pays for whom it was asked for last */
};

/* What may be read still, by it and by those it is a part of. Of NULL there is no end. */
int64_t allowance_left(const struct allowance *a);

/* Whether nothing may be read any more. NULL is never spent. */
bool allowance_is_spent(const struct allowance *a);

/* Charges what was done. */
void allowance_charge(struct allowance *a, int64_t cost);

/* Charges what work came to cost, of which what was charged since `charged` was so much is a part: bytes that
 * were paid for while they were read are not paid for again by the time it took. */
void allowance_settle(struct allowance *a, int64_t charged, int64_t cost);

/* Nothing more is to be had of it, and of its user's, until some comes back. NULL: nothing happens. */
void allowance_exhaust(struct allowance *a);

/* Half of what a user has left, for what one of his processes could not pay of its share. A user's own: none.
 */
struct allowance allowance_beside(const struct allowance *share);

/* Whose it is, of a ledger's or a part of one. */
uint32_t allowance_user(const struct allowance *a);

/* Charges one call that reads n bytes. False: it may not be made. NULL: it may. */
static inline bool allowance_take(struct allowance *a, size_t n)
{
    if (allowance_is_spent(a))
        return false;
    allowance_charge(a, ALLOWANCE_CALL + (int64_t)n);
    return true;
}

/* Users, by who pays for them (payer.h), are told apart by this many; of more, some share. */
#define LEDGER_USERS 64u
/* What comes back of a user's each second, and how much of it can be saved up: on a thread 0.8 % of a core in
 * the long run, and a fifth of a second at once. */
#define LEDGER_SECOND (16ll << 20)
#define LEDGER_SAVED  (384ll << 20)
/* All users together have that of so many: one of them cannot take it from the others. Of n that are more
 * each has 1 / (n + 1) of it, as processes have of their user's. */
#define LEDGER_SHARES 4

/* Likewise within a user: so many processes are told apart, of all users, and one that was not asked for
 * during this time has no share. A process has all of its user's while it is alone; of n each has 1 / (n + 1)
 * of what comes back: so they never take all of it, and who is new finds some. */
#define LEDGER_PROCESSES 256u
#define LEDGER_ACTIVE_NS 10000000000u

struct ledger_process {
    struct allowance allowance;
    uint64_t whose, when;
};

struct ledger {
    struct allowance all, user[LEDGER_USERS];
    uint64_t all_when, when[LEDGER_USERS]; /* as of when */
    uint64_t asked[LEDGER_USERS];          /* when somebody did last; 0: never */
    struct ledger_process process[LEDGER_PROCESSES];
    int64_t first;
};

/* `first` is there of each user's at the beginning: LEDGER_SAVED, or more, which does not come back. */
void ledger_init(struct ledger *l, int64_t first);

/* A user's, with what came back until now (CLOCK_MONOTONIC, ns). It stays where it is. */
struct allowance *ledger_of(struct ledger *l, uint32_t user, uint64_t now);

/* The share that one of a user's processes has of it; `whose`: a number that no other process has. It is that
 * process's until a later call may give it to another. */
struct allowance *ledger_share(struct ledger *l, uint32_t user, uint64_t whose, uint64_t now);

#endif
