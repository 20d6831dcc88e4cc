/* SPDX-License-Identifier: Apache-2.0 */
/* Loaded by generations.c, under a name in which the digits are others each time. */
#define spin generation_000000_spin
#include "tests/unwind/chain.h"

/* Two that differ in this and nothing else are equal in size, but not in what a frame takes, nor in where a
 * function is. */
#if SHIFT
#define SHIFTED __asm__ volatile("jmp 1f\n .fill 1000, 1, 0x90\n 1:")
#define TAIL    NOT_A_TAIL
#else
#define SHIFTED ((void)0)
#define TAIL    __asm__ volatile("jmp 1f\n .fill 1000, 1, 0x90\n 1:")
#endif

KEPT void generation_000000_leaf(unsigned long n)
{
    SHIFTED;
    spin(n);
    NOT_A_TAIL;
}

KEPT void generation_000000_middle(void (*back)(unsigned long), unsigned long n)
{
    volatile char room[64 + 128 * SHIFT];
    room[0] = (char)n;
    (void)room[0];
    generation_000000_leaf(n);
    back(n);
    NOT_A_TAIL;
}

__attribute__((visibility("default"))) void enter(void (*back)(unsigned long), unsigned long n)
{
    generation_000000_middle(back, n);
    TAIL;
}
