/* SPDX-License-Identifier: Apache-2.0 */
/*
 * WAL with synchronous=FULL: a commit is one append to the log and one fsync(2) of it, and is there after a
 * power failure. locking_mode=EXCLUSIVE keeps the index of the log on the heap. Pages are large, because
 * bodies are: what is paid by page (a frame's header, a link of the chain) is paid less often.
 */
#include "proto/journal/file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proto/base/clock.h"
#include "proto/base/hash.h"
#include "proto/base/library/library.h"
#include "proto/base/macros.h"
#include "proto/sqlite/result.h"

/* A file that holds nothing may keep so much. */
#define KEEP_BYTES (16 << 20)

static const char settings[] =
    "PRAGMA page_size=16384; PRAGMA locking_mode=EXCLUSIVE; PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL;"
    "PRAGMA wal_autocheckpoint=512; PRAGMA journal_size_limit=16777216; PRAGMA cache_size=-1024;"
    "PRAGMA temp_store=MEMORY; PRAGMA trusted_schema=OFF; PRAGMA cell_size_check=ON";

static const char table[] =
    "CREATE TABLE IF NOT EXISTS record(id INTEGER PRIMARY KEY, kind INTEGER NOT NULL, at INTEGER NOT NULL,"
    " items INTEGER NOT NULL, info INTEGER NOT NULL, n INTEGER NOT NULL, sum INTEGER NOT NULL,"
    " body BLOB NOT NULL)";

static const char *const statements[FILE_STATEMENTS] = {
    [FILE_BEGIN] = "BEGIN IMMEDIATE",
    [FILE_COMMIT] = "COMMIT",
    [FILE_ROLLBACK] = "ROLLBACK",
    [FILE_INSERT] = "INSERT OR REPLACE INTO record VALUES(?,?,?,?,?,?,?,?)",
    [FILE_DELETE] = "DELETE FROM record WHERE id=? RETURNING n",
    [FILE_NEXT] =
        "SELECT id,kind,at,items,info,n,sum,body FROM record WHERE id>? AND kind=? ORDER BY id LIMIT 1",
    [FILE_EXPIRE] = "DELETE FROM record WHERE at<? AND kind IN (1,2) RETURNING n,items",
    [FILE_EVICT] = ("DELETE FROM record WHERE id=(SELECT min(id) FROM record WHERE id>0 AND kind IN (1,2))"
                    " RETURNING n,items"),
};

/* 0, FILE_DAMAGED or -errno. */
static int result(const struct file *f, int rc)
{
    return sqlite_result(f->db, rc, FILE_DAMAGED);
}

static uint64_t sum_of(uint64_t number, uint64_t at, const struct journal_record *r)
{
    const uint64_t head[] = {number, (uint64_t)r->kind, at, r->items, r->info, r->body.n};
    return hash_bytes(r->body, hash_bytes(bytes_of(head, sizeof head), FILE_FORMAT));
}

/* ---- statements ---- */

static void bind(struct sqlite3_stmt *s, int at, uint64_t v)
{
    sqlite3_bind_int64(s, at, (int64_t)v);
}

static uint64_t column(struct sqlite3_stmt *s, int at)
{
    return (uint64_t)sqlite3_column_int64(s, at);
}

static int run(struct file *f, int which)
{
    int rc = sqlite3_step(f->statement[which]);
    int r = result(f, rc);
    sqlite3_reset(f->statement[which]);
    return r;
}

int file_begin(struct file *f)
{
    return run(f, FILE_BEGIN);
}

int file_commit(struct file *f)
{
    return run(f, FILE_COMMIT);
}

void file_rollback(struct file *f)
{
    if (f->db && !sqlite3_get_autocommit(f->db))
        run(f, FILE_ROLLBACK);
}

int file_insert(struct file *f, uint64_t number, uint64_t at, const struct journal_record *r)
{
    struct sqlite3_stmt *s = f->statement[FILE_INSERT];
    bind(s, 1, number);
    bind(s, 2, r->kind);
    bind(s, 3, at);
    bind(s, 4, r->items);
    bind(s, 5, r->info);
    bind(s, 6, r->body.n);
    bind(s, 7, sum_of(number, at, r));
    sqlite3_bind_blob64(s, 8, r->body.n ? (const void *)r->body.p : "", r->body.n, SQLITE_STATIC);
    int done = run(f, FILE_INSERT);
    sqlite3_clear_bindings(s);
    return done;
}

