/* SPDX-License-Identifier: Apache-2.0 */
#include "sender/run/namer.h"

#include <assert.h>
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdlib.h>

#include "proto/base/clock.h"
#include "proto/base/log.h"
#include "proto/base/macros.h"
#include "proto/base/thread.h"
#include "proto/io/loop.h"
#include "sender/collect/report.h"
#include "sender/collect/targets.h"
#include "sender/run/privilege.h"

/* The first window's memory goes back, which needed the most, and each so many windows', a minute: what comes
 * back with the next window is cleared by the kernel first, page by page. */
#define TRIM_WINDOWS 12u

/* A request on its way to the loop. */
struct outgoing {
    struct outgoing *next;
    struct buffer out;
    uint64_t hits;
};

struct namer {
    struct namer_options options;
    pthread_t thread;
    bool is_running;

    /* The thread's; the window and what to do with it while `is_busy`, the loop's otherwise. */
    struct naming naming;
    struct build *build;
    struct window window;
    struct request_facts facts;
    uint64_t sent; /* hits in requests of this window */
    uint32_t n_windows;

    /* The loop's. */
    bool is_busy;
    struct naming_counts counts;

    /* Both's. */
    pthread_mutex_t lock;
    pthread_cond_t wake;
    bool has_work, stopping;
    struct io_post post;
    struct outgoing *first, **last; /* a queue */
    bool is_done;
    struct namer_result result;
    struct naming_counts fresh;
};

/* On the loop: hands on what the thread has made. */
static void on_post(void *argument)
{
    struct namer *n = argument;
    pthread_mutex_lock(&n->lock);
    struct outgoing *list = n->first;
    n->first = NULL;
    n->last = &n->first;
    bool is_done = n->is_done;
    n->is_done = false;
    struct namer_result result = n->result;
    if (is_done)
        n->counts = n->fresh;
    pthread_mutex_unlock(&n->lock);
    while (list) {
        struct outgoing *next = list->next;
        n->options.request(n->options.user, &list->out, list->hits);
        buffer_release(&list->out);
        free(list);
        list = next;
    }
    if (!is_done)
        return;
    window_clear(&n->window);
    n->is_busy = false;
    n->options.done(n->options.user, &result);
}

/* A request that finds no memory is lost alone: the rest of the window may fare better. */
static int emit(void *user, struct buffer *out, uint64_t hits)
{
    struct namer *n = user;
    struct outgoing *one = malloc(sizeof *one);
    if (!one)
        return 0;
    *one = (struct outgoing){.out = *out, .hits = hits};
    *out = (struct buffer){0};
    n->sent += hits;
    pthread_mutex_lock(&n->lock);
    *n->last = one;
    n->last = &one->next;
    pthread_mutex_unlock(&n->lock);
    io_loop_post_in(n->options.loop, &n->post);
    return 0;
}

static int print(struct namer *n)
{
    double seconds = (double)(n->facts.end - n->facts.start) / NSEC_PER_SEC;
    int r = report_write(n->options.print, &n->naming, &n->window, seconds, n->facts.kinds);
    n->sent = r < 0 ? 0 : n->window.time.n - n->window.unwanted;
    return r;
}

static void work(struct namer *n)
{
    uint64_t begun = clock_monotonic();
    n->sent = 0;
    naming_settle(&n->naming, &n->window, n->options.procs, begun);
    int r = targets_thin(&n->window, &n->facts);
    if (r == 0)
        r = n->options.print ? print(n) : request_build(n->build, &n->naming, &n->window, &n->facts, emit, n);
    naming_next(&n->naming);
    if (n->n_windows++ % TRIM_WINDOWS == 0)
        malloc_trim(0); /* what a window needs for a moment is more than all names that are kept */
    struct namer_result result = {.lost = n->window.time.n - n->window.unwanted - n->sent,
                                  .unwanted = n->window.unwanted,
                                  .took_ns = clock_monotonic() - begun};
    result.result = r < 0 ? r : result.lost ? -ENOMEM : 0;
    pthread_mutex_lock(&n->lock);
    n->result = result;
    n->fresh = naming_counts(&n->naming);
    n->is_done = true;
    pthread_mutex_unlock(&n->lock);
    io_loop_post_in(n->options.loop, &n->post);
}

static void *run(void *argument)
{
    struct namer *n = argument;
    privilege_drop(0); /* capabilities are a thread's own */
    for (bool stopping = false; !stopping;) {
        pthread_mutex_lock(&n->lock);
        while (!n->has_work && !n->stopping)
            pthread_cond_wait(&n->wake, &n->lock);
        bool has_work = n->has_work;
        stopping = n->stopping;
        n->has_work = false;
        pthread_mutex_unlock(&n->lock);
        if (has_work)
            work(n);
    }
    int r = binaries_store(n->naming.binaries);
    if (r < 0)
        log_warn("names are not kept on disk: %s", strerror(-r));
    return NULL;
}

int namer_new(struct namer **ret, const struct namer_options *options)
{
    struct namer *n = calloc(1, sizeof *n);
    if (!n)
        return -ENOMEM;
    n->options = *options;
    n->post = (struct io_post){.fn = on_post, .arg = n};
    n->last = &n->first;
    pthread_mutex_init(&n->lock, NULL);
    pthread_cond_init(&n->wake, NULL);
    n->build = build_new(NULL);
    int r = n->build ? naming_init(&n->naming, &options->kernel, options->vdso) : -ENOMEM;
    if (r == 0) {
        n->naming.words = options->words;
        binaries_configure(n->naming.binaries, &options->binaries);
        r = thread_begin(&n->thread, NULL, "namer", run, n);
    }
    if (r < 0) {
        namer_free(n);
        return r;
    }
    n->is_running = true;
    *ret = n;
    return 0;
}

void namer_stop(struct namer *n)
{
    assert(!n->is_busy);
    pthread_mutex_lock(&n->lock);
    n->stopping = true;
    pthread_cond_signal(&n->wake);
    pthread_mutex_unlock(&n->lock);
    pthread_join(n->thread, NULL);
    n->is_running = false;
}

struct namer *namer_free(struct namer *n)
{
    if (!n)
        return NULL;
    assert(!n->is_running);
    pthread_cond_destroy(&n->wake);
    pthread_mutex_destroy(&n->lock);
    window_release(&n->window);
    naming_release(&n->naming);
    build_free(n->build);
    free(n);
    return NULL;
}

bool namer_is_busy(const struct namer *n)
{
    return n->is_busy;
}

void namer_begin(struct namer *n, struct collector *c, const struct request_facts *facts)
{
    assert(!n->is_busy);
    collector_take(c, &n->window);
    n->facts = *facts;
    n->is_busy = true;
    pthread_mutex_lock(&n->lock);
    n->has_work = true;
    pthread_cond_signal(&n->wake);
    pthread_mutex_unlock(&n->lock);
}

const struct naming_counts *namer_counts(const struct namer *n)
{
    return &n->counts;
}
