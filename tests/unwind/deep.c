/* SPDX-License-Identifier: Apache-2.0 */
/* DEPTH calls deep, then the chain. With 700 there are more frames than a stack may have: it must be cut, and
 * say so. */
#include "tests/unwind/chain.h"

#ifndef DEPTH
#define DEPTH 300
#endif

KEPT static void deeper(int n)
{
    if (n == 0)
        chain_a(100000);
    else
        deeper(n - 1);
    NOT_A_TAIL;
}

int main(void)
{
    for (;;)
        deeper(DEPTH);
}
