/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/sweep.h"

#include <stdlib.h>

void *sweep_malloc(size_t n)
{
    return malloc(n);
}

void *sweep_realloc(void *p, size_t n)
{
    return realloc(p, n);
}

#ifdef PG_OOM
#include <stdio.h>

#include <sanitizer/lsan_interface.h>

#include "tests/lib/oom.h"

#define BURST      8      /* allocations that fail in a row: more than the deepest way out takes */
#define LEAKS_EACH 32u    /* runs: looking for leaks takes longer than most of them */
#define SWEEP_N    20000u /* a scenario that still fails here is no scenario but a program */

static void sweep_in_one_way(const char *name, void (*scenario)(void), uint64_t how_many)
{
    bool failed = true;
    uint64_t n;
    for (n = 1; failed; n++) {
        ck_assert_msg(n < SWEEP_N, "%s takes memory more than %u times", name, SWEEP_N);
        oom_fail_nth(n, how_many);
        scenario();
        failed = oom_failures() > 0;
        oom_stop();
        if (failed && n % LEAKS_EACH != 0)
            continue;
        ck_assert_msg(!__lsan_do_recoverable_leak_check(),
                      "%s leaks when allocation %llu or one of the %u before it fails (%llu in a row)", name,
                      (unsigned long long)n, LEAKS_EACH - 1, (unsigned long long)how_many);
    }
    if (getenv("PG_OOM_SHOW"))
        printf("%s: %llu allocations, %llu failing in a row\n", name, (unsigned long long)n - 2,
               (unsigned long long)how_many);
}

void unit_sweep(const char *name, void (*scenario)(void), unsigned how)
{
    if (how & SWEEP_ONCE)
        sweep_in_one_way(name, scenario, 1);
    if (how & SWEEP_BURST)
        sweep_in_one_way(name, scenario, BURST);
    if (how & SWEEP_FOR_GOOD)
        sweep_in_one_way(name, scenario, UINT64_MAX);
}

uint32_t sweep_failures(void)
{
    return oom_failures();
}

void sweep_pause(void)
{
    oom_pause(true);
}

void sweep_resume(void)
{
    oom_pause(false);
}

void sweep_over(void)
{
    oom_pause(true);
}
#else
void unit_sweep(const char *name, void (*scenario)(void), unsigned how)
{
    (void)name;
    (void)how;
    scenario();
}

uint32_t sweep_failures(void)
{
    return 0;
}

void sweep_pause(void) {}
void sweep_resume(void) {}
void sweep_over(void) {}
#endif
