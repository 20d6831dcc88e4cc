/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/listen/listen.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "gateway/listen/worker.h"
#include "proto/base/macros.h"
#include "proto/io/listener.h"

struct listen {
    struct worker_shared shared;
    uint32_t n_workers; /* initialised ones */
    struct worker workers[];
};

static int check_options(const struct listen_options *o, struct error *e)
{
    if (o->n_addresses == 0 || o->n_addresses > LISTEN_ADDRESSES_MAX)
        return error_set(e, -EINVAL, "%u listening addresses: there must be 1 to %u", o->n_addresses,
                         LISTEN_ADDRESSES_MAX);
    if (o->workers == 0 || o->workers > LISTEN_WORKERS_MAX)
        return error_set(e, -EINVAL, "%u workers: there must be 1 to %u", o->workers, LISTEN_WORKERS_MAX);
    if (o->connections_max == 0)
        return error_set(e, -EINVAL, "a limit of 0 connections would refuse everybody");
    return 0;
}

static int copy_address(struct worker_shared *shared, const struct listen_address *from, struct error *e)
{
    uint32_t i = shared->n_addresses++;
    struct listen_address *a = &shared->addresses[i];
    *a = *from;
    a->tls = NULL;
    a->address = strdup(from->address);
    if (!a->address || certificates_set(&shared->certificates, i, from->tls) < 0)
        return error_set(e, -ENOMEM, "listening: out of memory");
    return 0;
}

int listen_new(struct listen **ret, const struct listen_options *o, const struct listen_factory *factory,
               struct error *e)
{
    int r = check_options(o, e);
    if (r < 0)
        return r;
    struct listen *l = calloc(1, sizeof *l + o->workers * sizeof *l->workers);
    if (!l)
        return error_set(e, -ENOMEM, "listening: out of memory");
    l->shared.factory = *factory;
    l->shared.connections_max = o->connections_max;
    l->shared.http = o->http;
    l->shared.workers = l->workers;
    l->shared.n_workers = o->workers;
    l->shared.told = calloc(o->workers, sizeof *l->shared.told);
    if (!l->shared.told)
        r = error_set(e, -ENOMEM, "listening: out of memory");
    certificates_init(&l->shared.certificates);
    for (uint32_t i = 0; i < o->n_addresses && r == 0; i++)
        r = copy_address(&l->shared, &o->addresses[i], e);
    struct listen_certificates *certificates = NULL;
    if (r == 0)
        r = certificates_read(&l->shared.certificates, &certificates, e);
    if (r == 0)
        certificates_take(&l->shared.certificates, certificates);
    while (l->n_workers < o->workers && r == 0) {
        uint32_t i = l->n_workers++;
        r = worker_init(&l->workers[i], &l->shared, i, o->workers == 1, i > 0 ? &l->workers[0] : NULL, e);
    }
    if (r < 0) {
        listen_free(l);
        return r;
    }
    *ret = l;
    return 0;
}

int listen_start(struct listen *l, struct error *e)
{
    int r = 0;
    for (uint32_t i = 0; i < l->n_workers && r == 0; i++)
        r = worker_start(&l->workers[i], e);
    if (r < 0)
        listen_shutdown(l, 0);
    return r;
}

uint16_t listen_port(const struct listen *l, uint32_t i)
{
    const char *address = l->shared.addresses[i].address;
    return io_address_is_unix(address) ? 0 : (uint16_t)atoi(strrchr(address, ':') + 1);
}

int listen_read_tls(const struct listen *l, struct listen_certificates **ret, struct error *e)
{
    return certificates_read(&l->shared.certificates, ret, e);
}

void listen_take_tls(struct listen *l, struct listen_certificates *read)
{
    certificates_take(&l->shared.certificates, read);
}

struct listen_certificates *listen_drop_tls(struct listen_certificates *read)
{
    return certificates_drop(read);
}

int64_t listen_tls_expiry(struct listen *l, uint32_t i)
{
    return certificates_expiry(&l->shared.certificates, i);
}

int listen_run_on_worker(struct listen *l, uint32_t index, void (*fn)(void *arg, void *worker), void *arg)
{
    int r = index < l->n_workers ? worker_post(&l->workers[index], fn, arg) : -EINVAL;
    return r == WORKER_STOPPED ? LISTEN_STOPPED : r;
}

void listen_shutdown(struct listen *l, uint64_t deadline_ns)
{
    for (uint32_t i = 0; i < l->n_workers; i++)
        worker_shutdown(&l->workers[i], deadline_ns);
}

uint32_t listen_connections(const struct listen *l)
{
    return atomic_load(&l->shared.connections);
}

struct listen *listen_free(struct listen *l)
{
    if (!l)
        return NULL;
    bool asked = true;
    for (uint32_t i = 0; i < l->n_workers; i++)
        asked &= l->workers[i].shutdown_at != UINT64_MAX;
    if (!asked)
        listen_shutdown(l, 0);
    for (uint32_t i = 0; i < l->n_workers; i++)
        worker_release(&l->workers[i]);
    for (uint32_t i = 0; i < l->shared.n_addresses; i++)
        free((char *)l->shared.addresses[i].address);
    certificates_release(&l->shared.certificates);
    free(l->shared.told);
    free(l);
    return NULL;
}
