/* SPDX-License-Identifier: Apache-2.0 */
#include "sender/attach/shards.h"

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>
#include <bpf/bpf.h>

#define SHARD_BYTES (UNWIND_SHARD_ROWS * sizeof(struct unwind_row))

static int make(struct shards *s, uint32_t shard)
{
    LIBBPF_OPTS(bpf_map_create_opts, options, .map_flags = BPF_F_MMAPABLE);
    int fd = bpf_map_create(BPF_MAP_TYPE_ARRAY, "unwind_shard", 4, SHARD_BYTES, 1, &options);
    if (fd < 0)
        return fd;
    int r = bpf_map_update_elem(s->outer_fd, &shard, &fd, BPF_ANY);
    if (r < 0) {
        close(fd);
        return r;
    }
    s->fd[shard] = fd;
    return 0;
}

/* Mapped only while it is written, so that it does not count as our own memory too. */
static int open_shard(void *user, uint32_t shard, struct unwind_row **ret)
{
    struct shards *s = user;
    bool is_near = shard < UNWIND_NEAR_SHARDS;
    int r = is_near || s->fd[shard] ? 0 : make(s, shard);
    if (r < 0)
        return r;
    int fd = is_near ? s->near_fd : s->fd[shard];
    off_t at = is_near ? (off_t)(shard * SHARD_BYTES) : 0;
    void *rows = mmap(NULL, SHARD_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, at);
    if (rows == MAP_FAILED)
        return -errno;
    *ret = rows;
    return 0;
}

static void close_shard(void *user, uint32_t shard, struct unwind_row *rows)
{
    munmap(rows, SHARD_BYTES);
}

static void drop_shard(void *user, uint32_t shard)
{
    struct shards *s = user;
    if (s->fd[shard] == 0)
        return;
    bpf_map_delete_elem(s->outer_fd, &shard);
    close(s->fd[shard]);
    s->fd[shard] = 0;
}

static int set_file(void *user, const struct unwind_key *key, const struct unwind_file *file)
{
    const struct shards *s = user;
    return bpf_map_update_elem(s->files_fd, key, file, BPF_ANY);
}

static void drop_file(void *user, const struct unwind_key *key)
{
    const struct shards *s = user;
    bpf_map_delete_elem(s->files_fd, key);
}

static void changed(void *user, bool is_gone)
{
    struct shards *s = user;
    __atomic_fetch_add(is_gone ? s->generation : s->additions, 1, __ATOMIC_RELEASE);
}

void shards_backend(struct shards *s, struct tables_backend *ret)
{
    ret->shard_open = open_shard;
    ret->shard_close = close_shard;
    ret->shard_drop = drop_shard;
    ret->file_set = set_file;
    ret->file_drop = drop_file;
    ret->changed = changed;
    ret->user = s;
}

void shards_close(struct shards *s)
{
    for (uint32_t i = 0; i < UNWIND_SHARDS; i++) {
        if (s->fd[i])
            close(s->fd[i]);
        s->fd[i] = 0;
    }
}
