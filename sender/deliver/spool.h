/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests on disk until they are acknowledged, so that neither a gateway that is away nor the end of this
 * process, kill -9 included, costs any.
 *
 * A file a request, written beside and renamed, named by number and samples ("000000000000002a-317.otlp"):
 * one writer, one reader, first in first out, whole requests. That is all there is to it, so it is files and
 * no database. Not synced: a power failure may take the last seconds. One thread; bounded in bytes, and when
 * the limit is reached the oldest go, counted.
 */
#ifndef SENDER_DELIVER_SPOOL_H
#define SENDER_DELIVER_SPOOL_H

#include <stdint.h>

#include "proto/base/buffer.h"
#include "proto/base/error.h"

struct spool;

struct spool_entry {
    uint64_t number; /* 0: none */
    uint64_t items;  /* samples in it */
    uint64_t bytes;
};

struct spool_counts {
    uint64_t files, bytes;
    uint64_t dropped; /* samples, for room or because a file could not be read or written */
};

/* Files kept at most: some hours of windows. */
#define SPOOL_FILES_MAX 65536u

/* Opens (and makes) the folder; what an earlier process left comes first. 0, -EINVAL with *e, or -ENOMEM. */
int spool_open(struct spool **ret, const char *folder, uint64_t max_bytes, struct error *e);
struct spool *spool_close(struct spool *s); /* what is in it stays; returns NULL */

/* Adds a request. 0, or -errno: it is not there, and counted as dropped. */
int spool_add(struct spool *s, struct bytes request, uint64_t items);

/* The oldest, read into `out`; .number 0 when there is none. One that cannot be read is dropped, counted. */
struct spool_entry spool_oldest(struct spool *s, struct buffer *out);

/* Removes one, if it is still there: it was acknowledged, or refused for good. */
void spool_done(struct spool *s, uint64_t number);

struct spool_counts spool_counts(const struct spool *s);

#endif
