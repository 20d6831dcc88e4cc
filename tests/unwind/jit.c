/* SPDX-License-Identifier: Apache-2.0 */
/* Machine code written at run time, with a frame pointer, that calls back: it belongs to no file. */
#define _GNU_SOURCE
#include <string.h>
#include <sys/mman.h>

#include "tests/unwind/chain.h"

int main(void)
{
    /* push rbp; mov rbp, rsp; call rsi; pop rbp; ret */
    static const unsigned char code[] = {0x55, 0x48, 0x89, 0xe5, 0xff, 0xd6, 0x5d, 0xc3};
    void *page = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED)
        return 1;
    memcpy(page, code, sizeof code);
    mprotect(page, 4096, PROT_READ | PROT_EXEC);
    for (;;)
        ((void (*)(unsigned long, void (*)(unsigned long)))page)(100000, chain_a);
}
