/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A message's way: polled → READY, in its partition's list → WORKING: a lane copies it behind padding, or out
 * of JSON, and pushes it to ingest → UNSAFE, where an exporter's disk is waited for → DONE; what ingest was
 * too busy for is READY again, later. A message that can never be taken (no request, too large) is DONE, too,
 * counted and named: it must not keep its partition waiting. The list's head that is done is how far the
 * partition is (partition.h).
 *
 * No more are polled than may be under way. When that lasts, the partitions are paused, since who does not
 * poll is taken for dead after max.poll.interval.ms.
 *
 * A partition that is to go to another member (cooperative rebalancing) stays until what was counted of it is
 * committed, which a flush is asked for, but not longer than LEAVE_NS; so it is counted once. One that was
 * lost (the group took this member for dead) is read again by others from the last commit: counted twice from
 * there.
 *
 * While the group agrees on who reads what, nothing is committed. A broker answers one request of a
 * connection at a time, and JoinGroup when all members have come, which may take as long as session_timeout:
 * a commit that stands behind it has an old generation then, for which librdkafka gives all partitions up as
 * lost.
 *
 * librdkafka calls back from inside rd_kafka_consumer_poll, and so on the loop, or at the end from the thread
 * that closes.
 */
#include "gateway/kafka/consumer.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "gateway/ingest/ingest.h"
#include "gateway/kafka/bad_batch.h"
#include "gateway/kafka/partition.h"
#include "gateway/serve/lanes/lanes.h"
#include "gateway/serve/lanes/processor.h"
#include "gateway/serve/otlp/otlp.h"
#include "gateway/stats/exposition.h"
#include "proto/base/clock.h"
#include "proto/base/hash.h"
#include "proto/base/log.h"
#include "proto/base/macros.h"
#include "proto/base/promise.h"
#include "proto/base/vec.h"
#include "proto/coding/room.h"
#include "proto/io/loop.h"
#include "proto/io/timer.h"
#include "proto/kafka/connection.h"

/* Under way at once: less than lanes let one client have, and than they let wait. */
#define MESSAGES_MAX 64u
#define BYTES_MAX    ((size_t)2 << 20)

/* What librdkafka may have fetched before it is polled, of limits.memory. */
#define FETCHED_MAX ((size_t)2 << 20)

/* One turn of the loop. */
#define POLL_MAX 32u

/* Between two looks at a batch that cannot be read (bad_batch.h). */
#define BACKOFF_MS 100u

#define TICK_NS    ((uint64_t)NSEC_PER_SEC)
#define AGAIN_NS   (100 * (uint64_t)NSEC_PER_MSEC)
#define LEAVE_NS   (20 * (uint64_t)NSEC_PER_SEC)
#define GOODBYE_NS ((uint64_t)NSEC_PER_SEC)

/* What a message may come to. */
#define OUTCOMES(X)                                               \
    X(OK, "ok")               /* counted */                       \
    X(PARTIAL, "partial")     /* but for some of it */            \
    X(MALFORMED, "malformed") /* it is no such request */         \
    X(UNSUPPORTED, "unsupported")                                 \
    X(TOO_LARGE, "too_large")   /* it passes a limit by itself */ \
    X(UNREADABLE, "unreadable") /* its batch does not inflate, or to too much */

enum outcome {
#define OUTCOME_ENUM(id, word) OUTCOME_##id,
    OUTCOMES(OUTCOME_ENUM)
#undef OUTCOME_ENUM
        OUTCOME_N
};

static const char *const outcome_words[OUTCOME_N] = {
#define OUTCOME_WORD(id, word) word,
    OUTCOMES(OUTCOME_WORD)
#undef OUTCOME_WORD
};

enum state { READY, WORKING, UNSAFE, DONE };
enum { WAITS, KEPT, LEFT };

struct partition {
    char *topic;
    int32_t id;
    struct progress progress;
    struct bad_batch bad;
    struct message *first, **last;
    uint32_t n_working; /* WORKING or UNSAFE */
    bool is_leaving, is_gone;
};

struct message {
    struct lane_job job;
    struct consumer *consumer;
    struct partition *partition;
    struct message *next;
    rd_kafka_message_t *message; /* NULL: there is none up to `end` */
    int64_t end;                 /* the offset behind it */
    enum state state;
    struct ingest_answer answer;
    struct io_post post; /* of the promise */
    atomic_int safe;
    int failed;
};

