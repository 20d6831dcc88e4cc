/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is held for each of many clients beyond what came from them: accounts by a client's number, and the
 * meter of a thread, a budget whose growth is charged to the account of the client it works for.
 *
 * A limit holds for what a client has under way together, but not for the first piece of work of it: that
 * could never be done if it is large, nor two that are, if each waited for the other. It may grow beyond
 * while no more than METER_FIRST_EIGHTHS of the budget above the meter's are used, so that others still find
 * room. Where many clients hold much, the limit of each is less (share.h).
 */
#ifndef PROTO_BASE_METER_H
#define PROTO_BASE_METER_H

#include <stdint.h>

#include "proto/base/budget.h"

/* Clients by the remainder of their number. Two in one place are one client. */
#define ACCOUNTS_MAX 1024u

/* The part of the budget above, in eighths, that may be used when work beyond its client's limit grows. */
#define METER_FIRST_EIGHTHS 5u

struct meter;

struct account {
    atomic_size_t held;
    _Atomic(struct meter *) first; /* that works for it */
};

struct accounts {
    size_t limit; /* of each; SIZE_MAX: there is none */
    struct account of[ACCOUNTS_MAX];
};

static inline struct account *account_of(struct accounts *a, uint64_t client)
{
    return &a->of[client % ACCOUNTS_MAX];
}

/* One thread's, but for what its budget is given back. It may not move, and outlives what its budget was
 * charged for. */
struct meter {
    struct budget budget;
    struct accounts *accounts;
    struct account *account; /* of whom it works for; NULL: for nobody, and nothing is charged to anybody */
    size_t drawn;            /* charged there */
    bool is_spent;           /* the account had no room while other work was under way, since it began */
};

/* accounts: NULL for none. */
void meter_init(struct meter *m, struct accounts *accounts, struct budget *parent);

/* Growth is the client's from here on; 0: nobody's. False: the client holds as much as it may already, and
 * nothing has begun. */
bool meter_begin(struct meter *m, uint64_t client);

/* What the client was charged for is given back to it; what of it is still held is nobody's. */
void meter_end(struct meter *m);

/* What all may hold while it works: five eighths of the budget above where growth beyond the client's limit
 * is limited so; else that budget's limit. SIZE_MAX: there is none. */
size_t meter_most(const struct meter *m);

/* Whether the work that memory ended for would end so if it came again (budget_is_too_small, of the budget
 * above): not where its client's share ended it. */
bool meter_is_too_much(const struct meter *m);

#endif
