/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that says it is Perl 5.36 without threads, and lies: its stacks are a ring and have contexts
 * without end, whose subroutines change their names at each look, and what waits for exceptions waits for
 * itself.
 */
#include <stdint.h>
#include <stdio.h>

#define EXPORTED __attribute__((visibility("default")))

EXPORTED const char *version = "This is perl 5, version 36, subversion 0 (%-p) built for nothing";
EXPORTED uint64_t *PL_op, *PL_curcop, *PL_curstackinfo, *PL_top_env;

#define STACKS 8
static uint64_t infos[STACKS][8], contexts[64][13], code[64][2], body[64][16], globs[64][2],
    glob_body[64][16];
static uint64_t names[64][64], cops[64][8], endless[1 << 16];

EXPORTED unsigned Perl_runops_standard(unsigned depth, unsigned n);
static unsigned (*volatile again)(unsigned, unsigned) = Perl_runops_standard;

EXPORTED unsigned Perl_runops_standard(unsigned depth, unsigned n)
{
    volatile unsigned room[16];
    for (unsigned i = 0; i < n; i++) {
        body[i % 64][7] = (uint64_t)globs[i % 61];
        glob_body[i % 64][4] = (uint64_t)endless + 8 * (i % 60000);
        names[i % 64][0] = (uint64_t)i << 35 | i;
        contexts[i % 64][6] = i % 3;
        infos[i % STACKS][4] = i % 97 ? 63 : 0x7fffffff;
        room[i % 16] = i;
    }
    return room[0] + (depth ? again(depth - 1, n) : 0);
}

int main(void)
{
    for (int i = 0; i < 1 << 16; i++)
        endless[i] = UINT64_MAX / 3;
    for (int i = 0; i < STACKS; i++) {
        infos[i][1] = (uint64_t)contexts;
        infos[i][2] = (uint64_t)infos[(i + 1) % STACKS];
        infos[i][4] = 63;
    }
    for (int i = 0; i < 64; i++) {
        contexts[i][0] = (uint64_t)(i % 14);
        contexts[i][2] = (uint64_t)cops[i];
        contexts[i][9] = (uint64_t)code[i];
        code[i][0] = (uint64_t)body[i];
        code[i][1] = 13ull << 32;
        globs[i][0] = (uint64_t)glob_body[i];
        globs[i][1] = 9ull << 32;
        cops[i][4] = (uint64_t)i << 32 | 0xc3;
        cops[i][6] = (uint64_t)globs[i];
    }
    PL_curcop = cops[0];
    PL_op = cops[1];
    PL_curstackinfo = infos[0];
    endless[0] = (uint64_t)endless;
    PL_top_env = endless;
    for (unsigned i = 0;; i++)
        again(16, 1000 + i % 7);
}
