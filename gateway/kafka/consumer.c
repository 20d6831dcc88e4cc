/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A message's way: polled (reading.h) → in its partition's list (partition.h) → a lane pushes it to ingest
 * (messages.h) → done. The list's head that is done is how far the partition is (progress.h), which is
 * committed when it is safe (offsets.h); partitions come and go (membership.h).
 *
 * No more are polled than may be under way. When that lasts, the partitions are paused, since who does not
 * poll is taken for dead after max.poll.interval.ms.
 *
 * librdkafka calls back from inside rd_kafka_consumer_poll, and so on the loop, or at the end from the thread
 * that closes.
 */
#include "gateway/kafka/consumer.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "gateway/kafka/membership.h"
#include "gateway/kafka/messages.h"
#include "gateway/kafka/offsets.h"
#include "gateway/kafka/partition.h"
#include "gateway/kafka/place.h"
#include "gateway/kafka/reading.h"
#include "gateway/stats/exposition.h"
#include "proto/base/clock.h"
#include "proto/base/log.h"
#include "proto/base/macros.h"
#include "proto/base/thread.h"
#include "proto/io/loop.h"
#include "proto/io/timer.h"
#include "proto/io/tls.h"
#include "proto/kafka/connection.h"

/* What librdkafka may have fetched before it is polled, of limits.memory. */
#define FETCHED_MAX ((size_t)2 << 20)

/* One turn of the loop. */
#define POLL_MAX 32u

#define TICK_NS    ((uint64_t)NSEC_PER_SEC)
#define AGAIN_NS   (100 * (uint64_t)NSEC_PER_MSEC)
#define GOODBYE_NS ((uint64_t)NSEC_PER_SEC)

struct consumer {
    struct consumer_options options;
    size_t charged; /* to the budget */
    int64_t tls_expiry;
    rd_kafka_t *rk;
    rd_kafka_queue_t *queue;
    struct io_post ready;
    struct io_timer *timer;
    struct partitions partitions;
    struct messages messages;
    struct reading reading;
    struct offsets offsets;
    struct membership membership;
    uint64_t full_since; /* 0: it is not */
    bool is_stopped, is_closing;
    pthread_t closer;
};

/* ---- librdkafka calls back ---- */

static void on_commit(rd_kafka_t *rk, rd_kafka_resp_err_t error, rd_kafka_topic_partition_list_t *list,
                      void *arg)
{
    struct consumer *c = arg;
    offsets_committed(&c->offsets, error, c->is_closing ? NULL : list);
}

static void on_rebalance(rd_kafka_t *rk, rd_kafka_resp_err_t what, rd_kafka_topic_partition_list_t *list,
                         void *arg)
{
    struct consumer *c = arg;
    if (c->is_closing) /* on the thread that closes: all is settled */
        membership_ends(&c->membership, rk, what, list);
    else
        membership_changes(&c->membership, rk, what, list);
}

static void on_error(rd_kafka_t *rk, int error, const char *reason, void *arg)
{
    const struct consumer *c = arg;
    struct error why;
    kafka_words(reason, &why);
    if (error == RD_KAFKA_RESP_ERR__BAD_MSG) /* a batch is sent whole, however large it is */
        log_limited(LOG_LEVEL_ERROR,
                    "kafka batch larger than may be received: its partition waits group=%s error=\"%s\" "
                    "fix=\"receivers.kafka.max_fetch_size of its size\"",
                    c->options.group_id, why.text);
    else if (error != RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN) /* another one says why */
        log_limited(LOG_LEVEL_WARN, "kafka trouble group=%s error=\"%s\"", c->options.group_id, why.text);
}

/* ---- polling ---- */

static void pump(struct consumer *c)
{
    uint32_t n = 0;
    messages_retry(&c->messages);
    while (!reading_is_full(&c->partitions) && n < POLL_MAX && reading_poll(&c->reading, c->rk))
        n++;
    if (n == POLL_MAX)
        io_loop_post_in(c->options.loop, &c->ready);
    const uint64_t now = io_loop_now(c->options.loop);
    c->full_since = !reading_is_full(&c->partitions) ? 0 : c->full_since ? c->full_since : now;
    if (c->full_since == 0)
        membership_pause(&c->membership, c->rk, false);
}

