/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The thread that encodes and writes one file's records, one at a time. A disk may take as long as it likes,
 * for ever where a network is behind it: nobody waits for this thread but as long as he wants to. So it is
 * one of its own, detached, and not one of libuv's pool, which the process joins when it exits. Private to
 * this folder; the loop's thread.
 */
#ifndef GATEWAY_EXPORT_FILE_WRITER_H
#define GATEWAY_EXPORT_FILE_WRITER_H

#include <stdbool.h>

#include "gateway/export/file/rotation.h"
#include "proto/base/error.h"
#include "proto/client/body.h"
#include "proto/io/loop.h"

struct writer;

/* What a body is: a record as it is to be written, or a request of profiles that becomes one. */
enum writer_body { WRITER_RECORD, WRITER_PROFILES_JSON, WRITER_PROFILES_PROTO };

struct writer_options {
    const char *path;
    enum writer_body kind;
    enum coding compression; /* of each record, as a member or frame of its own */
    struct rotation rotation;
};

/* Opens the file (record_file_open). `wanted` is posted when a write is over. 0, -ENOMEM, or an errno. */
int writer_new(struct writer **ret, const struct writer_options *options, struct io_loop *loop,
               struct io_post *wanted, struct error *e);

/* Writes a body, with a reference of its own. None may be under way. */
void writer_begin(struct writer *w, struct client_body *body);

/* Whether the write is over; then what came of it: 0 or a negative errno with *e. */
bool writer_end(struct writer *w, int *ret, struct error *e);

/* Ends it; what is under way is left to itself. `wanted` may have been posted just before, and is not any
 * more. */
void writer_leave(struct writer *w);

#endif
