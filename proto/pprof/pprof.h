/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A pprof profile (github.com/google/pprof, proto/profile.proto) as tables over its own bytes: every
 * reference is checked and is an index. Samples, which are most of it, are gone through where they stand.
 *
 * In pprof entries are named by ids of 64 bits, chosen freely, and strings by their place; 0 is none. Here a
 * reference to a mapping, location or function is its place in the table + 1, 0 being none.
 *
 *     struct pprof p;
 *     pprof_init(&p, budget);
 *     int r = pprof_read(&p, body, &e);
 *     if (r == 0)
 *         for (struct pprof_samples at = pprof_samples(&p); (r = pprof_next(&p, &at, &sample, &e)) == 0;)
 *             …
 *     pprof_release(&p);
 *
 * What google/pprof's own reader takes is taken (profile/{proto,encode,profile}.go at b9395ee), and what it
 * refuses is refused: two profiles one behind the other, a string_table[0] that is not "", ids 0 or twice,
 * references to what is not there (but for a mapping, which is none then), a line without a function, an
 * empty file, a sample with more or fewer values than there are types. So is what it takes and no reader of
 * requests would: a stack of more than PPROF_STACK_FRAMES_MAX frames. Lists of numbers may be packed or not,
 * fields may stand in any order, unknown ones are passed over.
 */
#ifndef PROTO_PPROF_PPROF_H
#define PROTO_PPROF_PPROF_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/base/budget.h"
#include "proto/base/bytes.h"
#include "proto/base/error.h"
#include "proto/base/mapping.h"
#include "proto/base/vec.h"
#include "proto/pprof/ids.h"
#include "proto/wire/reader.h"

/* Profilers have up to six; each is a profile of its own in OTLP. */
#define PPROF_TYPES_MAX 64u

/* People write a few; a list of as many more is a byte each, and more than that where they are written out.
 */
#define PPROF_COMMENTS_MAX 65536u

/* Frames of one stack, inlined ones included: no more is taken of a request (otlp/view/profiles.h). */
#define PPROF_STACK_FRAMES_MAX 65536u

struct pprof_type {
    uint32_t type, unit; /* strings */
};

struct pprof_mapping {
    uint64_t id, start, limit, offset;
    uint32_t filename, build_id; /* strings */
    bool has_functions, has_filenames, has_line_numbers, has_inline_frames;
};

struct pprof_function {
    uint64_t id;
    uint32_t name, system_name, filename; /* strings */
    int64_t start_line;
};

struct pprof_line {
    uint32_t function; /* + 1 */
    int64_t line, column;
};

struct pprof_location {
    uint64_t id, address;
    uint32_t mapping;       /* + 1 */
    uint32_t line, n_lines; /* in pprof.lines; the last is the caller into which the others were inlined */
    bool is_folded;
};

struct pprof_label {
    uint32_t key, text; /* strings; text 0: it is a number */
    int64_t number;
    uint32_t unit; /* string */
};

typedef VEC(uint32_t) pprof_numbers;

struct pprof {
    struct bytes body;
    struct mapping *pages;     /* what body is of, or NULL: goes behind the reader. The caller's to set */
    VEC(struct bytes) strings; /* not necessarily UTF-8; [0] is "" */
    VEC(struct pprof_type) types;
    VEC(struct pprof_mapping) mappings;
    VEC(struct pprof_function) functions;
    VEC(struct pprof_location) locations;
    VEC(struct pprof_line) lines;
    uint32_t most_lines;                        /* of one location, 1 at least */
    pprof_numbers comments;                     /* strings */
    uint32_t drop_frames, keep_frames, doc_url; /* strings */
    uint32_t default_type;                      /* string: a type's; 0: the last type is the default */
    struct pprof_type period_type;
    int64_t period, time_nanos, duration_nanos;
    uint32_t n_samples;
    VEC(const uint8_t *) entries; /* where the fields of `body` begin that are neither samples nor strings */
    struct pprof_ids mapping_ids, function_ids, location_ids;
    /* of the sample at hand */
    pprof_numbers stack;
    VEC(struct pprof_label) labels;
    int64_t values[PPROF_TYPES_MAX];
};

/* Conditions. */
enum {
    PPROF_MALFORMED = 1, /* *e says what and where */
    PPROF_END,           /* no further sample */
    PPROF_CONDITIONS,    /* from here on, those of who passes these on */
};

/* Empty; memory is charged to `budget` (may be NULL). */
void pprof_init(struct pprof *p, struct budget *budget);
void pprof_release(struct pprof *p);

/* Reads all tables; the memory of one read before is used again. `body` is plain (not gzip) and must stay. 0,
 * PPROF_MALFORMED, or -ENOMEM (memory or the budget). */
int pprof_read(struct pprof *p, struct bytes body, struct error *e);

/* Whether these may be a pprof, or its beginning, and no OTLP message: of these no field has the number and
 * wire type of a string or of what a sample type says. */
bool pprof_is_likely(struct bytes body);

struct pprof_sample {
    const uint32_t *locations; /* + 1, never 0; leaf first */
    uint32_t n_locations;
    const int64_t *values; /* [types.n] */
    const struct pprof_label *labels;
    uint32_t n_labels;
    /* With pprof_samples.packed, of nearly every sample: its field location_id as it stands, whose ids are
     * places + 1 as `locations` has them, unless pprof_check_packed says that one is not there. Then
     * n_locations is 0. */
    struct bytes packed;
};

struct pprof_samples {
    struct wire_reader reader;
    uint32_t n;  /* samples given */
    bool packed; /* stacks are given as they stand, where they can be: for who passes most of them on */
};

/* Goes through the samples in order, as often as one likes: what `ret` points to lasts until the next call.
 * 0, PPROF_END, PPROF_MALFORMED, -ENOMEM. */
struct pprof_samples pprof_samples(const struct pprof *p);
int pprof_next(struct pprof *p, struct pprof_samples *at, struct pprof_sample *ret, struct error *e);

/* Whether each location of the packed stack that `at` gave last is there. 0, PPROF_MALFORMED. */
int pprof_check_packed(const struct pprof *p, const struct pprof_samples *at, struct bytes packed,
                       struct error *e);

#endif
