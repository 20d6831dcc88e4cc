/* SPDX-License-Identifier: Apache-2.0 */
#include "sender/collect/files.h"

#include <stdlib.h>
#include <sys/stat.h>

#include "bpf/sample.h"
#include "proto/base/hash.h"
#include "proto/base/hash_table.h"
#include "proto/base/macros.h"
#include "sender/foreign/open.h"

struct entry {
    struct file file;
    uint32_t number;
    uint32_t user;   /* whose process led to it */
    uint32_t idle;   /* windows without a sample */
    bool is_written; /* over: it is found no more */
    struct elf_segment *segment;
    uint32_t n_segments;
};

struct files {
    struct entry *entry[FILES_MAX]; /* NULL: free; the number is the index + 1 */
    struct hash_table by_key;       /* of indices */
    struct {
        uint32_t serial, number;
    } known[UNWIND_FILES]; /* by the low bits of the serial */
};

struct files *files_new(void)
{
    return calloc(1, sizeof(struct files));
}

static void entry_free(struct entry *e)
{
    free(e->segment);
    free(e);
}

struct files *files_free(struct files *f)
{
    for (uint32_t i = 0; f && i < FILES_MAX; i++)
        if (f->entry[i])
            entry_free(f->entry[i]);
    if (f)
        hash_table_release(&f->by_key);
    free(f);
    return NULL;
}

static uint64_t hash_of(const struct binary_key *key)
{
    return hash_mix(key->inode, (uint64_t)key->major << 32 | key->minor);
}

static bool same(const struct binary_key *a, const struct binary_key *b)
{
    return a->inode == b->inode && a->major == b->major && a->minor == b->minor;
}

uint32_t files_find(const struct files *f, const struct binary_key *key)
{
    struct hash_at at = hash_table_at(&f->by_key, hash_of(key));
    for (uint32_t i; (i = hash_table_next(&f->by_key, &at)) != HASH_NONE;)
        if (same(&f->entry[i]->file.key, key))
            return i + 1;
    return 0;
}

uint32_t files_of_serial(const struct files *f, uint32_t serial)
{
    uint32_t at = serial % UNWIND_FILES;
    return f->known[at].serial == serial ? f->known[at].number : 0;
}

void files_remember(struct files *f, uint32_t serial, uint32_t number)
{
    f->known[serial % UNWIND_FILES].serial = serial;
    f->known[serial % UNWIND_FILES].number = number;
}

/* Reads the segments. What is no ELF file, or finds no memory, has none. */
static void entry_read(struct entry *e, struct source *s, struct allowance *user)
{
    struct elf elf;
    struct allowance allowance = {.left = FILES_COST_MAX, .from = user};
    s->allowance = &allowance;
    e->file.is_elf = elf_read(&elf, s) == 0;
    size_t n = e->file.is_elf ? elf.n_segments : 0;
    if (n == 0 || !(e->segment = malloc(n * sizeof *e->segment)))
        return;
    memcpy(e->segment, elf.segment, n * sizeof *e->segment);
    e->n_segments = (uint32_t)n;
}

static void lose_key(struct files *f, struct entry *e)
{
    if (!e->is_written)
        hash_table_remove(&f->by_key, hash_of(&e->file.key), e->number - 1);
    e->is_written = true;
}

static void forget(struct files *f, struct entry *e)
{
    lose_key(f, e);
    for (uint32_t i = 0; i < UNWIND_FILES; i++)
        if (f->known[i].number == e->number)
            f->known[i].number = 0;
    f->entry[e->number - 1] = NULL;
    entry_free(e);
}

/* Of two places the one whose file was in no sample for longer. FILES_MAX, or one whose file was in one of
 * this window, is none. */
static uint32_t idler(const struct files *f, uint32_t a, uint32_t b)
{
    uint32_t idle = a < FILES_MAX ? f->entry[a]->idle : 0;
    return f->entry[b]->idle > idle ? b : a;
}

