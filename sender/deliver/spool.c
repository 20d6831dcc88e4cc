/* SPDX-License-Identifier: Apache-2.0 */
#include "sender/deliver/spool.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proto/base/macros.h"

/* A request is some megabytes at most; anything larger here is not ours. */
#define FILE_BYTES_MAX (64u << 20)

struct spool {
    int folder;
    uint64_t max_bytes, bytes, last, dropped;
    struct spool_entry *entry; /* a ring, oldest first */
    uint32_t first, n;
};

struct name {
    char text[64];
};

static struct name name_of(const struct spool_entry *e)
{
    struct name name;
    snprintf(name.text, sizeof name.text, "%016" PRIx64 "-%" PRIu64 ".otlp", e->number, e->items);
    return name;
}

static struct spool_entry *at(const struct spool *s, uint32_t i)
{
    return &s->entry[(s->first + i) % SPOOL_FILES_MAX];
}

static void remove_oldest(struct spool *s, bool is_loss)
{
    struct spool_entry *e = at(s, 0);
    unlinkat(s->folder, name_of(e).text, 0);
    s->bytes -= e->bytes;
    s->dropped += is_loss ? e->items : 0;
    s->first = (s->first + 1) % SPOOL_FILES_MAX;
    s->n--;
}

static void make_room(struct spool *s, uint64_t bytes)
{
    while (s->n > 0 && (s->n == SPOOL_FILES_MAX || s->bytes + bytes > s->max_bytes))
        remove_oldest(s, true);
}

static void append(struct spool *s, const struct spool_entry *e)
{
    *at(s, s->n++) = *e;
    s->bytes += e->bytes;
    s->last = max_of(s->last, e->number);
}

static int by_number(const void *a, const void *b)
{
    const struct spool_entry *x = a, *y = b;
    return x->number < y->number ? -1 : x->number > y->number;
}

/* Takes up what is there already. What has another name is not ours and stays; what an earlier process did
 * not finish writing goes. */
static void read_folder(struct spool *s)
{
    int copy = openat(s->folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *all = copy < 0 ? NULL : fdopendir(copy);
    if (!all) {
        if (copy >= 0)
            close(copy);
        return;
    }
    for (const struct dirent *d; (d = readdir(all)) != NULL && s->n < SPOOL_FILES_MAX;) {
        struct spool_entry e;
        struct stat st;
        if (strcmp(d->d_name, "writing") == 0)
            unlinkat(s->folder, d->d_name, 0);
        if (sscanf(d->d_name, "%16" SCNx64 "-%" SCNu64 ".otlp", &e.number, &e.items) != 2 ||
            strcmp(d->d_name, name_of(&e).text) != 0 ||
            fstatat(s->folder, d->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(st.st_mode))
            continue;
        e.bytes = (uint64_t)st.st_size;
        append(s, &e);
    }
    closedir(all);
    qsort(s->entry, s->n, sizeof *s->entry, by_number);
    make_room(s, 0);
}

int spool_open(struct spool **ret, const char *folder, uint64_t max_bytes, struct error *e)
{
    if (mkdir(folder, 0700) < 0 && errno != EEXIST)
        return error_set(e, -EINVAL, "spool folder %s cannot be made: %s", folder, strerror(errno));
    autoclose int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || faccessat(fd, ".", W_OK, AT_EACCESS) < 0)
        return error_set(e, -EINVAL, "spool folder %s: %s", folder, strerror(errno));
    struct spool *s = calloc(1, sizeof *s);
    if (s)
        s->entry = calloc(SPOOL_FILES_MAX, sizeof *s->entry);
    if (!s || !s->entry) {
        free(s);
        return error_set(e, -ENOMEM, "out of memory");
    }
    s->folder = fd;
    fd = -1; /* the spool's now */
    s->max_bytes = max_bytes;
    read_folder(s);
    *ret = s;
    return 0;
}

struct spool *spool_close(struct spool *s)
{
    if (s) {
        close(s->folder);
        free(s->entry);
        free(s);
    }
    return NULL;
}

static int write_all(int fd, struct bytes b)
{
    for (size_t done = 0; done < b.n;) {
        ssize_t n = write(fd, b.p + done, b.n - done);
        if (n < 0 && errno != EINTR)
            return -errno;
        done += n > 0 ? (size_t)n : 0;
    }
    return 0;
}

int spool_add(struct spool *s, struct bytes request, uint64_t items)
{
    struct spool_entry e = {.number = s->last + 1, .items = items, .bytes = request.n};
    if (request.n > s->max_bytes || request.n > FILE_BYTES_MAX) {
        s->dropped += items;
        return -EFBIG;
    }
    make_room(s, request.n);
    int fd = openat(s->folder, "writing", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    int r = fd < 0 ? -errno : write_all(fd, request);
    if (fd >= 0 && close(fd) < 0 && r == 0)
        r = -errno;
    if (r == 0 && renameat(s->folder, "writing", s->folder, name_of(&e).text) < 0)
        r = -errno;
    if (r < 0) {
        unlinkat(s->folder, "writing", 0);
        s->dropped += items;
        return r;
    }
    append(s, &e);
    return 0;
}

/* Condition: the file is gone, or is not what was written. */
#define DAMAGED 1

/* 0, DAMAGED or -ENOMEM. */
static int read_file(const struct spool *s, const struct spool_entry *e, struct buffer *out)
{
    autoclose int fd = openat(s->folder, name_of(e).text, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0 || e->bytes > FILE_BYTES_MAX)
        return DAMAGED;
    int r = buffer_reserve(out, e->bytes + 1);
    if (r < 0)
        return r;
    size_t got = 0;
    for (ssize_t n; got <= e->bytes && (n = read(fd, out->p + out->n + got, e->bytes + 1 - got)) > 0;)
        got += (size_t)n;
    if (got != e->bytes)
        return DAMAGED; /* somebody else wrote to it */
    out->n += got;
    return 0;
}

struct spool_entry spool_oldest(struct spool *s, struct buffer *out)
{
    while (s->n > 0) {
        struct spool_entry e = *at(s, 0);
        int r = read_file(s, &e, out);
        if (r == 0)
            return e;
        if (r < 0)
            break; /* later */
        remove_oldest(s, true);
    }
    return (struct spool_entry){0};
}

void spool_done(struct spool *s, uint64_t number)
{
    if (s->n > 0 && at(s, 0)->number == number)
        remove_oldest(s, false);
}

struct spool_counts spool_counts(const struct spool *s)
{
    return (struct spool_counts){.files = s->n, .bytes = s->bytes, .dropped = s->dropped};
}
