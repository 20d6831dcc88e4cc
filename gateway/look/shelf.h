/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Epochs in a folder, a file each (epoch_file.h): the one that grows is written to once a second, the others
 * are read when they are asked about. Bounded in bytes and in age: the oldest file goes. The store's thread.
 */
#ifndef GATEWAY_LOOK_SHELF_H
#define GATEWAY_LOOK_SHELF_H

#include "gateway/look/epoch.h"
#include "proto/base/error.h"

struct look_shelf;

/* One file. */
struct look_shelved {
    uint64_t id, bytes;
    uint32_t oldest, newest; /* fine slices */
};

/* The folder is made if it is not there, and is this process's alone as long as it is open. A file that is
 * damaged gets another name, which the log has; the last four of those stay. 0, or negative with *e. */
int look_shelf_open(struct look_shelf **ret, const char *folder, uint64_t bytes_max, struct error *e);
struct look_shelf *look_shelf_close(struct look_shelf *s);

/* Writes what the epoch has that its file has not; the first time gives it an id, by its beginning. What goes
 * wrong is told by the log and tried again. */
void look_shelf_write(struct look_shelf *s, struct look_epoch *e);

/* It grows no more. */
void look_shelf_finish(struct look_shelf *s, const struct look_epoch *e);

/* Deletes files that are older, and the oldest ones while there are too many bytes. */
void look_shelf_trim(struct look_shelf *s, uint32_t oldest);

/* The oldest first. */
uint32_t look_shelf_n(const struct look_shelf *s);
const struct look_shelved *look_shelf_at(const struct look_shelf *s, uint32_t i);

/* What look_file_read has of it. *ret is NULL where it cannot be read; the log tells. 0 or -ENOMEM. */
int look_shelf_read(struct look_shelf *s, uint32_t i, enum look_level level, uint32_t from, uint32_t to,
                    struct budget *budget, struct look_epoch **ret);

#endif
