/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>

#include "proto/base/file.h"
#include "proto/base/macros.h"
#include "tests/lib/sweep.h"

/* A file of n bytes. */
static void file_of(char ret[UNIT_PATH_MAX], size_t n)
{
    autoclose int fd = unit_new_file(ret, "");
    for (size_t i = 0; i < n; i++)
        ck_assert_int_eq(write(fd, &"abcdefg"[i % 7], 1), 1);
}

UNIT(a_small_file_is_a_string)
{
    char path[UNIT_PATH_MAX], text[8] = "former";
    file_of(path, 10);
    ck_assert_uint_eq(file_text(path, text, sizeof text), 7);
    ck_assert_str_eq(text, "abcdefg");
    ck_assert_uint_eq(file_text(path, text, 4), 3);
    ck_assert_str_eq(text, "abc");
    ck_assert_uint_eq(file_text("/dev/null", text, sizeof text), 0);
    ck_assert_str_eq(text, "");
    text[0] = 'x';
    ck_assert_uint_eq(file_text("/tmp", text, sizeof text), 0);
    ck_assert_str_eq(text, "");
    text[0] = 'x';
    ck_assert_uint_eq(file_text("/no/such", text, sizeof text), 0);
    ck_assert_str_eq(text, "");
}

UNIT(a_file_is_read_up_to_a_limit)
{
    const size_t n = 200000; /* several parts */
    char path[UNIT_PATH_MAX];
    file_of(path, n);
    cleanup(buffer_release) struct buffer b = BUFFER_INIT(n + 4), exact = BUFFER_INIT(0);
    struct error e = {""};
    ck_assert_int_eq(buffer_add_str(&b, "xyz"), 0);
    ck_assert_int_eq(file_read(path, n, &b, &e), 0);
    ck_assert_uint_eq(b.n, n + 3); /* appended */
    for (size_t i = 0; i < n; i++)
        ck_assert_int_eq(b.p[3 + i], "abcdefg"[i % 7]);

    ck_assert_int_eq(buffer_reserve(&exact, n), 0);
    const uint8_t *was = exact.p;
    ck_assert_int_eq(file_read(path, n - 1, &exact, &e), EFBIG);
    ck_assert_uint_le(exact.n, n);
    ck_assert_ptr_eq(exact.p, was); /* no copy of a secret stays behind */
    char says[UNIT_PATH_MAX + 64];
    snprintf(says, sizeof says, "cannot read %s: longer than %zu bytes", path, n - 1);
    ck_assert_str_eq(e.text, says);
}

UNIT(what_is_no_file_is_named)
{
    cleanup(buffer_release) struct buffer b = BUFFER_INIT(0);
    struct error e = {""};
    ck_assert_int_eq(file_read("/no/such/file", 10, &b, &e), ENOENT);
    ck_assert_str_eq(e.text, "cannot read /no/such/file: No such file or directory");
    ck_assert_int_eq(file_read("/tmp", 10, &b, &e), EISDIR);
    ck_assert_str_eq(e.text, "cannot read /tmp: Is a directory");
    ck_assert_int_eq(file_read("/dev/zero", 1 << 20, &b, &e), EFBIG);
    ck_assert_str_eq(e.text, "cannot read /dev/zero: longer than 1 MiB");
    ck_assert_int_eq(file_read_from(-1, "it", 10, &b, &e), EBADF);
    ck_assert_str_eq(e.text, "cannot read it: Bad file descriptor");
    buffer_clear(&b, SIZE_MAX);
    ck_assert_int_eq(file_read("/dev/null", 0, &b, &e), 0);
    ck_assert_uint_eq(b.n, 0);
}

static void nothing(int signal) {}

struct writer {
    pthread_t reader;
    int fd;
};

/* Interrupts the reader while it waits, then gives it more than it has got. */
static void *write_late(void *argument)
{
    const struct writer *w = argument;
    for (int i = 0; i < 20; i++) {
        usleep(1000);
        pthread_kill(w->reader, SIGUSR1);
        ck_assert_int_eq(write(w->fd, "a", 1), 1);
    }
    close(w->fd);
    return NULL;
}

UNIT(a_signal_and_a_slow_writer_end_nothing)
{
    int ends[2];
    pthread_t thread;
    cleanup(buffer_release) struct buffer b = BUFFER_INIT(0);
    struct error e = {""};
    struct sigaction former, action = {.sa_handler = nothing}; /* without SA_RESTART */
    ck_assert_int_eq(sigaction(SIGUSR1, &action, &former), 0);
    ck_assert_int_eq(pipe2(ends, O_CLOEXEC), 0);
    struct writer w = {pthread_self(), ends[1]};
    ck_assert_int_eq(pthread_create(&thread, NULL, write_late, &w), 0);
    const int r = file_read_from(ends[0], "a pipe", 20, &b, &e);
    pthread_join(thread, NULL);
    close(ends[0]);
    sigaction(SIGUSR1, &former, NULL);
    ck_assert_msg(r == 0, "%s", e.text);
    ck_assert_uint_eq(b.n, 20);
}

OOM_SWEEP(a_file_is_read_or_memory_is_out)
{
    cleanup(buffer_release) struct buffer b = BUFFER_INIT(0);
    struct error e = {""};
    const int r = file_read("/proc/self/status", 1 << 20, &b, &e);
    if (r < 0)
        ck_assert_str_eq(e.text, "cannot read /proc/self/status: out of memory");
    ck_assert(r == 0 ? b.n > 0 : r == -ENOMEM);
}