int file_mark(struct file *f, uint64_t mark)
{
    return file_insert(f, FILE_MARK, 0, &(struct journal_record){.kind = JOURNAL_MARK, .info = mark});
}

int file_try(struct file *f, size_t n)
{
    autofree uint8_t *body = calloc(1, n);
    return body ? file_insert(f, FILE_TRIED, 0,
                              &(struct journal_record){.kind = JOURNAL_MARK, .body = bytes_of(body, n)})
                : -ENOMEM;
}

int file_delete(struct file *f, uint64_t number, uint64_t *bytes)
{
    struct sqlite3_stmt *s = f->statement[FILE_DELETE];
    bind(s, 1, number);
    *bytes = 0;
    int rc;
    while ((rc = sqlite3_step(s)) == SQLITE_ROW)
        *bytes += column(s, 0);
    int r = result(f, rc);
    sqlite3_reset(s);
    return r;
}

int file_untry(struct file *f)
{
    uint64_t unused;
    int r = file_begin(f);
    if (r == 0)
        r = file_delete(f, FILE_TRIED, &unused);
    return r == 0 ? file_commit(f) : r;
}

/* The row that a statement of FILE_NEXT's columns stands on, into *r. 0, FILE_BAD_RECORD or -ENOMEM. */
static int read_row(struct sqlite3_stmt *s, struct journal_read *r, uint64_t *at)
{
    const void *body = sqlite3_column_blob(s, 7);
    const struct journal_record record = {
        .kind = (enum journal_kind)column(s, 1),
        .items = column(s, 3),
        .info = column(s, 4),
        .body = bytes_of(body, (size_t)sqlite3_column_bytes(s, 7)),
    };
    r->number = column(s, 0);
    r->kind = record.kind;
    r->items = record.items;
    r->info = record.info;
    *at = column(s, 2);
    if (column(s, 5) != record.body.n || column(s, 6) != sum_of(r->number, *at, &record))
        return FILE_BAD_RECORD;
    return buffer_add(&r->body, record.body.p, record.body.n);
}

int file_next(struct file *f, struct journal_read *r)
{
    struct sqlite3_stmt *s = f->statement[FILE_NEXT];
    uint64_t at;
    bind(s, 1, r->after);
    bind(s, 2, r->kind);
    int rc = sqlite3_step(s);
    int done = rc == SQLITE_ROW ? read_row(s, r, &at) : rc == SQLITE_DONE ? FILE_NO_RECORD : result(f, rc);
    sqlite3_reset(s);
    return done;
}

int file_expire(struct file *f, uint64_t before, struct file_found *ret, uint64_t *items)
{
    struct sqlite3_stmt *s = f->statement[FILE_EXPIRE];
    int rc;
    *ret = (struct file_found){0};
    *items = 0;
    bind(s, 1, before);
    while ((rc = sqlite3_step(s)) == SQLITE_ROW) {
        ret->records++;
        ret->bytes += column(s, 0);
        *items += column(s, 1);
    }
    int r = result(f, rc);
    sqlite3_reset(s);
    return r;
}

int file_evict(struct file *f, struct file_found *ret, uint64_t *items)
{
    struct sqlite3_stmt *s = f->statement[FILE_EVICT];
    int rc, n = 0;
    for (; (rc = sqlite3_step(s)) == SQLITE_ROW; n++) {
        ret->records++;
        ret->bytes += column(s, 0);
        *items += column(s, 1);
    }
    int r = result(f, rc);
    sqlite3_reset(s);
    return r != 0 ? r : n > 0 ? 0 : FILE_NO_RECORD;
}

/* ---- opening ---- */

static int execute(struct file *f, const char *sql)
{
    return result(f, sqlite3_exec(f->db, sql, NULL, NULL, NULL));
}

/* 0, FILE_DAMAGED or -errno. */
static int number_of(struct file *f, const char *sql, uint64_t ret[5])
{
    struct sqlite3_stmt *s;
    int rc = sqlite3_prepare_v2(f->db, sql, -1, &s, NULL);
    if (rc == SQLITE_OK)
        rc = sqlite3_step(s);
    for (int i = 0; rc == SQLITE_ROW && i < sqlite3_column_count(s); i++)
        ret[i] = column(s, i);
    int r = result(f, rc);
    sqlite3_finalize(s);
    return r;
}

