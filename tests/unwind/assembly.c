/* SPDX-License-Identifier: Apache-2.0 */
/* Functions written by hand that say nothing of their frames, as those of zstd, GMP and video codecs: one is
 * called by another, uses rbp for itself, is entered in the middle of its loop, and has more than one end. */
#include "tests/unwind/chain.h"

extern unsigned long called_by_hand(unsigned long n);

__asm__(
    ".text\n.balign 16\n.type grind, @function\ngrind:\n"
    "test %rdi, %rdi\njz 3f\npush %rbx\npush %rbp\npush %r15\nsub $0x68, %rsp\nxor %ebp, %ebp\nmov %rdi, (%rsp)\n"
    "jmp 2f\n1: imul $0x1234567, %rbx, %rbx\nlea 1(%rbp), %rbp\n2: xor %rbp, %rbx\ncmp %rbp, (%rsp)\njne 1b\n"
    "mov %rbx, %rax\nadd $0x68, %rsp\npop %r15\npop %rbp\npop %rbx\nret\n3: mov $1, %eax\nret\n"
    ".size grind, .-grind\n"
    ".balign 16\n.globl called_by_hand\n.type called_by_hand, @function\ncalled_by_hand:\n"
    "push %rbp\nmov %rdi, %rbp\nsub $16, %rsp\ncall grind\nadd %rbp, %rax\nadd $16, %rsp\npop %rbp\nret\n"
    ".size called_by_hand, .-called_by_hand\n");

CHAIN_FN void calls(unsigned long n)
{
    sink += called_by_hand(n);
    NOT_A_TAIL;
}

int main(void)
{
    spin(1);
    for (;;)
        calls(100000);
}
