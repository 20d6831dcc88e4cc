/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A request's way: queued (any thread) → flying: librdkafka has it, over the body's own bytes, → told, with
 * what its delivery report said → its event, on the loop, and its room is given back.
 *
 * librdkafka repeats by itself what a broker may not have got, as long as retry_on_failure.max_elapsed_time
 * allows, and numbers what it sends, so that nothing is there twice. What it gives up for a reason that may
 * pass (no such topic yet, no permission yet) waits in `again` and is handed over once more, and meanwhile
 * nothing else is: it would fare likewise.
 *
 * A broker judges batches: one that is larger than its topic's max.message.bytes is refused whole, also where
 * each message of it would be taken. librdkafka does not split it. So what is refused in company is handed
 * over once more, by a librdkafka that is made anew and sends one message at a time.
 *
 * The thread waits on one condition, signalled by who pushes, by librdkafka when it has something to report
 * and by who ends it. Memory: bodies are charged by the queue; what flies is charged once more, since
 * librdkafka copies what is small and compresses what it sends, and bounded by FLYING_MAX.
 */
#include "gateway/export/kafka/producer.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "gateway/export/kafka/key.h"
#include "proto/base/buffer.h"
#include "proto/base/clock.h"
#include "proto/base/log.h"
#include "proto/base/macros.h"
#include "proto/base/thread.h"
#include "proto/client/queue.h"
#include "proto/io/loop.h"
#include "proto/io/timer.h"
#include "proto/kafka/connection.h"
#include "proto/otlp/json/write.h"

#define FLYING_MAX ((size_t)16 << 20)

/* Until what could not be done for want of memory or room is tried again. */
#define LATER_NS (100 * (uint64_t)NSEC_PER_MSEC)

/* What librdkafka takes at most, which is less than `timeout` may be. */
#define SOCKET_TIMEOUT_MS 300000

/* At the end: how long what was called back may take to come, and threads to end. */
#define PURGE_NS ((uint64_t)2 * NSEC_PER_SEC)
#define CLOSE_NS ((uint64_t)3 * NSEC_PER_SEC)

struct sent {
    STAILQ_ENTRY(sent) next; /* of `again` or `told` */
    struct send_entry *entry;
    struct retry retry;
    uint64_t attempts;
    struct buffer json; /* empty: the body goes as it is */
    size_t charged;
    bool is_alone;               /* it failed by itself, before it was in a batch */
    enum client_event_kind kind; /* once it is told */
    const char *message, *fix;   /* the latter may be NULL */
};

STAILQ_HEAD(sent_list, sent);

struct producer {
    struct producer_options options;
    struct io_loop *loop;
    client_event_fn on_event;
    void (*on_queued)(void *user);
    void *user;
    struct send_queue queue;
    struct io_post post;
    struct io_timer *patience; /* of the end */

    pthread_mutex_t lock; /* of what follows, until the thread's own */
    pthread_cond_t changed;
    bool is_wanted, is_ending, is_over;
    uint64_t deadline_ns;
    struct sent_list told;
    uint64_t retried;
    struct error why;      /* of the first attempt that failed since that was told, or of the connection; "":
                              nothing new */
    uint64_t why_attempts; /* made by then; 0: it was none */

    pthread_t thread;
    rd_kafka_t *rk;
    rd_kafka_topic_t *topic;
    rd_kafka_queue_t *reports;
    struct rng rng;
    struct sent *held; /* popped, and there was no room for it */
    struct sent_list again;
    uint64_t again_at;
    uint32_t batch_messages; /* what rk was made with */
    uint32_t n_flying;
    size_t flying;
    bool is_stale; /* rk is to be made anew, when nothing of it flies */
    bool is_starved, is_purged;
    uint64_t purged_at;

    void (*done)(void *user); /* the loop's */
    void *done_user;
    bool was_left;
};

static struct sent *list_take(struct sent_list *l)
{
    struct sent *s = STAILQ_FIRST(l);
    if (s)
        STAILQ_REMOVE_HEAD(l, next);
    return s;
}

/* ---- librdkafka's threads ---- */