struct consumer {
    struct consumer_options options;
    size_t charged; /* to the budget */
    rd_kafka_t *rk;
    rd_kafka_queue_t *queue;
    struct lane_inbox *inbox;
    struct io_post ready;
    struct io_timer *timer;
    VEC(struct partition *) partitions;
    uint32_t n_messages, n_ready, n_working; /* the latter: WORKING or UNSAFE */
    uint64_t again_ns; /* before that no READY one is tried again, and then one at a time */
    size_t bytes;
    uint64_t full_since; /* 0: it is not */
    bool is_paused, is_stopped, is_closing;
    atomic_bool has_joined, is_joining;       /* the latter from JoinGroup to the answer of SyncGroup */
    bool was_assigned;                        /* once, or more often */
    rd_kafka_topic_partition_list_t *leaving; /* NULL: none does */
    uint64_t leave_by;
    pthread_t closer;
    /* what /metrics says */
    uint64_t n[OUTCOME_N], again, rebalances, lost, commits_failed;
};

static void pump(struct consumer *c);

/* Of an answer of a broker; what a batch in zstd becomes is bounded by it, too. */
static uint64_t receive_max(const struct consumer_options *o)
{
    return max_of(o->fetch_bytes, max_of(o->partition_bytes, o->request_bytes)) + (1u << 20);
}

/* ---- partitions ---- */

static struct partition *find(struct consumer *c, const char *topic, int32_t id)
{
    for (uint32_t i = 0; i < c->partitions.n; i++) {
        struct partition *p = c->partitions.p[i];
        if (p->id == id && strcmp(p->topic, topic) == 0)
            return p;
    }
    return NULL;
}

static void free_partition(struct partition *p)
{
    free(p->topic);
    free(p);
}

static int add_partition(struct consumer *c, const char *topic, int32_t id)
{
    struct partition *p = calloc(1, sizeof *p);
    if (!p || !(p->topic = strdup(topic)) || vec_append(&c->partitions, p) < 0) {
        if (p)
            free_partition(p);
        return -ENOMEM;
    }
    p->id = id;
    p->last = &p->first;
    progress_init(&p->progress);
    bad_batch_init(&p->bad);
    return 0;
}

static void free_message(struct message *m)
{
    struct consumer *c = m->consumer;
    c->n_messages--;
    if (m->message) {
        c->bytes -= m->message->len;
        rd_kafka_message_destroy(m->message);
    }
    free(m);
}

/* What is done at its head goes, and with `all` what nobody works on, too. */
static void sweep(struct partition *p, bool all)
{
    struct message **at = &p->first, *m;
    while ((m = *at)) {
        const bool is_head = at == &p->first;
        if (m->state == DONE && is_head)
            progress_done(&p->progress, m->end, clock_monotonic());
        if ((m->state == DONE && (is_head || all)) || (m->state == READY && all)) {
            m->consumer->n_ready -= m->state == READY;
            *at = m->next;
            free_message(m);
        } else {
            at = &m->next;
        }
    }
    p->last = at;
}

/* It is not ours any more. What a lane has of it comes back to it. */
static void leave_partition(struct consumer *c, struct partition *p)
{
    for (uint32_t i = 0; i < c->partitions.n; i++)
        if (c->partitions.p[i] == p)
            c->partitions.p[i] = vec_pop(&c->partitions);
    p->is_gone = true;
    sweep(p, true);
    if (!p->first)
        free_partition(p);
}

/* ---- committing ---- */

/* Kafka's protocol guide, "Api Keys". */
enum { API_JOIN_GROUP = 11, API_SYNC_GROUP = 14 };

/* librdkafka's threads, as the next two. */
static rd_kafka_resp_err_t on_sent(rd_kafka_t *rk, int fd, const char *broker, int32_t id, int16_t api,
                                   int16_t version, int32_t correlation, size_t n, void *arg)
{
    struct consumer *c = arg;
    if (api == API_JOIN_GROUP)
        c->has_joined = c->is_joining = true;
    return 0;
}

static rd_kafka_resp_err_t on_answer(rd_kafka_t *rk, int fd, const char *broker, int32_t id, int16_t api,
                                     int16_t version, int32_t correlation, size_t n, int64_t rtt,
                                     rd_kafka_resp_err_t error, void *arg)
{
    if (api == API_SYNC_GROUP)
        ((struct consumer *)arg)->is_joining = false;
    return 0;
}

static rd_kafka_resp_err_t on_new(rd_kafka_t *rk, const rd_kafka_conf_t *conf, void *arg, char *why, size_t n)
{
    rd_kafka_resp_err_t r = rd_kafka_interceptor_add_on_request_sent(rk, "profgate", on_sent, arg);
    return r ? r : rd_kafka_interceptor_add_on_response_received(rk, "profgate", on_answer, arg);
}