/* Where nothing is in it any more: gives the disk back what the file took. */
static int shrink(struct file *f)
{
    uint64_t pages[5] = {0}, size[5] = {0};
    int r = number_of(f, "PRAGMA page_count", pages);
    if (r == 0)
        r = number_of(f, "PRAGMA page_size", size);
    if (r == 0 && pages[0] * size[0] > KEEP_BYTES)
        r = execute(f, "VACUUM; PRAGMA wal_checkpoint(TRUNCATE)");
    return r;
}

static void close_db(struct file *f)
{
    if (!f->db)
        return;
    for (int i = 0; i < FILE_STATEMENTS; i++) {
        sqlite3_finalize(f->statement[i]);
        f->statement[i] = NULL;
    }
    sqlite3_close(f->db);
    f->db = NULL;
}

/* The format and its version, which a new file is given. */
static int check_format(struct file *f, struct error *e)
{
    uint64_t format[5] = {0}, version[5] = {0}, tables[5] = {0};
    int r = number_of(f, "PRAGMA application_id", format);
    if (r == 0)
        r = number_of(f, "PRAGMA user_version", version);
    if (r == 0)
        r = number_of(f, "SELECT count(*) FROM sqlite_schema", tables);
    if (r != 0)
        return r;
    if (format[0] == 0 && tables[0] == 0) {
        char sql[128];
        snprintf(sql, sizeof sql, "PRAGMA application_id=%d; PRAGMA user_version=%d", FILE_FORMAT,
                 FILE_VERSION);
        return execute(f, sql);
    }
    if (format[0] != FILE_FORMAT)
        return error_set(e, -EINVAL, "%s is a database of something else", f->path);
    if (version[0] > FILE_VERSION)
        return error_set(e, -EINVAL,
                         "%s has version %" PRIu64 ", this program keeps %d: a newer one wrote it", f->path,
                         version[0], FILE_VERSION);
    return 0;
}

/* Walks the table's own pages, so that what is wrong with these is found out here. */
static int look(struct file *f, struct file_found *found)
{
    uint64_t v[5] = {0}, mark[5] = {0};
    int r =
        number_of(f,
                  "SELECT count(*), ifnull(sum(n),0), ifnull(sum(kind NOT IN (1,2)),0), ifnull(max(id),0),"
                  " ifnull(max(at),0)"
                  " FROM record WHERE id>0",
                  v);
    if (r == 0)
        r = number_of(f, "SELECT info FROM record WHERE id=0 AND kind=3", mark);
    *found = (struct file_found){v[0], v[1], v[2], v[3], v[4], mark[0]};
    return r;
}

/* For nobody else to read, whatever the folder is; SQLite gives the log the same mode. */
static int make_private(const char *path)
{
    autoclose int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    return fd < 0 ? -errno : 0;
}

static int open_db(struct file *f, struct file_found *found, struct error *e)
{
    int r = make_private(f->path);
    if (r == 0)
        r = result(f,
                   sqlite3_open_v2(f->path, &f->db,
                                   SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, NULL));
    if (r == 0)
        r = execute(f, settings);
    if (r == 0)
        r = check_format(f, e);
    if (r == 0)
        r = execute(f, table);
    for (int i = 0; r == 0 && i < FILE_STATEMENTS; i++)
        r = result(f, sqlite3_prepare_v3(f->db, statements[i], -1, SQLITE_PREPARE_PERSISTENT,
                                         &f->statement[i], NULL));
    if (r == 0)
        r = look(f, found);
    if (r == 0 && found->records == 0)
        r = shrink(f);
    if (r < 0 && e && !e->text[0])
        error_set(e, r, "%s: %s", f->path, strerror(-r));
    if (r != 0)
        close_db(f);
    return r;
}

