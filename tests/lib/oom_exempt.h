/* SPDX-License-Identifier: Apache-2.0 */
/* Included before each unit test in ASan builds: the tests' own allocations never fail. */
#ifndef TESTS_LIB_OOM_EXEMPT_H
#define TESTS_LIB_OOM_EXEMPT_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t n);
char *__real_strdup(const char *s);
int __real_asprintf(char **ret, const char *format, ...);

/* What a library takes for functions of this source is the test's, too (library_oom.h). CMake names it: to
 * clang the base file of what is included so is "<built-in>". */
#ifdef PG_TEST_SOURCE
const char *oom_test_source(void);
const char *oom_test_source(void)
{
    return PG_TEST_SOURCE;
}
#endif

#define malloc   __real_malloc
#define calloc   __real_calloc
#define realloc  __real_realloc
#define strdup   __real_strdup
#define asprintf __real_asprintf

#endif
