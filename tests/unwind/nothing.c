/* SPDX-License-Identifier: Apache-2.0 */
/* The chain in a handler that a call of NULL has led to. */
#include <signal.h>

#include "tests/unwind/chain.h"

static void (*volatile nothing)(void);

KEPT static void handler(int number)
{
    for (;;)
        chain_a(100000);
}

KEPT static void calls_nothing(void)
{
    nothing();
    NOT_A_TAIL;
}

int main(void)
{
    signal(SIGSEGV, handler);
    calls_nothing();
}