static void on_moved(void *context)
{
    struct consumer *c = context;
    membership_try_to_leave(&c->membership, c->rk);
    pump(c);
}

static void on_ready(void *arg)
{
    struct consumer *c = arg;
    if (c->is_stopped)
        return;
    pump(c);
    membership_try_to_leave(&c->membership, c->rk);
}

/* librdkafka's threads. */
static void wake(rd_kafka_t *rk, void *arg)
{
    struct consumer *c = arg;
    io_loop_post_in(c->options.loop, &c->ready);
}

static void on_time(void *user)
{
    struct consumer *c = user;
    const uint64_t now = io_loop_now(c->options.loop);
    if (reading_is_full(&c->partitions) && now - c->full_since >= TICK_NS)
        membership_pause(&c->membership, c->rk, true);
    if (c->membership.is_paused)
        reading_poll(&c->reading,
                     c->rk); /* of paused partitions nothing comes, but what the group has to say */
    pump(c);
    offsets_commit(&c->offsets, c->rk);
    membership_try_to_leave(&c->membership, c->rk);
    if (!c->membership.leaving && !c->membership.is_paused)
        place_seek(&c->partitions, c->rk, c->options.earliest, c->options.group_id);
    io_timer_set(c->timer, now + (c->partitions.n_ready > 0 ? AGAIN_NS : TICK_NS));
}

void consumer_flushed(struct consumer *c, uint64_t before_ns)
{
    if (c)
        offsets_flushed(&c->offsets, c->rk, before_ns);
}

/* ---- life ---- */

/* Of an answer of a broker; what a batch in zstd becomes is bounded by it, too. */
static uint64_t receive_max(const struct consumer_options *o)
{
    return max_of(o->fetch_bytes, max_of(o->partition_bytes, o->request_bytes)) + (1u << 20);
}

static void set_all(struct kafka_conf *k, const struct consumer_options *o)
{
    const struct {
        const char *name;
        uint64_t value;
    } numbers[] = {
        {"session.timeout.ms", o->session_timeout_ns / NSEC_PER_MSEC},
        {"heartbeat.interval.ms", o->heartbeat_ns / NSEC_PER_MSEC},
        {"fetch.wait.max.ms", o->fetch_wait_ns / NSEC_PER_MSEC},
        {"max.poll.interval.ms", max_of((uint64_t)300000, o->session_timeout_ns / NSEC_PER_MSEC)},
        {"fetch.max.bytes", o->fetch_bytes},
        {"fetch.message.max.bytes", o->partition_bytes},
        {"message.max.bytes", max_of((uint64_t)1000, min_of(o->fetch_bytes, (uint64_t)1000000))},
        {"receive.message.max.bytes", receive_max(o)},
        {"fetch.error.backoff.ms", READING_BACKOFF_MS},
        {"queued.max.messages.kbytes", FETCHED_MAX / 1024},
    };
    kafka_conf_set_text(k, "group.id", o->group_id);
    kafka_conf_set_text(k, "group.instance.id", o->group_instance_id);
    kafka_conf_set(k, "partition.assignment.strategy", "cooperative-sticky");
    kafka_conf_set(k, "auto.offset.reset", "error"); /* place.h */
    kafka_conf_set(k, "isolation.level", "read_committed");
    kafka_conf_set(k, "enable.auto.commit", "false");
    kafka_conf_set(k, "enable.partition.eof", "true");
    kafka_conf_set(k, "enable.auto.offset.store", "false");
    for (size_t i = 0; i < ARRAY_LEN(numbers); i++)
        kafka_conf_set(k, numbers[i].name, "%" PRIu64, numbers[i].value);
}

static int subscribe(struct consumer *c, struct error *e)
{
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new((int)c->options.topics.n);
    for (uint32_t i = 0; i < c->options.topics.n; i++)
        rd_kafka_topic_partition_list_add(list, c->options.topics.items[i], RD_KAFKA_PARTITION_UA);
    rd_kafka_resp_err_t r = rd_kafka_subscribe(c->rk, list);
    rd_kafka_topic_partition_list_destroy(list);
    return r == 0 ? 0 : error_set(e, -EINVAL, "profiles.topics: %s", rd_kafka_err2str(r));
}

