/* SPDX-License-Identifier: Apache-2.0 */
/* The chain in a coroutine as libco makes them: its first function would return to one that nobody has
 * called, which begins right where another ends (-falign-functions=1). */
#include <stdlib.h>

#include "tests/unwind/chain.h"

static void *outside, *inside;

/* Leaves one stack, kept in *from, for another. */
void swap(void **from, void *to);
__asm__(".text\n"
        "swap: push %rbp; push %rbx; push %r12; push %r13; push %r14; push %r15\n"
        "mov %rsp, (%rdi); mov %rsi, %rsp\n"
        "pop %r15; pop %r14; pop %r13; pop %r12; pop %rbx; pop %rbp; ret\n");

KEPT static void body(void)
{
    for (;;) {
        chain_a(100000);
        swap(&inside, outside);
    }
}

KEPT static void nobody_calls(void)
{
    abort();
}

int main(void)
{
    void **top = (void **)((char *)calloc(1, 65536) + 65536 - 64);
    *--top = nobody_calls;
    *--top = body;
    inside = top - 6;
    for (;;)
        swap(&outside, inside);
}
