/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How much: connections, requests, bytes and memory, counted to a client and to a tenant.
 *
 * Parties (parties.h) are shared by all workers, so every count is an atomic that is raised first and taken
 * back where it passed the limit. A request is counted to its client, then to its tenant; where the second
 * says no, the first gets back what it gave. Bytes a second are a bucket in one word (gcra.h): a told length
 * is paid at the head, and what is more than the bucket holds is let in when it is full and makes a debt; one
 * that is not told makes a debt as it comes, and is cut off at a burst's worth of others' debt. What was let
 * in is then not wasted, and the average holds.
 */
#include <stdlib.h>

#include "gateway/access/access.h"
#include "gateway/access/parts.h"
#include "proto/base/clock.h"
#include "proto/base/hash.h"
#include "proto/base/macros.h"
#include "proto/io/address.h"

/* Memory is charged in steps, so that a body in small pieces costs few atomics. */
#define MEMORY_STEP (16u << 10)

enum scope { SCOPE_CLIENT, SCOPE_TENANT };

static enum access_verdict refuse(struct access_worker *w, enum scope scope, enum access_verdict verdict)
{
    static const enum stats_id ids[][2] = {
        [ACCESS_LIMIT_BYTES] = {STATS_LIMIT_CLIENT_BYTES, STATS_LIMIT_TENANT_BYTES},
        [ACCESS_LIMIT_CONNECTIONS] = {STATS_LIMIT_CLIENT_CONNECTIONS, STATS_LIMIT_CLIENT_CONNECTIONS},
        [ACCESS_LIMIT_REQUESTS] = {STATS_LIMIT_CLIENT_REQUESTS, STATS_LIMIT_TENANT_REQUESTS},
        [ACCESS_LIMIT_MEMORY] = {STATS_LIMIT_CLIENT_MEMORY, STATS_LIMIT_TENANT_MEMORY},
        [ACCESS_LIMIT_NEVER] = {STATS_LIMIT_CLIENT_MEMORY, STATS_LIMIT_TENANT_MEMORY},
    };
    stats_add(w->stats, ids[verdict][scope], 1);
    return verdict;
}

/* ---- connections ---- */

static bool count_one(atomic_uint *counter, uint32_t limit)
{
    if (atomic_fetch_add_explicit(counter, 1, memory_order_relaxed) < limit || limit == 0)
        return true;
    atomic_fetch_sub_explicit(counter, 1, memory_order_relaxed);
    return false;
}

static void uncount_one(atomic_uint *counter)
{
    atomic_fetch_sub_explicit(counter, 1, memory_order_relaxed);
}

bool access_admit(struct access_worker *w, struct http_peer *peer)
{
    struct access *a = w->access;
    char text[ADDRESS_KEY_MAX];
    struct bytes key = address_key(peer->address, text);
    struct connection_access *c = calloc(1, sizeof *c);
    if (!c)
        return false;
    c->address = hash_bytes(key, hash_seed());
    if (a->clients) {
        c->party = parties_find(a->clients, key);
        if (!count_one(&c->party->connections, a->client.of.connections)) {
            party_drop(c->party);
            free(c);
            refuse(w, SCOPE_CLIENT, ACCESS_LIMIT_CONNECTIONS);
            return false;
        }
    }
    peer->client = c;
    return true;
}

void access_leave(struct access_worker *w, struct http_peer *peer)
{
    struct connection_access *c = take_ptr(peer->client);
    if (!c)
        return;
    if (c->party) {
        uncount_one(&c->party->connections);
        party_drop(c->party);
    }
    free(c);
}

enum access_verdict connection_name(struct access_worker *w, struct connection_access *c, struct bytes name)
{
    struct access *a = w->access;
    uint8_t key[PARTY_KEY_MAX] = "name:";
    size_t n = sizeof "name:" - 1;
    if (!a->clients)
        return ACCESS_YES;
    name.n = min_of(name.n, sizeof key - n);
    memcpy(key + n, name.p, name.n);
    struct bytes whole = bytes_of(key, n + name.n);
    if (c->is_named && bytes_eq(party_key(c->party), whole))
        return ACCESS_YES;
    struct party *party = parties_find(a->clients, whole);
    if (party != c->party && !count_one(&party->connections, a->client.of.connections)) {
        party_drop(party);
        return refuse(w, SCOPE_CLIENT, ACCESS_LIMIT_CONNECTIONS);
    }
    if (party != c->party)
        uncount_one(&c->party->connections);
    party_drop(c->party);
    c->party = party;
    c->is_named = true;
    return ACCESS_YES;
}

/* ---- tenants ---- */

static bool is_tenant_char(uint8_t c)
{
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
           (c != 0 && strchr("!-_.*'()", c) != NULL);
}

