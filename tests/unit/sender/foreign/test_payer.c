/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/unit.h"

#include <stdio.h>
#include <unistd.h>

#include "sender/foreign/payer.h"

UNIT(subordinate_users_of_a_range_are_one)
{
    static char path[UNIT_PATH_MAX];
    close(unit_new_file(path, ""));
    FILE *file = unit_made(fopen(path, "w"));
    (void)fputs(
        "shop:200000:65536\nbroken\nstore:100000:65536\n:no:1\nlast:4294967000:65536\nnone:300000:0\nroot:0:1\n",
        file);
    ck_assert_int_eq(fclose(file), 0);
    payer_file(path);
    ck_assert_uint_eq(payer_of(0), 0);
    ck_assert_uint_eq(payer_of(1000), 1000);
    ck_assert_uint_eq(payer_of(99999), 99999);
    ck_assert_uint_eq(payer_of(100000), 100000);
    ck_assert_uint_eq(payer_of(165535), 100000);
    ck_assert_uint_eq(payer_of(165536), 165536);
    ck_assert_uint_eq(payer_of(234567), 200000);
    ck_assert_uint_eq(payer_of(300000), 300000);
    ck_assert_uint_eq(payer_of(4294967294), 4294967000);
    ck_assert_uint_eq(payer_of(UINT32_MAX), UINT32_MAX); /* nobody */
    ck_assert_int_eq(unlink(path), 0);
}

UNIT(without_the_file_each_user_pays_for_himself)
{
    payer_file("/nowhere/subuid");
    ck_assert_uint_eq(payer_of(100001), 100001);
}
