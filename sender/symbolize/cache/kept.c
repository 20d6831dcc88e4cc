/* SPDX-License-Identifier: Apache-2.0 */
#include "sender/symbolize/cache/kept.h"

#include <stdlib.h>
#include <sys/stat.h>

#include "sender/foreign/open.h"

struct kept_file {
    dev_t device;
    ino_t inode;
    off_t size;
    struct timespec changed;
    uint64_t used;
    struct keep keep;
};

static bool is_same(const struct kept_file *f, const struct stat *st)
{
    return f->device == st->st_dev && f->inode == st->st_ino && foreign_is_unchanged(st, f->size, f->changed);
}

static void drop(struct kept *k, uint32_t i)
{
    struct keep *keep = &k->file[i]->keep;
    dwarf_keep_release(&keep->dwarf);
    symtab_index_release(&keep->symbols);
    symtab_index_release(&keep->dynamic);
    free(k->file[i]);
    k->file[i] = k->file[--k->n];
}

static void drop_oldest(struct kept *k)
{
    uint32_t oldest = 0;
    for (uint32_t i = 1; i < k->n; i++)
        if (k->file[i]->used < k->file[oldest]->used)
            oldest = i;
    drop(k, oldest);
}

void kept_forget(struct kept *k, int fd)
{
    struct stat st;
    if (fd < 0 || foreign_stat(fd, &st) < 0)
        return;
    for (uint32_t i = k->n; i-- > 0;)
        if (is_same(k->file[i], &st))
            drop(k, i);
}

struct keep *kept_of(struct kept *k, int fd)
{
    struct stat st;
    if (foreign_stat(fd, &st) < 0)
        return NULL;
    k->turn++;
    for (uint32_t i = 0; i < k->n; i++)
        if (is_same(k->file[i], &st)) {
            k->file[i]->used = k->turn;
            return &k->file[i]->keep;
        }
    if (k->n == KEPT_FILES_MAX)
        drop_oldest(k);
    struct kept_file *f = calloc(1, sizeof *f);
    if (!f)
        return NULL;
    f->device = st.st_dev;
    f->inode = st.st_ino;
    f->size = st.st_size;
    f->changed = st.st_ctim;
    f->used = k->turn;
    k->file[k->n++] = f;
    return &f->keep;
}

size_t kept_memory(const struct kept *k)
{
    size_t bytes = 0;
    for (uint32_t i = 0; i < k->n; i++) {
        const struct keep *keep = &k->file[i]->keep;
        bytes += sizeof *k->file[i] + dwarf_keep_memory(&keep->dwarf) + symtab_index_memory(&keep->symbols) +
                 symtab_index_memory(&keep->dynamic);
    }
    return bytes;
}

void kept_sweep(struct kept *k, size_t max)
{
    while (k->n && kept_memory(k) > (k->n == 1 ? 2 * max : max))
        drop_oldest(k);
}

void kept_release(struct kept *k)
{
    while (k->n)
        drop_oldest(k);
}
