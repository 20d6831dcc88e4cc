/* SPDX-License-Identifier: Apache-2.0 */
#include "sender/symbolize/binaries.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proto/base/clock.h"
#include "proto/base/file.h"
#include "proto/base/hash.h"
#include "proto/base/macros.h"
#include "sender/foreign/errand.h"
#include "sender/foreign/open.h"
#include "sender/symbolize/cache/stored.h"
#include "sender/symbolize/elf/blocks.h"
#include "sender/symbolize/elf/debugfile.h"
#include "sender/symbolize/fetch.h"
#include "sender/symbolize/go/pclntab.h"
#include "sender/symbolize/resolve.h"

/* When names are written for the first time, and how long it takes between two times at most: between, twice
 * as long as the time before. */
#define STORE_FIRST_NS (60 * (uint64_t)NSEC_PER_SEC)
#define STORE_LAST_NS  (3600 * (uint64_t)NSEC_PER_SEC)

/* What a byte of work takes at most. What takes longer is work, too, though no bytes of debug information
 * were looked at: check sums, and what cannot be unpacked in the end. */
#define WORK_NS 16u

/* statx(2), since Linux 6.8: the number of a mount, which no other one gets until the next boot. */
#ifndef STATX_MNT_ID_UNIQUE
#define STATX_MNT_ID_UNIQUE 0x4000u
#endif

/* What is known of a file's separate debug file. */
enum debug_state {
    DEBUG_UNKNOWN, /* not looked for yet */
    DEBUG_NONE,
    DEBUG_FILE, /* found near it, or by its build id */
    DEBUG_FETCHING,
    DEBUG_FETCHED,
};

struct entry {
    struct binary binary;
    struct source source;
    int fd; /* -1: closed, or memory */
    bool is_memory;
    struct timespec changed;
    struct names_set *names; /* NULL: there is no table to look in, or memory was out; it stays nameless */
    uint32_t met_pid;        /* where it was met last */
    char *met_path;
    enum debug_state debug;
    bool debug_in_root; /* of met_pid; else the host's */
    VEC(struct resolve_want) want;
    uint64_t hits; /* of all that is wanted */
    uint32_t idle; /* windows without a sample */
};

struct binaries {
    struct entry *entry[BINARIES_MAX]; /* NULL: free; the number is the index + 1 */
    uint32_t n, n_open;
    struct names names;
    struct kept kept;
    struct blocks
        *blocks; /* while names are looked up; NULL: memory is out, and files are read as they are */
    struct binaries_options options;
    int64_t work;
    uint64_t looked_up, recalled;
    bool has_new; /* to be written */
    uint64_t store_at, store_after;
    uint8_t boot[16]; /* which boot this is; zeros: not known */
};

struct binaries *binaries_new(void)
{
    struct binaries *b = calloc(1, sizeof *b);
    if (b)
        b->work = BINARIES_WORK_MAX;
    return b;
}

void binaries_configure(struct binaries *b, const struct binaries_options *options)
{
    char text[37];
    b->options = *options;
    b->store_after = STORE_FIRST_NS;
    b->store_at = clock_monotonic() + b->store_after;
    file_text("/proc/sys/kernel/random/boot_id", text, sizeof text);
    for (uint32_t i = 0, n = 0; text[i] && n < 2 * sizeof b->boot; i++) {
        int digit = bytes_hex_value((uint8_t)text[i]);
        if (digit >= 0) {
            b->boot[n / 2] = (uint8_t)(b->boot[n / 2] << 4 | digit);
            n++;
        }
    }
}

static void entry_close(struct binaries *b, struct entry *e)
{
    if (e->fd >= 0) {
        close(e->fd);
        e->fd = -1;
        b->n_open--;
    }
}

static void entry_free(struct binaries *b, struct entry *e)
{
    entry_close(b, e);
    names_close(e->names);
    free(e->met_path);
    vec_release(&e->want);
    free(e);
}

