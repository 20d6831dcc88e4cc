/* SPDX-License-Identifier: Apache-2.0 */
/* The chain in a signal handler, which interrupts a function of the program: `interrupted` must be below it.
 * With OWN_STACK the handler has one: the frames below are at other addresses altogether. */
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
    memset(&action, 0, sizeof action);
    action.sa_handler = handler;
#ifdef OWN_STACK
    stack_t stack = {.ss_sp = malloc(65536), .ss_size = 65536};
    sigaltstack(&stack, 0);
    action.sa_flags = SA_ONSTACK;
#endif
    sigaction(SIGALRM, &action, 0);
    setitimer(ITIMER_REAL, &often, 0);
    interrupted();
    NOT_A_TAIL;
    return 0;
}
