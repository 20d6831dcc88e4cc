/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a partition is read from when its group has no place in it, or one that is not there: retention was
 * faster than we, or the topic was made anew. Of the loop's thread; private to this folder.
 *
 * librdkafka would choose by itself (auto.offset.reset) and tell nobody. It is told to stop there instead,
 * and the partition is assigned to it once more, with a place: what nobody read yet begins as configured, and
 * what was read goes on with the first message that is left. What is missing in between is counted and named.
 */
#ifndef GATEWAY_KAFKA_PLACE_H
#define GATEWAY_KAFKA_PLACE_H

#include "gateway/kafka/partition.h"

/* RD_KAFKA_RESP_ERR__AUTO_OFFSET_RESET: p stands still, as `offset` is not there; negative: there is none. */
void place_missing(struct partition *p, int64_t offset);

/* Gives those a place; not while partitions are about to leave, which librdkafka waits for. */
void place_seek(const struct partitions *ps, rd_kafka_t *rk, bool earliest, const char *group_id);

/* There is a message of p, or its end, at `offset`. Returns how many offsets before it nobody can read any
 * more. */
uint64_t place_found(struct partition *p, int64_t offset);

#endif