static void commit(struct consumer *c)
{
    rd_kafka_topic_partition_list_t *list = NULL;
    for (uint32_t i = 0; i < c->partitions.n && !c->is_joining; i++) {
        struct partition *p = c->partitions.p[i];
        int64_t offset;
        if (!progress_ask(&p->progress, &offset))
            continue;
        if (!list)
            list = rd_kafka_topic_partition_list_new(1);
        rd_kafka_topic_partition_list_add(list, p->topic, p->id)->offset = offset;
    }
    if (!list)
        return;
    if (rd_kafka_commit(c->rk, list, 1) != 0)
        for (int i = 0; i < list->cnt; i++)
            progress_committed(&find(c, list->elems[i].topic, list->elems[i].partition)->progress,
                               list->elems[i].offset, false);
    rd_kafka_topic_partition_list_destroy(list);
}

static void on_commit(rd_kafka_t *rk, rd_kafka_resp_err_t error, rd_kafka_topic_partition_list_t *list,
                      void *arg)
{
    struct consumer *c = arg;
    rd_kafka_resp_err_t first = error;
    for (int i = 0; list && i < list->cnt && !c->is_closing; i++) {
        const rd_kafka_topic_partition_t *of = &list->elems[i];
        struct partition *p = find(c, of->topic, of->partition);
        if (p)
            progress_committed(&p->progress, of->offset, error == 0 && of->err == 0);
        first = first ? first : of->err;
    }
    if (first == 0 || first == RD_KAFKA_RESP_ERR__NO_OFFSET)
        return;
    c->commits_failed++;
    log_limited(LOG_LEVEL_WARN, "kafka offsets not committed, and will be again group=%s error=\"%s\"",
                c->options.group_id, rd_kafka_err2str(first));
}

/* ---- partitions come and go ---- */

static void log_error_of(const struct consumer *c, rd_kafka_error_t *error)
{
    if (error)
        log_warn("kafka rebalancing group=%s error=\"%s\"", c->options.group_id,
                 rd_kafka_error_string(error));
    rd_kafka_error_destroy(error);
}

static void take_partitions(struct consumer *c, const rd_kafka_topic_partition_list_t *list)
{
    for (int i = 0; i < list->cnt; i++)
        if (!find(c, list->elems[i].topic, list->elems[i].partition) &&
            add_partition(c, list->elems[i].topic, list->elems[i].partition) < 0)
            log_error("kafka partition left unread topic=%s partition=%d error=\"out of memory\"",
                      list->elems[i].topic, list->elems[i].partition);
    log_error_of(c, rd_kafka_incremental_assign(c->rk, list));
    if (c->is_paused)
        rd_kafka_pause_partitions(c->rk, (rd_kafka_topic_partition_list_t *)list);
    if (list->cnt > 0)
        log_info("kafka partitions came group=%s n=%d of=%u", c->options.group_id, list->cnt,
                 c->partitions.n);
}

static void give_partitions(struct consumer *c, const rd_kafka_topic_partition_list_t *list, bool is_lost)
{
    for (int i = 0; i < list->cnt; i++) {
        struct partition *p = find(c, list->elems[i].topic, list->elems[i].partition);
        if (p)
            leave_partition(c, p);
    }
    log_error_of(c, rd_kafka_incremental_unassign(c->rk, list));
    if (list->cnt > 0)
        log_info("kafka partitions went group=%s n=%d left=%u lost=%s", c->options.group_id, list->cnt,
                 c->partitions.n, is_lost ? "true" : "false");
}

static void try_to_leave(struct consumer *c)
{
    if (!c->leaving)
        return;
    bool is_settled = true, is_counted = true;
    for (uint32_t i = 0; i < c->partitions.n; i++) {
        const struct partition *p = c->partitions.p[i];
        if (!p->is_leaving)
            continue;
        is_counted &= p->n_working == 0;
        is_settled &= p->n_working == 0 && progress_is_settled(&p->progress);
    }
    const bool is_late = io_loop_now(c->options.loop) >= c->leave_by;
    if (!is_settled && !is_late) {
        if (is_counted)
            c->options.wants_flush(c->options.context);
        return;
    }
    if (!is_settled)
        log_warn(
            "kafka partitions go before their counts are committed: who takes them counts those again group=%s",
            c->options.group_id);
    c->lost += is_settled ? 0 : (uint64_t)c->leaving->cnt;
    rd_kafka_topic_partition_list_t *list = take_ptr(c->leaving);
    give_partitions(c, list, false);
    rd_kafka_topic_partition_list_destroy(list);
}

static void begin_to_leave(struct consumer *c, const rd_kafka_topic_partition_list_t *list)
{
    c->leaving = rd_kafka_topic_partition_list_copy(list);
    c->leave_by = io_loop_now(c->options.loop) + LEAVE_NS;
    for (int i = 0; i < list->cnt; i++) {
        struct partition *p = find(c, list->elems[i].topic, list->elems[i].partition);
        if (!p)
            continue;
        p->is_leaving = true;
        sweep(p, true);
    }
    try_to_leave(c);
}

