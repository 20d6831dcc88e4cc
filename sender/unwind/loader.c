/* SPDX-License-Identifier: Apache-2.0 */
#include "sender/unwind/loader.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "bpf/runtimes.h"
#include "proto/base/clock.h"
#include "proto/base/macros.h"
#include "sender/foreign/open.h"
#include "sender/unwind/key.h"

/* Room that was made may be in pieces: then it is made again. */
#define TRIES 3
/* What opening a file is worth. */
#define OPENING (4 * ALLOWANCE_CALL)
/* At the beginning all that runs is new, and on most hosts one user's: fifty programs at work in turn took
 * 0.2 s of a fast CPU in twenty seconds. Ten times as slow a machine is to have enough, too: 1.9 s. */
#define FIRST (10 * LEDGER_SAVED)

void loader_init(struct loader *l, struct tables *tables)
{
    *l = (struct loader){.tables = tables};
    ledger_init(&l->ledger, FIRST);
    pthread_mutex_init(&l->lock, NULL);
}

static void close_one(struct loader_open *o)
{
    if (!o->rows)
        return;
    o->rows = rows_close(o->rows);
    if (o->fd >= 0)
        close(o->fd);
}

void loader_rest(struct loader *l)
{
    for (uint32_t i = 0; i < LOADER_OPEN_MAX; i++)
        close_one(&l->open[i]);
    tables_rest(l->tables);
}

void loader_release(struct loader *l)
{
    for (uint32_t i = 0; i < LOADER_OPEN_MAX; i++)
        close_one(&l->open[i]);
    close_one(&l->memory);
    pthread_mutex_destroy(&l->lock);
}

/* Whether it is the file the key was made of, and still as it was: else its rows would serve another one. */
static int check(int fd, const struct unwind_key *key)
{
    struct stat st;
    if (fd < 0)
        return 0; /* memory */
    if (foreign_stat(fd, &st) < 0)
        return -errno;
    return S_ISREG(st.st_mode) && key_is_of(key, &st) ? 0 : LOADER_GONE;
}

static struct loader_open *find_open(struct loader *l, const struct unwind_key *key)
{
    struct loader_open *least = &l->open[0];
    if (l->memory.rows && memcmp(&l->memory.key, key, sizeof *key) == 0)
        return &l->memory;
    for (uint32_t i = 0; i < LOADER_OPEN_MAX; i++) {
        struct loader_open *o = &l->open[i];
        if (o->rows && memcmp(&o->key, key, sizeof *key) == 0)
            return o;
        if (!o->rows || (least->rows && o->used < least->used))
            least = o;
    }
    close_one(least);
    return least;
}

static bool is_refused(const struct loader *l, const struct unwind_key *key)
{
    uint64_t now = clock_monotonic();
    for (uint32_t i = 0; i < LOADER_REFUSED_MAX; i++) {
        const struct loader_refused *r = &l->refused[i];
        if (r->when && now - r->when < LOADER_REFUSED_NS && memcmp(&r->key, key, sizeof *key) == 0)
            return true;
    }
    return false;
}

/* Remembers what failed. */
static void refuse(struct loader *l, const struct unwind_key *key, int r)
{
    if (r < 0)
        l->refused[l->next_refused++ % LOADER_REFUSED_MAX] = (struct loader_refused){*key, clock_monotonic()};
}

/* Who was to open a file says so by -errno. */
static int why_not_open(int r)
{
    switch (-r) {
    case ENOENT:
    case ESRCH:
    case ETIMEDOUT:
    case ESTALE: return LOADER_GONE;
    default: return r;
    }
}

/* Opens a file if it is not open. 0; ROWS_NONE: it is none of ours, and its descriptor the caller's;
 * LOADER_GONE; LOADER_REFUSED; or -errno. */
static int open_file(struct loader *l, const struct loader_file *file, struct loader_open **ret)
{
    struct loader_open *o = find_open(l, file->key);
    struct allowance *user = ledger_of(&l->ledger, file->user, clock_monotonic());
    o->used = ++l->turn;
    *ret = o;
    if (allowance_is_spent(user))
        return LOADER_REFUSED;
    o->source.allowance = o == &l->memory ? NULL : user;
    if (o->rows)
        return 0;
    if (is_refused(l, file->key))
        return LOADER_REFUSED;
    allowance_charge(user, OPENING);
    o->fd = file->open(file->of);
    if (o->fd < 0)
        return why_not_open(o->fd);
    int r = check(o->fd, file->key);
    r = r != 0 ? r : source_file(&o->source, o->fd);
    if (r == 0) {
        o->source.allowance = user;
        r = rows_open(&o->rows, &o->source);
    }
    if (r >= 0 && allowance_is_spent(user)) { /* what was not all read must not be believed */
        o->rows = rows_close(o->rows);
        r = LOADER_REFUSED;
    }
    if (r != 0 && r != ROWS_NONE)
        close(o->fd);
    if (r != 0)
        return r;
    o->key = *file->key;
    return 0;
}

/* What is done for a user, from when it began. */
struct work {
    struct allowance *user;
    int64_t charged;
    uint64_t begun;
};

