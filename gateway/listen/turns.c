/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A leaky bucket for each address says who is busy: work is added in nanoseconds, a tenth of the time
 * that passes leaks out, and above TURNS_BUSY_NS further work of the address waits, if anybody else sent
 * lately.
 *
 * Who waits is in his address's queue, and the queues form a ring: each turn of the loop they are given
 * TURNS_ROUND_NS, one connection of each address after the other. So the cost of being beside a flood is that
 * in a turn, however many connections the flood has. All others are never queued, and pay one
 * comparison.
 */
#include "gateway/listen/turns.h"

#include "proto/base/hash.h"
#include "proto/base/macros.h"
#include "proto/io/address.h"

void turns_init(struct turns *t)
{
    *t = (struct turns){0};
    t->last_address = TURNS_ADDRESSES;
}

uint32_t turns_host(const char *address)
{
    char key[ADDRESS_KEY_MAX];
    return (uint32_t)hash_bytes(address_key(address, key), hash_seed());
}

static void forget(struct usage *u, uint64_t now)
{
    uint64_t forgotten = now > u->at ? (now - u->at) / TURNS_SHARE : 0;
    u->debt -= min_of(u->debt, forgotten);
    u->at = now;
}

/* The loop's time stands still during a turn of it. */
static void look_at_clock(struct turns *t, uint64_t now)
{
    if (now == t->at)
        return;
    t->at = now;
    t->spent = 0;
}

static bool is_alone(const struct turns *t, uint64_t now)
{
    return now - t->others_seen >= TURNS_ALONE_NS;
}

bool turns_must_wait(struct turns *t, uint32_t address, uint64_t now)
{
    struct usage *u = &t->usage[address];
    if (address != t->last_address) {
        t->others_seen = t->last_address < TURNS_ADDRESSES ? now : 0;
        t->last_address = address;
    }
    if (u->debt > TURNS_BUSY_NS)
        forget(u, now);
    if (likely(u->debt <= TURNS_BUSY_NS))
        return false;
    look_at_clock(t, now);
    return !is_alone(t, now) && (!turns_is_empty(t) || t->spent >= TURNS_ROUND_NS);
}

void turns_charge(struct turns *t, uint32_t address, uint64_t now, uint64_t ns)
{
    struct usage *u = &t->usage[address];
    forget(u, now);
    u->debt = min_of(u->debt + ns, (uint64_t)TURNS_DEBT_MAX);
    if (u->debt > TURNS_BUSY_NS) {
        look_at_clock(t, now);
        t->spent += ns;
    }
}

/* Processor time is asked for where it may matter: 0.8 us on a virtual machine. */
struct turns_spell turns_spell_begin(const struct turns *t, uint32_t address, uint64_t now)
{
    const bool is_near = t->usage[address].debt > TURNS_BUSY_NS / 4 && !is_alone(t, now);
    return (struct turns_spell){clock_monotonic(), is_near ? clock_thread() : 0};
}

void turns_spell_charge(struct turns *t, uint32_t address, uint64_t now, struct turns_spell spell,
                        uint64_t ended)
{
    turns_charge(t, address, now, spell.cpu > 0 ? clock_thread() - spell.cpu : ended - spell.began);
}

void turns_abused(struct turns *t, uint32_t address, uint64_t now)
{
    t->usage[address].wary_until = now + TURNS_WARY_NS;
}

bool turns_are_wary(const struct turns *t, uint32_t address, uint64_t now)
{
    return now < t->usage[address].wary_until;
}

void turns_wait(struct turns *t, struct turn *turn)
{
    if (!turn->item.waits)
        rounds_join(&t->waiting, &t->usage[turn->address].queue, &turn->item);
}

void turns_leave(struct turns *t, struct turn *turn)
{
    if (turn->item.waits)
        rounds_leave(&t->waiting, &t->usage[turn->address].queue, &turn->item);
}

void turns_begin(struct turns *t, uint64_t now)
{
    t->at = now;
    t->spent = 0;
}

struct turn *turns_next(struct turns *t)
{
    struct rounds_queue *q = t->spent < TURNS_ROUND_NS ? rounds_next(&t->waiting) : NULL;
    if (!q)
        return NULL;
    struct turn *first = container_of(q->first, struct turn, item);
    turns_leave(t, first);
    return first;
}
