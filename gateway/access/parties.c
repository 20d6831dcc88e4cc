/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/access/parties.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>

#include "proto/base/hash.h"
#include "proto/base/share.h"
#include "proto/base/thread.h"

#define SHARDS 16u

struct party_shard {
    struct parties *table;
    pthread_mutex_t lock; /* all below, and refs' way to and from 0 */
    struct party **chains;
    struct party *oldest, *newest; /* those that nobody refers to */
    uint32_t n;
};

struct parties {
    struct party_shard shards[SHARDS];
    uint32_t per_shard;
    size_t memory;
    struct budget *budget;
    struct party shared; /* has no key */
};

struct parties *parties_new(uint32_t capacity, size_t memory, struct budget *budget)
{
    struct parties *t = calloc(1, sizeof *t);
    if (!t)
        return NULL;
    t->per_shard = capacity / SHARDS;
    t->memory = memory;
    t->budget = budget;
    t->shared.memory = (struct budget)BUDGET_INIT(memory, NULL);
    for (uint32_t i = 0; i < SHARDS; i++) {
        t->shards[i].table = t;
        pthread_mutex_init(&t->shards[i].lock, NULL);
    }
    for (uint32_t i = 0; i < SHARDS; i++) {
        t->shards[i].chains = calloc(t->per_shard, sizeof *t->shards[i].chains);
        if (!t->shards[i].chains)
            return parties_free(t);
    }
    return t;
}

bool parties_share_allows(const struct parties *t, const struct party *p, size_t n)
{
    if (!t->budget)
        return true;
    const size_t used = atomic_load_explicit(&t->budget->used, memory_order_relaxed);
    return share_allows(t->budget->limit, used, atomic_load_explicit(&p->memory.used, memory_order_relaxed),
                        n);
}

static size_t size_of(const struct party *p)
{
    return sizeof *p + p->n_key;
}

static void destroy(struct parties *t, struct party *p)
{
    budget_refund(t->budget, size_of(p));
    free(p);
}

struct parties *parties_free(struct parties *t)
{
    if (!t)
        return NULL;
    for (uint32_t i = 0; i < SHARDS; i++) {
        struct party_shard *s = &t->shards[i];
        for (struct party *p = s->oldest, *newer; p; p = newer) {
            newer = p->newer;
            destroy(t, p);
            s->n--;
        }
        assert(s->n == 0);
        free(s->chains);
        pthread_mutex_destroy(&s->lock);
    }
    free(t);
    return NULL;
}

/* ---- under the shard's lock ---- */

static struct party **chain_of(struct party_shard *s, uint64_t hash)
{
    return &s->chains[(hash / SHARDS) & (s->table->per_shard - 1)];
}

static void idle_remove(struct party_shard *s, struct party *p)
{
    *(p->older ? &p->older->newer : &s->oldest) = p->newer;
    *(p->newer ? &p->newer->older : &s->newest) = p->older;
    p->older = p->newer = NULL;
}

static void idle_add(struct party_shard *s, struct party *p)
{
    p->older = s->newest;
    p->newer = NULL;
    *(s->newest ? &s->newest->newer : &s->oldest) = p;
    s->newest = p;
}

/* Makes room by forgetting the one that was idle longest. False: all are in use. */
static bool evict(struct party_shard *s)
{
    struct party *p = s->oldest;
    if (!p)
        return false;
    struct party **at = chain_of(s, p->hash);
    while (*at != p)
        at = &(*at)->chain;
    *at = p->chain;
    idle_remove(s, p);
    s->n--;
    destroy(s->table, p);
    return true;
}

static struct party *add(struct party_shard *s, struct bytes key, uint64_t hash)
{
    struct parties *t = s->table;
    if (s->n >= t->per_shard && !evict(s))
        return NULL;
    size_t size = sizeof(struct party) + key.n;
    if (!budget_charge(t->budget, size))
        return NULL;
    struct party *p = calloc(1, size);
    if (!p) {
        budget_refund(t->budget, size);
        return NULL;
    }
    p->shard = s;
    p->hash = hash;
    p->memory = (struct budget)BUDGET_INIT(t->memory, NULL);
    p->n_key = (uint32_t)key.n;
    if (key.n > 0)
        memcpy(p->key, key.p, key.n);
    atomic_init(&p->refs, 1);
    struct party **chain = chain_of(s, hash);
    p->chain = *chain;
    *chain = p;
    s->n++;
    return p;
}

static struct party *find(struct party_shard *s, struct bytes key, uint64_t hash)
{
    for (struct party *p = *chain_of(s, hash); p; p = p->chain)
        if (p->hash == hash && bytes_eq(party_key(p), key)) {
            if (atomic_fetch_add_explicit(&p->refs, 1, memory_order_relaxed) == 0)
                idle_remove(s, p);
            return p;
        }
    return NULL;
}

/* ---- for everybody ---- */

struct party *parties_find(struct parties *t, struct bytes key)
{
    uint64_t hash = hash_bytes(key, hash_seed());
    struct party_shard *s = &t->shards[hash % SHARDS];
    pthread_mutex_lock(&s->lock);
    struct party *p = find(s, key, hash);
    if (!p)
        p = add(s, key, hash);
    pthread_mutex_unlock(&s->lock);
    return p ? p : party_hold(&t->shared);
}

struct party *party_hold(struct party *p)
{
    atomic_fetch_add_explicit(&p->refs, 1, memory_order_relaxed);
    return p;
}

struct party *party_drop(struct party *p)
{
    if (!p)
        return NULL;
    if (!p->shard) {
        atomic_fetch_sub_explicit(&p->refs, 1, memory_order_relaxed);
        return NULL;
    }
    unsigned refs = atomic_load_explicit(&p->refs, memory_order_relaxed);
    while (refs > 1)
        if (atomic_compare_exchange_weak_explicit(&p->refs, &refs, refs - 1, memory_order_release,
                                                  memory_order_relaxed))
            return NULL;
    struct party_shard *s = p->shard;
    autolock(&s->lock);
    if (atomic_fetch_sub_explicit(&p->refs, 1, memory_order_acq_rel) == 1)
        idle_add(s, p);
    return NULL;
}

uint32_t parties_count(const struct parties *t)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < SHARDS; i++)
        n += t->shards[i].n;
    return n;
}