struct binaries *binaries_free(struct binaries *b)
{
    if (!b)
        return NULL;
    for (uint32_t i = 0; i < BINARIES_MAX; i++)
        if (b->entry[i])
            entry_free(b, b->entry[i]);
    names_release(&b->names);
    kept_release(&b->kept);
    free(b);
    return NULL;
}

bool binary_key_is(const struct binary_key *a, const struct binary_key *b)
{
    return a->inode == b->inode && a->major == b->major && a->minor == b->minor &&
           foreign_content_is(a->content, b->content);
}

static bool is_as_written(const struct binary_key *key, int fd, struct stat *ret)
{
    return foreign_stat(fd, ret) == 0 && foreign_content_is(foreign_content(ret), key->content);
}

bool binary_is_as_written(const struct binary_key *key, int fd)
{
    struct stat st;
    return is_as_written(key, fd, &st);
}

/* A few hundred files, looked up once a region: regions remember the number. */
uint32_t binaries_find(const struct binaries *b, const struct binary_key *key)
{
    for (uint32_t i = 0; i < BINARIES_MAX; i++) {
        const struct entry *e = b->entry[i];
        if (e && binary_key_is(&e->binary.key, key))
            return i + 1;
    }
    return 0;
}

/* What a file's names are kept under: which file it is, and as of when. Nothing that is written in it, for
 * anybody can write another one's build id into his. */
struct names_key {
    struct binary_key file;
    int64_t changed[2];
    uint64_t mount; /* of a file on no block device … */
    uint8_t boot[16];
};
_Static_assert(sizeof(struct names_key) <= NAMES_KEY_MAX, "it is kept whole");

/* Whether the key means the same at the next start. On no block device a file system's number is free again
 * when that is unmounted, and the next to have it may be a user's own, who says of his files whatever he
 * likes: there the mount is a part of the key, too. */
static bool names_key(const struct binaries *b, const struct entry *e, struct names_key *ret)
{
    static const uint8_t unknown[sizeof b->boot];
    struct statx x = {0};
    *ret = (struct names_key){.file = e->binary.key, .changed = {e->changed.tv_sec, e->changed.tv_nsec}};
    if (!b->options.stored || e->fd < 0 ||
        statx(e->fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_MNT_ID_UNIQUE, &x) < 0)
        return false;
    if (x.stx_dev_major != 0)
        return true;
    if (!(x.stx_mask & STATX_MNT_ID_UNIQUE) || memcmp(b->boot, unknown, sizeof unknown) == 0)
        return false;
    ret->mount = x.stx_mnt_id;
    memcpy(ret->boot, b->boot, sizeof ret->boot);
    return true;
}

/* Whether the disk that names are kept on does: it may be a network's. It is nobody's but ours. */
static bool stored_answers(const struct binaries *b)
{
    char path[32];
    snprintf(path, sizeof path, "/proc/self/fd/%d", stored_folder(b->options.stored));
    autoclose int fd = errand_open(path, O_DIRECTORY, UINT32_MAX);
    return fd >= 0;
}

/* The names of a file: those there are, or were at the end of an earlier start. */
static struct names_set *open_names(struct binaries *b, const struct entry *e)
{
    struct names_key key;
    bool may_stay = names_key(b, e, &key);
    struct names_set *set = names_open(&b->names, bytes_of(&key, sizeof key));
    if (!set || !may_stay || set->may_stay || set->ranges.all.n)
        return set;
    set->may_stay = true;
    if (stored_answers(b))
        b->recalled += stored_load(b->options.stored, &b->names, set);
    return set;
}

