/* SPDX-License-Identifier: Apache-2.0 */
#include "sender/run/known.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "proto/base/macros.h"
#include "proto/base/thread.h"
#include "sender/run/opener.h"

struct known_file {
    uint32_t serial; /* 0: none */
    struct unwind_key key;
    struct foreign_content content;
    char *path; /* never NULL where there is a file */
};

struct open_file {
    uint32_t serial;
    int fd; /* -1: none */
};

struct known {
    pthread_mutex_t lock;
    struct known_file file[UNWIND_FILES]; /* by the low bits of the serial */
    uint16_t marked[UNWIND_FILES];        /* of those, which is it, by the low bits of the mark */
    struct open_file open[KNOWN_OPEN_MAX];
    uint32_t turn;
};

struct known *known_new(void)
{
    struct known *k = calloc(1, sizeof *k);
    if (!k)
        return NULL;
    pthread_mutex_init(&k->lock, NULL);
    for (uint32_t i = 0; i < KNOWN_OPEN_MAX; i++)
        k->open[i].fd = -1;
    return k;
}

static void put_open(struct open_file *place, uint32_t serial, int fd)
{
    if (place->fd >= 0)
        close(place->fd);
    *place = (struct open_file){serial, fd};
}

void known_rest(struct known *k)
{
    autolock(&k->lock);
    for (uint32_t i = 0; i < KNOWN_OPEN_MAX; i++)
        put_open(&k->open[i], 0, -1);
}

struct known *known_free(struct known *k)
{
    if (!k)
        return NULL;
    known_rest(k);
    for (uint32_t i = 0; i < UNWIND_FILES; i++)
        free(k->file[i].path);
    pthread_mutex_destroy(&k->lock);
    free(k);
    return NULL;
}

/* What can be opened again: a file that had a name when it was open. */
static void describe(struct known_file *f, int fd)
{
    char path[PATH_MAX];
    struct stat st;
    if (fd >= 0 && foreign_stat(fd, &st) == 0)
        f->content = foreign_content(&st);
    bool has_name = fd >= 0 && opener_name(fd, path).n > 0;
    f->path = strdup(has_name ? path : "");
}

void known_add(struct known *k, uint32_t serial, const struct unwind_key *key, int fd)
{
    struct known_file fresh = {.serial = serial, .key = *key, .content = {key->size, key->mtime}};
    int copy = fd >= 0 ? fcntl(fd, F_DUPFD_CLOEXEC, 0) : -1;
    describe(&fresh, fd);
    autolock(&k->lock);
    struct known_file *place = &k->file[serial % UNWIND_FILES];
    free(place->path);
    *place = fresh.path ? fresh : (struct known_file){0};
    k->marked[unwind_mark(key) % UNWIND_FILES] = (uint16_t)(serial % UNWIND_FILES);
    if (copy >= 0)
        put_open(&k->open[k->turn++ % KNOWN_OPEN_MAX], serial, copy);
}

static int open_copy(const struct known *k, uint32_t serial)
{
    for (uint32_t i = 0; i < KNOWN_OPEN_MAX; i++)
        if (k->open[i].fd >= 0 && k->open[i].serial == serial)
            return fcntl(k->open[i].fd, F_DUPFD_CLOEXEC, 0);
    return -1;
}

/* The file that has a serial or a mark; NULL: it is not known (any more). */
static const struct known_file *find(const struct known *k, uint32_t number)
{
    bool is_mark = number & UNWIND_MARK;
    const struct known_file *file =
        &k->file[is_mark ? k->marked[number % UNWIND_FILES] : number % UNWIND_FILES];
    return file->serial && (is_mark ? unwind_mark(&file->key) : file->serial) == number ? file : NULL;
}

bool known_open(struct known *k, uint32_t number, uint32_t user, bool opens, struct collector_code *ret)
{
    struct unwind_key key = {0};
    struct foreign_content content = {0};
    pthread_mutex_lock(&k->lock);
    const struct known_file *file = find(k, number);
    bool is_there = file != NULL;
    if (is_there) {
        key = file->key;
        content = file->content;
        snprintf(ret->path, sizeof ret->path, "%s", file->path);
        ret->fd = opens ? open_copy(k, file->serial) : -1;
    }
    pthread_mutex_unlock(&k->lock);
    if (!is_there)
        return false;
    ret->is_vdso = key.inode == 0;
    ret->key = (struct binary_key){
        .inode = key.inode, .major = key.device >> 20, .minor = key.device & 0xfffff, .content = content};
    if (ret->fd >= 0 && !binary_is_as_written(&ret->key, ret->fd))
        cleanup_close(&ret->fd);
    if (opens && ret->fd < 0 && *ret->path == '/')
        ret->fd = opener_named(ret->path, &key, user);
    return true;
}
