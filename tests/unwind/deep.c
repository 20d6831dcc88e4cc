/* 300 calls deep, then the chain. */
#include "tests/unwind/chain.h"

KEPT static void deeper(int n)
{
    if (n == 0)
        chain_a(100000);
    else
        deeper(n - 1);
    NOT_A_TAIL;
}

int main(void)
{
    for (;;)
        deeper(300);
}