/* A place for a file of a user's; FILES_MAX: there is none. */
static uint32_t place_for(struct files *f, uint32_t user)
{
    uint32_t n_own = 0, empty = FILES_MAX, own = FILES_MAX, any = FILES_MAX;
    for (uint32_t i = 0; i < FILES_MAX; i++) {
        if (!f->entry[i]) {
            empty = min_of(empty, i);
            continue;
        }
        any = idler(f, any, i);
        if (f->entry[i]->user == user) {
            own = idler(f, own, i);
            n_own++;
        }
    }
    if (n_own >= FILES_USER_MAX)
        return own;
    return empty < FILES_MAX ? empty : any;
}

static struct entry *add(struct files *f, const struct binary_key *key, uint32_t user)
{
    uint32_t i = place_for(f, user);
    if (i == FILES_MAX || hash_table_reserve(&f->by_key, 1) < 0)
        return NULL;
    if (f->entry[i])
        forget(f, f->entry[i]);
    struct entry *e = f->entry[i] = calloc(1, sizeof *e);
    if (!e)
        return NULL;
    e->number = i + 1;
    e->user = user;
    e->file.key = *key;
    (void)hash_table_add(&f->by_key, hash_table_at(&f->by_key, hash_of(key)), i);
    return e;
}

uint32_t files_add(struct files *f, const struct binary_key *key, int fd, struct allowance *user)
{
    struct stat st;
    struct source source;
    uint32_t whose = user ? allowance_user(user) : UINT32_MAX;
    struct entry *e = foreign_stat(fd, &st) == 0 && source_file(&source, fd) == 0 ? add(f, key, whose) : NULL;
    if (!e)
        return 0;
    e->file.key.content = foreign_content(&st);
    entry_read(e, &source, user);
    if (!allowance_is_spent(user))
        return e->number;
    forget(f, e); /* what was read for want of it would stand for everybody's */
    return 0;
}

uint32_t files_add_memory(struct files *f, const struct binary_key *key, struct bytes image)
{
    struct source source = source_memory(image);
    struct entry *e = add(f, key, UINT32_MAX);
    if (!e)
        return 0;
    entry_read(e, &source, NULL);
    return e->number;
}

uint32_t files_check(struct files *f, uint32_t number, int fd, struct allowance *user)
{
    struct stat st;
    struct entry *e = f->entry[number - 1];
    e->idle = 0; /* the number may be a window's already: it is nobody else's in this one */
    if (foreign_stat(fd, &st) < 0)
        return 0;
    if (foreign_content_is(foreign_content(&st), e->file.key.content))
        return number;
    struct binary_key key = e->file.key;
    lose_key(f, e);
    return files_add(f, &key, fd, user);
}

struct file *files_get(struct files *f, uint32_t number)
{
    struct entry *e = number - 1 < FILES_MAX ? f->entry[number - 1] : NULL;
    return e ? &e->file : NULL;
}

bool files_address(struct files *f, uint32_t number, uint64_t offset, uint64_t *ret)
{
    struct entry *e = f->entry[number - 1];
    e->idle = 0;
    for (uint32_t i = 0; i < e->n_segments; i++) {
        const struct elf_segment *g = &e->segment[i];
        if (offset >= g->file_offset && offset - g->file_offset < g->file_size) {
            *ret = offset - g->file_offset + g->address;
            return true;
        }
    }
    return false;
}

bool files_address_of_page(struct files *f, uint32_t number, uint32_t offset, uint64_t *ret)
{
    const uint64_t step = UINT64_C(1) << SAMPLE_OFFSET_BITS;
    struct entry *e = f->entry[number - 1];
    uint32_t found = 0;
    e->idle = 0;
    for (uint32_t i = 0; i < e->n_segments; i++) {
        const struct elf_segment *g = &e->segment[i];
        uint64_t within = (offset - g->file_offset) & (step - 1);
        if (within >= g->file_size)
            continue;
        *ret = g->address + within;
        found += within + step < g->file_size ? 2 : 1;
    }
    return found == 1;
}

void files_sweep(struct files *f)
{
    for (uint32_t i = 0; i < FILES_MAX; i++) {
        struct entry *e = f->entry[i];
        if (e && ++e->idle > FILES_IDLE_WINDOWS)
            forget(f, e);
    }
}
