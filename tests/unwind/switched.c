/* SPDX-License-Identifier: Apache-2.0 */
/* The chain on the second of two other stacks, to which code has gone as OCaml 5's does: where the stack
 * before is it says by an expression, and that a return address of its own is not to be looked up one before,
 * as that of a signal's handler (.cfi_signal_frame). The second one is above the first, which is below the
 * one the program begins with. */
#include "tests/unwind/chain.h"

static char room[2][65536] __attribute__((aligned(16)));

/* Calls `function` on the stack that ends at `top`. */
void call_on(void (*function)(void), char *top);
__asm__(".text\n"
        ".type call_on, @function\n"
        "call_on: .cfi_startproc\n"
        ".cfi_signal_frame\n"
        "mov %rsp, -8(%rsi); lea -16(%rsi), %rsp\n"
        ".cfi_remember_state\n"
        ".cfi_escape 0x0f, 5, 0x77, 8, 6, 0x23, 8\n" /* CFA: what is stored at rsp + 8, plus 8 */
        "call *%rdi\n"
        "mov 8(%rsp), %rsp\n"
        ".cfi_restore_state\n"
        "ret\n"
        ".cfi_endproc\n");

KEPT static void inner(void)
{
    for (;;)
        chain_a(100000);
}

KEPT static void outer(void)
{
    call_on(inner, room[1] + sizeof room[1]);
    NOT_A_TAIL;
}

int main(void)
{
    call_on(outer, room[0] + sizeof room[0]);
}
