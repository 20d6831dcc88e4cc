/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/unit.h"

#include <fcntl.h>

#include "proto/base/macros.h"
#include "sender/runtimes/php/binary.h"

static bool find(const char *path, struct php_binary *binary, struct php_details *details)
{
    struct source source;
    autoclose int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        unit_skip("no PHP here");
    ck_assert_int_eq(source_file(&source, fd), 0);
    return php_binary_find(binary, &source) && php_binary_details(details, binary, &source);
}

UNIT(a_stripped_file_says_all_there_is_to_know)
{
    struct php_binary b;
    struct php_details d;
    ck_assert(find("/usr/bin/php8.2", &b, &d));
    ck_assert_uint_eq(d.version[0], 8);
    ck_assert_uint_eq(d.version[1], 2);
    ck_assert(d.body > b.loop && d.body < b.loop + 64);
    ck_assert(d.cold_size > 0 && (d.cold + d.cold_size <= b.loop || d.cold >= b.loop + b.loop_size));
    ck_assert(b.loop >= d.text && b.loop + b.loop_size <= d.text + d.text_size);
    ck_assert(d.cold >= d.text && d.cold + d.cold_size <= d.text + d.text_size);
    ck_assert(b.generator_class && b.fiber_size > 0);
}

UNIT(another_program_is_not_php)
{
    struct php_binary b;
    struct php_details d;
    ck_assert(!find("/proc/self/exe", &b, &d));
}

UNIT(what_processes_share_without_a_name_may_be_opcache_s)
{
    ck_assert(php_is_opcache(BYTES_LIT("/dev/zero (deleted)")));
    ck_assert(php_is_opcache(BYTES_LIT("/SYSV00000000 (deleted)")));
    ck_assert(!php_is_opcache(BYTES_LIT("/dev/zero")));
    ck_assert(!php_is_opcache(BYTES_LIT("")));
}
