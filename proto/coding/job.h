/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One decode under way: what comes in, what may come out, and where to. Shared by the decoders of each
 * coding; private to proto/coding.
 */
#ifndef PROTO_CODING_JOB_H
#define PROTO_CODING_JOB_H

#include <stdint.h>

#include "proto/base/macros.h"
#include "proto/coding/coding.h"
#include "proto/base/room.h"

struct job {
    struct bytes in;
    size_t limit; /* of what comes out */
    size_t extra; /* bytes to be left allocated behind it */
    size_t begin; /* out->n when it began */
    struct budget *budget;
    struct buffer *out;
};

/* Bytes that may still come out. */
static inline size_t job_left(const struct job *j)
{
    return j->limit - (j->out->n - j->begin);
}

/* Bytes that may be written now: what is allocated, but for the headroom, and never above the limit. */
static inline size_t job_room(const struct job *j)
{
    return min_of(j->out->cap - j->out->n - j->extra, job_left(j));
}

/* Room for `n` more bytes (cut to the limit) and the headroom. 0, CODING_OVER_BUDGET or -ENOMEM. */
static inline int job_reserve(struct job *j, size_t n)
{
    int r = room_make(j->out, min_of(n, job_left(j)) + j->extra, j->budget);
    return r == ROOM_OVER_BUDGET ? CODING_OVER_BUDGET : r;
}

/* How a guess that was too small grows; the sum of the tries is then 4/3 of the last one. */
#define JOB_GROWTH 4u

/* More room, after what there was did not do. 0, CODING_TOO_LARGE, CODING_OVER_BUDGET or -ENOMEM. */
static inline int job_grow(struct job *j)
{
    size_t room = job_room(j);
    if (room >= job_left(j))
        return CODING_TOO_LARGE;
    return job_reserve(j,
                       room < SIZE_MAX / JOB_GROWTH ? max_of(room, (size_t)ROOM_MIN) * JOB_GROWTH : SIZE_MAX);
}

/* A first guess for streams that do not tell their size: profiles compress to about a fifth. */
#define JOB_GUESS_RATIO 6u

static inline size_t job_guess(size_t in)
{
    return in < SIZE_MAX / JOB_GUESS_RATIO ? in * JOB_GUESS_RATIO : SIZE_MAX;
}

/* Members or frames one after another: a real stream has a handful, and each costs its set-up however short.
 */
#define JOB_PARTS_MAX 4096u

#endif
