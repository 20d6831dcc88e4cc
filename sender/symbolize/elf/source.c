/* SPDX-License-Identifier: Apache-2.0 */
#include "sender/symbolize/elf/source.h"

#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proto/base/macros.h"
#include "sender/foreign/errand.h"

int source_file(struct source *ret, int fd)
{
    struct stat st;
    if (fstat(fd, &st) < 0)
        return -errno;
    *ret = (struct source){.fd = fd, .size = (uint64_t)st.st_size};
    return 0;
}

struct source source_memory(struct bytes memory)
{
    return (struct source){.fd = -1, .memory = memory, .size = memory.n};
}

struct source source_read_by(source_read_fn read, void *of, uint64_t size)
{
    return (struct source){.fd = -1, .size = size, .read = read, .of = of};
}

size_t source_read_some(const struct source *s, uint64_t offset, void *to, size_t n)
{
    if (offset >= s->size)
        return 0;
    n = (size_t)min_of((uint64_t)n, s->size - offset);
    if (s->read)
        return s->read(s->of, offset, to, n);
    if (s->fd < 0) {
        memcpy(to, s->memory.p + offset, n);
        return n;
    }
    if (!allowance_take(s->allowance, n))
        return 0;
    if (s->is_process)
        return (size_t)max_of(errand_pread(s->fd, to, n, (off_t)offset, s->owner), (ssize_t)0);
    size_t done = 0;
    while (done < n) {
        ssize_t got = pread(s->fd, (char *)to + done, n - done, (off_t)(offset + done));
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            break;
        done += (size_t)got;
    }
    return done;
}

bool source_read(const struct source *s, uint64_t offset, void *to, size_t n)
{
    return source_read_some(s, offset, to, n) == n;
}

size_t source_string(const struct source *s, uint64_t offset, char *to, size_t room)
{
    /* Most names are short: a first look of a quarter saves copying what follows them. */
    size_t want = min_of(room - 1, (size_t)256);
    for (;;) {
        size_t n = source_read_some(s, offset, to, want);
        size_t length = strnlen(to, n);
        if (length < n || n < want || want == room - 1) {
            to[length] = 0;
            return length;
        }
        want = room - 1;
    }
}
