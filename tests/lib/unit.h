/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A unit test file: `UNIT(name) { … }` registers itself; there is no list to forget and no main to write.
 *
 *     #include "tests/lib/unit.h"
 *     UNIT(empty_input_is_an_empty_message) { ck_assert_int_eq(decode("", 0), 0); }
 *
 * check runs each case in a process of its own (CK_FORK=no to debug). With PG_RESULTS naming a file, every
 * case adds a line "pass|fail|skip NAME" to it: scripts/test adds those up. PG_TIMES likewise, a line
 * "SECONDS CPU-SECONDS NAME" a program.
 *
 * In builds with AddressSanitizer `PROGRAM --out-of-memory [CASE]` runs each case once more with each of its
 * allocations failing (unit_oom.c): a case then stops at the first expectation that is not met, so it must
 * look at what every constructor gave it (unit_made) before it uses it.
 */
#ifndef TESTS_LIB_UNIT_H
#define TESTS_LIB_UNIT_H

#include <check.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "proto/base/clock.h"
#include "proto/base/macros.h"

struct unit_case {
    TTest test;
    struct unit_case *next;
    bool sweeps; /* fails allocations itself (OOM_SWEEP) */
};

/* The last expectation that was met, for a case that dies. check would write each to a file, which is most of
 * the time of a case that looks at every byte; this is memory that a program has in common with its cases. */
struct unit_point {
    const char *file;
    int line;
};
extern struct unit_point *unit_point;
#define _mark_point(file_, line_)                                         \
    ((void)(__atomic_store_n(&unit_point->file, file_, __ATOMIC_RELAXED), \
            __atomic_store_n(&unit_point->line, line_, __ATOMIC_RELAXED)))

/* Adds a case; called by UNIT's constructor, before main. */
void unit_register(struct unit_case *c);

/* Ends the case as skipped, saying why; in the case's own process. */
void unit_skip(const char *why) __attribute__((noreturn));
/* What unit_skip says: a line, and one "PROGRAM/WHAT: WHY" to the file that PG_SKIPS names. */
void unit_say_skipped(const char *what, const char *why);

/* The bytes of tests/data/NAME (malloc'd, 64 readable zero bytes follow), or fails the case. */
unsigned char *unit_data(const char *name, size_t *ret_len);

/* Where the files of cases lie, for none may outlive them: a folder of the program's own that goes, with all
 * that is in it, when the program ends, however its cases did. It is TMPDIR for what cases start. */
#define UNIT_PATH_MAX 96
void unit_new_folder(char ret[static UNIT_PATH_MAX]);
/* An empty file of that ending ("" is none), open for reading and writing. */
int unit_new_file(char ret[static UNIT_PATH_MAX], const char *ending);

/* What a constructor returned, p; the case fails if that is nothing. */
#define unit_made(p)                                         \
    ({                                                       \
        __typeof__(p) made_ = (p);                           \
        unit_made_at(made_ != NULL, #p, __FILE__, __LINE__); \
        made_;                                               \
    })
void unit_made_at(bool is_made, const char *what, const char *file, int line);

/* How long a case may wait for something that is due, in ns: `ordinarily`, and a minute at least, for a
 * machine that is busy; but less where an allocation is made to fail, since then it may never come and the
 * case ends there. Not for waits whose end is what is expected. */
uint64_t unit_patience(uint64_t ordinarily);
extern uint64_t unit_patience_max;

/* Does `meanwhile` again and again until what is due has come; if it never does, the case fails. */
#define unit_until(condition, meanwhile)                                                        \
    do {                                                                                        \
        const uint64_t until_ = clock_monotonic() + unit_patience(10 * (uint64_t)NSEC_PER_SEC); \
        while (!(condition)) {                                                                  \
            ck_assert_msg(clock_monotonic() < until_, "never: %s", #condition);                 \
            (void)(meanwhile);                                                                  \
        }                                                                                       \
    } while (0)

/* How many of n random runs of a long scenario: all of them, but with a sanitizer, which makes them ten times
 * as long, a quarter (one at least), unless PG_SOAK is set. */
unsigned unit_rounds(unsigned n);

/* `PROGRAM --out-of-memory [CASE]` (unit_oom.c). Whether this build can. */
bool unit_oom_begin(const struct unit_case *first, const char *filter);
void unit_oom_next(void);                   /* a case that takes part (not one that sweeps) is about to run */
void unit_oom_note(void);                   /* in its process: from here on what takes memory is noted */
void unit_oom_noted(void);                  /* to here */
void unit_oom_try(struct unit_case *c);     /* runs it again and again, with each of that failing */
uint32_t unit_oom_end(const char *program); /* how many of those runs went wrong */

#define UNIT_CASE(id, sweeps_)                                                                         \
    static void unit_fn_##id(int);                                                                     \
    static struct unit_case unit_case_##id = {{#id, unit_fn_##id, __FILE__, __LINE__}, NULL, sweeps_}; \
    __attribute__((constructor)) static void unit_add_##id(void)                                       \
    {                                                                                                  \
        unit_register(&unit_case_##id);                                                                \
    }                                                                                                  \
    static void unit_fn_##id(int unit_i __attribute__((unused)))

#define UNIT(id) UNIT_CASE(id, false)

#endif
