/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/unit.h"

#include <stdlib.h>
#include <unistd.h>

#include "sender/run/surroundings.h"

UNIT(the_smallest_limit_on_the_way_up_counts)
{
    char root[UNIT_PATH_MAX], command[512];
    unit_new_folder(root);
    snprintf(
        command, sizeof command,
        "cd %s && mkdir -p a/b/c && echo max >a/memory.max && echo 1000000 >a/b/memory.max && echo 5000000 "
        ">a/b/c/memory.max",
        root);
    ck_assert_int_eq(system(command), 0);
    ck_assert_uint_eq(surroundings_memory(root, BYTES_LIT("0::/a/b/c\n")), 1000000);
    ck_assert_uint_eq(surroundings_memory(root, BYTES_LIT("4:cpu:/x\n0::/a/b\n")), 1000000);
    ck_assert_uint_eq(surroundings_memory(root, BYTES_LIT("0::/a")), UINT64_MAX);
    ck_assert_uint_eq(surroundings_memory(root, BYTES_LIT("0::/\n")), UINT64_MAX);
    ck_assert_uint_eq(surroundings_memory(root, BYTES_LIT("1:name=x:/a/b\n")), UINT64_MAX);
    ck_assert_uint_eq(surroundings_memory(root, BYTES_LIT("")), UINT64_MAX);
}
