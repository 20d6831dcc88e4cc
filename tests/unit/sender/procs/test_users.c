/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/unit.h"

#include <stdio.h>
#include <unistd.h>

#include "sender/procs/users.h"

static char path[UNIT_PATH_MAX];

static void write_file(const char *text)
{
    char other[UNIT_PATH_MAX + 8];
    snprintf(other, sizeof other, "%s.new", path);
    FILE *file = unit_made(fopen(other, "w"));
    ck_assert_int_ge(fputs(text, file), 0);
    ck_assert_int_eq(fclose(file), 0);
    ck_assert_int_eq(rename(other, path), 0); /* as passwd(1) writes it */
}

UNIT(a_user_has_the_first_name_of_its_number)
{
    close(unit_new_file(path, ""));
    write_file("root:x:0:0:root:/root:/bin/sh\nshop:x:1000:1000::/:/bin/sh\ntoor:x:0:0::/:/bin/sh\nbroken\n");
    struct users *u = unit_made(users_new(path));
    ck_assert(bytes_is(users_name(u, 0, 1), "root"));
    ck_assert(bytes_is(users_name(u, 1000, 1), "shop"));
    ck_assert(bytes_is(users_name(u, 1001, 1), ""));
    ck_assert(bytes_is(users_name(u, UINT32_MAX, 1), ""));
    write_file("store:x:1000:1000::/:/bin/sh\n");
    ck_assert(bytes_is(users_name(u, 1000, 2), "shop")); /* not looked at again yet */
    ck_assert(bytes_is(users_name(u, 1000, 1 + USERS_AGAIN_NS), "store"));
    ck_assert(bytes_is(users_name(u, 0, 2 + USERS_AGAIN_NS), ""));
    ck_assert_int_eq(unlink(path), 0);
    ck_assert(bytes_is(users_name(u, 1000, 1 + 3 * (uint64_t)USERS_AGAIN_NS), "store")); /* what was known */
    users_free(u);
}

UNIT(without_the_file_nobody_has_a_name)
{
    struct users *u = unit_made(users_new("/nowhere/passwd"));
    ck_assert(bytes_is(users_name(u, 0, 1), ""));
    users_free(u);
    ck_assert_ptr_null(users_free(NULL));
}
