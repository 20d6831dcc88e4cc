/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/unit.h"

#include <fcntl.h>

#include "proto/base/macros.h"
#include "sender/runtimes/luajit/binary.h"

UNIT(a_stripped_file_says_all_there_is_to_know)
{
    struct luajit_binary b;
    struct source source;
    char version[24];
    autoclose int fd = open("/usr/bin/luajit", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        unit_skip("no LuaJIT here");
    ck_assert_int_eq(source_file(&source, fd), 0);
    ck_assert(luajit_binary_find(&b, &source) && luajit_binary_version(version, &source));
    ck_assert_int_eq(strncmp(version, "2.1.", 4), 0);
    ck_assert(b.start && b.size >= LUAJIT_CODE_MIN);
    ck_assert(b.trace_base && b.trace_base < b.dispatch);
}

UNIT(another_program_is_not_luajit)
{
    struct luajit_binary b;
    struct source source;
    autoclose int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    ck_assert_int_eq(source_file(&source, fd), 0);
    ck_assert(!luajit_binary_find(&b, &source));
}
