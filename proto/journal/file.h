/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file of a journal, in SQLite: one table, a row a record. One thread at a time. Private to the journal.
 *
 *     record(id INTEGER PRIMARY KEY, kind, at, items, info, n, sum INTEGER, body BLOB)
 *
 * `at` is the time in ns when it was added (journal.c says by which clock), n the length of the body, `sum`
 * XXH3 of all of it: SQLite does not checksum its main file. application_id names the format, user_version
 * its version, which only changes where an older program could not even leave new records alone.
 */
#ifndef PROTO_JOURNAL_FILE_H
#define PROTO_JOURNAL_FILE_H

#include "proto/base/error.h"
#include "proto/journal/record.h"

#define FILE_FORMAT  0x50474a4c /* "PGJL" */
#define FILE_VERSION 1

struct sqlite3;
struct sqlite3_stmt;

enum {
    FILE_BEGIN,
    FILE_COMMIT,
    FILE_ROLLBACK,
    FILE_INSERT,
    FILE_DELETE,
    FILE_NEXT,
    FILE_EXPIRE,
    FILE_EVICT,
    FILE_STATEMENTS
};

struct file {
    char *path;
    int lock; /* a file beside it, flock(2)ed */
    struct sqlite3 *db;
    struct sqlite3_stmt *statement[FILE_STATEMENTS];
};

/* Conditions. */
enum {
    FILE_DAMAGED = 1,    /* what is in the file cannot be right: file_set_aside */
    FILE_NO_RECORD = 2,  /* there is none */
    FILE_BAD_RECORD = 3, /* a record's checksum is wrong */
    FILE_IS_NEEDED = 4,  /* it holds more */
};

/* What is in it; last: the highest number; newest: the highest time. */
struct file_found {
    uint64_t records, bytes, unknown, last, newest, mark;
};

/* 0, FILE_DAMAGED (then only file_set_aside or file_close), or -errno with *e (released). `path` is
 * copied. */
int file_open(struct file *f, const char *path, struct file_found *found, struct error *e);
void file_close(struct file *f);

/* All of these: 0, FILE_DAMAGED or -errno. Between begin and commit nothing is safe; after a failure the
 * caller rolls back. */
int file_begin(struct file *f);
int file_insert(struct file *f, uint64_t number, uint64_t at, const struct journal_record *r);
int file_commit(struct file *f);
void file_rollback(struct file *f);

/* Likewise; *bytes: of the body that is gone, 0 if there was none. */
int file_delete(struct file *f, uint64_t number, uint64_t *bytes);

/* The next one; the body is appended. 0, FILE_NO_RECORD, FILE_BAD_RECORD (its number, items are set, if not
 * right), FILE_DAMAGED or -errno. */
int file_next(struct file *f, struct journal_read *r);

/* The record of the mark, which has the number FILE_MARK. */
#define FILE_MARK 0
int file_mark(struct file *f, uint64_t mark);

/* Between begin and commit: a record of n bytes that nobody reads, with the number FILE_TRIED (SQLite's are
 * signed); only to see whether there is room. Then without: the same in a transaction of its own. */
#define FILE_TRIED UINT64_MAX
int file_try(struct file *f, size_t n);
int file_untry(struct file *f);

/* Deletes what is older. *ret counts it. */
int file_expire(struct file *f, uint64_t before, struct file_found *ret, uint64_t *items);

/* Deletes the oldest, added to *ret. 0, FILE_NO_RECORD, FILE_DAMAGED or -errno. */
int file_evict(struct file *f, struct file_found *ret, uint64_t *items);

/* Begins a new file in place of one of which everything is to be deleted (numbers, which are sorted): where
 * the disk is full, deletions need room, too. 0, FILE_IS_NEEDED: something else is in it, or -errno (then
 * there may be no file). */
int file_renew(struct file *f, uint64_t *numbers, uint32_t n);

/* Whether its path names another file now, or none: somebody removed it, or its folder. */
bool file_is_moved(struct file *f);

/* Then: makes the folder again if need be, and writes what is in the file into a new one of its name; one
 * that stands there keeps what it has under another name. 0, or -errno with *e: everything is as before. */
int file_put_back(struct file *f, struct file_found *found, struct error *e);

/* Gives the damaged file another name (in `name`), begins a new one, and takes over each record that can
 * still be read. 0 or -errno with *e: the disk does not want any of it. */
int file_set_aside(struct file *f, char *name, size_t name_max, struct file_found *found, struct error *e);

#endif
