/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/look/shelf.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "gateway/look/epoch_file.h"
#include "proto/base/clock.h"
#include "proto/base/log.h"
#include "proto/base/macros.h"

#define NAME      "epoch-%" PRIu64 ".sqlite"
#define PATH_ROOM 4096u

/* Of those that cannot be read: behind the name, milliseconds; and how many stay. */
#define ASIDE     ".damaged-%" PRIu64
#define ASIDE_MAX 4u

/* Between two tries to write where that failed. */
#define RETRY_NS (5 * (uint64_t)NSEC_PER_SEC)

struct look_shelf {
    char *folder;
    int lock;
    uint64_t bytes_max;
    VEC(struct look_shelved) files; /* by id */
    struct look_file *growing;      /* the last one, or NULL */
    uint64_t growing_id, try_ns;
};

static void path_of(const struct look_shelf *s, uint64_t id, char ret[PATH_ROOM])
{
    snprintf(ret, PATH_ROOM, "%s/" NAME, s->folder, id);
}

/* With its log; 0 where there is none. */
static uint64_t bytes_of_file(const struct look_shelf *s, uint64_t id)
{
    char path[PATH_ROOM], log[PATH_ROOM + 8];
    struct stat st;
    path_of(s, id, path);
    snprintf(log, sizeof log, "%s-wal", path);
    uint64_t bytes = stat(path, &st) == 0 ? (uint64_t)st.st_size : 0;
    return bytes + (stat(log, &st) == 0 ? (uint64_t)st.st_size : 0);
}

/* So many of those that were set aside stay, the last ones. */
static void bound_aside(const struct look_shelf *s)
{
    for (uint32_t n = ASIDE_MAX + 1; n > ASIDE_MAX;) {
        char path[PATH_ROOM];
        uint64_t first = UINT64_MAX, id, at;
        DIR *folder = opendir(s->folder);
        n = 0;
        for (struct dirent *entry; folder && (entry = readdir(folder));) {
            if (sscanf(entry->d_name, NAME ASIDE, &id, &at) != 2)
                continue;
            if (at < first)
                snprintf(path, sizeof path, "%s/%s", s->folder, entry->d_name);
            first = min_of(first, at);
            n++;
        }
        if (folder)
            closedir(folder);
        if (n > ASIDE_MAX && unlink(path) < 0)
            return;
    }
}

/* Another name for people to look at, and for nobody to open. */
static void set_aside(const struct look_shelf *s, uint64_t id, int why)
{
    const char *what = why == LOOK_FILE_FOREIGN ? "of another version" : "damaged";
    char path[PATH_ROOM], name[PATH_ROOM + 64], log[PATH_ROOM + 8];
    path_of(s, id, path);
    snprintf(name, sizeof name, "%s" ASIDE, path, clock_realtime() / NSEC_PER_MSEC);
    snprintf(log, sizeof log, "%s-wal", path);
    if (rename(path, name) < 0)
        log_error("look: a file is %s and cannot be set aside file=%s error=\"%s\"", what, path,
                  strerror(errno));
    else
        log_error("look: a file is %s and set aside file=%s as=%s", what, path, name);
    unlink(log);
    snprintf(log, sizeof log, "%s-shm", path);
    unlink(log);
    bound_aside(s);
}

/* ---- opening ------------------------------------------------------------------------------- */

static int by_id(const void *a, const void *b)
{
    const struct look_shelved *x = a, *y = b;
    return order_of(x->id, y->id);
}

/* One without a slice is of no use. */
static int take_file(struct look_shelf *s, uint64_t id)
{
    char path[PATH_ROOM];
    struct look_file *file = NULL;
    struct look_shelved shelved = {.id = id};
    path_of(s, id, path);
    int r = look_file_open(&file, path);
    if (r == 0)
        r = look_file_span(file, &shelved.oldest, &shelved.newest);
    look_file_close(file);
    if (r > 0) {
        set_aside(s, id, r);
        return 0;
    }
    if (r < 0) {
        log_error("look: a file cannot be read file=%s error=\"%s\"", path, strerror(-r));
        return 0;
    }
    shelved.bytes = bytes_of_file(s, id);
    if (shelved.oldest > shelved.newest)
        return unlink(path) < 0 && errno != ENOENT ? -errno : 0;
    return vec_append(&s->files, shelved);
}

