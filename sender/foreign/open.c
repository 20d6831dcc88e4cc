/* SPDX-License-Identifier: Apache-2.0 */
/*
 * To open a pipe or a device is to do something to it, and may wait; so a path is opened as a place first
 * (O_PATH), and read only when that is seen to be a regular file.
 */
#include "sender/foreign/open.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "proto/base/macros.h"
#include "sender/foreign/errand.h"

#ifndef OVERLAYFS_SUPER_MAGIC
#define OVERLAYFS_SUPER_MAGIC 0x794c7630
#endif
#define BCACHEFS_MAGIC 0xca451a4e
#define ZFS_MAGIC      0x2fc12fc1

/* By another thread (errand.h). */
struct opening {
    struct errand errand;
    int flags, result;
    size_t path; /* where it begins in the text; 0: the text is a link */
    char text[]; /* root, path */
};

static void forget_opening(struct errand *e)
{
    struct opening *o = (struct opening *)e;
    if (o->result >= 0)
        close(o->result);
    free(o);
}

/* Whether a file system without a block device of its own answers all the same: it asks nobody. An overlay
 * may lie over anything. */
static bool is_prompt(int place)
{
    struct statfs fs;
    if (fstatfs(place, &fs) < 0)
        return false;
    switch ((uint32_t)fs.f_type) {
    case TMPFS_MAGIC:
    case RAMFS_MAGIC:
    case HUGETLBFS_MAGIC:
    case BTRFS_SUPER_MAGIC:
    case BCACHEFS_MAGIC:
    case ZFS_MAGIC: return true;
    default: return false;
    }
}

/* Opens what is at a place to be read, or leaves it a place, if that is a regular file. */
static int open_place(int place)
{
    char path[32];
    struct statx st;
    if (place < 0)
        return -errno;
    if (statx(place, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_TYPE, &st) < 0 || !S_ISREG(st.stx_mode))
        return -ENOENT;
    if (st.stx_dev_major == 0 && !is_prompt(place)) {
        int kept = fcntl(place, F_DUPFD_CLOEXEC, 0);
        return kept < 0 ? -errno : kept;
    }
    snprintf(path, sizeof path, "/proc/self/fd/%d", place);
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    return fd < 0 ? -errno : fd;
}

static int open_below(const char *root, const char *path, int flags)
{
    struct open_how how = {.flags = (uint64_t)(O_PATH | O_CLOEXEC | flags),
                           .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS};
    autoclose int folder = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0)
        return -errno;
    autoclose int place = (int)syscall(SYS_openat2, folder, path, &how, sizeof how);
    return open_place(place);
}

static void open_it(struct errand *e)
{
    struct opening *o = (struct opening *)e;
    if (o->path) {
        o->result = open_below(o->text, o->text + o->path, o->flags);
        return;
    }
    autoclose int place = open(o->text, O_PATH | O_CLOEXEC);
    o->result = open_place(place);
}

static int send_opening(const char *root, const char *path, int flags, uint32_t user)
{
    size_t n = strlen(root) + 1, path_n = path ? strlen(path) + 1 : 0;
    struct opening *o = malloc(sizeof *o + n + path_n);
    if (!o)
        return -ENOMEM;
    *o = (struct opening){.errand = {.go = open_it, .forget = forget_opening, .where = errand_where(root)},
                          .flags = flags,
                          .result = -1};
    memcpy(o->text, root, n);
    if (path) {
        o->path = n;
        memcpy(o->text + n, path, path_n);
    }
    int r = errand_run(&o->errand, user);
    if (r < 0)
        return r;
    r = o->result;
    free(o);
    return r;
}

int foreign_open(const char *root, const char *path, int flags, uint32_t user)
{
    return send_opening(root, path, flags, user);
}

int foreign_open_link(const char *path, uint32_t user)
{
    return send_opening(path, NULL, 0, user);
}

int foreign_stat(int fd, struct stat *ret)
{
    struct statx x;
    if (statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_BASIC_STATS, &x) < 0)
        return -errno;
    *ret = (struct stat){.st_dev = makedev(x.stx_dev_major, x.stx_dev_minor),
                         .st_ino = x.stx_ino,
                         .st_mode = x.stx_mode,
                         .st_nlink = x.stx_nlink,
                         .st_uid = x.stx_uid,
                         .st_size = (off_t)x.stx_size,
                         .st_mtim = {x.stx_mtime.tv_sec, x.stx_mtime.tv_nsec},
                         .st_ctim = {x.stx_ctime.tv_sec, x.stx_ctime.tv_nsec}};
    return 0;
}

struct question {
    struct errand errand;
    int fd;
    uint32_t type;
};

static void forget_question(struct errand *e)
{
    close(((struct question *)e)->fd);
    free(e);
}

static void ask_type(struct errand *e)
{
    struct question *q = (struct question *)e;
    struct statfs fs;
    q->type = fstatfs(q->fd, &fs) == 0 ? (uint32_t)fs.f_type : 0;
}

/* The type of an open file's system (statfs(2)); 0: it does not say. */
static uint32_t type_of(int fd, uint32_t user)
{
    struct question *q = malloc(sizeof *q);
    if (!q)
        return 0;
    *q = (struct question){
        .errand = {.go = ask_type, .forget = forget_question, .where = errand_where_open(fd)},
        .fd = fcntl(fd, F_DUPFD_CLOEXEC, 0)};
    if (errand_run(&q->errand, user) < 0)
        return 0;
    uint32_t type = q->type;
    forget_question(&q->errand);
    return type;
}

bool foreign_is(int fd, const struct foreign_file *file, uint32_t user)
{
    struct stat st;
    if (foreign_stat(fd, &st) < 0)
        return false;
    if (st.st_ino == file->inode && major(st.st_dev) == file->major && minor(st.st_dev) == file->minor)
        return true;
    if (((st.st_ino ^ file->inode) & FOREIGN_INODE_BITS) != 0)
        return false;
    uint32_t type = type_of(fd, user);
    return type == OVERLAYFS_SUPER_MAGIC || (type == BTRFS_SUPER_MAGIC && st.st_ino == file->inode);
}

bool foreign_may_speak(int fd, uint32_t owner)
{
    struct stat st;
    return foreign_stat(fd, &st) == 0 && (st.st_uid == 0 || st.st_uid == owner);
}