static void wake(void *arg)
{
    struct producer *p = arg;
    autolock(&p->lock);
    p->is_wanted = true;
    pthread_cond_signal(&p->changed);
}

static void on_report(rd_kafka_t *rk, void *arg)
{
    wake(arg);
}

/* ---- making one ---- */

/* What a message may wait for, attempts and all: librdkafka's 0 is for ever, too. */
static uint64_t patience_ms(const struct producer_options *o)
{
    const uint64_t ns = o->retry.enabled ? o->retry.max_elapsed_ns : o->timeout_ns;
    return ns == 0 ? 0 : max_of(ns / NSEC_PER_MSEC, o->linger_ns / NSEC_PER_MSEC + 1);
}

static void set_all(struct kafka_conf *k, const struct producer_options *o)
{
    const uint64_t timeout = max_of(o->timeout_ns / NSEC_PER_MSEC, (uint64_t)1000);
    kafka_conf_set(k, "enable.idempotence", "%s", o->acks_all ? "true" : "false");
    kafka_conf_set(k, "request.required.acks", "%s", o->acks_all ? "all" : "1");
    kafka_conf_set(k, "request.timeout.ms", "%" PRIu64, timeout);
    kafka_conf_set(k, "socket.timeout.ms", "%" PRIu64, min_of(timeout + 1000, (uint64_t)SOCKET_TIMEOUT_MS));
    kafka_conf_set(k, "message.timeout.ms", "%" PRIu64, patience_ms(o));
    kafka_conf_set(k, "message.max.bytes", "%zu", o->message_max);
    kafka_conf_set(k, "batch.num.messages", "%u", o->batch_messages);
    kafka_conf_set(k, "queue.buffering.max.kbytes", "%zu", 2 * max_of(FLYING_MAX, o->message_max) / 1024);
    kafka_conf_set(k, "queue.buffering.max.ms", "%" PRIu64, o->linger_ns / NSEC_PER_MSEC);
    kafka_conf_set(k, "compression.codec", "%s", o->compression);
    kafka_conf_set(k, "compression.level", "%d", o->compression_level);
    kafka_conf_set(k, "partitioner", "%s", o->partitioner);
    kafka_conf_set(k, "allow.auto.create.topics", "%s", o->creates_topics ? "true" : "false");
}

static void close_kafka(struct producer *p)
{
    if (p->reports) {
        rd_kafka_queue_cb_event_enable(p->reports, NULL, NULL);
        rd_kafka_queue_destroy(p->reports);
    }
    if (p->topic)
        rd_kafka_topic_destroy(p->topic);
    if (p->rk)
        rd_kafka_destroy(p->rk);
    p->reports = NULL;
    p->topic = NULL;
    p->rk = NULL;
}

static int open_kafka(struct producer *p, struct error *e)
{
    char why[256];
    struct kafka_conf k = kafka_conf_begin(p->options.connection, e);
    set_all(&k, &p->options);
    p->batch_messages = p->options.batch_messages;
    if (kafka_conf_end(&k) < 0)
        return k.r;
    rd_kafka_conf_set_events(k.conf, RD_KAFKA_EVENT_DR | RD_KAFKA_EVENT_ERROR);
    p->rk = rd_kafka_new(RD_KAFKA_PRODUCER, k.conf, why, sizeof why);
    if (!p->rk) {
        rd_kafka_conf_destroy(k.conf);
        return error_set(e, -EINVAL, "%s", why);
    }
    p->topic = rd_kafka_topic_new(p->rk, p->options.topic, NULL);
    p->reports = rd_kafka_queue_get_main(p->rk);
    if (!p->topic || !p->reports) {
        close_kafka(p);
        return error_set(e, -EINVAL, "librdkafka does not take the topic %s", p->options.topic);
    }
    rd_kafka_queue_cb_event_enable(p->reports, on_report, p);
    return 0;
}

/* ---- what becomes of a request: the thread ---- */

static void tell(struct producer *p, struct sent *s, enum client_event_kind kind, const char *message)
{
    s->kind = kind;
    s->message = message;
    pthread_mutex_lock(&p->lock);
    STAILQ_INSERT_TAIL(&p->told, s, next);
    pthread_mutex_unlock(&p->lock);
    io_loop_post_in(p->loop, &p->post);
}

