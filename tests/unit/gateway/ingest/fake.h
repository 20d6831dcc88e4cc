/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ingest's neighbours downstream, faked: they write down in which order they were called.
 */
#ifndef TESTS_UNIT_GATEWAY_INGEST_FAKE_H
#define TESTS_UNIT_GATEWAY_INGEST_FAKE_H

#include <errno.h>
#include <stdlib.h>

#include "gateway/classify/classify.h"
#include "gateway/forward/forward.h"
#include "gateway/ingest/ingest.h"
#include "gateway/stats/stats.h"
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

bool forward_reserve(struct forward *f, size_t body_bytes)
{
    note("reserve");
    if (!forward_is_full)
        reserved += body_bytes;
    return !forward_is_full;
}

void forward_cancel(struct forward *f, size_t body_bytes)
{
    note("cancel");
    reserved -= body_bytes;
}

void forward_push(struct forward *f, const struct profiles *view, size_t body_bytes)
{
    note("push");
    reserved -= body_bytes;
}

int classify_push(struct classify *c, const struct profiles *view)
{
    note("classify");
    classified_samples = view->sample.n;
    return classify_result;
}

static size_t classify_holds, classify_held; /* now; at the end of the last push */

size_t classify_memory_used(const struct classify *c)
{
    return classify_holds;
}

size_t classify_memory_peak(const struct classify *c)
{
    return classify_held;
}

void classify_rest(struct classify *c)
{
    note("rest");
}

#define FORWARD  ((struct forward *)&reserved) /* never looked into */
#define CLASSIFY ((struct classify *)&classify_result)

#endif
