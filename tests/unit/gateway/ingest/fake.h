/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ingest's consumers, faked: they write down in which order they were called.
 */
#ifndef TESTS_UNIT_GATEWAY_INGEST_FAKE_H
#define TESTS_UNIT_GATEWAY_INGEST_FAKE_H

#include <errno.h>
#include <stdlib.h>

#include "gateway/ingest/consumer.h"
#include "gateway/ingest/ingest.h"
#include "gateway/stats/stats.h"
#include "proto/base/meter.h"
#include "tests/lib/unit.h"

static char order[256]; /* "reserve classify push " */
static bool forward_is_full;
static int classify_result;
static size_t reserved; /* bytes of reservations not settled */
static uint32_t classified_samples;

static void note(const char *what)
{
    strncat(order, what, sizeof order - strlen(order) - 1);
    strncat(order, " ", sizeof order - strlen(order) - 1);
}

static bool fake_reserve(void *context, size_t body_bytes)
{
    note("reserve");
    if (!forward_is_full)
        reserved += body_bytes;
    return !forward_is_full;
}

static void fake_cancel(void *context, size_t body_bytes)
{
    note("cancel");
    reserved -= body_bytes;
}

static int fake_forward(void *context, const struct profiles *view, const struct received *received,
                        size_t body_bytes)
{
    note("push");
    reserved -= body_bytes;
    return 0;
}

static int fake_classify(void *context, const struct profiles *view, const struct received *received,
                         size_t body_bytes)
{
    note("classify");
    classified_samples = view->sample.n;
    return classify_result;
}

static void fake_take_over(void *context, struct received *received)
{
    note("take_over");
    received->coded = NULL;
}

static size_t classify_holds, classify_held; /* now; at the end of the last push */

static size_t fake_memory_used(const void *context)
{
    return classify_holds;
}

static size_t fake_memory_peak(const void *context)
{
    return classify_held;
}

static void fake_rest(void *context)
{
    note("rest");
}

static void fake_forget(void *context)
{
    note("forget");
    classify_holds = 10;
}

/* Counting, then forwarding; the first alone is what `profgate count` has. */
static const struct view_consumer consumers[] __attribute__((unused)) = {
    {
        .push = fake_classify,
        .memory_used = fake_memory_used,
        .memory_peak = fake_memory_peak,
        .rest = fake_rest,
        .forget = fake_forget,
    },
    {
        .reserve = fake_reserve,
        .full = "a destination's queue is full; try again",
        .push = fake_forward,
        .take_over = fake_take_over,
        .cancel = fake_cancel,
    },
};

#define ALL   2u
#define COUNT 1u

#endif
