/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where to cut a request whose samples do not fit one request of a destination: ranges of samples in order,
 * each with the part of the dictionary it reaches below a limit.
 *
 * The size of a range is estimated entry by entry, from above but for text that replaces references (to a
 * string table); so whoever builds a range (proto/otlp/write/subset.h) under the limit may find it too large
 * after all, and cuts it in half. An estimate costs about as many steps as the range has bytes.
 */
#ifndef GATEWAY_FORWARD_SPLIT_H
#define GATEWAY_FORWARD_SPLIT_H

#include <stddef.h>
#include <stdint.h>

#include "proto/base/arena.h"
#include "proto/otlp/view/profiles.h"

struct split {
    const struct profiles *view;
    const uint64_t *keep; /* NULL: every sample */
    size_t limit, mark;   /* bytes: of a request; that a mark adds to the dictionary */
    uint32_t next;        /* the sample that the next range begins with */
    uint64_t steps;       /* that may still be taken */
    size_t bytes;         /* of the range so far */
    uint32_t piece;       /* what its entries are stamped with */
    uint32_t *string, *mapping, *location, *function, *link, *attribute, *stack, *resource, *scope;
    uint32_t *size;    /* [sample] bytes of its message as it came */
    uint32_t profile;  /* of `next` */
    uint32_t measured; /* the profile whose sizes are these, + 1 */
    size_t own_bytes, payload_bytes;
};

/* 0 or -ENOMEM. Memory comes from `scratch`, which keeps it; about 4 bytes a table entry and sample. Of
 * `keep` see subset.h; view, keep and scratch stay as they are until the last split_next. */
int split_init(struct split *s, const struct profiles *view, const uint64_t *keep, size_t limit, size_t mark,
               struct arena *scratch);

enum split_cut {
    SPLIT_END,       /* no samples are left */
    SPLIT_RANGE,     /* [*from, *to) is thought to fit, and has at least one sample that is kept */
    SPLIT_TOO_LARGE, /* the one sample that is kept of [*from, *to) does not fit, alone as it is */
    SPLIT_GIVEN_UP,  /* it costs more than a request of this size may: [*from, *to) is all that is left */
};

/* The next range, beginning with s->next, which moves to its end (and may be set back before the next call).
 */
enum split_cut split_next(struct split *s, uint32_t *from, uint32_t *to);

#endif