static void on_rebalance(rd_kafka_t *rk, rd_kafka_resp_err_t what, rd_kafka_topic_partition_list_t *list,
                         void *arg)
{
    struct consumer *c = arg;
    c->was_assigned |= what == RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS;
    if (c->is_closing) { /* on the thread that closes: all is settled */
        rd_kafka_error_destroy(what == RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS
                                   ? rd_kafka_incremental_assign(rk, list)
                                   : rd_kafka_incremental_unassign(rk, list));
        return;
    }
    c->rebalances++;
    if (what == RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS) {
        take_partitions(c, list);
    } else if (rd_kafka_assignment_lost(rk)) {
        c->lost += (uint64_t)list->cnt;
        log_warn("kafka partitions lost: others count from the last commit again group=%s n=%d",
                 c->options.group_id, list->cnt);
        give_partitions(c, list, true);
    } else {
        begin_to_leave(c, list);
    }
}

static void on_error(rd_kafka_t *rk, int error, const char *reason, void *arg)
{
    const struct consumer *c = arg;
    if (error != RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN) /* another one says why */
        log_limited(LOG_LEVEL_WARN, "kafka trouble group=%s error=\"%s\"", c->options.group_id, reason);
}

/* ---- a message: on a lane ---- */

static enum ingest_verdict verdict_of(enum refusal refusal)
{
    return refusal == REFUSAL_NONE          ? INGEST_ACCEPTED
           : refusal == REFUSAL_TOO_LARGE   ? INGEST_TOO_LARGE
           : refusal == REFUSAL_MALFORMED   ? INGEST_MALFORMED
           : refusal == REFUSAL_UNSUPPORTED ? INGEST_UNSUPPORTED
                                            : INGEST_BUSY;
}

/* The request with readable bytes behind it: librdkafka's has none. */
static enum ingest_verdict read_request(struct message *m, struct buffer *out, struct profiles_written *ret)
{
    const struct consumer_options *o = &m->consumer->options;
    const struct intake_head none = {0};
    const struct bytes payload = bytes_of(m->message->payload, m->message->len);
    if (payload.n > o->request_bytes)
        return INGEST_TOO_LARGE;
    if (o->json)
        return verdict_of(otlp_http_json.decode(&none, payload, out, o->budget, ret, &m->answer.message));
    if (room_make(out, payload.n + PROFILES_PADDING, o->budget) != 0)
        return INGEST_BUSY;
    if (payload.n > 0)
        memcpy(out->p, payload.p, payload.n);
    memset(out->p + payload.n, 0, PROFILES_PADDING);
    out->n = payload.n;
    return INGEST_ACCEPTED;
}

static void work(struct lane_job *job, void *lane)
{
    struct message *m = container_of(job, struct message, job);
    struct processor *p = lane;
    struct budget *budget = m->consumer->options.budget;
    struct buffer request = BUFFER_INIT(m->consumer->options.request_bytes + PROFILES_PADDING);
    struct profiles_written written = {PROFILES_LAYOUT_UNKNOWN};
    struct received received = {.coding = CODING_IDENTITY, .plain = &request, .budget = budget};
    m->answer = (struct ingest_answer){0};
    m->answer.verdict = read_request(m, &request, &written);
    if (m->answer.verdict == INGEST_ACCEPTED) {
        received.unknown_fields = written.unknown_fields;
        ingest_from(p->ingest, 0);
        ingest_push(p->ingest, buffer_bytes(&request), written.layout, &received, &m->answer);
    }
    room_release(&request, budget);
}

/* ---- a message: the loop ---- */

static void try_again(struct message *m)
{
    struct consumer *c = m->consumer;
    m->state = READY;
    c->again_ns = io_loop_now(c->options.loop) + AGAIN_NS;
    c->n_ready++;
    c->again++;
}

static void hand_over(struct message *m)
{
    struct consumer *c = m->consumer;
    m->state = WORKING;
    m->partition->n_working++;
    c->n_working++;
    if (lane_put(c->inbox, &m->job) == 0)
        return;
    m->partition->n_working--;
    c->n_working--;
    try_again(m);
}

static void poisoned(struct message *m, enum outcome outcome)
{
    log_limited(LOG_LEVEL_ERROR,
                "kafka message passed over topic=%s partition=%d offset=%" PRId64
                " bytes=%zu outcome=%s error=\"%s\"",
                m->partition->topic, m->partition->id, m->message->offset, m->message->len,
                outcome_words[outcome],
                m->answer.message.text[0] ? m->answer.message.text : "larger than limits.request_bytes");
}

/* It comes to an end, whatever it is. */
static void settle(struct message *m)
{
    struct consumer *c = m->consumer;
    const enum ingest_verdict verdict = m->answer.verdict;
    const enum outcome outcome = verdict == INGEST_TOO_LARGE       ? OUTCOME_TOO_LARGE
                                 : verdict == INGEST_MALFORMED     ? OUTCOME_MALFORMED
                                 : verdict == INGEST_UNSUPPORTED   ? OUTCOME_UNSUPPORTED
                                 : m->answer.rejected_profiles > 0 ? OUTCOME_PARTIAL
                                                                   : OUTCOME_OK;
    c->n[outcome]++;
    if (verdict != INGEST_ACCEPTED)
        poisoned(m, outcome);
    m->state = DONE;
}

