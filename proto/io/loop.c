/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/io/loop.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/queue.h>
#include <sys/resource.h>
#include <unistd.h>
#include <uv.h>

#include "proto/base/clock.h"
#include "proto/base/macros.h"

#define READ_BUFFER_SIZE (256u << 10)

struct io_loop {
    uv_loop_t uv;
    uv_async_t wake;
    uv_timer_t patience; /* io_loop_run_once */
    pthread_mutex_t lock;
    STAILQ_HEAD(io_posts, io_post) posts; /* under the lock, with what is in them */
    int32_t n_resolving;
    uint8_t read_buffer[READ_BUFFER_SIZE];
};

static void run_posts(struct io_loop *l)
{
    struct io_posts round = STAILQ_HEAD_INITIALIZER(round);
    pthread_mutex_lock(&l->lock);
    STAILQ_CONCAT(&round, &l->posts);
    pthread_mutex_unlock(&l->lock);
    for (struct io_post *p; (p = STAILQ_FIRST(&round));) {
        const struct io_post now = *p;
        STAILQ_REMOVE_HEAD(&round, next);
        if (p->allocated) {
            free(p);
        } else { /* from here on it may be posted again, and runs after this round */
            pthread_mutex_lock(&l->lock);
            p->queued = false;
            pthread_mutex_unlock(&l->lock);
        }
        now.fn(now.arg);
    }
}

static void on_wake(uv_async_t *wake)
{
    run_posts(container_of(wake, struct io_loop, wake));
}

static void on_patience(uv_timer_t *timer)
{
    (void)timer; /* that the loop woke up is all */
}

struct io_loop *io_loop_new(void)
{
    /* A peer that went away is an error of the write, not a reason to die. libuv writes without MSG_NOSIGNAL.
     */
    struct sigaction was;
    if (sigaction(SIGPIPE, NULL, &was) == 0 && was.sa_handler == SIG_DFL)
        signal(SIGPIPE, SIG_IGN);
    /* malloc, not calloc: pages of the read buffer that are never read into should never exist. */
    struct io_loop *l = malloc(sizeof *l);
    if (!l)
        return NULL;
    STAILQ_INIT(&l->posts);
    l->n_resolving = 0;
    if (uv_loop_init(&l->uv) < 0) {
        free(l);
        return NULL;
    }
    if (uv_async_init(&l->uv, &l->wake, on_wake) < 0) {
        uv_loop_close(&l->uv);
        free(l);
        return NULL;
    }
    /* Unreferenced: neither keeps uv_run going by itself. */
    uv_unref((uv_handle_t *)&l->wake);
    uv_timer_init(&l->uv, &l->patience);
    uv_unref((uv_handle_t *)&l->patience);
    pthread_mutex_init(&l->lock, NULL);
    return l;
}

static void on_reserved(uv_poll_t *poll, int status, int events)
{
    (void)poll, (void)status, (void)events; /* nothing ever happens to it */
}

/* libuv writes zeros to all of its table. A page of nothing else is given back, and comes again when a file
 * has a place in it. */
static void give_back_zeros(void *table, size_t n)
{
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), end = (uintptr_t)table + n;
    for (uintptr_t at = ((uintptr_t)table + page - 1) & -page; at + page <= end; at += page) {
        uint8_t *p = (uint8_t *)at;
        if (p[0] == 0 && memcmp(p, p + 1, page - 1) == 0)
            madvise(p, page, MADV_DONTNEED);
    }
}

/* Watching the file of the highest number there will be makes room for all below it. */
int io_loop_reserve(struct io_loop *l, uint32_t files)
{
    struct rlimit limit;
    if (files == 0 || getrlimit(RLIMIT_NOFILE, &limit) < 0)
        return files == 0 ? 0 : -errno;
    int highest = (int)min_of(min_of((uint64_t)files, (uint64_t)limit.rlim_cur), (uint64_t)INT_MAX) - 1;
    autoclose int any = eventfd(0, EFD_CLOEXEC);
    autoclose int high = any < 0 ? -1 : fcntl(any, F_DUPFD_CLOEXEC, highest);
    if (high < 0)
        return -errno;
    uv_poll_t poll;
    int r = uv_poll_init(&l->uv, &poll, high);
    if (r < 0)
        return r;
    r = uv_poll_start(&poll, UV_READABLE, on_reserved);
    uv_close((uv_handle_t *)&poll, NULL);
    uv_run(&l->uv, UV_RUN_NOWAIT); /* forgets `poll` */
    give_back_zeros(l->uv.watchers, l->uv.nwatchers * sizeof *l->uv.watchers);
    return r;
}

struct io_loop *io_loop_free(struct io_loop *l)
{
    if (!l)
        return NULL;
    run_posts(l);
    uv_close((uv_handle_t *)&l->wake, NULL);
    uv_close((uv_handle_t *)&l->patience, NULL);
    if (uv_run(&l->uv, UV_RUN_DEFAULT) != 0) /* cut short by an io_loop_stop that came before */
        uv_run(&l->uv, UV_RUN_DEFAULT);
    run_posts(l);
    int r = uv_loop_close(&l->uv);
    assert(r == 0);
    (void)r;
    pthread_mutex_destroy(&l->lock);
    free(l);
    return NULL;
}

void io_loop_resolve(struct io_loop *l, int32_t more)
{
    l->n_resolving += more;
}

bool io_loop_is_resolving(const struct io_loop *l)
{
    return l->n_resolving > 0;
}

struct uv_loop_s *io_loop_uv(struct io_loop *l)
{
    return &l->uv;
}

void io_loop_run(struct io_loop *l)
{
    uv_ref((uv_handle_t *)&l->wake);
    uv_run(&l->uv, UV_RUN_DEFAULT);
    uv_unref((uv_handle_t *)&l->wake);
}

void io_loop_run_once(struct io_loop *l, uint64_t max_wait_ns)
{
    /* Again and again: where we get no CPU it has run out before the wait begins, which would then have no
     * end. */
    const uint64_t ms = max_of(max_wait_ns / NSEC_PER_MSEC, UINT64_C(1));
    uv_update_time(&l->uv);
    uv_timer_start(&l->patience, on_patience, ms, ms);
    uv_ref((uv_handle_t *)&l->wake);
    uv_run(&l->uv, max_wait_ns > 0 ? UV_RUN_ONCE : UV_RUN_NOWAIT);
    uv_unref((uv_handle_t *)&l->wake);
    uv_timer_stop(&l->patience);
}

void io_loop_stop(struct io_loop *l)
{
    uv_stop(&l->uv);
}

uint64_t io_loop_now(const struct io_loop *l)
{
    return uv_now(&l->uv) * NSEC_PER_MSEC;
}

int io_loop_post(struct io_loop *l, void (*fn)(void *arg), void *arg)
{
    struct io_post *p = malloc(sizeof *p);
    if (!p)
        return -ENOMEM;
    *p = (struct io_post){.fn = fn, .arg = arg, .allocated = true};
    io_loop_post_in(l, p);
    return 0;
}

void io_loop_post_in(struct io_loop *l, struct io_post *p)
{
    pthread_mutex_lock(&l->lock);
    if (!p->queued) {
        p->queued = true;
        STAILQ_INSERT_TAIL(&l->posts, p, next);
    }
    pthread_mutex_unlock(&l->lock);
    uv_async_send(&l->wake);
}

uint8_t *io_loop_read_buffer(struct io_loop *l, size_t *ret_cap)
{
    *ret_cap = sizeof l->read_buffer;
    return l->read_buffer;
}
