/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that says it is LuaJIT, and lies: each frame of its interpreter runs the whole of a stack of
 * 32,768 functions, which change what they are at each look, and whose callers have code without a beginning.
 */
#include <stdint.h>
#include <stdlib.h>

#define EXPORTED __attribute__((visibility("default")))

EXPORTED const char *version = "LuaJIT 2.1.0-lies";
EXPORTED int luaJIT_setmode(void)
{
    return 0;
}

/* (frame, what is changed, how often, base, pc): goes round on a frame of the caller's making. What it is
 * known by is its call frame information, how long it is, and the instructions behind it. */
uint64_t saved;
void interpret(uint64_t *frame, uint64_t *changed, uint64_t n, uint64_t base, uint64_t pc);
__asm__(".text\n"
        ".globl interpret\n"
        "interpret:\n"
        "    push %rbx\n"
        "    mov %rsp, saved(%rip)\n"
        "    mov %rdi, %rsp\n"
        "    mov %r8, %rbx\n"
        "    xchg %rdx, %rcx\n"
        "1:  addq $8, (%rsi)\n"
        "    subq $8, (%rsi)\n"
        "    dec %rcx\n"
        "    jnz 1b\n"
        "    mov saved(%rip), %rsp\n"
        "    pop %rbx\n"
        "    ret\n"
        "    mov 0x10(%rbp), %r14\n"
        "    add $0x1000, %r14\n"
        "    mov 0x10(%rsp), %rbp\n"
        "    mov %rdx, -0x800(%r14)\n"
        "    .skip 12000, 0x90\n"
        "2:\n"
        ".section .eh_frame, \"a\", @progbits\n"
        "3:  .long 5f - 4f\n" /* 80 bytes of stack, with rbp, rbx, r15 and r14 */
        "4:  .long 0, 0x00527a01, 0x01107801, 0x08070c1b, 0x0190\n"
        "5:  .long 7f - 6f\n"
        "6:  .long 6b - 3b, interpret - ., 2b - interpret\n"
        "    .byte 0, 0x0e, 80, 0x86, 2, 0x83, 3, 0x8f, 4, 0x8e, 5, 0\n"
        "7:  .text\n");

#define SLOTS 65536u
#define KINDS 64u
static uint64_t stack[SLOTS], state[16], global[1024], functions[KINDS][8], protos[KINDS][32], frames[64][10];
static uint32_t code[1u << 18];

int main(void)
{
    for (unsigned i = 0; i < sizeof code / sizeof *code; i++)
        code[i] = 0x42; /* CALL: the caller's frame is just below */
    for (unsigned i = 0; i < KINDS; i++) {
        functions[i][1] = i % 5 ? 0x0800 : 0x10800;
        functions[i][4] = (uint64_t)(protos[i] + 13);
        protos[i][1] = 0xffffffff00000700;
        protos[i][8] = (uint64_t)stack; /* the name of its chunk */
        protos[i][9] = (uint64_t)i << 40 | i;
        protos[i][10] = (uint64_t)stack;
    }
    for (unsigned i = 0; i < SLOTS; i += 2) {
        stack[i] = 0x1fff7ull << 47 | (uint64_t)functions[i / 2 % KINDS];
        stack[i + 1] = i / 2 % 97 ? (uint64_t)(code + 131072 + i % 4096) : 64 | (i / 2 % 4 + 1);
    }
    state[1] = 0x010600;
    state[2] = (uint64_t)global;
    state[4] = state[6] = (uint64_t)(stack + SLOTS);
    state[7] = (uint64_t)stack;
    state[10] = (uint64_t)frames;
    for (unsigned i = 0; i < 63; i++) {
        frames[i][2] = (uint64_t)state;
        frames[i][4] = (uint64_t)frames[i / 2];
        frames[i][9] = (uint64_t)interpret + 1000;
    }
    for (unsigned i = 0;; i++)
        interpret(frames[i % 8], &functions[i % KINDS][4], 100000 + i % 7,
                  (uint64_t)(stack + SLOTS - 2 * (i % 1000)), (uint64_t)(protos[i % KINDS] + 13));
}