static void entry_read(struct binaries *b, struct entry *e)
{
    struct binary *binary = &e->binary;
    binary->is_elf = elf_read(&binary->elf, &e->source) == 0;
    if (binary->is_elf) {
        pclntab_find(&binary->elf, &e->source);
        elf_htlhash(&e->source, binary->htlhash);
    }
    const struct elf *elf = &binary->elf;
    bool has_native = elf->entry || elf->symbols.size || elf->dynamic.size || elf->mini_debug.size ||
                      elf->debug_link.size || elf->build_id_n || elf->debug[ELF_DEBUG_INFO].size;
    bool has_names = elf->go_lines.size || (has_native && !b->options.addresses_only);
    e->names = has_names ? open_names(b, e) : NULL;
}

static void forget(struct binaries *b, uint32_t i)
{
    entry_free(b, b->entry[i]);
    b->entry[i] = NULL;
    b->n--;
}

/* An empty place, or that of the file that is idle for longest; BINARIES_MAX: all are of this window. */
static uint32_t place_for(struct binaries *b)
{
    uint32_t found = BINARIES_MAX, idle = 0;
    for (uint32_t i = 0; i < BINARIES_MAX; i++) {
        if (!b->entry[i])
            return i;
        if (b->entry[i]->idle > idle) {
            idle = b->entry[i]->idle;
            found = i;
        }
    }
    return found;
}

static uint32_t add(struct binaries *b, const struct binary_key *key, const char *name, struct entry *fresh)
{
    uint32_t i = fresh ? place_for(b) : BINARIES_MAX;
    if (i == BINARIES_MAX) {
        free(fresh);
        return 0;
    }
    if (b->entry[i])
        forget(b, i);
    fresh->binary.key = *key;
    snprintf(fresh->binary.name, sizeof fresh->binary.name, "%s", name);
    entry_read(b, fresh);
    b->entry[i] = fresh;
    b->n++;
    return i + 1;
}

uint32_t binaries_add(struct binaries *b, const struct binary_key *key, const char *name, int fd,
                      struct allowance *user)
{
    struct stat st;
    struct entry *e = b->n_open < BINARIES_OPEN_MAX ? calloc(1, sizeof *e) : NULL;
    if (e && (!is_as_written(key, fd, &st) || source_file(&e->source, fd) < 0)) {
        free(e);
        e = NULL;
    }
    if (e) {
        e->fd = fd;
        e->changed = st.st_ctim;
        e->source.allowance = user;
    }
    uint32_t number = add(b, key, name, e);
    if (!number) {
        close(fd);
        return 0;
    }
    b->n_open++;
    if (!allowance_is_spent(user))
        return number;
    forget(b, number - 1); /* what was read of it for want of allowance would stand for everybody's */
    return 0;
}

uint32_t binaries_add_memory(struct binaries *b, const struct binary_key *key, const char *name,
                             struct bytes image)
{
    struct entry *e = calloc(1, sizeof *e);
    if (e) {
        e->fd = -1;
        e->is_memory = true;
        e->source = source_memory(image);
    }
    return add(b, key, name, e);
}

static struct entry *entry_of(const struct binaries *b, uint32_t number)
{
    return b->entry[number - 1];
}

const struct binary *binaries_get(const struct binaries *b, uint32_t number)
{
    const struct entry *e = number - 1 < BINARIES_MAX ? entry_of(b, number) : NULL;
    return e ? &e->binary : NULL;
}

static void note(struct entry *e, uint64_t address, uint64_t hits)
{
    if (e->want.n < BINARIES_WANT_MAX && vec_append(&e->want, (struct resolve_want){address, hits}) == 0)
        e->hits += hits;
}

bool binaries_want(struct binaries *b, uint32_t number, uint64_t address, uint64_t hits)
{
    struct entry *e = entry_of(b, number);
    e->idle = 0;
    if (!e->names)
        return false;
    e->names->used = b->names.window;
    const struct range *known = ranges_find(&e->names->ranges, address);
    if (known && !e->names->is_unchecked && (!(known->flags & RANGE_ROUGH) || b->work <= 0))
        return false;
    if (e->fd < 0 && !e->is_memory)
        return b->n_open < BINARIES_OPEN_MAX;
    note(e, address, hits);
    return false;
}

