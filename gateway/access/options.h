/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is to be demanded of senders, as configured: limits of a client and of a tenant, credentials of a
 * listener.
 */
#ifndef GATEWAY_ACCESS_OPTIONS_H
#define GATEWAY_ACCESS_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

/* Of each client, or of each tenant; 0: no limit. */
struct access_limits {
    uint64_t bytes_per_second; /* of request bodies as received */
    uint64_t burst_bytes;      /* at once, after a rest; 0: one second's worth */
    uint64_t memory;           /* bodies under way */
    uint32_t connections;      /* of a client; a tenant has none */
    uint32_t requests;         /* under way at once */
};

struct access_options {
    const char *tenant_header; /* "X-Scope-OrgID"; NULL or "": there are no tenants. Copied */
    bool tenant_required;      /* else requests without it are those of one tenant, "" */
    struct access_limits per_client, per_tenant;
};

#define ACCESS_POLICIES_MAX 64u

/* What a listener demands; any one of the kinds suffices. The texts are copied. */
struct access_policy_options {
    const char *bearer_tokens_file; /* NULL or "": none */
    const char *htpasswd_file;
    const char *const *identities; /* of client certificates; one '*' stands for any text */
    uint32_t n_identities;
};

#endif
