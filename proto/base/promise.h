/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What somebody waits for until several others, on any threads, have done their part.
 *
 * Made by one thread, which tells of each party that owes it something (promise_owe) before that party can
 * keep it, and then hands it to who waits (promise_await). Who is last frees it.
 */
#ifndef PROTO_BASE_PROMISE_H
#define PROTO_BASE_PROMISE_H

#include <stdatomic.h>
#include <stdbool.h>

struct promise {
    atomic_uint left; /* parties, and who waits or will */
    atomic_int failed;
    bool is_owed;
    bool forgives; /* set before it is handed over: r is 0 whatever parties say */
    void (*kept)(void *arg, int r);
    void *arg;
};

/* NULL: memory is out. */
struct promise *promise_new(void);

/* One that nobody owes anything. NULL is fine. Returns NULL. */
struct promise *promise_free(struct promise *p);

/* One party more. The maker's thread. */
void promise_owe(struct promise *p);

/* A party has done its part, or could not: r is 0 or -errno. Any thread; once for each promise_owe. */
void promise_keep(struct promise *p, int r);

/* kept(arg, r) is called once, by the last party, or from here where all have done their part; r is 0, or
 * what one that could not said. The promise is gone then. */
void promise_await(struct promise *p, void (*kept)(void *arg, int r), void *arg);

#endif
