/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/run/merger.h"

#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>

#include "proto/base/macros.h"
#include "proto/base/thread.h"

struct merger {
    struct io_loop *loop;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    STAILQ_HEAD(, merger_job) waiting; /* under the lock, as the next two */
    bool is_had;                       /* by the thread, or by who holds it */
    struct merger_job *offered;        /* had for the loop, which has not come to it yet */
    bool is_ending;
    pthread_t loops_thread; /* who posts; under the lock */
    uint32_t n_open;        /* the loop's */
};

static void *run(void *arg)
{
    struct merger *m = arg;
    pthread_mutex_lock(&m->lock);
    for (;;) {
        struct merger_job *job = STAILQ_FIRST(&m->waiting);
        if (!job && m->is_ending)
            break;
        if (!job || m->is_had) {
            pthread_cond_wait(&m->changed, &m->lock);
            continue;
        }
        STAILQ_REMOVE_HEAD(&m->waiting, next);
        m->is_had = true;
        if (job->work) {
            pthread_mutex_unlock(&m->lock);
            job->work(job->arg);
            pthread_mutex_lock(&m->lock);
            m->is_had = false;
        } else {
            m->offered = job;
        }
        pthread_cond_broadcast(&m->changed);
        io_loop_post_in(m->loop, &job->post);
    }
    pthread_mutex_unlock(&m->lock);
    return NULL;
}

int merger_new(struct merger **ret, struct io_loop *loop)
{
    struct merger *m = calloc(1, sizeof *m);
    if (!m)
        return -ENOMEM;
    m->loop = loop;
    STAILQ_INIT(&m->waiting);
    pthread_mutex_init(&m->lock, NULL);
    pthread_cond_init(&m->changed, NULL);
    int r = thread_begin(&m->thread, NULL, "merge", run, m);
    if (r < 0) {
        free(m);
        return r;
    }
    *ret = m;
    return 0;
}

struct merger *merger_free(struct merger *m)
{
    if (!m)
        return NULL;
    pthread_mutex_lock(&m->lock);
    m->is_ending = true;
    pthread_cond_broadcast(&m->changed);
    pthread_mutex_unlock(&m->lock);
    pthread_join(m->thread, NULL);
    pthread_mutex_destroy(&m->lock);
    pthread_cond_destroy(&m->changed);
    free(m);
    return NULL;
}

/* Whether the job has its merger, if it wanted to; it may have been taken away by a hold of the loop's own.
 */
static bool has_its_merger(struct merger_job *job)
{
    struct merger *m = job->merger;
    autolock(&m->lock);
    const bool is_had = job->work || m->offered == job;
    if (m->offered == job)
        m->offered = NULL;
    return is_had;
}

static void on_done(void *arg)
{
    struct merger_job *job = arg;
    job->merger->n_open--;
    if (has_its_merger(job))
        job->done(job->arg);
    else
        merger_post(job->merger, job);
}

void merger_post(struct merger *m, struct merger_job *job)
{
    job->merger = m;
    job->post = (struct io_post){.fn = on_done, .arg = job};
    m->n_open++;
    autolock(&m->lock);
    m->loops_thread = pthread_self();
    STAILQ_INSERT_TAIL(&m->waiting, job, next);
    pthread_cond_broadcast(&m->changed);
}

bool merger_is_over(const struct merger *m)
{
    return m->n_open == 0;
}

void merger_hold(struct merger *m)
{
    autolock(&m->lock);
    while (m->is_had || !STAILQ_EMPTY(&m->waiting)) {
        if (m->offered && pthread_equal(pthread_self(), m->loops_thread)) {
            m->offered = NULL; /* to ourselves: nobody else will take it */
            m->is_had = false;
            pthread_cond_broadcast(&m->changed);
        } else {
            pthread_cond_wait(&m->changed, &m->lock);
        }
    }
    m->is_had = true;
}

void merger_release(struct merger *m)
{
    autolock(&m->lock);
    m->is_had = false;
    pthread_cond_broadcast(&m->changed);
}
