/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Commits how far the partitions are, as soon as that is safe and the group agrees on who reads what. Of the
 * loop's thread, but for librdkafka's that tell of requests; private to this folder.
 *
 * While the group agrees nothing is committed. A broker answers one request of a connection at a time, and
 * JoinGroup when all members have come, which may take as long as session_timeout: a commit that stands
 * behind it has an old generation then, for which librdkafka gives all partitions up as lost.
 */
#ifndef GATEWAY_KAFKA_OFFSETS_H
#define GATEWAY_KAFKA_OFFSETS_H

#include <stdatomic.h>

#include "gateway/kafka/partition.h"

struct offsets {
    struct partitions *partitions;
    const char *group_id;
    atomic_bool has_joined, is_joining; /* the latter from JoinGroup to the answer of SyncGroup */
    uint64_t n_failed;
};

/* Has librdkafka tell of JoinGroup and SyncGroup. `o` stays as long as what conf becomes. */
void offsets_watch(struct offsets *o, rd_kafka_conf_t *conf);

/* What was done before that monotonic time is with the exporters: commits that, now or with the next
 * offsets_commit. */
void offsets_flushed(struct offsets *o, rd_kafka_t *rk, uint64_t before_ns);

/* Asks for what is to be committed, and was not asked for yet. */
void offsets_commit(struct offsets *o, rd_kafka_t *rk);

/* What came of asking: librdkafka's offset_commit_cb, on the loop. */
void offsets_committed(struct offsets *o, rd_kafka_resp_err_t error,
                       const rd_kafka_topic_partition_list_t *list);

#endif
