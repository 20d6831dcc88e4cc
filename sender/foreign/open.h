/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens files of others: regular ones alone, without waiting for who is behind a pipe or a device, and
 * without touching it.
 */
#ifndef SENDER_FOREIGN_OPEN_H
#define SENDER_FOREIGN_OPEN_H

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

/* Whether that is why a file could not be opened: its file system does not answer (answering.h). Then it is
 * not to be looked for by another name, either. */
static inline bool foreign_is_silent(int r)
{
    return -r == ETIMEDOUT;
}

/* A file by its path below `root` ("/", "/proc/PID/root"): no link and no ".." leads out of it. `flags`:
 * O_NOFOLLOW, or 0. A descriptor (O_RDONLY), -ENOENT for what is no regular file, or -errno. */
int foreign_open(const char *root, const char *path, int flags);

/* A file by a link of /proc that the kernel itself keeps (exe, map_files/…) of a user's process. The same. */
int foreign_open_link(const char *path, uint32_t user);

/* A file as the kernel says which one a mapping is of. */
struct foreign_file {
    uint64_t inode;
    uint32_t major, minor;
};

/* What overlayfs leaves of a layer's inode number, at least (xino). */
#define FOREIGN_INODE_BITS ((UINT64_C(1) << 40) - 1)

/* Whether an open file is that one. On btrfs and overlayfs mappings and stat(2) name different devices, and
 * overlayfs may put the number of a layer into the inode's upper bits: there the inode decides. */
bool foreign_is(int fd, const struct foreign_file *file);

/* The same file later: by its change time, which nobody can set, and not by what it is called. */
static inline bool foreign_is_unchanged(const struct stat *st, int64_t size, struct timespec changed)
{
    return st->st_size == size && st->st_ctim.tv_sec == changed.tv_sec &&
           st->st_ctim.tv_nsec == changed.tv_nsec;
}

/* Whether what an open file says of another one, whose owner is `owner`, is to be believed: it is root's or
 * that owner's. */
bool foreign_may_speak(int fd, uint32_t owner);

#endif