/* The lock is a file of its own, so that it stays whatever becomes of the other. */
static int take_lock(struct file *f, struct error *e)
{
    char name[4096];
    snprintf(name, sizeof name, "%s.lock", f->path);
    f->lock = open(name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (f->lock < 0)
        return error_set(e, -errno, "%s: %s", name, strerror(errno));
    if (flock(f->lock, LOCK_EX | LOCK_NB) < 0)
        return error_set(e, -EBUSY, "%s is in use by another process", f->path);
    return 0;
}

int file_open(struct file *f, const char *path, struct file_found *found, struct error *e)
{
    *f = (struct file){.lock = -1};
    error_clear(e);
    int r = library_load(&library_sqlite3, e);
    if (r < 0)
        return r;
    f->path = strdup(path);
    r = f->path ? take_lock(f, e) : error_set(e, -ENOMEM, "out of memory");
    if (r == 0)
        r = open_db(f, found, e);
    if (r < 0)
        file_close(f);
    return r;
}

void file_close(struct file *f)
{
    close_db(f);
    if (f->lock >= 0)
        close(f->lock);
    f->lock = -1;
    free(take_ptr(f->path));
}

/* ---- a full disk ---- */

static int by_number(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return order_of(x, y);
}

static int remove_file(const char *path, const char *ending)
{
    char name[4096];
    snprintf(name, sizeof name, "%s%s", path, ending);
    return unlink(name) == 0 || errno == ENOENT ? 0 : -errno;
}

int file_renew(struct file *f, uint64_t *numbers, uint32_t n)
{
    struct sqlite3_stmt *s;
    struct file_found none;
    bool is_needed = false;
    int rc = sqlite3_prepare_v2(f->db, "SELECT id FROM record WHERE id>0", -1, &s, NULL);
    if (n > 0)
        qsort(numbers, n, sizeof *numbers, by_number);
    while (rc == SQLITE_OK && !is_needed && (rc = sqlite3_step(s)) == SQLITE_ROW) {
        const uint64_t id = column(s, 0);
        is_needed = n == 0 || !bsearch(&id, numbers, n, sizeof id, by_number);
        rc = SQLITE_OK;
    }
    sqlite3_finalize(s);
    if (is_needed || rc != SQLITE_DONE)
        return FILE_IS_NEEDED;
    close_db(f);
    /* The log last: SQLite forgets one without a file, and a file without its log may be half of one. */
    int r = remove_file(f->path, "");
    if (r == 0)
        r = remove_file(f->path, "-wal");
    if (r == 0)
        r = open_db(f, &none, NULL);
    return r > 0 ? -EIO : r;
}

/* ---- a damaged file ---- */

/* Copies records in one direction until the file cannot be read on. Returns the last number read; *failed:
 * not all of what was read could be written. */
static uint64_t copy_rows(struct file *to, struct sqlite3 *from, bool backwards, uint64_t beyond,
                          bool *failed)
{
    struct sqlite3_stmt *s;
    const char *sql = backwards
                          ? "SELECT id,kind,at,items,info,n,sum,body FROM record WHERE id>? ORDER BY id DESC"
                          : "SELECT id,kind,at,items,info,n,sum,body FROM record WHERE id>? ORDER BY id";
    if (sqlite3_prepare_v2(from, sql, -1, &s, NULL) != SQLITE_OK)
        return beyond;
    bind(s, 1, beyond);
    while (sqlite3_step(s) == SQLITE_ROW) {
        struct journal_read r = {.body = BUFFER_INIT(0)};
        uint64_t at;
        if (read_row(s, &r, &at) == 0 &&
            file_insert(to, r.number, at,
                        &(struct journal_record){r.kind, r.items, r.info, buffer_bytes(&r.body)}) != 0) {
            buffer_release(&r.body);
            *failed = true;
            break;
        }
        beyond = r.number;
        buffer_release(&r.body);
    }
    sqlite3_finalize(s);
    return beyond;
}

/* What can still be read of it. */
static void salvage(struct file *f, const char *name)
{
    struct sqlite3 *from;
    bool failed = false; /* what there is no room for stays in the other one */
    int rc = sqlite3_open_v2(name, &from, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL);
    /* With writable_schema SQLite reads a file that is shorter than its head says. */
    if (rc == SQLITE_OK &&
        sqlite3_exec(from, "PRAGMA locking_mode=EXCLUSIVE; PRAGMA writable_schema=ON", NULL, NULL, NULL) ==
            SQLITE_OK &&
        file_begin(f) == 0) {
        uint64_t last = copy_rows(f, from, false, UINT64_MAX, &failed); /* -1 to SQLite: the mark, too */
        copy_rows(f, from, true, last, &failed);
        if (file_commit(f) != 0)
            file_rollback(f);
    }
    sqlite3_close(from);
}

static int move(const char *from, const char *to, const char *ending)
{
    char a[4096], b[4096];
    snprintf(a, sizeof a, "%s%s", from, ending);
    snprintf(b, sizeof b, "%s%s", to, ending);
    return rename(a, b) == 0 || errno == ENOENT ? 0 : -errno;
}

int file_set_aside(struct file *f, char *name, size_t name_max, struct file_found *found, struct error *e)
{
    close_db(f);
    snprintf(name, name_max, "%s.damaged-%" PRIu64, f->path, clock_realtime() / NSEC_PER_MSEC);
    int r = move(f->path, name, "");
    if (r == 0)
        r = move(f->path, name, "-wal");
    if (r == 0)
        r = move(f->path, name, "-shm");
    if (r < 0)
        return error_set(e, r, "%s is damaged and cannot be renamed: %s", f->path, strerror(-r));
    error_clear(e);
    r = open_db(f, found, e);
    if (r == FILE_DAMAGED)
        return error_set(e, -EIO, "%s: a new file cannot be read either", f->path);
    if (r < 0)
        return r;
    salvage(f, name);
    r = look(f, found);
    return r == FILE_DAMAGED ? error_set(e, -EIO, "%s: a new file cannot be read", f->path) : r;
}

/* ---- a file that is gone ---- */

bool file_is_moved(struct file *f)
{
    int moved = 0;
    return f->db && sqlite3_file_control(f->db, "main", SQLITE_FCNTL_HAS_MOVED, &moved) == SQLITE_OK && moved;
}

static int make_folder(const char *path)
{
    const char *slash = strrchr(path, '/');
    char folder[4096];
    snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash - path) : 1, slash ? path : ".");
    return mkdir(folder, 0700) == 0 || errno == EEXIST ? 0 : -errno;
}

