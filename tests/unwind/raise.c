/* SPDX-License-Identifier: Apache-2.0 */
/* Signals whose handler does next to nothing: much of the time is spent in the kernel, on the way back from
 * it. */
#include <signal.h>
#include <unistd.h>

#include "tests/unwind/chain.h"

static void handler(int number)
{
    (void)number;
    sink++;
}

KEPT static void raises(void)
{
    for (int i = 0; i < 1000; i++) {
        kill(getpid(), SIGUSR1);
        sink++;
    }
}

int main(void)
{
    spin(1);
    chain_a(1);
    signal(SIGUSR1, handler);
    for (;;) {
        raises();
        NOT_A_TAIL;
    }
}