static void explain(struct error *e, const struct producer *p, const char *why, const char *fix)
{
    error_set(e, 0, "topic %s: %s%s%s", p->options.topic, why, fix ? "; fix: " : "", fix ? fix : "");
}

/* attempts: of a request, this one included; 0: it is the connection's. */
static void note_failure(struct producer *p, uint64_t attempts, const char *why, const char *fix)
{
    pthread_mutex_lock(&p->lock);
    p->retried += attempts > 0;
    if (!p->why.text[0]) { /* the first is the cause of the others */
        explain(&p->why, p, why, fix);
        p->why_attempts = attempts;
    }
    pthread_mutex_unlock(&p->lock);
    io_loop_post_in(p->loop, &p->post);
}

/* Whether it is the message itself that no broker will ever take. */
static bool is_final(rd_kafka_resp_err_t error)
{
    return error == RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE || error == RD_KAFKA_RESP_ERR_INVALID_MSG_SIZE ||
           error == RD_KAFKA_RESP_ERR_INVALID_MSG || error == RD_KAFKA_RESP_ERR_INVALID_RECORD ||
           error == RD_KAFKA_RESP_ERR__BAD_MSG;
}

static void send_one_by_one(struct producer *p, struct sent *s)
{
    p->options.batch_messages = 1;
    p->is_stale = true;
    p->again_at = 0;
    STAILQ_INSERT_TAIL(&p->again, s, next);
    note_failure(p, s->attempts,
                 "a batch is larger than its max.message.bytes, and from now on messages are sent one by one",
                 "a larger max.message.bytes, or a smaller producer.flush_max_messages, and a restart");
}

static void failed(struct producer *p, struct sent *s, rd_kafka_resp_err_t error)
{
    const char *why = rd_kafka_err2str(error);
    uint64_t wait;
    s->fix = kafka_fix(error);
    if (error == RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE && !s->is_alone && p->batch_messages > 1 &&
        !p->is_purged)
        send_one_by_one(p, s);
    else if (error == RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE)
        tell(p, s, CLIENT_TOO_LARGE, why);
    else if (is_final(error))
        tell(p, s, CLIENT_REFUSED, why);
    else if (p->is_purged)
        tell(p, s, CLIENT_SHUT_DOWN, "shut down before a broker had it");
    else if (error == RD_KAFKA_RESP_ERR__MSG_TIMED_OUT ||
             !retry_next(&s->retry, &p->options.retry, clock_monotonic(), 0, &p->rng, &wait))
        tell(p, s, CLIENT_OUT_OF_TIME, why);
    else {
        if (STAILQ_EMPTY(&p->again))
            p->again_at = clock_monotonic() + wait;
        STAILQ_INSERT_TAIL(&p->again, s, next);
        note_failure(p, s->attempts, why, s->fix);
    }
}

static void landed(struct producer *p, struct sent *s, rd_kafka_resp_err_t error)
{
    p->n_flying--;
    p->flying -= s->entry->body->n + s->json.n;
    budget_refund(p->options.budget, s->charged);
    s->charged = 0;
    if (error == RD_KAFKA_RESP_ERR_NO_ERROR)
        tell(p, s, CLIENT_SENT, NULL);
    else
        failed(p, s, error);
}

static void take_reports(struct producer *p)
{
    rd_kafka_event_t *event;
    while ((event = rd_kafka_queue_poll(p->reports, 0))) {
        const rd_kafka_message_t *m;
        if (rd_kafka_event_type(event) == RD_KAFKA_EVENT_DR)
            while ((m = rd_kafka_event_message_next(event)))
                landed(p, m->_private, m->err);
        else if (rd_kafka_event_type(event) == RD_KAFKA_EVENT_ERROR) {
            struct error why;
            kafka_words(rd_kafka_event_error_string(event), &why);
            p->is_stale |= rd_kafka_event_error(event) == RD_KAFKA_RESP_ERR__FATAL;
            note_failure(p, 0, why.text, kafka_fix(rd_kafka_event_error(event)));
        }
        rd_kafka_event_destroy(event);
    }
}

