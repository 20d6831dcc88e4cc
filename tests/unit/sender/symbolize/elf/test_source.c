/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/unit.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "proto/base/macros.h"
#include "sender/symbolize/elf/elf.h"
#include "sender/symbolize/elf/source.h"

UNIT(a_place_is_read_as_the_file_is)
{
    enum { AT_ONCE = 100000 };
    static uint8_t want[AT_ONCE], got[AT_ONCE];
    struct source s;
    autoclose int fd = open("/proc/self/exe", O_RDONLY), place = open("/proc/self/exe", O_PATH);
    ck_assert_int_eq(source_file(&s, place), 0);
    ck_assert(s.is_place);
    ck_assert_int_eq((off_t)s.size, lseek(fd, 0, SEEK_END));
    for (uint32_t i = 0; i < 300; i++) {
        uint64_t at = (uint64_t)random() % (s.size + 10);
        size_t n =
            1 + (size_t)random() % (i % 3 ? 300 : AT_ONCE); /* near each other, and too large for that */
        ssize_t there = pread(fd, want, n, (off_t)at);
        ck_assert_int_eq((ssize_t)source_read_some(&s, at, got, n), there);
        ck_assert_mem_eq(got, want, there);
    }
}

/* Reading of headers is dear by the call: ten times as many bytes as there are in them cost less. */
UNIT(a_file_s_headers_are_read_in_a_few_calls)
{
    struct source s;
    struct elf elf;
    struct allowance all = {.left = INT64_MAX};
    autoclose int fd = open("/proc/self/exe", O_RDONLY);
    ck_assert_int_eq(source_file(&s, fd), 0);
    s.allowance = &all;
    ck_assert_int_eq(elf_read(&elf, &s), 0);
    ck_assert_int_lt(all.charged, 16 * (ALLOWANCE_CALL + SOURCE_PAGE));
}

UNIT(a_process_s_pages_are_read_once)
{
    enum { PAGES = SOURCE_PAGES + 3 };
    static struct source_pages pages;
    uint8_t got[300], *memory = mmap(NULL, (PAGES + 1) * SOURCE_PAGE, PROT_READ | PROT_WRITE,
                                     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(memory, MAP_FAILED);
    ck_assert_int_eq(munmap(memory + PAGES * SOURCE_PAGE, SOURCE_PAGE), 0);
    for (uint32_t i = 0; i < PAGES * SOURCE_PAGE; i++)
        memory[i] = (uint8_t)random();
    autoclose int fd = open("/proc/self/mem", O_RDONLY);
    struct source s = source_process(fd, getuid(), NULL, &pages);
    for (uint32_t i = 0; i < 2000; i++) { /* some reach into the next page, some behind the last one */
        uint64_t at = (uint64_t)random() % (PAGES * SOURCE_PAGE);
        size_t n = 1 + (size_t)random() % sizeof got, there = min_of(n, (size_t)(PAGES * SOURCE_PAGE - at));
        ck_assert_uint_eq(source_read_some(&s, (uint64_t)(uintptr_t)memory + at, got, n), there);
        ck_assert_mem_eq(got, memory + at, there);
    }
    pages.n = 0;
    memory[0] = 1;
    ck_assert(source_read(&s, (uint64_t)(uintptr_t)memory, got, 1) && got[0] == 1);
    memory[0] = memory[1] = 2;
    ck_assert(source_read(&s, (uint64_t)(uintptr_t)memory, got, 2) && got[0] == 1);
    pages.n = 0;
    ck_assert(source_read(&s, (uint64_t)(uintptr_t)memory, got, 2) && got[0] == 2 && got[1] == 2);
    munmap(memory, PAGES * SOURCE_PAGE);
}

UNIT(what_is_kept_of_a_place_is_not_another_file_s)
{
    char path[UNIT_PATH_MAX], text[2];
    struct source s;
    int fd = unit_new_file(path, "a");
    for (char c = 'a'; c < 'd'; c++) {
        ck_assert_int_eq(pwrite(fd, &c, 1, 0), 1);
        ck_assert_int_eq(ftruncate(fd, c), 0);
        autoclose int place = open(path, O_PATH);
        ck_assert_int_eq(source_file(&s, place), 0);
        ck_assert(source_read(&s, 0, text, 2) && text[0] == c);
    }
    close(fd);
    unlink(path);
}
