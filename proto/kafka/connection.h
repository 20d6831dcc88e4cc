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

/* librdkafka's configuration for it, which logs nothing (what matters are events and answers). For
 * rd_kafka_new, which takes it over, or rd_kafka_conf_destroy. 0, -ENOMEM, or -EINVAL with *e. */
int kafka_conf_new(rd_kafka_conf_t **ret, const struct kafka_connection *c, struct error *e);

/* The same with a text of any length, which no error tells; NULL leaves it. */
int kafka_conf_set_text(rd_kafka_conf_t *conf, struct error *e, const char *name, const char *value);

/* Sets one of librdkafka's properties. 0, or -EINVAL with *e: this build does not know it or its value. */
int kafka_conf_set(rd_kafka_conf_t *conf, struct error *e, const char *name, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

#endif
