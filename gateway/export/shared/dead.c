/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/export/shared/dead.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "proto/base/clock.h"
#include "proto/base/log.h"
#include "proto/base/macros.h"
#include "proto/coding/coding.h"

struct dead_letters {
    int folder;
    const char *ending; /* "profiles" or "metrics" */
    enum journal_kind kind;
    uint64_t bytes, bytes_max; /* the journal's thread */
    atomic_uint_fast64_t kept; /* since it was asked last */
    struct coding_decoder *decoder;
    char name[256];
    struct log_limit told;
};

struct letter {
    struct dead_letters *to;
    struct journal *journal;
    uint64_t number;
    struct journal_read read;
};

static uint64_t bytes_in(int folder)
{
    uint64_t sum = 0;
    int copy = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *all = copy < 0 ? NULL : fdopendir(copy);
    if (!all && copy >= 0)
        close(copy);
    struct stat st;
    for (const struct dirent *d; all && (d = readdir(all));)
        if (fstatat(folder, d->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode))
            sum += (uint64_t)st.st_size;
    if (all)
        closedir(all);
    return sum;
}

int dead_letters_open(struct dead_letters **ret, const char *folder, const char *name, uint64_t bytes_max,
                      struct error *e)
{
    char path[4096];
    struct dead_letters *d = calloc(1, sizeof *d);
    if (!d || !(d->decoder = coding_decoder_new())) {
        free(d);
        return error_set(e, -ENOMEM, "out of memory");
    }
    snprintf(path, sizeof path, "%s/%s.dead", folder, name);
    if (mkdir(path, 0700) < 0 && errno != EEXIST)
        d->folder = -1;
    else
        d->folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (d->folder < 0) {
        int r = error_set(e, -errno, "%s: %s", path, strerror(errno));
        dead_letters_free(d);
        return r;
    }
    d->kind = strstr(name, ".metrics") ? JOURNAL_METRICS : JOURNAL_PROFILES;
    d->ending = d->kind == JOURNAL_METRICS ? "metrics" : "profiles";
    d->bytes_max = bytes_max;
    snprintf(d->name, sizeof d->name, "%s", name);
    d->bytes = bytes_in(d->folder);
    *ret = d;
    return 0;
}

struct dead_letters *dead_letters_free(struct dead_letters *d)
{
    if (!d)
        return NULL;
    coding_decoder_free(d->decoder);
    if (d->folder >= 0)
        close(d->folder);
    free(d);
    return NULL;
}

static int write_all(int fd, struct bytes b)
{
    while (b.n > 0) {
        ssize_t n = write(fd, b.p, b.n);
        if (n < 0 && errno != EINTR)
            return -errno;
        b = n > 0 ? bytes_of(b.p + n, b.n - (size_t)n) : b;
    }
    return fsync(fd) < 0 ? -errno : 0;
}

static int write_file(struct dead_letters *d, uint64_t number, struct bytes body)
{
    char name[96];
    snprintf(name, sizeof name, "%" PRIu64 "-%" PRIu64 ".%s.pb", clock_realtime(), number, d->ending);
    autoclose int fd =
        openat(d->folder, "writing", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    int r = fd < 0 ? -errno : write_all(fd, body);
    if (r == 0 && renameat(d->folder, "writing", d->folder, name) < 0)
        r = -errno;
    if (r == 0 && fsync(d->folder) < 0)
        r = -errno;
    if (r == 0)
        d->bytes += body.n;
    return r;
}

/* Plain, whatever coding it waited in (stored.c: info_of). */
static int write_letter(struct dead_letters *d, const struct journal_read *r)
{
    const enum coding coding = r->info & 0xff;
    const uint64_t n_plain = r->info >> 16;
    if (d->bytes + n_plain > d->bytes_max)
        return -EDQUOT;
    if (coding == CODING_IDENTITY)
        return write_file(d, r->number, buffer_bytes(&r->body));
    struct buffer plain = BUFFER_INIT(0);
    int done = coding_decode(d->decoder, coding, buffer_bytes(&r->body), n_plain, 0, NULL, &plain);
    done = done > 0 ? -EINVAL : done;
    if (done == 0)
        done = write_file(d, r->number, buffer_bytes(&plain));
    buffer_release(&plain);
    return done;
}

/* The journal's thread. */
static void on_read(struct journal_read *r)
{
    struct letter *l = container_of(r, struct letter, read);
    int done = r->number == l->number ? write_letter(l->to, r) : -ENOENT;
    if (done == 0)
        l->to->kept++;
    else
        log_write_limited(&l->to->told, LOG_LEVEL_ERROR,
                          "a dead letter could not be kept destination=%s items=%" PRIu64 " error=\"%s\"",
                          l->to->name, r->items, strerror(-done));
    journal_remove(l->journal, l->number);
    buffer_release(&r->body);
    free(l);
}

uint64_t dead_letters_kept(struct dead_letters *d)
{
    return d ? atomic_exchange(&d->kept, 0) : 0;
}

int dead_letters_keep(struct dead_letters *d, struct journal *j, uint64_t number)
{
    struct letter *l = calloc(1, sizeof *l);
    if (!l)
        return -ENOMEM;
    *l = (struct letter){.to = d, .journal = j, .number = number};
    l->read =
        (struct journal_read){.kind = d->kind, .after = number - 1, .done = on_read, .body = BUFFER_INIT(0)};
    journal_read(j, &l->read);
    return 0;
}
