/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A file of lines that others read while it grows: each line is one write(2) with O_APPEND, so that a reader
 * or a second writer never sees half of one. Private to this folder.
 */
#ifndef GATEWAY_EXPORT_FILE_LINES_H
#define GATEWAY_EXPORT_FILE_LINES_H

#include <sys/types.h>

#include "proto/base/bytes.h"
#include "proto/base/error.h"

struct line_file {
    char *path;
    int fd;
    dev_t device; /* of what is open: to see that the path now names something else (logrotate) */
    ino_t inode;
};

/* Creates the file (mode 0644) or opens it. 0, -ENOMEM, or the errno of open with *e. */
int line_file_open(struct line_file *f, const char *path, struct error *e);
void line_file_close(struct line_file *f);

/* Appends one line ('\n' included); opens the path anew first if it was moved away. 0, or the errno: then
 * nothing of the line is left in a regular file. */
int line_file_append(struct line_file *f, struct bytes line, struct error *e);

#endif
