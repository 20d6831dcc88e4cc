/* SPDX-License-Identifier: Apache-2.0 */
/* The chain and nothing else. */
#include "tests/unwind/chain.h"

int main(void)
{
    for (;;)
        chain_a(100000);
}
