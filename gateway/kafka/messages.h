/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What becomes of messages: each is handed to a lane, which makes a request of it and pushes that to ingest,
 * and comes back as done, or to be tried again. Of the loop's thread; private to this folder.
 *
 * A message that can never be taken is done, too, counted and named: it must not keep its partition waiting.
 */
#ifndef GATEWAY_KAFKA_MESSAGES_H
#define GATEWAY_KAFKA_MESSAGES_H

#include <stdbool.h>

#include "gateway/kafka/partition.h"
#include "proto/base/budget.h"
#include "proto/io/loop.h"

struct lanes;
struct lane_inbox;

/* What a message may come to. */
#define MESSAGE_OUTCOMES(X)                                       \
    X(OK, "ok")               /* counted */                       \
    X(PARTIAL, "partial")     /* but for some of it */            \
    X(MALFORMED, "malformed") /* it is no such request */         \
    X(UNSUPPORTED, "unsupported")                                 \
    X(TOO_LARGE, "too_large")   /* it passes a limit by itself */ \
    X(UNREADABLE, "unreadable") /* its batch does not inflate, or to too much */

enum message_outcome {
#define OUTCOME_ENUM(id, word) OUTCOME_##id,
    MESSAGE_OUTCOMES(OUTCOME_ENUM)
#undef OUTCOME_ENUM
        OUTCOME_N
};

extern const char *const message_outcome_words[OUTCOME_N];

struct messages_options {
    struct partitions *partitions;
    struct io_loop *loop;
    struct lanes *lanes;
    struct budget *budget;
    bool json;
    uint64_t request_bytes;
    /* Something came of one: there may be room for others, and its partition may be settled. */
    void (*moved)(void *context);
    void *context;
};

struct messages {
    struct messages_options options;
    struct lane_inbox *inbox;
    uint64_t again_ns; /* before that no READY one is tried again, and then one at a time */
    bool is_stopped;
    /* what /metrics says */
    uint64_t n[OUTCOME_N], again;
};

/* 0 or -ENOMEM. */
int messages_init(struct messages *ms, const struct messages_options *options);

/* What is read of a partition, which is handed over, with `from` taken. False: no memory, and it was not. */
bool messages_take(struct messages *ms, struct partition *p, rd_kafka_message_t *from);

/* Up to that offset there is nothing more. Without memory it is not noted, and so not committed before what
 * comes next. */
void messages_end(struct messages *ms, struct partition *p, int64_t end);

/* One of those that found no room, when nothing else is under way and it is time: what comes of it says
 * whether there is some again. */
void messages_retry(struct messages *ms);

/* Hands over no more, waits for what lanes are doing and drops what is not done. Again is fine. */
void messages_stop(struct messages *ms);

/* Behind messages_stop, and before partitions_release: those that still wait for a disk are left, as it may
 * take its time, and for ever. */
void messages_leave(struct messages *ms);

#endif
