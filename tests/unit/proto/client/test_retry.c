/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/unit.h"

#include <errno.h>

#include "proto/client/retry.h"

/* OTLP specification, "Failures": the whole table. */
UNIT(grpc_codes)
{
    static const bool retryable[17] = {
        [1] = true, [4] = true, [10] = true, [11] = true, [14] = true, [15] = true,
    };
    for (int code = -1; code < 30; code++) {
        bool want = code >= 0 && code < 17 && retryable[code];
        ck_assert_msg(retry_grpc_code(code, false) == want, "code %d", code);
        ck_assert_msg(retry_grpc_code(code, true) == (want || code == 8), "code %d with RetryInfo", code);
    }
}

UNIT(http_statuses)
{
    for (int status = 0; status < 700; status++) {
        bool want = status == 429 || status == 502 || status == 503 || status == 504;
        ck_assert_msg(retry_http_status(status) == want, "status %d", status);
    }
}

UNIT(intervals_grow_and_stay_below_the_maximum)
{
    struct retry_options o = RETRY_OPTIONS_DEFAULT;
    o.max_elapsed_ns = 0;
    o.randomization_factor = 0;
    struct retry r;
    struct rng rng;
    rng_seed(&rng, 1);
    retry_begin(&r, 100);
    static const double want_s[] = {5, 7.5, 11.25, 16.875, 25.3125, 30, 30, 30};
    for (size_t i = 0; i < sizeof want_s / sizeof *want_s; i++) {
        uint64_t wait;
        ck_assert(retry_next(&r, &o, 100, 0, &rng, &wait));
        ck_assert_double_eq_tol((double)wait / 1e9, want_s[i], 1e-6);
    }
}

UNIT(jitter_fills_its_interval_and_never_leaves_it)
{
    struct retry_options o = RETRY_OPTIONS_DEFAULT;
    struct rng rng;
    rng_seed(&rng, 42);
    double low = 1e9, high = 0;
    for (int i = 0; i < 10000; i++) {
        struct retry r;
        uint64_t wait;
        retry_begin(&r, 0);
        ck_assert(retry_next(&r, &o, 0, 0, &rng, &wait));
        double s = (double)wait / 1e9;
        ck_assert(s >= 2.5 && s <= 7.5);
        low = s < low ? s : low;
        high = s > high ? s : high;
    }
    ck_assert(low < 2.6 && high > 7.4);
}

UNIT(the_peer_is_honoured_then_grown_from)
{
    struct retry_options o = RETRY_OPTIONS_DEFAULT;
    struct rng rng;
    rng_seed(&rng, 7);
    struct retry r;
    uint64_t wait;
    retry_begin(&r, 0);
    ck_assert(retry_next(&r, &o, 0, 12000000000u, &rng, &wait));
    ck_assert(wait >= 12000000000u && wait <= 18000000000u);
    ck_assert_uint_eq(r.interval_ns, 18000000000u); /* 12 s × 1.5 */
    ck_assert(retry_next(&r, &o, wait, 0, &rng, &wait));
    ck_assert(wait >= 9000000000u && wait <= 27000000000u);

    /* A small wish does not make us faster than our own backoff has become. */
    ck_assert(retry_next(&r, &o, 0, 1000000, &rng, &wait));
    ck_assert(wait >= 1000000 && r.interval_ns == 30000000000u);
}

UNIT(a_peer_cannot_park_a_request_for_days)
{
    struct retry_options o = RETRY_OPTIONS_DEFAULT;
    o.max_elapsed_ns = 0;
    struct rng rng;
    rng_seed(&rng, 7);
    struct retry r;
    uint64_t wait;
    retry_begin(&r, 0);
    ck_assert(retry_next(&r, &o, 0, UINT64_MAX, &rng, &wait));
    ck_assert(wait >= RETRY_PEER_DELAY_MAX_NS && wait <= RETRY_PEER_DELAY_MAX_NS * 3 / 2);
    ck_assert(retry_next(&r, &o, 0, 0, &rng, &wait));
    ck_assert(wait <= 45000000000u); /* and the backoff after it is our own again */
}

UNIT(time_runs_out)
{
    struct retry_options o = RETRY_OPTIONS_DEFAULT;
    struct rng rng;
    rng_seed(&rng, 3);
    struct retry r;
    uint64_t wait, now = 1000;
    retry_begin(&r, now);
    int attempts = 0;
    while (retry_next(&r, &o, now, 0, &rng, &wait)) {
        now += wait;
        ck_assert_uint_le(now - 1000, o.max_elapsed_ns);
        ck_assert_int_lt(++attempts, 100);
    }
    ck_assert_int_ge(attempts, 8); /* 300 s in steps of at most 45 s */
    retry_begin(&r, 0);
    ck_assert(!retry_next(&r, &o, 0, 301000000000u, &rng, &wait));
    o.enabled = false;
    retry_begin(&r, 0);
    ck_assert(!retry_next(&r, &o, 0, 0, &rng, &wait));
}

UNIT(options_that_make_no_sense)
{
    struct error e;
    struct retry_options ok = RETRY_OPTIONS_DEFAULT, o;
    ck_assert_int_eq(retry_options_check(&ok, &e), 0);
    o = ok, o.initial_interval_ns = 0;
    ck_assert_int_eq(retry_options_check(&o, &e), -EINVAL);
    o = ok, o.max_interval_ns = 1;
    ck_assert_int_eq(retry_options_check(&o, &e), -EINVAL);
    o = ok, o.multiplier = 0.9;
    ck_assert_int_eq(retry_options_check(&o, &e), -EINVAL);
    o = ok, o.randomization_factor = 1;
    ck_assert_int_eq(retry_options_check(&o, &e), -EINVAL);
    ck_assert_ptr_nonnull(strstr(e.text, "randomization_factor"));
    o.enabled = false;
    ck_assert_int_eq(retry_options_check(&o, &e), 0);
}