/* What the file holds, which nobody finds by its name any more, in a new one beside where it was. */
static int copy_beside(struct file *f, struct file *beside)
{
    struct file_found none;
    bool failed = false;
    int r = remove_file(beside->path, "");
    if (r == 0)
        r = remove_file(beside->path, "-wal");
    if (r == 0)
        r = open_db(beside, &none, NULL);
    if (r == 0)
        r = file_begin(beside);
    if (r == 0)
        copy_rows(beside, f->db, false, UINT64_MAX, &failed);
    if (r == 0)
        r = failed ? -ENOSPC : file_commit(beside);
    file_rollback(beside);
    close_db(beside); /* its log goes into it */
    return r > 0 ? -EIO : r;
}

/* The old one must be closed before another has its name: SQLite removes logs by their names. */
static int take_place(struct file *f, const char *beside, struct file_found *found)
{
    char replaced[4096];
    snprintf(replaced, sizeof replaced, "%s.replaced-%" PRIu64, f->path, clock_realtime() / NSEC_PER_MSEC);
    int r = move(f->path, replaced, "");
    if (r < 0)
        return r;
    close_db(f);
    r = rename(beside, f->path) == 0 ? 0 : -errno;
    if (r == 0)
        r = open_db(f, found, NULL);
    return r > 0 ? -EIO : r;
}

/* Whether the lock's name still leads to the one we hold: it goes with the folder. */
static bool is_our_lock(const struct file *f)
{
    char name[4096];
    struct stat ours, there;
    snprintf(name, sizeof name, "%s.lock", f->path);
    return fstat(f->lock, &ours) == 0 && stat(name, &there) == 0 && ours.st_ino == there.st_ino &&
           ours.st_dev == there.st_dev;
}

int file_put_back(struct file *f, struct file_found *found, struct error *e)
{
    char name[4096];
    snprintf(name, sizeof name, "%s.new", f->path);
    struct file beside = {.path = name, .lock = -1}, again = {.path = f->path, .lock = -1};
    int r = make_folder(f->path);
    if (r < 0)
        return error_set(e, r, "%s was removed: %s", f->path, strerror(-r));
    error_clear(e);
    if (!is_our_lock(f) && (r = take_lock(&again, e)) < 0) {
        if (again.lock >= 0)
            close(again.lock);
        return r;
    }
    r = copy_beside(f, &beside);
    if (r == 0)
        r = take_place(f, name, found);
    if (again.lock >= 0) {
        close(f->lock);
        f->lock = again.lock;
    }
    return r < 0 ? error_set(e, r, "%s was removed: %s", f->path, strerror(-r)) : 0;
}
