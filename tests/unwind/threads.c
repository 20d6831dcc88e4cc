/* SPDX-License-Identifier: Apache-2.0 */
/* The chain in a thread: its first function is the C library's. */
#include <pthread.h>

#include "tests/unwind/chain.h"

static void *thread(void *unused)
{
    for (;;)
        chain_a(100000);
    return unused;
}

int main(void)
{
    pthread_t id;
    pthread_create(&id, 0, thread, 0);
    pthread_join(id, 0);
    return 0;
}
