/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/unit.h"

#include <fcntl.h>

#include "proto/base/macros.h"
#include "sender/runtimes/perl/binary.h"

static bool find(const char *path, struct perl_binary *binary, uint16_t version[3])
{
    struct source source;
    autoclose int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        unit_skip("no Perl here");
    ck_assert_int_eq(source_file(&source, fd), 0);
    return perl_binary_find(binary, &source) && perl_binary_version(version, &source);
}

UNIT(a_stripped_file_says_all_there_is_to_know)
{
    struct perl_binary b;
    uint16_t version[3];
    ck_assert(find("/usr/bin/perl", &b, version));
    ck_assert_uint_eq(version[0], 5);
    ck_assert_uint_ge(version[1], 32);
    ck_assert(b.loop_size[0] > 0 && b.loop_size[0] < 4096 && b.loop_size[1] > 0);
    ck_assert(b.key || (b.op && b.cop && b.stack && b.catches));
}

UNIT(another_program_is_not_perl)
{
    struct perl_binary b;
    uint16_t version[3];
    ck_assert(!find("/proc/self/exe", &b, version));
}
