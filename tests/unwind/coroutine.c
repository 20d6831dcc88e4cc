/* SPDX-License-Identifier: Apache-2.0 */
/* The chain on a stack of a coroutine's, whose first function is the C library's. */
#include <stdlib.h>
#include <ucontext.h>

#include "tests/unwind/chain.h"

static ucontext_t outside, inside;

static void body(void)
{
    for (;;) {
        chain_a(100000);
        swapcontext(&inside, &outside);
    }
}

int main(void)
{
    getcontext(&inside);
    inside.uc_stack.ss_sp = malloc(65536);
    inside.uc_stack.ss_size = 65536;
    inside.uc_link = &outside;
    makecontext(&inside, body, 0);
    for (;;)
        swapcontext(&outside, &inside);
}