static int open_kafka(struct consumer *c, struct error *e)
{
    char why[256];
    struct kafka_conf k = kafka_conf_begin(c->options.connection, e);
    set_all(&k, &c->options);
    if (kafka_conf_end(&k) < 0)
        return k.r;
    rd_kafka_conf_set_opaque(k.conf, c);
    rd_kafka_conf_set_rebalance_cb(k.conf, on_rebalance);
    rd_kafka_conf_set_offset_commit_cb(k.conf, on_commit);
    rd_kafka_conf_set_error_cb(k.conf, on_error);
    offsets_watch(&c->offsets, k.conf);
    c->rk = rd_kafka_new(RD_KAFKA_CONSUMER, k.conf, why, sizeof why);
    if (!c->rk) /* librdkafka 2.0 has freed of conf what interceptors need when it is freed: it stays */
        return error_set(e, -EINVAL, "%s", why);
    rd_kafka_poll_set_consumer(c->rk);
    c->queue = rd_kafka_queue_get_consumer(c->rk);
    if (!c->queue)
        return error_set(e, -ENOMEM, "out of memory");
    rd_kafka_queue_cb_event_enable(c->queue, wake, c);
    return subscribe(c, e);
}

static int open_all(struct consumer *c, struct error *e)
{
    const struct consumer_options *o = &c->options;
    const struct messages_options messages = {
        .partitions = &c->partitions,
        .loop = o->loop,
        .lanes = o->lanes,
        .budget = o->budget,
        .json = o->json,
        .request_bytes = o->request_bytes,
        .moved = on_moved,
        .context = c,
    };
    c->ready = (struct io_post){.fn = on_ready, .arg = c};
    c->reading =
        (struct reading){.messages = &c->messages, .group_id = o->group_id, .receive_max = receive_max(o)};
    c->offsets = (struct offsets){.partitions = &c->partitions, .group_id = o->group_id};
    c->membership = (struct membership){.partitions = &c->partitions,
                                        .loop = o->loop,
                                        .group_id = o->group_id,
                                        .wants_flush = o->wants_flush,
                                        .context = o->context};
    c->timer = io_timer_new(o->loop, on_time, c);
    if (messages_init(&c->messages, &messages) < 0 || !c->timer)
        return error_set(e, -ENOMEM, "out of memory");
    if (!budget_charge(o->budget, FETCHED_MAX))
        return error_set(e, -ENOMEM, "limits.memory has no room for what is fetched");
    c->charged = FETCHED_MAX;
    return open_kafka(c, e);
}

int consumer_new(struct consumer **ret, const struct consumer_options *options, struct error *e)
{
    struct consumer *c = calloc(1, sizeof *c);
    if (!c)
        return error_set(e, -ENOMEM, "out of memory");
    c->options = *options;
    c->tls_expiry = tls_file_expiry(options->connection->tls_cert_file);
    int r = open_all(c, e);
    if (r < 0) {
        consumer_free(c, false, 0);
        return error_prefix(e, r, "receivers.kafka: ");
    }
    const char *warning = kafka_warning(options->connection);
    if (warning)
        log_warn("%s group=%s", warning, options->group_id);
    io_timer_set(c->timer, io_loop_now(options->loop) + TICK_NS);
    *ret = c;
    return 0;
}

void consumer_stop(struct consumer *c)
{
    if (!c || c->is_stopped)
        return;
    c->is_stopped = true;
    c->timer = io_timer_free(c->timer);
    if (c->queue)
        rd_kafka_queue_cb_event_enable(c->queue, NULL, NULL);
    messages_stop(&c->messages);
}

/* Returns the consumer if librdkafka still has it. One that has joined a group and was not told yet what is
 * its own is not destroyed: librdkafka 2.0 would end the process (rdkafka_sticky_assignor.c, "Assertion
 * `assignor_state' failed"). */
static void *close_kafka(void *arg)
{
    struct consumer *c = arg;
    rd_kafka_consumer_close(c->rk);
    if (c->offsets.has_joined && !c->membership.was_assigned)
        return c;
    rd_kafka_destroy(c->rk);
    return NULL;
}

/* What is committed last, and the goodbye, need a broker, which may not be there. The former is worth the
 * whole time that there is for the end, the latter none: without it others wait for session_timeout. */
