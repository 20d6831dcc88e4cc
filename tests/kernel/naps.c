/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sleeps for argv[1] seconds in naps, and prints how long it was off the CPU in them as the kernel's own
 * accounting has it: the time that passed in each call less what the thread ran in it. On an emulated machine
 * whose host does something else for a while the two differ a lot: the guest takes that for running.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double seconds(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

__attribute__((noinline)) void wait_here(long ns)
{
    struct timespec t = {.tv_nsec = ns};
    nanosleep(&t, NULL);
    __asm__ volatile("" ::: "memory"); /* no jump: it is the caller's frame that is looked for */
}

int main(int argc, char **argv)
{
    double away = 0, passed = 0, end = seconds(CLOCK_MONOTONIC) + (argc > 1 ? atof(argv[1]) : 1);
    for (unsigned n = 0; seconds(CLOCK_MONOTONIC) < end; n++) {
        double ran = seconds(CLOCK_THREAD_CPUTIME_ID), from = seconds(CLOCK_MONOTONIC);
        wait_here(2000000 + (long)(n * 7919 % 20000) * 1000);
        double to = seconds(CLOCK_MONOTONIC);
        passed += to - from;
        away += to - from - (seconds(CLOCK_THREAD_CPUTIME_ID) - ran);
    }
    return printf("passed=%.9f away=%.9f\n", passed, away) < 0;
}
