/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "proto/base/macros.h"

/* Read at a time. */
#define PART ((size_t)64 << 10)

size_t file_text(const char *path, char *to, size_t room)
{
    autoclose int fd = open(path, O_RDONLY | O_CLOEXEC);
    const ssize_t n = fd < 0 ? 0 : read(fd, to, room - 1);
    to[max_of(n, (ssize_t)0)] = '\0';
    return (size_t)max_of(n, (ssize_t)0);
}

static int too_long(const char *name, size_t max, struct error *e)
{
    static const char *const unit[] = {"bytes", "KiB", "MiB", "GiB"};
    size_t u = 0;
    for (; max > 0 && max % 1024 == 0 && u + 1 < ARRAY_LEN(unit); u++)
        max /= 1024;
    return error_set(e, EFBIG, "cannot read %s: longer than %zu %s", name, max, unit[u]);
}

int file_read_from(int fd, const char *name, size_t max, struct buffer *ret, struct error *e)
{
    for (size_t left = max + 1;;) {
        uint8_t *to = buffer_cursor(ret, min_of(left, PART));
        if (!to)
            return error_set(e, -ENOMEM, "cannot read %s: out of memory", name);
        const ssize_t n = read(fd, to, min_of(left, PART));
        if (n == 0)
            return 0;
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return error_set(e, errno, "cannot read %s: %s", name, strerror(errno));
        ret->n += (size_t)n;
        left -= (size_t)n;
        if (left == 0)
            return too_long(name, max, e);
    }
}

int file_read(const char *path, size_t max, struct buffer *ret, struct error *e)
{
    autoclose int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return error_set(e, errno, "cannot read %s: %s", path, strerror(errno));
    return file_read_from(fd, path, max, ret, e);
}