bool access_is_tenant(struct bytes name)
{
    if (name.n > TENANT_MAX || bytes_is(name, ".") || bytes_is(name, ".."))
        return false;
    for (size_t i = 0; i < name.n; i++)
        if (!is_tenant_char(name.p[i]))
            return false;
    return true;
}

static enum access_verdict read_tenant(const struct access *a, const struct http_exchange *x,
                                       struct bytes *ret)
{
    struct bytes name = bytes_str(a->tenant_header);
    uint32_t n = 0;
    *ret = (struct bytes){0};
    for (uint32_t i = 0; i < x->n_headers; i++)
        if (bytes_eq(x->headers[i].name, name)) {
            *ret = bytes_trim(x->headers[i].value);
            n++;
        }
    if (n > 1 || !access_is_tenant(*ret))
        return ACCESS_BAD_TENANT;
    return ret->n == 0 && a->tenant_required ? ACCESS_NO_TENANT : ACCESS_YES;
}

/* With a reference of its own. */
static struct party *find_tenant(struct access_worker *w, struct bytes name)
{
    struct party **slot = &w->tenants[hash_bytes(name, hash_seed()) % WORKER_TENANTS];
    if (!*slot || !(*slot)->shard || !bytes_eq(party_key(*slot), name)) {
        party_drop(*slot);
        *slot = parties_find(w->access->tenants, name);
    }
    return party_hold(*slot);
}

/* ---- a request ---- */

static const struct limits *limits_of(const struct access *a, enum scope scope)
{
    return scope == SCOPE_CLIENT ? &a->client : &a->tenant;
}

/* A length that was told is paid for at once; else the bucket must not be in debt, and the bytes are owed as
 * they come: a request that was let in should not die half way for what it costs. */
static enum access_verdict enter_party(struct access_worker *w, struct party *p, enum scope scope,
                                       int64_t length, uint64_t now, uint64_t *retry_ns)
{
    const struct access_limits *l = &limits_of(w->access, scope)->of;
    if (!p)
        return ACCESS_YES;
    if (l->memory && length > 0 && (uint64_t)length > l->memory)
        return refuse(w, scope, ACCESS_LIMIT_NEVER);
    if (!count_one(&p->requests, l->requests)) {
        *retry_ns = NSEC_PER_SEC; /* how long the others take, nobody knows */
        return refuse(w, scope, ACCESS_LIMIT_REQUESTS);
    }
    uint64_t burst = limits_of(w->access, scope)->burst_ns;
    if (l->bytes_per_second) {
        uint64_t cost = length >= 0 ? gcra_cost((uint64_t)length, l->bytes_per_second) : 0;
        if (!gcra_take(&p->rate, now, min_of(cost, burst), burst, retry_ns)) {
            uncount_one(&p->requests);
            return refuse(w, scope, ACCESS_LIMIT_BYTES);
        }
        if (cost > burst) /* else it would be refused for ever: those behind it wait until it is paid */
            gcra_owe(&p->rate, now, cost - burst, burst);
    }
    return ACCESS_YES;
}

static void exit_party(struct party *p, uint64_t memory)
{
    if (!p)
        return;
    budget_refund(&p->memory, memory);
    uncount_one(&p->requests);
    party_drop(p);
}

/* client: NULL: there is none. */
static enum access_verdict enter(struct access_worker *w, struct party *client, struct bytes tenant,
                                 int64_t length, struct access_pass *pass, uint64_t now_ns,
                                 uint64_t *retry_ns)
{
    struct access *a = w->access;
    *pass = (struct access_pass){.paid = length >= 0};
    enum access_verdict verdict = enter_party(w, client, SCOPE_CLIENT, length, now_ns, retry_ns);
    if (verdict != ACCESS_YES)
        return verdict;
    struct party *of_tenant = a->tenants ? find_tenant(w, tenant) : NULL;
    verdict = enter_party(w, of_tenant, SCOPE_TENANT, length, now_ns, retry_ns);
    if (verdict != ACCESS_YES) {
        party_drop(of_tenant);
        if (client && a->client.of.bytes_per_second && pass->paid)
            gcra_return(&client->rate, gcra_cost((uint64_t)length, a->client.of.bytes_per_second));
        if (client)
            uncount_one(&client->requests);
        return verdict;
    }
    pass->client = client ? party_hold(client) : NULL;
    pass->tenant = of_tenant;
    return ACCESS_YES;
}

enum access_verdict access_enter(struct access_worker *w, const struct http_exchange *x,
                                 struct access_pass *pass, uint64_t now_ns, uint64_t *retry_ns)
{
    struct connection_access *c = x->peer ? x->peer->client : NULL;
    struct bytes tenant = {0};
    *pass = (struct access_pass){0};
    if (w->access->tenant_header) {
        enum access_verdict verdict = read_tenant(w->access, x, &tenant);
        if (verdict != ACCESS_YES)
            return verdict;
    }
    return enter(w, c ? c->party : NULL, tenant, x->content_length, pass, now_ns, retry_ns);
}

