/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a thread that counts hands to the store, once a second: the samples it kept, and copies of the names
 * that the store may not have seen. Numbers in it are the batch's own; it shares no memory with anybody.
 */
#ifndef GATEWAY_LOOK_BATCH_H
#define GATEWAY_LOOK_BATCH_H

#include <sys/queue.h>

#include "gateway/look/labels.h"
#include "gateway/look/rates.h"
#include "proto/base/buffer.h"
#include "proto/base/idmap.h"
#include "proto/base/vec.h"

/* Nanoseconds of a slice of the fine level. */
#define LOOK_SLICE_NS 10000000000ull

/* The frames of a stack; of one that has more the outermost are left out. */
#define LOOK_STACK_MAX 1024u

/* Of a name, as it is kept. */
#define LOOK_NAME_MAX 4096u

/* The frame of a sample without a stack. */
#define LOOK_NO_STACK "[no stack]"

/* Strings 0. */
#define LOOK_EMPTY 0u

struct look_frame {
    uint32_t name, file, lib, kind; /* strings */
    uint32_t line;
    uint32_t inlined; /* 0 or 1; no gaps, since frames are compared as bytes */
};

struct look_series {
    uint32_t type; /* strings */
    uint32_t unit;
    uint32_t label[LOOK_N_LABELS];
};

/* A stack: by the hash of its content, with its frames (outermost first) unless the thread has told the store
 * before. */
struct look_stack {
    uint64_t hash;
    uint32_t frames_at, n_frames; /* into the batch's frames; none: it was told */
};

/* That the stack is none: the sample is counted, and who it was is not kept. */
#define LOOK_NOT_KEPT UINT32_MAX

struct look_event {
    uint32_t at;     /* slice: Unix time in LOOK_SLICE_NS */
    uint32_t series; /* of the batch */
    uint32_t stack;  /* of the batch, or LOOK_NOT_KEPT */
    uint32_t kept;   /* samples it is */
    uint64_t seen;   /* samples it stands for, in 1/LOOK_SEEN_ONE */
    uint64_t value;  /* what it stands for, in the type's unit */
};
#define LOOK_SEEN_ONE 256u

/* A sample that says which trace it is of. */
struct look_batch_example {
    uint32_t at, series, stack; /* as of an event; never LOOK_NOT_KEPT */
    uint64_t value;             /* its own */
    uint8_t trace[16], span[8]; /* span: zeroes where it says none */
};
#define LOOK_BATCH_EXAMPLES 256u /* of all that came, chosen by chance */

struct look_text {
    uint32_t at, n; /* in the batch's text */
};

struct look_batch {
    struct buffer text;
    VEC(struct look_text) strings; /* [0] is "" */
    VEC(struct look_frame) frames;
    VEC(struct look_stack) stacks;
    VEC(struct look_series) series;
    VEC(struct look_event) events;
    VEC(struct look_batch_example) examples;
    uint64_t n_linked;             /* samples that could have been one */
    uint32_t demand[LOOK_RATES];   /* samples that came, kept or not, by place */
    uint64_t late;                 /* samples whose time was not of now */
    uint64_t lost;                 /* samples for which there was no memory */
    size_t charged;                /* of text, on the budget */
    STAILQ_ENTRY(look_batch) next; /* of who has several */
    struct budget *budget;
    struct idmap string_of, series_of; /* by hash; the thread's */
};

/* NULL: no memory. */
struct look_batch *look_batch_new(struct budget *budget);
struct look_batch *look_batch_free(struct look_batch *b);

static inline struct bytes look_batch_string(const struct look_batch *b, uint32_t i)
{
    return bytes_of(b->text.p + b->strings.p[i].at, b->strings.p[i].n);
}

/* The number of a text, cut to LOOK_NAME_MAX, whose hash it is. 0 or -ENOMEM. */
int look_batch_add(struct look_batch *b, struct bytes text, uint64_t hash, uint32_t *ret);

#endif
