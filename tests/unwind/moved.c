/* SPDX-License-Identifier: Apache-2.0 */
/* The chain in code that was moved to memory of no file, as programs do for larger pages. */
#define _GNU_SOURCE
#include <string.h>
#include <sys/mman.h>

#include "tests/unwind/chain.h"

#define PAGE 4096ul

/* It is all copied, and the copy takes its place at once: who does that is in it. */
KEPT static int move(void)
{
    extern const char etext[];
    char *from = (char *)(((unsigned long)chain_a) & ~(PAGE - 1));
    unsigned long n = ((unsigned long)(etext - from) + PAGE - 1) & ~(PAGE - 1);
    char *copy = mmap(NULL, n, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (copy == MAP_FAILED)
        return -1;
    memcpy(copy, from, n);
    return mremap(copy, n, n, MREMAP_MAYMOVE | MREMAP_FIXED, from) == from ? 0 : -1;
}

int main(void)
{
    if (move() != 0)
        return 1;
    for (;;)
        chain_a(100000);
}
