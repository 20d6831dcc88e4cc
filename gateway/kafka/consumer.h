/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads Kafka topics, as one of a group, and pushes each message to ingest as if it had been sent here. Of
 * the control loop's thread, which it never keeps waiting; what takes long is done on lanes.
 *
 * An offset is committed when what was counted until there is in a window of metrics that the exporters have
 * (consumer_flushed), and its raw profiles in their queues, or on their disks. So a gateway that is killed
 * loses no count: what it had not handed over, others read again.
 */
#ifndef GATEWAY_KAFKA_CONSUMER_H
#define GATEWAY_KAFKA_CONSUMER_H

#include "proto/base/budget.h"
#include "proto/base/buffer.h"
#include "proto/base/error.h"
#include "proto/kafka/settings.h"

struct consumer;
struct io_loop;
struct lanes;

struct consumer_options {
    const struct kafka_connection *connection; /* this and what it points to stay, as all texts do */
    struct settings_strings topics;
    bool json;
    const char *group_id, *group_instance_id; /* the latter may be NULL */
    bool earliest;
    uint64_t session_timeout_ns, heartbeat_ns, fetch_wait_ns;
    uint64_t fetch_bytes, partition_bytes;
    uint64_t request_bytes; /* of a message */
    struct io_loop *loop;
    struct lanes *lanes;
    struct budget *budget;
    /* Partitions are about to leave: a window of metrics should end soon. */
    void (*wants_flush)(void *context);
    void *context;
};

/* Begins. 0, or a negative errno with *e. */
int consumer_new(struct consumer **ret, const struct consumer_options *options, struct error *e);

/* All that was counted before that monotonic time is with the exporters. */
void consumer_flushed(struct consumer *c, uint64_t before_ns);

/* Reads no more, and waits for what a lane is doing. Before the lanes stop; again is fine. */
void consumer_stop(struct consumer *c);

/* With is_flushed, all that was counted is with the exporters, or settled: commits that, for which it waits
 * until that monotonic time, if it must. Leaves the group, for which it waits a second at most. When the loop
 * has run for the last time, before it is freed. NULL is fine; returns NULL. */
struct consumer *consumer_free(struct consumer *c, bool is_flushed, uint64_t deadline_ns);

/* When the certificate that it shows to brokers, which it read at its start, ends, in Unix seconds;
 * INT64_MAX: it has none. */
int64_t consumer_tls_expiry(const struct consumer *c);

/* How it goes, as Prometheus text 0.0.4. 0 or -ENOMEM. */
int consumer_show(const struct consumer *c, struct buffer *out);

#endif
