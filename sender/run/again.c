/* SPDX-License-Identifier: Apache-2.0 */
#include "sender/run/again.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "proto/base/log.h"
#include "sender/options/options.h"

/* Where the text is that it ran with before. */
#define BEFORE "PROFSEND_FILE_BEFORE"

static const char place[] = "/proc/self/fd/%d";

/* Refused, there is no way back, and that is all. */
static void keep(struct bytes text)
{
    char path[32];
    int fd = text.n ? memfd_create("profsend.yaml", 0) : -1;
    if (fd < 0)
        return;
    snprintf(path, sizeof path, place, fd);
    if (write(fd, text.p, text.n) != (ssize_t)text.n || setenv(BEFORE, path, 1) < 0)
        close(fd);
}

static void forget(const char *variable)
{
    const char *path = getenv(variable);
    int fd;
    if (path && sscanf(path, place, &fd) == 1 && fd > STDERR_FILENO)
        close(fd);
    unsetenv(variable);
}

static int execute(char **argv)
{
    execv("/proc/self/exe", argv);
    return -errno;
}

int again_start(char **argv, struct bytes text)
{
    keep(text);
    return execute(argv);
}

void again_back(char **argv)
{
    const char *path = getenv(BEFORE);
    if (!path || setenv(OPTIONS_FILE_INSTEAD, path, 1) < 0)
        return;
    unsetenv(BEFORE); /* once: who cannot start with that either, ends */
    log_error("SIGHUP: it does not start like that: going on with what it had");
    (void)execute(argv);
}

void again_settle(void)
{
    forget(BEFORE);
    forget(OPTIONS_FILE_INSTEAD);
}
