/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/io/unix_address.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proto/base/macros.h"

#define ABSTRACT "unix-abstract:"

bool unix_address_is(const char *address)
{
    return strncmp(address, "unix:", 5) == 0 || strncmp(address, ABSTRACT, strlen(ABSTRACT)) == 0;
}

int unix_address_parse(struct unix_address *ret, const char *address, struct error *e)
{
    struct unix_address a = {.sa.sun_family = AF_UNIX};
    bool abstract = strncmp(address, ABSTRACT, strlen(ABSTRACT)) == 0;
    const char *name = address + (abstract ? strlen(ABSTRACT) : strlen("unix:"));
    if (!abstract && *name == '@') {
        abstract = true;
        name++;
    } else if (!abstract && strncmp(name, "//", 2) == 0) { /* an URI: no host, then an absolute path */
        name += 2;
        if (*name != '/')
            return error_set(e, -EINVAL,
                             "address \"%s\": write unix:///path with three slashes, or unix:path", address);
    }
    size_t n = strlen(name);
    if (n == 0)
        return error_set(e, -EINVAL, "address \"%s\" names no socket", address);
    if (n > sizeof a.sa.sun_path - 1)
        return error_set(e, -ENAMETOOLONG, "address \"%.120s\": a unix socket's name has at most %zu bytes",
                         address, sizeof a.sa.sun_path - 1);
    memcpy(a.sa.sun_path + abstract, name, n);
    a.len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n + 1); /* the NUL before it or behind it */
    *ret = a;
    return 0;
}

/* Whether nobody listens at the file: then connecting is refused (a full backlog says EAGAIN, unix(7)). */
static bool is_stale(const struct unix_address *a)
{
    struct stat st;
    if (lstat(a->sa.sun_path, &st) < 0 || !S_ISSOCK(st.st_mode))
        return false;
    autoclose int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    return fd >= 0 && connect(fd, (const struct sockaddr *)&a->sa, a->len) < 0 && errno == ECONNREFUSED;
}

static int bind_name(int fd, const struct unix_address *a)
{
    if (bind(fd, (const struct sockaddr *)&a->sa, a->len) == 0)
        return 0;
    if (errno != EADDRINUSE || !a->sa.sun_path[0] || !is_stale(a))
        return -errno;
    if (unlink(a->sa.sun_path) < 0 || bind(fd, (const struct sockaddr *)&a->sa, a->len) < 0)
        return -errno;
    return 0;
}

int unix_address_listen(const struct unix_address *a, mode_t mode, int backlog, struct unix_file *ret_file)
{
    autoclose int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -errno;
    int r = bind_name(fd, a);
    if (r < 0)
        return r;
    struct unix_file file = {.path = ""};
    struct stat st;
    memcpy(file.path, a->sa.sun_path, sizeof file.path);
    if (file.path[0] && lstat(file.path, &st) == 0) {
        file.device = st.st_dev;
        file.inode = st.st_ino;
    }
    /* Before listen(2), so that nobody connects by the permissions that the umask left. */
    if ((file.path[0] && chmod(file.path, mode) < 0) || listen(fd, backlog) < 0) {
        r = -errno;
        unix_file_remove(&file);
        return r;
    }
    *ret_file = file;
    return take_fd(&fd);
}

void unix_file_remove(const struct unix_file *f)
{
    struct stat st;
    if (f->path[0] && lstat(f->path, &st) == 0 && st.st_dev == f->device && st.st_ino == f->inode)
        unlink(f->path);
}
