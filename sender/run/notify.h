/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tells a service manager how we are (sd_notify(3)): datagrams to the socket that NOTIFY_SOCKET names.
 * Without one nothing is told. The loop's thread.
 */
#ifndef SENDER_RUN_NOTIFY_H
#define SENDER_RUN_NOTIFY_H

struct io_loop;
struct notify;

/* By the environment (`getvar`, as getenv(3)): NOTIFY_SOCKET, WATCHDOG_USEC, WATCHDOG_PID. NULL: nobody wants
 * to know. */
struct notify *notify_open(char *(*getvar)(const char *));

/* All of these: NULL is fine. A manager that cannot be reached is no reason to stop. */

/* It samples. From here on the manager hears twice in the time it asked for that the loop turns. */
void notify_ready(struct notify *n, struct io_loop *loop);

/* It starts anew in the same process, and will be ready again; it ends. */
void notify_reloading(struct notify *n);
void notify_stopping(struct notify *n);

/* Before the loop is freed. Returns NULL. */
struct notify *notify_close(struct notify *n);

#endif