/* Behind whatever happened to a message that was worked on. */
static void go_on(struct message *m)
{
    struct consumer *c = m->consumer;
    struct partition *p = m->partition;
    p->n_working--;
    c->n_working--;
    sweep(p, p->is_gone || p->is_leaving || c->is_stopped);
    if (p->is_gone && !p->first)
        free_partition(p);
    if (c->is_stopped)
        return;
    try_to_leave(c);
    pump(c);
}

/* The disk has it, or took nothing: then it is counted again, as another producer's would be, who was told to
 * come again. */
static void on_safe(void *arg)
{
    struct message *m = arg;
    if (m->failed)
        try_again(m);
    else
        settle(m);
    go_on(m);
}

/* Any thread. */
static void on_kept(void *arg, int r)
{
    struct message *m = arg;
    m->failed = r;
    if (atomic_exchange(&m->safe, KEPT) == LEFT)
        free(m);
    else
        io_loop_post_in(m->consumer->options.loop, &m->post);
}

static void come_back(struct lane_job *job)
{
    struct message *m = container_of(job, struct message, job);
    if (job->refused) {
        job->refused = false;
        try_again(m);
    } else if (m->answer.verdict == INGEST_BUSY) {
        try_again(m);
    } else if (m->answer.safe) {
        m->state = UNSAFE;
        m->post = (struct io_post){.fn = on_safe, .arg = m};
        m->safe = WAITS;
        promise_await(take_ptr(m->answer.safe), on_kept, m);
        return;
    } else {
        settle(m);
    }
    go_on(m);
}

/* At the end of its partition's list. NULL: no memory. */
static struct message *add_message(struct consumer *c, struct partition *p, int64_t end)
{
    struct message *m = calloc(1, sizeof *m);
    if (!m)
        return NULL;
    m->consumer = c;
    m->partition = p;
    m->end = end;
    *p->last = m;
    p->last = &m->next;
    c->n_messages++;
    return m;
}

static void seek(struct consumer *c, const struct partition *p, int64_t offset)
{
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(1);
    rd_kafka_topic_partition_list_add(list, p->topic, p->id)->offset = offset;
    rd_kafka_error_destroy(rd_kafka_seek_partitions(c->rk, list, 0));
    rd_kafka_topic_partition_list_destroy(list);
}

/* Up to that offset there is nothing more. Without memory it is not noted, and so not committed before what
 * comes next. */
static void note_end(struct consumer *c, struct partition *p, int64_t end)
{
    struct message *m = add_message(c, p, end);
    if (!m)
        return;
    m->state = DONE;
    sweep(p, false);
}

static void pass_over_batch(struct consumer *c, struct partition *p)
{
    c->n[OUTCOME_UNREADABLE] += (uint64_t)(p->bad.next - p->bad.base);
    log_limited(LOG_LEVEL_ERROR,
                "kafka batch passed over topic=%s partition=%d offset=%" PRId64 " messages=%" PRId64
                " outcome=unreadable error=\"it is damaged, or inflates to more than %" PRIu64
                " bytes\" fix=\"smaller batches from its producer, or a larger limits.request_bytes\"",
                p->topic, p->id, p->bad.base, p->bad.next - p->bad.base, receive_max(&c->options));
    note_end(c, p, p->bad.next);
    bad_batch_init(&p->bad);
}

/* False: what was read is not to be taken. */
static bool turn(struct consumer *c, struct partition *p, enum bad_batch_turn what, int64_t at)
{
    if (what == BAD_BATCH_NONE)
        return true;
    if (what == BAD_BATCH_OVER)
        pass_over_batch(c, p);
    if (at >= 0)
        seek(c, p, at);
    return at < 0;
}

static bool is_taken(struct consumer *c, struct partition *p, int64_t offset)
{
    int64_t at;
    const enum bad_batch_turn what = bad_batch_passed(&p->bad, offset, &at);
    return turn(c, p, what, at);
}

static void take_message(struct consumer *c, struct partition *p, rd_kafka_message_t *message)
{
    if (!is_taken(c, p, message->offset)) {
        rd_kafka_message_destroy(message);
        return;
    }
    struct message *m = add_message(c, p, message->offset + 1);
    if (!m) { /* read again from here, when there is memory */
        seek(c, p, message->offset);
        rd_kafka_message_destroy(message);
        return;
    }
    m->message = message;
    m->job =
        (struct lane_job){.work = work, .client = hash_bytes(BYTES_LIT("kafka"), 0), .bytes = message->len};
    c->bytes += message->len;
    hand_over(m);
}

