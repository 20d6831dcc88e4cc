/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a batch ends that cannot be read, of a partition that would be asked for it for ever. Pure; private
 * to this folder.
 *
 * librdkafka names the offset where such a batch begins, and not where it ends. A broker that is asked for
 * any offset in a batch sends the whole of it, so reading there fails likewise, and reading behind it does
 * not: the end is sought by reading at one offset after the other, each twice as far as the one before until
 * one is behind, and by halves from there. What is read meanwhile is not taken, as it will be read again. A
 * batch of one message takes one look, one of a thousand at most twenty.
 */
#ifndef GATEWAY_KAFKA_BAD_BATCH_H
#define GATEWAY_KAFKA_BAD_BATCH_H

#include <stdbool.h>
#include <stdint.h>

/* Times that it fails where it begins before it is believed. */
#define BAD_BATCH_SURE 3u

struct bad_batch {
    int64_t base;       /* where it begins; -1: there is none */
    uint32_t n;         /* how often it failed there */
    int64_t last, next; /* an offset in it, and one behind it: between them is the end */
    int64_t step, asked;
};

enum bad_batch_turn {
    BAD_BATCH_NONE, /* nothing to do */
    BAD_BATCH_SEEK, /* read at *at, and take nothing that was read before */
    BAD_BATCH_OVER, /* it is [base, next); read at *at if that is not -1; and forget it, which init does */
};

void bad_batch_init(struct bad_batch *b);

/* Reading failed: the batch begins at `base`, and the partition ends before `end`. */
enum bad_batch_turn bad_batch_failed(struct bad_batch *b, int64_t base, int64_t end, int64_t *at);

/* There is a message, or the partition's end, at `offset`. With NONE, and with OVER and no place to read at,
 * it is to be taken. */
enum bad_batch_turn bad_batch_passed(struct bad_batch *b, int64_t offset, int64_t *at);

#endif
