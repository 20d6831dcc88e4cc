/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Samples being collected from a text: frames and stacks are known by the bytes they are written as, and
 * samples of one type, stack and set of attributes are one. For proto/convert only.
 */
#ifndef PROTO_CONVERT_STACKS_H
#define PROTO_CONVERT_STACKS_H

#include "proto/base/hash_table.h"
#include "proto/base/intern.h"
#include "proto/convert/text.h"
#include "proto/otlp/write/build.h"

/* Events of one text, each a profile. */
#define STACKS_TYPES_MAX 256u

struct stacks_type {
    struct bytes name, unit;
    uint32_t first, last; /* samples, + 1; 0: none */
};

struct stacks_sample {
    uint32_t type, stack, attrs;
    uint32_t next; /* of its type, + 1 */
    int64_t value;
};

struct stacks {
    struct budget *budget;
    struct build *build;
    struct intern frames; /* as they are written; beside them */
    VEC(uint32_t) locations;
    struct intern heads; /* what perf says of a thread; beside them */
    VEC(uint32_t) head_attrs;
    struct intern attrs; /* sets of attributes: their numbers' bytes; 0 is the empty one */
    VEC(struct stacks_type) types;
    VEC(struct stacks_sample) samples;
    struct hash_table known;
    VEC(uint32_t) stack; /* being read, locations in the order of the text */
    struct buffer text;
    bool escapes;     /* the text is not UTF-8 */
    uint64_t lasted;  /* nanoseconds from the first sample to the last, where the text says */
    bool is_too_long; /* it failed because a text being escaped is longer than 1 MiB */
    int failed;       /* -ENOMEM */
};

/* A text is read by one of these. 0, FROM_TEXT_MALFORMED with *e, -ENOMEM. */
int from_folded(struct stacks *s, struct bytes text, const struct from_text_options *options,
                struct error *e);
int from_lines(struct stacks *s, struct bytes text, const struct from_text_options *options, struct error *e);
int from_perf_script(struct stacks *s, struct bytes text, const struct from_text_options *options,
                     struct error *e);

/* Whether these are the first lines of what `perf script` prints. */
bool perf_script_begins(struct bytes line, struct bytes next);

/* The next line, without its end; false behind the last. *line counts from 1. */
bool stacks_line(struct bytes *rest, struct bytes *ret, uint64_t *line);

/* The frame that is written so: its place in s->locations, where *ret_is_new says that what is there is to be
 * set. INTERN_NONE: no memory, which is remembered. */
uint32_t stacks_frame(struct stacks *s, struct bytes written, bool *ret_is_new);

/* A string of the request, or a text as it stands there until the next call. */
uint32_t stacks_string(struct stacks *s, struct bytes text);
struct bytes stacks_text(struct stacks *s, struct bytes text);

/* The frame type of a function by names that only one runtime gives, or NULL. */
const char *stacks_runtime(struct bytes name);
uint32_t stacks_frame_type(struct stacks *s, const char *type);

/* The type of these names, which must last, added if new. FROM_TEXT_MALFORMED: STACKS_TYPES_MAX are there. */
int stacks_type(struct stacks *s, struct bytes name, struct bytes unit, uint32_t *ret, struct error *e);

/* Adds `value` to the sample of s->stack, leaf first. FROM_TEXT_MALFORMED: the sum passes 2^63. */
uint32_t stacks_attrs(struct stacks *s, const uint32_t *attrs, uint32_t n);
int stacks_add(struct stacks *s, uint32_t type, uint32_t stack, uint32_t attrs, int64_t value);

#endif
