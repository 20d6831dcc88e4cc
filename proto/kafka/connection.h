/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a Kafka cluster is reached: the configuration rows that whoever writes to one and whoever reads from
 * one have in common (the Collector's names), and what librdkafka is told of them.
 */
#ifndef PROTO_KAFKA_CONNECTION_H
#define PROTO_KAFKA_CONNECTION_H

#include <librdkafka/rdkafka.h>

#include "proto/base/error.h"
#include "proto/kafka/settings.h"

/* What is known to go wrong with it and the librdkafka that is there, for the log; NULL: nothing. */
const char *kafka_warning(const struct kafka_connection *c);

/* What a person does about that error, behind "fix"; NULL: nothing that is known. */
const char *kafka_fix(rd_kafka_resp_err_t error);

/* What librdkafka says of a connection that failed, without its guess that brokers are ten years old. */
void kafka_words(const char *reason, struct error *ret);

/* librdkafka's configuration, one property after the other; after the first failure nothing is set. */
struct kafka_conf {
    rd_kafka_conf_t *conf; /* for rd_kafka_new, which takes it over; NULL: it failed */
    struct error *e;
    int r; /* 0, -ENOMEM, or -EINVAL with *e: this build does not know a property or its value */
};

/* Begins that of a connection, which logs nothing (what matters are events and answers). */
struct kafka_conf kafka_conf_begin(const struct kafka_connection *c, struct error *e);

void kafka_conf_set(struct kafka_conf *k, const char *name, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The same with a text of any length, which no error tells; NULL leaves it. */
void kafka_conf_set_text(struct kafka_conf *k, const char *name, const char *value);

/* It is complete: where something failed it is destroyed. Returns r. */
int kafka_conf_end(struct kafka_conf *k);

#endif
