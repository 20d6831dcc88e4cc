/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which partitions are this member's: they come and go as the group agrees (cooperative rebalancing), and are
 * paused together. Of the loop's thread; private to this folder.
 *
 * A partition that is to go to another member stays until what was counted of it is committed, which a flush
 * is asked for, but not longer than 20 s; so it is counted once. One that was lost (the group took this
 * member for dead) is read again by others from the last commit: counted twice from there.
 */
#ifndef GATEWAY_KAFKA_MEMBERSHIP_H
#define GATEWAY_KAFKA_MEMBERSHIP_H

#include "gateway/kafka/partition.h"

struct io_loop;

struct membership {
    struct partitions *partitions;
    struct io_loop *loop;
    const char *group_id;
    /* Partitions are about to leave: a window of metrics should end soon. */
    void (*wants_flush)(void *context);
    void *context;
    bool is_paused;
    bool was_assigned;                        /* once, or more often */
    rd_kafka_topic_partition_list_t *leaving; /* NULL: none does */
    uint64_t leave_by;
    /* what /metrics says */
    uint64_t rebalances, lost;
};

/* librdkafka's rebalance_cb, from inside rd_kafka_consumer_poll, and so on the loop. */
void membership_changes(struct membership *m, rd_kafka_t *rk, rd_kafka_resp_err_t what,
                        const rd_kafka_topic_partition_list_t *list);

/* The same when the consumer is closed and its partitions are not looked at any more: any thread. */
void membership_ends(struct membership *m, rd_kafka_t *rk, rd_kafka_resp_err_t what,
                     const rd_kafka_topic_partition_list_t *list);

/* Lets go what is settled, or has had its time. Whenever a message or a commit came to an end, and now and
 * then. */
void membership_try_to_leave(struct membership *m, rd_kafka_t *rk);

/* While they are paused librdkafka fetches nothing of them. */
void membership_pause(struct membership *m, rd_kafka_t *rk, bool is_paused);

void membership_release(struct membership *m);

#endif
