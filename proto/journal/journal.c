/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What waits stands in a ring by its number: [taken, next) waits for the thread, [first, taken) is in the
 * commit under way. The ring has room for all that is reserved, so that adding cannot fail. Removing one that
 * waits empties its place; one that is in the commit is marked and deleted with the next; any other is on
 * disk and joins the list of those to delete.
 *
 * The thread takes all that waits (up to BATCH_BYTES), deletes and inserts in one transaction, and says so to
 * each when its fsync(2) is over: so a commit costs the same for one request and for a hundred, and the next
 * one gathers while it runs.
 */
#include "proto/journal/journal.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proto/base/clock.h"
#include "proto/base/macros.h"
#include "proto/base/thread.h"
#include "proto/base/vec.h"
#include "proto/journal/file.h"

#define BATCH_BYTES (16u << 20)

/* Waiting bytes that are written without waiting for more. */
#define GATHER_BYTES (2u << 20)

/* Deletions alone wait so long for company, or until there are so many. */
#define DELETE_WAIT_NS (200 * (uint64_t)NSEC_PER_MSEC)
#define DELETE_MANY    512u

/* After a commit that failed the disk is tried so often (try_again). */
#define TRY_EVERY_NS ((uint64_t)NSEC_PER_SEC)

/* How often is looked for what is too old, and for the file itself. */
#define LOOK_EVERY_NS (30 * (uint64_t)NSEC_PER_SEC)

/* A record from further ahead than that is damaged rather than of a clock that was wrong. */
#define AHEAD_MAX_NS (10 * 366 * 86400 * (uint64_t)NSEC_PER_SEC)

struct waiting {
    struct journal_record record;
    void (*done)(void *arg, int r); /* NULL: removed, an empty place */
    void *arg;
    uint64_t due_ns; /* when it is to be written at the latest */
    bool removed;    /* while it was being written */
};

struct journal {
    struct journal_options options;
    struct file file;    /* the thread's */
    uint64_t clock_at_0; /* what now_of adds to monotonic time */
    pthread_t thread;
    pthread_mutex_t lock; /* everything below */
    pthread_cond_t work;
    struct waiting *ring;
    uint32_t room;               /* places: a power of two */
    uint64_t first, taken, next; /* numbers, see above */
    uint32_t reserved;           /* requests */
    uint64_t reserved_bytes, waiting_bytes;
    uint64_t waiting_records, disk_bytes, disk_records, unknown;
    uint64_t mark, written_mark; /* as it is on disk */
    bool is_marked;              /* and it is not written yet */
    VEC(uint64_t) removed;
    uint64_t removed_at; /* when the oldest of them was: 0, there are none */
    STAILQ_HEAD(, journal_read) reads;
    bool failed, closing;
    uint64_t failed_bytes, try_at; /* what the commit that failed wanted to write; when to try again */
    pthread_mutex_t outside;       /* held by the thread while it calls others */
    bool left;                     /* under that */
};

/* ---- under the lock ---- */

static struct waiting *at(const struct journal *j, uint64_t number)
{
    return &j->ring[number & (j->room - 1)];
}

static int make_places(struct journal *j, uint64_t n)
{
    uint32_t room = max_of(j->room, 64u);
    while (room < n)
        room *= 2;
    if (room == j->room)
        return 0;
    struct waiting *ring = calloc(room, sizeof *ring);
    if (!ring)
        return -ENOMEM;
    for (uint64_t i = j->first; i < j->next; i++)
        ring[i & (room - 1)] = *at(j, i);
    free(j->ring);
    j->ring = ring;
    j->room = room;
    return 0;
}

bool journal_reserve(struct journal *j, size_t n)
{
    autolock(&j->lock);
    const uint64_t waiting = j->reserved_bytes + j->waiting_bytes;
    const uint64_t kept = j->options.evicts ? 0 : j->disk_bytes;
    bool fits = !j->closing && waiting <= j->options.waiting_max && n <= j->options.waiting_max - waiting &&
                waiting + kept + n <= j->options.bytes_max;
    fits = fits && !j->failed && make_places(j, j->next - j->first + j->reserved + 1) == 0 &&
           budget_charge(j->options.budget, n);
    if (fits) {
        j->reserved++;
        j->reserved_bytes += n;
    }
    return fits;
}