/* ---- handing over ---- */

static struct sent *pop(struct producer *p)
{
    struct sent *s = calloc(1, sizeof *s);
    p->is_starved = !s;
    struct send_entry *entry = s ? send_queue_pop(&p->queue) : NULL;
    if (!entry) {
        free(s);
        return NULL;
    }
    s->entry = entry;
    s->json = (struct buffer)BUFFER_INIT(0);
    retry_begin(&s->retry, clock_monotonic());
    return s;
}

/* True: it has its form. */
static bool encode(struct producer *p, struct sent *s)
{
    if (!p->options.json || s->json.n > 0)
        return true;
    int r = profiles_json_write(client_body_bytes(s->entry->body), &s->json);
    if (r == 0 && s->json.n > 0)
        s->json.n--; /* the end of a line, which a message has not */
    else
        tell(p, s, r < 0 ? CLIENT_OUT_OF_MEMORY : CLIENT_REFUSED,
             r < 0 ? "out of memory" : "it is no request of profiles");
    return r == 0;
}

/* Room for what librdkafka makes of it. What would fly alone needs none, or nothing ever would. */
static bool has_room(struct producer *p, struct sent *s)
{
    const size_t n = s->entry->body->n + s->json.n;
    if (p->n_flying > 0 && (p->flying > FLYING_MAX || n > FLYING_MAX - p->flying))
        return false;
    const bool is_charged = budget_charge(p->options.budget, n);
    s->charged = is_charged ? n : 0;
    return is_charged || p->n_flying == 0;
}

enum handed { HANDED_OVER, HANDED_BACK, SETTLED };

static enum handed hand_over(struct producer *p, struct sent *s)
{
    if (!encode(p, s))
        return SETTLED;
    if (!has_room(p, s))
        return HANDED_BACK;
    const struct client_body *body = s->entry->body;
    const struct bytes payload = s->json.n > 0 ? buffer_bytes(&s->json) : client_body_bytes(body);
    char key[KEY_TEXT];
    if (p->options.keyed)
        key_print(key_of_request(client_body_bytes(body), p->options.key_of), key);
    s->attempts++;
    s->is_alone = false;
    p->n_flying++;
    p->flying += body->n + s->json.n;
    if (rd_kafka_produce(p->topic, RD_KAFKA_PARTITION_UA, 0, (void *)payload.p, payload.n,
                         p->options.keyed ? key : NULL, p->options.keyed ? KEY_TEXT - 1 : 0, s) == 0)
        return HANDED_OVER;
    const rd_kafka_resp_err_t error = rd_kafka_last_error();
    if (error != RD_KAFKA_RESP_ERR__QUEUE_FULL || p->n_flying == 1) {
        s->is_alone = true;
        landed(p, s, error);
        return SETTLED;
    }
    p->n_flying--;
    p->flying -= body->n + s->json.n;
    budget_refund(p->options.budget, s->charged);
    s->charged = 0;
    return HANDED_BACK;
}

static void hand_over_again(struct producer *p)
{
    struct sent_list before = STAILQ_HEAD_INITIALIZER(before);
    if (STAILQ_EMPTY(&p->again) || p->is_stale || clock_monotonic() < p->again_at)
        return;
    STAILQ_CONCAT(&before, &p->again);
    for (struct sent *s; (s = list_take(&before));)
        if (hand_over(p, s) == HANDED_BACK) {
            p->again_at = clock_monotonic() + LATER_NS;
            STAILQ_INSERT_TAIL(&p->again, s, next);
            STAILQ_CONCAT(&p->again, &before);
        }
}

static void hand_over_waiting(struct producer *p)
{
    while (STAILQ_EMPTY(&p->again) && !p->is_stale && !p->is_purged) {
        struct sent *s = p->held ? take_ptr(p->held) : pop(p);
        if (!s)
            return;
        if (hand_over(p, s) == HANDED_BACK) {
            p->held = s;
            return;
        }
    }
}