bool binaries_reopen(struct binaries *b, uint32_t number, int fd)
{
    struct entry *e = entry_of(b, number);
    struct stat st;
    struct source source;
    if (e->fd >= 0 || e->is_memory || b->n_open >= BINARIES_OPEN_MAX ||
        !is_as_written(&e->binary.key, fd, &st) || source_file(&source, fd) < 0) {
        close(fd);
        return false;
    }
    source.allowance = e->source.allowance;
    e->fd = fd;
    e->source = source;
    b->n_open++;
    return true;
}

void binaries_charge(struct binaries *b, uint32_t number, struct allowance *user)
{
    struct entry *e = number - 1 < BINARIES_MAX ? entry_of(b, number) : NULL;
    if (!e)
        return;
    e->idle = 0;
    if (!e->is_memory)
        e->source.allowance = user;
}

void binaries_met(struct binaries *b, uint32_t number, uint32_t pid, const char *path)
{
    struct entry *e = number - 1 < BINARIES_MAX ? entry_of(b, number) : NULL;
    if (!e || *path != '/')
        return;
    e->met_pid = pid;
    if (!e->met_path || strcmp(e->met_path, path) != 0) {
        free(e->met_path);
        e->met_path = strdup(path); /* NULL: only the build id is left to look by */
    }
}

/* The user whose programs led to a file. */
static uint32_t payer(const struct entry *e)
{
    return e->source.allowance ? e->source.allowance->user : UINT32_MAX;
}

/* Opens a file's separate debug file, looked for at first. Negative: there is none; *is_rough: there is no
 * work left to look for it in this window. */
static int open_debug(struct binaries *b, struct entry *e, bool *is_rough)
{
    char root[64];
    const struct elf *elf = &e->binary.elf;
    bool is_known = e->debug == DEBUG_FILE;
    int fd = -ENOENT;
    snprintf(root, sizeof root, "/proc/%u/root", e->met_pid);
    if (e->is_memory || e->debug == DEBUG_NONE || (elf->symbols.size && elf->debug[ELF_DEBUG_INFO].size))
        return -ENOENT;
    *is_rough = !elf->build_id_n && b->work <= 0; /* its check sum is over all of the debug file: work, too */
    if (*is_rough)
        return -ENOENT;
    if (e->debug == DEBUG_UNKNOWN || (is_known && !e->debug_in_root)) {
        fd = debugfile_open("/", e->met_path ? e->met_path : "", &e->source, elf);
        e->debug_in_root = false;
    }
    if (fd < 0 && e->met_pid && (e->debug == DEBUG_UNKNOWN || (is_known && e->debug_in_root))) {
        fd = debugfile_open(root, e->met_path ? e->met_path : "", &e->source, elf);
        e->debug_in_root = fd >= 0;
    }
    if (fd >= 0) {
        e->debug = DEBUG_FILE;
        return fd;
    }
    int r = fetch_open(b->options.fetch, payer(e), bytes_of(elf->build_id, elf->build_id_n), &fd);
    if (r == 0 && !debugfile_matches(fd, elf, NULL)) {
        close(fd);
        fd = -ENOENT;
    }
    e->debug = fd >= 0 ? DEBUG_FETCHED : r == FETCH_LATER ? DEBUG_FETCHING : DEBUG_NONE;
    return fd;
}

/* Which file it is that names come from, as of its last change; 0: none. */
static uint64_t identity_of(int fd)
{
    struct stat st;
    if (fd < 0 || foreign_stat(fd, &st) < 0)
        return 0;
    const uint64_t words[] = {st.st_dev, st.st_ino, (uint64_t)st.st_size, (uint64_t)st.st_ctim.tv_sec,
                              (uint64_t)st.st_ctim.tv_nsec};
    return hash_bytes(bytes_of(words, sizeof words), 0) | 1;
}

