/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/kafka/reading.h"

#include <inttypes.h>
#include <stdio.h>

#include "gateway/kafka/place.h"
#include "proto/base/log.h"
#include "proto/base/macros.h"
#include "proto/kafka/connection.h"

bool reading_is_full(const struct partitions *ps)
{
    return ps->n_messages >= READING_MESSAGES_MAX || ps->n_ready > 0 ||
           (ps->n_messages > 0 && ps->bytes >= READING_BYTES_MAX);
}

static void seek(rd_kafka_t *rk, const struct partition *p, int64_t offset)
{
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(1);
    rd_kafka_topic_partition_list_add(list, p->topic, p->id)->offset = offset;
    rd_kafka_error_destroy(rd_kafka_seek_partitions(rk, list, 0));
    rd_kafka_topic_partition_list_destroy(list);
}

/* ---- batches that cannot be read ---- */

/* Errors that a batch leads to whenever it is read. */
static bool is_of_batch(rd_kafka_resp_err_t error)
{
    return error == RD_KAFKA_RESP_ERR__BAD_COMPRESSION || error == RD_KAFKA_RESP_ERR__BAD_MSG ||
           error == RD_KAFKA_RESP_ERR__NOT_IMPLEMENTED;
}

static void pass_over_batch(struct reading *r, struct partition *p)
{
    r->messages->n[OUTCOME_UNREADABLE] += (uint64_t)(p->bad.next - p->bad.base);
    log_limited(LOG_LEVEL_ERROR,
                "kafka batch passed over topic=%s partition=%d offset=%" PRId64 " messages=%" PRId64
                " outcome=unreadable error=\"it is damaged, or inflates to more than %" PRIu64
                " bytes\" fix=\"smaller batches from its producer, or a larger limits.request_bytes\"",
                p->topic, p->id, p->bad.base, p->bad.next - p->bad.base, r->receive_max);
    messages_end(r->messages, p, p->bad.next);
    bad_batch_init(&p->bad);
}

/* False: what was read is not to be taken. */
static bool turn(struct reading *r, rd_kafka_t *rk, struct partition *p, enum bad_batch_turn what, int64_t at)
{
    if (what == BAD_BATCH_NONE)
        return true;
    if (what == BAD_BATCH_OVER)
        pass_over_batch(r, p);
    if (at >= 0)
        seek(rk, p, at);
    return at < 0;
}

static bool is_taken(struct reading *r, rd_kafka_t *rk, struct partition *p, int64_t offset)
{
    int64_t at;
    const enum bad_batch_turn what = bad_batch_passed(&p->bad, offset, &at);
    return turn(r, rk, p, what, at);
}

static void take_bad_batch(struct reading *r, rd_kafka_t *rk, struct partition *p, int64_t base)
{
    int64_t low, high = base, at;
    rd_kafka_get_watermark_offsets(rk, p->topic, p->id, &low, &high);
    const enum bad_batch_turn what = bad_batch_failed(&p->bad, base, high, &at);
    turn(r, rk, p, what, at);
}

/* ---- what there is ---- */

static void trouble(const struct reading *r, const rd_kafka_message_t *m)
{
    const char *fix = kafka_fix(m->err);
    char at[32] = "none";
    if (m->offset >= 0)
        snprintf(at, sizeof at, "%" PRId64, m->offset);
    const char *topic = m->rkt ? rd_kafka_topic_name(m->rkt) : "";
    if (fix)
        log_limited(LOG_LEVEL_WARN,
                    "kafka trouble group=%s topic=%s partition=%d offset=%s error=\"%s\" fix=\"%s\"",
                    r->group_id, topic, m->partition, at, rd_kafka_message_errstr(m), fix);
    else
        log_limited(LOG_LEVEL_WARN, "kafka trouble group=%s topic=%s partition=%d offset=%s error=\"%s\"",
                    r->group_id, topic, m->partition, at, rd_kafka_message_errstr(m));
}

/* Where there is no memory it is read again from here, when there is some. */
static void take_message(struct reading *r, rd_kafka_t *rk, struct partition *p, rd_kafka_message_t *message)
{
    r->gone += place_found(p, message->offset);
    if (!is_taken(r, rk, p, message->offset)) {
        rd_kafka_message_destroy(message);
    } else if (!messages_take(r->messages, p, message)) {
        seek(rk, p, message->offset);
        rd_kafka_message_destroy(message);
    }
}

static void take_end(struct reading *r, rd_kafka_t *rk, struct partition *p, int64_t offset)
{
    r->gone += place_found(p, offset);
    if (is_taken(r, rk, p, offset) && offset > max_of(p->progress.done, (int64_t)0))
        messages_end(r->messages, p, offset);
}

/* The first or the last offset may not be told, either: that is trouble, and asked for again. */
static void take_missing(const struct reading *r, struct partition *p, const rd_kafka_message_t *message)
{
    if (message->offset < 0 && message->offset != RD_KAFKA_OFFSET_INVALID)
        trouble(r, message);
    place_missing(p, message->offset);
}

bool reading_poll(struct reading *r, rd_kafka_t *rk)
{
    rd_kafka_message_t *message = rd_kafka_consumer_poll(rk, 0);
    if (!message)
        return false;
    struct partition *p = message->rkt
                              ? partitions_find(r->messages->options.partitions,
                                                rd_kafka_topic_name(message->rkt), message->partition)
                              : NULL;
    if (message->err == 0 && p && !p->is_leaving) {
        take_message(r, rk, p, message);
        return true;
    }
    if (message->err == RD_KAFKA_RESP_ERR__PARTITION_EOF && p && !p->is_leaving)
        take_end(r, rk, p, message->offset);
    else if (is_of_batch(message->err) && p && !p->is_leaving)
        take_bad_batch(r, rk, p, message->offset);
    else if (message->err == RD_KAFKA_RESP_ERR__AUTO_OFFSET_RESET && p && !p->is_leaving)
        take_missing(r, p, message);
    else if (message->err != 0 && message->err != RD_KAFKA_RESP_ERR__PARTITION_EOF)
        trouble(r, message);
    rd_kafka_message_destroy(message);
    return true;
}
