/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What brings requests to a topic: a bounded queue, and a thread that hands them to librdkafka, each a
 * message of its own, and settles it by its delivery report. A sender (export/shared/sender.h). Private to
 * this folder.
 *
 * Neither the loop nor a worker ever waits for it, whatever brokers do.
 */
#ifndef GATEWAY_EXPORT_KAFKA_PRODUCER_H
#define GATEWAY_EXPORT_KAFKA_PRODUCER_H

#include "gateway/export/shared/sender.h"
#include "proto/base/budget.h"
#include "proto/client/event.h"
#include "proto/client/retry.h"
#include "proto/kafka/connection.h"

struct io_loop;

struct producer_options {
    const struct kafka_connection *connection; /* this, the texts and `key_of` outlive the producer */
    const char *topic;
    bool json;                             /* bodies are requests of profiles, which become JSON on the way */
    bool keyed;                            /* messages have the key of their first resource */
    const struct settings_strings *key_of; /* whose attributes are these; n 0: all */
    bool acks_all;                         /* all in-sync replicas, and idempotent; else the leader alone */
    const char *compression, *partitioner; /* as librdkafka calls them */
    int compression_level;                 /* -1: the coding's own */
    uint64_t linger_ns;
    uint32_t batch_messages;
    size_t request_max;  /* bytes of a body */
    size_t message_max;  /* and of a message */
    bool creates_topics; /* asks brokers to, which may */
    uint64_t timeout_ns; /* of one attempt */
    struct retry_options retry;
    uint32_t queue_size;
    uint64_t queue_bytes;
    struct budget *budget;
};

/* Events come from the loop. 0, or -EINVAL, -ENOMEM, an errno with *e. */
int producer_new(struct sender *ret, struct io_loop *loop, const struct producer_options *options,
                 client_event_fn on_event, void (*on_queued)(void *user), void *user, struct error *e);

#endif
