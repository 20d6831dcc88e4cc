/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a request holds of gateway/access while it is under way, for the request's own struct.
 */
#ifndef GATEWAY_ACCESS_PASS_H
#define GATEWAY_ACCESS_PASS_H

#include <stdbool.h>
#include <stdint.h>

struct access_policy;
struct http_exchange;
struct party;
struct password_job;

enum access_verdict {
    ACCESS_YES,
    ACCESS_WAIT,       /* a password is being verified */
    ACCESS_MISSING,    /* no credentials of a kind that is taken */
    ACCESS_WRONG,      /* credentials that are not (any more) right, or malformed */
    ACCESS_FORBIDDEN,  /* known, but not one of those who may */
    ACCESS_BUSY,       /* too many passwords are being verified, or memory is out: try again */
    ACCESS_NO_TENANT,  /* the tenant header is required */
    ACCESS_BAD_TENANT, /* it is repeated, too long, or has a character that no tenant has */
    ACCESS_LIMIT_BYTES,
    ACCESS_LIMIT_CONNECTIONS,
    ACCESS_LIMIT_REQUESTS,
    ACCESS_LIMIT_MEMORY,
    ACCESS_LIMIT_NEVER, /* the request alone passes a limit: trying again is no use */
};

/* A request under way; {0} is one that nobody counts. */
struct access_pass {
    struct party *client, *tenant; /* NULL: not limited */
    uint64_t memory;               /* charged to each of them */
    uint64_t received;
    bool paid; /* its bytes were taken from the rate when its length was told */
};

/* A request that waits for a verification; {0} is none. The first two are the caller's. */
struct access_wait {
    void (*done)(void *user, enum access_verdict verdict);
    void *user;
    struct password_job *job; /* NULL: no wait is open */
    struct access_wait *next, **at;
    const struct http_exchange *exchange;
    const struct access_policy *policy;
};

#endif
