/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Short-lived processes: `short RATE SECONDS PROGRAM` starts so many a second of PROGRAM (this one, without
 * arguments: 1 ms of CPU and gone), on a busy machine as many in a longer time, and prints how many there
 * were and the CPU time all of them took.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>

static double seconds(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static volatile unsigned long sink;

static int live(void)
{
    while (seconds(CLOCK_PROCESS_CPUTIME_ID) < 0.001)
        for (int i = 0; i < 1000; i++)
            sink += (unsigned long)i;
    return 0;
}

int main(int argc, char **argv)
{
    if (argc < 4)
        return live();
    double rate = atof(argv[1]), length = atof(argv[2]), begun = seconds(CLOCK_MONOTONIC), now = begun;
    char *child_argv[] = {argv[3], NULL};
    unsigned long started = 0, failed = 0;
    for (; (double)started < rate * length; now = seconds(CLOCK_MONOTONIC)) {
        /* What a busy machine held up is made up for, 20 at once at most. */
        for (int i = 0; i < 20 && (double)started < (now - begun) * rate; i++, started++)
            failed += posix_spawn(&(pid_t){0}, argv[3], NULL, NULL, child_argv, NULL) != 0;
        while (waitpid(-1, NULL, WNOHANG) > 0)
            ;
        nanosleep(&(struct timespec){.tv_nsec = (long)(0.5e9 / rate)}, NULL);
    }
    while (waitpid(-1, NULL, 0) > 0 || errno == EINTR)
        ;
    struct rusage all;
    getrusage(RUSAGE_CHILDREN, &all);
    double cpu = (double)(all.ru_utime.tv_sec + all.ru_stime.tv_sec) +
                 (double)(all.ru_utime.tv_usec + all.ru_stime.tv_usec) / 1e6;
    return printf("processes=%lu cpu=%.6f failed=%lu\n", started, cpu, failed) < 0;
}
