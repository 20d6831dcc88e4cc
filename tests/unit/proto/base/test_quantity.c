/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/base/quantity.h"

#include <errno.h>

#include "tests/lib/unit.h"

UNIT(sizes)
{
    uint64_t v;
    ck_assert_int_eq(quantity_size(BYTES_LIT("64MiB"), &v), 0);
    ck_assert_uint_eq(v, 64u << 20);
    ck_assert_int_eq(quantity_size(BYTES_LIT("1.5 KB"), &v), 0);
    ck_assert_uint_eq(v, 1500);
    ck_assert_int_eq(quantity_size(BYTES_LIT("12 parsecs"), &v), -EINVAL);
    ck_assert_int_eq(quantity_size(BYTES_LIT("99999999999999GiB"), &v), -ERANGE);
}

UNIT(durations)
{
    uint64_t v;
    ck_assert_int_eq(quantity_duration(BYTES_LIT("1m30s"), &v), 0);
    ck_assert_uint_eq(v, 90000000000u);
    ck_assert_int_eq(quantity_duration(BYTES_LIT("1.5ms"), &v), 0);
    ck_assert_uint_eq(v, 1500000);
    ck_assert_int_eq(quantity_duration(BYTES_LIT("0"), &v), 0);
    ck_assert_int_eq(quantity_duration(BYTES_LIT("30"), &v), -EINVAL);
    ck_assert_int_eq(quantity_duration(BYTES_LIT("-1s"), &v), -EINVAL);
    ck_assert_int_eq(quantity_duration(BYTES_LIT(""), &v), -EINVAL);
}

UNIT(shares)
{
    double v;
    ck_assert_int_eq(quantity_share(BYTES_LIT("1%"), &v), 0);
    ck_assert_double_eq(v, 0.01);
    ck_assert_int_eq(quantity_share(BYTES_LIT("0.25"), &v), 0);
    ck_assert_double_eq(v, 0.25);
    ck_assert_int_eq(quantity_share(BYTES_LIT("101%"), &v), -ERANGE);
}

UNIT(whole_numbers)
{
    uint64_t v;
    ck_assert_int_eq(quantity_u64(BYTES_LIT("18446744073709551615"), &v), 0);
    ck_assert_uint_eq(v, UINT64_MAX);
    ck_assert_int_eq(quantity_u64(BYTES_LIT("18446744073709551616"), &v), -ERANGE);
    ck_assert_int_eq(quantity_u64(BYTES_LIT("1 "), &v), -EINVAL);
}
