/* SPDX-License-Identifier: Apache-2.0 */
/* The chain while the dynamic linker looks up what is called for the first time: below the function by which
 * a library (built with -DLIBRARY) chooses what its `chosen` is. */
#ifdef LIBRARY
#include "tests/unwind/chain.h"

static void chosen_one(void) {}

KEPT static void (*chooses(void))(void)
{
    for (;;)
        chain_a(100000);
    return chosen_one;
}

void chosen(void) __attribute__((ifunc("chooses")));
#else
void chosen(void);

int main(void)
{
    for (;;) {
        chosen();
        __asm__ volatile("" ::: "memory");
    }
}
#endif
