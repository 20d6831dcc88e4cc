/* SPDX-License-Identifier: Apache-2.0 */
/* A busy scheduler: pairs of threads that hand a byte to and fro, with 50 µs of work in between. */
#include <pthread.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define PAIRS 4

static volatile unsigned long sink;

__attribute__((noinline)) void work(void)
{
    struct timespec from, now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &from);
    do {
        for (int i = 0; i < 2000; i++)
            sink += (unsigned long)i;
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    } while ((now.tv_sec - from.tv_sec) * 1000000000L + now.tv_nsec - from.tv_nsec < 50000);
}

static void *hand_over(void *fds)
{
    int *fd = fds;
    char byte = 0;
    for (;;) {
        if (read(fd[0], &byte, 1) != 1)
            abort();
        work();
        if (write(fd[1], &byte, 1) != 1)
            abort();
    }
}

int main(void)
{
    static int fd[PAIRS][2][2];
    for (int i = 0; i < PAIRS; i++) {
        int there[2], back[2];
        pthread_t thread;
        if (pipe(there) < 0 || pipe(back) < 0)
            return 1;
        fd[i][0][0] = there[0], fd[i][0][1] = back[1];
        fd[i][1][0] = back[0], fd[i][1][1] = there[1];
        for (int j = 0; j < 2; j++)
            if (pthread_create(&thread, NULL, hand_over, fd[i][j]))
                return 1;
        if (write(there[1], "", 1) != 1)
            return 1;
    }
    pause();
    return 0;
}