/* Names that were read from disk are good as long as the debug file is the same, or is still missing. Those
 * that were found before it came stand until each is looked up again. */
static void check_debug(struct names_set *set, uint64_t debug, bool has_come)
{
    if (set->is_unchecked && set->debug != debug)
        ranges_release(&set->ranges);
    else if (has_come && set->debug != debug)
        ranges_roughen(&set->ranges);
    set->debug = debug;
    set->is_unchecked = false;
}

static void look_for_fetched(struct binaries *b, struct entry *e)
{
    const struct elf *elf = &e->binary.elf;
    int fd, r = fetch_open(b->options.fetch, payer(e), bytes_of(elf->build_id, elf->build_id_n), &fd);
    if (r == FETCH_LATER)
        return;
    if (r == 0) {
        check_debug(e->names, identity_of(fd), true);
        close(fd);
    }
    e->debug = r == 0 ? DEBUG_FETCHED : DEBUG_NONE;
}

static int by_address(const void *a, const void *b)
{
    const struct resolve_want *x = a, *y = b;
    return order_of(x->address, y->address);
}

/* A file opened beside the one that names are for. */
struct beside {
    int fd; /* negative: there is none */
    struct source source;
    struct blocks_reader reader;
    struct elf elf;
};

static void beside_close(struct beside *x)
{
    cleanup_close(&x->fd);
}

/* Takes over a descriptor. Whether it is an ELF file. */
static bool beside_read(struct beside *x, int fd, struct blocks *blocks, struct allowance *user)
{
    x->fd = fd;
    if (fd < 0 || source_file(&x->source, fd) < 0)
        return false;
    x->source.allowance = user;
    x->source = blocks_source(blocks, &x->reader, &x->source);
    return elf_read(&x->elf, &x->source) == 0;
}

/* What dwz -m took out of a file with DWARF, which is open at `fd`. */
static int open_alt(const struct entry *e, int fd, const struct source *s, const struct elf *elf)
{
    char root[64];
    if (fd < 0 || (!elf->debug_alt.size && !elf->debug_sup.size))
        return -ENOENT;
    int found = debugfile_open_alt("/", fd, s, elf);
    if (found >= 0 || !e->met_pid)
        return found;
    snprintf(root, sizeof root, "/proc/%u/root", e->met_pid);
    return debugfile_open_alt(root, fd, s, elf);
}

/* Sorts what is wanted, takes out what is there twice or known already, and the rough names of the rest. How
 * many are left. */
static uint32_t still_wanted(struct entry *e)
{
    struct ranges *ranges = &e->names->ranges;
    struct resolve_want *want = e->want.p;
    uint32_t n = 0;
    qsort(want, e->want.n, sizeof *want, by_address);
    for (uint32_t i = 0; i < e->want.n; i++) {
        const struct range *known = ranges_find(ranges, want[i].address);
        if (n > 0 && want[i].address == want[n - 1].address) {
            want[n - 1].hits += want[i].hits;
        } else if (!known || (known->flags & RANGE_ROUGH)) {
            ranges_drop_rough(ranges, want[i].address);
            want[n++] = want[i];
        }
    }
    ranges_settle(ranges);
    return n;
}

/* Looks up what is wanted of a file, which may take about `share` of the work there is. False: what it may
 * read was spent before, and all is wanted still. */
