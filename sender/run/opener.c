/* SPDX-License-Identifier: Apache-2.0 */
#include "sender/run/opener.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proto/base/hash.h"
#include "proto/base/macros.h"
#include "sender/foreign/open.h"
#include "sender/procs/procs.h"
#include "sender/unwind/key.h"

/* Files whose names are kept. */
#define PATHS 1024u

struct path {
    struct unwind_key key;
    char *path; /* NULL: none */
};

struct opener {
    struct procs *procs;     /* only to open files with */
    struct path path[PATHS]; /* by the key's hash */
};

struct opener *opener_new(void)
{
    struct opener *o = calloc(1, sizeof *o);
    if (o)
        o->procs = procs_new("/proc");
    return o && !o->procs ? opener_free(o) : o;
}

struct opener *opener_free(struct opener *o)
{
    if (!o)
        return NULL;
    for (uint32_t i = 0; i < PATHS; i++)
        free(o->path[i].path);
    procs_free(o->procs);
    free(o);
    return NULL;
}

uint32_t opener_user(uint32_t pid)
{
    char path[32];
    struct stat st;
    snprintf(path, sizeof path, "/proc/%u", pid);
    return stat(path, &st) == 0 ? st.st_uid : UINT32_MAX;
}

/* Keeps a descriptor only if it is of the key's file: another one of its size and time, which anybody can
 * make, would speak for it. */
static int check(int fd, const struct unwind_key *key, uint32_t user)
{
    struct stat st;
    struct foreign_file file = {key->inode, key->device >> 20, key->device & 0xfffff};
    if (fd < 0)
        return fd;
    if (foreign_is(fd, &file, user) && foreign_stat(fd, &st) == 0 && key_is_of(key, &st))
        return fd;
    close(fd);
    return -ESTALE;
}

int opener_named(const char *path, const struct unwind_key *key, uint32_t user)
{
    return check(foreign_open("/", path, 0, user), key, user);
}

int opener_maps(uint32_t pid, uint32_t user, struct maps *ret)
{
    char path[64];
    struct maps_wish wish = {.bytes = MAPS_BYTES_MAX};
    snprintf(path, sizeof path, "/proc/%u/maps", pid);
    return maps_get(ret, path, &wish, user);
}

int opener_mapped(const struct opener *o, uint32_t pid, uint64_t start, uint64_t end)
{
    char path[64];
    uint32_t user = opener_user(pid);
    snprintf(path, sizeof path, "/proc/%u/map_files/%lx-%lx", pid, (unsigned long)start, (unsigned long)end);
    int fd = foreign_open_link(path, user);
    if (fd >= 0 || foreign_is_silent(fd))
        return fd;
    /* Without CAP_CHECKPOINT_RESTORE: by its name. */
    cleanup(maps_release) struct maps maps = {0};
    struct process process = {.pid = pid, .user = user};
    if (opener_maps(pid, user, &maps) == 0) {
        const struct region *region = maps_find(&maps, start);
        if (region)
            fd = procs_open_region(o->procs, &process, region);
    }
    return fd;
}

/* What the kernel side would say of a mapping; false if its file cannot be looked at. */
static bool describe(const struct opener *o, uint32_t pid, const struct region *region,
                     struct sample_file *ret)
{
    struct stat st;
    *ret = (struct sample_file){
        .pid = pid, .start = region->start, .end = region->end, .offset = region->offset};
    if (region->inode == 0) {
        ret->key.device = !bytes_is(region->path, "[vdso]"); /* no file's: not the vDSO's key */
        return true;
    }
    autoclose int fd = opener_mapped(o, pid, region->start, region->end);
    if (fd < 0 || foreign_stat(fd, &st) < 0)
        return false;
    ret->key = (struct unwind_key){.inode = region->inode,
                                   .size = (uint64_t)st.st_size,
                                   .mtime = key_time(&st),
                                   .device = region->major << 20 | region->minor};
    return true;
}

/* Whether it is the same mapping of the same file, which may have changed: who opens it looks. */
static bool is_described(const struct region *region, const struct sample_file *file)
{
    return file->start == region->start && file->end == region->end && file->offset == region->offset &&
           file->key.inode == region->inode &&
           (!region->inode || file->key.device == (region->major << 20 | region->minor));
}

