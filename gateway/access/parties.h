/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Clients, or tenants: a bounded table of those seen, by key, with what each has under way. Found under a
 * shard's lock at first sight only; afterwards the holder of a reference counts with atomics. One that nobody
 * refers to is kept, for its rate, until its room is needed; when all are in use, new ones share one entry
 * (and its limits).
 */
#ifndef GATEWAY_ACCESS_PARTIES_H
#define GATEWAY_ACCESS_PARTIES_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "gateway/access/gcra.h"
#include "proto/base/budget.h"
#include "proto/base/bytes.h"

#define PARTY_KEY_MAX 288u /* the longest name of a certificate, and what kind of name it is */

struct party_shard;

struct party {
    struct party *chain;         /* of its hash */
    struct party *older, *newer; /* while nobody refers to it */
    struct party_shard *shard;   /* NULL: the shared one */
    atomic_uint refs;
    atomic_uint connections, requests;
    struct gcra rate;
    struct budget memory;
    uint64_t hash;
    uint32_t n_key;
    uint8_t key[];
};

struct parties;

/* capacity: a power of two, at least 64. memory: the limit of each, SIZE_MAX for none. budget pays for the
 * entries and may be NULL. NULL: memory is out. */
struct parties *parties_new(uint32_t capacity, size_t memory, struct budget *budget);
/* Nobody refers to any. Returns NULL; NULL is fine. */
struct parties *parties_free(struct parties *t);

/* Whether one that holds as much of the budget may hold n more, of what is left to all (proto/base/share.h).
 */
bool parties_share_allows(const struct parties *t, const struct party *p, size_t n);

/* The one of that key (n <= PARTY_KEY_MAX), with a reference; never NULL. Any thread. */
struct party *parties_find(struct parties *t, struct bytes key);

/* One more reference, for a holder of one. */
struct party *party_hold(struct party *p);
/* NULL is fine. Returns NULL. */
struct party *party_drop(struct party *p);

static inline struct bytes party_key(const struct party *p)
{
    return bytes_of(p->key, p->n_key);
}

/* How many the table holds. */
uint32_t parties_count(const struct parties *t);

#endif
