/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/kafka/offsets.h"

#include "proto/base/log.h"

/* Kafka's protocol guide, "Api Keys". */
enum { API_JOIN_GROUP = 11, API_SYNC_GROUP = 14 };

/* librdkafka's threads, as the next two. */
static rd_kafka_resp_err_t on_sent(rd_kafka_t *rk, int fd, const char *broker, int32_t id, int16_t api,
                                   int16_t version, int32_t correlation, size_t n, void *arg)
{
    struct offsets *o = arg;
    if (api == API_JOIN_GROUP)
        o->has_joined = o->is_joining = true;
    return 0;
}

static rd_kafka_resp_err_t on_answer(rd_kafka_t *rk, int fd, const char *broker, int32_t id, int16_t api,
                                     int16_t version, int32_t correlation, size_t n, int64_t rtt,
                                     rd_kafka_resp_err_t error, void *arg)
{
    if (api == API_SYNC_GROUP)
        ((struct offsets *)arg)->is_joining = false;
    return 0;
}

static rd_kafka_resp_err_t on_new(rd_kafka_t *rk, const rd_kafka_conf_t *conf, void *arg, char *why, size_t n)
{
    rd_kafka_resp_err_t r = rd_kafka_interceptor_add_on_request_sent(rk, "profgate", on_sent, arg);
    return r ? r : rd_kafka_interceptor_add_on_response_received(rk, "profgate", on_answer, arg);
}

void offsets_watch(struct offsets *o, rd_kafka_conf_t *conf)
{
    rd_kafka_conf_interceptor_add_on_new(conf, "profgate", on_new, o);
}

void offsets_commit(struct offsets *o, rd_kafka_t *rk)
{
    rd_kafka_topic_partition_list_t *list = NULL;
    for (uint32_t i = 0; i < o->partitions->of.n && !o->is_joining; i++) {
        struct partition *p = o->partitions->of.p[i];
        int64_t offset;
        if (!progress_ask(&p->progress, &offset))
            continue;
        if (!list)
            list = rd_kafka_topic_partition_list_new(1);
        rd_kafka_topic_partition_list_add(list, p->topic, p->id)->offset = offset;
    }
    if (!list)
        return;
    if (rd_kafka_commit(rk, list, 1) != 0)
        for (int i = 0; i < list->cnt; i++)
            progress_committed(
                &partitions_find(o->partitions, list->elems[i].topic, list->elems[i].partition)->progress,
                list->elems[i].offset, false);
    rd_kafka_topic_partition_list_destroy(list);
}

void offsets_flushed(struct offsets *o, rd_kafka_t *rk, uint64_t before_ns)
{
    for (uint32_t i = 0; i < o->partitions->of.n; i++)
        progress_flushed(&o->partitions->of.p[i]->progress, before_ns);
    offsets_commit(o, rk);
}

void offsets_committed(struct offsets *o, rd_kafka_resp_err_t error,
                       const rd_kafka_topic_partition_list_t *list)
{
    rd_kafka_resp_err_t first = error;
    for (int i = 0; list && i < list->cnt; i++) {
        const rd_kafka_topic_partition_t *of = &list->elems[i];
        struct partition *p = partitions_find(o->partitions, of->topic, of->partition);
        if (p)
            progress_committed(&p->progress, of->offset, error == 0 && of->err == 0);
        first = first ? first : of->err;
    }
    if (first == 0 || first == RD_KAFKA_RESP_ERR__NO_OFFSET)
        return;
    o->n_failed++;
    log_limited(LOG_LEVEL_WARN, "kafka offsets not committed, and will be again group=%s error=\"%s\"",
                o->group_id, rd_kafka_err2str(first));
}
