/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/export/file/records.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proto/base/clock.h"
#include "proto/base/macros.h"

/* What can be appended to: a file, a device such as a terminal, a FIFO that somebody reads. */
static int check_kind(const struct record_file *f, mode_t mode, struct error *e)
{
    if (S_ISREG(mode) || S_ISCHR(mode) || S_ISFIFO(mode))
        return 0;
    return error_set(e, -EINVAL, "%s: neither a file nor a terminal nor a FIFO", f->path);
}

/* Without O_NONBLOCK opening a FIFO waits for its reader; writing then may wait. */
static int open_path(struct record_file *f, struct error *e)
{
    autoclose int fd = open(f->path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0644);
    struct stat st;
    if (fd < 0 && errno == ENXIO)
        return error_set(e, -ENXIO, "%s: a FIFO that nobody reads; start its reader first", f->path);
    if (fd < 0 || fstat(fd, &st) < 0 || fcntl(fd, F_SETFL, O_APPEND) < 0)
        return error_set(e, -errno, "%s: %s", f->path, strerror(errno));
    int r = check_kind(f, st.st_mode, e);
    if (r < 0)
        return r;
    f->device = st.st_dev;
    f->inode = st.st_ino;
    f->is_regular = S_ISREG(st.st_mode);
    f->bytes = (uint64_t)st.st_size;
    f->begun_ns = clock_monotonic();
    f->fd = take_fd(&fd);
    return 0;
}

int record_file_open(struct record_file *f, const char *path, const struct rotation *rotation,
                     struct error *e)
{
    if (!path || !path[0])
        return error_set(e, -EINVAL, "path is missing");
    struct record_file made = {.fd = -1, .path = strdup(path), .rotation = *rotation};
    if (!made.path)
        return error_set(e, -ENOMEM, "out of memory");
    int r = open_path(&made, e);
    if (r < 0) {
        free(made.path);
        return r;
    }
    *f = made;
    return 0;
}

void record_file_close(struct record_file *f)
{
    if (f->fd >= 0)
        close(take_fd(&f->fd));
    free(take_ptr(f->path));
}

static int reopen_if_moved(struct record_file *f, struct error *e)
{
    struct stat st;
    if (f->fd >= 0 && stat(f->path, &st) == 0 && st.st_dev == f->device && st.st_ino == f->inode)
        return 0;
    if (f->fd >= 0)
        close(take_fd(&f->fd));
    return open_path(f, e);
}

/* ---- rotation ---- */

uint64_t record_file_due(const struct record_file *f)
{
    const bool is_wanted = f->rotation.age_max_ns > 0 && f->is_regular && f->bytes > 0;
    return is_wanted ? f->begun_ns + f->rotation.age_max_ns : UINT64_MAX;
}

static int rotate(struct record_file *f, struct error *e)
{
    int r = rotation_rename(f->path, f->fd, e);
    if (r < 0)
        return r;
    close(take_fd(&f->fd));
    rotation_prune(&f->rotation, f->path);
    return open_path(f, e);
}

void record_file_look(struct record_file *f)
{
    struct error e;
    if (clock_monotonic() < record_file_due(f))
        return;
    if (reopen_if_moved(f, &e) < 0 || (f->bytes > 0 && rotate(f, &e) < 0))
        f->begun_ns = clock_monotonic(); /* not before it is as old again, or written to */
}

/* Whether n bytes more belong into the next file. */
static bool is_full(const struct record_file *f, size_t n)
{
    const uint64_t max = f->rotation.bytes_max;
    return f->is_regular && f->bytes > 0 &&
           ((max > 0 && f->bytes + n > max) || clock_monotonic() >= record_file_due(f));
}

int record_file_append(struct record_file *f, struct bytes record, struct error *e)
{
    int r = reopen_if_moved(f, e);
    if (r == 0 && rotation_is_wanted(&f->rotation) && is_full(f, record.n))
        r = rotate(f, e);
    if (r < 0 && f->fd < 0) /* one that cannot be renamed grows on */
        return r;
    r = 0;
    if (f->bytes == 0)
        f->begun_ns = clock_monotonic();
    size_t done = 0;
    while (done < record.n) {
        ssize_t n = write(f->fd, record.p + done, record.n - done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            r = error_set(e, -errno, "%s: %s", f->path, strerror(errno));
            break;
        }
        done += (size_t)n;
    }
    if (r == 0)
        f->bytes += done;
    if (r < 0 && done > 0) {
        /* A full disk took a part: take that back, or the next record begins in the middle of this one. Where
         * that cannot be done (a pipe) the reader has to skip it. */
        struct stat st;
        if (fstat(f->fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size >= (off_t)done &&
            ftruncate(f->fd, st.st_size - (off_t)done) < 0)
            error_prefix(e, r, "half a record stays in the file; ");
    }
    return r;
}