static bool resolve(struct binaries *b, struct entry *e, int64_t share)
{
    if (allowance_is_spent(e->source.allowance))
        return false;
    const uint64_t begun = clock_thread();
    const struct elf *elf = &e->binary.elf;
    struct ranges *ranges = &e->names->ranges;
    cleanup(beside_close) struct beside debug = {.fd = -1}, alt = {.fd = -1};
    struct blocks_reader reader;
    const struct source own = blocks_source(b->blocks, &reader, &e->source);
    struct resolve r = {.source = &own,
                        .elf = elf,
                        .places = &b->names.places,
                        .ranges = ranges,
                        .kept = &b->kept,
                        .go_only = b->options.addresses_only};
    if (b->blocks)
        blocks_begin(b->blocks);
    bool was_coming = e->debug == DEBUG_FETCHING;
    int fd = r.go_only ? -1 : open_debug(b, e, &r.is_rough);
    if (!r.is_rough && e->debug != DEBUG_FETCHING)
        check_debug(e->names, identity_of(fd), was_coming);
    uint32_t n = e->want.n = still_wanted(e);
    b->looked_up += n;
    r.work = share;
    if (beside_read(&debug, fd, b->blocks, e->source.allowance)) {
        r.debug_source = &debug.source;
        r.debug_elf = &debug.elf;
    }
    bool is_own = elf->debug[ELF_DEBUG_INFO].size;
    if (n > 0 && !r.go_only && r.work > 0 && (is_own || r.debug_elf) &&
        beside_read(&alt,
                    open_alt(e, is_own ? e->fd : fd, is_own ? r.source : r.debug_source,
                             is_own ? elf : r.debug_elf),
                    b->blocks, e->source.allowance)) {
        r.alt_source = &alt.source;
        r.alt_elf = &alt.elf;
    }
    uint32_t n_ranges = ranges->all.n;
    if (n > 0) {
        e->names->is_new = b->has_new = true;
        if (e->debug == DEBUG_FETCHING)
            e->names->debug = 0; /* to be looked up again when it comes */
        resolve_addresses(&r, e->want.p, n);
    }
    struct stat st;
    bool is_spent = allowance_is_spent(e->source.allowance);
    bool is_another = !e->is_memory && !is_as_written(&e->binary.key, e->fd, &st);
    if (is_spent || is_another) {
        ranges->all.n =
            n_ranges; /* not all was read, or not of this file: what was found may be another's … */
        e->debug = e->debug == DEBUG_NONE ? DEBUG_UNKNOWN : e->debug; /* … and what was not found be there */
        kept_forget(&b->kept, e->fd);
        kept_forget(&b->kept, debug.fd);
        kept_forget(&b->kept, alt.fd);
    }
    ranges_settle(ranges);
    b->work -= max_of(share - r.work, (int64_t)((clock_thread() - begun) / WORK_NS));
    if (!is_spent)
        vec_release(&e->want);
    return !is_spent;
}

/* A file that many processes have is paid for by the one it was met in, and what one of many may read is less
 * than a large file's tables are: the user pays what his process cannot, when all have had what is theirs. */
static void resolve_beside(struct binaries *b, struct entry *e)
{
    struct allowance *share = e->source.allowance, beside = allowance_beside(share);
    if (!allowance_is_spent(&beside)) {
        e->source.allowance = &beside;
        (void)resolve(b, e, b->work);
        e->source.allowance = share;
    }
}

static int by_hits(const void *a, const void *b)
{
    struct entry *const *x = a, *const *y = b;
    return order_of((*y)->hits, (*x)->hits);
}

/* What was sampled most comes first, and gets as much of the work there is as of the samples; what it leaves
 * is the others'. A file that has any may take more than its share, once: a large unit is looked at whole. */
static void resolve_all(struct binaries *b, struct entry **wanting, uint32_t n)
{
    uint64_t hits = 0;
    qsort(wanting, n, sizeof *wanting, by_hits);
    for (uint32_t i = 0; i < n; i++)
        hits += wanting[i]->hits;
    for (uint32_t i = 0; i < n; i++) {
        struct entry *e = wanting[i];
        double part = (double)e->hits / (double)max_of(hits, UINT64_C(1));
        hits -= e->hits;
        if (resolve(b, e, b->work > 0 ? (int64_t)(part * (double)b->work) + 1 : b->work))
            entry_close(b, e);
    }
    for (uint32_t i = 0; i < n; i++)
        if (wanting[i]->want.n > 0)
            resolve_beside(b, wanting[i]);
}

