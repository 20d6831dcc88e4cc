/* SPDX-License-Identifier: Apache-2.0 */
/* needs: proto/io */
#include "tests/lib/unit.h"

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "proto/base/clock.h"
#include "proto/io/loop.h"
#include "sender/run/notify.h"

static char address[256], pid[16];
static const char *watchdog;

static char *getvar(const char *name)
{
    if (strcmp(name, "NOTIFY_SOCKET") == 0)
        return *address ? address : NULL;
    if (strcmp(name, "WATCHDOG_USEC") == 0)
        return (char *)(uintptr_t)watchdog;
    return strcmp(name, "WATCHDOG_PID") == 0 && *pid ? pid : NULL;
}

/* A service manager's socket, in a folder or ('@') in the abstract namespace. */
static int listen_at(bool is_abstract)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    char folder[UNIT_PATH_MAX];
    unit_new_folder(folder);
    snprintf(address, sizeof address, "%s%s/s", is_abstract ? "@" : "", folder);
    memcpy(to.sun_path, address, strlen(address));
    to.sun_path[0] = is_abstract ? 0 : '/';
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(bind(fd, (const struct sockaddr *)&to,
                          (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(address))),
                     0);
    return fd;
}

/* What was told next; "" if nothing was. */
static const char *told(int fd)
{
    static char text[128];
    ssize_t n = recv(fd, text, sizeof text - 1, 0);
    text[n < 0 ? 0 : n] = 0;
    return text;
}

UNIT(a_manager_is_told)
{
    for (int is_abstract = 0; is_abstract < 2; is_abstract++) {
        autoclose int fd = listen_at(is_abstract);
        struct io_loop *loop = unit_made(io_loop_new());
        struct notify *n = unit_made(notify_open(getvar));
        ck_assert_str_eq(told(fd), "");
        notify_ready(n, loop);
        ck_assert_str_eq(told(fd), "READY=1");
        notify_reloading(n);
        ck_assert_int_eq(strncmp(told(fd), "RELOADING=1\nMONOTONIC_USEC=", 27), 0);
        notify_stopping(n);
        ck_assert_str_eq(told(fd), "STOPPING=1");
        ck_assert_str_eq(told(fd), ""); /* no sign of life was asked for */
        notify_close(n);
        io_loop_free(loop);
    }
}

UNIT(a_watchdog_hears_that_the_loop_turns)
{
    autoclose int fd = listen_at(true);
    struct io_loop *loop = unit_made(io_loop_new());
    watchdog = "20000";
    snprintf(pid, sizeof pid, "%d", getpid());
    struct notify *n = unit_made(notify_open(getvar));
    notify_ready(n, loop);
    ck_assert_str_eq(told(fd), "READY=1");
    int heard = 0;
    for (uint64_t deadline = clock_monotonic() + unit_patience(60 * (uint64_t)NSEC_PER_SEC);
         heard < 3 && clock_monotonic() < deadline;) {
        heard += strcmp(told(fd), "WATCHDOG=1") == 0;
        io_loop_run_once(loop, 1000000);
    }
    ck_assert_int_eq(heard, 3);
    notify_close(n);
    while (*told(fd))
        ;
    snprintf(pid, sizeof pid, "1"); /* it is another process that is asked */
    n = unit_made(notify_open(getvar));
    notify_ready(n, loop);
    ck_assert_str_eq(told(fd), "READY=1");
    ck_assert_str_eq(told(fd), "");
    notify_close(n);
    io_loop_free(loop);
}

UNIT(nobody_to_tell)
{
    *address = 0;
    ck_assert_ptr_null(notify_open(getvar));
    static const char *const bad[] = {"relative", "/", "", "@"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        snprintf(address, sizeof address, "%s", bad[i]);
        ck_assert_ptr_null(notify_open(getvar));
    }
    memset(address, '/', 119);
    address[119] = 0; /* longer than an address can be */
    ck_assert_ptr_null(notify_open(getvar));
    notify_stopping(NULL);
    notify_ready(NULL, NULL);
    snprintf(address, sizeof address, "/nowhere/socket"); /* it is not there: no harm */
    struct notify *n = unit_made(notify_open(getvar));
    notify_stopping(n);
    notify_close(n);
}
