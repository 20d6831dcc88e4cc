/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that says it is CPython 3.11, and lies: its list of frames is a ring, each frame says at each
 * look that it is at another instruction, code objects have names as long as can be, and tables of lines
 * without an end.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

__attribute__((visibility("default"))) const unsigned long Py_Version = 0x030b02f0;
__attribute__((visibility("default"))) uint64_t _PyRuntime[4096];

#define FRAMES 64
static struct {
    uint64_t word[16];
} frames[FRAMES];
static uint64_t codes[FRAMES][64], state[16], cframe[4];
static uint8_t *endless; /* a string or a table, as wanted */

__attribute__((visibility("default"), noinline)) unsigned _PyEval_EvalFrameDefault(unsigned n)
{
    static volatile unsigned sum;
    for (unsigned i = 0; i < n; i++) {
        sum += i * i;
        frames[i % FRAMES].word[56 / 8] = (uint64_t)codes[i % FRAMES] + 184 + 2 * (i % 60000);
    }
    return sum;
}

int main(void)
{
    pthread_key_t key;
    endless = malloc(1 << 22);
    pthread_key_create(&key, NULL);
    memset(endless, 0x80 | 13 << 3, 1 << 22);
    memcpy(endless + 16, &(uint64_t){UINT64_MAX / 2}, 8);
    memcpy(endless + 32, &(uint64_t){0x20 | 4 << 2}, 8); /* UCS-4: but no characters */
    for (int i = 0; i < FRAMES; i++) {
        frames[i].word[32 / 8] = (uint64_t)codes[i];
        frames[i].word[48 / 8] = (uint64_t)&frames[(i + 1) % FRAMES];
        codes[i][112 / 8] = codes[i][120 / 8] = codes[i][128 / 8] = codes[i][136 / 8] = (uint64_t)endless;
    }
    ((uint32_t *)_PyRuntime)[592 / 4] = 1;
    ((uint32_t *)_PyRuntime)[592 / 4 + 1] = key;
    state[56 / 8] = (uint64_t)cframe;
    cframe[1] = (uint64_t)frames;
    pthread_setspecific(key, state);
    for (unsigned i = 0;; i++)
        _PyEval_EvalFrameDefault(100000 + i);
}