void journal_cancel(struct journal *j, size_t n)
{
    pthread_mutex_lock(&j->lock);
    j->reserved--;
    j->reserved_bytes -= n;
    pthread_mutex_unlock(&j->lock);
    budget_refund(j->options.budget, n);
}

uint64_t journal_add(struct journal *j, const struct journal_record *record, size_t reserved,
                     void (*done)(void *arg, int r), void *arg)
{
    pthread_mutex_lock(&j->lock);
    uint64_t number = j->next++;
    const bool is_first = j->waiting_records == 0;
    const uint64_t now = clock_monotonic();
    *at(j, number) =
        (struct waiting){.record = *record, .done = done, .arg = arg, .due_ns = now + j->options.gather_ns};
    j->reserved--;
    j->reserved_bytes -= reserved;
    j->waiting_bytes += record->body.n;
    j->waiting_records++;
    if (is_first || j->waiting_bytes >= GATHER_BYTES)
        pthread_cond_signal(&j->work);
    pthread_mutex_unlock(&j->lock);
    budget_refund(j->options.budget, reserved - record->body.n);
    return number;
}

/* One more to delete. Without memory it stays on disk until the next start: it is delivered twice then. */
static void delete_later(struct journal *j, uint64_t number)
{
    if (vec_append(&j->removed, number) < 0)
        return;
    if (j->removed_at == 0)
        j->removed_at = clock_monotonic();
    if (j->removed.n == 1 || j->removed.n == DELETE_MANY)
        pthread_cond_signal(&j->work);
}

void journal_remove(struct journal *j, uint64_t number)
{
    struct waiting was = {0};
    pthread_mutex_lock(&j->lock);
    if (number < j->first) {
        delete_later(j, number);
    } else if (number < j->taken) {
        at(j, number)->removed = true;
    } else if (number < j->next && at(j, number)->done) {
        was = *at(j, number);
        at(j, number)->done = NULL;
        j->waiting_bytes -= was.record.body.n;
        j->waiting_records--;
    }
    pthread_mutex_unlock(&j->lock);
    if (was.done) {
        budget_refund(j->options.budget, was.record.body.n);
        was.done(was.arg, 0);
    }
}

void journal_read(struct journal *j, struct journal_read *r)
{
    autolock(&j->lock);
    STAILQ_INSERT_TAIL(&j->reads, r, next);
    pthread_cond_signal(&j->work);
}

/* The first one waits for no company: without it the next process would not know of this one. */
static bool is_first_mark(const struct journal *j)
{
    return j->is_marked && j->written_mark == 0 && !j->failed;
}

void journal_mark(struct journal *j, uint64_t mark)
{
    autolock(&j->lock);
    j->mark = mark;
    j->is_marked = true;
    if (is_first_mark(j))
        pthread_cond_signal(&j->work);
}

struct journal_counts journal_counts(struct journal *j)
{
    autolock(&j->lock);
    struct journal_counts c = {
        .records = j->disk_records + j->waiting_records,
        .bytes = j->disk_bytes + j->waiting_bytes,
        .waiting = j->waiting_records,
        .waiting_bytes = j->waiting_bytes,
        .unknown = j->unknown,
        .last = j->next - 1,
        .mark = j->mark,
    };
    return c;
}

/* ---- the thread ---- */

/* Around whatever is not the journal's own. Who was left behind stays there. */
static void go_outside(struct journal *j)
{
    pthread_mutex_lock(&j->outside);
    while (j->left)
        pause();
}

static void come_back(struct journal *j)
{
    pthread_mutex_unlock(&j->outside);
}

static void tell(struct journal *j, enum journal_event_kind kind, uint64_t records, uint64_t items,
                 const char *text)
{
    const struct journal_event event = {kind, records, items, text};
    go_outside(j);
    if (j->options.tell)
        j->options.tell(j->options.user, &event);
    come_back(j);
}

static void found(struct journal *j, const struct file_found *f)
{
    autolock(&j->lock);
    j->disk_bytes = f->bytes;
    j->disk_records = f->records;
    j->unknown = f->unknown;
    j->mark = j->is_marked ? j->mark : f->mark;
    j->written_mark = f->mark;
    if (!j->ring) { /* it is being opened */
        j->first = j->taken = j->next = f->last + 1;
        const uint64_t now = j->options.realtime ? j->options.realtime() : clock_realtime();
        const bool is_ahead = f->newest > now && f->newest - now < AHEAD_MAX_NS;
        j->clock_at_0 = (is_ahead ? f->newest : now) - clock_monotonic();
    }
}