static void take_end(struct consumer *c, struct partition *p, int64_t offset)
{
    if (is_taken(c, p, offset) && offset > max_of(p->progress.done, (int64_t)0))
        note_end(c, p, offset);
}

/* Errors that a batch leads to whenever it is read. */
static bool is_of_batch(rd_kafka_resp_err_t error)
{
    return error == RD_KAFKA_RESP_ERR__BAD_COMPRESSION || error == RD_KAFKA_RESP_ERR__BAD_MSG ||
           error == RD_KAFKA_RESP_ERR__NOT_IMPLEMENTED;
}

static void take_bad_batch(struct consumer *c, struct partition *p, int64_t base)
{
    int64_t low, high = base, at;
    rd_kafka_get_watermark_offsets(c->rk, p->topic, p->id, &low, &high);
    const enum bad_batch_turn what = bad_batch_failed(&p->bad, base, high, &at);
    turn(c, p, what, at);
}

/* ---- polling ---- */

static bool is_full(const struct consumer *c)
{
    return c->n_messages >= MESSAGES_MAX || c->n_ready > 0 || (c->n_messages > 0 && c->bytes >= BYTES_MAX);
}

static void set_paused(struct consumer *c, bool is_paused)
{
    rd_kafka_topic_partition_list_t *list;
    if (c->is_paused == is_paused || rd_kafka_assignment(c->rk, &list) != 0)
        return;
    if (is_paused)
        rd_kafka_pause_partitions(c->rk, list);
    else
        rd_kafka_resume_partitions(c->rk, list);
    rd_kafka_topic_partition_list_destroy(list);
    c->is_paused = is_paused;
}

/* True: there was something. */
static bool poll_one(struct consumer *c)
{
    rd_kafka_message_t *message = rd_kafka_consumer_poll(c->rk, 0);
    if (!message)
        return false;
    struct partition *p =
        message->rkt ? find(c, rd_kafka_topic_name(message->rkt), message->partition) : NULL;
    if (message->err == 0 && p && !p->is_leaving) {
        take_message(c, p, message);
        return true;
    }
    if (message->err == RD_KAFKA_RESP_ERR__PARTITION_EOF && p && !p->is_leaving)
        take_end(c, p, message->offset);
    else if (is_of_batch(message->err) && p && !p->is_leaving)
        take_bad_batch(c, p, message->offset);
    else if (message->err != 0 && message->err != RD_KAFKA_RESP_ERR__PARTITION_EOF)
        log_limited(LOG_LEVEL_WARN, "kafka trouble group=%s error=\"%s\"", c->options.group_id,
                    rd_kafka_message_errstr(message));
    rd_kafka_message_destroy(message);
    return true;
}

/* One of those that found no room, when nothing else is under way: what comes of it says whether there is
 * some again. */
static void hand_over_again(struct consumer *c)
{
    if (c->n_ready == 0 || c->n_working > 0 || io_loop_now(c->options.loop) < c->again_ns)
        return;
    for (uint32_t i = 0; i < c->partitions.n; i++)
        for (struct message *m = c->partitions.p[i]->first; m; m = m->next)
            if (m->state == READY) {
                c->n_ready--;
                hand_over(m);
                return;
            }
}

static void pump(struct consumer *c)
{
    uint32_t n = 0;
    hand_over_again(c);
    while (!is_full(c) && n < POLL_MAX && poll_one(c))
        n++;
    if (n == POLL_MAX)
        io_loop_post_in(c->options.loop, &c->ready);
    const uint64_t now = io_loop_now(c->options.loop);
    c->full_since = !is_full(c) ? 0 : c->full_since ? c->full_since : now;
    if (c->full_since == 0)
        set_paused(c, false);
}

static void on_ready(void *arg)
{
    struct consumer *c = arg;
    if (c->is_stopped)
        return;
    pump(c);
    try_to_leave(c);
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
    if (is_full(c) && now - c->full_since >= TICK_NS)
        set_paused(c, true);
    if (c->is_paused)
        poll_one(c); /* of paused partitions nothing comes, but what the group has to say */
    pump(c);
    commit(c);
    try_to_leave(c);
    io_timer_set(c->timer, now + (c->n_ready > 0 ? AGAIN_NS : TICK_NS));
}

void consumer_flushed(struct consumer *c, uint64_t before_ns)
{
    if (!c)
        return;
    for (uint32_t i = 0; i < c->partitions.n; i++)
        progress_flushed(&c->partitions.p[i]->progress, before_ns);
    commit(c);
}

/* ---- life ---- */

