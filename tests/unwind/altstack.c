/* The same on a stack of its own: the frames below are at other addresses altogether. */
#define _GNU_SOURCE
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>

#include "tests/unwind/chain.h"

static void handler(int number)
{
    (void)number;
    chain_a(3000000);
    NOT_A_TAIL;
}

KEPT static void interrupted(void)
{
    for (;;)
        sink++;
}

int main(void)
{
    struct sigaction action;
    struct itimerval often = {{0, 10000}, {0, 10000}};
    stack_t stack = {.ss_sp = malloc(65536), .ss_size = 65536};
    memset(&action, 0, sizeof action);
    action.sa_handler = handler;
    action.sa_flags = SA_ONSTACK;
    sigaltstack(&stack, 0);
    sigaction(SIGALRM, &action, 0);
    setitimer(ITIMER_REAL, &often, 0);
    interrupted();
    NOT_A_TAIL;
    return 0;
}
