/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that says it is Ruby 3.3, and lies: its frames have no end and say at each look that they are at
 * another instruction, environments are in themselves, iseqs have names as long as can be, of a class that is
 * a singleton class of itself, and tables of lines without an end; it always collects garbage.
 */
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#define EXPORTED __attribute__((visibility("default"), used))

EXPORTED const char ruby_version[6] = "3.3.8";
static __thread uint64_t *volatile current;
static volatile unsigned sum;

EXPORTED __attribute__((noinline)) int rb_profile_frames(void)
{
    return current[0] != 0;
}

EXPORTED int rb_iseq_eval(int n)
{
    return n + 1;
}

#define FRAMES 4096
#define ISEQS  64
static uint64_t context[16], frames[FRAMES][7], env[8], entry[8], method[8], class[32], body[ISEQS][32],
    iseq[ISEQS][4];
static uint64_t *endless;

EXPORTED __attribute__((noinline)) unsigned rb_vm_exec(unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        sum += i * i;
        frames[i % FRAMES][0] = body[i % ISEQS][1] + 8 * (uint64_t)(i % 60000);
        body[i % ISEQS][9] = (uint64_t)endless + 64 * (uint64_t)(i & 7);
    }
    return sum;
}

int main(void)
{
    endless = malloc(1 << 22);
    for (uint64_t i = 0; i < (1 << 22) / 8; i++)
        endless[i] = (uint64_t)endless + 8 * (i * 31 % 4096);
    endless[0] = 0x05 | 1u << 13;
    endless[2] = UINT64_MAX / 2;
    endless[3] = (uint64_t)endless;
    current = context;
    context[0] = (uint64_t)frames;
    context[1] = UINT64_MAX / 16;
    context[2] = (uint64_t)frames;
    env[1] = (uint64_t)&env[2]; /* around it is itself */
    for (int i = 0; i < FRAMES; i++) {
        frames[i][2] = (uint64_t)iseq[i % ISEQS];
        frames[i][4] = (uint64_t)&env[2];
    }
    for (int i = 0; i < ISEQS; i++) {
        iseq[i][0] = 0x1a | 7 << 12;
        iseq[i][2] = (uint64_t)body[i];
        body[i][1] = 4096;
        for (int j = 8; j < 32; j++)
            body[i][j] = (uint64_t)endless;
    }
    entry[0] = 0x1a | 6 << 12;
    entry[2] = (uint64_t)method;
    entry[4] = class[0] = class[16] = (uint64_t) class;
    class[0] = 0x1002;
    env[0] = (uint64_t)entry;
    /* What may be spent on names is each user's own. */
    if (getuid() == 0 && setuid(65534))
        return 1;
    for (unsigned i = 0;; i++)
        rb_vm_exec(100000 + i);
}
