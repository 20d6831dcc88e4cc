/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/base/clock.h"

#include <time.h>

static uint64_t read_clock(clockid_t id)
{
    struct timespec t;
    clock_gettime(id, &t);
    return (uint64_t)t.tv_sec * NSEC_PER_SEC + (uint64_t)t.tv_nsec;
}

uint64_t clock_realtime(void)
{
    return read_clock(CLOCK_REALTIME);
}

uint64_t clock_monotonic(void)
{
    return read_clock(CLOCK_MONOTONIC);
}

uint64_t clock_boot(void)
{
    return read_clock(CLOCK_BOOTTIME);
}

uint64_t clock_process(void)
{
    return read_clock(CLOCK_PROCESS_CPUTIME_ID);
}

uint64_t clock_thread(void)
{
    return read_clock(CLOCK_THREAD_CPUTIME_ID);
}
