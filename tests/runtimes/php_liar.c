/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that says it is PHP 8.2, and lies: its list of frames is a ring, of functions whose names have no
 * end and generators that wait for each other in a circle, and it runs in memory that is as opcache's.
 */
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#define EXPORTED __attribute__((visibility("default")))

EXPORTED const char *version = "X-Powered-By: PHP/8.2.36";
EXPORTED uint64_t executor_globals[225], *zend_ce_generator, make_fcontext[4];

#define FRAMES 64
static uint64_t frames[FRAMES][16], functions[FRAMES][32], generators[8][32], class[64], endless[1 << 16];

EXPORTED int zend_vm_kind(void)
{
    return 4;
}

EXPORTED __attribute__((noinline)) unsigned execute_ex(unsigned (*compiled)(unsigned), unsigned n)
{
    volatile unsigned room[64];
    for (unsigned i = 0; i < n; i++) {
        frames[i % FRAMES][0] = (uint64_t)endless + 32 * (i % 60000);  /* another line at each look */
        functions[i % FRAMES][1] = (uint64_t)endless + 8 * (i % 1000); /* and another name */
        room[i % 64] = i % 8 ? i : compiled(1000);
    }
    return room[0];
}

int main(void)
{
    /* 1: dec %edi; jnz 1b; ret */
    static const uint8_t code[] = {0xff, 0xcf, 0x75, 0xfc, 0xc3};
    void *compiled = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (compiled == MAP_FAILED)
        return 1;
    memcpy(compiled, code, sizeof code);
    for (int i = 0; i < 1 << 16; i++)
        endless[i] = UINT64_MAX / 3;
    zend_ce_generator = class;
    for (int i = 0; i < 8; i++) {
        generators[i][2] = (uint64_t) class;
        generators[i][7] = (uint64_t)frames[i];
        generators[i][19] = (uint64_t)generators[(i + 1) % 8];
    }
    for (int i = 0; i < FRAMES; i++) {
        frames[i][3] = i % 4 ? (uint64_t)functions[i] : 0;
        frames[i][4] = (uint64_t)generators[i % 8];
        frames[i][5] = i % 4 ? (uint64_t)(i % 3) << 17 : 8;
        frames[i][6] = (uint64_t)frames[(i + 1) % FRAMES];
        functions[i][0] = 1 + i % 3;
        functions[i][2] = (uint64_t) class;
        functions[i][19] = (uint64_t)endless;
        functions[i][20] = UINT64_MAX << 32;
    }
    class[1] = (uint64_t)endless;
    executor_globals[488 / 8] = (uint64_t)frames;
    for (unsigned i = 0;; i++)
        execute_ex((unsigned (*)(unsigned))compiled, 100000 + i % 7);
}
