/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A head, a record for each file (its key, and where its names are), and the names. In those, texts,
 * functions and places are numbered from 1 as in places.h, but each file for itself: so that one is read, or
 * copied into the next file, without the others.
 *
 * Saving encodes only the sets in which something was found since; of the others, and of files that were not
 * met since the start, the bytes are copied.
 */
#include "sender/symbolize/cache/stored.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proto/base/buffer.h"
#include "proto/base/clock.h"
#include "proto/base/hash.h"
#include "proto/base/macros.h"
#include "sender/symbolize/elf/reader.h"

#define FOLDER "names"
#define NAME   "names"
#define BESIDE "names.new"
/* Written as a number: what another byte order wrote is no file of ours. The last digit counts formats. */
#define MAGIC UINT64_C(0x504753454e440002)

struct head {
    uint64_t magic, kind, n, sum; /* of the records */
};

struct record {
    uint8_t key[NAMES_KEY_MAX];
    uint64_t key_n;
    uint64_t used; /* seconds, of the clock on the wall */
    uint64_t debug;
    uint64_t at, n, sum;
};

struct stored {
    int folder, fd; /* fd -1: there is none yet */
    uint64_t kind, bytes_max;
    struct record *record;
    uint32_t n;
};

/* How many things of `least` bytes or more follow. */
static uint32_t take_count(struct reader *r, size_t least)
{
    uint32_t n = (uint32_t)reader_fixed(r, sizeof n);
    r->is_bad |= n > reader_left(r) / least;
    return r->is_bad ? 0 : n;
}

static int add_u32(struct buffer *b, uint32_t v)
{
    return buffer_add(b, &v, sizeof v);
}

static int add_all(struct buffer *b, const struct intern *t)
{
    int r = add_u32(b, t->n);
    for (uint32_t i = 0; i < t->n && r == 0; i++) {
        r = add_u32(b, (uint32_t)t->p[i].n);
        r = r < 0 ? r : buffer_add_bytes(b, t->p[i]);
    }
    return r;
}

int stored_encode(const struct names *n, const struct names_set *set, struct buffer *out)
{
    const struct ranges *ranges = &set->ranges;
    cleanup(places_release) struct places own = {0};
    autofree struct range *range = malloc(ranges->n_sorted * sizeof *range + 1);
    if (!range)
        return -ENOMEM;
    for (uint32_t i = 0; i < ranges->n_sorted; i++) {
        range[i] = ranges->all.p[i];
        range[i].place = places_move(&own, &n->places, range[i].place);
        if (!range[i].place && ranges->all.p[i].place)
            return -ENOMEM;
    }
    int r = add_all(out, &own.text);
    r = r < 0 ? r : add_all(out, &own.functions);
    r = r < 0 ? r : add_all(out, &own.places);
    r = r < 0 ? r : add_u32(out, ranges->n_sorted);
    r = r < 0 || !ranges->n_sorted ? r : buffer_add(out, range, ranges->n_sorted * sizeof *range);
    return r;
}

/* What numbers of the file are called here, by number. */
struct numbers {
    uint32_t *p;
    uint32_t n;
};

static void numbers_release(struct numbers *x)
{
    free(x->p);
}

static bool has(const struct numbers *x, uint32_t number)
{
    return number <= x->n;
}

/* One thing: its number here, or 0 for what makes no sense, or for want of memory. */
static uint32_t read_text(struct places *p, struct bytes b, const struct numbers *unused)
{
    return places_text(p, b);
}

static uint32_t read_function(struct places *p, struct bytes b, const struct numbers *texts)
{
    struct place_function f;
    if (b.n != sizeof f)
        return 0;
    memcpy(&f, b.p, sizeof f);
    if (!has(texts, f.name) || !has(texts, f.file))
        return 0;
    f.name = texts->p[f.name];
    f.file = texts->p[f.file];
    return places_function(p, &f);
}

