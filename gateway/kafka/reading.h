/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What librdkafka has to tell, one thing at a time: messages, ends of partitions, batches that cannot be
 * read, trouble. Never more than may be under way. Of the loop's thread; private to this folder.
 */
#ifndef GATEWAY_KAFKA_READING_H
#define GATEWAY_KAFKA_READING_H

#include "gateway/kafka/messages.h"

/* Under way at once: less than lanes let one client have, and than they let wait. */
#define READING_MESSAGES_MAX 64u
#define READING_BYTES_MAX    ((size_t)2 << 20)

/* Between two looks at a batch that cannot be read (bad_batch.h). */
#define READING_BACKOFF_MS 100u

struct reading {
    struct messages *messages;
    const char *group_id;
    uint64_t receive_max; /* bytes of a broker's answer, and of what a batch in zstd becomes */
    uint64_t gone;        /* offsets that brokers had deleted before they were read */
};

/* As much is under way as may be. */
bool reading_is_full(const struct partitions *ps);

/* Takes the next thing. False: there is none. */
bool reading_poll(struct reading *r, rd_kafka_t *rk);

#endif
