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
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "proto/base/macros.h"
#include "sender/foreign/answering.h"
#include "sender/foreign/errand.h"

#ifndef OVERLAYFS_SUPER_MAGIC
#define OVERLAYFS_SUPER_MAGIC 0x794c7630
#endif

/* Reads what is at a place, if that is a regular file. */
static int open_place(int place)
{
    char path[32];
    struct statx st;
    if (place < 0)
        return -errno;
    if (statx(place, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_TYPE, &st) < 0 || !S_ISREG(st.stx_mode))
        return -ENOENT;
    if (!foreign_answers(place))
        return -ETIMEDOUT;
    snprintf(path, sizeof path, "/proc/self/fd/%d", place);
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    return fd < 0 ? -errno : fd;
}

int foreign_open(const char *root, const char *path, int flags)
{
    struct open_how how = {.flags = (uint64_t)(O_PATH | O_CLOEXEC | flags),
                           .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS};
    autoclose int folder = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0)
        return -errno;
    if (!foreign_answers(folder))
        return -ETIMEDOUT;
    autoclose int place = (int)syscall(SYS_openat2, folder, path, &how, sizeof how);
    return open_place(place);
}

int foreign_open_link(const char *path, uint32_t user)
{
    autoclose int place = errand_open(path, O_PATH, user);
    return place < 0 ? place : open_place(place);
}

bool foreign_is(int fd, const struct foreign_file *file)
{
    struct stat st;
    struct statfs fs;
    if (fstat(fd, &st) < 0)
        return false;
    if (st.st_ino == file->inode && major(st.st_dev) == file->major && minor(st.st_dev) == file->minor)
        return true;
    if (((st.st_ino ^ file->inode) & FOREIGN_INODE_BITS) != 0 || fstatfs(fd, &fs) < 0)
        return false;
    return fs.f_type == OVERLAYFS_SUPER_MAGIC || (fs.f_type == BTRFS_SUPER_MAGIC && st.st_ino == file->inode);
}

bool foreign_may_speak(int fd, uint32_t owner)
{
    struct stat st;
    return fstat(fd, &st) == 0 && (st.st_uid == 0 || st.st_uid == owner);
}