/* 0, or -errno: there is no file any more. */
static int set_aside(struct journal *j)
{
    char name[4096 + 64];
    struct file_found what = {0};
    struct error e;
    int r = file_set_aside(&j->file, name, sizeof name, &what, &e);
    if (r == 0)
        tell(j, JOURNAL_SET_ASIDE, what.records, 0, name);
    else
        tell(j, JOURNAL_FAILED, 0, 0, e.text);
    found(j, &what);
    return r;
}

/* The time of records: the wall clock's when the journal was opened, and not before what is in it; from there
 * on monotonic, so that no jump makes records old. */
static uint64_t now_of(const struct journal *j)
{
    return j->clock_at_0 + clock_monotonic();
}

/* The file's name leads nowhere: what is in it is still ours, and is written again. 0 or -errno. */
static int put_back(struct journal *j)
{
    struct file_found what = {0};
    struct error e;
    int r = file_put_back(&j->file, &what, &e);
    if (r < 0)
        return r;
    found(j, &what);
    tell(j, JOURNAL_PUT_BACK, what.records, 0, j->file.path);
    return 0;
}

struct written {
    uint64_t records, deleted, deleted_bytes, mark;
    uint64_t evicted, evicted_items;
};

/* So that what is to be written fits. */
static int evict(struct journal *j, uint64_t bytes, struct written *w)
{
    struct file_found gone = {0};
    pthread_mutex_lock(&j->lock);
    const uint64_t on_disk = j->disk_bytes - min_of(j->disk_bytes, w->deleted_bytes);
    pthread_mutex_unlock(&j->lock);
    int r = 0;
    while (r == 0 && on_disk - min_of(on_disk, gone.bytes) + bytes > j->options.bytes_max)
        r = file_evict(&j->file, &gone, &w->evicted_items);
    w->evicted = gone.records;
    w->deleted += gone.records;
    w->deleted_bytes += gone.bytes;
    return r == FILE_NO_RECORD ? 0 : r;
}

/* 0, FILE_DAMAGED or -errno. */
static int begin(struct journal *j)
{
    int r = !j->file.db               ? set_aside(j) /* a file that could not be made, once more */
            : file_is_moved(&j->file) ? put_back(j)
                                      : 0;
    return r == 0 ? file_begin(&j->file) : r;
}

/* Numbers that this transaction writes are not added to by others while it is under way, and those that are
 * removed meanwhile stay where they are: only `removed` changes in [first, taken). */
static int write_batch(struct journal *j, uint64_t first, uint64_t end, uint64_t bytes,
                       const uint64_t *removed, uint32_t n_removed, struct written *w)
{
    const uint64_t now = now_of(j);
    *w = (struct written){0};
    int r = begin(j);
    for (uint32_t i = 0; r == 0 && i < n_removed; i++) {
        uint64_t gone;
        r = file_delete(&j->file, removed[i], &gone);
        w->deleted += gone > 0;
        w->deleted_bytes += gone;
    }
    if (r == 0 && j->options.evicts)
        r = evict(j, bytes, w);
    for (uint64_t i = first; r == 0 && i < end; i++) {
        pthread_mutex_lock(&j->lock); /* the ring may move */
        struct waiting one = *at(j, i);
        pthread_mutex_unlock(&j->lock);
        if (!one.done)
            continue;
        r = file_insert(&j->file, i, now, &one.record);
        w->records++;
    }
    pthread_mutex_lock(&j->lock);
    const bool is_marked = j->is_marked;
    w->mark = j->mark;
    pthread_mutex_unlock(&j->lock);
    if (r == 0 && is_marked)
        r = file_mark(&j->file, w->mark);
    if (r == 0)
        r = file_commit(&j->file);
    if (r != 0)
        file_rollback(&j->file);
    return r;
}