/* File systems without a device of their own: of those, on overlayfs, the kernel side sees the layer's file,
 * whose number may lack what is put into the upper bits here (foreign_is). */
static bool is_layered(const struct region *region)
{
    return region->inode != 0 && region->major == 0;
}

bool opener_describe(const struct opener *o, uint32_t pid, const struct region *region,
                     struct sample_file *ret)
{
    return !is_layered(region) && describe(o, pid, region, ret);
}

bool opener_is_described(const struct region *region, const struct sample_file *file)
{
    return is_described(region, file) ||
           (is_layered(region) && file->key.inode && file->start == region->start &&
            file->end == region->end && file->offset == region->offset &&
            ((file->key.inode ^ region->inode) & FOREIGN_INODE_BITS) == 0);
}

bool opener_is_marked(const struct opener *o, const struct sample_file *mapping, uint32_t mark)
{
    struct stat st;
    struct unwind_key key = mapping->key;
    if (unwind_has_mark(&key, mark))
        return true;
    autoclose int fd = opener_mapped(o, mapping->pid, mapping->start, mapping->end);
    if (fd < 0 || foreign_stat(fd, &st) < 0 || !key_is_of(&key, &st))
        return false;
    key.mtime = UNWIND_KEY_TIME(st.st_mtim.tv_sec, st.st_mtim.tv_nsec, 1);
    return unwind_has_mark(&key, mark);
}

int opener_mappings(const struct opener *o, uint32_t pid, const struct sample_file *before, uint32_t n,
                    bool (*file)(void *user, const struct sample_file *file), void *user)
{
    cleanup(maps_release) struct maps maps = {0};
    struct sample_file one;
    int r = opener_maps(pid, opener_user(pid), &maps);
    for (uint32_t i = 0, at = 0; r == 0 && i < maps.regions.n; i++) { /* both ascend */
        const struct region *region = &maps.regions.p[i];
        while (at < n && before[at].start < region->start)
            at++;
        if (at < n && is_described(region, &before[at]))
            one = before[at];
        else if (!describe(o, pid, region, &one))
            continue;
        if (!file(user, &one))
            break;
    }
    return r;
}

static bool same_key(const struct unwind_key *a, const struct unwind_key *b)
{
    return memcmp(a, b, sizeof *a) == 0;
}

static struct path *path_of(struct opener *o, const struct unwind_key *key)
{
    return &o->path[hash_mix(key->inode, key->mtime) % PATHS];
}

struct bytes opener_name(int fd, char *path)
{
    char link[32];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, PATH_MAX - 1);
    path[max_of(n, (ssize_t)0)] = 0;
    return bytes_str(path);
}

static void keep_path(struct opener *o, const struct unwind_key *key, int fd)
{
    char path[PATH_MAX];
    struct path *p = path_of(o, key);
    if (p->path && same_key(&p->key, key))
        return;
    free(p->path);
    *p = (struct path){*key, opener_name(fd, path).n > 0 ? strdup(path) : NULL};
}

/* A file by the name it had: for another namespace's files it leads elsewhere, which is seen. */
static int open_by_path(struct opener *o, const struct unwind_key *key, uint32_t user)
{
    const struct path *p = path_of(o, key);
    return p->path && same_key(&p->key, key) ? opener_named(p->path, key, user) : -ENOENT;
}

int opener_open(void *of)
{
    const struct whereabouts *at = of;
    uint32_t user = opener_user(at->pid);
    int fd;
    if (at->end) {
        fd = check(opener_mapped(at->opener, at->pid, at->start, at->end), at->key, user);
    } else {
        char link[64];
        snprintf(link, sizeof link, "/proc/%u/exe", at->pid);
        fd = check(foreign_open_link(link, user), at->key, user);
        if (fd < 0 && !foreign_is_silent(fd) && at->path[0] == '/')
            fd = opener_named(at->path, at->key, user);
    }
    /* Of a process that has begun another program meanwhile it was another file. */
    if (foreign_is_silent(fd))
        return fd;
    if (fd < 0)
        return open_by_path(at->opener, at->key, user);
    keep_path(at->opener, at->key, fd);
    return fd;
}