/* A producer that lost its place in its own numbering, or made batches too large. */
static void begin_anew(struct producer *p)
{
    struct error e;
    if (!p->is_stale || p->n_flying > 0)
        return;
    close_kafka(p);
    if (open_kafka(p, &e) == 0)
        p->is_stale = false;
    else
        note_failure(p, 0, e.text, NULL);
}

/* ---- the end ---- */

/* Behind hand_over_waiting, which has emptied the queue or says why not. */
static bool is_settled(const struct producer *p)
{
    return p->n_flying == 0 && STAILQ_EMPTY(&p->again) && !p->held && !p->is_stale && !p->is_starved;
}

/* The time is over: what waits is lost, and what flies is called back. */
static void give_up(struct producer *p)
{
    static const char why[] = "shut down before a broker had it";
    struct sent *s;
    if (!p->is_purged) {
        p->is_purged = true;
        p->purged_at = clock_monotonic();
        if (p->rk)
            rd_kafka_purge(p->rk, RD_KAFKA_PURGE_F_QUEUE | RD_KAFKA_PURGE_F_INFLIGHT |
                                      RD_KAFKA_PURGE_F_NON_BLOCKING);
    }
    if (p->held)
        tell(p, take_ptr(p->held), CLIENT_SHUT_DOWN, why);
    while ((s = list_take(&p->again)))
        tell(p, s, CLIENT_SHUT_DOWN, why);
    while ((s = pop(p)))
        tell(p, s, CLIENT_SHUT_DOWN, why);
}

/* ---- the thread ---- */

static uint64_t next_time(const struct producer *p, bool is_ending, uint64_t deadline_ns)
{
    uint64_t t = STAILQ_EMPTY(&p->again) ? UINT64_MAX : p->again_at;
    if (p->is_stale || p->is_starved)
        t = min_of(t, clock_monotonic() + LATER_NS);
    if (is_ending)
        t = min_of(t, p->is_purged ? p->purged_at + PURGE_NS : deadline_ns);
    return t;
}

static void wait_until(struct producer *p, uint64_t t)
{
    autolock(&p->lock);
    while (!p->is_wanted && condition_wait(&p->changed, &p->lock, t))
        ;
    p->is_wanted = false;
}

static void *run(void *arg)
{
    struct producer *p = arg;
    for (bool was_ending = false;;) {
        pthread_mutex_lock(&p->lock);
        const bool is_ending = p->is_ending;
        const uint64_t deadline = p->deadline_ns;
        pthread_mutex_unlock(&p->lock);
        if (is_ending && !was_ending)
            p->again_at = 0; /* once more, now */
        was_ending = is_ending;
        if (p->rk)
            take_reports(p);
        begin_anew(p);
        hand_over_again(p);
        hand_over_waiting(p);
        if (is_ending && clock_monotonic() >= deadline)
            give_up(p);
        if (is_ending && (is_settled(p) || (p->is_purged && clock_monotonic() >= p->purged_at + PURGE_NS)))
            break;
        wait_until(p, next_time(p, is_ending, deadline));
    }
    close_kafka(p);
    pthread_mutex_lock(&p->lock);
    p->is_over = true;
    pthread_mutex_unlock(&p->lock);
    io_loop_post_in(p->loop, &p->post);
    return NULL;
}

/* ---- the loop ---- */

/* Any thread. */
static void on_offer(void *user)
{
    struct producer *p = user;
    wake(p);
    io_loop_post_in(p->loop, &p->post);
}

static void tell_one(struct producer *p, struct sent *s)
{
    struct error why;
    if (s->message)
        explain(&why, p, s->message, s->fix);
    const struct client_event event = {
        .kind = s->kind,
        .requests = 1,
        .items = s->entry->items,
        .attempts = s->attempts,
        .tag = s->entry->tag,
        .message = s->message ? why.text : NULL,
    };
    send_queue_finish(&p->queue, s->entry);
    buffer_release(&s->json);
    free(s);
    p->on_event(p->user, &event);
}

static void on_ended(void *arg)
{
    struct producer *p = arg;
    p->done(p->done_user);
}

