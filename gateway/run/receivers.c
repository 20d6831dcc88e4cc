/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/run/receivers.h"

#include <errno.h>
#include <string.h>

#include "gateway/run/door.h"
#include "proto/base/macros.h"

static struct access_limits limits_of(const struct config_share *s)
{
    return (struct access_limits){
        .bytes_per_second = s->bytes_per_second,
        .burst_bytes = s->burst_bytes,
        .memory = s->memory,
        .connections = s->connections,
        .requests = s->requests,
    };
}

/* No client locks the others out: a quarter, but the largest request shall fit as far as half of all does. */
static uint64_t usual_memory(const struct config *c)
{
    return max_of(c->memory / 4, min_of(c->request_bytes, c->memory / 2));
}

static bool is_limited(const struct config_share *s)
{
    return s->bytes_per_second > 0 || s->memory > 0 || s->connections > 0 || s->requests > 0;
}

/* Where nobody is asked and nothing is limited there is no access object, and a request costs nothing for it:
 * as it is by default but for the memory of a client.
 */
static bool needs_access(const struct config *c)
{
    bool needs = c->per_client.memory < c->memory || c->tenant_header || is_limited(&c->per_client) ||
                 is_limited(&c->per_tenant);
    for (uint32_t i = 0; i < c->n_receivers; i++)
        needs |= door_asks(&c->receivers[i].door);
    return needs;
}

uint64_t receivers_client_counting(const struct config *c)
{
    const uint64_t n = c->per_client.memory ? c->per_client.memory : c->memory / 4;
    return n < c->memory ? n : UINT64_MAX;
}

static int make_access(struct receivers *r, const struct config *c, struct budget *budget, struct error *e)
{
    if (!needs_access(c))
        return 0;
    struct access_options options = {
        .tenant_header = c->tenant_header,
        .tenant_required = c->tenant_required,
        .per_client = limits_of(&c->per_client),
        .per_tenant = limits_of(&c->per_tenant),
    };
    if (options.per_client.memory == 0)
        options.per_client.memory = usual_memory(c);
    if (options.per_client.memory >= c->memory) /* limits.memory is reached first */
        options.per_client.memory = 0;
    return access_new(&r->access, &options, budget, e);
}

static int add(struct receivers *r, const struct config_receiver *from, struct error *e)
{
    uint32_t i = r->n++;
    r->listeners[i].layout = from->wire_version;
    r->listeners[i].aliases = from->profiles_url_path.items;
    r->listeners[i].n_aliases = from->profiles_url_path.n;
    r->addresses[i] = (struct listen_address){
        .address = from->endpoint,
        .user = &r->listeners[i],
        .tls = door_tls(&from->door, &r->tls[i]) ? &r->tls[i] : NULL,
    };
    return door_asks(&from->door) ? door_policy(&from->door, r->access, &r->listeners[i].policy, e) : 0;
}

int receivers_init(struct receivers *r, const struct config *c, struct budget *budget, struct error *e)
{
    memset(r, 0, sizeof *r);
    if (c->n_receivers > ARRAY_LEN(r->addresses))
        return error_set(e, -EINVAL, "at most %zu addresses to listen on", ARRAY_LEN(r->addresses));
    int result = make_access(r, c, budget, e);
    for (uint32_t i = 0; i < c->n_receivers && result == 0; i++)
        result = add(r, &c->receivers[i], e);
    if (result < 0)
        receivers_release(r);
    return result;
}

void receivers_release(struct receivers *r)
{
    r->access = access_free(r->access);
    r->n = 0;
}
