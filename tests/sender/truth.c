/* SPDX-License-Identifier: Apache-2.0 */
/* Programs that measure themselves: what they print is what a profiler should find. argv: which, how much. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static double seconds(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static double now(void)
{
    return seconds(CLOCK_MONOTONIC);
}

static double waited;

/* Who has to guess how long a wait will be, by the longest of the last ones (bpf/wait.bpf.h: learn), takes it
 * by that: the guesses, summed, and what each square is of its guess. */
static double guess = 0.05, guesses, guessed;

__attribute__((noinline)) void wait_here(double length)
{
    double from = now();
    struct timespec t = {.tv_nsec = (long)(length * 1e9)};
    nanosleep(&t, NULL);
    double took = now() - from;
    waited += took;
    guesses += guess;
    guessed += took * took / guess;
    guess = took > guess * 0.75 ? took : guess * 0.75;
}

static volatile unsigned long sink;

/* How many rounds it went: the time it got, where the clock goes on while the machine stands still (an
 * emulated one, whose host does something else). */
static unsigned long burn(double length)
{
    unsigned long rounds = 0;
    for (double end = seconds(CLOCK_PROCESS_CPUTIME_ID) + length; seconds(CLOCK_PROCESS_CPUTIME_ID) < end;
         rounds++)
        for (int i = 0; i < 10000; i++)
            sink += (unsigned long)i;
    return rounds;
}

__attribute__((noinline)) unsigned long first(double length)
{
    unsigned long rounds = burn(length);
    __asm__ volatile("");
    return rounds;
}

__attribute__((noinline)) unsigned long second(double length)
{
    unsigned long rounds = burn(length);
    __asm__ volatile("");
    return rounds;
}

__attribute__((noinline)) void touch_pages(volatile char *at, size_t n)
{
    for (size_t i = 0; i < n; i++)
        at[i * 4096] = 1;
}

__attribute__((noinline)) void *want_memory(size_t n)
{
    void *p = malloc(n);
    __asm__ volatile("" : "+r"(p));
    return p;
}

static int sleeping(double length, double least, double more)
{
    unsigned x = 1, naps = 0;
    for (double end = now() + length; now() < end; naps++) {
        x = x * 1103515245 + 12345;
        wait_here(least + more * (double)(x >> 16 & 1023) / 1024);
    }
    return printf("waited=%.9f guesses=%.9f guessed=%.9f naps=%u\n", waited, guesses, guessed, naps) < 0;
}

static int spinning(double length, double share)
{
    double one = 0, two = 0, from = seconds(CLOCK_PROCESS_CPUTIME_ID);
    unsigned long rounds[2] = {0};
    for (double at = from; at - from < length; at = seconds(CLOCK_PROCESS_CPUTIME_ID)) {
        rounds[0] += first(0.03 * share);
        double middle = seconds(CLOCK_PROCESS_CPUTIME_ID);
        rounds[1] += second(0.03 * (1 - share));
        one += middle - at;
        two += seconds(CLOCK_PROCESS_CPUTIME_ID) - middle;
    }
    return printf("cpu=%.9f first=%.9f second=%.9f first_rounds=%lu second_rounds=%lu\n",
                  seconds(CLOCK_PROCESS_CPUTIME_ID), one, two, rounds[0], rounds[1]) < 0;
}

/* Prints also in how many turns on a CPU it touched them: who makes a CPU's counter overflow gets all of it.
 */
static int touching(size_t pages)
{
    struct rusage from, to;
    char *at = mmap(NULL, pages * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED || madvise(at, pages * 4096, MADV_NOHUGEPAGE) < 0)
        return 1;
    getrusage(RUSAGE_SELF, &from);
    touch_pages(at, pages);
    getrusage(RUSAGE_SELF, &to);
    sleep(1); /* a program has to live until profsend has looked at its files, or they have no names */
    long turns = 1 + to.ru_nvcsw - from.ru_nvcsw + to.ru_nivcsw - from.ru_nivcsw;
    return printf("pages=%zu turns=%ld\n", pages, turns) < 0;
}

