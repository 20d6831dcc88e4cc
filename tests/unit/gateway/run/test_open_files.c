/* SPDX-License-Identifier: Apache-2.0 */
/* The limit of open files; each case is a process of its own. */
#include "tests/lib/unit.h"

#include <sys/resource.h>

#include "gateway/run/open_files.h"

static void set(rlim_t soft, rlim_t hard)
{
    struct rlimit limit = {soft, hard};
    if (setrlimit(RLIMIT_NOFILE, &limit) < 0)
        unit_skip("this process may open too few files");
}

static rlim_t soft_limit(void)
{
    struct rlimit limit;
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
    return limit.rlim_cur;
}

UNIT(as_far_as_is_wanted_or_allowed)
{
    set(200, 900);
    ck_assert_uint_eq(open_files_raise(500), 500);
    ck_assert_uint_eq(soft_limit(), 500);
    ck_assert_uint_eq(open_files_raise(1000000), 900);
    ck_assert_uint_eq(soft_limit(), 900);
}

UNIT(it_is_never_lowered)
{
    set(600, 900);
    ck_assert_uint_eq(open_files_raise(100), 600);
    ck_assert_uint_eq(soft_limit(), 600);
}
