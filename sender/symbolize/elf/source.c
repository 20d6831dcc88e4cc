/* SPDX-License-Identifier: Apache-2.0 */
#include "sender/symbolize/elf/source.h"

#include <errno.h>
#include <unistd.h>

#include "proto/base/macros.h"
#include "sender/foreign/errand.h"
#include "sender/foreign/open.h"

int source_file(struct source *ret, int fd)
{
    struct stat st;
    int r = foreign_stat(fd, &st);
    if (r == 0)
        *ret = (struct source){
            .fd = fd, .size = (uint64_t)st.st_size, .owner = UINT32_MAX, .is_place = errand_is_place(fd)};
    return r;
}

struct source source_process(int fd, uint32_t user, struct allowance *allowance, struct source_pages *pages)
{
    return (
        struct source){.fd = fd, .size = INT64_MAX, .allowance = allowance, .owner = user, .pages = pages};
}

uint32_t source_user(const struct source *s)
{
    return s->pages || !s->allowance ? s->owner : allowance_user(s->allowance);
}

struct source source_memory(struct bytes memory)
{
    return (struct source){.fd = -1, .memory = memory, .size = memory.n};
}

struct source source_read_by(source_read_fn read, void *of, uint64_t size)
{
    return (struct source){.fd = -1, .size = size, .read = read, .of = of};
}

size_t source_read_pages(source_page_fn page, void *of, uint32_t size, uint64_t offset, void *to, size_t n)
{
    size_t done = 0;
    while (done < n) {
        const uint64_t in = (offset + done) % size;
        const struct bytes there = page(of, offset + done - in);
        if (there.n <= in)
            break;
        const size_t part = min_of(n - done, (size_t)(there.n - in));
        memcpy((uint8_t *)to + done, there.p + in, part);
        done += part;
    }
    return done;
}

/* What a file's server keeps back is not its end: nothing that is read of it may be believed then. */
static size_t read_place(const struct source *s, uint64_t offset, void *to, size_t n)
{
    ssize_t got = errand_pread(s->fd, to, n, (off_t)offset, source_user(s));
    if (foreign_is_silent((int)got) || -got == ENOMEM)
        allowance_exhaust(s->allowance);
    return (size_t)max_of(got, (ssize_t)0);
}

/* Most reads are small and near the one before, and an errand costs what reading some 64 KiB does. */
#define BLOCK (32u << 10)

struct block {
    struct stat st; /* whose */
    uint64_t at;
    size_t n;
    uint8_t bytes[BLOCK];
};

/* Of a place, through a block of the thread's. */
static size_t read_near(const struct source *s, uint64_t offset, void *to, size_t n)
{
    static _Thread_local struct block b;
    struct stat st;
    if (n > BLOCK / 2)
        return read_place(s, offset, to, n);
    if (foreign_stat(s->fd, &st) < 0)
        return 0;
    bool is_same = b.st.st_dev == st.st_dev && b.st.st_ino == st.st_ino &&
                   foreign_is_unchanged(&st, b.st.st_size, b.st.st_ctim);
    if (!is_same || offset < b.at || offset - b.at >= b.n || n > b.n - (offset - b.at)) {
        b.st = st;
        b.at = offset;
        b.n = read_place(s, offset, b.bytes, BLOCK);
        allowance_charge(s->allowance, (int64_t)b.n);
    }
    n = min_of(n, b.n - (size_t)(offset - b.at));
    memcpy(to, b.bytes + (offset - b.at), n);
    return n;
}

/* No page begins there. */
#define NO_PAGE UINT64_MAX

static struct bytes page_of(void *of, uint64_t at)
{
    const struct source *s = of;
    struct source_pages *p = s->pages;
    for (uint32_t i = 0; i < min_of(p->n, SOURCE_PAGES); i++)
        if (p->at[i] == at)
            return bytes_of(p->bytes[i], SOURCE_PAGE);
    uint32_t i = p->n % SOURCE_PAGES;
    p->at[i] = NO_PAGE;
    allowance_charge(s->allowance, SOURCE_PAGE);
    if (errand_pread(s->fd, p->bytes[i], SOURCE_PAGE, (off_t)at, s->owner) != SOURCE_PAGE)
        return bytes_of(NULL, 0);
    p->at[i] = at;
    p->n++;
    return bytes_of(p->bytes[i], SOURCE_PAGE);
}

static size_t read_process(const struct source *s, uint64_t offset, uint8_t *to, size_t n)
{
    if (n > SOURCE_PAGE)
        return (size_t)max_of(errand_pread(s->fd, to, n, (off_t)offset, s->owner), (ssize_t)0);
    return source_read_pages(page_of, (struct source *)s, SOURCE_PAGE, offset, to,
                             n); /* it is not written to */
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
    if (s->pages)
        return read_process(s, offset, to, n);
    if (s->is_place)
        return read_near(s, offset, to, n);
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
