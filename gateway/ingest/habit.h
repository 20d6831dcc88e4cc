/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The wire layout that producers' requests had, so that a small odd request is read as its producer's others.
 *
 * A producer is a resource with a scope, by the bytes of the first ones in a request: whose software and
 * whose process it is. Their layout weighs the more, the more requests told it (profiles.told), up to
 * HABIT_WEIGHT_MAX; one that contradicts halves the weight, so that an upgrade under the same names is
 * believed after a few requests. Of a fixed size: of producers that share a place the one of less weight is
 * forgotten. One for each worker; its thread.
 */
#ifndef GATEWAY_INGEST_HABIT_H
#define GATEWAY_INGEST_HABIT_H

#include <stdint.h>

#include "proto/base/bytes.h"
#include "proto/otlp/view/profiles.h"

/* Eight samples' votes (proto/otlp/layouts/sniff.c): what is larger speaks for itself. */
#define HABIT_WEIGHT_MAX 32u

#define HABIT_PLACES 1024u

struct habit {
    uint64_t producer; /* 0: nobody */
    uint32_t weight;
    uint8_t layout; /* enum profiles_layout */
    bool said;      /* a contradiction, in the log */
};

struct habits {
    uint64_t seed;
    struct habit of[HABIT_PLACES];
};

void habits_init(struct habits *h);

/* Who made a request, as a number; 0 when it does not say. Any bytes; looks at the first few fields of each
 * level. `client` is who sent it (ingest_from): nobody teaches what another's requests mean by using its
 * names. */
uint64_t habits_producer(const struct habits *h, uint64_t client, struct bytes body);

/* What is known of a producer. */
struct profiles_producer habits_of(const struct habits *h, uint64_t producer);

/* Learns from a request that was decoded with what habits_of said. True: it contradicts, and that is worth a
 * line in the log, the first time. */
bool habits_learn(struct habits *h, uint64_t producer, const struct profiles *view);

#endif
