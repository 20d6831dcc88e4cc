/*
 * A unit test file: `UNIT(name) { … }` registers itself; there is no list to forget and no main to write.
 *
 *     #include "tests/lib/unit.h"
 *     UNIT(empty_input_is_an_empty_message) { ck_assert_int_eq(decode("", 0), 0); }
 *
 * check runs each case in a process of its own (CK_FORK=no to debug). With PG_RESULTS naming a file, every
 * case adds a line "pass|fail|skip NAME" to it: scripts/test adds those up.
 */
#ifndef TESTS_LIB_UNIT_H
#define TESTS_LIB_UNIT_H

#include <check.h>

struct unit_case {
    TTest test;
    struct unit_case *next;
};

/* Adds a case; called by UNIT's constructor, before main. */
void unit_register(struct unit_case *c);

/* Ends the case as skipped, saying why; in the case's own process. */
void unit_skip(const char *why) __attribute__((noreturn));

/* The bytes of tests/data/NAME (malloc'd, 64 readable zero bytes follow), or fails the case. */
unsigned char *unit_data(const char *name, size_t *ret_len);

#define UNIT(id)                                                                           \
    static void unit_fn_##id(int);                                                         \
    static struct unit_case unit_case_##id = {{#id, unit_fn_##id, __FILE__, __LINE__}, 0}; \
    __attribute__((constructor)) static void unit_add_##id(void)                           \
    {                                                                                      \
        unit_register(&unit_case_##id);                                                    \
    }                                                                                      \
    static void unit_fn_##id(int unit_i __attribute__((unused)))

#endif
