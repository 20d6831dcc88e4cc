/* The chain in a signal handler, which interrupts a function of the program: `interrupted` must be below it.
 */
#define _GNU_SOURCE
#include <signal.h>
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
    sigaction(SIGALRM, &action, 0);
    setitimer(ITIMER_REAL, &often, 0);
    interrupted();
    NOT_A_TAIL;
    return 0;
}
