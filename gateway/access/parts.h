/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What access.c (who) and limits.c (how much) have in common. For gateway/access only.
 */
#ifndef GATEWAY_ACCESS_PARTS_H
#define GATEWAY_ACCESS_PARTS_H

#include "gateway/access/credentials.h"
#include "gateway/access/options.h"
#include "gateway/access/parties.h"
#include "gateway/access/passwords.h"
#include "gateway/access/pass.h"
#include "gateway/access/policy.h"
#include "gateway/stats/block.h"
#include "proto/base/budget.h"

/* Prometheus-like tenant systems agree on these bounds (Grafana dskit "tenant": 150 bytes; letters, digits
 * and
 * !-_.*'() ), but for ours, which is rounder. */
#define TENANT_MAX 128u

/* More clients than senders a gateway serves; a flood of addresses gets no further (parties.h). */
#define CLIENTS_MAX (1u << 16)
#define TENANTS_MAX (1u << 12)

/* Bodies of those whose password is being verified, of all together. */
#define WAITING_BYTES (16u << 20)

/* Limits in the form in which they are applied. */
struct limits {
    struct access_limits of;
    uint64_t burst_ns;
    bool any;
};

struct access {
    uint8_t secret[DIGEST_BYTES];
    struct digester *digester; /* of whoever loads */
    struct passwords *passwords;
    struct access_policy *policies[ACCESS_POLICIES_MAX];
    uint32_t n_policies;
    char *tenant_header; /* in lower case; NULL: none */
    bool tenant_required;
    struct limits client, tenant;
    struct parties *clients, *tenants; /* NULL: no limits */
    struct budget waiting;
};

/* A connection; http_peer.client. */
struct connection_access {
    struct party *party;  /* whom its requests are counted to; NULL: no limits */
    uint64_t address;     /* hash of its key */
    uint64_t generation;  /* of the credentials that `digest` was found right by; 0: nothing was yet */
    struct digest digest; /* of the Authorization header */
    bool is_named;        /* the party is one of a name, not of an address */
};

#define WORKER_TENANTS 8u /* remembered by their hash, so that most requests take no lock */

struct access_worker {
    struct access *access;
    struct io_loop *loop;
    struct stats *stats;
    struct digester *digester;
    struct credentials *held[ACCESS_POLICIES_MAX];
    struct password_inbox *inbox;
    struct password_job *jobs; /* being verified */
    struct party *tenants[WORKER_TENANTS];
};

/* A password_inbox's, of the worker. In check.c. */
void check_deliver(void *worker, struct password_job *job);

/* Counts the connection to another party: that of a name. ACCESS_YES or ACCESS_LIMIT_CONNECTIONS. */
enum access_verdict connection_name(struct access_worker *w, struct connection_access *c, struct bytes name);

#endif
