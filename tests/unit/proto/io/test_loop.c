/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/io/loop.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>
#include <uv.h>

#include "tests/lib/unit.h"

static void on_event(uv_poll_t *poll, int status, int events)
{
    ++*(int *)poll->data;
}

/* Nothing is to come: it ends all the same, also if its time is over before the wait begins. */
UNIT(a_wait_that_is_over_before_it_begins_ends)
{
    struct io_loop *l = unit_made(io_loop_new());
    io_loop_run_once(l, 1);
    io_loop_run_once(l, 2000000);
    io_loop_run_once(l, 0);
    io_loop_free(l);
}

/* What is reserved is there, and a file of a high number takes no memory of libuv's any more. */
UNIT(room_for_files_is_taken_at_once)
{
    struct rlimit limit;
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
    if (limit.rlim_cur < 1000)
        unit_skip("this process may open too few files");
    struct io_loop *l = unit_made(io_loop_new());
    uv_loop_t *uv = io_loop_uv(l);
    ck_assert_uint_lt(uv->nwatchers, 1000);
    ck_assert_int_eq(io_loop_reserve(l, 1000), 0);
    void *table = uv->watchers;
    ck_assert_uint_ge(uv->nwatchers, 1000);
    ck_assert_int_eq(fcntl(999, F_GETFD), -1); /* nothing stays open */

    int fds[2], seen = 0;
    ck_assert_int_eq(pipe(fds), 0);
    int high = fcntl(fds[0], F_DUPFD, 999);
    ck_assert_int_eq(high, 999);
    uv_poll_t poll = {.data = &seen};
    ck_assert_int_eq(uv_poll_init(uv, &poll, high), 0);
    ck_assert_int_eq(uv_poll_start(&poll, UV_READABLE, on_event), 0);
    ck_assert_ptr_eq(uv->watchers, table);
    ck_assert_int_eq(write(fds[1], "x", 1), 1);
    io_loop_run_once(l, 1000000000);
    ck_assert_int_eq(seen, 1);
    uv_close((uv_handle_t *)&poll, NULL);
    io_loop_free(l);
    close(high);
    close(fds[0]);
    close(fds[1]);
}

/* A table for many files is not there yet where there are none. */
UNIT(room_for_files_is_no_memory_until_there_are_files)
{
    struct rlimit limit;
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
    if (limit.rlim_cur < 20000)
        unit_skip("this process may open too few files");
    struct io_loop *l = unit_made(io_loop_new());
    const uv_loop_t *uv = io_loop_uv(l);
    ck_assert_int_eq(io_loop_reserve(l, 20000), 0);
    unsigned char is_there[1024] = {0};
    const uintptr_t from = ((uintptr_t)uv->watchers + page - 1) & -page,
                    to = (uintptr_t)(uv->watchers + uv->nwatchers) & -page;
    size_t n = (to - from) / page, there = 0;
    ck_assert_uint_ge(n, 16);
    ck_assert_uint_le(n, sizeof is_there);
    ck_assert_int_eq(mincore((void *)from, to - from, is_there), 0);
    for (size_t i = 0; i < n; i++)
        there += is_there[i] & 1;
    ck_assert_uint_le(there, 1); /* the first may have files */
    io_loop_free(l);
}

/* More than may be open: what there may be. None: nothing. */
UNIT(no_more_files_than_there_may_be)
{
    struct rlimit few = {64, 64};
    struct io_loop *l = unit_made(io_loop_new());
    ck_assert_int_eq(io_loop_reserve(l, 0), 0);
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &few), 0);
    ck_assert_int_eq(io_loop_reserve(l, UINT32_MAX), 0);
    ck_assert_uint_ge(io_loop_uv(l)->nwatchers, 64);
    ck_assert_uint_lt(io_loop_uv(l)->nwatchers, 1024);
    for (int fd = 3; fd < 64; fd++) /* and where all are open already it says so */
        if (fcntl(fd, F_GETFD) < 0)
            dup2(0, fd);
    ck_assert_int_eq(io_loop_reserve(l, 64), -EMFILE);
    io_loop_free(l);
}
