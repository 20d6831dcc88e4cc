/* SPDX-License-Identifier: Apache-2.0 */
/* Calls a function of the C library that does next to nothing, so that much of the time is spent on the way
 * there: in the stub that the linker made for it. Built with -fno-builtin. */
#include <stdlib.h>

#include "tests/unwind/chain.h"

CHAIN_FN void calls(long n)
{
    for (long i = 0; i < n; i++)
        sink += labs(i);
}

int main(void)
{
    spin(1);
    for (;;) {
        calls(100000);
        NOT_A_TAIL;
    }
}
