/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/client/retry.h"

#include <errno.h>
#include <math.h>

int retry_options_check(const struct retry_options *o, struct error *e)
{
    if (!o->enabled)
        return 0;
    if (o->initial_interval_ns == 0)
        return error_set(e, -EINVAL, "retry_on_failure.initial_interval must be above 0");
    if (o->max_interval_ns < o->initial_interval_ns)
        return error_set(e, -EINVAL, "retry_on_failure.max_interval must not be below initial_interval");
    if (!isfinite(o->multiplier) || o->multiplier < 1)
        return error_set(e, -EINVAL, "retry_on_failure.multiplier must be at least 1");
    if (!(o->randomization_factor >= 0 && o->randomization_factor < 1))
        return error_set(e, -EINVAL, "retry_on_failure.randomization_factor must be from 0 to below 1");
    return 0;
}

bool retry_grpc_code(int code, bool has_retry_info)
{
    switch (code) {
    case 1:  /* CANCELLED */
    case 4:  /* DEADLINE_EXCEEDED */
    case 10: /* ABORTED */
    case 11: /* OUT_OF_RANGE */
    case 14: /* UNAVAILABLE */
    case 15: /* DATA_LOSS */ return true;
    case 8: /* RESOURCE_EXHAUSTED: without RetryInfo it means "too large for me, ever" */
        return has_retry_info;
    default: return false;
    }
}

bool retry_http_status(int status)
{
    return status == 429 || status == 502 || status == 503 || status == 504;
}

void retry_begin(struct retry *r, uint64_t now_ns)
{
    *r = (struct retry){.started_ns = now_ns};
}

/* The interval after this one; never above the maximum, whatever the multiplier. */
static uint64_t grown(uint64_t interval, const struct retry_options *o)
{
    double next = (double)interval * o->multiplier;
    return next >= (double)o->max_interval_ns ? o->max_interval_ns : (uint64_t)next;
}

bool retry_next(struct retry *r, const struct retry_options *o, uint64_t now_ns, uint64_t peer_delay_ns,
                struct rng *rng, uint64_t *ret_wait_ns)
{
    if (!o->enabled)
        return false;
    uint64_t interval = r->interval_ns ? r->interval_ns : o->initial_interval_ns;
    double f = o->randomization_factor, unit = rng_unit(rng);
    uint64_t wait;
    if (peer_delay_ns > 0) {
        /* Never earlier than asked; spread behind it, or every client comes back in the same instant. */
        if (peer_delay_ns > RETRY_PEER_DELAY_MAX_NS)
            peer_delay_ns = RETRY_PEER_DELAY_MAX_NS;
        if (interval < peer_delay_ns)
            interval = peer_delay_ns;
        wait = peer_delay_ns + (uint64_t)((double)peer_delay_ns * f * unit);
    } else {
        wait = (uint64_t)((double)interval * (1 - f + 2 * f * unit));
    }
    uint64_t elapsed = now_ns > r->started_ns ? now_ns - r->started_ns : 0;
    if (o->max_elapsed_ns && (elapsed >= o->max_elapsed_ns || wait > o->max_elapsed_ns - elapsed))
        return false;
    /* A peer's wish above max_interval is kept once, then growth goes on from the maximum. */
    r->interval_ns = grown(interval, o);
    *ret_wait_ns = wait;
    return true;
}
