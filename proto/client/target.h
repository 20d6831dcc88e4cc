/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The endpoints of a client, of which each attempt goes to one: all by turns, or the first that is well. One
 * that failed is left alone for a while, which doubles, unless no other is left. Time is an argument. Private
 * to the client.
 */
#ifndef PROTO_CLIENT_TARGET_H
#define PROTO_CLIENT_TARGET_H

#include "proto/client/call.h"
#include "proto/client/connection.h"
#include "proto/client/endpoint.h"

struct target {
    struct endpoint endpoint;
    struct call_head head;
    struct client_connection *shared; /* gRPC: one HTTP/2 connection carries all calls */
    uint32_t weight;
    int64_t turn;           /* weighted round robin: who has most is next */
    uint64_t down_until_ns; /* left alone so long; 0: it is well */
    uint64_t pause_ns;
    uint64_t n_taken; /* requests */
};

/* How long one is left alone: at first, and at most. */
#define TARGET_PAUSE_MIN_NS 1000000000u
#define TARGET_PAUSE_MAX_NS 30000000000u

struct targets {
    struct target at[CLIENT_ENDPOINTS_MAX];
    uint32_t n;
    bool failover; /* the first that is well; else by turns, by weight */
};

/* The next attempt's; where none is well, the one that will be first. */
uint32_t target_pick(struct targets *t, uint64_t now_ns);

/* Nobody was there, or it asks to be left alone for `asked_ns` (0: it does not). */
void target_failed(struct target *t, uint64_t now_ns, uint64_t asked_ns);
void target_succeeded(struct target *t);

/* Whether any is well. */
bool target_is_any_well(const struct targets *t, uint64_t now_ns);

#endif
