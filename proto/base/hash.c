#include "proto/base/hash.h"

#include <pthread.h>
#include <sys/random.h>
#include <time.h>

static pthread_once_t drawn = PTHREAD_ONCE_INIT;
static uint64_t seed;

static void draw(void)
{
    if (getrandom(&seed, sizeof seed, GRND_NONBLOCK) != (ssize_t)sizeof seed) {
        struct timespec now; /* early boot: weak, but never the same twice */
        clock_gettime(CLOCK_MONOTONIC, &now);
        seed = hash_mix((uint64_t)now.tv_nsec, (uint64_t)(uintptr_t)&now);
    }
}

uint64_t hash_seed(void)
{
    pthread_once(&drawn, draw);
    return seed;
}
