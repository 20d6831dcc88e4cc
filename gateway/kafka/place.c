/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/kafka/place.h"

#include <inttypes.h>

#include "proto/base/log.h"

void place_missing(struct partition *p, int64_t offset)
{
    p->is_unplaced = true;
    if (offset >= 0) /* else the first is not known yet: what was missing is so still */
        p->missing = offset;
}

static rd_kafka_topic_partition_list_t *list_unplaced(const struct partitions *ps, bool earliest, int *n_new)
{
    rd_kafka_topic_partition_list_t *list = NULL;
    for (uint32_t i = 0; i < ps->of.n; i++) {
        struct partition *p = ps->of.p[i];
        if (!p->is_unplaced)
            continue;
        if (!list)
            list = rd_kafka_topic_partition_list_new(1);
        *n_new += p->missing < 0;
        rd_kafka_topic_partition_list_add(list, p->topic, p->id)->offset =
            earliest || p->missing >= 0 ? RD_KAFKA_OFFSET_BEGINNING : RD_KAFKA_OFFSET_END;
        p->is_unplaced = false;
    }
    return list;
}

void place_seek(const struct partitions *ps, rd_kafka_t *rk, bool earliest, const char *group_id)
{
    int n_new = 0;
    rd_kafka_topic_partition_list_t *list = list_unplaced(ps, earliest, &n_new);
    if (!list)
        return;
    if (n_new > 0)
        log_info("kafka partitions that the group never read begin group=%s n=%d at=%s", group_id, n_new,
                 earliest ? "earliest" : "latest");
    rd_kafka_error_t *error = rd_kafka_incremental_unassign(rk, list);
    if (!error)
        error = rd_kafka_incremental_assign(rk, list);
    if (error)
        log_error("kafka partitions left unread group=%s n=%d error=\"%s\" fix=\"a restart\"", group_id,
                  list->cnt, rd_kafka_error_string(error));
    rd_kafka_error_destroy(error);
    rd_kafka_topic_partition_list_destroy(list);
}

uint64_t place_found(struct partition *p, int64_t offset)
{
    const int64_t missing = p->missing;
    p->missing = -1;
    if (missing < 0 || offset == missing)
        return 0;
    if (offset > missing) {
        log_limited(LOG_LEVEL_ERROR,
                    "kafka messages gone before they were read topic=%s partition=%d offset=%" PRId64
                    " messages=%" PRId64 " fix=\"a longer retention of the topic, or more gateways\"",
                    p->topic, p->id, missing, offset - missing);
        return (uint64_t)(offset - missing);
    }
    log_limited(LOG_LEVEL_WARN,
                "kafka partition begins anew, and is read from there topic=%s partition=%d offset=%" PRId64
                " error=\"it ended before offset %" PRId64 ": its topic was made again, or lost its end\"",
                p->topic, p->id, offset, missing);
    return 0;
}
