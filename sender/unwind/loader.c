/* SPDX-License-Identifier: Apache-2.0 */
#include "sender/unwind/loader.h"

#include <errno.h>
#include <sys/stat.h>
#include <time.h>

#include "bpf/runtimes.h"
#include "proto/base/clock.h"

/* Room that was made may be in pieces: then it is made again. */
#define TRIES 3

void loader_init(struct loader *l, struct tables *tables)
{
    *l = (struct loader){.tables = tables};
    pthread_mutex_init(&l->lock, NULL);
}

void loader_release(struct loader *l)
{
    pthread_mutex_destroy(&l->lock);
}

static uint64_t thread_time(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * NSEC_PER_SEC + (uint64_t)t.tv_nsec;
}

/* Whether it is the file the key was made of, and still as it was: else its rows would serve another one. */
static int check(int fd, const struct unwind_key *key)
{
    struct stat st;
    if (fstat(fd, &st) < 0)
        return -errno;
    bool same =
        S_ISREG(st.st_mode) && (uint64_t)st.st_size == key->size && (uint64_t)st.st_mtim.tv_sec == key->mtime;
    return same ? 0 : -ESTALE;
}

static int install(struct loader *l, const struct unwind_key *key, const struct source *source, int fd)
{
    struct rows rows = {0};
    uint64_t begun = thread_time();
    int r = rows_compile(&rows, source);
    if (r == ROWS_NONE)
        r = 0; /* `rows` is empty */
    if (r == 0 && fd >= 0)
        r = check(fd, key);
    rows.runtime = l->recognise && fd >= 0 ? l->recognise(fd) : RUNTIME_NATIVE;
    if (r == 0)
        r = tables_add(l->tables, key, &rows, clock_monotonic());
    for (int i = 0; i < TRIES && r == TABLES_LATER; i++) {
        nanosleep(&(struct timespec){.tv_nsec = TABLES_GRACE_NS}, NULL);
        r = tables_add(l->tables, key, &rows, clock_monotonic());
    }
    pthread_mutex_lock(&l->lock);
    l->counts.compile_ns += thread_time() - begun;
    l->counts.damaged += rows.n_damaged;
    l->counts.failed += r != 0;
    l->counts.without += r == 0 && rows.n_pages == 0;
    l->counts.loaded += r == 0 && rows.n_pages > 0;
    l->counts.tables = tables_counts(l->tables);
    pthread_mutex_unlock(&l->lock);
    rows_release(&rows);
    return r;
}

int loader_add(struct loader *l, const struct unwind_key *key, int fd)
{
    struct source source;
    int r = check(fd, key);
    r = r < 0 ? r : source_file(&source, fd);
    if (r == 0)
        return install(l, key, &source, fd);
    pthread_mutex_lock(&l->lock);
    l->counts.failed++;
    pthread_mutex_unlock(&l->lock);
    return r;
}

int loader_add_memory(struct loader *l, const struct unwind_key *key, struct bytes elf)
{
    struct source source = source_memory(elf);
    return install(l, key, &source, -1);
}

struct loader_counts loader_counts(struct loader *l)
{
    pthread_mutex_lock(&l->lock);
    struct loader_counts counts = l->counts;
    pthread_mutex_unlock(&l->lock);
    return counts;
}