static struct work begin(struct loader *l, const struct loader_file *file)
{
    struct allowance *user = ledger_of(&l->ledger, file->user, clock_monotonic());
    return (struct work){user, user->charged, clock_thread()};
}

static void count(struct loader *l, const struct work *work, int r, uint64_t loaded, uint64_t damaged)
{
    uint64_t took = clock_thread() - work->begun;
    bool is_unpaid = r == LOADER_REFUSED && allowance_is_spent(work->user);
    allowance_settle(work->user, work->charged, ALLOWANCE_OF_NS(took));
    pthread_mutex_lock(&l->lock);
    l->counts.compile_ns += took;
    l->counts.damaged += damaged;
    l->counts.failed += r != 0 && !is_unpaid;
    l->counts.unpaid += is_unpaid;
    l->counts.loaded += loaded;
    l->counts.tables = tables_counts(l->tables);
    pthread_mutex_unlock(&l->lock);
}

static void wait_for_room(void)
{
    nanosleep(&(struct timespec){.tv_nsec = TABLES_GRACE_NS}, NULL);
}

/* `rows`: NULL: there are none. */
static int install(struct loader *l, const struct unwind_key *key, const struct rows_file *rows,
                   uint32_t runtime, int fd)
{
    const struct unwind_file is = {
        .n_pages = rows ? rows_pages(rows) : 0, .runtime = runtime, .code = rows ? rows_code(rows) : 0};
    int r = tables_add(l->tables, key, &is, clock_monotonic());
    for (int i = 0; i < TRIES && r == TABLES_LATER; i++) {
        wait_for_room();
        r = tables_add(l->tables, key, &is, clock_monotonic());
    }
    if (r == 0 && l->known)
        l->known(l->user, tables_file(l->tables, key)->serial, key, fd);
    pthread_mutex_lock(&l->lock);
    l->counts.files += r == 0;
    l->counts.without += r == 0 && is.n_pages == 0;
    pthread_mutex_unlock(&l->lock);
    return r;
}

int loader_add(struct loader *l, const struct loader_file *file)
{
    struct loader_open *o;
    if (tables_file(l->tables, file->key))
        return 0; /* each frame of a walk that is ended here comes this way */
    struct work work = begin(l, file);
    int r = open_file(l, file, &o);
    if (r == 0 || r == ROWS_NONE) {
        const bool has_rows = r == 0; /* else nobody keeps it open */
        uint32_t runtime = l->recognise ? l->recognise(l->user, o->fd, &o->source) : RUNTIME_NATIVE;
        r = allowance_is_spent(o->source.allowance) /* then that must not be believed, either */
                ? LOADER_REFUSED
                : install(l, file->key, has_rows ? o->rows : NULL, runtime, o->fd);
        if (!has_rows)
            close(o->fd);
    }
    refuse(l, file->key, r);
    count(l, &work, r, 0, 0);
    return r;
}

int loader_add_memory(struct loader *l, const struct unwind_key *key, struct bytes elf)
{
    struct loader_open *o = &l->memory;
    close_one(o);
    *o = (struct loader_open){.key = *key, .fd = -1, .source = source_memory(elf)};
    int r = rows_open(&o->rows, &o->source);
    return r < 0 ? r : install(l, key, r == 0 ? o->rows : NULL, RUNTIME_NATIVE, -1);
}

static int load(struct loader *l, const struct loader_file *file, const struct unwind_file *known,
                uint32_t page)
{
    struct loader_open *o;
    struct work work = begin(l, file);
    uint64_t damaged = 0;
    int r = open_file(l, file, &o);
    if (r == ROWS_NONE)
        close(o->fd);
    if (r == 0) {
        rows_page(o->rows, page, &l->rows);
        damaged = l->rows.n_damaged;
        r = check(o->fd, file->key);
        if (r == 0 && allowance_is_spent(o->source.allowance))
            r = LOADER_REFUSED;
        r = r != 0 ? r : tables_load(l->tables, known, page, &l->rows, file->user, clock_monotonic());
        for (int i = 0; i < TRIES && r == TABLES_LATER; i++) {
            wait_for_room();
            r = tables_load(l->tables, known, page, &l->rows, file->user, clock_monotonic());
        }
    }
    refuse(l, file->key, r);
    count(l, &work, r, r == 0, damaged);
    return r == ROWS_NONE ? LOADER_GONE : r;
}

int loader_rule(struct loader *l, const struct loader_file *file, uint64_t offset, struct unwind_rule *ret)
{
    int r = loader_add(l, file);
    if (r != 0)
        return r;
    const struct unwind_file *known = tables_file(l->tables, file->key);
    *ret = (struct unwind_rule){0};
    if (offset >> UNWIND_PAGE_BITS >= known->n_pages || tables_find(l->tables, known, offset, ret))
        return 0;
    r = load(l, file, known, (uint32_t)(offset >> UNWIND_PAGE_BITS));
    if (r == 0 && !tables_find(l->tables, known, offset, ret))
        r = -ENOMEM;
    return r;
}

struct loader_counts loader_counts(struct loader *l)
{
    pthread_mutex_lock(&l->lock);
    struct loader_counts counts = l->counts;
    pthread_mutex_unlock(&l->lock);
    return counts;
}
