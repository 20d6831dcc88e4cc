/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The section receivers.kafka as gateway/kafka wants it.
 */
#ifndef GATEWAY_RUN_CONSUMING_H
#define GATEWAY_RUN_CONSUMING_H

#include "gateway/config/config.h"
#include "gateway/kafka/consumer.h"

struct gateway;

/* Begins to read, if c says so: else *ret is NULL. c stays. 0, or negative with *e. */
int consuming_begin(struct consumer **ret, const struct config *c, struct gateway *g, struct error *e);

#endif
