/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/unit.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sender/collect/files.h"
#include "sender/symbolize/elf/elf.h"

static const struct binary_key self_key = {.inode = 5, .major = 8, .minor = 1};

static int open_self(void)
{
    int fd = open("/proc/self/exe", O_RDONLY);
    ck_assert_int_ge(fd, 0);
    return fd;
}

/* Where the code of this program is in its file, by the reader that names use. */
static void code(int fd, struct elf_segment *ret)
{
    struct source source;
    struct elf elf;
    ck_assert_int_eq(source_file(&source, fd), 0);
    ck_assert_int_eq(elf_read(&elf, &source), 0);
    ck_assert_uint_gt(elf.n_segments, 0);
    *ret = elf.segment[0];
}

UNIT(a_file_offset_becomes_an_address)
{
    struct files *f = unit_made(files_new());
    struct elf_segment g;
    uint64_t at = 0;
    int fd = open_self();
    code(fd, &g);
    ck_assert_uint_eq(files_find(f, &self_key), 0);
    uint32_t number = files_add(f, &self_key, fd, NULL);
    close(fd);
    ck_assert_uint_eq(files_find(f, &self_key), number);
    ck_assert(unit_made(files_get(f, number))->is_elf);
    ck_assert(files_address(f, number, g.file_offset + 16, &at));
    ck_assert_uint_eq(at, g.address + 16);
    ck_assert(!files_address(f, number, g.file_offset + g.file_size, &at));
    ck_assert(!files_address(f, number, 0, &at)); /* the headers are no code */
    ck_assert_ptr_null(files_get(f, number + 1));
    ck_assert_ptr_null(files_get(f, 0));
    files_free(f);
}

UNIT(what_is_no_elf_file_is_known_as_that_and_another_when_it_is_written_over)
{
    char path[UNIT_PATH_MAX];
    struct files *f = unit_made(files_new());
    int fd = unit_new_file(path, ""), self = open_self();
    uint64_t at;
    ck_assert_int_eq(write(fd, "#!/bin/sh\n", 10), 10);
    uint32_t number = files_add(f, &self_key, fd, NULL);
    ck_assert(!unit_made(files_get(f, number))->is_elf);
    ck_assert(!files_address(f, number, 0, &at));
    struct stat st;
    struct elf_segment g;
    code(self, &g);
    ck_assert_int_eq(fstat(self, &st), 0);
    char *bytes = malloc((size_t)st.st_size);
    ck_assert_int_eq(read(self, bytes, (size_t)st.st_size), st.st_size);
    ck_assert_int_eq(pwrite(fd, bytes, (size_t)st.st_size, 0), st.st_size);
    uint32_t second = files_check(f, number, fd, NULL);
    ck_assert(second != 0 && second != number);
    ck_assert(files_get(f, second)->is_elf);
    ck_assert(files_address(f, second, g.file_offset, &at));
    ck_assert_uint_eq(at, g.address);
    ck_assert_uint_eq(files_find(f, &self_key), second);
    ck_assert_int_eq(fchmod(fd, 0700), 0);
    ck_assert_uint_eq(files_check(f, second, fd, NULL), second);
    ck_assert(!files_get(f, number)->is_elf); /* what it was when it was met */
    for (uint32_t i = 0; i <= FILES_IDLE_WINDOWS; i++) {
        ck_assert(files_address(f, second, g.file_offset, &at));
        files_sweep(f);
    }
    ck_assert_ptr_null(files_get(f, number));
    ck_assert_uint_eq(files_find(f, &self_key), second);
    free(bytes);
    close(fd);
    close(self);
    unlink(path);
    files_free(f);
}

UNIT(a_file_without_samples_is_forgotten)
{
    struct files *f = unit_made(files_new());
    struct binary_key other = {.inode = 6};
    struct elf_segment g;
    uint64_t at;
    int fd = open_self();
    code(fd, &g);
    uint32_t number = files_add(f, &self_key, fd, NULL), second = files_add(f, &other, fd, NULL);
    close(fd);
    ck_assert(number && second);
    for (uint32_t i = 0; i <= FILES_IDLE_WINDOWS; i++) {
        ck_assert(files_address(f, number, g.file_offset, &at));
        files_sweep(f);
    }
    ck_assert_uint_eq(files_find(f, &self_key), number);
    ck_assert_uint_eq(files_find(f, &other), 0);
    ck_assert_ptr_null(files_get(f, second));
    files_free(f);
}

/* Adds files of a user's, and how many of them there was room for. */
static uint32_t add_files(struct files *f, int fd, uint32_t user, uint64_t first, uint32_t n)
{
    struct allowance all = {.left = INT64_MAX / 2}, of = {.left = INT64_MAX / 2, .from = &all, .user = user};
    uint32_t added = 0;
    for (uint32_t i = 0; i < n; i++)
        added += files_add(f, &(struct binary_key){.inode = first + i}, fd, &of) != 0;
    return added;
}

static uint32_t found(const struct files *f, uint64_t inode)
{
    return files_find(f, &(struct binary_key){.inode = inode});
}

UNIT(one_user_s_files_leave_others_room)
{
    struct files *f = unit_made(files_new());
    int fd = open("/dev/null", O_RDONLY);
    ck_assert_uint_eq(add_files(f, fd, 1000, 1, FILES_USER_MAX + 10), FILES_USER_MAX);
    ck_assert_uint_eq(add_files(f, fd, 1001, 100000, FILES_USER_MAX), FILES_USER_MAX);
    ck_assert_uint_eq(add_files(f, fd, 0, 200000, 1), 0); /* all are of this window, whose numbers hold */
    files_sweep(f);
    uint64_t at;
    unit_made(files_get(f, found(f, 1)));
    (void)files_address(f, found(f, 1), 0, &at);
    ck_assert_uint_eq(add_files(f, fd, 1000, 10000, 1), 1); /* in the place of one that has no sample yet */
    ck_assert(found(f, 1) && !found(f, 2) && found(f, 3) && found(f, 10000));
    ck_assert_uint_eq(add_files(f, fd, 0, 200000, 1), 1);
    ck_assert(found(f, 200000) && found(f, 1) && !found(f, 3));
    close(fd);
    files_free(f);
}
