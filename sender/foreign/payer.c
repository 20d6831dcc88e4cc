/* SPDX-License-Identifier: Apache-2.0 */
#include "sender/foreign/payer.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "proto/base/clock.h"
#include "proto/base/macros.h"

struct range {
    uint32_t first, n;
};

static struct {
    pthread_rwlock_t lock; /* of all but `looked` */
    const char *path;
    struct timespec changed;
    uint32_t n;
    struct range range[PAYER_RANGES]; /* by first */
    _Atomic uint64_t looked;          /* when; 0: never */
} all = {.lock = PTHREAD_RWLOCK_INITIALIZER, .path = "/etc/subuid"};

static int by_first(const void *a, const void *b)
{
    const struct range *x = a, *y = b;
    return order_of(x->first, y->first) ?: order_of(x->n, y->n);
}

/* Lines are NAME:FIRST:COUNT; others are none. */
static void read_all(FILE *file)
{
    char line[256];
    all.n = 0;
    while (all.n < PAYER_RANGES && fgets(line, sizeof line, file)) {
        unsigned long first, n;
        const char *colon = strchr(line, ':');
        if (colon && sscanf(colon, ":%lu:%lu", &first, &n) == 2 && first > 0 && first < UINT32_MAX && n > 0)
            all.range[all.n++] = (struct range){
                (uint32_t)first, n < UINT32_MAX - first ? (uint32_t)n : UINT32_MAX - (uint32_t)first};
    }
    qsort(all.range, all.n, sizeof *all.range, by_first);
}

/* A file that is away changes nothing. */
static void refresh(void)
{
    struct stat st;
    pthread_rwlock_wrlock(&all.lock);
    FILE *file = fopen(all.path, "re");
    if (file && fstat(fileno(file), &st) == 0 && !clock_is_same(st.st_ctim, all.changed)) {
        all.changed = st.st_ctim;
        read_all(file);
    }
    if (file)
        (void)fclose(file);
    pthread_rwlock_unlock(&all.lock);
}

uint32_t payer_of(uint32_t user)
{
    if (user == 0 || user == UINT32_MAX)
        return user;
    uint64_t now = clock_monotonic(), looked = atomic_load(&all.looked);
    if ((looked == 0 || now - looked >= PAYER_AGAIN_NS) &&
        atomic_compare_exchange_strong(&all.looked, &looked, now))
        refresh();
    pthread_rwlock_rdlock(&all.lock);
    const uint32_t behind = first_where(all.n, i, all.range[i].first > user);
    if (behind > 0 && user - all.range[behind - 1].first < all.range[behind - 1].n)
        user = all.range[behind - 1].first;
    pthread_rwlock_unlock(&all.lock);
    return user;
}

void payer_file(const char *path)
{
    pthread_rwlock_wrlock(&all.lock);
    all.path = path;
    all.changed = (struct timespec){0};
    all.n = 0;
    atomic_store(&all.looked, 0);
    pthread_rwlock_unlock(&all.lock);
}
