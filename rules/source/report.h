/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The reporter: every diagnostic of the front end in the one form of rules/LANGUAGE.md §10 (place, what, the
 * source with a caret, a remark behind it, and proposals that can be pasted).
 *
 * One diagnostic is built in steps: report_at, then report_side and report_propose as wanted, then
 * report_done. At most RULES_ERRORS_MAX errors and as many warnings are kept of one file; what comes after is
 * dropped, and still counted. Running out of memory sets `oom`, and is the only failure.
 */
#ifndef RULES_SOURCE_REPORT_H
#define RULES_SOURCE_REPORT_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/base/buffer.h"
#include "rules/source/diagnostic.h"
#include "rules/tree/tree.h"

struct report {
    struct rules_diagnostics *out;
    const struct rule_file *files;
    uint32_t *errors, *warnings; /* [file]: how many were reported */
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

/* These words: "did you mean `BEST`?"; none if best is empty. */
void report_meant(struct report *r, struct bytes best);

/* A line `     = …`. */
void report_propose(struct report *r, const char *format, ...) __attribute__((format(printf, 2, 3)));

void report_done(struct report *r);

/* All of it, for a diagnostic that is one message, with a proposal or NULL. */
void report_plain(struct report *r, const char *code, struct rule_place place, const char *proposal,
                  const char *format, ...) __attribute__((format(printf, 5, 6)));

/* Sorts what was reported by place (errors and warnings together) and frees the reporter's own memory. */
void report_finish(struct report *r);

#endif
