/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/forward/rates.h"

#include <pthread.h>
#include <stdlib.h>

#include "proto/base/clock.h"
#include "proto/base/hash.h"
#include "proto/base/thread.h"

/* Rows for texts, 24 bytes each. A text looks at a few rows; where others have all of them now, it shares the
 * last one's count: less is kept than could be, never more. */
#define ROWS   8192u
#define PROBES 8u

struct row {
    uint64_t key, end_ns; /* of the window; 0: it was never used */
    uint32_t used;
};

struct forward_rates {
    pthread_mutex_t lock;
    uint64_t seed; /* texts are the senders': nobody is to choose whose row they share */
    struct row rows[ROWS];
};

struct forward_rates *forward_rates_new(void)
{
    struct forward_rates *r = calloc(1, sizeof *r);
    if (!r)
        return NULL;
    pthread_mutex_init(&r->lock, NULL);
    r->seed = hash_seed();
    return r;
}

struct forward_rates *forward_rates_free(struct forward_rates *r)
{
    if (!r)
        return NULL;
    pthread_mutex_destroy(&r->lock);
    free(r);
    return NULL;
}

/* The key's own row, else one whose window is over, else the last it may look at. */
static struct row *find(struct forward_rates *r, uint64_t key, uint64_t now_ns)
{
    struct row *over = NULL, *row = NULL;
    for (uint32_t i = 0; i < PROBES; i++) {
        row = &r->rows[(key + i) % ROWS];
        if (row->key == key && row->end_ns > 0)
            return row;
        if (!over && row->end_ns <= now_ns)
            over = row;
    }
    return over ? over : row;
}

bool forward_rates_take(struct forward_rates *r, const struct keep_rate *rate, uint64_t now_ns)
{
    uint64_t period = (rate->per_second ? 1 : 60) * (uint64_t)NSEC_PER_SEC;
    uint64_t key = hash_mix(hash_bytes(rate->text, r->seed), rate->rule);
    autolock(&r->lock);
    struct row *row = find(r, key, now_ns);
    if (row->end_ns <= now_ns)
        *row = (struct row){.key = key, .end_ns = (now_ns / period + 1) * period};
    bool taken = row->used < rate->count;
    row->used += taken;
    return taken;
}
