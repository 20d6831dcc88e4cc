/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A file of records that others read while it grows: each record is one write(2) with O_APPEND, so that a
 * reader or a second writer never sees half of one. Private to this folder. One thread at a time.
 */
#ifndef GATEWAY_EXPORT_FILE_RECORDS_H
#define GATEWAY_EXPORT_FILE_RECORDS_H

#include <sys/types.h>

#include "gateway/export/file/rotation.h"
#include "proto/base/bytes.h"
#include "proto/base/error.h"

struct record_file {
    char *path;
    int fd;
    dev_t device; /* of what is open: to see that the path now names something else (logrotate) */
    ino_t inode;
    bool is_regular;
    struct rotation rotation;
    uint64_t bytes;    /* in it, with rotation */
    uint64_t begun_ns; /* monotonic: its first record, or when it was found with some */
};

/* Creates the file (mode 0644) or opens it. 0, -ENOMEM, or the errno of open with *e. */
int record_file_open(struct record_file *f, const char *path, const struct rotation *rotation,
                     struct error *e);
void record_file_close(struct record_file *f);

/* When the file is too old, if nothing is written to it until then: monotonic; UINT64_MAX: never. */
uint64_t record_file_due(const struct record_file *f);

/* Rotates it, if it is due. What cannot be done now is tried again later. */
void record_file_look(struct record_file *f);

/* Appends one record; opens the path anew first if it was moved away, is full or too old. 0, or the errno:
 * then nothing of the record is left in a regular file. */
int record_file_append(struct record_file *f, struct bytes record, struct error *e);

#endif