enum access_verdict access_enter_for(struct access_worker *w, struct bytes tenant, int64_t length,
                                     struct access_pass *pass, uint64_t now_ns, uint64_t *retry_ns)
{
    return enter(w, NULL, tenant, length, pass, now_ns, retry_ns);
}

static enum access_verdict pay(struct access_worker *w, const struct access_pass *pass, struct party *p,
                               enum scope scope, size_t n, uint64_t now, uint64_t *retry_ns)
{
    const struct limits *l = limits_of(w->access, scope);
    if (!p || !l->of.bytes_per_second)
        return ACCESS_YES;
    uint64_t debt = gcra_owe(&p->rate, now, gcra_cost(n, l->of.bytes_per_second), l->burst_ns);
    /* A burst's worth, or what the request owes itself: else many at once would owe without end. */
    if (debt <= max_of(l->burst_ns, gcra_cost(pass->received, l->of.bytes_per_second)))
        return ACCESS_YES;
    *retry_ns = debt;
    return refuse(w, scope, ACCESS_LIMIT_BYTES);
}

/* The memory limit that holds for the request: the smaller one; 0: none. */
static uint64_t memory_limit(const struct access *a, const struct access_pass *pass)
{
    uint64_t client = pass->client ? a->client.of.memory : 0, tenant = pass->tenant ? a->tenant.of.memory : 0;
    return client && tenant ? min_of(client, tenant) : max_of(client, tenant);
}

/* `holds`: what the request makes us hold, at least what was received. */
static enum access_verdict charge(struct access_worker *w, struct access_pass *pass, uint64_t holds,
                                  uint64_t limit, uint64_t *retry_ns)
{
    /* Rounded up, but a request that fits alone must not fail for the rounding. */
    uint64_t want = min_of((holds + MEMORY_STEP - 1) / MEMORY_STEP * MEMORY_STEP, limit);
    uint64_t more = want - pass->memory;
    *retry_ns = NSEC_PER_SEC;
    if (pass->client && !budget_charge(&pass->client->memory, more))
        return refuse(w, SCOPE_CLIENT, ACCESS_LIMIT_MEMORY);
    if (pass->tenant && !budget_charge(&pass->tenant->memory, more)) {
        if (pass->client)
            budget_refund(&pass->client->memory, more);
        return refuse(w, SCOPE_TENANT, ACCESS_LIMIT_MEMORY);
    }
    pass->memory = want;
    return ACCESS_YES;
}

/* Asked at each piece, not only when there is more to hold: what a client had when it was alone it gives back
 * when others need it. */
static enum access_verdict give_way(struct access_worker *w, const struct access_pass *pass, size_t n,
                                    uint64_t *retry_ns)
{
    const struct access *a = w->access;
    if (!pass->client || a->client.of.memory == 0 || parties_share_allows(a->clients, pass->client, n))
        return ACCESS_YES;
    *retry_ns = NSEC_PER_SEC;
    return refuse(w, SCOPE_CLIENT, ACCESS_LIMIT_MEMORY);
}

enum access_verdict access_body(struct access_worker *w, struct access_pass *pass, size_t n, uint64_t now_ns,
                                uint64_t *retry_ns)
{
    pass->received += n;
    if (!pass->paid) {
        enum access_verdict verdict = pay(w, pass, pass->client, SCOPE_CLIENT, n, now_ns, retry_ns);
        if (verdict == ACCESS_YES)
            verdict = pay(w, pass, pass->tenant, SCOPE_TENANT, n, now_ns, retry_ns);
        if (verdict != ACCESS_YES)
            return verdict;
    }
    return access_hold(w, pass, pass->received, retry_ns);
}

enum access_verdict access_hold(struct access_worker *w, struct access_pass *pass, size_t n,
                                uint64_t *retry_ns)
{
    const uint64_t limit = memory_limit(w->access, pass), more = n - min_of((uint64_t)n, pass->memory);
    if (limit == 0)
        return ACCESS_YES;
    if (pass->received > limit) {
        bool client = pass->client && w->access->client.of.memory == limit;
        return refuse(w, client ? SCOPE_CLIENT : SCOPE_TENANT, ACCESS_LIMIT_NEVER);
    }
    enum access_verdict verdict = give_way(w, pass, more, retry_ns);
    return verdict != ACCESS_YES || more == 0 ? verdict : charge(w, pass, n, limit, retry_ns);
}

void access_exit(struct access_worker *w, struct access_pass *pass)
{
    exit_party(pass->client, pass->memory);
    exit_party(pass->tenant, pass->memory);
    *pass = (struct access_pass){0};
}

uint64_t access_client(const struct access_pass *pass)
{
    const struct party *p = pass->tenant ? pass->tenant : pass->client;
    return p ? p->hash : 0;
}
