/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The partitions that are read here, each with its messages in the order of their offsets. Of one thread, the
 * loop's; private to this folder.
 *
 * Messages are added in order and done in any. What is done at the head goes, and is how far the partition is
 * (progress.h); a partition that is not ours any more is freed when nobody works on its last message.
 */
#ifndef GATEWAY_KAFKA_PARTITION_H
#define GATEWAY_KAFKA_PARTITION_H

#include <librdkafka/rdkafka.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include "gateway/kafka/bad_batch.h"
#include "gateway/kafka/progress.h"
#include "proto/base/vec.h"

enum message_state {
    MESSAGE_READY,   /* to be handed to a lane */
    MESSAGE_WORKING, /* a lane has it */
    MESSAGE_UNSAFE,  /* an exporter's disk is waited for */
    MESSAGE_DONE,
};

/* The first member of what its owner allocates for it with malloc; ours to free from partition_add on. */
struct message {
    struct partition *partition;
    TAILQ_ENTRY(message) next;
    rd_kafka_message_t *from; /* NULL: there is none up to `end` */
    int64_t end;              /* the offset behind it */
    enum message_state state; /* by message_becomes */
};

struct partition {
    struct partitions *all;
    char *topic;
    int32_t id;
    struct progress progress;
    struct bad_batch bad;
    bool is_unplaced; /* librdkafka stands still there (place.h) */
    int64_t missing;  /* the offset that was not; -1: none */
    TAILQ_HEAD(, message) messages;
    uint32_t n_working; /* messages that are WORKING or UNSAFE */
    bool is_leaving;    /* nothing more is taken of it */
    bool is_gone;       /* it is not ours, and here for those */
};

/* All zero is none. */
struct partitions {
    VEC(struct partition *) of;
    uint32_t n_messages, n_ready, n_working; /* the latter WORKING or UNSAFE */
    size_t bytes;                            /* of messages */
};

/* NULL: it is not ours. */
struct partition *partitions_find(const struct partitions *ps, const char *topic, int32_t id);

/* One more, of which nothing was read. 0 or -ENOMEM. */
int partitions_add(struct partitions *ps, const char *topic, int32_t id);

/* It is not ours any more. */
void partitions_remove(struct partitions *ps, struct partition *p);

/* Whether all that is done is committed and nothing is worked on. */
bool partition_is_settled(const struct partition *p);

/* At its end, READY, with what librdkafka gave for it, or NULL. */
void partition_add(struct partition *p, struct message *m, rd_kafka_message_t *from, int64_t end);

/* Notes how far it is, and frees what is done at its head; with `all`, or when it is gone, also what is done
 * elsewhere and what nobody works on. One that is gone and has nothing left is freed. */
void partition_sweep(struct partition *p, bool all);

void message_becomes(struct message *m, enum message_state state);

/* All, with their messages: when nobody works on one, or whoever does will not look at it again. */
void partitions_release(struct partitions *ps);

#endif