static uint32_t read_place(struct places *p, struct bytes b, const struct numbers *functions)
{
    struct place_line line[PLACES_LINES_MAX];
    if (b.n == 0 || b.n % sizeof *line || b.n > sizeof line)
        return 0;
    memcpy(line, b.p, b.n);
    uint32_t n = (uint32_t)(b.n / sizeof *line);
    for (uint32_t i = 0; i < n; i++) {
        if (!has(functions, line[i].function))
            return 0;
        line[i].function = functions->p[line[i].function];
    }
    return places_add(p, line, n);
}

static int read_all(struct reader *r, struct places *p,
                    uint32_t (*read_one)(struct places *p, struct bytes b, const struct numbers *of),
                    const struct numbers *of, struct numbers *ret)
{
    ret->n = take_count(r, sizeof(uint32_t));
    ret->p = calloc((size_t)ret->n + 1, sizeof *ret->p);
    if (!ret->p)
        return -ENOMEM;
    for (uint32_t i = 1; i <= ret->n; i++) {
        struct bytes b = reader_take(r, reader_fixed(r, sizeof(uint32_t)));
        ret->p[i] = r->is_bad ? 0 : read_one(p, b, of);
        if (!ret->p[i])
            return -EBADMSG;
    }
    return 0;
}

static int read_ranges(struct reader *r, const struct numbers *places, struct ranges *ret)
{
    uint32_t n = take_count(r, sizeof(struct range));
    uint64_t end = 0;
    if (r->is_bad || vec_reserve(&ret->all, n) < 0)
        return r->is_bad ? -EBADMSG : -ENOMEM;
    for (uint32_t i = 0; i < n; i++) {
        struct range range;
        memcpy(&range, reader_take(r, sizeof range).p, sizeof range);
        if (range.start < end || range.start >= range.end || !has(places, range.place) ||
            (range.flags & ~(uint32_t)(RANGE_GO | RANGE_ROUGH)))
            return -EBADMSG;
        end = range.end;
        range.place = places->p[range.place];
        (void)vec_append(&ret->all, range);
    }
    ret->n_sorted = n;
    return reader_left(r) ? -EBADMSG : 0;
}

int stored_decode(struct bytes b, struct places *places, struct ranges *ranges)
{
    struct reader reader = reader_of(b);
    cleanup(numbers_release) struct numbers text = {0}, function = {0}, place = {0};
    int r = read_all(&reader, places, read_text, NULL, &text);
    r = r < 0 ? r : read_all(&reader, places, read_function, &text, &function);
    r = r < 0 ? r : read_all(&reader, places, read_place, &function, &place);
    r = r < 0 ? r : read_ranges(&reader, &place, ranges);
    if (r < 0)
        ranges_release(ranges);
    return r;
}

static bool is_ours_alone(int fd, uint32_t type)
{
    struct stat st;
    return fstat(fd, &st) == 0 && (st.st_mode & S_IFMT) == type && st.st_uid == geteuid() &&
           !(st.st_mode & (S_IRWXG | S_IRWXO)) && (type == S_IFDIR || st.st_nlink == 1);
}

static bool read_at(int fd, uint64_t at, void *to, size_t n)
{
    for (size_t done = 0; done < n;) {
        ssize_t got = pread(fd, (uint8_t *)to + done, n - done, (off_t)(at + done));
        if (got <= 0)
            return false;
        done += (size_t)got;
    }
    return true;
}

static int write_at(int fd, uint64_t at, const void *from, size_t n)
{
    for (size_t done = 0; done < n;) {
        ssize_t put = pwrite(fd, (const uint8_t *)from + done, n - done, (off_t)(at + done));
        if (put < 0)
            return -errno;
        done += (size_t)put;
    }
    return 0;
}

static uint64_t sum_of(const void *p, size_t n)
{
    return hash_bytes(bytes_of(p, n), 0);
}

/* Reads head and records; what is not as it should be has none. 0 or -ENOMEM. */
static int read_records(struct stored *s)
{
    struct head head;
    struct stat st;
    if (fstat(s->fd, &st) < 0 || !read_at(s->fd, 0, &head, sizeof head) || head.magic != MAGIC ||
        head.kind != s->kind || head.n == 0 || head.n > STORED_MAX)
        return 0;
    size_t bytes = (size_t)head.n * sizeof *s->record;
    autofree struct record *record = malloc(bytes);
    if (!record)
        return -ENOMEM;
    if (!read_at(s->fd, sizeof head, record, bytes) || sum_of(record, bytes) != head.sum)
        return 0;
    for (uint64_t i = 0; i < head.n; i++)
        if (record[i].key_n > NAMES_KEY_MAX || record[i].n > STORED_ONE_MAX ||
            record[i].at > (uint64_t)st.st_size || record[i].n > (uint64_t)st.st_size - record[i].at)
            return 0;
    s->record = take_ptr(record);
    s->n = (uint32_t)head.n;
    return 0;
}

