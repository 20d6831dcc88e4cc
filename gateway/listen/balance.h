/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether a worker has so much more to do than another that it should give connections away. The kernel deals
 * connections out by a hash of addresses, and they last for days: of eight, six may be on one of two workers,
 * and one may have more to say than all others.
 *
 * Times are those spent on connections, by the clock on the wall, so that a worker which others keep from its
 * core has more to do and not less; in sums that halve with each window (BALANCE_WINDOW_NS). For
 * gateway/listen only.
 */
#ifndef GATEWAY_LISTEN_BALANCE_H
#define GATEWAY_LISTEN_BALANCE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define BALANCE_WINDOW_NS (50u * 1000 * 1000)
/* After connections were given away nobody is looked at until what they used here is forgotten. */
#define BALANCE_REST 5u
/* A worker that uses less than a twentieth of its core keeps what it has. */
#define BALANCE_LEAST_NS (2u * BALANCE_WINDOW_NS / 20)
/* …and so does one that uses less than an eighth more than the one that has least to do. */
#define BALANCE_PART 8u

/* What one worker says of itself; read by the others. */
struct balance_told {
    atomic_uint_least64_t used, window;
};

/* A sum of times that halves with each window. */
struct balance_sum {
    uint64_t ns, window;
};

uint64_t balance_get(const struct balance_sum *s, uint64_t window);

struct balance {
    struct balance_told *all; /* of n workers; this one is at `own` */
    uint32_t n, own;
    uint64_t window; /* the present one; windows are numbered from the epoch of the monotonic clock */
    uint64_t rest_until;
    struct balance_sum used; /* on all of its connections */
};

/* Work for a connection took ns. Whether the window is over, and balance_look is due. */
bool balance_charge(struct balance *b, struct balance_sum *connection, uint64_t now, uint64_t ns);

/* What this worker should give away, and to whom. */
struct balance_gift {
    uint32_t to;
    uint64_t excess, enough; /* how much more than `to` it uses; below the second nothing goes */
};

/* Begins a new window and tells the others. */
struct balance_gift balance_look(struct balance *b, uint64_t now);

/* What would be left of the excess without a connection that used so much; UINT64_MAX: it should not go. */
uint64_t balance_left(const struct balance_gift *gift, uint64_t used);

/* Some connections went. */
void balance_gave(struct balance *b);

#endif
