/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/export/file/writer.h"

#include <endian.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "gateway/export/file/records.h"
#include "proto/base/macros.h"
#include "proto/base/thread.h"
#include "proto/otlp/json/write.h"

#define RECORD_MAX (1u << 30) /* what a request of profiles may be in JSON; some are ten times as long */

struct writer {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct client_body *body; /* to be written next; under the lock, as all until `kind` */
    bool is_over, left;
    int result;
    struct error error;
    struct io_loop *loop;
    struct io_post *wanted;
    enum writer_body kind;
    struct record_file records;     /* these three are the thread's */
    struct coding_encoder *encoder; /* NULL: records are plain */
    struct buffer coded;
};

/* ---- the thread ---- */

static int encode(enum writer_body kind, struct bytes body, struct buffer *out)
{
    if (kind == WRITER_PROFILES_JSON)
        return profiles_json_write(body, out);
    const uint32_t length = htobe32((uint32_t)body.n);
    int r = buffer_add(out, &length, sizeof length);
    return r < 0 ? r : buffer_add_bytes(out, body);
}

/* What a coded record keeps from one to the next. */
#define CODED_KEEP_MAX (1u << 20)

static int append(struct writer *w, struct bytes record, struct error *e)
{
    if (!w->encoder)
        return record_file_append(&w->records, record, e);
    int r = coding_encode(w->encoder, record, &w->coded);
    r = r < 0 ? error_set(e, r, "out of memory")
              : record_file_append(&w->records, buffer_bytes(&w->coded), e);
    buffer_clear(&w->coded, CODED_KEEP_MAX);
    return r;
}

static int write_body(struct writer *w, const struct client_body *body, struct error *e)
{
    if (w->kind == WRITER_RECORD)
        return append(w, client_body_bytes(body), e);
    struct buffer record = BUFFER_INIT(RECORD_MAX);
    int r = encode(w->kind, client_body_bytes(body), &record);
    if (r == 0)
        r = append(w, buffer_bytes(&record), e);
    else
        r = error_set(e, r < 0 ? r : -EINVAL, "%s", r < 0 ? "out of memory" : "it is no request of profiles");
    buffer_release(&record);
    return r;
}

static void writer_free(struct writer *w)
{
    record_file_close(&w->records);
    coding_encoder_free(w->encoder);
    buffer_release(&w->coded);
    client_body_unref(w->body);
    pthread_mutex_destroy(&w->lock);
    pthread_cond_destroy(&w->changed);
    free(w);
}

/* A file that is written to no more becomes old all the same. */
static void wait_for_work(struct writer *w)
{
    if (condition_wait(&w->changed, &w->lock, record_file_due(&w->records)))
        return;
    pthread_mutex_unlock(&w->lock);
    record_file_look(&w->records);
    pthread_mutex_lock(&w->lock);
}

static void *run(void *arg)
{
    struct writer *w = arg;
    pthread_mutex_lock(&w->lock);
    while (!w->left) {
        struct client_body *body = take_ptr(w->body);
        if (!body) {
            wait_for_work(w);
            continue;
        }
        pthread_mutex_unlock(&w->lock);
        struct error e = {""};
        int r = write_body(w, body, &e);
        client_body_unref(body);
        pthread_mutex_lock(&w->lock);
        w->result = r;
        w->error = e;
        w->is_over = true;
        if (!w->left)
            io_loop_post_in(w->loop, w->wanted);
    }
    pthread_mutex_unlock(&w->lock);
    writer_free(w);
    return NULL;
}

/* ---- the loop ---- */

int writer_new(struct writer **ret, const struct writer_options *options, struct io_loop *loop,
               struct io_post *wanted, struct error *e)
{
    struct writer *w = calloc(1, sizeof *w);
    if (!w)
        return error_set(e, -ENOMEM, "out of memory");
    w->loop = loop;
    w->wanted = wanted;
    w->kind = options->kind;
    w->coded = (struct buffer)BUFFER_INIT(0);
    w->records.fd = -1;
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->changed, NULL);
    int r = record_file_open(&w->records, options->path, &options->rotation, e);
    if (r == 0 && options->compression != CODING_IDENTITY &&
        !(w->encoder = coding_encoder_new(options->compression, 0)))
        r = error_set(e, -ENOMEM, "out of memory");
    pthread_t thread;
    if (r == 0 && (r = thread_begin(&thread, NULL, "file", run, w)) < 0)
        error_set(e, r, "no thread to write it: %s", strerror(-r));
    if (r < 0) {
        writer_free(w);
        return r;
    }
    pthread_detach(thread);
    *ret = w;
    return 0;
}

void writer_begin(struct writer *w, struct client_body *body)
{
    autolock(&w->lock);
    w->body = client_body_ref(body);
    w->is_over = false;
    pthread_cond_signal(&w->changed);
}

bool writer_end(struct writer *w, int *ret, struct error *e)
{
    autolock(&w->lock);
    bool is_over = w->is_over;
    if (is_over) {
        w->is_over = false;
        *ret = w->result;
        *e = w->error;
    }
    return is_over;
}

void writer_leave(struct writer *w)
{
    pthread_mutex_lock(&w->lock);
    w->left = true;
    pthread_cond_signal(&w->changed);
    pthread_mutex_unlock(&w->lock); /* from here on it is the thread's */
}
