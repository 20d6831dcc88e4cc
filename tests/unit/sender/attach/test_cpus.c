/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/unit.h"

#include <errno.h>

#include "sender/attach/cpus.h"

UNIT(ranges_and_single_cpus)
{
    struct cpus c;
    ck_assert_int_eq(cpus_parse(&c, BYTES_LIT("0-3,8,64-65\n")), 0);
    for (uint32_t cpu = 0; cpu < 70; cpu++)
        ck_assert_int_eq(cpus_has(&c, cpu), cpu <= 3 || cpu == 8 || cpu == 64 || cpu == 65);
    ck_assert(!cpus_has(&c, CPUS_MAX));
}

UNIT(malformed_lists_are_refused)
{
    struct cpus c;
    static const char *const bad[] = {"x", "1-", "3-1", "1,", ",1", "1 2", "99999", "0-8192", "-1"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        ck_assert_msg(cpus_parse(&c, bytes_str(bad[i])) == -EINVAL, "%s", bad[i]);
}

UNIT(this_machine_has_a_cpu_online)
{
    struct cpus c = {0};
    ck_assert_int_eq(cpus_online(&c), 0);
    uint64_t any = 0;
    for (uint32_t i = 0; i < CPUS_MAX / 64; i++)
        any |= c.bit[i];
    ck_assert(any != 0);
}