static void on_post(void *arg)
{
    static const char *const lost[CLIENT_SHUT_DOWN + 1] = {
        [CLIENT_EVICTED] = "the queue is full: the oldest made room",
        [CLIENT_TOO_LARGE] = "larger than producer.max_message_bytes",
        [CLIENT_SHUT_DOWN] = "came after the shutdown",
    };
    struct producer *p = arg;
    struct sent_list told = STAILQ_HEAD_INITIALIZER(told);
    struct error why;
    if (p->was_left)
        return;
    pthread_mutex_lock(&p->lock);
    STAILQ_CONCAT(&told, &p->told);
    const uint64_t retried = p->retried;
    p->retried = 0;
    why = p->why;
    const uint64_t attempts = p->why_attempts;
    p->why.text[0] = 0;
    const bool is_over = p->is_over;
    pthread_mutex_unlock(&p->lock);
    if (why.text[0])
        p->on_event(p->user, &(struct client_event){.kind = CLIENT_RETRIED,
                                                    .requests = retried,
                                                    .attempts = attempts,
                                                    .message = why.text});
    for (struct sent *s; (s = list_take(&told));)
        tell_one(p, s);
    send_queue_tell_lost(&p->queue, lost, p->on_event, p->user);
    p->on_queued(p->user);
    if (is_over) { /* the thread's last post may be still to come */
        p->patience = io_timer_free(p->patience);
        pthread_join(p->thread, NULL);
        p->post.fn = on_ended;
        io_loop_post_in(p->loop, &p->post);
    }
}

/* librdkafka does not end: the process does without it, and what it may look at stays. */
static void on_patience(void *user)
{
    struct producer *p = user;
    p->was_left = true;
    p->patience = io_timer_free(p->patience);
    pthread_detach(p->thread);
    p->done(p->done_user);
}

static void shut_down(void *x, uint64_t deadline_ns, void (*done)(void *user), void *user)
{
    struct producer *p = x;
    p->done = done;
    p->done_user = user;
    send_queue_close(&p->queue);
    pthread_mutex_lock(&p->lock);
    p->is_ending = true;
    p->deadline_ns = deadline_ns;
    pthread_mutex_unlock(&p->lock);
    io_timer_set(p->patience, max_of(deadline_ns, clock_monotonic()) + PURGE_NS + CLOSE_NS);
    wake(p);
}

static void release(struct producer *p)
{
    io_timer_free(p->patience);
    send_queue_release(&p->queue);
    pthread_cond_destroy(&p->changed);
    pthread_mutex_destroy(&p->lock);
    free(p);
}

static void free_producer(void *x)
{
    struct producer *p = x;
    if (!p->was_left)
        release(p);
}

int producer_new(struct sender *ret, struct io_loop *loop, const struct producer_options *options,
                 client_event_fn on_event, void (*on_queued)(void *user), void *user, struct error *e)
{
    struct producer *p = calloc(1, sizeof *p);
    if (!p)
        return error_set(e, -ENOMEM, "out of memory");
    p->options = *options;
    p->loop = loop;
    p->on_event = on_event;
    p->on_queued = on_queued;
    p->user = user;
    p->post = (struct io_post){.fn = on_post, .arg = p};
    STAILQ_INIT(&p->told);
    STAILQ_INIT(&p->again);
    rng_seed(&p->rng, clock_realtime());
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->changed, NULL);
    p->patience = io_timer_new(loop, on_patience, p);
    int r = p->patience
                ? send_queue_init(&p->queue, options->queue_size, options->queue_bytes, options->budget)
                : -ENOMEM;
    p->queue.request_max = options->request_max;
    p->queue.came = on_offer;
    p->queue.user = p;
    r = r < 0 ? error_set(e, r, "out of memory") : open_kafka(p, e);
    if (r == 0 && (r = thread_begin(&p->thread, NULL, "kafka", run, p)) < 0) {
        close_kafka(p);
        error_set(e, r, "no thread for it: %s", strerror(-r));
    }
    if (r < 0) {
        release(p);
        return r;
    }
    const char *warning = kafka_warning(options->connection);
    if (warning)
        log_warn("%s topic=%s", warning, options->topic);
    *ret = (struct sender){p, &p->queue, shut_down, free_producer};
    return 0;
}