static int take_files(struct look_shelf *s)
{
    DIR *folder = opendir(s->folder);
    if (!folder)
        return -errno;
    int r = 0;
    for (struct dirent *entry; r == 0 && (entry = readdir(folder));) {
        uint64_t id;
        char name[64];
        if (sscanf(entry->d_name, NAME, &id) != 1)
            continue;
        snprintf(name, sizeof name, NAME, id);
        if (strcmp(name, entry->d_name) == 0)
            r = take_file(s, id);
    }
    closedir(folder);
    if (s->files.n > 1)
        qsort(s->files.p, s->files.n, sizeof *s->files.p, by_id);
    return r;
}

static int take_lock(struct look_shelf *s, struct error *e)
{
    char path[PATH_ROOM];
    snprintf(path, sizeof path, "%s/lock", s->folder);
    s->lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (s->lock < 0)
        return error_set(e, -errno, "look.storage: %s: %s", path, strerror(errno));
    if (flock(s->lock, LOCK_EX | LOCK_NB) < 0)
        return error_set(e, -EBUSY, "look.storage: %s is in use by another process", s->folder);
    return 0;
}

int look_shelf_open(struct look_shelf **ret, const char *folder, uint64_t bytes_max, struct error *e)
{
    struct look_shelf *s = calloc(1, sizeof *s);
    if (!s || !(s->folder = strdup(folder))) {
        free(s);
        return error_set(e, -ENOMEM, "out of memory");
    }
    s->lock = -1;
    s->bytes_max = bytes_max;
    int r = 0;
    if (mkdir(folder, 0700) < 0 && errno != EEXIST)
        r = error_set(e, -errno, "look.storage: %s: %s", folder, strerror(errno));
    if (r == 0)
        r = take_lock(s, e);
    if (r == 0 && (r = take_files(s)) < 0)
        error_set(e, r, "look.storage: %s: %s", folder, strerror(-r));
    if (r < 0) {
        look_shelf_close(s);
        return r;
    }
    *ret = s;
    return 0;
}

struct look_shelf *look_shelf_close(struct look_shelf *s)
{
    if (!s)
        return NULL;
    look_file_close(s->growing);
    vec_release(&s->files);
    if (s->lock >= 0)
        close(s->lock);
    free(s->folder);
    free(s);
    return NULL;
}

/* ---- writing ------------------------------------------------------------------------------- */

/* A file for an epoch, by the millisecond that it began in or the next one without a file. */
static int begin_file(struct look_shelf *s, struct look_epoch *e)
{
    char path[PATH_ROOM];
    const uint64_t last = s->files.n > 0 ? vec_last(&s->files)->id : 0;
    const uint64_t id = max_of(e->began_ns / NSEC_PER_MSEC, last + 1);
    if (vec_reserve(&s->files, (uint64_t)s->files.n + 1) < 0)
        return -ENOMEM;
    path_of(s, id, path);
    look_file_close(take_ptr(s->growing));
    int r = look_file_open(&s->growing, path);
    if (r == 0) {
        e->id = s->growing_id = id;
        s->files.p[s->files.n++] = (struct look_shelved){.id = id, .oldest = UINT32_MAX};
    }
    return r;
}

static void note(struct look_shelf *s, const struct look_epoch *e)
{
    struct look_shelved *f = vec_last(&s->files);
    f->oldest = e->oldest;
    f->newest = e->newest;
    f->bytes = bytes_of_file(s, f->id);
}

