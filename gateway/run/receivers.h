/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The section receivers.otlp as the stages want it: the addresses for listen, each with its TLS, what serve
 * has to know about the one a request came by, and who may send. Reads files (credentials) and prepares;
 * starts nothing.
 */
#ifndef GATEWAY_RUN_RECEIVERS_H
#define GATEWAY_RUN_RECEIVERS_H

#include "gateway/access/access.h"
#include "gateway/config/config.h"
#include "gateway/listen/listen.h"
#include "gateway/serve/serve.h"

struct receivers {
    struct access *access; /* NULL: everybody may, without limits */
    struct listen_address addresses[LISTEN_ADDRESSES_MAX];
    struct listen_tls tls[LISTEN_ADDRESSES_MAX];
    struct serve_listener listeners[LISTEN_ADDRESSES_MAX];
    uint32_t n;
};

/* c and budget must outlive it, and it may not move: addresses point into it. 0, or a negative errno with *e
 * saying which file or key; then there is nothing to release. */
int receivers_init(struct receivers *r, const struct config *c, struct budget *budget, struct error *e);

/* What may be held for one client's requests while they are counted, beside their bodies: as much as for
 * those, but a request that is alone needs no room for another. UINT64_MAX: no limit but limits.memory. */
uint64_t receivers_client_counting(const struct config *c);

/* After the workers that use it. */
void receivers_release(struct receivers *r);

#endif
