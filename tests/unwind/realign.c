/* SPDX-License-Identifier: Apache-2.0 */
/* Frames aligned beyond the ABI's 16 bytes, and of variable size: the CFA is kept in memory, or in rbp. */
#include <alloca.h>

#include "tests/unwind/chain.h"

KEPT static void aligned(unsigned long n)
{
    volatile char room[96] __attribute__((aligned(64)));
    room[n & 63] = 1;
    chain_a(n);
    sink += (unsigned long)room[0];
}

KEPT static void sized(unsigned long n)
{
    volatile char *room = alloca(n % 512 + 16);
    room[0] = 1;
    aligned(n);
    sink += (unsigned long)room[0];
}

int main(void)
{
    for (unsigned long n = 1000;; n = 1000 + n * 7 % 4096)
        sized(n);
}
