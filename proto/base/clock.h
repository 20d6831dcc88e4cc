/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Time, as nanoseconds in a uint64_t. Libraries take `now` as an argument; only programs and stages ask a
 * clock.
 */
#ifndef PROTO_BASE_CLOCK_H
#define PROTO_BASE_CLOCK_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#define NSEC_PER_USEC 1000u
#define NSEC_PER_MSEC 1000000u
#define NSEC_PER_SEC  1000000000u

/* Unix time (CLOCK_REALTIME): what OTLP's *_unix_nano fields carry. It may step. */
uint64_t clock_realtime(void);

/* Monotonic time: durations and deadlines. */
uint64_t clock_monotonic(void);

/* Since the machine was booted, time asleep included: what the kernel says of a process's start. */
uint64_t clock_boot(void);

/* CPU time so far: of the calling thread; of all threads. */
uint64_t clock_thread(void);
uint64_t clock_process(void);

/* Of two times of a file (stat(2)): to the nanosecond. */
static inline bool clock_is_same(struct timespec a, struct timespec b)
{
    return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec;
}

#endif
