/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/unit.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "proto/base/macros.h"
#include "sender/symbolize/elf/blocks.h"

static struct blocks blocks;

static int temporary_file(const char *text)
{
    char path[] = "/tmp/unit-blocks-XXXXXX";
    int fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    unlink(path);
    ck_assert_int_eq(pwrite(fd, text, strlen(text), 0), (ssize_t)strlen(text));
    return fd;
}

/* Two at once: neither is taken for the other. */
UNIT(by_blocks_files_are_what_they_are)
{
    enum { AT_ONCE = 3 * BLOCKS_SIZE };
    static uint8_t got[AT_ONCE], want[AT_ONCE];
    struct blocks_reader reader[2];
    struct source s, by[2];
    int fd[2] = {open("/proc/self/exe", O_RDONLY), open("/bin/sh", O_RDONLY)};
    blocks_begin(&blocks);
    for (uint32_t i = 0; i < 2; i++) {
        ck_assert_int_eq(source_file(&s, fd[i]), 0);
        by[i] = blocks_source(&blocks, &reader[i], &s);
        ck_assert_int_eq(by[i].fd, fd[i]); /* whose it is can still be asked */
        ck_assert(!source_is_memory(&by[i]));
    }
    for (uint32_t i = 0; i < 5000; i++) { /* some go on in the next block, some end the file */
        uint64_t from = i % 4 < 2 ? by[i % 2].size - 2 * BLOCKS_SIZE : 0;
        uint64_t at = from + (uint64_t)random() % (3 * BLOCKS_SIZE);
        size_t n = 1 + (size_t)random() % (i % 5 ? 300 : AT_ONCE);
        ssize_t there = pread(fd[i % 2], want, n, (off_t)at);
        ck_assert_int_eq((ssize_t)source_read_some(&by[i % 2], at, got, n), there);
        ck_assert_mem_eq(got, want, there);
    }
    s = blocks_source(&blocks, &reader[1], &by[0]); /* once is enough */
    ck_assert_ptr_eq(s.of, by[0].of);
    close(fd[0]);
    close(fd[1]);
}

UNIT(a_block_is_read_once)
{
    struct blocks_reader reader;
    struct source s, by;
    uint64_t word;
    struct allowance all = {.left = INT64_MAX};
    autoclose int fd = open("/proc/self/exe", O_RDONLY);
    ck_assert_int_eq(source_file(&s, fd), 0);
    s.allowance = &all;
    blocks_begin(&blocks);
    by = blocks_source(&blocks, &reader, &s);
    for (uint64_t i = 0; i < 1000; i++)
        ck_assert(source_read(&by, i * sizeof word * 37 % (4 * BLOCKS_SIZE - 7), &word, sizeof word));
    ck_assert_int_eq(all.charged, 4 * (ALLOWANCE_CALL + BLOCKS_SIZE));
}

/* Nor is what could not be had taken for the file's end. */
UNIT(what_an_allowance_does_not_reach_is_read_when_there_is_some_again)
{
    struct blocks_reader reader;
    struct source s, by;
    char got[4];
    struct allowance all = {.left = 0};
    autoclose int fd = temporary_file("text");
    ck_assert_int_eq(source_file(&s, fd), 0);
    s.allowance = &all;
    blocks_begin(&blocks);
    by = blocks_source(&blocks, &reader, &s);
    ck_assert(!source_read(&by, 0, got, sizeof got));
    all.left = 1 << 20;
    ck_assert(source_read(&by, 0, got, sizeof got));
    ck_assert_mem_eq(got, "text", 4);
}

UNIT(what_was_begun_anew_is_as_it_is_then)
{
    struct blocks_reader reader;
    struct source s, by;
    char got[4];
    autoclose int fd = temporary_file("text");
    ck_assert_int_eq(source_file(&s, fd), 0);
    blocks_begin(&blocks);
    by = blocks_source(&blocks, &reader, &s);
    ck_assert(source_read(&by, 0, got, sizeof got));
    ck_assert_int_eq(pwrite(fd, "next", 4, 0), 4);
    ck_assert(source_read(&by, 0, got, sizeof got));
    ck_assert_mem_eq(got, "text", 4);
    blocks_begin(&blocks);
    ck_assert(source_read(&by, 0, got, sizeof got));
    ck_assert_mem_eq(got, "next", 4);
}

UNIT(memory_and_what_has_no_blocks_is_as_it_is)
{
    struct blocks_reader reader;
    struct source memory = source_memory(BYTES_LIT("memory")), s;
    autoclose int fd = open("/proc/self/exe", O_RDONLY);
    ck_assert_int_eq(source_file(&s, fd), 0);
    blocks_begin(&blocks);
    struct source by = blocks_source(&blocks, &reader, &memory);
    ck_assert(source_is_memory(&by));
    by = blocks_source(NULL, &reader, &s);
    ck_assert(!by.read);
}