static int set_all(rd_kafka_conf_t *conf, const struct consumer *c, struct error *e)
{
    const struct consumer_options *o = &c->options;
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
        {"fetch.error.backoff.ms", BACKOFF_MS},
        {"queued.max.messages.kbytes", FETCHED_MAX / 1024},
    };
    int r = kafka_conf_set_text(conf, e, "group.id", o->group_id);
    r = r < 0 ? r : kafka_conf_set_text(conf, e, "group.instance.id", o->group_instance_id);
    r = r < 0 ? r : kafka_conf_set(conf, e, "partition.assignment.strategy", "cooperative-sticky");
    r = r < 0 ? r : kafka_conf_set(conf, e, "auto.offset.reset", "%s", o->earliest ? "earliest" : "latest");
    r = r < 0 ? r : kafka_conf_set(conf, e, "enable.auto.commit", "false");
    r = r < 0 ? r : kafka_conf_set(conf, e, "enable.partition.eof", "true");
    r = r < 0 ? r : kafka_conf_set(conf, e, "enable.auto.offset.store", "false");
    for (size_t i = 0; i < ARRAY_LEN(numbers) && r == 0; i++)
        r = kafka_conf_set(conf, e, numbers[i].name, "%" PRIu64, numbers[i].value);
    return r;
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
    rd_kafka_conf_t *conf;
    char why[256];
    int r = kafka_conf_new(&conf, c->options.connection, e);
    if (r < 0)
        return r;
    r = set_all(conf, c, e);
    if (r < 0) {
        rd_kafka_conf_destroy(conf);
        return r;
    }
    rd_kafka_conf_set_opaque(conf, c);
    rd_kafka_conf_set_rebalance_cb(conf, on_rebalance);
    rd_kafka_conf_set_offset_commit_cb(conf, on_commit);
    rd_kafka_conf_set_error_cb(conf, on_error);
    rd_kafka_conf_interceptor_add_on_new(conf, "profgate", on_new, c);
    c->rk = rd_kafka_new(RD_KAFKA_CONSUMER, conf, why, sizeof why);
    if (!c->rk) /* librdkafka 2.0 has freed of conf what interceptors need when it is freed: it stays */
        return error_set(e, -EINVAL, "%s", why);
    rd_kafka_poll_set_consumer(c->rk);
    c->queue = rd_kafka_queue_get_consumer(c->rk);
    if (!c->queue)
        return error_set(e, -ENOMEM, "out of memory");
    rd_kafka_queue_cb_event_enable(c->queue, wake, c);
    return subscribe(c, e);
}

int consumer_new(struct consumer **ret, const struct consumer_options *options, struct error *e)
{
    struct consumer *c = calloc(1, sizeof *c);
    if (!c)
        return error_set(e, -ENOMEM, "out of memory");
    c->options = *options;
    c->ready = (struct io_post){.fn = on_ready, .arg = c};
    int r = 0;
    if (!budget_charge(options->budget, FETCHED_MAX))
        r = error_set(e, -ENOMEM, "limits.memory has no room for what is fetched");
    else
        c->charged = FETCHED_MAX;
    if (r == 0) {
        c->inbox = lane_inbox_new(options->lanes, options->loop, come_back);
        c->timer = io_timer_new(options->loop, on_time, c);
        r = c->inbox && c->timer ? open_kafka(c, e) : error_set(e, -ENOMEM, "out of memory");
    }
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
    if (c->inbox)
        lane_inbox_close(take_ptr(c->inbox));
    for (uint32_t i = 0; i < c->partitions.n; i++)
        sweep(c->partitions.p[i], true);
}

/* Those that still wait for a disk: it may take its time, and for ever. */
static void leave_unsafe(struct consumer *c)
{
    for (uint32_t i = 0; i < c->partitions.n; i++) {
        struct message **at = &c->partitions.p[i]->first, *m;
        while ((m = *at)) {
            int waits = WAITS;
            if (m->state == UNSAFE && !atomic_compare_exchange_strong(&m->safe, &waits, LEFT)) {
                io_loop_run_once(c->options.loop, NSEC_PER_SEC); /* it is on its way */
                at = &c->partitions.p[i]->first;
                continue;
            }
            *at = m->next;
            if (m->message)
                rd_kafka_message_destroy(m->message);
            if (m->state != UNSAFE) /* else whoever keeps the promise frees it */
                free(m);
        }
    }
}

/* Returns the consumer if librdkafka still has it. One that has joined a group and was not told yet what is
 * its own is not destroyed: librdkafka 2.0 would end the process (rdkafka_sticky_assignor.c, "Assertion
 * `assignor_state' failed"). */
static void *close_kafka(void *arg)
{
    struct consumer *c = arg;
    rd_kafka_consumer_close(c->rk);
    if (c->has_joined && !c->was_assigned)
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
    for (uint32_t i = 0; i < c->partitions.n; i++)
        is_settled &= progress_is_settled(&c->partitions.p[i]->progress);
    return is_settled || deadline_ns < now ? GOODBYE_NS : max_of(GOODBYE_NS, deadline_ns - now);
}