static void settle(struct journal *j, uint64_t end, int r)
{
    for (;;) {
        pthread_mutex_lock(&j->lock);
        if (j->first == end) {
            pthread_mutex_unlock(&j->lock);
            break;
        }
        const uint64_t number = j->first++;
        const struct waiting one = *at(j, number);
        at(j, number)->done = NULL;
        if (one.done) {
            j->waiting_bytes -= one.record.body.n;
            j->waiting_records--;
            if (r == 0) {
                j->disk_bytes += one.record.body.n;
                j->disk_records++;
            }
            if (r == 0 && one.removed)
                delete_later(j, number);
        }
        pthread_mutex_unlock(&j->lock);
        if (one.done) {
            go_outside(j);
            budget_refund(j->options.budget, one.record.body.n);
            one.done(one.arg, one.removed ? 0 : r);
            come_back(j);
        }
    }
}

static void fail(struct journal *j, uint64_t bytes)
{
    if (!j->failed)
        j->try_at = clock_monotonic() + TRY_EVERY_NS;
    j->failed_bytes = j->failed ? max_of(j->failed_bytes, bytes) : bytes;
    j->failed = true;
}

/* Of a commit of so many bytes of bodies: one of none says nothing of whether the disk takes a body again. */
static void note_outcome(struct journal *j, const struct written *w, uint64_t bytes, int r)
{
    pthread_mutex_lock(&j->lock);
    const bool is_over = j->failed && r == 0 && bytes > 0;
    if (is_over)
        j->failed = false;
    if (r < 0) {
        fail(j, bytes);
    } else {
        j->disk_bytes -= min_of(j->disk_bytes, w->deleted_bytes);
        j->disk_records -= min_of(j->disk_records, w->deleted);
        j->is_marked &= j->mark != w->mark;
        j->written_mark = w->mark;
    }
    pthread_mutex_unlock(&j->lock);
    if (r < 0)
        tell(j, JOURNAL_FAILED, w->records, 0, strerror(-r));
    else if (is_over)
        tell(j, JOURNAL_RECOVERED, 0, 0, "");
    if (r == 0 && w->evicted > 0)
        tell(j, JOURNAL_EVICTED, w->evicted, w->evicted_items, "");
    if (r == 0 && w->deleted > 0)
        tell(j, JOURNAL_DELETED, w->deleted, 0, "");
}

/* A commit failed: where all that is on disk is to be deleted, a new file needs less room than that. */
static bool renew(struct journal *j, uint64_t *removed, uint32_t n)
{
    pthread_mutex_lock(&j->lock);
    const bool may_be_all = n >= j->disk_records;
    pthread_mutex_unlock(&j->lock);
    if (!may_be_all || !j->file.db || file_renew(&j->file, removed, n) != 0)
        return false;
    pthread_mutex_lock(&j->lock);
    j->disk_bytes = j->disk_records = j->unknown = 0;
    j->is_marked = j->mark > 0;
    j->written_mark = 0;
    pthread_mutex_unlock(&j->lock);
    tell(j, JOURNAL_DELETED, n, 0, "");
    return true;
}

/* One commit. Called with the lock held, which it gives back meanwhile. */
static void commit(struct journal *j)
{
    VEC(uint64_t) removed = {0};
    uint64_t first = j->first, end, bytes = 0;
    for (end = first; end < j->next && bytes < BATCH_BYTES; end++)
        bytes += at(j, end)->done ? at(j, end)->record.body.n : 0;
    j->taken = end;
    memcpy(&removed, &j->removed, sizeof removed);
    memset(&j->removed, 0, sizeof j->removed);
    j->removed_at = 0;
    pthread_mutex_unlock(&j->lock);

    struct written w;
    int r = write_batch(j, first, end, bytes, removed.p, removed.n, &w);
    if (r == FILE_DAMAGED && (r = set_aside(j)) == 0 &&
        (r = write_batch(j, first, end, bytes, removed.p, removed.n, &w)) == FILE_DAMAGED)
        r = -EIO;
    if (r < 0 && renew(j, removed.p, removed.n)) {
        removed.n = 0;
        r = write_batch(j, first, end, bytes, NULL, 0, &w);
        r = r == FILE_DAMAGED ? -EIO : r;
    }
    note_outcome(j, &w, bytes, r);
    settle(j, end, r);

    pthread_mutex_lock(&j->lock);
    for (uint32_t i = 0; r < 0 && i < removed.n; i++) /* another time */
        delete_later(j, removed.p[i]);
    vec_release(&removed);
}

/* Writes as much as could not be written, and deletes it again: whoever is let in after a commit that failed
 * is let in to a disk that takes it, and nobody is refused behind a reservation only to find that out. Called
 * with the lock held, which it gives back meanwhile. */
