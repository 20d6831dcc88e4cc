/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An epoch on disk, in SQLite:
 *
 *     dict(seq, sum, data BLOB)                            what was new each time (dict_part.h), zstd
 *     slice(id, level, at, seq, sum, data BLOB)            sealed slices; seq: the dict rows that they need
 *     pack(id, level, first, last, seq, sum, data BLOB)    many of them, zstd: at, bytes of data (varints)
 * and data of each
 *
 * `sum` is XXH3 of what the row says: SQLite does not checksum its main file. What is new and the slices that
 * need it are one transaction, so that what an unclean end left is whole.
 */
#ifndef GATEWAY_LOOK_EPOCH_FILE_H
#define GATEWAY_LOOK_EPOCH_FILE_H

#include "gateway/look/epoch.h"
#include "proto/base/error.h"

#define LOOK_FILE_FORMAT  0x50474c4b /* "PGLK" */
#define LOOK_FILE_VERSION 2

struct look_file;

/* Conditions. */
enum {
    LOOK_FILE_DAMAGED = 4, /* it cannot be read on */
    LOOK_FILE_FOREIGN,     /* it is another program's, or another version's */
};

/* Opens or makes it. 0, LOOK_FILE_DAMAGED, LOOK_FILE_FOREIGN or -errno. */
int look_file_open(struct look_file **ret, const char *path);
struct look_file *look_file_close(struct look_file *f);

/* Its fine slices: the oldest and the newest; oldest > newest: none. 0, LOOK_FILE_DAMAGED or -errno. */
int look_file_span(struct look_file *f, uint32_t *ret_oldest, uint32_t *ret_newest);

/* Adds what the epoch has that is not there. 0, LOOK_FILE_DAMAGED, or -errno: then it is tried anew with the
 * next call. */
int look_file_write(struct look_file *f, struct look_epoch *e);

/* Of an epoch that grows no more, all of which was written: the same in fewer and larger rows. 0,
 * LOOK_FILE_DAMAGED, or -errno: then it is as it was. */
int look_file_pack(struct look_file *f, const struct look_epoch *e);

/* Reads the dictionary, and the slices of a level in [from, to) (of that level), into a new epoch; of
 * COARSE those fine ones besides that no coarse one has. *ret_bad counts rows that are not as they were
 * written: they are left out, and slices that need them. 0, LOOK_FILE_DAMAGED or -errno. */
int look_file_read(struct look_file *f, enum look_level level, uint32_t from, uint32_t to,
                   struct budget *budget, struct look_epoch **ret, uint32_t *ret_bad);

#endif
