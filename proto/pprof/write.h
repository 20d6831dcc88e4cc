/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes a pprof profile, entry by entry in any order, behind each other into a buffer: nothing is kept but
 * strings. What the entries are made of is that of pprof.h, but for strings, whose numbers are this writer's.
 *
 * Failure is remembered, as by the wire writer (proto/wire/writer.h): pprof_write_end says it.
 */
#ifndef PROTO_PPROF_WRITE_H
#define PROTO_PPROF_WRITE_H

#include "proto/base/intern.h"
#include "proto/pprof/pprof.h"
#include "proto/wire/writer.h"

struct pprof_writer {
    struct intern strings;
    struct wire_writer w;
    size_t begun;
    uint32_t empty; /* a second "", for labels; 0: not asked for yet */
};

/* Strings are charged to `budget` (may be NULL). Released by pprof_write_end. */
void pprof_write_begin(struct pprof_writer *w, struct budget *budget, struct buffer *out);

uint32_t pprof_write_string(struct pprof_writer *w, struct bytes text);
/* A text of a label: never 0, which would make a number of it. */
uint32_t pprof_write_text(struct pprof_writer *w, struct bytes text);
void pprof_write_type(struct pprof_writer *w, const struct pprof_type *t);
/* These get the ids that they have, which are not 0 and differ. */
void pprof_write_mapping(struct pprof_writer *w, const struct pprof_mapping *m);
void pprof_write_function(struct pprof_writer *w, const struct pprof_function *f);
/* The lines are given beside: its own `line` and `n_lines` are not looked at. References are ids. */
void pprof_write_location(struct pprof_writer *w, const struct pprof_location *l,
                          const struct pprof_line *lines, uint32_t n_lines);
void pprof_write_sample(struct pprof_writer *w, const struct pprof_sample *s, uint32_t n_values);
/* What the profile has once: comments, drop_frames … doc_url, default_type, period, time, duration. */
void pprof_write_profile(struct pprof_writer *w, const struct pprof *p);

/* Writes the strings, and releases. 0; -ENOMEM; -ENOBUFS (the buffer's maximum): then it has what it had. */
int pprof_write_end(struct pprof_writer *w);

#endif
