/* SPDX-License-Identifier: Apache-2.0 */
/* Generated code of two kinds, called from functions with frame pointers: one that does next to nothing but
 * to make a frame and to leave it, and one that has no frame pointer and calls back. */
#define _GNU_SOURCE
#include <string.h>
#include <sys/mman.h>

#include "tests/unwind/chain.h"

/* push %rbp; mov %rsp, %rbp; pop %rbp; ret */
static const unsigned char little[] = {0x55, 0x48, 0x89, 0xe5, 0x5d, 0xc3};
/* push %rbx; sub $32, %rsp; call *%rdi; add $32, %rsp; pop %rbx; ret */
static const unsigned char without[] = {0x53, 0x48, 0x83, 0xec, 0x20, 0xff, 0xd7,
                                        0x48, 0x83, 0xc4, 0x20, 0x5b, 0xc3};

typedef void generated_fn(void (*)(void));

static void back(void)
{
    chain_a(100000);
    NOT_A_TAIL;
}

KEPT static void calls_without(generated_fn *code)
{
    code(back);
    NOT_A_TAIL;
}

KEPT static void calls_little(generated_fn *code)
{
    for (int i = 0; i < 100000; i++)
        code(back);
    NOT_A_TAIL;
}

KEPT static void around(unsigned char *code)
{
    calls_without((generated_fn *)(void *)code);
    calls_little((generated_fn *)(void *)(code + 64));
    NOT_A_TAIL;
}

int main(void)
{
    unsigned char *code =
        mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memcpy(code, without, sizeof without);
    memcpy(code + 64, little, sizeof little);
    for (;;) {
        around(code);
        NOT_A_TAIL;
    }
}