static int allocating(size_t n)
{
    size_t bytes = 0;
    for (size_t i = 0; i < n; i++) {
        size_t size = 1 + i * 7919 % 30000;
        free(want_memory(size));
        bytes += size;
        if (i % 200 == 199)
            wait_here(
                0.02); /* no faster than real programs, so that the profiler's ring is none of the test */
    }
    return printf("bytes=%zu\n", bytes) < 0;
}

static int direct(int n, const char *path)
{
    enum { SIZE = 65536 };
    int fd = open(path, O_RDWR | O_DIRECT);
    void *block = aligned_alloc(4096, SIZE);
    double spent[2] = {0};
    if (fd < 0)
        return 0; /* prints nothing: not here */
    memset(block, 1, SIZE);
    for (int reading = 0; reading < 2; reading++) {
        for (int i = 0; i < n; i++) {
            double from = now();
            off_t at = (off_t)(i % 64) * SIZE;
            ssize_t r = reading ? pread(fd, block, SIZE, at) : pwrite(fd, block, SIZE, at);
            if (r != SIZE)
                return 0;
            spent[reading] += now() - from;
        }
    }
    return printf("write=%.9f read=%.9f\n", spent[0], spent[1]) < 0;
}

enum {
    PAGE = 4096,
    APART = 500,
    NEIGHBOURS = 60,
    AT_ONCE = APART + 3 * NEIGHBOURS,
    TURNS = 4,
    TURNS_MAX = 100
};

/* Of a block device's writes so many were merged, by whomever, since it is there; 0: it does not say. */
static unsigned long writes_merged(const char *device)
{
    char path[256];
    unsigned long merged = 0;
    snprintf(path, sizeof path, "/sys/block/%s/stat", strrchr(device, '/') + 1);
    FILE *f = fopen(path, "re");
    if (f && fscanf(f, "%*u %*u %*u %*u %*u %lu", &merged) != 1)
        merged = 0;
    if (f)
        fclose(f);
    return merged;
}

static int submit(aio_context_t context, int fd, struct iocb *one, void *page, int at)
{
    *one = (struct iocb){.aio_lio_opcode = IOCB_CMD_PWRITE,
                         .aio_fildes = (uint32_t)fd,
                         .aio_buf = (uintptr_t)page,
                         .aio_nbytes = PAGE,
                         .aio_offset = (int64_t)at * PAGE};
    return (int)syscall(SYS_io_submit, context, 1, &one);
}

/* Writes of pages, each a request of its own at first: those that are apart keep the device busy, and while
 * the others wait, the middle one of three neighbours comes last and makes one request of two. Then a rest,
 * longer than all of it took, and so long that each request of a second can be taken. Until so many were
 * merged: whoever is kept off the CPU while it asks finds the device idle again. */
static int merging(unsigned long wanted, const char *path)
{
    int fd = open(path, O_RDWR | O_DIRECT);
    void *page = aligned_alloc(PAGE, PAGE);
    aio_context_t context = 0;
    double longest = 0;
    unsigned long before = writes_merged(path), merged = 0, requests = 0;
    if (fd < 0 || !page || syscall(SYS_io_setup, AT_ONCE, &context) < 0)
        return 1;
    memset(page, 1, PAGE);
    for (int turn = 0; turn < TURNS || (merged < wanted && turn < TURNS_MAX); turn++) {
        static struct iocb all[AT_ONCE];
        static struct io_event events[AT_ONCE];
        double from = now();
        int n = 0, ended = 0;
        while (n < APART && submit(context, fd, &all[n], page, 3 * NEIGHBOURS + 2 * n + 1) == 1)
            n++;
        for (int i = 0; i < 3 * NEIGHBOURS; i++)
            n += submit(context, fd, &all[n], page, i % NEIGHBOURS * 3 + (int[]){0, 2, 1}[i / NEIGHBOURS]) ==
                 1;
        while (ended < n) {
            long r = syscall(SYS_io_getevents, context, 1, AT_ONCE, events, NULL);
            if (r < 0)
                return 1;
            ended += (int)r;
        }
        double took = now() - from;
        longest = took > longest ? took : longest;
        if (n < AT_ONCE)
            return 1;
        requests += AT_ONCE;
        merged = writes_merged(path) - before;
        for (double end = now() + 2 * took + 1.1; now() < end;)
            wait_here(0.1);
    }
    return printf("longest=%.9f requests=%lu merged=%lu\n", longest, requests, merged) < 0;
}

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

