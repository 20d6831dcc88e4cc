/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files that are read whole.
 *
 *     char text[256];
 *     if (file_text("/proc/self/statm", text, sizeof text)) …
 *
 *     cleanup(buffer_release) struct buffer rules = BUFFER_INIT(0);
 *     int r = file_read(path, RULES_FILE_MAX, &rules, e);
 */
#ifndef PROTO_BASE_FILE_H
#define PROTO_BASE_FILE_H

#include <stddef.h>

#include "proto/base/buffer.h"
#include "proto/base/error.h"

/* What one read(2) gives of a file, as the kernel gives those of /proc and /sys whole, as a string: room - 1
 * bytes at most. How many; 0 and "" where there is nothing, or it cannot be read. */
size_t file_text(const char *path, char *to, size_t room);

/* Appends all that a file has, which may be a pipe or a device and may grow meanwhile: of what has more than
 * `max` bytes one more is read at most. No room is asked for beyond those max + 1, so what was reserved for
 * them does not move. 0; -ENOMEM; or the number of an error (errno(3)) that is the file's: EFBIG, it is
 * longer. With *e "cannot read PATH: why", and perhaps some of it in ret. */
int file_read(const char *path, size_t max, struct buffer *ret, struct error *e);

/* The same of what is open already, from where it stands; errors call it `name`. */
int file_read_from(int fd, const char *name, size_t max, struct buffer *ret, struct error *e);

#endif
