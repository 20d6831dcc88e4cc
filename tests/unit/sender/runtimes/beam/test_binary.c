/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/unit.h"

#include <fcntl.h>
#include <glob.h>

#include "proto/base/macros.h"
#include "sender/runtimes/beam/binary.h"

static bool find(const char *path, struct beam_binary *binary)
{
    struct source source;
    autoclose int fd = open(path, O_RDONLY | O_CLOEXEC);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(source_file(&source, fd), 0);
    return beam_binary_find(binary, &source);
}

UNIT(a_stripped_emulator_says_all_there_is_to_know)
{
    struct beam_binary b;
    glob_t found;
    if (glob("/usr/lib/erlang/erts-*/bin/beam.smp", 0, NULL, &found) != 0)
        unit_skip("no Erlang here");
    ck_assert(find(found.gl_pathv[0], &b));
    ck_assert_uint_ge(b.version[0], 13);
    ck_assert(b.start < b.text && b.text + b.text_size < b.end && b.n_data >= 1 && b.data[0].size > 0);
    globfree(&found);
}

UNIT(another_program_is_no_emulator)
{
    struct beam_binary b;
    ck_assert(!find("/proc/self/exe", &b));
    ck_assert(beam_is_code(bytes_str("/memfd:vmem (deleted)")) && !beam_is_code(bytes_str("/memfd:other")));
}
