/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A record of a journal, and the question for the next one.
 */
#ifndef PROTO_JOURNAL_RECORD_H
#define PROTO_JOURNAL_RECORD_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "proto/base/buffer.h"

/* What a record is, as everybody who opens the file must agree; others are left alone and counted. */
enum journal_kind { JOURNAL_PROFILES = 1, JOURNAL_METRICS = 2, JOURNAL_MARK = 3 };

struct journal_record {
    enum journal_kind kind;
    uint64_t items; /* samples or points, for who counts what is lost */
    uint64_t info;  /* the caller's own */
    struct bytes body;
};

/* The next record of a kind behind a number, from the disk. */
struct journal_read {
    enum journal_kind kind;
    uint64_t after;
    void (*done)(struct journal_read *r); /* on the journal's thread */
    uint64_t number;                      /* the answer; 0: there is none */
    bool failed;                          /* or it could not be read now */
    uint64_t items, info;
    struct buffer body; /* the caller's, to be released */
    STAILQ_ENTRY(journal_read) next;
};

#endif