static void try_again(struct journal *j)
{
    const size_t n = min_of(max_of(j->failed_bytes, (uint64_t)1), (uint64_t)GATHER_BYTES);
    pthread_mutex_unlock(&j->lock);
    int r = begin(j);
    if (r == 0)
        r = file_try(&j->file, n);
    if (r == 0)
        r = file_commit(&j->file);
    if (r != 0)
        file_rollback(&j->file);
    if (r == FILE_DAMAGED)
        r = set_aside(j);
    const bool is_over = r == 0;
    if (!is_over)
        tell(j, JOURNAL_FAILED, 0, 0, strerror(-r));
    else if (file_untry(&j->file) != 0) /* the next one that is tried takes its place */
        file_rollback(&j->file);
    pthread_mutex_lock(&j->lock);
    j->failed = !is_over;
    j->try_at = clock_monotonic() + TRY_EVERY_NS;
    pthread_mutex_unlock(&j->lock);
    if (is_over)
        tell(j, JOURNAL_RECOVERED, 0, 0, "");
    pthread_mutex_lock(&j->lock);
}

static void forget_damaged(struct journal *j, const struct journal_read *r)
{
    tell(j, JOURNAL_DAMAGED, 1, r->items, "");
    journal_remove(j, r->number);
}

static int look_for(struct journal *j, struct journal_read *r)
{
    int done = j->file.db ? 0 : -EIO;
    if (done == 0)
        while ((done = file_next(&j->file, r)) == FILE_BAD_RECORD) {
            forget_damaged(j, r);
            r->after = r->number;
        }
    if (done == FILE_DAMAGED && set_aside(j) == 0)
        done = file_next(&j->file, r);
    return done;
}

static void expire(struct journal *j)
{
    struct file_found gone;
    uint64_t items, now = now_of(j);
    if (!j->options.age_max_ns || !j->file.db || now < j->options.age_max_ns)
        return;
    if (file_expire(&j->file, now - j->options.age_max_ns, &gone, &items) != 0 || gone.records == 0)
        return;
    pthread_mutex_lock(&j->lock);
    j->disk_bytes -= min_of(j->disk_bytes, gone.bytes);
    j->disk_records -= min_of(j->disk_records, gone.records);
    pthread_mutex_unlock(&j->lock);
    tell(j, JOURNAL_EXPIRED, gone.records, items, "");
}

/* The oldest that waits; NULL: none does. Nothing is being written: empty places before it are given up. */
static const struct waiting *oldest(struct journal *j)
{
    while (j->first < j->next && !at(j, j->first)->done)
        j->first++;
    j->taken = j->first;
    return j->first < j->next ? at(j, j->first) : NULL;
}

/* When the thread has to look next although nobody calls it. Under the lock. */
static uint64_t wake_at(struct journal *j, uint64_t next_expiry)
{
    const struct waiting *first = oldest(j);
    uint64_t t = first ? min_of(next_expiry, first->due_ns) : next_expiry;
    if (j->removed_at > 0)
        t = min_of(t, j->removed_at + DELETE_WAIT_NS);
    if (j->failed)
        t = min_of(t, j->try_at);
    return t;
}

static bool must_write(struct journal *j)
{
    const struct waiting *first = oldest(j);
    return first && (j->closing || j->waiting_bytes >= GATHER_BYTES || clock_monotonic() >= first->due_ns);
}

static bool must_commit(struct journal *j)
{
    return must_write(j) || (j->closing && j->is_marked) || is_first_mark(j) ||
           (j->removed.n >= DELETE_MANY && !j->failed) ||
           (j->removed.n > 0 && (j->closing || clock_monotonic() >= j->removed_at + DELETE_WAIT_NS));
}

/* What is on disk is read without a commit, so that a disk that takes nothing still gives. What waits has
 * higher numbers than all of it: it is written when there is nothing else. Called with the lock held, which
 * it gives back meanwhile. */
static void answer(struct journal *j)
{
    struct journal_read *r = STAILQ_FIRST(&j->reads);
    STAILQ_REMOVE_HEAD(&j->reads, next);
    pthread_mutex_unlock(&j->lock);
    int done = look_for(j, r);
    pthread_mutex_lock(&j->lock);
    const bool is_again = done == FILE_NO_RECORD && oldest(j);
    if (is_again)
        commit(j);
    pthread_mutex_unlock(&j->lock);
    if (is_again)
        done = look_for(j, r);
    r->failed = done != 0 && done != FILE_NO_RECORD;
    if (done != 0)
        r->number = 0;
    go_outside(j);
    r->done(r);
    come_back(j);
    pthread_mutex_lock(&j->lock);
}