__attribute__((noinline)) static double lock_here(void)
{
    double from = now();
    pthread_mutex_lock(&mutex);
    return now() - from;
}

struct contender {
    pthread_t thread;
    double length, waited;
    unsigned locks;
};

/* Holds the lock for 3 to 7 ms, and is without it for a moment: so that the others wait. */
static void *contend(void *argument)
{
    struct contender *c = argument;
    unsigned x = (unsigned)(uintptr_t)c;
    for (double end = now() + c->length; now() < end; c->locks++) {
        c->waited += lock_here();
        x = x * 1103515245 + 12345;
        struct timespec held = {.tv_nsec = 3000000 + (long)(x >> 16 & 1023) * 4000},
                        moment = {.tv_nsec = 200000};
        nanosleep(&held, NULL);
        pthread_mutex_unlock(&mutex);
        nanosleep(&moment, NULL);
    }
    return NULL;
}

static int contending(double length)
{
    struct contender c[3] = {0};
    double all = 0;
    unsigned locks = 0;
    for (int i = 0; i < 3; i++) {
        c[i].length = length;
        if (pthread_create(&c[i].thread, NULL, contend, &c[i]) != 0)
            return 1;
    }
    for (int i = 0; i < 3; i++) {
        pthread_join(c[i].thread, NULL);
        all += c[i].waited;
        locks += c[i].locks;
    }
    return printf("waited=%.9f locks=%u\n", all, locks) < 0;
}

static void on_alarm(int number) {}

/* Waits for a lock it holds itself, until a moment 40 ms on; a signal comes in the middle. */
__attribute__((noinline)) static double time_out_here(void)
{
    double from = now();
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += 40000000;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_mutex_timedlock(&mutex, &until);
    return now() - from;
}

static int timing_out(double length)
{
    double all = 0;
    unsigned locks = 0;
    struct sigaction action = {.sa_handler = on_alarm};
    sigaction(SIGALRM, &action, NULL);
    pthread_mutex_lock(&mutex);
    for (double end = now() + length; now() < end; locks++) {
        struct itimerval timer = {.it_value.tv_usec = 15000};
        setitimer(ITIMER_REAL, &timer, NULL);
        all += time_out_here();
    }
    return printf("waited=%.9f locks=%u\n", all, locks) < 0;
}

static int run(const char *what, double n, const char *device)
{
    if (strcmp(what, "sleep") == 0)
        return sleeping(n, 0.002, 0.02);
    if (strcmp(what, "naps") == 0)
        return sleeping(n, 0.003, 0);
    if (strcmp(what, "spin") == 0)
        return spinning(n, 0.5);
    if (strcmp(what, "half") == 0)
        return spinning(n, 0.75);
    if (strcmp(what, "touch") == 0)
        return touching((size_t)n);
    if (strcmp(what, "lock") == 0)
        return contending(n);
    if (strcmp(what, "timeout") == 0)
        return timing_out(n);
    if (strcmp(what, "alloc") == 0)
        return allocating((size_t)n);
    if (strcmp(what, "merge") == 0 && device)
        return merging((unsigned long)n, device);
    return strcmp(what, "direct") == 0 && device ? direct((int)n, device) : 2;
}

/* With a last argument `stay` it waits to be killed when it has said what it did: a profiler that is slow has
 * all the time it wants to look at its files. */
int main(int argc, char **argv)
{
    int status = argc > 2 ? run(argv[1], atof(argv[2]), argv[3]) : 2;
    fflush(stdout);
    while (status == 0 && strcmp(argv[argc - 1], "stay") == 0)
        pause();
    return status;
}
