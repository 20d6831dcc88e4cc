/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whose turn it is on a worker: work for addresses that have used much of it lately waits in queues, one for
 * each address, which take turns: a little in each turn of the loop, while everybody else's is done as it
 * comes. For gateway/listen only; one thread.
 *
 * Nobody is refused for it: a sender that is alone uses all there is. But a flood of requests, frames or
 * connections from one address, or of requests that take milliseconds each, costs the others at most
 * TURNS_ROUND_NS and one piece of work in a turn.
 */
#ifndef GATEWAY_LISTEN_TURNS_H
#define GATEWAY_LISTEN_TURNS_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/base/clock.h"
#include "proto/base/rounds.h"

/* One connection's turn: after this time what is left of its input waits. Looked at after every TURNS_PIECE
 * bytes, so that a clock is not read for each request. */
#define TURNS_ONE_NS (200u * 1000)
#define TURNS_PIECE  (16u << 10)
/* What reading takes, which is over when it can be measured: 128 KiB in 33 us. */
#define TURNS_BYTES_PER_NS 4u
/* All of the queues in one turn of the loop. */
#define TURNS_ROUND_NS (400u * 1000)

/* An address is busy when it used so much time more than its free share of the worker: a tenth, which is
 * 160 requests a second as profilers send them (23 to 175 KB, 0.6 ms each). What it used is forgotten in as
 * many times ten, four seconds at most. An eighth let a flood of large bodies be served without a queue,
 * since they cost a worker no more than that: in turns of 2.6 ms. */
#define TURNS_BUSY_NS  (20u * 1000 * 1000)
#define TURNS_SHARE    10u
#define TURNS_DEBT_MAX (420u * 1000 * 1000)

/* While no other address sent for so long, nobody waits: the queue would only cost. */
#define TURNS_ALONE_NS ((uint64_t)NSEC_PER_SEC)

/* Whose connection was ended for what nobody honest does is heard warily for so long. */
#define TURNS_WARY_NS (10 * (uint64_t)NSEC_PER_SEC)

/* Addresses by hash under the process's seed. Two in one place are one address: the quieter one may then have
 * to wait in the queue. */
#define TURNS_ADDRESSES 1024u

/* Embedded in what waits; the address is its owner's to set, by turns_address. */
struct turn {
    struct rounds_item item;
    uint32_t address;
};

struct turns {
    struct usage {
        uint64_t debt, at; /* ns of work above the share, at that time */
        uint64_t wary_until;
        struct rounds_queue queue;
    } usage[TURNS_ADDRESSES];
    struct rounds waiting;
    uint32_t last_address; /* that sent; TURNS_ADDRESSES: none yet */
    uint64_t others_seen;  /* when it was another one than before */
    uint64_t spent, at;    /* on busy addresses in this turn of the loop, which is known by its time */
};

void turns_init(struct turns *t);

/* A number for whom a peer's address belongs to (proto/io/address.h). */
uint32_t turns_host(const char *address);

/* Its place here. */
static inline uint32_t turns_address(uint32_t host)
{
    return host % TURNS_ADDRESSES;
}

/* Whether work for this address has to wait: it is busy, and others wait or the turn is used up. now: the
 * loop's time. */
bool turns_must_wait(struct turns *t, uint32_t address, uint64_t now);

/* Work took ns. */
void turns_charge(struct turns *t, uint32_t address, uint64_t now, uint64_t ns);

/* The same of work that was measured, of an address that may be busy soon by the processor time of the
 * thread: what others take of the machine meanwhile is not its doing, and would make it busy beside whoever
 * takes it. Of all others, and of who is alone, it is by the clock: processor time is a system call. `ended`:
 * by clock_monotonic. */
struct turns_spell {
    uint64_t began, cpu; /* cpu: of the thread then; 0: not measured */
};
struct turns_spell turns_spell_begin(const struct turns *t, uint32_t address, uint64_t now);
void turns_spell_charge(struct turns *t, uint32_t address, uint64_t now, struct turns_spell spell,
                        uint64_t ended);

/* A connection of the address was abused; whether one was of late. */
void turns_abused(struct turns *t, uint32_t address, uint64_t now);
bool turns_are_wary(const struct turns *t, uint32_t address, uint64_t now);

/* To the end of its address's queue; nothing happens if it waits already. */
void turns_wait(struct turns *t, struct turn *turn);

/* Out of the queue; nothing happens if it is not in it. */
void turns_leave(struct turns *t, struct turn *turn);

/* A turn of the loop for the queues: begin, then who comes next until NULL: the queues are empty or the time
 * is up. What was given is out of its queue, and the next one given is of the next address. */
void turns_begin(struct turns *t, uint64_t now);
struct turn *turns_next(struct turns *t);

static inline bool turns_is_empty(const struct turns *t)
{
    return !t->waiting.turn;
}

#endif