void binaries_resolve(struct binaries *b)
{
    struct entry *wanting[BINARIES_MAX];
    uint32_t n = 0;
    uint64_t before = b->looked_up;
    for (uint32_t i = 0; i < BINARIES_MAX; i++) {
        struct entry *e = b->entry[i];
        if (!e)
            continue;
        if (e->want.n > 0 && e->names)
            wanting[n++] = e;
        else if (e->debug == DEBUG_FETCHING && e->names)
            look_for_fetched(b, e);
    }
    b->blocks = n ? malloc(sizeof *b->blocks) : NULL;
    resolve_all(b, wanting, n);
    free(b->blocks);
    b->blocks = NULL;
    for (uint32_t i = 0; i < BINARIES_MAX; i++) {
        struct entry *e = b->entry[i];
        if (!e)
            continue;
        vec_clear(&e->want);
        e->hits = 0;
        e->source.allowance = NULL;
        entry_close(b, e);
    }
    kept_sweep(&b->kept, KEPT_MEMORY_MAX);
    int64_t more = BINARIES_WORK_WINDOW + BINARIES_WORK_ADDRESS * (int64_t)(b->looked_up - before);
    b->work = min_of(b->work + min_of(more, BINARIES_WORK_WINDOW_MAX), BINARIES_WORK_MAX);
}

struct binary_name binaries_name(const struct binaries *b, uint32_t number, uint64_t address)
{
    struct binary_name name = {0};
    const struct entry *e = entry_of(b, number);
    const struct range *range = e->names ? ranges_find(&e->names->ranges, address) : NULL;
    if (!range)
        return name;
    name.place = range->place;
    name.is_go = range->flags & RANGE_GO;
    (void)places_get(&b->names.places, range->place, &name.n_lines);
    return name;
}

struct binary_line binaries_line(const struct binaries *b, const struct binary_name *name, uint32_t i)
{
    uint32_t n;
    const struct places *p = &b->names.places;
    const struct place_line *line = places_get(p, name->place, &n);
    struct place_function f = places_get_function(p, i < n ? line[i].function : 0);
    return (struct binary_line){.name = places_get_text(p, f.name),
                                .file = places_get_text(p, f.file),
                                .line = i < n ? line[i].line : 0,
                                .start_line = f.start_line};
}

void binaries_sweep(struct binaries *b)
{
    for (uint32_t i = 0; i < BINARIES_MAX; i++) {
        struct entry *e = b->entry[i];
        if (e && ++e->idle > BINARIES_IDLE_WINDOWS)
            forget(b, i);
    }
    names_sweep(&b->names, BINARIES_MEMORY_MAX);
    uint64_t now = clock_monotonic();
    if (!b->options.stored || now < b->store_at)
        return;
    (void)binaries_store(b); /* what could not be written is written next time */
    b->store_after = min_of(2 * b->store_after, STORE_LAST_NS);
    b->store_at = now + b->store_after;
}

int binaries_store(struct binaries *b)
{
    if (!b->options.stored || !b->has_new)
        return 0;
    if (!stored_answers(b))
        return -ETIMEDOUT;
    int r = stored_save(b->options.stored, &b->names);
    b->has_new = r < 0;
    return r;
}

struct binaries_counts binaries_counts(const struct binaries *b)
{
    struct binaries_counts counts = {.files = b->n,
                                     .looked_up = b->looked_up,
                                     .evicted = b->names.evicted,
                                     .recalled = b->recalled,
                                     .memory = names_memory(&b->names) + kept_memory(&b->kept)};
    for (uint32_t i = 0; i < BINARIES_MAX; i++) {
        const struct entry *e = b->entry[i];
        counts.debug += e && (e->debug == DEBUG_FILE || e->debug == DEBUG_FETCHED ||
                              e->binary.elf.debug[ELF_DEBUG_INFO].size > 0);
    }
    return counts;
}
