/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How far one partition was read, counted, handed over and committed. Pure; private to this folder.
 *
 * Messages are taken in the order of their offsets and done in any; what counts is the first that is not.
 * When all before an offset is done is noted with its time, so that the end of a window tells which offset it
 * has.
 */
#ifndef GATEWAY_KAFKA_PROGRESS_H
#define GATEWAY_KAFKA_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

/* Between two notes; what was done in between belongs to the later one. */
#define PROGRESS_MARK_NS 250000000ull
#define PROGRESS_MARKS   128u

/* Offsets are those of the next message to read; -1: none yet. */
struct progress {
    int64_t done, flushed, asked, committed;
    uint32_t n_marks;
    struct {
        uint64_t began_ns, at_ns; /* of the first and the last that it stands for */
        int64_t offset;
    } marks[PROGRESS_MARKS];
};

void progress_init(struct progress *p);

/* All before `offset` is done, now. One that is before the last begins anew: what was flushed or committed
 * says nothing then. */
void progress_done(struct progress *p, int64_t offset, uint64_t now_ns);

/* What was done before that time is with the exporters. */
void progress_flushed(struct progress *p, uint64_t before_ns);

/* Whether there is an offset to commit, which is asked for then: *ret. */
bool progress_ask(struct progress *p, int64_t *ret);

/* What came of asking for that offset; what failed is asked for again. */
void progress_committed(struct progress *p, int64_t offset, bool is_good);

/* Whether all that is done is committed. */
bool progress_is_settled(const struct progress *p);

#endif
