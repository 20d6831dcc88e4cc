/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/ingest/habit.h"

#include "proto/base/hash.h"
#include "proto/base/macros.h"
#include "proto/otlp/layouts/fields.h"
#include "proto/wire/reader.h"

/* What one request that tells its layout adds: a vote of sniff.c. */
#define WEIGHT_STEP 4u

/* Producers share places four by four. */
#define WAYS 4u

/* Fields looked at on each level; writers put what is asked for first or last, and one of it. */
#define LOOK_AT 64u

void habits_init(struct habits *h)
{
    *h = (struct habits){.seed = hash_seed()};
}

/* The first field `number` of a message, of all its layouts: resources and scopes never moved. */
static struct bytes first_of(struct bytes message, uint32_t number)
{
    struct wire_reader in = wire_reader(message);
    struct wire_field f;
    for (uint32_t i = 0; i < LOOK_AT && wire_next(&in, &f) == 0; i++)
        if (f.number == number && f.type == WIRE_LEN)
            return f.bytes;
    return (struct bytes){0};
}

uint64_t habits_producer(const struct habits *h, uint64_t client, struct bytes body)
{
    const struct bytes profiles = first_of(body, REQUEST_RESOURCE_PROFILES);
    const struct bytes resource = first_of(profiles, RESOURCE_PROFILES_RESOURCE);
    const struct bytes scope =
        first_of(first_of(profiles, RESOURCE_PROFILES_SCOPE_PROFILES), SCOPE_PROFILES_SCOPE);
    if (resource.n + scope.n == 0)
        return 0;
    return hash_mix(hash_mix(hash_bytes(resource, h->seed), hash_bytes(scope, h->seed)), client) | 1;
}

/* Of the places that it shares, the producer's, or else the one of the least weight. */
static const struct habit *find(const struct habits *h, uint64_t producer)
{
    const struct habit *ways = &h->of[(producer >> 32) % (HABIT_PLACES / WAYS) * WAYS], *best = ways;
    for (uint32_t i = 0; i < WAYS; i++) {
        if (ways[i].producer == producer)
            return &ways[i];
        if (ways[i].weight < best->weight)
            best = &ways[i];
    }
    return best;
}

struct profiles_producer habits_of(const struct habits *h, uint64_t producer)
{
    const struct habit *habit = find(h, producer);
    if (producer == 0 || habit->producer != producer)
        return (struct profiles_producer){PROFILES_LAYOUT_UNKNOWN, 0};
    return (struct profiles_producer){(enum profiles_layout)habit->layout, habit->weight};
}

bool habits_learn(struct habits *h, uint64_t producer, const struct profiles *view)
{
    if (producer == 0 || !view->told)
        return false;
    struct habit *habit = &h->of[find(h, producer) - h->of];
    if (habit->producer != producer) {
        *habit = (struct habit){.producer = producer, .weight = WEIGHT_STEP, .layout = (uint8_t)view->layout};
        return false;
    }
    if (!view->contradicts) {
        habit->layout = (uint8_t)view->layout;
        habit->weight = min_of(habit->weight + WEIGHT_STEP, HABIT_WEIGHT_MAX);
        return false;
    }
    habit->weight /= 2;
    if (view->layout != habit->layout) { /* it was read as what it says */
        habit->layout = (uint8_t)view->layout;
        habit->weight = WEIGHT_STEP;
    }
    const bool first = !habit->said;
    habit->said = true;
    return first;
}
