/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens files of others: regular ones alone, without waiting for who is behind a pipe or a device, and
 * without touching it.
 *
 * Behind FUSE, a network or a stack of layers there may be a server that never answers, and who asks it for
 * anything, be it to open, to read, to say what there is or, in close(2), to be told of it, waits for ever.
 * So it is only asked by errands (errand.h), and a file there is opened as a place and no more (O_PATH): each
 * time that a source reads of it an errand does all that there is to do. Files on block devices and in memory
 * are opened to be read.
 */
#ifndef SENDER_FOREIGN_OPEN_H
#define SENDER_FOREIGN_OPEN_H

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "proto/base/clock.h"

/* Whether that is why a file could not be opened: its file system does not answer, or its user has kept an
 * errand. Then it is not to be looked for by another name, either. */
static inline bool foreign_is_silent(int r)
{
    return -r == ETIMEDOUT;
}

/* A file by its path below `root` ("/", "/proc/PID/root"): no link and no ".." leads out of it. `flags`:
 * O_NOFOLLOW, or 0; `user`: whose process led to it. A descriptor to read by a source, -ENOENT for what is no
 * regular file, or -errno. Any thread. */
int foreign_open(const char *root, const char *path, int flags, uint32_t user);

/* A file by a link of /proc that the kernel itself keeps (exe, map_files/…) of a user's process. The same. */
int foreign_open_link(const char *path, uint32_t user);

/* fstat(2) by what is known already: no server is asked. Device, inode, type, owner, links, size and times; 0
 * or -errno. */
int foreign_stat(int fd, struct stat *ret);

/* A file as the kernel says which one a mapping is of. */
struct foreign_file {
    uint64_t inode;
    uint32_t major, minor;
};

/* What overlayfs leaves of a layer's inode number, at least (xino). */
#define FOREIGN_INODE_BITS ((UINT64_C(1) << 40) - 1)

/* Whether an open file is that one. On btrfs and overlayfs mappings and stat(2) name different devices, and
 * overlayfs may put the number of a layer into the inode's upper bits: there the inode decides. */
bool foreign_is(int fd, const struct foreign_file *file, uint32_t user);

/* The same file later: by its change time, which nobody can set, and not by what it is called. */
static inline bool foreign_is_unchanged(const struct stat *st, int64_t size, struct timespec changed)
{
    return st->st_size == size && clock_is_same(st->st_ctim, changed);
}

/* What is in a file, by when it was written: links, owners and modes, which change what is said above, do not
 * change this. Its owner can set the time back, and gets his own file's old names by it. */
struct foreign_content {
    uint64_t size;
    uint64_t written; /* nanoseconds since 1970; seconds that do not fit are cut off */
};

static inline struct foreign_content foreign_content(const struct stat *st)
{
    return (struct foreign_content){(uint64_t)st->st_size, (uint64_t)st->st_mtim.tv_sec * 1000000000 +
                                                               (uint64_t)st->st_mtim.tv_nsec};
}

static inline bool foreign_content_is(struct foreign_content a, struct foreign_content b)
{
    return a.size == b.size && a.written == b.written;
}

/* Whether what an open file says of another one, whose owner is `owner`, is to be believed: it is root's or
 * that owner's. */
bool foreign_may_speak(int fd, uint32_t owner);

#endif
