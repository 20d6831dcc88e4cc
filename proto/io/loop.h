/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One event loop (libuv) with what every connection on it shares: the read buffer and a mailbox that other
 * threads post functions to.
 *
 * Everything of proto/io belongs to one loop and is called on the thread that runs it, but for io_loop_post
 * and io_loop_post_in.
 */
#ifndef PROTO_IO_LOOP_H
#define PROTO_IO_LOOP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

struct io_loop;
struct uv_loop_s;

/* NULL when memory or file descriptors are out. SIGPIPE, where it has its default meaning, is ignored from
 * here on. */
struct io_loop *io_loop_new(void);

/* Takes the memory for watching as many files at once now, in pages that come when files do. Later libuv
 * takes it as files come, and ends the process where there is none (1.44, uv__io_start: abort). At most as
 * many as the process may open; before the loop runs. 0 or a negative errno: nothing is taken. */
int io_loop_reserve(struct io_loop *l, uint32_t files);

/* Runs what is left until every handle that is being closed is closed, then frees. Posted functions that
 * never ran are run now, so that what they own is not lost. Handles that nobody closed are a bug of the
 * caller (asserted). */
struct io_loop *io_loop_free(struct io_loop *l);

/* Counts names that are being resolved, which nothing can end: io_loop_free waits as long as a resolver may
 * take, and exit(3) does, too; who must end sooner asks, and leaves by _exit(2). */
void io_loop_resolve(struct io_loop *l, int32_t more);
bool io_loop_is_resolving(const struct io_loop *l);

/* The libuv loop inside, for handles of one's own. */
struct uv_loop_s *io_loop_uv(struct io_loop *l);

/* Runs until io_loop_stop. */
void io_loop_run(struct io_loop *l);

/* Runs what is ready, waiting at most for one thing to happen, but not longer than max_wait_ns, in
 * whole ms (or twice that, where we get no CPU meanwhile). */
void io_loop_run_once(struct io_loop *l, uint64_t max_wait_ns);

/* Makes io_loop_run return after the current callback. Loop thread; from another one, post it. */
void io_loop_stop(struct io_loop *l);

/* Monotonic time as clock_monotonic counts it, taken once per wake-up: ns, in steps of a millisecond. */
uint64_t io_loop_now(const struct io_loop *l);

/* Has fn(arg) run on the loop's thread, soon, in order of posting. 0 or -ENOMEM. Any thread. */
int io_loop_post(struct io_loop *l, void (*fn)(void *arg), void *arg);

/* The same without taking memory, for what must not fail: p (fn and arg set, the rest zero) stays in place
 * until fn runs or the loop is freed, and may be posted again from then on. While it waits, posting it does
 * nothing. Any thread. */
struct io_post {
    void (*fn)(void *arg);
    void *arg;
    STAILQ_ENTRY(io_post) next; /* the loop's */
    bool queued, allocated;
};
void io_loop_post_in(struct io_loop *l, struct io_post *p);

/* The buffer that all channels of the loop read into, one after another; big, so that a large request takes
 * few system calls, and shared, so that an idle connection holds none of it. */
uint8_t *io_loop_read_buffer(struct io_loop *l, size_t *ret_cap);

#endif
