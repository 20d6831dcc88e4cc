/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A file of records that others read while it grows: each record is one write(2) with O_APPEND, so that a
 * reader or a second writer never sees half of one. Private to this folder. One thread at a time.
 */
#ifndef GATEWAY_EXPORT_FILE_RECORDS_H
#define GATEWAY_EXPORT_FILE_RECORDS_H

#include <sys/types.h>

#include "proto/base/bytes.h"
#include "proto/base/error.h"

struct record_file {
    char *path;
    int fd;
    dev_t device; /* of what is open: to see that the path now names something else (logrotate) */
    ino_t inode;
};

/* Creates the file (mode 0644) or opens it. 0, -ENOMEM, or the errno of open with *e. */
int record_file_open(struct record_file *f, const char *path, struct error *e);
void record_file_close(struct record_file *f);

/* Appends one record; opens the path anew first if it was moved away. 0, or the errno: then nothing of the
 * record is left in a regular file. */
int record_file_append(struct record_file *f, struct bytes record, struct error *e);

#endif
