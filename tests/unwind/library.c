/* SPDX-License-Identifier: Apache-2.0 */
/* Through the C library and the vDSO: a comparison called by qsort, memory copied, the clock read, system
 * calls. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tests/unwind/chain.h"

static char from[65536], to[65536];
static int numbers[2000];

static int compare(const void *a, const void *b)
{
    chain_a(50);
    return *(const int *)a - *(const int *)b;
}

KEPT static void sorting(void)
{
    for (int i = 0; i < 2000; i++)
        numbers[i] = i * 7919 % 2000;
    qsort(numbers, 2000, sizeof *numbers, compare);
}

KEPT static void copying(void)
{
    for (int i = 0; i < 200; i++)
        memcpy(to, from, sizeof to - (unsigned)i);
}

KEPT static void timing(void)
{
    struct timespec t;
    for (int i = 0; i < 20000; i++)
        clock_gettime(CLOCK_MONOTONIC, &t);
}

KEPT static void calling(void)
{
    for (int i = 0; i < 2000; i++)
        sink += (unsigned long)getppid();
}

int main(void)
{
    for (;;) {
        sorting();
        copying();
        timing();
        calling();
    }
}
