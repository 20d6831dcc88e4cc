/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/unit.h"

#include <elf.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

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

/* What a program has in itself it need not export; a library would be of no use. */
UNIT(a_program_need_not_export_it)
{
    static const char name[] = "luaJIT_setmode";
    struct luajit_binary b;
    struct source source;
    autoclose int fd = open("/usr/bin/luajit", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        unit_skip("no LuaJIT here");
    ck_assert_int_eq(source_file(&source, fd), 0);
    autofree uint8_t *copy = malloc(source.size);
    ck_assert(copy && source_read(&source, 0, copy, source.size));
    for (uint8_t *at; (at = memmem(copy, source.size, name, sizeof name));)
        *at = 'L';
    struct source own = source_memory(bytes_of(copy, source.size));
    ck_assert(luajit_binary_find(&b, &own));
    const Elf64_Ehdr *header = (const Elf64_Ehdr *)copy;
    Elf64_Phdr *program = (Elf64_Phdr *)(copy + header->e_phoff);
    for (int i = 0; i < header->e_phnum; i++) {
        Elf64_Dyn *of = (Elf64_Dyn *)(copy + program[i].p_offset);
        for (size_t j = 0; program[i].p_type == PT_DYNAMIC && j < program[i].p_filesz / sizeof *of; j++)
            of[j].d_un.d_val &= of[j].d_tag == DT_FLAGS_1 ? ~(uint64_t)DF_1_PIE : ~0ull;
        if (program[i].p_type == PT_INTERP)
            program[i].p_type = PT_NULL;
    }
    ck_assert(!luajit_binary_find(&b, &own));
}

UNIT(another_program_is_not_luajit)
{
    struct luajit_binary b;
    struct source source;
    autoclose int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    ck_assert_int_eq(source_file(&source, fd), 0);
    ck_assert(!luajit_binary_find(&b, &source));
}