static uint64_t look_every(const struct journal *j)
{
    const uint64_t age = j->options.age_max_ns;
    return age > 0 ? min_of(LOOK_EVERY_NS, age / 4 + NSEC_PER_MSEC) : LOOK_EVERY_NS;
}

static void *run(void *arg)
{
    struct journal *j = arg;
    uint64_t next_expiry = clock_monotonic() + look_every(j);
    if (j->options.begin)
        j->options.begin();
    pthread_mutex_lock(&j->lock);
    for (;;) {
        if (must_commit(j) && !(j->closing && j->failed && j->next == j->first)) {
            commit(j);
        } else if (j->failed && !j->closing && clock_monotonic() >= j->try_at) {
            try_again(j);
        } else if (!STAILQ_EMPTY(&j->reads)) {
            answer(j);
        } else if (j->closing) {
            break;
        } else if (clock_monotonic() >= next_expiry) {
            pthread_mutex_unlock(&j->lock);
            if (file_is_moved(&j->file))
                (void)put_back(j); /* where it cannot be, the next commit says so */
            expire(j);
            next_expiry = clock_monotonic() + look_every(j);
            pthread_mutex_lock(&j->lock);
        } else {
            condition_wait(&j->work, &j->lock, wake_at(j, next_expiry));
        }
    }
    pthread_mutex_unlock(&j->lock);
    file_close(&j->file); /* the log goes into the file: this waits for the disk, too */
    tell(j, JOURNAL_OVER, 0, 0, "");
    return NULL;
}

/* ---- life ---- */

static void release(struct journal *j)
{
    file_close(&j->file);
    pthread_cond_destroy(&j->work);
    pthread_mutex_destroy(&j->lock);
    pthread_mutex_destroy(&j->outside);
    vec_release(&j->removed);
    free(j->ring);
    free(j);
}

static int open_file(struct journal *j, struct error *e)
{
    const struct journal_options *o = &j->options;
    char path[4096];
    struct file_found what = {0};
    if (snprintf(path, sizeof path, "%s/%s.sqlite", o->folder, o->name) >= (int)sizeof path)
        return error_set(e, -ENAMETOOLONG, "the storage's name is too long");
    if (mkdir(o->folder, 0700) < 0 && errno != EEXIST)
        return error_set(e, -errno, "%s cannot be made: %s", o->folder, strerror(errno));
    int r = file_open(&j->file, path, &what, e);
    if (r == FILE_DAMAGED)
        r = set_aside(j) < 0
                ? error_set(e, -EIO, "%s is damaged, and no other can be made in its place", path)
                : 0;
    else if (r == 0)
        found(j, &what);
    return r;
}

int journal_open(struct journal **ret, const struct journal_options *options, struct error *e)
{
    struct journal *j = calloc(1, sizeof *j);
    if (!j)
        return error_set(e, -ENOMEM, "out of memory");
    j->options = *options;
    j->file.lock = -1;
    STAILQ_INIT(&j->reads);
    j->first = j->taken = j->next = 1;
    pthread_mutex_init(&j->lock, NULL);
    pthread_mutex_init(&j->outside, NULL);
    pthread_cond_init(&j->work, NULL);
    int r = open_file(j, e);
    if (r == 0) {
        expire(j);
        r = make_places(j, 1);
    }
    if (r == 0 && (r = thread_begin(&j->thread, NULL, "journal", run, j)) < 0)
        error_set(e, r, "no thread for the journal: %s", strerror(-r));
    if (r < 0) {
        release(j);
        return error_memory(e, r);
    }
    *ret = j;
    return 0;
}

void journal_end(struct journal *j)
{
    autolock(&j->lock);
    j->closing = true;
    pthread_cond_signal(&j->work);
}

void journal_leave(struct journal *j)
{
    autolock(&j->outside);
    j->left = true;
}

struct journal *journal_close(struct journal *j)
{
    if (!j)
        return NULL;
    journal_end(j);
    pthread_join(j->thread, NULL);
    release(j);
    return NULL;
}