/* Opens what is there. 0, STORED_REFUSED or -errno. */
static int open_file(struct stored *s)
{
    s->fd = openat(s->folder, NAME, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (s->fd < 0)
        return errno == ENOENT ? 0 : errno == ELOOP ? STORED_REFUSED : -errno;
    return is_ours_alone(s->fd, S_IFREG) ? read_records(s) : STORED_REFUSED;
}

static int open_folder(struct stored *s, const char *parent)
{
    struct stat st;
    autoclose int fd = open(parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0)
        return -errno;
    if ((st.st_uid != 0 && st.st_uid != geteuid()) || (st.st_mode & (S_IWGRP | S_IWOTH)))
        return STORED_REFUSED;
    if (mkdirat(fd, FOLDER, S_IRWXU) < 0 && errno != EEXIST)
        return -errno;
    s->folder = openat(fd, FOLDER, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (s->folder < 0)
        return errno == ELOOP || errno == ENOTDIR ? STORED_REFUSED : -errno;
    if (!is_ours_alone(s->folder, S_IFDIR))
        return STORED_REFUSED;
    if (flock(s->folder, LOCK_EX | LOCK_NB) == 0)
        return 0;
    return errno == EWOULDBLOCK ? STORED_TAKEN : -errno;
}

int stored_open(struct stored **ret, const char *parent, uint64_t kind, uint64_t bytes_max)
{
    struct stored *s = malloc(sizeof *s);
    if (!s)
        return -ENOMEM;
    *s = (struct stored){.folder = -1, .fd = -1, .kind = kind, .bytes_max = bytes_max};
    int r = open_folder(s, parent);
    r = r ? r : open_file(s);
    if (r) {
        stored_free(s);
        return r;
    }
    *ret = s;
    return 0;
}

struct stored *stored_free(struct stored *s)
{
    if (!s)
        return NULL;
    cleanup_close(&s->fd);
    cleanup_close(&s->folder);
    free(s->record);
    free(s);
    return NULL;
}

int stored_folder(const struct stored *s)
{
    return s->folder;
}

static const struct record *find(const struct record *all, uint32_t n, const uint8_t *key, uint64_t key_n)
{
    for (uint32_t i = 0; i < n; i++)
        if (all[i].key_n == key_n && memcmp(all[i].key, key, key_n) == 0)
            return &all[i];
    return NULL;
}

static const struct record *record_of(const struct stored *s, const struct names_set *set)
{
    return find(s->record, s->n, set->key, set->key_n);
}

/* The bytes of a record, or NULL: they are not what was written, or memory is out. The caller frees. */
static uint8_t *read_record(const struct stored *s, const struct record *record)
{
    uint8_t *bytes = malloc((size_t)record->n + 1);
    if (bytes && read_at(s->fd, record->at, bytes, (size_t)record->n) &&
        sum_of(bytes, (size_t)record->n) == record->sum)
        return bytes;
    free(bytes);
    return NULL;
}

bool stored_load(struct stored *s, struct names *n, struct names_set *set)
{
    const struct record *record = record_of(s, set);
    autofree uint8_t *bytes = record ? read_record(s, record) : NULL;
    if (!bytes || stored_decode(bytes_of(bytes, (size_t)record->n), &n->places, &set->ranges) < 0)
        return false;
    set->debug = record->debug;
    set->is_unchecked = true;
    return true;
}

/* A file being written. */
struct draft {
    int fd;
    uint64_t at;
    struct record *record;
    uint32_t n;
};

static void draft_close(struct draft *d)
{
    cleanup_close(&d->fd);
    free(d->record);
}

/* Adds bytes as those of `like`, unless there is no room. 0 or -errno. */
static int put(const struct stored *s, struct draft *d, const struct record *like, const uint8_t *bytes,
               size_t n)
{
    if (d->at + n > s->bytes_max)
        return 0;
    int r = write_at(d->fd, d->at, bytes, n);
    if (r < 0)
        return r;
    struct record *record = &d->record[d->n++];
    *record = *like;
    record->at = d->at;
    record->n = n;
    record->sum = sum_of(bytes, n);
    d->at += n;
    return 0;
}

static int put_old(const struct stored *s, struct draft *d, const struct record *old, uint64_t used)
{
    autofree uint8_t *bytes = read_record(s, old);
    struct record like = *old;
    like.used = used;
    return bytes ? put(s, d, &like, bytes, (size_t)old->n) : 0;
}

static int put_set(const struct stored *s, struct draft *d, const struct names *n,
                   const struct names_set *set)
{
    uint64_t now = clock_realtime() / NSEC_PER_SEC;
    const struct record *old = set->is_new ? NULL : record_of(s, set);
    struct record like = {.key_n = set->key_n, .used = now, .debug = set->debug};
    cleanup(buffer_release) struct buffer bytes = BUFFER_INIT(0);
    if (!set->may_stay || set->ranges.n_sorted == 0)
        return 0;
    if (old)
        return put_old(s, d, old, now);
    memcpy(like.key, set->key, set->key_n);
    int r = stored_encode(n, set, &bytes);
    return r < 0 || bytes.n > STORED_ONE_MAX ? r : put(s, d, &like, bytes.p, bytes.n);
}

static int by_used(const void *a, const void *b)
{
    const struct record *x = a, *y = b;
    return order_of(y->used, x->used);
}

static int by_set_used(const void *a, const void *b)
{
    const struct names_set *const *x = a, *const *y = b;
    return order_of((*y)->used, (*x)->used);
}

/* Fills a draft: what is in memory first, what was used last of it first, then the rest likewise. */
static int fill(struct stored *s, struct draft *d, struct names *n)
{
    int r = 0;
    qsort(n->set, n->n, sizeof *n->set, by_set_used);
    if (s->n)
        qsort(s->record, s->n, sizeof *s->record, by_used);
    for (uint32_t i = 0; i < n->n && d->n < STORED_MAX && r == 0; i++)
        r = put_set(s, d, n, n->set[i]);
    for (uint32_t i = 0; i < s->n && d->n < STORED_MAX && r == 0; i++)
        if (!find(d->record, d->n, s->record[i].key, s->record[i].key_n))
            r = put_old(s, d, &s->record[i], s->record[i].used);
    struct head head = {MAGIC, s->kind, d->n, sum_of(d->record, d->n * sizeof *d->record)};
    r = r < 0 ? r : write_at(d->fd, sizeof head, d->record, d->n * sizeof *d->record);
    return r < 0 ? r : write_at(d->fd, 0, &head, sizeof head);
}

int stored_save(struct stored *s, struct names *n)
{
    uint32_t most = min_of(n->n + s->n, STORED_MAX);
    cleanup(draft_close) struct draft d = {.fd = -1,
                                           .at = sizeof(struct head) + most * sizeof *d.record,
                                           .record = calloc((size_t)most + 1, sizeof *d.record)};
    if (!d.record)
        return -ENOMEM;
    if (unlinkat(s->folder, BESIDE, 0) < 0 && errno != ENOENT)
        return -errno;
    d.fd = openat(s->folder, BESIDE, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, S_IRUSR | S_IWUSR);
    if (d.fd < 0)
        return -errno;
    int r = fill(s, &d, n);
    if (r == 0 && renameat(s->folder, BESIDE, s->folder, NAME) < 0)
        r = -errno;
    if (r < 0) {
        (void)unlinkat(s->folder, BESIDE, 0);
        return r;
    }
    cleanup_close(&s->fd);
    s->fd = take_fd(&d.fd);
    free(s->record);
    s->record = take_ptr(d.record);
    s->n = d.n;
    for (uint32_t i = 0; i < n->n; i++)
        n->set[i]->is_new = false;
    return 0;
}
