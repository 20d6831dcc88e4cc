/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The status page: whoever asks a local address gets one text, written for him, and is hung up on. HTTP/1.0
 * as far as that needs it: /metrics is for Prometheus, everything else for people.
 */
#ifndef SENDER_REPORT_STATUS_H
#define SENDER_REPORT_STATUS_H

#include "proto/base/buffer.h"
#include "proto/base/error.h"

struct io_loop;
struct status;

enum status_page {
    STATUS_PAGE,
    STATUS_METRICS, /* in Prometheus's text format 0.0.4 */
};

/* Appends the text. 0 or -errno: the asker gets 503. */
typedef int (*status_write_fn)(void *user, enum status_page page, struct buffer *out);

/* Whether it is "ADDRESS:PORT" (a number; "[::1]:PORT"; "localhost:PORT" is 127.0.0.1). 0, or -EINVAL with
 * *e. */
int status_check(const char *address, struct error *e);

/* Listens there. 0, or negative with *e. */
int status_open(struct status **ret, struct io_loop *loop, const char *address, status_write_fn write,
                void *user, struct error *e);

/* The port: of use after port 0. */
int status_port(const struct status *s);

/* Closes the listener and all connections; the memory is freed from the loop. NULL is fine. */
void status_close(struct status *s);

#endif
