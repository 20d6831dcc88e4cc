/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests on disk until they are settled: what was acknowledged outlives kill -9 and a power failure.
 *
 * A record is added under a reservation, from any thread; a thread of the journal's own writes what has come
 * in together, in one commit with one fsync(2), and says so to each. A record that is removed before its turn
 * came is never written: who delivers faster than the disk syncs pays for no disk. Records are read back in
 * the order of their numbers, which only ascend.
 *
 * One file a journal (file.h says what is in it), one process a file. Nothing here waits for the disk but
 * open and close: whoever cannot wait for ever, as a disk may take, calls journal_end before, and
 * journal_leave in place of close when he has waited long enough.
 */
#ifndef PROTO_JOURNAL_JOURNAL_H
#define PROTO_JOURNAL_JOURNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/base/budget.h"
#include "proto/base/error.h"
#include "proto/journal/record.h"

struct journal;

/* What happened to the file or in it, told on the journal's thread (or inside journal_open). */
enum journal_event_kind {
    JOURNAL_PUT_BACK,  /* the file was removed or replaced: what was in it is written anew */
    JOURNAL_SET_ASIDE, /* the file was damaged: it has another name now (text), what could be read goes on */
    JOURNAL_DAMAGED,   /* records whose checksum is wrong were dropped */
    JOURNAL_EXPIRED,   /* records were older than age_max_ns */
    JOURNAL_EVICTED,   /* the oldest records made room (options.evicts) */
    JOURNAL_FAILED,    /* a commit failed (text): what was in it is not on disk */
    JOURNAL_RECOVERED, /* commits succeed again */
    JOURNAL_DELETED,   /* records that were removed are gone: there is more room */
    JOURNAL_OVER,      /* after journal_end: all is written, journal_close will not wait */
};
struct journal_event {
    enum journal_event_kind kind;
    uint64_t records, items;
    const char *text;
};

struct journal_options {
    const char *folder;    /* made, if its parent is there */
    const char *name;      /* of the file in it, without an ending */
    uint64_t bytes_max;    /* of bodies: reserved, waiting and on disk */
    uint64_t waiting_max;  /* of these, in memory for the thread; charged to the budget */
    uint64_t age_max_ns;   /* 0: for ever. While this process runs the wall clock may jump as it likes */
    uint64_t gather_ns;    /* how long one may wait for company, or to be removed before it is written */
    bool evicts;           /* what is beyond bytes_max takes the place of the oldest, and is not refused */
    struct budget *budget; /* NULL: unlimited */
    uint64_t (*realtime)(void); /* NULL: the clock; read once, when it is opened */
    void (*begin)(void); /* first thing on the thread: who gives up rights does so there; may be NULL */
    void (*tell)(void *user, const struct journal_event *event); /* may be NULL */
    void *user;
};

/* Opens or makes the file. 0, or negative with *e: -EBUSY another process has it, -EINVAL a newer program
 * wrote it in a way that this one cannot keep, or an errno of the disk. */
int journal_open(struct journal **ret, const struct journal_options *options, struct error *e);

/* Writes what waits, then closes. NULL is fine. Returns NULL. */
struct journal *journal_close(struct journal *j);

/* From now on what waits is written at once, and then JOURNAL_OVER is told. Does not wait. */
void journal_end(struct journal *j);

/* After journal_end: leaves it to itself, because the disk does not answer. Nothing is called or touched any
 * more but the journal, which is not freed, and the bodies and reads that it was given, which may not be
 * either: for a process that ends. */
void journal_leave(struct journal *j);

/* Room for a record of n bytes; or nothing and false: full (with `evicts` of what waits alone), or the disk
 * took nothing, and has not yet when the journal tried it again, once a second. Reservations are sums, as
 * those of proto/client/client.h. Any thread. */
bool journal_reserve(struct journal *j, size_t n);
void journal_cancel(struct journal *j, size_t n);

/* Adds one under a reservation of `reserved` >= body.n bytes. The body stays in place until done(arg, r),
 * which is called once: r is 0 when the record is safe (on disk, or removed), else -errno: it is not there,
 * and its number means nothing any more. `done` comes from the journal's thread, or from inside
 * journal_remove; it may call anything of this header but close. Returns the record's number, which is above
 * 0. Any thread. */
uint64_t journal_add(struct journal *j, const struct journal_record *record, size_t reserved,
                     void (*done)(void *arg, int r), void *arg);

/* The record is settled: it is deleted with one of the next commits. Deletions alone wait a moment for
 * company, so that a crash may bring some back. Any thread. */
void journal_remove(struct journal *j, uint64_t number);

/* Reads the next record of r->kind behind r->after from the disk; where there is none, what waits is written
 * first. One that was removed may be read until its deletion is committed. `r` stays in place until `done`.
 * Any thread. */
void journal_read(struct journal *j, struct journal_read *r);

/* A number for the next process, 0: none. It is written with the next commit (and so with what is added
 * behind this call), soon where none is on disk yet, and at the latest by close. Any thread. */
void journal_mark(struct journal *j, uint64_t mark);

struct journal_counts {
    uint64_t records, bytes;         /* waiting and on disk */
    uint64_t waiting, waiting_bytes; /* of these, not on disk yet: no commit that took them is over */
    uint64_t unknown;                /* records of kinds that this program does not know */
    uint64_t last;                   /* the number of the last record added */
    uint64_t mark;                   /* as journal_mark was called last; 0: never */
};
/* Any thread. */
struct journal_counts journal_counts(struct journal *j);

#endif
