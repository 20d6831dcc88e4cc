/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The reporter: every diagnostic of the front end in the one form of rules/README.md §10 (place, what, the
 * source with a caret, a remark behind it, and proposals that can be pasted).
 *
 * One diagnostic is built in steps: report_at, then report_side and report_propose as wanted, then
 * report_done. At most RULES_ERRORS_MAX errors and as many warnings are kept of one file; what comes after is
 * dropped, still counted as an error of its file. Running out of memory sets `oom`, and is the only failure.
 */
#ifndef RULES_SOURCE_DIAGNOSTIC_H
#define RULES_SOURCE_DIAGNOSTIC_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/base/buffer.h"
#include "rules/compile.h"
#include "rules/tree/tree.h"

struct report {
    struct rules_diagnostics *out;
    const struct rule_file *files;
    uint32_t *errors, *warnings; /* [file]: how many were reported */
    uint32_t cap;                /* of out->items */
    struct buffer text;          /* of the diagnostic being built */
    struct rules_diagnostic item;
    bool open; /* false while a dropped one is being built */
    bool oom;
};

/* Starts a diagnostic; a code that begins with W is a warning. The message is one line without its end. */
void report_at(struct report *r, const char *code, struct rule_place place, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* Words behind the caret; the first thing after report_at. */
void report_side(struct report *r, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* A line `     = …`. */
void report_propose(struct report *r, const char *format, ...) __attribute__((format(printf, 2, 3)));

void report_done(struct report *r);

/* All of it, for a diagnostic that is one message, with a proposal or NULL. */
void report_plain(struct report *r, const char *code, struct rule_place place, const char *proposal,
                  const char *format, ...) __attribute__((format(printf, 5, 6)));

/* Sorts what was reported by place (errors and warnings together) and frees the reporter's own memory. */
void report_finish(struct report *r);

/* From the start of a to the end of b, cut to a's line. */
struct rule_place place_join(const struct rule_file *file, struct rule_place a, struct rule_place b);

/* What stands at a place. */
struct bytes place_source(const struct rule_file *file, struct rule_place place);

/* The source between two byte offsets with white space and comments folded to single blanks, cut to `max`
 * bytes, in `out`. */
void source_fold(struct bytes source, struct buffer *out, size_t max);

/* How many single-byte edits (insert, remove, replace, swap of neighbours) lead from a to b; at most max + 1.
 */
uint32_t edit_distance(struct bytes a, struct bytes b, uint32_t max);

/* Looks for the name nearest to what was written: offer every candidate, then read `best` (n == 0: none is
 * near). */
struct nearest {
    struct bytes written, best;
    uint32_t distance, max;
};
void nearest_start(struct nearest *n, struct bytes written);
bool nearest_offer(struct nearest *n, struct bytes candidate); /* true: it is the best now */

#endif