static bool close_in_time(struct consumer *c, uint64_t deadline_ns)
{
    const uint64_t patience = patience_ns(c, deadline_ns);
    struct timespec until;
    void *kept;
    if (pthread_create(&c->closer, NULL, close_kafka, c) != 0)
        return false;
    clock_gettime(CLOCK_MONOTONIC, &until);
    const uint64_t ns = (uint64_t)until.tv_nsec + patience;
    until.tv_sec += (time_t)(ns / NSEC_PER_SEC);
    until.tv_nsec = (long)(ns % NSEC_PER_SEC);
    if (pthread_clockjoin_np(c->closer, &kept, CLOCK_MONOTONIC, &until) == 0)
        return !kept;
    pthread_detach(c->closer);
    log_warn("kafka group left without a goodbye: no broker answers group=%s waited_ms=%" PRIu64,
             c->options.group_id, patience / NSEC_PER_MSEC);
    return false;
}

struct consumer *consumer_free(struct consumer *c, bool is_flushed, uint64_t deadline_ns)
{
    if (!c)
        return NULL;
    consumer_stop(c);
    leave_unsafe(c);
    while (c->ready.queued)
        io_loop_run_once(c->options.loop, NSEC_PER_SEC);
    if (is_flushed)
        consumer_flushed(c, UINT64_MAX);
    c->is_closing = true;
    if (c->queue)
        rd_kafka_queue_destroy(c->queue);
    if (c->leaving)
        rd_kafka_topic_partition_list_destroy(c->leaving);
    const bool is_closed = !c->rk || close_in_time(c, deadline_ns);
    for (uint32_t i = 0; i < c->partitions.n; i++)
        free_partition(c->partitions.p[i]);
    vec_release(&c->partitions);
    budget_refund(c->options.budget, c->charged);
    if (is_closed) /* else it may still be looked at */
        free(c);
    return NULL;
}

/* ---- /metrics ---- */

static int show_head(struct buffer *out, const char *name, const char *kind, const char *help)
{
    return buffer_printf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, kind);
}

static int show_number(struct buffer *out, const char *name, const char *kind, const char *help,
                       uint64_t value)
{
    int r = show_head(out, name, kind, help);
    return r < 0 ? r : buffer_printf(out, "%s %" PRIu64 "\n", name, value);
}

/* What is behind the last one that is done, as far as brokers told. */
static int show_lag(const struct consumer *c, struct buffer *out)
{
    int r = show_head(out, "profgate_kafka_lag", "gauge", "Messages of a partition that are not counted yet");
    for (uint32_t i = 0; i < c->partitions.n && r == 0; i++) {
        const struct partition *p = c->partitions.p[i];
        int64_t low, high;
        if (p->progress.done < 0 ||
            rd_kafka_get_watermark_offsets(c->rk, p->topic, p->id, &low, &high) != 0 || high < 0)
            continue;
        r = buffer_add_str(out, "profgate_kafka_lag{topic=\"");
        r = r < 0 ? r : exposition_escape(out, bytes_str(p->topic), true);
        r = r < 0 ? r
                  : buffer_printf(out, "\",partition=\"%d\"} %" PRId64 "\n", p->id,
                                  max_of(high - p->progress.done, (int64_t)0));
    }
    return r;
}

int consumer_show(const struct consumer *c, struct buffer *out)
{
    int r = show_head(out, "profgate_kafka_messages_total", "counter", "Messages read, by what came of them");
    for (int i = 0; i < OUTCOME_N && r == 0; i++)
        r = buffer_printf(out, "profgate_kafka_messages_total{outcome=\"%s\"} %" PRIu64 "\n",
                          outcome_words[i], c->n[i]);
    r = r < 0 ? r
              : show_number(out, "profgate_kafka_messages_put_back_total", "counter",
                            "Times that a message found no room and was tried again", c->again);
    r = r < 0 ? r
              : show_number(out, "profgate_kafka_partitions", "gauge", "Partitions that are read here",
                            c->partitions.n);
    r = r < 0 ? r
              : show_number(out, "profgate_kafka_paused", "gauge",
                            "Whether nothing is fetched until there is room", c->is_paused);
    r = r < 0 ? r
              : show_number(out, "profgate_kafka_rebalances_total", "counter",
                            "Times that partitions came or went", c->rebalances);
    r = r < 0
            ? r
            : show_number(
                  out, "profgate_kafka_partitions_lost_total", "counter",
                  "Partitions that went before what was counted of them was committed: others count that again",
                  c->lost);
    r = r < 0 ? r
              : show_number(out, "profgate_kafka_commits_failed_total", "counter",
                            "Commits of offsets that failed, and are repeated", c->commits_failed);
    return r < 0 ? r : show_lag(c, out);
}