static uint64_t patience_ns(const struct consumer *c, uint64_t deadline_ns)
{
    const uint64_t now = clock_monotonic();
    bool is_settled = true;
    for (uint32_t i = 0; i < c->partitions.of.n; i++)
        is_settled &= progress_is_settled(&c->partitions.of.p[i]->progress);
    return is_settled || deadline_ns < now ? GOODBYE_NS : max_of(GOODBYE_NS, deadline_ns - now);
}

static bool close_in_time(struct consumer *c, uint64_t deadline_ns)
{
    const uint64_t patience = patience_ns(c, deadline_ns);
    void *kept;
    if (thread_begin(&c->closer, NULL, "kafka close", close_kafka, c) < 0)
        return false;
    if (thread_join_until(c->closer, &kept, clock_monotonic() + patience))
        return !kept;
    pthread_detach(c->closer);
    log_warn(
        "kafka group left without a goodbye, which its broker did not take in time: others read on after "
        "receivers.kafka.session_timeout group=%s waited_ms=%" PRIu64,
        c->options.group_id, patience / NSEC_PER_MSEC);
    return false;
}

struct consumer *consumer_free(struct consumer *c, bool is_flushed, uint64_t deadline_ns)
{
    if (!c)
        return NULL;
    consumer_stop(c);
    messages_leave(&c->messages);
    while (c->ready.queued)
        io_loop_run_once(c->options.loop, NSEC_PER_SEC);
    if (is_flushed)
        consumer_flushed(c, UINT64_MAX);
    c->is_closing = true;
    if (c->queue)
        rd_kafka_queue_destroy(c->queue);
    membership_release(&c->membership);
    const bool is_closed = !c->rk || close_in_time(c, deadline_ns);
    partitions_release(&c->partitions);
    budget_refund(c->options.budget, c->charged);
    if (is_closed) /* else it may still be looked at */
        free(c);
    return NULL;
}

/* ---- /metrics ---- */

/* What is behind the last one that is done, as far as brokers told. */
static void show_lag(const struct consumer *c, struct exposition *x)
{
    exposition_family(x, "profgate_kafka_lag", "gauge", "Messages of a partition that are not counted yet");
    for (uint32_t i = 0; i < c->partitions.of.n; i++) {
        const struct partition *p = c->partitions.of.p[i];
        int64_t low, high;
        if (p->progress.done < 0 ||
            rd_kafka_get_watermark_offsets(c->rk, p->topic, p->id, &low, &high) != 0 || high < 0)
            continue;
        exposition_print(x, "profgate_kafka_lag{");
        exposition_label(x, "topic", bytes_str(p->topic));
        exposition_print(x, ",partition=\"%d\"} %" PRId64 "\n", p->id,
                         max_of(high - p->progress.done, (int64_t)0));
    }
}

int64_t consumer_tls_expiry(const struct consumer *c)
{
    return c->tls_expiry;
}

int consumer_show(const struct consumer *c, struct buffer *out)
{
    struct exposition x = {.out = out};
    exposition_family(&x, "profgate_kafka_messages_total", "counter", "Messages read, by what came of them");
    for (int i = 0; i < OUTCOME_N; i++)
        exposition_print(&x, "profgate_kafka_messages_total{outcome=\"%s\"} %" PRIu64 "\n",
                         message_outcome_words[i], c->messages.n[i]);
    exposition_number(&x, "profgate_kafka_messages_put_back_total", "counter",
                      "Times that a message found no room and was tried again", c->messages.again);
    exposition_number(&x, "profgate_kafka_partitions", "gauge", "Partitions that are read here",
                      c->partitions.of.n);
    exposition_number(&x, "profgate_kafka_paused", "gauge", "Whether nothing is fetched until there is room",
                      c->membership.is_paused);
    exposition_number(&x, "profgate_kafka_messages_gone_total", "counter",
                      "Messages that brokers had deleted before they were read", c->reading.gone);
    exposition_number(&x, "profgate_kafka_rebalances_total", "counter", "Times that partitions came or went",
                      c->membership.rebalances);
    exposition_number(
        &x, "profgate_kafka_partitions_lost_total", "counter",
        "Partitions that went before what was counted of them was committed: others count that again",
        c->membership.lost);
    exposition_number(&x, "profgate_kafka_commits_failed_total", "counter",
                      "Commits of offsets that failed, and are repeated", c->offsets.n_failed);
    show_lag(c, &x);
    return x.r;
}