void look_shelf_write(struct look_shelf *s, struct look_epoch *e)
{
    const uint64_t now = clock_monotonic();
    if (now < s->try_ns || (e->slices.n == 0 && e->id == 0) || (e->id != 0 && e->id != s->growing_id))
        return;
    int r = e->id == 0 ? begin_file(s, e) : 0;
    if (r == 0)
        r = look_file_write(s->growing, e);
    if (r == 0) {
        note(s, e);
        return;
    }
    s->try_ns = now + RETRY_NS;
    if (r > 0 && s->growing) { /* it goes on in another one, from the beginning */
        look_file_close(take_ptr(s->growing));
        set_aside(s, s->growing_id, r);
        s->files.n--;
        e->id = s->growing_id = 0;
    } else {
        log_limited(LOG_LEVEL_ERROR, "look: stacks are kept in memory only, for now folder=%s error=\"%s\"",
                    s->folder, strerror(r < 0 ? -r : EIO));
    }
}

void look_shelf_finish(struct look_shelf *s, const struct look_epoch *e)
{
    if (e->id == 0 || e->id != s->growing_id)
        return;
    const int r = look_file_pack(s->growing, e);
    if (r != 0)
        log_limited(LOG_LEVEL_WARN, "look: a file stays larger than it need be folder=%s error=\"%s\"",
                    s->folder, strerror(r < 0 ? -r : EIO));
    look_file_close(take_ptr(s->growing));
    s->growing_id = 0;
    vec_last(&s->files)->bytes = bytes_of_file(s, e->id);
}

static void delete_file(struct look_shelf *s, uint32_t i)
{
    static const char *const endings[] = {"", "-wal", "-shm"};
    char path[PATH_ROOM], name[PATH_ROOM + 8];
    path_of(s, s->files.p[i].id, path);
    for (size_t k = 0; k < ARRAY_LEN(endings); k++) {
        snprintf(name, sizeof name, "%s%s", path, endings[k]);
        unlink(name);
    }
    memmove(&s->files.p[i], &s->files.p[i + 1], (s->files.n - i - 1) * sizeof *s->files.p);
    s->files.n--;
}

/* Those of a time when the clock was wrong may stand anywhere. */
void look_shelf_trim(struct look_shelf *s, uint32_t oldest)
{
    uint64_t bytes = 0;
    for (uint32_t i = s->files.n; i-- > 0;) {
        if (s->files.p[i].id != s->growing_id && s->files.p[i].newest < oldest)
            delete_file(s, i);
        else
            bytes += s->files.p[i].bytes;
    }
    while (s->files.n > 0 && s->files.p[0].id != s->growing_id && bytes > s->bytes_max) {
        bytes -= s->files.p[0].bytes;
        delete_file(s, 0);
    }
}

/* ---- reading ------------------------------------------------------------------------------- */

uint32_t look_shelf_n(const struct look_shelf *s)
{
    return s->files.n;
}

const struct look_shelved *look_shelf_at(const struct look_shelf *s, uint32_t i)
{
    return &s->files.p[i];
}

int look_shelf_read(struct look_shelf *s, uint32_t i, enum look_level level, uint32_t from, uint32_t to,
                    struct budget *budget, struct look_epoch **ret)
{
    char path[PATH_ROOM];
    const uint64_t id = s->files.p[i].id;
    struct look_file *file = NULL;
    uint32_t bad = 0;
    *ret = NULL;
    path_of(s, id, path);
    const bool is_growing = id == s->growing_id;
    int r = is_growing ? 0 : look_file_open(&file, path);
    if (r == 0)
        r = look_file_read(is_growing ? s->growing : file, level, from, to, budget, ret, &bad);
    look_file_close(file);
    if (bad > 0)
        log_limited(LOG_LEVEL_ERROR, "look: parts of a file are damaged and left out file=%s parts=%u", path,
                    bad);
    if (r > 0 && !is_growing) {
        set_aside(s, id, r);
        memmove(&s->files.p[i], &s->files.p[i + 1], (s->files.n - i - 1) * sizeof *s->files.p);
        s->files.n--;
        return 0;
    }
    return r > 0 ? 0 : r;
}
